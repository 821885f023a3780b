//! What the trials of a run have come to.

use vtax_store::record::{InvalidReason, Validity};

/// What the trials of a run have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialsOutcome {
    /// At least one is valid.
    SomeValid,
    /// None is valid, as services didn't start or answered nothing.
    ServicesFailed,
    /// None is valid, not for services alone.
    NoneValid,
}

impl TrialsOutcome {
    /// Of trials with these validities.
    #[must_use]
    pub fn of<'a>(trials: impl IntoIterator<Item = &'a Validity>) -> Self {
        use InvalidReason::{NothingSucceeded, PartnerInvalid, PrerequisiteMissing, ServiceFailed};
        let mut outcome = Self::NoneValid;
        let mut other = false;
        for validity in trials {
            match validity {
                Validity::Valid => return Self::SomeValid,
                Validity::Invalid { reason: ServiceFailed | NothingSucceeded, .. } => {
                    outcome = Self::ServicesFailed;
                }
                // These only follow from another trial's.
                Validity::Invalid { reason: PartnerInvalid | PrerequisiteMissing, .. } => {}
                Validity::Invalid { .. } => other = true,
            }
        }
        if other { Self::NoneValid } else { outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_at_fault_where_nothing_else_is() {
        use InvalidReason::{Disturbed, PrerequisiteMissing, ServiceFailed};
        let of = |reasons: &[InvalidReason]| {
            let invalid =
                |reason: &InvalidReason| Validity::Invalid { reason: *reason, detail: String::new() };
            let trials: Vec<Validity> = reasons.iter().map(invalid).collect();
            (TrialsOutcome::of(&trials), TrialsOutcome::of(trials.iter().chain([&Validity::Valid])))
        };
        assert_eq!(of(&[]), (TrialsOutcome::NoneValid, TrialsOutcome::SomeValid));
        assert_eq!(
            of(&[ServiceFailed, PrerequisiteMissing]),
            (TrialsOutcome::ServicesFailed, TrialsOutcome::SomeValid)
        );
        assert_eq!(of(&[ServiceFailed, Disturbed]), (TrialsOutcome::NoneValid, TrialsOutcome::SomeValid));
        assert_eq!(of(&[PrerequisiteMissing]), (TrialsOutcome::NoneValid, TrialsOutcome::SomeValid));
    }
}
