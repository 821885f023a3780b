//! Whether the comparisons are known well enough to stop.
//!
//! One metric per measure decides, the one the measure is named after: the highest rate that
//! passed for a capacity, the median for latency, goodput for throughput. The report's intervals
//! cover every metric; tails need more trials than most budgets have, and chasing them would
//! starve the rest.
//!
//! The rule looks at width alone, never at where an interval lies, and at the very interval that the
//! report shows: taken within rounds, and widened for having been looked at.

use vtax_plan::model::Plan;
use vtax_stats::{Direction, Group, after_looking, narrow, tax};
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
        let ours = self.side(candidate, None, measure);
        // Of a pair's baseline only the trials made together with this candidate.
        let duet = self.plan.is_duet(&self.plan.measures[measure]);
        let theirs = self.side(baseline, duet.then_some(candidate), measure);
        if ours.values.is_empty() || theirs.values.is_empty() {
            return false;
        }
        match tax(&ours.group(), &theirs.group(), ours.better, self.plan.seed) {
            Ok(ratio) => {
                !narrow(&after_looking(&ratio, self.plan.repeat.min as usize), self.plan.repeat.until.0)
            }
            Err(_) => false,
        }
    }

    fn side(&self, cell: &str, partner: Option<&str>, measure: usize) -> Side {
        let name = &self.plan.measures[measure].name;
        let mut side = Side { better: Direction::Higher, values: Vec::new(), rounds: Vec::new() };
        let paired = |r: &TrialRecord| {
            partner.is_none_or(|cell| r.partner.as_ref().is_some_and(|partner| partner.cell == cell))
        };
        let counts = |r: &&TrialRecord| {
            r.cell == cell && r.measure == *name && r.validity == Validity::Valid && paired(r)
        };
        for record in self.records.iter().filter(counts) {
            let value = match record.outcome.as_ref() {
                // Its width is left out: no number of trials makes a bracket narrower.
                Some(Outcome::Capacity(c)) => {
                    Some(c.upper.map_or(c.lower.0, |upper| (c.lower.0 * upper.0).sqrt()))
                }
                Some(Outcome::Latency { load, .. }) => {
                    side.better = Direction::Lower;
                    Some(load.latency.0.value_at_quantile(0.5) as f64)
                }
                Some(Outcome::Throughput { load }) => {
                    Some(load.counts.ok as f64 / load.duration.as_secs_f64())
                }
                Some(Outcome::Ims(ims)) => ims.doc.map(|doc| doc.effective.0),
                None => None,
            };
            side.values.extend(value);
            side.rounds.extend(value.and(record.round));
        }
        side
    }
}

/// The trials of one side of a comparison that count.
struct Side {
    better: Direction,
    values: Vec<f64>,
    /// As many as values, or fewer where an older run didn't write them down.
    rounds: Vec<u32>,
}

impl Side {
    fn group(&self) -> Group<'_> {
        Group::in_rounds(&self.values, &self.rounds)
    }
}
