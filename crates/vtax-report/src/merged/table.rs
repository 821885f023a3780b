//! What hosts found together, as plain text for a terminal, at most 100 columns wide.

use vtax_stats::MIN_HOSTS;
use vtax_store::summary::Verdict;
use vtax_units::counted;

use super::{HostDifference, Merged, MergedRow, TaxOnHost};
use crate::format::{digits, known_tax, tax, tax_range};
use crate::text::{first_column, printable, wrap};
use crate::words::{sign, word};

/// `Over 3 hosts and 2 comparisons: 1 worse, 1 equivalent. n3 differs from the others.`
pub(super) fn headline(m: &Merged) -> String {
    let of = |v: Verdict| m.rows.iter().filter(|r| r.verdict == v).count();
    let verdicts = [Verdict::Worse, Verdict::Better, Verdict::Equivalent, Verdict::Inconclusive];
    let counts: Vec<String> = verdicts
        .map(|v| (of(v), word(v)))
        .iter()
        .filter(|c| c.0 > 0)
        .map(|(n, w)| format!("{n} {w}"))
        .collect();
    let (hosts, comparisons) = (counted(m.hosts.len(), "host"), counted(m.rows.len(), "comparison"));
    let odd: Vec<&str> = m
        .hosts
        .iter()
        .map(|h| h.name.as_str())
        .filter(|name| m.rows.iter().any(|r| r.odd.iter().any(|o| o == name)))
        .collect();
    let odd = match odd.as_slice() {
        [] => String::new(),
        [one] => format!(" {one} differs from the others."),
        several => format!(" {} differ from the others.", several.join(", ")),
    };
    format!("Over {hosts} and {comparisons}: {}.{odd}", counts.join(", "))
}

/// What is said of a row beside its verdict: how far hosts are from each other, and which one is different.
pub(super) fn said(row: &MergedRow) -> String {
    let mut parts = Vec::new();
    if row.verdict == Verdict::Inconclusive && !row.reason.is_empty() {
        parts.push(row.reason.clone());
    }
    match (row.spread, row.same) {
        (Some(spread), Some(same)) if same <= vtax_stats::ALPHA => {
            let share = (spread - 1.0) * 100.0;
            parts.push(format!(
                "hosts differ by more than their rounds explain: their own taxes scatter by {} %",
                digits(share)
            ));
        }
        // One alone may differ where all together aren't shown to; and what isn't shown may be there all the same.
        (Some(_), Some(_)) if row.odd.is_empty() => {
            parts.push("no difference between hosts is shown".to_owned());
        }
        _ => {}
    }
    if let Some((low, high)) = row.another {
        parts.push(format!("one more host like these is expected between {}", span(low, high)));
    }
    match row.odd.as_slice() {
        [] => {}
        [one] => parts.push(format!("{one} differs from the others")),
        several => parts.push(format!("{} differ from the others", several.join(", "))),
    }
    parts.join("; ")
}

fn span(low: f64, high: f64) -> String {
    format!("{} and {}", tax(low), tax(high))
}

/// The overall tax of a row.
pub(super) fn overall_text(row: &MergedRow) -> String {
    known_tax(row.tax, row.at_least, row.at_most)
}

/// The tax on one host.
pub(super) fn host_text(host: &TaxOnHost) -> String {
    known_tax(host.tax, host.at_least, host.at_most)
}

/// `0.98–1.06`, empty where there is none.
pub(super) fn interval_text(interval: Option<(f64, f64)>) -> String {
    interval.map(|(low, high)| tax_range(low, high)).unwrap_or_default()
}

/// `vm (KVM)`, with its group where there are several.
pub(super) fn place(row: &MergedRow) -> String {
    if row.group.is_empty() { row.environment.clone() } else { format!("{}, {}", row.group, row.environment) }
}

/// `kernel: 6.1.0 on n1, n2; 6.8.0 on n3`.
pub(super) fn difference(d: &HostDifference) -> String {
    let found = d.found.iter().map(|(text, hosts)| format!("{text} on {}", some(hosts)));
    format!("{}: {}", d.what, found.collect::<Vec<_>>().join("; "))
}

/// Names of hosts, of many only some.
pub(super) fn some(hosts: &[String]) -> String {
    const SHOWN: usize = 8;
    match hosts.len().checked_sub(SHOWN) {
        None | Some(0) => hosts.join(", "),
        Some(more) => format!("{} and {more} more", hosts[..SHOWN].join(", ")),
    }
}

/// Warnings about the hosts as a whole.
pub(super) fn warnings(m: &Merged) -> Vec<String> {
    let mut warnings = Vec::new();
    let hosts = m.hosts.len();
    if hosts < MIN_HOSTS {
        warnings.push(format!(
            "{} can't speak for others like them: an interval over hosts takes at least {MIN_HOSTS}.",
            counted(hosts, "host")
        ));
    }
    for host in &m.hosts {
        if host.runs.len() > 1 {
            warnings.push(format!(
                "{} runs are of {}, which counts as one host.",
                host.runs.len(),
                host.name
            ));
        }
        // Where a host was tried again, nothing is missing of it.
        let whole = host.runs.iter().any(|run| run.complete);
        for run in host.runs.iter().filter(|_| !whole) {
            warnings.push(format!(
                "{} is not complete: {} of {} trials count there.",
                run.path, run.valid_trials, run.trials
            ));
        }
    }
    warnings
}

pub(super) fn render(m: &Merged) -> String {
    let mut out = wrap(&printable(&m.headline), "");
    for warning in &m.warnings {
        out.push_str(&wrap(&printable(&format!("WARNING: {warning}")), "         "));
    }
    let mut last = String::new();
    for row in &m.rows {
        let heading = format!("{} [{}]", row.label, row.measure);
        if heading != last {
            out.push_str(&format!("\n{}", wrap(&heading, "")));
        }
        last = heading;
        out.push_str(&lines(row));
    }
    if !m.differences.is_empty() {
        out.push_str("\nnot the same on all hosts\n");
    }
    for d in &m.differences {
        out.push_str(&wrap(&printable(&format!("  {}", difference(d))), "    "));
    }
    out
}

fn lines(row: &MergedRow) -> String {
    let verdict = format!("{} {}", sign(row.verdict), word(row.verdict));
    let mut out = columns(&place(row), &overall_text(row), &interval_text(row.interval), &verdict);
    for host in &row.hosts {
        let mark = if row.odd.contains(&host.host) { "differs" } else { "" };
        let name = format!("  {}", host.host);
        out.push_str(&columns(&name, &host_text(host), &interval_text(host.interval), mark));
    }
    let said = said(row);
    if !said.is_empty() {
        out.push_str(&wrap(&printable(&format!("    {said}")), "    "));
    }
    out
}

fn columns(first: &str, tax: &str, interval: &str, last: &str) -> String {
    let first = first_column("  ", first, 40);
    format!("{}\n", format!("{first} {tax:>9}  {interval:<14} {last}").trim_end())
}
