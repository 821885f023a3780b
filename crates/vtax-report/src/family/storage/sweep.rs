//! What the tests of storage are by operation, file size and record size, and what each environment has there.

use vtax_plan::model::{Cell, Measure, MeasureKind, Plan, StorageOperation, StorageSync, StorageTest};
use vtax_store::storage::goes_over_all_once;
use vtax_store::summary::{Comparison, MetricSummary, Summary};
use vtax_units::metric::{STORAGE_RATE, STORAGE_THROUGHPUT};

use crate::context::Context;
use crate::html::parts::titled;
use crate::metric::{measure_of_test, parts_of_measure};

/// The tests of one measure that differ in operation, file and record size only.
#[derive(Debug)]
pub(super) struct Sweep<'a> {
    /// What else tells it from others, in words; empty where it is the only one.
    pub(super) label: String,
    /// In the plan's order.
    pub(super) environments: Vec<Environment<'a>>,
    pub(super) points: Vec<Point<'a>>,
}

/// One environment.
#[derive(Debug, Clone)]
pub(super) struct Environment<'a> {
    pub(super) label: String,
    pub(super) cell: &'a Cell,
}

/// One test with what every environment has.
#[derive(Debug)]
pub(super) struct Point<'a> {
    pub(super) test: &'a StorageTest,
    /// Name of the measure that it is: `storage/read`.
    pub(super) measure: String,
    /// One for each environment: bytes per second, or operations per second.
    pub(super) found: Vec<Option<Found<'a>>>,
}

/// What an environment has in one test.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'a> {
    /// Its typical value over trials with its interval.
    pub(super) figure: &'a MetricSummary,
    /// How it compares with the baseline; `None` for the baseline itself.
    pub(super) comparison: Option<&'a Comparison>,
}

impl Point<'_> {
    /// Whether its values are bytes per second.
    pub(super) fn in_bytes(&self) -> bool {
        goes_over_all_once(&self.test.name) && self.test.rate.is_none()
    }

    /// Its values' unit.
    pub(super) fn unit(&self) -> &'static str {
        if self.in_bytes() { "B/s" } else { "/s" }
    }

    /// The plan's measure that its trials were for.
    pub(super) fn of_measure(&self) -> &str {
        parts_of_measure(&self.measure).0
    }

    /// What it is called beside other tests: with its measure where the plan has several, which all make the same tests.
    pub(super) fn title(&self, several: bool) -> &str {
        if several { &self.measure } else { &self.test.name }
    }

    /// The typical value of an environment.
    pub(super) fn value(&self, place: usize) -> Option<f64> {
        Some((*self.found.get(place)?)?.figure.center)
    }
}

/// Every sweep of the run.
pub(super) fn of(context: &Context) -> Vec<Sweep<'_>> {
    let (data, summary) = (&context.data, &context.summary);
    let mut sweeps: Vec<Sweep<'_>> = Vec::new();
    let (environments, several) = (environments(context), several(&data.plan));
    for measure in measures(&data.plan) {
        let tests = data.plan.cells.first().map_or(&[][..], |cell| cell.workload.model().storage_tests());
        for test in tests {
            let mut label = varying(test, &OF_POINT);
            if several {
                label.push_str(if label.is_empty() { "" } else { ", " });
                label.push_str(&measure.name);
            }
            let point = point(summary, &environments, &measure.name, test);
            match sweeps.iter_mut().find(|sweep| sweep.label == label) {
                Some(sweep) => sweep.points.push(point),
                None => {
                    sweeps.push(Sweep { label, environments: environments.clone(), points: vec![point] });
                }
            }
        }
    }
    sweeps.retain(|sweep| sweep.points.iter().any(|point| point.found.iter().any(Option::is_some)));
    sweeps
}

/// The plan's measures of storage.
fn measures(plan: &Plan) -> impl Iterator<Item = &Measure> {
    plan.measures.iter().filter(|measure| matches!(measure.kind, MeasureKind::Storage(_)))
}

/// Whether there are several: each makes all tests, so that the name of a test doesn't say which it is of.
pub(super) fn several(plan: &Plan) -> bool {
    measures(plan).count() > 1
}

/// All environments, each group's baseline before what is compared with it.
fn environments(context: &Context) -> Vec<Environment<'_>> {
    let groups = context.data.groups();
    let each = groups.iter().flat_map(|group| {
        let label = |cell: &Cell| {
            let own = context.data.environment_label(cell);
            if group.label.is_empty() { own } else { format!("{own}, {}", group.label) }
        };
        group.cells.iter().copied().map(move |cell| Environment { label: label(cell), cell })
    });
    each.collect()
}

/// Keys of what the points of a sweep differ in.
const OF_POINT: [&str; 3] = ["operation", "size", "record"];

/// What varies of a test, but for the parameters in `left_out`, which stand beside it.
pub(super) fn varying(test: &StorageTest, left_out: &[&str]) -> String {
    let varies = test.parameters.iter().filter(|(key, _)| !left_out.contains(&key.as_str()));
    varies.map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
}

fn point<'a>(
    summary: &'a Summary,
    environments: &[Environment<'a>],
    measure: &str,
    test: &'a StorageTest,
) -> Point<'a> {
    let measure = measure_of_test(measure, &test.name);
    let found = environments.iter().map(|environment| {
        let id = &environment.cell.id;
        let own = summary.cells.iter().find(|s| s.cell == *id && s.measure == measure)?;
        let metrics = [STORAGE_THROUGHPUT.name, STORAGE_RATE.name].into_iter();
        let (metric, figure) = metrics.filter_map(|name| Some((name, own.metrics.get(name)?))).next()?;
        let of = |c: &&Comparison| c.cell == *id && c.measure == measure && c.metric == metric;
        Some(Found { figure, comparison: summary.comparisons.iter().find(of) })
    });
    Point { test, found: found.collect(), measure }
}

impl<'a> Sweep<'a> {
    /// What it is called beside other sweeps.
    pub(super) fn titled(&self, title: &str) -> String {
        titled(title, &self.label)
    }

    /// Its operations in the plan's order.
    pub(super) fn operations(&self) -> Vec<StorageOperation> {
        unique(self.points.iter().map(|point| point.test.operation))
    }

    /// Its file sizes, ascending.
    pub(super) fn sizes(&self) -> Vec<u64> {
        sorted(self.points.iter().map(|point| point.test.shape.file.0))
    }

    /// Its record sizes, ascending.
    pub(super) fn records(&self) -> Vec<u64> {
        sorted(self.points.iter().map(|point| point.test.shape.record.0))
    }

    /// The test of these; the first where it is made several times.
    pub(super) fn at(&self, operation: StorageOperation, size: u64, record: u64) -> Option<&Point<'a>> {
        self.points.iter().find(|point| {
            let shape = &point.test.shape;
            (point.test.operation, shape.file.0, shape.record.0) == (operation, size, record)
        })
    }
}

/// What is said beside throughput until everything is durable, where tests write and ask for nothing of the kind.
pub(super) fn not_durable(sweeps: &[Sweep<'_>]) -> Option<&'static str> {
    let asks_nothing = |point: &Point<'_>| {
        point.in_bytes() && point.test.operation.writes() && point.test.shape.sync == StorageSync::None
    };
    sweeps.iter().flat_map(|sweep| &sweep.points).any(asks_nothing).then_some(
        "Of tests with `sync: none` throughput is until the last write was acknowledged: nothing was asked to be durable.",
    )
}

/// Whether any figure has an interval; too few trials have none.
pub(super) fn has_intervals(sweeps: &[Sweep<'_>]) -> bool {
    let found = sweeps.iter().flat_map(|sweep| &sweep.points).flat_map(|point| &point.found);
    found.flatten().any(|found| found.figure.interval.is_some())
}

/// A note, and behind it what [`not_durable`] says.
pub(super) fn noted(note: &str, sweeps: &[Sweep<'_>]) -> String {
    not_durable(sweeps).map_or_else(|| note.to_owned(), |more| format!("{note} {more}"))
}

fn unique<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

fn sorted(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut all = unique(values);
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use vtax_store::summary::Better;

    use super::*;

    /// Above a table of two trials stood "with their 95 % intervals".
    #[test]
    fn intervals_are_told_of_only_where_there_is_one() {
        let plan = "{vtax: 1, name: t, baseline: native, environments: native, paths: direct, \
                    workload: {storage: {size: 1MiB, record: 4KiB, operations: [write]}}, measure: storage}";
        let plan = vtax_plan::parse("t", plan.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
        let test = &plan.cells[0].workload.model().storage_tests()[0];
        let has = |interval| {
            let figure = MetricSummary {
                unit: "B/s".to_owned(),
                better: Better::Higher,
                n: 2,
                center: 1.0,
                mean: 1.0,
                sd: None,
                median: 1.0,
                interval,
                at_least: false,
                values: vec![1.0, 1.0],
                trials: Vec::new(),
                percentiles: BTreeMap::new(),
            };
            let found = vec![None, Some(Found { figure: &figure, comparison: None })];
            let points = vec![Point { test, measure: String::new(), found }];
            has_intervals(&[Sweep { label: String::new(), environments: Vec::new(), points }])
        };
        assert!(has(Some((0.5, 2.0))) && !has(None) && !has_intervals(&[]));
    }

    #[test]
    fn what_nobody_asked_to_be_durable_is_told() {
        let cautioned = |test: &str| {
            let plan = format!(
                "{{vtax: 1, name: t, baseline: native, environments: native, paths: direct, \
                 workload: {{storage: {{size: 1MiB, record: 4KiB, {test}}}}}, measure: storage}}"
            );
            let plan = vtax_plan::parse("t", plan.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
            let point = |test| Point { test, measure: String::new(), found: Vec::new() };
            let points = plan.cells[0].workload.model().storage_tests().iter().map(point).collect();
            noted("Medians.", &[Sweep { label: String::new(), environments: Vec::new(), points }])
        };
        let durable = "Medians.";
        assert_eq!(cautioned("operations: [write], sync: end"), durable);
        assert_eq!(cautioned("operations: [read], sync: none"), durable);
        let not = cautioned("operations: [write, read], sync: none");
        assert!(not.starts_with("Medians. Of tests with `sync: none` throughput is until the last"), "{not}");
    }
}
