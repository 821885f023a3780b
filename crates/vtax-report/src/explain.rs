//! A verdict in words for people who know no statistics.

use vtax_store::summary::{Better, Comparison, Doubt, Verdict};

use crate::data::RunData;
use crate::families::named;
use crate::format::{end, tick};
use crate::metric::LIFECYCLE;

/// What was compared, what was seen, what it means and how sure that is, in two or three sentences.
pub(crate) fn explain(data: &RunData, c: &Comparison) -> String {
    let name = |id: &str| data.cell(id).map_or_else(|| id.to_owned(), |cell| data.environment_label(cell));
    let (candidate, baseline) = (name(&c.cell), name(&c.baseline));
    let info = named(&c.metric);
    let label = info.map_or(c.metric.as_str(), |m| m.label);
    let higher = info.is_some_and(|m| m.better == Better::Higher);
    // The metric's own ratio, which readers can check against the two values; the tax turns it around
    // where more is better.
    let own = |t: f64| if higher { 1.0 / t } else { t };
    let mut said = vec![compared(data, c, &candidate, &baseline, label)];
    if let Some(t) = c.tax {
        said.push(seen(own(t), c.interval.map(|(l, h)| sorted(own(l), own(h))), &candidate));
    }
    if let Some(apart) = c.levels {
        said.push(format!(
            "Trials come out on two levels here, one up to {}, and few of them may have missed one; the figures allow for that.",
            change(apart)
        ));
    }
    said.push(meaning(data, c, &candidate, &baseline));
    said.join(" ")
}

fn sorted(a: f64, b: f64) -> (f64, f64) {
    (a.min(b), a.max(b))
}

fn compared(data: &RunData, c: &Comparison, candidate: &str, baseline: &str, label: &str) -> String {
    let duet = data.plan.measures.iter().any(|m| m.name == c.measure && data.plan.is_duet(m));
    let how = match (c.rounds, duet) {
        (Some(n), true) => format!("in {n} pairs of trials that ran at the same time"),
        (Some(n), false) => format!("in {n} rounds, each with a trial of both shortly after each other"),
        (None, _) => {
            let n = |cell: &str| data.metric(cell, &c.measure, &c.metric).len();
            format!("with {} against {} trials", n(&c.cell), n(&c.baseline))
        }
    };
    let own = c.measure == LIFECYCLE || label.split(',').next() == Some(c.measure.as_str());
    let measure = if own { String::new() } else { format!(" ({})", c.measure) };
    format!("{candidate} was compared with {baseline} in {label}{measure} {how}.")
}

/// Without the metric's name, which the sentence before has: not every one can stand before a verb (`latency, median`).
fn seen(ratio: f64, interval: Option<(f64, f64)>, candidate: &str) -> String {
    let Some((low, high)) = interval else {
        return format!("The figure of {candidate} seemed {}.", change(ratio));
    };
    format!(
        "The figure of {candidate} was {}; trials vary, so the true difference may be anything from {} to {} (95 of 100 such \
         statements are right).",
        change(ratio),
        end(low, change),
        end(high, change)
    )
}

fn meaning(data: &RunData, c: &Comparison, candidate: &str, baseline: &str) -> String {
    let margin = tick(data.plan.margin.0, "1");
    let family = match (c.family, c.corrected, c.interval) {
        (Some(n), Some(a), Some(b)) if n > 1 && a != b => {
            format!(" That holds although {n} comparisons are read together, where chance has {n} tries.")
        }
        _ => String::new(),
    };
    match c.verdict {
        Verdict::Worse if c.tax.is_none() => {
            format!("{candidate} costs more: how much can't be said, as {}.{family}", why_bound(&c.reason))
        }
        Verdict::Better if c.tax.is_none() => {
            format!("{candidate} costs less: how much can't be said, as {}.{family}", why_bound(&c.reason))
        }
        Verdict::Worse => format!(
            "Even the end nearest to {baseline} is a difference: {candidate} really costs more.{family}"
        ),
        Verdict::Better => format!(
            "Even the end nearest to {baseline} is a difference: {candidate} really costs less.{family}"
        ),
        Verdict::Equivalent => format!(
            "All of that is within the {margin} that the plan counts as no difference, so the two are equal for \
             its purpose.{family}"
        ),
        Verdict::Inconclusive => unknown(c),
    }
}

/// What made a tax a bound: what its reason says behind `a lower bound: `.
fn why_bound(reason: &str) -> &str {
    reason.split_once("bound: ").map_or(reason, |(_, why)| why)
}

/// Why it can't be told, and what would help.
fn unknown(c: &Comparison) -> String {
    match c.doubt {
        Some(Doubt::TooWide) => {
            let help = c.reason.rsplit("; ").next().unwrap_or_default();
            format!("That holds both no difference and one that matters, so nobody can tell yet: {help}.")
        }
        Some(Doubt::ManyComparisons) => {
            let n = c.family.unwrap_or_default();
            let help = c.reason.split_once("; ").map_or_else(String::new, |(_, what)| format!("; {what}"));
            format!(
                "Alone that would count. But {n} comparisons are read together, and among so many one looks like this \
                 by chance too easily{help}."
            )
        }
        _ => format!("It can't be told: {}.", c.reason),
    }
}

/// `12 % higher`, `4 % lower`, `18 times as high`, `1/18 as high`, `the same`.
fn change(ratio: f64) -> String {
    match ratio {
        r if r >= 2.0 => format!("{} times as high", times(r)),
        r if r <= 0.5 => format!("1/{} as high", times(1.0 / r)),
        r if (r - 1.0).abs() < 0.000_5 => "the same".to_owned(),
        r if r > 1.0 => format!("{} % higher", share(r - 1.0)),
        r => format!("{} % lower", share(1.0 - r)),
    }
}

fn times(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

fn share(v: f64) -> String {
    let percent = v * 100.0;
    if percent >= 9.95 { format!("{percent:.0}") } else { format!("{percent:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_explained_by_its_reason() {
        assert_eq!(why_bound("a lower bound: it was never driven"), "it was never driven");
        assert_eq!(why_bound("an upper bound: too much of it"), "too much of it");
    }

    #[test]
    fn what_was_seen_needs_no_name_of_a_metric() {
        assert_eq!(seen(0.975, None, "vm (TCG)"), "The figure of vm (TCG) seemed 2.5 % lower.");
        let said = seen(0.975, Some((0.95, 1.002)), "vm (TCG)");
        let begin = "The figure of vm (TCG) was 2.5 % lower; trials vary, so the true difference may be anything from \
                     5.0 % lower to 0.2 % higher (";
        assert!(said.starts_with(begin), "{said}");
    }

    #[test]
    fn more_trials_are_asked_for_only_where_they_would_tell() {
        let said = |reason: &str| {
            let (doubt, reason) = (Some(Doubt::ManyComparisons), reason.to_owned());
            unknown(&Comparison { family: Some(9), doubt, reason, ..Comparison::default() })
        };
        assert!(said("it may be chance; more would not tell").ends_with("too easily; more would not tell."));
        assert!(said("it may be chance").ends_with("by chance too easily."));
    }

    #[test]
    fn changes_read_as_people_say_them() {
        for (ratio, text) in [
            (1.12, "12 % higher"),
            (0.962, "3.8 % lower"),
            (18.04, "18 times as high"),
            (0.05, "1/20 as high"),
            (2.345, "2.3 times as high"),
            (1.000_1, "the same"),
        ] {
            assert_eq!(change(ratio), text);
        }
    }
}
