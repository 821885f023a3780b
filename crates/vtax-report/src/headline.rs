//! The verdict in one sentence.

use vtax_store::summary::{Comparison, Verdict};

use crate::chapter::Chapter;
use crate::data::RunData;
use crate::families::{metrics, named};
use crate::format::{tax, tax_range};
use crate::words::word;

/// The verdict in one sentence, on the first primary metric that was measured.
pub(crate) fn headline(data: &RunData, comparisons: &[Comparison], chapters: &[Box<dyn Chapter>]) -> String {
    let Some(metric) =
        metrics().filter(|m| m.primary).map(|m| m.name).find(|m| comparisons.iter().any(|c| c.metric == *m))
    else {
        return match data.trials.is_empty() {
            true => "Nothing was measured yet.".to_owned(),
            false => {
                "There is nothing to compare: no environment and its baseline were both measured.".to_owned()
            }
        };
    };
    let found: Vec<&Comparison> = comparisons.iter().filter(|c| c.metric == metric).collect();
    if let Some(told) = chapters.iter().find_map(|c| c.headline(data, metric, &found)) {
        return told;
    }
    let label = named(metric).map_or(metric, |m| m.label);
    let baselines = data.environments(found.iter().map(|c| c.baseline.as_str()));
    let candidates = data.environments(found.iter().map(|c| c.cell.as_str()));
    let parts: Vec<String> = candidates
        .iter()
        .map(|name| {
            let own: Vec<&&Comparison> =
                found.iter().filter(|c| data.spelt_out(&c.cell).as_ref() == Some(name)).collect();
            match own.as_slice() {
                [one] => format!("{name} {}", cost(one, label)),
                several => format!("{name} {}", costs(several, label)),
            }
        })
        .collect();
    format!("Against {}: {}.", baselines.join(" and "), parts.join("; "))
}

/// `costs 1.02x in capacity (0.98–1.06, equivalent)`.
fn cost(c: &Comparison, label: &str) -> String {
    match (c.tax, c.interval, c.at_least, c.at_most) {
        (Some(t), Some((low, high)), ..) => match c.verdict {
            Verdict::Inconclusive => {
                format!("can't be told apart in {label} ({}, {})", tax(t), tax_range(low, high))
            }
            v => format!("costs {} in {label} ({}, {})", tax(t), tax_range(low, high), word(v)),
        },
        (_, _, Some(least), _) if c.verdict == Verdict::Worse => {
            format!("costs at least {} in {label} (worse)", tax(least))
        }
        (_, _, _, Some(most)) if c.verdict == Verdict::Better => {
            format!("costs at most {} in {label} (better)", tax(most))
        }
        (Some(t), None, ..) => format!("perhaps {} in {label} ({})", tax(t), c.reason),
        _ => format!("can't be judged in {label} ({})", c.reason),
    }
}

/// `costs 1.01x to 1.05x in capacity over 6 combinations (5 equivalent, 1 can't tell)`.
fn costs(several: &[&&Comparison], label: &str) -> String {
    let taxes: Vec<f64> = several.iter().filter_map(|c| c.tax.or(c.at_least).or(c.at_most)).collect();
    let words = [Verdict::Worse, Verdict::Equivalent, Verdict::Better, Verdict::Inconclusive];
    let counts: Vec<String> = words
        .iter()
        .map(|v| (several.iter().filter(|c| c.verdict == *v).count(), word(*v)))
        .filter(|(n, _)| *n > 0)
        .map(|(n, w)| format!("{n} {w}"))
        .collect();
    let counts = format!("over {} combinations ({})", several.len(), counts.join(", "));
    match (taxes.iter().copied().reduce(f64::min), taxes.iter().copied().reduce(f64::max)) {
        (Some(low), Some(high)) if tax(low) == tax(high) => {
            format!("costs {} in {label} {counts}", tax(low))
        }
        (Some(low), Some(high)) => format!("costs {} to {} in {label} {counts}", tax(low), tax(high)),
        _ => format!("can't be judged in {label} {counts}"),
    }
}
