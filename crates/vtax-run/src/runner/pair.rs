//! Two trials at the same time: the baseline and a candidate.

use vtax_store::record::{InvalidReason, Partner, TrialRecord, Validity};

use super::{Executor, Runner, Slot};
use crate::error::RunError;
use crate::observe::RunEvent;
use crate::trial_request::TrialRequest;

impl Runner<'_> {
    /// Makes a pair; false where it was interrupted. Slots are the baseline's and the candidate's: the
    /// candidate is written last, because a pair counts as made with it.
    pub(super) fn make_pair(
        &mut self,
        baseline: Slot,
        candidate: Slot,
        executor: &mut dyn Executor,
    ) -> Result<bool, RunError> {
        let slots = [baseline, candidate];
        let (plan, measure) = (self.plan, &self.plan.measures[candidate.measure]);
        let ids = slots.map(|slot| &plan.cells[slot.cell].id);
        let (owed, remaining) = self.remaining();
        let mut first = self.store.begin_trial(ids[0], &measure.name, baseline.repetition)?;
        let mut second = self.store.begin_trial(ids[1], &measure.name, candidate.repetition)?;
        let indices = [first.index(), second.index()];
        self.observer.observe(&RunEvent::TrialStarted {
            index: indices[1],
            cell: &format!("{} together with {}", ids[1], ids[0]),
            measure: &measure.name,
            repetition: candidate.repetition,
            owed,
            remaining,
        });
        let began = std::time::Instant::now();
        let requests = [self.request(baseline), self.request(candidate)];
        let records = match &requests {
            [Ok(one), Ok(other)] => executor.pair([one, other], [&mut first, &mut second], self.observer)?,
            [one, other] => {
                let missing = |request: &Result<TrialRequest<'_>, String>| request.as_ref().err().cloned();
                let why = missing(one).or_else(|| missing(other)).unwrap_or_default();
                Some(slots.map(|slot| self.unmade(slot, &why)))
            }
        };
        let Some(mut records) = records else { return Ok(false) };
        self.durations.insert((candidate.cell, candidate.measure), began.elapsed());
        for (me, other) in [(0, 1), (1, 0)] {
            records[me].partner = Some(Partner { index: indices[other], cell: ids[other].clone() });
        }
        count_as_a_whole(&mut records);
        for ((record, files), slot) in records.into_iter().zip([first, second]).zip(slots) {
            self.conclude(slot, record, files)?;
        }
        self.finish(executor)?;
        Ok(true)
    }
}

/// One half tells nothing without the other.
fn count_as_a_whole(records: &mut [TrialRecord; 2]) {
    for (me, other) in [(0, 1), (1, 0)] {
        let why = match &records[other].validity {
            Validity::Invalid { reason, detail } if *reason != InvalidReason::PartnerInvalid => {
                format!("the trial of {} at the same time doesn't count: {detail}", records[other].cell)
            }
            _ => continue,
        };
        if matches!(
            records[me].validity,
            Validity::Valid | Validity::Invalid { reason: InvalidReason::PartnerInvalid, .. }
        ) {
            records[me].validity = Validity::Invalid { reason: InvalidReason::PartnerInvalid, detail: why };
        }
    }
}
