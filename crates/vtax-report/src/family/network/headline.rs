//! The verdict on many paths in one sentence.

use vtax_store::summary::{Comparison, Verdict};

use crate::data::RunData;
use crate::format;
use crate::words::word;

use super::trial::telling;

/// The transfers that were compared, as their measures are called, in the plan's order.
pub(super) fn tests<'a>(data: &'a RunData, transfers: &[&Comparison]) -> Vec<&'a str> {
    data.measures().filter(|m| transfers.iter().any(|c| c.measure == *m)).collect()
}

/// Many paths in a sentence for each verdict, in the most telling test, with the first and the last of them; then how many of all.
pub(super) fn paths(data: &RunData, all: &[&Comparison]) -> String {
    let tests = tests(data, all);
    let test = telling(&tests).unwrap_or_default();
    let found: Vec<&Comparison> = all.iter().copied().filter(|c| c.measure == test).collect();
    let baselines = data.environments(found.iter().map(|c| c.baseline.as_str())).join(" and ");
    let name = test.rsplit('/').next().unwrap_or(test);
    let name = match name.strip_prefix("tcp.window-") {
        Some(window) if !window.contains('.') => format!("with a window of {window}"),
        _ => format!("in the test {name}"),
    };
    let of = |verdict: Verdict| of_verdict(data, &found, verdict);
    let words = [Verdict::Worse, Verdict::Better, Verdict::Equivalent, Verdict::Inconclusive];
    let sentences: Vec<String> = words.into_iter().filter_map(of).collect();
    let tcp = format!("Against {baselines}, {name}, in TCP goodput: {}.", sentences.join(". "));
    if tests.len() == 1 {
        return tcp;
    }
    let count = |verdict: Verdict| {
        let n = all.iter().filter(|c| c.verdict == verdict).count();
        (n > 0).then(|| format!("{n} {}", word(verdict)))
    };
    let counts: Vec<String> = words.into_iter().filter_map(count).collect();
    format!("{tcp} Of all {} comparisons in {} tests: {}.", all.len(), tests.len(), counts.join(", "))
}

/// `3 are worse, from 1/8.6 as much (vm-vm) to 12 % less (ovs)`.
fn of_verdict(data: &RunData, found: &[&Comparison], verdict: Verdict) -> Option<String> {
    let own: Vec<&&Comparison> = found.iter().filter(|c| c.verdict == verdict).collect();
    let label = |c: &Comparison| data.spelt_out(&c.cell).unwrap_or_default();
    // Goodput is better where there is more of it, so its own ratio is the tax turned around.
    let mut much: Vec<(f64, String)> = own.iter().filter_map(|c| Some((1.0 / c.tax?, label(c)))).collect();
    much.sort_by(|a, b| a.0.total_cmp(&b.0));
    let said = |(ratio, label): &(f64, String)| format!("{} ({label})", format::much(*ratio, ""));
    let span = match much.as_slice() {
        [] => String::new(),
        [one] => format!(", {}", said(one)),
        [least, .., most] => format!(", from {} to {}", said(least), said(most)),
    };
    let are = if own.len() == 1 { "is" } else { "are" };
    match (own.len(), verdict) {
        (0, _) => None,
        (1, Verdict::Inconclusive) => Some("1 can't be told".to_owned()),
        (n, Verdict::Inconclusive) => Some(format!("{n} can't be told")),
        (n, Verdict::Equivalent) => Some(format!("{n} {are} equal")),
        (n, v) => Some(format!("{n} {are} {}{span}", word(v))),
    }
}
