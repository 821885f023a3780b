//! What a run found of desktops, by environment and measure.

use vtax_load::{LatencyHistogram, LoadResult};
use vtax_plan::model::Cell;
use vtax_store::record::{TrialRecord, Validity};
use vtax_store::summary::CellSummary;
use vtax_units::Nanos;

use super::trial::figures;
use crate::context::Context;
use crate::format::typical;
use crate::general::trial::load;
use crate::metric::{Unanswered, Value, percentiles};

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
    /// Of the answers of all trials that count, and what had none beside them.
    latency: Option<LatencyHistogram>,
    unanswered: Unanswered,
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

    /// The typical value of a time in words, empty where there is none.
    pub(super) fn time(&self, metric: &str) -> String {
        let found = self.summary.metrics.get(metric);
        found.map(|found| typical(found.center, "ns", found.at_least)).unwrap_or_default()
    }

    /// A percentile of the latency of all trials together in nanoseconds, where they have answers enough for it: of all actions, those
    /// without an answer as slower than every answer. Where it lies among these it is a bound.
    pub(super) fn percentile(&self, quantile: f64) -> Option<Value> {
        let wanted = [("", quantile)];
        percentiles(self.latency.as_ref()?, self.unanswered, &wanted).next()
    }

    /// A percentile in words.
    pub(super) fn percentile_words(&self, quantile: f64) -> String {
        let found = self.percentile(quantile);
        found.map_or_else(|| "too few".to_owned(), |found| typical(found.value, "ns", found.censored))
    }
}

/// What had no answer of several loads together.
fn unanswered<'a>(loads: impl Iterator<Item = &'a LoadResult>) -> Unanswered {
    let (mut asked, mut lost, mut waited) = (0.0, 0.0, Nanos::ZERO);
    for load in loads {
        // As of one load: in a closed loop nothing is intended beforehand.
        let own = load.counts.intended.max(load.counts.sent).saturating_sub(load.counts.waiting) as f64;
        (asked, lost) = (asked + own, lost + own * load.unanswered());
        waited = waited.max(load.timeout);
    }
    Unanswered { share: if asked > 0.0 { lost / asked } else { 0.0 }, waited }
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
        latency: data.latency.get(&(cell.id.clone(), measure.to_owned())).cloned().map(LatencyHistogram),
        unanswered: unanswered(loads()),
    })
}
