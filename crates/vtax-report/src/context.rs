//! What every part of a report is made of: the run, its figures and its verdicts.

use std::sync::OnceLock;

use vtax_store::RunDir;
use vtax_store::summary::Summary;

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
}
