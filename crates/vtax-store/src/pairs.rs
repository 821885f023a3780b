//! Pairs of trials that were made at the same time.

use crate::record::{InvalidReason, TrialRecord, Validity};

/// Finished trials in the order of a journal: the half of a pair that ended first is held back until it is known whether the other one
/// ended as well.
///
/// The two lines of a pair follow each other. A run that ended between them makes the pair again: the half that is there was measured at
/// another time than whatever it would be compared with, and doesn't count.
#[derive(Debug, Default)]
pub struct Pairs {
    half: Option<Box<TrialRecord>>,
}

impl Pairs {
    /// Takes the trial that ended next; those of which it is known now whether they count, in the order in which they ended.
    pub fn take(&mut self, record: TrialRecord) -> Vec<TrialRecord> {
        match self.half.take() {
            Some(half) if is_pair(&half, &record) => vec![*half, record],
            half => {
                let mut known: Vec<TrialRecord> = half.map(|half| alone(*half)).into_iter().collect();
                match record.partner {
                    Some(_) => self.half = Some(Box::new(record)),
                    None => known.push(record),
                }
                known
            }
        }
    }

    /// The half that is held back, where the run ended or was resumed there: its partner won't come any more.
    pub fn end(&mut self) -> Option<TrialRecord> {
        self.half.take().map(|half| alone(*half))
    }
}

/// Whether each is the other's partner.
fn is_pair(one: &TrialRecord, other: &TrialRecord) -> bool {
    let names = |a: &TrialRecord, b: &TrialRecord| a.partner.as_ref().is_some_and(|p| p.index == b.index);
    names(one, other) && names(other, one)
}

/// A half without its partner doesn't count; one that didn't anyway keeps its reason.
fn alone(mut half: TrialRecord) -> TrialRecord {
    if let Some(partner) = half.partner.as_ref().filter(|_| half.validity == Validity::Valid) {
        let detail = format!("the trial of {} at the same time was not finished", partner.cell);
        half.validity = Validity::Invalid { reason: InvalidReason::PartnerInvalid, detail };
    }
    half
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Partner;

    const NONE: [(u32, bool); 0] = [];

    fn trial(index: u32, partner: Option<u32>) -> TrialRecord {
        let partner = partner.map(|index| Partner { index, cell: "vm".to_owned() });
        TrialRecord { index, partner, ..TrialRecord::default() }
    }

    /// Indices, and whether they count.
    fn told(trials: impl IntoIterator<Item = TrialRecord>) -> Vec<(u32, bool)> {
        trials.into_iter().map(|trial| (trial.index, trial.validity == Validity::Valid)).collect()
    }

    #[test]
    fn a_half_counts_with_its_partner_alone() {
        let mut pairs = Pairs::default();
        assert_eq!(told(pairs.take(trial(0, None))), [(0, true)]);
        assert_eq!(told(pairs.take(trial(1, Some(2)))), NONE);
        assert_eq!(told(pairs.take(trial(2, Some(1)))), [(1, true), (2, true)]);
        assert_eq!(told(pairs.end()), NONE);
        // The partner of the fourth was to be the fifth; the pair was made again as six and seven.
        assert_eq!(told(pairs.take(trial(4, Some(5)))), NONE);
        assert_eq!(told(pairs.take(trial(6, Some(7)))), [(4, false)]);
        assert_eq!(told(pairs.take(trial(7, Some(6)))), [(6, true), (7, true)]);
        // One that names a partner which names another.
        assert_eq!(told(pairs.take(trial(8, Some(9)))), NONE);
        assert_eq!(told(pairs.take(trial(9, Some(7)))), [(8, false)]);
        assert_eq!(told(pairs.take(trial(10, None))), [(9, false), (10, true)]);
        assert_eq!(told(pairs.take(trial(11, Some(12)))), NONE);
        let last = pairs.end().unwrap();
        let detail = "the trial of vm at the same time was not finished".to_owned();
        assert_eq!(last.validity, Validity::Invalid { reason: InvalidReason::PartnerInvalid, detail });
        assert_eq!(told(pairs.end()), NONE);
    }

    #[test]
    fn a_half_that_did_not_count_anyway_keeps_its_reason() {
        let validity = Validity::Invalid { reason: InvalidReason::Disturbed, detail: "cron".to_owned() };
        let mut pairs = Pairs::default();
        assert_eq!(told(pairs.take(TrialRecord { validity: validity.clone(), ..trial(0, Some(1)) })), NONE);
        assert_eq!(pairs.end().unwrap().validity, validity);
    }
}
