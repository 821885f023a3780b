//! A verdict in words for people who know no statistics.

use vtax_stats::Margin;
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
        let ends = |(l, h): (f64, f64)| sorted(own(l), own(h));
        said.push(seen(own(t), c.interval.map(ends), &judged_by(c, ends), &candidate));
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

/// The interval that the verdict was read off, where it isn't that of the comparison alone.
fn wider(c: &Comparison) -> Option<(f64, f64)> {
    c.corrected.filter(|corrected| c.interval.is_some_and(|alone| alone != *corrected))
}

/// What is said of that interval behind the one of the comparison alone, so that nobody finds two and no word why; `ends` has it as the
/// metric's own ratios.
fn judged_by(c: &Comparison, ends: impl Fn((f64, f64)) -> (f64, f64)) -> String {
    let Some((low, high)) = wider(c).map(ends) else { return String::new() };
    let whom = match c.family {
        Some(n) if n > 1 => {
            format!("as one of {n} comparisons that are read together, where chance has {n} tries,")
        }
        _ => "judged more strictly,".to_owned(),
    };
    let goes = match c.doubt {
        None | Some(Doubt::TooWide | Doubt::ManyComparisons) => ", by which the verdict goes",
        Some(_) => "",
    };
    format!("; {whom} from {} to {}{goes}", end(low, change), end(high, change))
}

/// Without the metric's name, which the sentence before has: not every one can stand before a verb (`latency, median`).
/// `judged_by` ends the sentence.
fn seen(ratio: f64, interval: Option<(f64, f64)>, judged_by: &str, candidate: &str) -> String {
    let Some((low, high)) = interval else {
        return format!("The figure of {candidate} seemed {}.", change(ratio));
    };
    format!(
        "The figure of {candidate} was {}; trials vary, so the true difference may be anything from {} to {} (95 of 100 such \
         statements are right){judged_by}.",
        change(ratio),
        end(low, change),
        end(high, change)
    )
}

fn meaning(data: &RunData, c: &Comparison, candidate: &str, baseline: &str) -> String {
    let margin = tick(data.plan.margin.0, "1");
    // With a tax, what was seen says so.
    let family = match (c.family, wider(c)) {
        (Some(n), Some(_)) if n > 1 && c.tax.is_none() => {
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
        Verdict::Worse => {
            format!("Even the end nearest to {baseline} is a difference: {candidate} really costs more.")
        }
        Verdict::Better => {
            format!("Even the end nearest to {baseline} is a difference: {candidate} really costs less.")
        }
        Verdict::Equivalent => format!(
            "All of that is within the {margin} that the plan counts as no difference, so the two are equal for \
             its purpose."
        ),
        Verdict::Inconclusive => unknown(c, data.plan.margin.0),
    }
}

/// What made a tax a bound: what its reason says behind `a lower bound: `.
fn why_bound(reason: &str) -> &str {
    reason.split_once("bound: ").map_or(reason, |(_, why)| why)
}

/// Why it can't be told with that margin, and what would help.
fn unknown(c: &Comparison, margin: f64) -> String {
    match c.doubt {
        Some(Doubt::TooWide) => {
            let help = c.reason.rsplit("; ").next().unwrap_or_default();
            format!("That holds both no difference and one that matters, so nobody can tell yet: {help}.")
        }
        Some(Doubt::ManyComparisons) => {
            let n = c.family.unwrap_or_default();
            let is_equal = c.interval.is_some_and(|alone| Margin::new(margin).contains(alone));
            let what = if is_equal { "equal" } else { "a difference" };
            let help = c.reason.split_once("; ").map_or_else(String::new, |(_, what)| format!("; {what}"));
            format!(
                "Alone it would count as {what}. But among {n} comparisons one looks like this by chance too easily{help}."
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
        assert_eq!(seen(0.975, None, "", "vm (TCG)"), "The figure of vm (TCG) seemed 2.5 % lower.");
        let said = seen(0.975, Some((0.95, 1.002)), "", "vm (TCG)");
        let begin = "The figure of vm (TCG) was 2.5 % lower; trials vary, so the true difference may be anything from \
                     5.0 % lower to 0.2 % higher (";
        assert!(said.starts_with(begin), "{said}");
    }

    #[test]
    fn more_trials_are_asked_for_only_where_they_would_tell() {
        let said = |reason: &str| {
            let (doubt, reason) = (Some(Doubt::ManyComparisons), reason.to_owned());
            unknown(&Comparison { family: Some(9), doubt, reason, ..Comparison::default() }, 0.05)
        };
        assert!(said("it may be chance; more would not tell").ends_with("too easily; more would not tell."));
        assert!(said("it may be chance").ends_with("by chance too easily."));
    }

    #[test]
    fn what_would_count_alone_is_named() {
        let said = |interval| {
            let (doubt, interval) = (Some(Doubt::ManyComparisons), Some(interval));
            unknown(&Comparison { family: Some(4), doubt, interval, ..Comparison::default() }, 0.05)
        };
        assert!(said((0.98, 1.03)).starts_with("Alone it would count as equal. But among 4 comparisons "));
        assert!(said((1.01, 1.30)).starts_with("Alone it would count as a difference. But among 4 "));
    }

    /// One range stood in the sentence and another in the verdict's reason.
    #[test]
    fn the_range_that_the_verdict_goes_by_is_told_where_it_is_another() {
        let alone = Comparison {
            interval: Some((1.05, 1.2)),
            corrected: Some((1.02, 1.3)),
            family: Some(8),
            ..Comparison::default()
        };
        let said = |c: &Comparison| judged_by(c, |ends| ends);
        assert_eq!(
            said(&alone),
            "; as one of 8 comparisons that are read together, where chance has 8 tries, from 2.0 % higher to 30 % higher, by which \
             the verdict goes"
        );
        let drifted = Comparison { doubt: Some(Doubt::Drifted), ..alone.clone() };
        assert!(said(&drifted).ends_with("from 2.0 % higher to 30 % higher"), "{}", said(&drifted));
        let only = Comparison { family: Some(1), ..alone.clone() };
        assert!(said(&only).starts_with("; judged more strictly, from 2.0 % higher"), "{}", said(&only));
        assert_eq!(said(&Comparison { corrected: alone.interval, ..alone.clone() }), "");
        assert_eq!(said(&Comparison { corrected: None, ..alone }), "");
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
