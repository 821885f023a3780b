//! How long each stage of the routers' bring-up took, and what its proof saw.

use std::collections::BTreeSet;

use vtax_store::record::{TrialRecord, Validity};
use vtax_topology::expect::Stage;
use vtax_units::fact;

use crate::data::RunData;
use crate::format::quantity;
use crate::html::parts::{FIGURES, definitions, scrolling};
use crate::html::table::PlainTable;
use crate::markup::Markup;

/// The columns behind the stages, and what they are.
const PROOF: [(&str, &str); 2] = [
    (
        "Labels seen",
        "The MPLS labels of a packet from end to end, the outermost first, as a capture on the core’s first cable saw them; \
         trials may have seen different ones.",
    ),
    (
        "Time to live",
        "What was left of 64 when the far end’s answer came to the near end’s router: each router on the way takes one, \
         unless it forwards by labels alone.",
    ),
];

/// A stage's column, and what holds once it is reached.
const fn words(stage: Stage) -> (&'static str, &'static str) {
    match stage {
        Stage::Interfaces => ("Interfaces", "The routers’ namespaces, cables and addresses are there."),
        Stage::Daemons => ("Daemons", "FRR’s daemons run and have taken their configuration."),
        Stage::Adjacencies => ("OSPF adjacencies", "All neighbours that speak OSPF are fully adjacent."),
        Stage::LabelSessions => {
            ("LDP sessions", "All neighbours that exchange labels have a session of LDP.")
        }
        Stage::Peerings => ("BGP sessions", "All sessions of BGP are established."),
        Stage::Routes => ("Routes", "The kernels have the routes that are expected."),
        Stage::Reach => {
            ("Reach", "Both ends reach each other, with the time to live and the labels that are expected.")
        }
    }
}

pub(super) fn section(data: &RunData) -> Markup {
    let mut m = Markup::new();
    let found = raised(data);
    if found.is_empty() {
        return m;
    }
    let all: Vec<&TrialRecord> = found.iter().flat_map(|(_, trials)| trials.iter().copied()).collect();
    let stages = in_order_of_time(&all);
    let mut columns = vec![("Path", false), ("Trials", true), ("Where", false)];
    columns.extend(stages.iter().map(|stage| (words(*stage).0, true)));
    columns.extend(PROOF.map(|(name, _)| (name, false)));
    let mut table = PlainTable::new(FIGURES, &columns);
    for (label, trials) in &found {
        table.push(label, row(trials, &stages));
    }
    m.element(
        "p",
        &[],
        "Median time from the start of a bring-up until each stage was reached, before each trial anew, over the trials that \
         count. What doesn’t wait for another comes in any order: here in that of the medians over all paths.",
    );
    m.add(&scrolling(&table.finish()));
    let meanings: Vec<(&str, &str)> = stages.iter().map(|stage| words(*stage)).chain(PROOF).collect();
    m.open("details", &[]).element("summary", &[], "What each column is");
    m.add(&definitions(&meanings)).close("details");
    let versions: BTreeSet<&str> =
        all.iter().filter_map(|trial| trial.facts.get(fact::PATH_LAB_VERSION)).map(String::as_str).collect();
    if !versions.is_empty() {
        let versions: Vec<&str> = versions.into_iter().take(3).collect();
        m.element("p", &[("class", "small-print")], &format!("FRR: {}.", versions.join(", ")));
    }
    m
}

/// The trials that count of each environment and path with routers, with what they are called.
fn raised(data: &RunData) -> Vec<(String, Vec<&TrialRecord>)> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for cell in data.plan.cells.iter().filter(|cell| cell.path.kind.routed().is_some()) {
        let key = (&cell.environment.name, serde_json::to_string(&cell.path).unwrap_or_default());
        if !seen.insert(key.clone()) {
            continue;
        }
        let same = data.plan.cells.iter().filter(|other| {
            other.environment.name == *key.0
                && serde_json::to_string(&other.path).unwrap_or_default() == key.1
        });
        let ids: BTreeSet<&str> = same.map(|cell| cell.id.as_str()).collect();
        let counts = |trial: &&TrialRecord| {
            ids.contains(trial.cell.as_str()) && trial.validity == Validity::Valid && was_raised(trial)
        };
        let trials: Vec<&TrialRecord> = data.trials.iter().filter(counts).collect();
        if !trials.is_empty() {
            found.push((data.environment_label(cell), trials));
        }
    }
    found
}

fn was_raised(trial: &TrialRecord) -> bool {
    trial.facts.contains_key(&fact::of_stage(Stage::Interfaces.word()))
}

/// The median time until a stage was reached, in nanoseconds.
fn reached(trials: &[&TrialRecord], stage: Stage) -> Option<f64> {
    let key = fact::of_stage(stage.word());
    let times: Vec<f64> = trials.iter().filter_map(|t| t.facts.get(&key)?.parse().ok()).collect();
    vtax_stats::quantile(&times, 0.5)
}

/// The stages that these trials have.
fn in_order_of_time(trials: &[&TrialRecord]) -> Vec<Stage> {
    let known = Stage::ALL.into_iter().filter_map(|stage| Some((reached(trials, stage)?, stage)));
    let mut known: Vec<(f64, Stage)> = known.collect();
    known.sort_by(|one, other| one.0.total_cmp(&other.0));
    known.into_iter().map(|(_, stage)| stage).collect()
}

fn row(trials: &[&TrialRecord], stages: &[Stage]) -> Vec<String> {
    let values = |key: &str| -> String {
        let all: BTreeSet<&str> =
            trials.iter().filter_map(|t| t.facts.get(key)).map(String::as_str).collect();
        all.into_iter().take(3).collect::<Vec<_>>().join(", ")
    };
    let time = |stage: &Stage| reached(trials, *stage).map_or_else(String::new, |ns| quantity(ns, "ns"));
    let mut row = vec![trials.len().to_string(), values(fact::PATH_PLACE)];
    row.extend(stages.iter().map(time));
    row.extend([fact::PATH_LAB_LABELS, fact::PATH_LAB_TTL].map(values));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_stand_in_the_order_of_time_and_each_is_explained() {
        let trial = |times: &[(Stage, u64)]| TrialRecord {
            facts: times.iter().map(|(stage, ns)| (fact::of_stage(stage.word()), ns.to_string())).collect(),
            ..TrialRecord::default()
        };
        let vpn = trial(&[(Stage::Interfaces, 1), (Stage::Adjacencies, 155), (Stage::LabelSessions, 126)]);
        let fabric = trial(&[(Stage::Interfaces, 2), (Stage::Peerings, 15)]);
        let order = [Stage::Interfaces, Stage::Peerings, Stage::LabelSessions, Stage::Adjacencies];
        assert_eq!(in_order_of_time(&[&vpn, &fabric]), order);
        // Sessions that a path has not, and proofs that weren't noted, are empty.
        assert_eq!(row(&[&fabric], &order), ["1", "", "2.00 ns", "15.0 ns", "", "", "", ""]);
        assert!(Stage::ALL.iter().all(|stage| words(*stage).1.ends_with('.')));
    }
}
