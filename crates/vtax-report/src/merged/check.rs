//! What forbids to take runs together, and what their hosts don't have in common.

use std::collections::{BTreeMap, BTreeSet};

use vtax_plan::model::Plan;
use vtax_store::StoreError;
use vtax_units::fact;

use super::{HostDifference, MergeRefusal};
use crate::Report;
use crate::compare::{Cause, machine_facts, programs, reasons};

/// Differences between hosts that are named, at most: a list that scrolls for ever isn't read.
const MOST_DIFFERENCES: usize = 40;

/// Every reason why these runs can't be merged.
pub(super) fn refused(runs: &[Report]) -> Result<Option<MergeRefusal>, StoreError> {
    let mut found: Vec<(Option<Cause>, String)> = Vec::new();
    let mut seen: BTreeMap<&str, &Report> = BTreeMap::new();
    for run in runs {
        let id = run.context.data.provenance.run_id.as_str();
        let before = if id.is_empty() { None } else { seen.insert(id, run) };
        if let Some(before) = before {
            found.push((None, format!("{} and {} are the same run", path(before), path(run))));
        }
        for (cell, measure) in &run.context.data.unlike {
            let what = "has histograms with other buckets: there is no exact sum of them";
            found.push((None, format!("{}: {cell}, {measure} {what}", path(run))));
        }
    }
    let Some((first, others)) = runs.split_first() else { return Ok(None) };
    for other in others {
        for reason in reasons(first, other)? {
            let text = reason.text.replace(" in A", &format!(" in {}", path(first)));
            found.push((Some(reason.cause), text.replace(" in B", &format!(" in {}", path(other)))));
        }
        if other.context.data.plan.margin != first.context.data.plan.margin {
            let margin = |run: &Report| format!("{} in {}", run.context.data.plan.margin, path(run));
            let text = format!("other plan: the margin is {}, {}", margin(first), margin(other));
            found.push((Some(Cause::Plan), text));
        }
        let missing = only(&first.context.data.plan, &other.context.data.plan);
        found.extend(missing.map(|what| {
            (
                Some(Cause::Plan),
                format!("other plan: {what} is in one of {} and {}", path(first), path(other)),
            )
        }));
    }
    Ok((!found.is_empty()).then_some(MergeRefusal { reasons: found }))
}

pub(super) fn path(run: &Report) -> String {
    run.context.run.path().display().to_string()
}

/// Cells and measures that only one of two plans has.
fn only(a: &Plan, b: &Plan) -> impl Iterator<Item = String> {
    let names = |plan: &Plan| -> BTreeSet<String> {
        let cells = plan.cells.iter().map(|c| format!("cell {}", c.id));
        cells.chain(plan.measures.iter().map(|m| format!("measure {}", m.name))).collect()
    };
    let (a, b) = (names(a), names(b));
    let different: Vec<String> = a.symmetric_difference(&b).cloned().collect();
    different.into_iter()
}

/// What isn't the same on all hosts: machines, kernels, microcode, mitigations, clocks, programs. Where a host has several
/// runs, the last one says.
pub(super) fn differences(hosts: &[(String, Vec<&Report>)]) -> Vec<HostDifference> {
    let facts: Vec<(&str, BTreeMap<String, String>)> =
        hosts.iter().filter_map(|(name, runs)| Some((name.as_str(), facts(runs.last()?)))).collect();
    let names: BTreeSet<&String> = facts.iter().flat_map(|(_, facts)| facts.keys()).collect();
    let mut differences = Vec::new();
    for name in names {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (host, facts) in &facts {
            let text = facts.get(name).map_or("not told", String::as_str);
            found.entry(text.to_owned()).or_default().push((*host).to_owned());
        }
        if found.len() > 1 {
            differences.push(HostDifference { what: name.clone(), found });
        }
    }
    differences.truncate(MOST_DIFFERENCES);
    differences
}

fn facts(run: &Report) -> BTreeMap<String, String> {
    let p = &run.context.data.provenance;
    let mut facts = programs(p);
    facts.extend(machine_facts(&p.host).map(|(name, text)| (name.to_owned(), text)));
    facts.insert("memory".to_owned(), crate::format::quantity(p.host.memory_bytes as f64, "B"));
    let own = p.facts.iter().filter_map(|(name, text)| Some((name.strip_prefix(fact::HOST)?, text)));
    facts.extend(own.map(|(name, text)| (name.replace('_', " "), text.clone())));
    facts
}
