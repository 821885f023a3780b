//! What forbids to take runs together, and what their hosts don't have in common.

use std::collections::{BTreeMap, BTreeSet};

use vtax_plan::model::Plan;
use vtax_store::StoreError;
use vtax_units::fact;

use super::{HostDifference, MergeRefusal};
use crate::Report;
use crate::compare::{Cause, machine_facts, path, programs, reasons_by_path, same_runs};

/// Differences between hosts that are named, at most: a list that scrolls for ever isn't read.
const MOST_DIFFERENCES: usize = 40;

/// Every reason why these runs can't be merged.
pub(super) fn refused(runs: &[Report]) -> Result<Option<MergeRefusal>, StoreError> {
    let of_runs = |text| (None, text);
    let mut found: Vec<(Option<Cause>, String)> = same_runs(runs.iter()).into_iter().map(of_runs).collect();
    for run in runs {
        for (cell, measure) in &run.context.data.unlike {
            let what = "has histograms with other buckets: there is no exact sum of them";
            found.push((None, format!("{}: {cell}, {measure} {what}", path(run))));
        }
    }
    let Some((first, others)) = runs.split_first() else { return Ok(None) };
    for other in others {
        let reasons = reasons_by_path(first, other)?.into_iter();
        found.extend(reasons.map(|reason| (Some(reason.cause), reason.text)));
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
/// runs, the last one says. A run that isn't complete may have ended before it knew of all that it would use, so what only such
/// runs lack is no difference.
pub(super) fn differences(hosts: &[(String, Vec<&Report>)]) -> Vec<HostDifference> {
    let last = hosts.iter().filter_map(|(name, runs)| Some((name.as_str(), *runs.last()?)));
    let facts: Vec<(&str, bool, BTreeMap<String, String>)> =
        last.map(|(name, run)| (name, run.context.data.complete, facts(run))).collect();
    let names: BTreeSet<&String> = facts.iter().flat_map(|(_, _, facts)| facts.keys()).collect();
    let mut differences = Vec::new();
    for name in names {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (host, complete, facts) in &facts {
            let text = match facts.get(name) {
                Some(text) => text.as_str(),
                None if *complete => "not told",
                None => continue,
            };
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

#[cfg(test)]
mod tests {
    use vtax_fixture as fixture;
    use vtax_store::RunDir;

    use super::*;

    #[test]
    fn what_a_run_that_was_cut_short_does_not_know_is_no_difference() {
        let dir = tempfile::tempdir().unwrap();
        let options = fixture::Options { repetitions: 4, seconds: 1, rate: 200, ..Default::default() };
        let base = fixture::create(&dir.path().join("base"), &options).unwrap();
        let host = |name: &str, knows: &[(&str, &str)], complete: bool| {
            let mut provenance = base.provenance().unwrap();
            (provenance.run_id, provenance.host.name) = (String::new(), name.to_owned());
            provenance.packages = knows.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let before = std::fs::read_dir(dir.path()).unwrap().count();
            let place = dir.path().join(before.to_string());
            let mut run = RunDir::create(place, &base.plan().unwrap(), &provenance).unwrap();
            if complete {
                run.completed().unwrap();
            }
            Report::read(run.run()).unwrap()
        };
        let found = |runs: &[Report]| -> Vec<HostDifference> {
            let name = |run: &Report| run.context.data.provenance.host.name.clone();
            let hosts: Vec<(String, Vec<&Report>)> = runs.iter().map(|run| (name(run), vec![run])).collect();
            differences(&hosts)
        };
        let whole = |name| host(name, &[("nginx", "1.22"), ("runc", "1.1")], true);
        assert!(found(&[whole("n1"), host("n2", &[], false)]).is_empty());
        // What it knows counts, and what a complete run doesn't know isn't there.
        let other = found(&[whole("n1"), host("n2", &[("nginx", "1.24")], false)]);
        assert_eq!(other.len(), 1, "{other:?}");
        assert_eq!(other[0].what, "nginx");
        assert_eq!(other[0].found["1.24"], ["n2"]);
        let lacking = found(&[whole("n1"), host("n2", &[("nginx", "1.22")], true)]);
        assert_eq!(lacking.len(), 1, "{lacking:?}");
        assert_eq!(lacking[0].what, "runc");
        assert_eq!(lacking[0].found["not told"], ["n2"]);
    }
}
