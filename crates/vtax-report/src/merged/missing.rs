//! What hosts have no figures of, and why.

use std::collections::BTreeMap;

use vtax_store::record::Validity;

use super::rows::Host;
use super::table::some;

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

/// `None` where a trial of the cell counts.
fn why((_, runs): &Host<'_>, cell: &str) -> Option<String> {
    let mut all = runs.iter().flat_map(|run| &run.context.data.trials).filter(|trial| trial.cell == cell);
    if all.clone().any(|trial| trial.validity == Validity::Valid) {
        return None;
    }
    let left_out = runs.iter().find_map(|run| run.context.data.left_out(cell));
    Some(match (left_out, all.next()) {
        (Some(reason), _) => format!("left out: {reason}"),
        (None, Some(_)) => "none of its trials counts".to_owned(),
        (None, None) => "it has no trial".to_owned(),
    })
}
