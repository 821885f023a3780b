//! What the trials of a run have come to.

use vtax_store::record::{InvalidReason, Validity};

/// What the trials of a run have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// At least one counts.
    Something,
    /// None counts, as services didn't start or answered nothing.
    ServicesFailed,
    /// None counts, not for services alone.
    Nothing,
}

impl Found {
    pub(crate) fn of<'a>(trials: impl IntoIterator<Item = &'a Validity>) -> Self {
        use InvalidReason::{NothingSucceeded, PartnerInvalid, PrerequisiteMissing, ServiceFailed};
        let mut found = Self::Nothing;
        let mut other = false;
        for validity in trials {
            match validity {
                Validity::Valid => return Self::Something,
                Validity::Invalid { reason: ServiceFailed | NothingSucceeded, .. } => {
                    found = Self::ServicesFailed;
                }
                // These only follow from another trial's.
                Validity::Invalid { reason: PartnerInvalid | PrerequisiteMissing, .. } => {}
                Validity::Invalid { .. } => other = true,
            }
        }
        if other { Self::Nothing } else { found }
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
            (Found::of(&trials), Found::of(trials.iter().chain([&Validity::Valid])))
        };
        assert_eq!(of(&[]), (Found::Nothing, Found::Something));
        assert_eq!(of(&[ServiceFailed, PrerequisiteMissing]), (Found::ServicesFailed, Found::Something));
        assert_eq!(of(&[ServiceFailed, Disturbed]), (Found::Nothing, Found::Something));
        assert_eq!(of(&[PrerequisiteMissing]), (Found::Nothing, Found::Something));
    }
}
