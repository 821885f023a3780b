//! The verdict on many paths in one sentence.

use vtax_store::summary::{Comparison, Verdict};

use crate::data::RunData;
use crate::format::tax;
use crate::words::word;

/// The most telling of the transfers that were compared, as its measure is called: that of the study's
/// largest window, else the plan's last.
pub(super) fn telling<'a>(data: &'a RunData, transfers: &[&Comparison]) -> Option<&'a str> {
    let tests: Vec<&str> = data.measures().filter(|m| transfers.iter().any(|c| c.measure == *m)).collect();
    tests.iter().rev().find(|m| m.ends_with("window-64K")).or(tests.last()).copied()
}

/// Many paths in one sentence: the best and the worst of them, in the most telling test.
pub(super) fn paths(data: &RunData, all: &[&Comparison]) -> String {
    let test = telling(data, all).unwrap_or_default();
    let found: Vec<&Comparison> = all.iter().copied().filter(|c| c.measure == test).collect();
    let baselines = data.environments(found.iter().map(|c| c.baseline.as_str())).join(" and ");
    let told = found.iter().filter(|c| c.verdict != Verdict::Inconclusive);
    let mut taxes: Vec<(f64, String)> =
        told.filter_map(|c| Some((c.tax?, data.spelt_out(&c.cell)?))).collect();
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
