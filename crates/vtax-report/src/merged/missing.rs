//! What hosts have no figures of, and why.

use std::collections::BTreeMap;

use super::MergedRow;
use super::rows::Host;
use super::table::some;
use crate::fates::TrialFates;
use crate::metric::LIFECYCLE;

/// `container.bridge.http has no figures from n2, n3 (left out: …)`, one for each cell and reason.
pub(super) fn missing(hosts: &[Host<'_>]) -> Vec<String> {
    let Some(first) = hosts.first().and_then(|(_, runs)| runs.first()) else { return Vec::new() };
    let mut found = Vec::new();
    for cell in &first.context.data.plan.cells {
        let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for host in hosts {
            if let Some(reason) = why(host, &cell.id) {
                by_reason.entry(reason).or_default().push(host.0.clone());
            }
        }
        let each = by_reason.into_iter();
        found.extend(
            each.map(|(reason, names)| {
                format!("{} has no figures from {} ({reason})", cell.id, some(&names))
            }),
        );
    }
    found
}

/// Where many trials of one side of a row, of all hosts together, don't count for what became of the system in them: each side once.
pub(super) fn left_out(hosts: &[Host<'_>], rows: &[MergedRow]) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for row in rows {
        for cell in [&row.cell, &row.baseline] {
            let runs = hosts.iter().flat_map(|(_, runs)| runs.iter().map(|run| &run.context.data));
            let (fates, measure) = TrialFates::named(runs, cell, &row.measure);
            if let Some(text) = fates.told(&format!("of {cell} ({measure})"))
                && !said.contains(&text)
            {
                said.push(text);
            }
        }
    }
    said
}

/// `None` where a trial of the cell counts.
fn why((_, runs): &Host<'_>, cell: &str) -> Option<String> {
    let fates = TrialFates::of(runs.iter().map(|run| &run.context.data), cell, LIFECYCLE);
    if fates.counting > 0 {
        return None;
    }
    let left_out = runs.iter().find_map(|run| run.context.data.left_out(cell));
    Some(left_out.map_or_else(|| fates.why_none().to_owned(), |reason| format!("left out: {reason}")))
}
