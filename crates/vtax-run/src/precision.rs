//! Whether the comparisons are known well enough to stop.
//!
//! One metric per measure decides, the one the measure is named after: the highest rate that
//! passed for a capacity, the median for latency, goodput for throughput. The report's intervals
//! cover every metric; tails need more trials than most budgets have, and chasing them would
//! starve the rest.

use vtax_plan::model::Plan;
use vtax_stats::{Direction, Group, tax};
use vtax_store::record::{Outcome, TrialRecord, Validity};

pub(crate) struct Precision<'a> {
    plan: &'a Plan,
    records: &'a [TrialRecord],
}

impl<'a> Precision<'a> {
    pub(crate) fn new(plan: &'a Plan, records: &'a [TrialRecord]) -> Self {
        Self { plan, records }
    }

    /// True where a comparison that the cell takes part in is wider than ± `repeat.until`, or has
    /// no interval yet.
    pub(crate) fn wide(&self, cell: usize, measure: usize) -> bool {
        let id = &self.plan.cells[cell].id;
        self.plan
            .cells
            .iter()
            .filter(|candidate| {
                candidate.baseline.as_deref().is_some_and(|base| base == id || candidate.id == *id)
            })
            .any(|candidate| {
                candidate.baseline.as_ref().is_some_and(|base| self.unsure(&candidate.id, base, measure))
            })
    }

    /// A side without a single value will not be helped by more trials of the other.
    fn unsure(&self, candidate: &str, baseline: &str, measure: usize) -> bool {
        let (better, ours) = self.values(candidate, measure);
        let (_, theirs) = self.values(baseline, measure);
        if ours.is_empty() || theirs.is_empty() {
            return false;
        }
        let ratio = tax(&Group::exact(&ours), &Group::exact(&theirs), better, self.plan.seed);
        match ratio.map(|r| r.interval) {
            // On the logarithmic scale, ± until around any tax has the same width.
            Ok(Some((low, high))) => (high / low).ln() / 2.0 > (1.0 + self.plan.repeat.until.0).ln(),
            Ok(None) => true,
            Err(_) => false,
        }
    }

    fn values(&self, cell: &str, measure: usize) -> (Direction, Vec<f64>) {
        let name = &self.plan.measures[measure].name;
        let mut better = Direction::Higher;
        let values = self
            .records
            .iter()
            .filter(|r| r.cell == cell && r.measure == *name && r.validity == Validity::Valid)
            .filter_map(|r| match r.outcome.as_ref()? {
                Outcome::Capacity(c) => Some(c.lower.0),
                Outcome::Latency { load, .. } => {
                    better = Direction::Lower;
                    Some(load.latency.0.value_at_quantile(0.5) as f64)
                }
                Outcome::Throughput { load } => Some(load.counts.ok as f64 / load.duration.as_secs_f64()),
                Outcome::Ims(ims) => ims.doc.map(|doc| doc.effective.0),
            })
            .collect();
        (better, values)
    }
}
