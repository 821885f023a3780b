//! What families of workloads make of one trial: the one place where they are joined for the run's figures.
//!
//! Nothing here knows the report; what a family shows of a whole run is its chapter, in `chapters.rs`.

use vtax_plan::model::{Cell, Measure, Plan};
use vtax_store::record::{Finding, TrialRecord, Validity};

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
    let mut all = network::trial::observed(record);
    let mut values = general::trial::of_cpu(record);
    values.extend(match record.finding() {
        Some(Finding::Capacity(found)) => http::trial::values(found).into_iter().collect(),
        Some(Finding::Latency { .. } | Finding::Throughput { .. }) => general::trial::of_load(record),
        Some(Finding::Ims(found)) => sip::trial::values(found),
        Some(Finding::Failover(_)) => ft::trial::values(record),
        Some(Finding::Network(_) | Finding::Unknown { .. }) | None => Vec::new(),
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
    network::trial::forget_histograms(record);
}

/// What a measure of a plan is called in the summary: its name, or those of its tests.
pub(crate) fn names_of(plan: &Plan, measure: &Measure) -> Vec<String> {
    network::trial::names_of_tests(plan, measure).unwrap_or_else(|| vec![measure.name.clone()])
}

/// What a trial found, in a few words.
pub(crate) fn told(record: &TrialRecord, cell: Option<&Cell>) -> String {
    match record.finding() {
        None | Some(Finding::Network(_)) => {
            cell.map_or_else(String::new, |cell| network::trial::told(&record.observations, cell))
        }
        Some(Finding::Unknown { of }) => format!("`{of}`, which this vtax doesn't know"),
        Some(Finding::Capacity(found)) => http::trial::told(found),
        Some(Finding::Ims(found)) => sip::trial::told(found),
        Some(Finding::Latency { .. } | Finding::Throughput { .. } | Finding::Failover(_)) => {
            general::trial::told(record)
        }
    }
}
