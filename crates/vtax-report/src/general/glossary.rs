//! Words of every report.

/// Words with what they mean, for people who know no statistics.
pub(super) const WORDS: [(&str, &str); 18] = [
    ("environment", "How the service is hosted: native, in a container, in a virtual machine."),
    ("baseline", "What the others are compared with: an environment, or a path or a service in it."),
    (
        "tax",
        "The candidate's cost over the baseline's, as a ratio: 1.05x is 5 % more CPU time or latency, or 5 % less capacity.",
    ),
    (
        "trial",
        "One measurement from building the testbed to taking it down. Statistics count trials, not requests.",
    ),
    (
        "typical value",
        "The median over valid trials: half of them found more, half less. A tax is not the ratio of two medians: it compares trials of one round.",
    ),
    (
        "round",
        "A trial of each environment, one shortly after the other in random order. What disturbs all of a round alike is in none of its ratios.",
    ),
    (
        "95 % interval",
        "Made so that in 95 of 100 repetitions of the whole run it holds the true value. For values: between two of the trials, ordered by size; below 6 trials all of them, and Student's t. It is wider where each trial resembles the one before, or where a figure is only known to a bracket. It may then reach beyond every trial, but not to what can't be: no time is below 0, no share above 1. For taxes: Student's t over the rounds' ratios; below six rounds, where ten comparisons of a metric are read together, each one's scatter is judged with that of the others.",
    ),
    ("margin", "How large a tax may be and still count as none; the plan sets it."),
    ("equivalent", "The whole interval lies within the margin."),
    ("worse, better", "The whole interval lies above, or below, 1 and reaches beyond the margin."),
    ("can't tell", "Anything else; the reason stands beside it."),
    (
        "corrected",
        "Several comparisons that are read together give chance several tries. Verdicts are read off wider intervals, after Hommel, so that even one false claim among them happens in at most 5 of 100 runs.",
    ),
    (
        "drifted",
        "The order of trials explains their values: the machine changed on the way, and the verdict would depend on when one looks.",
    ),
    (
        "capacity",
        "The highest rate of an open loop that keeps to the plan's limits, searched for as a bracket; shown is its geometric middle.",
    ),
    (
        "open loop",
        "Requests start at times that don't depend on the answers; latency counts from the intended start, so a late answer delays nobody's clock.",
    ),
    (
        "closed loop",
        "Each connection sends its next request when the last is answered. Never compared with an open loop.",
    ),
    ("goodput", "Successful answers per second."),
    (
        "TCG, KVM",
        "How QEMU runs a guest: TCG translates its instructions in software, KVM lets the processor run them. TCG's taxes are those of emulation.",
    ),
];
