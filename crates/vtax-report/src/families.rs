//! What families of workloads make of one trial: the one place where they are joined for the run's figures.
//!
//! Nothing here knows the report; what a family shows of a whole run is its chapter, in `chapters.rs`.

use vtax_plan::model::{Cell, Measure, NetworkTest, Plan, Workload};
use vtax_store::record::{Finding, TrialRecord, Validity};
use vtax_units::metric::THROUGHPUT;

use crate::consolidation::trial as systems;
use crate::family::{
    desktop::trial as desktop, ftp::trial as ftp, http::trial as http, network::line::describe_tests,
    network::trial as network, script::trial as script, sip::trial as sip, storage::path,
    storage::trial as storage,
};
use crate::ft::trial as faults;
use crate::general::trial as loads;
use crate::metric::{Info, Observed, Value};

/// Every metric, in the order of tables: each family's own, then those of all loads, what only desktops have besides, then those of several
/// systems and of faults.
const METRICS: [&[Info]; 10] = [
    sip::METRICS,
    script::METRICS,
    http::METRICS,
    ftp::METRICS,
    network::METRICS,
    storage::METRICS,
    loads::METRICS,
    desktop::METRICS,
    systems::METRICS,
    faults::METRICS,
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
    let mut all = network::observed(record);
    all.extend(storage::observed(record));
    let mut values = loads::of_cpu(record);
    values.extend(match record.finding() {
        Some(Finding::Capacity(found)) => http::values(found).into_iter().collect(),
        Some(Finding::Latency { .. } | Finding::Throughput { .. }) => {
            let mut values = loads::of_load(record);
            values.extend(http::of_load(record));
            values.extend(ftp::values(record));
            values.extend(desktop::values(record));
            values.extend(script::values(record));
            values.extend(systems::values(record));
            values
        }
        Some(Finding::Ims(found)) => sip::values(found),
        Some(Finding::Failover(_)) => faults::values(record),
        Some(Finding::Network(_) | Finding::Storage(_) | Finding::Unknown { .. }) | None => Vec::new(),
    });
    // The outages of faults are no part of the usual latency: they have a section of their own.
    let usual = loads::load(record).filter(|_| faults::failover(record).is_none());
    all.push(Observed {
        test: None,
        values,
        latency: usual.map(|load| &load.latency),
        percentiles: &loads::PERCENTILES,
    });
    all.retain(|observed| !observed.values.is_empty());
    all
}

/// Empties the histograms of a trial, which are large.
pub(crate) fn forget_histograms(record: &mut TrialRecord) {
    loads::forget_histograms(record);
    http::forget_histograms(record);
    ftp::forget_histograms(record);
    network::forget_histograms(record);
    storage::forget_histograms(record);
    desktop::forget_histograms(record);
    script::forget_histograms(record);
}

/// What a measure of a plan is called in the summary: its name, or those of its tests.
pub(crate) fn names_of(plan: &Plan, measure: &Measure) -> Vec<String> {
    let tests = network::names_of_tests(plan, measure).or_else(|| storage::names_of_tests(plan, measure));
    tests.unwrap_or_else(|| vec![measure.name.clone()])
}

/// Unit of the load that a cell is offered: scenario attempts per second where it is SIP's, else requests.
pub(crate) fn unit_of_load(cell: Option<&Cell>) -> &'static str {
    match cell.map(|cell| &cell.workload) {
        Some(Workload::Sip(_)) => "SAPS",
        _ => "req/s",
    }
}

/// What a reader must know first of what was found.
pub(crate) fn cautions(plan: &Plan, trials: &[TrialRecord]) -> Vec<String> {
    let mut cautions = path::beyond(plan, trials);
    cautions.extend(loads::cautions(plan, trials));
    cautions.extend(ftp::cautions(plan, trials));
    cautions.extend(network::cautions(trials));
    cautions
}

/// Of measures with the same metric, the one whose verdicts are told first; `None` where any will do.
pub(crate) fn telling<'a>(metric: &str, measures: &[&'a str]) -> Option<&'a str> {
    (metric == "tcp_goodput").then(|| network::telling(measures)).flatten()
}

/// What a closed loop of that plan is about: how many requests are answered in a second, or how many bytes are moved.
pub(crate) fn rate_of(plan: &Plan) -> &'static str {
    if ftp::is_about_bytes(plan) { ftp::GOODPUT } else { THROUGHPUT.name }
}

/// Whether a metric is a rate, which a given load decides beforehand.
pub(crate) fn is_rate(metric: &str) -> bool {
    [ftp::GOODPUT, THROUGHPUT.name].contains(&metric)
}

/// What a trial found, in a few words: for the progress of a run and for its report. `planned` are the network tests of the plan, in
/// its order.
#[must_use]
pub fn describe_finding(record: &TrialRecord, planned: &[NetworkTest]) -> String {
    describe_with(record, planned, &loads::of_load(record))
}

/// [`describe_finding`] of a trial whose histograms were emptied: its percentiles are among these figures of it.
pub(crate) fn describe_with(record: &TrialRecord, planned: &[NetworkTest], figures: &[Value]) -> String {
    let observations = &record.observations;
    match record.finding() {
        Some(Finding::Capacity(found)) => http::describe_capacity(found),
        Some(Finding::Ims(found)) => sip::describe_outcome(found),
        Some(Finding::Latency { load, .. } | Finding::Throughput { load }) => {
            [loads::describe_load(load), ftp::describe(record), loads::describe_latency(figures)].concat()
        }
        Some(Finding::Failover(found)) => {
            let load = loads::load(record).map(loads::describe_load);
            load.into_iter().chain([faults::describe_faults(found)]).collect::<Vec<_>>().join("; ")
        }
        Some(Finding::Network(_)) => describe_tests(observations, planned),
        Some(Finding::Storage(_)) => storage::describe_tests(observations),
        Some(Finding::Unknown { of }) => format!("`{of}`, which this vtax doesn't know"),
        None if observations.iter().any(|o| o.storage().is_some()) => storage::describe_tests(observations),
        None if !observations.is_empty() => describe_tests(observations, planned),
        None => "nothing measured".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `vtax explain` answers from that page.
    #[test]
    fn every_metric_is_explained() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/words.md");
        let page = std::fs::read_to_string(page).unwrap();
        for metric in metrics() {
            let unit = if metric.unit.is_empty() { "number" } else { metric.unit };
            let row = format!("| `{}` | {} | {unit} | ", metric.name, metric.label);
            assert_eq!(page.matches(&row).count(), 1, "{row}");
        }
        let rows = page.split("\n## Metrics\n").nth(1).unwrap().matches("\n| `").count();
        assert_eq!(rows, metrics().count(), "a metric that there isn't");
    }

    /// The unit 1 is that of shares: printed as percent, and an interval is cut at 1. A count must not have it.
    #[test]
    fn what_has_the_unit_of_shares_is_one() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/words.md");
        let page = std::fs::read_to_string(page).unwrap();
        for metric in metrics().filter(|m| m.unit == "1") {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", metric.name))).unwrap();
            // The index lies between 0 and 1 by its definition.
            assert!(row.contains("| share of ") || metric.name == "fairness", "{row}");
        }
    }

    /// Whoever limits a 95th percentile, as standards do, finds it wherever there is a 99th.
    #[test]
    fn every_99th_percentile_has_its_95th() {
        let of_answers: Vec<&Info> =
            metrics().filter(|m| m.name.ends_with("_p99") && !m.name.contains("lateness")).collect();
        assert!(of_answers.len() >= 3);
        for p99 in of_answers {
            let name = p99.name.replace("_p99", "_p95");
            let p95 = named(&name).unwrap_or_else(|| panic!("there is no {name}"));
            assert_eq!((p95.unit, p95.better, p95.compared), (p99.unit, p99.better, p99.compared), "{name}");
        }
    }
}
