//! Provenance, how to repeat the run, and the words of the page.

use crate::format::{quantity, utc};
use crate::markup::Markup;
use crate::report::Report;

pub(super) fn provenance(report: &Report) -> Markup {
    let p = &report.data.provenance;
    let mut list = List(Markup::new());
    list.0.open("dl", &[]);
    let commit = p.vtax_commit.as_ref().map_or_else(String::new, |c| format!(" ({c})"));
    list.put("vtax", &format!("{}{commit}", p.vtax_version));
    list.put("started", &utc(p.started_unix_ms));
    list.put("ended", &p.ended_unix_ms.map_or_else(|| "not complete".to_owned(), utc));
    list.put("seed", &p.seed.to_string());
    let h = &p.host;
    list.put("processor", &format!("{}, {} CPUs", h.cpu_model, h.cpus));
    if let Some(threads) = h.threads_per_core.filter(|t| *t > 1) {
        list.put("threads per core", &format!("{threads}: neighbours share a core"));
    }
    list.put("memory", &quantity(h.memory_bytes as f64, "B"));
    list.put("system", &format!("{}, Linux {} {}", h.distribution, h.kernel, h.architecture));
    list.put("itself in", h.virtualization.as_deref().unwrap_or_default());
    list.put("frequency governor", h.governor.as_deref().unwrap_or_default());
    if let Some([a, b, c]) = h.load_average {
        list.put("load at the start", &format!("{a:.2}, {b:.2}, {c:.2} over 1, 5 and 15 minutes"));
    }
    if let Some(a) = &p.accelerator {
        list.put("accelerator", &format!("{}: {}", a.kind.to_uppercase(), a.reason));
    }
    for (name, program) in [("QEMU", &p.qemu), ("container runtime", &p.container_runtime)] {
        if let Some(program) = program {
            list.put(name, &program.version);
            list.code(&format!("{name}, command"), &shell(&program.command));
        }
    }
    for (cell, program) in &p.services {
        list.put(&format!("service in {cell}"), &program.version);
        list.code(&format!("service in {cell}, command"), &shell(&program.command));
    }
    for (name, node) in &p.nodes {
        let memory = quantity(node.memory_bytes as f64, "B");
        list.put(&format!("node {name}"), &format!("Linux {}, {} CPUs, {memory}", node.kernel, node.cpus));
    }
    for (prefix, facts) in
        [("limit on ", &p.limits), ("package ", &p.packages), ("variable ", &p.environment), ("", &p.facts)]
    {
        for (name, value) in facts {
            list.put(&format!("{prefix}{name}"), value);
        }
    }
    list.0.close("dl");
    list.0
}

struct List(Markup);

impl List {
    fn put(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.0.element("dt", &[], name).element("dd", &[], value);
        }
    }

    fn code(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.0.element("dt", &[], name);
            self.0.open("dd", &[]).element("code", &[], value).close("dd");
        }
    }
}

pub(super) fn repeat(report: &Report) -> Markup {
    let p = &report.data.provenance;
    let directory = report.run.path().display().to_string();
    let mut m = Markup::new();
    m.element(
        "p",
        &[],
        "The same plan with the same seed gives the same order of trials and the same arrivals:",
    );
    let command = match p.command_line.is_empty() {
        false => shell(&p.command_line),
        true => format!("vtax run {}", quote(p.plan_file.as_deref().unwrap_or("PLAN.yaml"))),
    };
    m.element("pre", &[("tabindex", "0")], &command);
    m.element("p", &[], "Go on where a run was cut short, or write this report again:");
    let again = format!("vtax run --resume {d}\nvtax report {d}", d = quote(&directory));
    m.element("pre", &[("tabindex", "0")], &again);
    m.fixed("<p>Everything this page shows is in the run directory: <code>summary.json</code> for scripts, <code>trials/</code> with histograms, probes and, where the plan asked for them, every single request.</p>");
    m
}

/// Words joined so that a POSIX shell takes them apart again.
pub(super) fn shell(words: &[String]) -> String {
    words.iter().map(|w| quote(w)).collect::<Vec<_>>().join(" ")
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

const WORDS: [(&str, &str); 18] = [
    ("environment", "How the service is hosted: native, in a container, in a virtual machine."),
    ("baseline", "The environment the others are compared with."),
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
        "Made so that in 95 of 100 repetitions of the whole run it holds the true value. For values: two of the trials, ordered by size (all of them, and Student's t, below 6). For taxes: Student's t over the rounds' ratios.",
    ),
    ("margin", "How large a tax may be and still count as none; the plan sets it."),
    ("equivalent", "The whole interval lies within the margin."),
    ("worse, better", "The whole interval lies above, or below, 1 and reaches beyond the margin."),
    ("can't tell", "Anything else; the reason stands beside it."),
    (
        "corrected",
        "Several comparisons that are read together give chance several tries. Verdicts are read off wider intervals, after Holm, so that even one false claim among them happens in at most 5 of 100 runs.",
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

/// Words of the section about faults.
const FAULT_WORDS: [(&str, &str); 7] = [
    ("fault", "Something broken on purpose while a load is held: a host killed or frozen, a link cut."),
    (
        "failover",
        "Another host takes over: the time from the failure until somebody answers again, and what gets lost in it.",
    ),
    (
        "primary, secondary",
        "The host that runs the guest, and the one that keeps a copy of it in the same state and could go on.",
    ),
    (
        "checkpoint",
        "The moment at which the copy is brought up to date: the guest is stopped, what it changed is copied, it goes on.",
    ),
    (
        "dirty page",
        "A page of memory, 4 KiB, that was changed since the last checkpoint and has to be copied.",
    ),
    (
        "fencing",
        "Making sure that a host that is believed dead is, before another takes over: one that only hung would wake up and answer too.",
    ),
    ("split brain", "Two guests that both believe to be the one: what fencing prevents."),
];

pub(super) fn glossary(report: &Report) -> Markup {
    let faults = if report.ft().is_empty() { &[][..] } else { &FAULT_WORDS[..] };
    let mut m = Markup::new();
    m.open("dl", &[("class", "words")]);
    for (word, meaning) in WORDS.iter().chain(faults) {
        m.element("dt", &[], word).element("dd", &[], meaning);
    }
    m.close("dl");
    m
}
