//! What the tests of storage are by operation, file size and record size, and what each environment has there.

use vtax_plan::model::{Cell, MeasureKind, StorageOperation, StorageTest};

use super::trial::is_sequential;
use crate::data::RunData;
use crate::metric::measure_of_test;

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
#[derive(Debug)]
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
    /// The mean over trials, one for each environment: bytes per second, or operations per second.
    pub(super) values: Vec<Option<f64>>,
}

impl Point<'_> {
    /// Whether its values are bytes per second.
    pub(super) fn in_bytes(&self) -> bool {
        is_sequential(&self.test.name) && self.test.rate.is_none()
    }

    /// Its values' unit.
    pub(super) fn unit(&self) -> &'static str {
        if self.in_bytes() { "B/s" } else { "/s" }
    }
}

/// Every sweep of the run.
pub(super) fn of(data: &RunData) -> Vec<Sweep<'_>> {
    let mut sweeps: Vec<Sweep<'_>> = Vec::new();
    for measure in data.plan.measures.iter().filter(|m| matches!(m.kind, MeasureKind::Storage(_))) {
        let cells: Vec<&Cell> = data.plan.cells.iter().collect();
        let tests = cells.first().map_or(&[][..], |cell| cell.workload.model().storage_tests());
        for test in tests {
            let label = others(test);
            let point = point(data, &cells, &measure.name, test);
            match sweeps.iter_mut().find(|sweep| sweep.label == label) {
                Some(sweep) => sweep.points.push(point),
                None => {
                    let environments =
                        cells.iter().map(|cell| Environment { label: data.environment_label(cell), cell });
                    sweeps.push(Sweep { label, environments: environments.collect(), points: vec![point] });
                }
            }
        }
    }
    sweeps.retain(|sweep| sweep.points.iter().any(|point| point.values.iter().any(Option::is_some)));
    sweeps
}

/// What varies besides operation, file and record size.
fn others(test: &StorageTest) -> String {
    let varies =
        test.parameters.iter().filter(|(key, _)| !["operation", "size", "record"].contains(&key.as_str()));
    varies.map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
}

fn point<'a>(data: &RunData, cells: &[&Cell], measure: &str, test: &'a StorageTest) -> Point<'a> {
    let measure = measure_of_test(measure, &test.name);
    let metrics = ["storage_throughput", "storage_rate"];
    let values = cells.iter().map(|cell| {
        let found =
            metrics.iter().map(|metric| data.metric(&cell.id, &measure, metric)).find(|f| !f.is_empty())?;
        Some(found.iter().map(|value| value.value).sum::<f64>() / found.len() as f64)
    });
    Point { test, values: values.collect(), measure }
}

impl<'a> Sweep<'a> {
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
