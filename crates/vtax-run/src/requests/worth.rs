//! What a step of load is worth.

use vtax_load::{Doubt, LoadResult};
use vtax_store::record::{InvalidReason, Validity};

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

fn invalid(reason: InvalidReason, detail: String) -> Validity {
    Validity::Invalid { reason, detail }
}
