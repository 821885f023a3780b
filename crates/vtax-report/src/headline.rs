//! The verdict in one sentence.

use vtax_store::summary::{Comparison, Verdict};

use crate::data::RunData;
use crate::format::{tax, tax_range};
use crate::metric::{self, METRICS};

/// The word for a verdict.
pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Equivalent => "equivalent",
        Verdict::Inconclusive => "can't tell",
    }
}

/// The verdict in one sentence, on the first primary metric that was measured.
pub(crate) fn headline(data: &RunData, comparisons: &[Comparison]) -> String {
    let Some(metric) = METRICS
        .iter()
        .filter(|m| m.primary)
        .map(|m| m.name)
        .find(|m| comparisons.iter().any(|c| c.metric == *m))
    else {
        return match data.trials.is_empty() {
            true => "Nothing was measured yet.".to_owned(),
            false => {
                "There is nothing to compare: no environment and its baseline were both measured.".to_owned()
            }
        };
    };
    let found: Vec<&Comparison> = comparisons.iter().filter(|c| c.metric == metric).collect();
    if metric == "tcp_goodput" {
        return paths(data, &found);
    }
    let label = metric::named(metric).map_or(metric, |m| m.label);
    let baselines = names(data, found.iter().map(|c| c.baseline.as_str()));
    let candidates = names(data, found.iter().map(|c| c.cell.as_str()));
    let parts: Vec<String> = candidates
        .iter()
        .map(|name| {
            let own: Vec<&&Comparison> =
                found.iter().filter(|c| environment(data, &c.cell).as_ref() == Some(name)).collect();
            match own.as_slice() {
                [one] => format!("{name} {}", cost(one, label)),
                several => format!("{name} {}", costs(several, label)),
            }
        })
        .collect();
    format!("Against {}: {}.", baselines.join(" and "), parts.join("; "))
}

/// The most telling of the transfers that were compared, as its measure is called: that of the study's
/// largest window, else the plan's last.
pub(crate) fn telling<'a>(data: &'a RunData, transfers: &[&Comparison]) -> Option<&'a str> {
    let tests: Vec<&str> = data.measures().filter(|m| transfers.iter().any(|c| c.measure == *m)).collect();
    tests.iter().rev().find(|m| m.ends_with("window-64K")).or(tests.last()).copied()
}

/// Many paths in one sentence: the best and the worst of them, in the most telling test.
fn paths(data: &RunData, all: &[&Comparison]) -> String {
    let test = telling(data, all).unwrap_or_default();
    let found: Vec<&Comparison> = all.iter().copied().filter(|c| c.measure == test).collect();
    let baselines = names(data, found.iter().map(|c| c.baseline.as_str())).join(" and ");
    let told = found.iter().filter(|c| c.verdict != Verdict::Inconclusive);
    let mut taxes: Vec<(f64, String)> =
        told.filter_map(|c| Some((c.tax?, environment(data, &c.cell)?))).collect();
    taxes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let name = test.rsplit('/').next().unwrap_or(test);
    let name = match name.strip_prefix("tcp.window-") {
        Some(window) => format!("with a window of {window}"),
        None => format!("in the test {name}"),
    };
    let words = [Verdict::Better, Verdict::Equivalent, Verdict::Worse, Verdict::Inconclusive];
    let count = |v: Verdict| found.iter().filter(|c| c.verdict == v).count();
    let counts: Vec<String> =
        words.iter().filter(|v| count(**v) > 0).map(|v| format!("{} {}", count(*v), word(*v))).collect();
    let ends = match taxes.as_slice() {
        [] => "no path can be told apart from it".to_owned(),
        [(one, label)] => format!("{label} costs {} in TCP goodput", tax(*one)),
        [(best, first), .., (worst, last)] => {
            format!("TCP goodput costs from {} ({first}) to {} ({last})", tax(*best), tax(*worst))
        }
    };
    format!("Against {baselines}, {name}: {ends}; {}.", counts.join(", "))
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

fn environment(data: &RunData, cell: &str) -> Option<String> {
    data.cell(cell).map(|c| match data.accelerator(c).as_deref() {
        Some("tcg") => data.with_path(c, format!("{} (TCG, software emulation)", c.environment.name)),
        _ => data.environment_label(c),
    })
}

/// Environments of cells, each once, in order.
fn names<'a>(data: &RunData, cells: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names = Vec::new();
    for name in cells.filter_map(|id| environment(data, id)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
