//! What a step of load is worth.

use vtax_load::{Doubt, LoadResult};
use vtax_store::record::{InvalidReason, Validity};
use vtax_units::Nanos;

/// What a step without faults is worth, however it went along: a server that acknowledges what isn't so has no speed.
pub(super) fn undisturbed(result: &LoadResult) -> Validity {
    let ftp = result.details.as_ref().and_then(|details| details.ftp.as_ref());
    match ftp.map_or(0, |ftp| ftp.wrong()) {
        0 => validity(result),
        wrong => {
            let detail = format!("{wrong} transfers were acknowledged, but short or wrong");
            invalid(InvalidReason::DataWrong, detail)
        }
    }
}

/// What a step is worth, however it went along.
pub(crate) fn validity(result: &LoadResult) -> Validity {
    match result.doubt() {
        None => Validity::Valid,
        Some(Doubt::NothingSucceeded(why)) => invalid(InvalidReason::NothingSucceeded, why),
        Some(Doubt::GeneratorLimited(why)) => invalid(InvalidReason::GeneratorLimited, why),
    }
}

/// What a load is worth that was held while things broke. Answers count as delayed beyond `delayed`; starts within a hundredth of
/// that are on time, however short latencies are.
pub(super) fn validity_under_faults(result: &LoadResult, delayed: Nanos) -> Validity {
    match result.doubt() {
        Some(Doubt::GeneratorLimited(_)) if result.on_time(Nanos(delayed.0 / 100)) => Validity::Valid,
        _ => validity(result),
    }
}

fn invalid(reason: InvalidReason, detail: String) -> Validity {
    Validity::Invalid { reason, detail }
}
