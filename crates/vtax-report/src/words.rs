//! Words and signs for verdicts, and for why something doesn't count.

use vtax_store::record::{InvalidReason, Validity};
use vtax_store::summary::Verdict;

/// The word for a verdict.
pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Equivalent => "equivalent",
        Verdict::Inconclusive => "can't tell",
    }
}

/// The name of a verdict in files.
pub(crate) fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Inconclusive => "inconclusive",
        other => word(other),
    }
}

/// A sign for a verdict that reads without colour.
pub(crate) fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "▼",
        Verdict::Worse => "▲",
        Verdict::Equivalent => "=",
        Verdict::Inconclusive => "?",
    }
}

/// A text that begins a sentence.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// `generator-limited: details`.
pub(crate) fn invalid(validity: &Validity) -> Option<String> {
    let Validity::Invalid { reason, detail } = validity else { return None };
    let word = reason_word(*reason);
    Some(if detail.is_empty() { word.to_owned() } else { format!("{word}: {detail}") })
}

/// The word for a reason.
pub(crate) fn reason_word(reason: InvalidReason) -> &'static str {
    match reason {
        InvalidReason::GeneratorLimited => "generator-limited",
        InvalidReason::Disturbed => "disturbed",
        InvalidReason::TestbedFailed => "testbed failed",
        InvalidReason::ServiceFailed => "service failed",
        InvalidReason::MeasureFailed => "measurement failed",
        InvalidReason::NothingSucceeded => "nothing succeeded",
        InvalidReason::PrerequisiteMissing => "prerequisite missing",
        InvalidReason::NoSteadyState => "no steady state",
        InvalidReason::Overloaded => "overloaded",
        InvalidReason::PartnerInvalid => "partner doesn't count",
        InvalidReason::CountsDisagree => "counts disagree",
        InvalidReason::PeerLost => "peer lost",
        InvalidReason::PathCut => "path cut",
        InvalidReason::ProtectionLost => "protection lost",
        InvalidReason::MtuMismatch => "MTU mismatch",
        InvalidReason::DataWrong => "wrong data",
        InvalidReason::ClockWrong => "clock wrong",
        InvalidReason::CacheNotAsAsked => "cache not as asked",
        InvalidReason::Unknown => "a reason that this vtax doesn't know",
    }
}
