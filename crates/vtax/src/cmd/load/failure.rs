//! Whose fault the engine's errors are.

use vtax_load::LoadError;

use crate::exit::{Exit, Failure};

/// Sorts the engine's errors by whose fault they are.
pub(super) fn failure(error: LoadError) -> Failure {
    let exit = match error {
        LoadError::Spec { .. } => Exit::BadInput,
        LoadError::Cancelled { .. } => Exit::Interrupted,
        LoadError::System { .. } | LoadError::Worker { .. } => Exit::HostCannot,
        LoadError::Panicked { .. } | LoadError::Encode { .. } => Exit::Bug,
    };
    Failure { exit, error: error.into() }
}
