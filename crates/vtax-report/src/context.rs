//! What every part of a report is made of: the run, its figures and its verdicts.

use std::sync::OnceLock;

use vtax_plan::model::Cell;
use vtax_store::RunDir;
use vtax_store::summary::{MetricSummary, Summary};

use crate::data::RunData;
use crate::rows::{self, Row};

/// A run, read and judged. It knows no chapter; chapters read it.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) run: RunDir,
    pub(crate) data: RunData,
    pub(crate) summary: Summary,
    rows: OnceLock<Vec<Row>>,
}

impl Context {
    pub(crate) fn new(run: RunDir, data: RunData, summary: Summary) -> Self {
        Self { run, data, summary, rows: OnceLock::new() }
    }

    /// Every compared metric of every group, metric by metric, baseline first.
    pub(crate) fn rows(&self) -> &[Row] {
        self.rows.get_or_init(|| rows::rows(&self.data, &self.summary))
    }

    /// The typical value of a metric in a cell, in the metric's unit.
    pub(crate) fn center(&self, cell: &Cell, measure: &str, metric: &str) -> Option<f64> {
        self.metric(cell, measure, metric).map(|metric| metric.center)
    }

    /// The center of a metric, where it is more than a bound.
    pub(crate) fn exact_center(&self, cell: &Cell, measure: &str, metric: &str) -> Option<f64> {
        self.metric(cell, measure, metric).filter(|metric| !metric.at_least).map(|metric| metric.center)
    }

    fn metric(&self, cell: &Cell, measure: &str, metric: &str) -> Option<&MetricSummary> {
        let mut found = self.summary.cells.iter().filter(|c| c.cell == cell.id && c.measure == measure);
        found.find_map(|c| c.metrics.get(metric))
    }
}
