//! How long each stage of the routers' bring-up took, and what its proof saw.

use std::collections::BTreeSet;

use vtax_store::record::TrialRecord;
use vtax_topology::expect::Stage;

use crate::data::RunData;
use crate::format::quantity;
use crate::html::parts::scrolling;
use crate::html::table::PlainTable;
use crate::markup::Markup;

pub(super) fn section(data: &RunData) -> Markup {
    let mut m = Markup::new();
    let mut columns = vec![("Path", false), ("Trials", true), ("Where", false)];
    columns.extend(Stage::ALL.map(|stage| (stage.word(), true)));
    columns.extend([("Labels seen", false), ("Time to live", false), ("FRR", false)]);
    let mut table = PlainTable::new("", &columns);
    let mut any = false;
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
        let trials: Vec<&TrialRecord> =
            data.trials.iter().filter(|trial| ids.contains(trial.cell.as_str()) && raised(trial)).collect();
        if trials.is_empty() {
            continue;
        }
        any = true;
        table.push(&data.environment_label(cell), row(&trials));
    }
    if any {
        m.element(
            "p",
            &[],
            "Median time from the start of a bring-up until each stage was reached, before each trial anew.",
        );
        m.add(&scrolling(&table.finish()));
    }
    m
}

fn raised(trial: &TrialRecord) -> bool {
    trial.facts.contains_key("path.lab.interfaces_ns")
}

fn row(trials: &[&TrialRecord]) -> Vec<String> {
    let fact = |key: &str| -> String {
        let all: BTreeSet<&str> =
            trials.iter().filter_map(|t| t.facts.get(key)).map(String::as_str).collect();
        all.into_iter().take(3).collect::<Vec<_>>().join(", ")
    };
    let stage = |stage: Stage| {
        let key = format!("path.lab.{}_ns", stage.word().replace('-', "_"));
        let times: Vec<f64> = trials.iter().filter_map(|t| t.facts.get(&key)?.parse().ok()).collect();
        vtax_stats::quantile(&times, 0.5).map_or_else(String::new, |ns| quantity(ns, "ns"))
    };
    let mut row = vec![trials.len().to_string(), fact("path.place")];
    row.extend(Stage::ALL.map(stage));
    row.extend(["path.lab.labels", "path.lab.ttl", "path.lab.version"].map(fact));
    row
}
