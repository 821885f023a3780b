//! What tests of storage come to, each a measure of its own.

use vtax_load::LatencyHistogram;
use vtax_plan::model::{Measure, MeasureKind, Plan};
use vtax_store::record::{Finding, Observation, TrialRecord, Validity};
use vtax_store::storage::StorageFinding;
use vtax_units::metric::{STORAGE_RATE, STORAGE_THROUGHPUT};

use crate::metric::{Info, Observed, Unanswered, Value, exact, higher, lower, measure_of_test, percentiles};

/// The metrics of this family, in the order of tables.
pub(crate) const METRICS: &[Info] = &[
    higher(STORAGE_THROUGHPUT.name, STORAGE_THROUGHPUT.label, "B/s", 2),
    higher("storage_children", "throughput, sum of processes", "B/s", 0),
    higher(STORAGE_RATE.name, STORAGE_RATE.label, "/s", 2),
    lower("storage_p50", "operation, median", "ns", 1),
    lower("storage_p95", "operation, p95", "ns", 1),
    lower("storage_p99", "operation, p99", "ns", 1),
    lower("storage_p99.9", "operation, p99.9", "ns", 0),
    lower("storage_lateness_p99", "lateness of starts, p99", "ns", 0),
    lower("storage_durable", "until durable", "ns", 0),
    lower("storage_cpu_per_byte", "CPU time per byte, SUT's side", "ns/B", 1),
];

/// Percentiles that are metrics.
const PERCENTILES: [(&str, f64); 4] =
    [("storage_p50", 0.5), ("storage_p95", 0.95), ("storage_p99", 0.99), ("storage_p99.9", 0.999)];

/// What the tests of a measure are called as measures, in the plan's order; `None` where it isn't one of storage.
pub(crate) fn names_of_tests(plan: &Plan, measure: &Measure) -> Option<Vec<String>> {
    if !matches!(measure.kind, MeasureKind::Storage(_)) {
        return None;
    }
    let mut names = Vec::new();
    for test in plan.cells.iter().flat_map(|cell| cell.workload.model().storage_tests()) {
        let name = measure_of_test(&measure.name, &test.name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Some(names)
}

/// The tests of a valid trial that count.
pub(crate) fn observed(record: &TrialRecord) -> Vec<Observed<'_>> {
    let counted = record.observations.iter().filter(|o| o.validity == Validity::Valid);
    counted
        .filter_map(|o| {
            let found = o.storage()?;
            let percentiles: &[(&str, f64)] = &PERCENTILES;
            let latency = Some(&found.result.load.latency);
            Some(Observed { test: Some(&o.name), values: values(o, found), latency, percentiles })
        })
        .collect()
}

fn values(observation: &Observation, found: &StorageFinding) -> Vec<Value> {
    let result = &found.result;
    let (metric, value) = found.figure(&observation.name);
    let mut values = vec![exact(metric.name, value)];
    if metric == STORAGE_THROUGHPUT {
        values.push(exact("storage_children", result.children()));
    } else {
        values.extend(percentiles(&result.load.latency, Unanswered::of(&result.load), &PERCENTILES));
    }
    if !result.load.lateness.is_empty() {
        values.push(exact("storage_lateness_p99", result.load.lateness.quantile(0.99).0 as f64));
    }
    values.extend(result.until_durable().map(|time| exact("storage_durable", time.0 as f64)));
    let spent = observation.cpu.as_ref().filter(|cpu| cpu.requests > 0);
    let spent =
        spent.map(|cpu| cpu.layers.iter().map(|l| l.time.0).sum::<u64>() as f64 / cpu.requests as f64);
    values.extend(spent.map(|ns| exact("storage_cpu_per_byte", ns)));
    values.retain(|value| value.value.is_finite());
    values
}

/// Empties the histograms of tests.
pub(crate) fn forget_histograms(record: &mut TrialRecord) {
    for observation in &mut record.observations {
        let Some(Finding::Storage(found)) = &mut observation.result else { continue };
        let load = &mut found.result.load;
        (load.latency, load.lateness) = (LatencyHistogram::new(), LatencyHistogram::new());
        load.intervals.clear();
    }
}

/// Tests of a trial that are told one by one; a table has all.
const MOST_NAMED: usize = 4;

/// What the tests of a trial found, in a few words.
pub(crate) fn describe_tests(observations: &[Observation]) -> String {
    let (first, more) = observations.split_at(observations.len().min(MOST_NAMED));
    let words = first.iter().map(|observation| {
        let name = &observation.name;
        match (&observation.validity, observation.storage()) {
            (Validity::Invalid { .. }, _) | (_, None) => format!("{name} invalid"),
            (_, Some(found)) => match found.figure(name) {
                (STORAGE_THROUGHPUT, value) => format!("{name} {:.1} MB/s", value / 1e6),
                (_, value) => format!("{name} {value:.0}/s"),
            },
        }
    });
    let mut words: Vec<String> = words.collect();
    let invalid = more.iter().filter(|observation| observation.validity != Validity::Valid).count();
    words.extend(describe_more(more.len(), invalid));
    words.join(", ")
}

/// How many tests there are besides those that are told one by one.
fn describe_more(more: usize, invalid: usize) -> Option<String> {
    match (more, invalid) {
        (0, _) => None,
        (1, 0) => Some("and 1 test more".to_owned()),
        (1, _) => Some("and 1 test more, which is invalid".to_owned()),
        (more, 0) => Some(format!("and {more} tests more")),
        (more, invalid) => Some(format!("and {more} tests more, {invalid} of them invalid")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_test_more_is_no_tests() {
        let text = |more, invalid| describe_more(more, invalid).unwrap_or_default();
        assert_eq!(text(0, 0), "");
        assert_eq!((text(1, 0).as_str(), text(2, 0).as_str()), ("and 1 test more", "and 2 tests more"));
        assert_eq!(text(1, 1), "and 1 test more, which is invalid");
        assert_eq!(text(3, 1), "and 3 tests more, 1 of them invalid");
    }
}
