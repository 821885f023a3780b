//! What a run found of desktops, by environment and measure.

use hdrhistogram::Histogram;
use vtax_plan::model::Cell;
use vtax_store::record::{TrialRecord, Validity};
use vtax_store::summary::CellSummary;

use super::trial::figures;
use crate::context::Context;
use crate::general::trial::load;
use crate::metric::enough;

/// What was found of one cell by one measure.
#[derive(Debug)]
pub(super) struct Found<'a> {
    /// The cell's environment.
    pub(super) label: String,
    /// Its place among those it is compared with.
    pub(super) position: usize,
    pub(super) measure: &'a str,
    /// Users who acted.
    pub(super) users: u32,
    /// Bytes per second that clients got, and that they sent, over all trials that count.
    pub(super) rates: (f64, f64),
    summary: &'a CellSummary,
    latency: Option<&'a Histogram<u64>>,
}

/// Cells that are compared with each other.
#[derive(Debug)]
pub(super) struct Compared<'a> {
    /// What tells them from others; may be empty.
    pub(super) label: String,
    /// By measure, then by cell.
    pub(super) found: Vec<Found<'a>>,
}

impl Found<'_> {
    /// The typical value of a metric.
    pub(super) fn value(&self, metric: &str) -> Option<f64> {
        self.summary.metrics.get(metric).map(|found| found.center)
    }

    /// A percentile of the latency of all trials together in nanoseconds, where they have answers enough for it.
    pub(super) fn percentile(&self, quantile: f64) -> Option<f64> {
        let latency = self.latency.filter(|latency| enough(latency.len(), quantile))?;
        Some(latency.value_at_quantile(quantile) as f64)
    }
}

/// All that was found; empty where the run has no desktops.
pub(super) fn of(context: &Context) -> Vec<Compared<'_>> {
    let data = &context.data;
    let mut all = Vec::new();
    for group in data.groups() {
        let mut found = Vec::new();
        for measure in &data.plan.measures {
            let cells = group.cells.iter().enumerate();
            found.extend(cells.filter_map(|(at, cell)| one(context, cell, at, &measure.name)));
        }
        if !found.is_empty() {
            all.push(Compared { label: group.label, found });
        }
    }
    all
}

fn one<'a>(context: &'a Context, cell: &Cell, position: usize, measure: &'a str) -> Option<Found<'a>> {
    let data = &context.data;
    let own = |t: &&TrialRecord| t.cell == cell.id && t.measure == measure && t.validity == Validity::Valid;
    let trials = || data.trials.iter().filter(own);
    let users = trials().find_map(figures)?.sessions;
    let loads = || trials().filter_map(load);
    let seconds: f64 = loads().map(|load| load.duration.as_secs_f64()).sum();
    let received: u64 = loads().map(|load| load.counts.bytes_received).sum();
    let sent: u64 = loads().map(|load| load.counts.bytes_sent).sum();
    Some(Found {
        label: data.environment_label(cell),
        position,
        measure,
        users,
        rates: (received as f64 / seconds, sent as f64 / seconds),
        summary: context.summary.cells.iter().find(|c| c.cell == cell.id && c.measure == measure)?,
        latency: data.latency.get(&(cell.id.clone(), measure.to_owned())),
    })
}
