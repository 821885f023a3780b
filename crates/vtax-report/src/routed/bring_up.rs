//! How long each stage of the routers' bring-up took, and what its proof saw.

use std::collections::BTreeSet;

use vtax_store::record::TrialRecord;
use vtax_topology::expect::Stage;
use vtax_units::fact;

use crate::data::RunData;
use crate::format::quantity;
use crate::html::parts::{FIGURES, scrolling};
use crate::html::table::PlainTable;
use crate::markup::Markup;

pub(super) fn section(data: &RunData) -> Markup {
    let mut m = Markup::new();
    let mut columns = vec![("Path", false), ("Trials", true), ("Where", false)];
    columns.extend(Stage::ALL.map(|stage| (stage.word(), true)));
    columns.extend([("Labels seen", false), ("Time to live", false)]);
    let mut table = PlainTable::new(FIGURES, &columns);
    let mut versions = BTreeSet::new();
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
        versions.extend(trials.iter().filter_map(|trial| trial.facts.get(fact::PATH_LAB_VERSION)));
        table.push(&data.environment_label(cell), row(&trials));
    }
    if any {
        m.element(
            "p",
            &[],
            "Median time from the start of a bring-up until each stage was reached, before each trial anew.",
        );
        m.add(&scrolling(&table.finish()));
        let versions: Vec<&str> = versions.into_iter().take(3).map(String::as_str).collect();
        if !versions.is_empty() {
            m.element("p", &[("class", "small-print")], &format!("FRR: {}.", versions.join(", ")));
        }
    }
    m
}

fn raised(trial: &TrialRecord) -> bool {
    trial.facts.contains_key(&fact::of_stage(Stage::Interfaces.word()))
}

fn row(trials: &[&TrialRecord]) -> Vec<String> {
    let values = |key: &str| -> String {
        let all: BTreeSet<&str> =
            trials.iter().filter_map(|t| t.facts.get(key)).map(String::as_str).collect();
        all.into_iter().take(3).collect::<Vec<_>>().join(", ")
    };
    let stage = |stage: Stage| {
        let key = fact::of_stage(stage.word());
        let times: Vec<f64> = trials.iter().filter_map(|t| t.facts.get(&key)?.parse().ok()).collect();
        vtax_stats::quantile(&times, 0.5).map_or_else(String::new, |ns| quantity(ns, "ns"))
    };
    let mut row = vec![trials.len().to_string(), values(fact::PATH_PLACE)];
    row.extend(Stage::ALL.map(stage));
    row.extend([fact::PATH_LAB_LABELS, fact::PATH_LAB_TTL].map(values));
    row
}
