//! What families of workloads make of one trial: the one place where they are joined for the run's figures.
//!
//! Nothing here knows the report; what a family shows of a whole run is its chapter, in `chapters.rs`.

use vtax_plan::model::{Cell, Measure, Plan};
use vtax_store::record::{Outcome, TrialRecord, Validity};

use crate::family::{http, network, sip};
use crate::metric::{Info, Observed};
use crate::{ft, general};

/// Every metric, in the order of tables: each family's own, then those of all loads, then those of faults.
const METRICS: [&[Info]; 5] = [
    sip::trial::METRICS,
    http::trial::METRICS,
    network::trial::METRICS,
    general::trial::METRICS,
    ft::trial::METRICS,
];

/// Every metric, in the order of tables.
pub(crate) fn metrics() -> impl Iterator<Item = &'static Info> {
    METRICS.into_iter().flatten()
}

/// The metric of that name.
pub(crate) fn named(name: &str) -> Option<&'static Info> {
    metrics().find(|m| m.name == name)
}

/// The figures of a valid trial; none where it doesn't count.
pub(crate) fn observed(record: &TrialRecord) -> Vec<Observed<'_>> {
    if record.validity != Validity::Valid {
        return Vec::new();
    }
    let mut all = match &record.outcome {
        Some(Outcome::Net(net)) => network::trial::observed(net),
        _ => Vec::new(),
    };
    let mut values = general::trial::of_cpu(record);
    values.extend(match &record.outcome {
        Some(Outcome::Capacity(found)) => http::trial::values(found).into_iter().collect(),
        Some(Outcome::Latency { .. } | Outcome::Throughput { .. }) => general::trial::of_load(record),
        Some(Outcome::Ims(found)) => sip::trial::values(found),
        Some(Outcome::Failover(_)) => ft::trial::values(record),
        Some(Outcome::Net(_)) | None => Vec::new(),
    });
    // The outages of faults are no part of the usual latency: they have a section of their own.
    let usual = general::trial::load(record).filter(|_| ft::trial::failover(record).is_none());
    all.push(Observed { test: None, values, latency: usual.map(|load| &load.latency) });
    all.retain(|observed| !observed.values.is_empty());
    all
}

/// Empties the histograms of a trial, which are large.
pub(crate) fn forget_histograms(record: &mut TrialRecord) {
    general::trial::forget_histograms(record);
    if let Some(Outcome::Net(net)) = &mut record.outcome {
        network::trial::forget_histograms(net);
    }
}

/// What a measure of a plan is called in the summary: its name, or those of its tests.
pub(crate) fn names_of(plan: &Plan, measure: &Measure) -> Vec<String> {
    network::trial::names_of_tests(plan, measure).unwrap_or_else(|| vec![measure.name.clone()])
}

/// What a trial found, in a few words.
pub(crate) fn told(record: &TrialRecord, cell: Option<&Cell>) -> String {
    match &record.outcome {
        None => String::new(),
        Some(Outcome::Capacity(found)) => http::trial::told(found),
        Some(Outcome::Ims(found)) => sip::trial::told(found),
        Some(Outcome::Net(found)) => cell.map_or_else(String::new, |cell| network::trial::told(found, cell)),
        Some(Outcome::Latency { .. } | Outcome::Throughput { .. } | Outcome::Failover(_)) => {
            general::trial::told(record)
        }
    }
}
