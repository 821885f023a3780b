//! Whose fault the engine's errors are.

use std::io::ErrorKind;

use vtax_load::LoadError;
use vtax_load::storage::StorageError;

use crate::exit::{Exit, Failure};

/// Sorts the engine's errors by whose fault they are.
pub(super) fn failure(error: LoadError) -> Failure {
    let exit = match error {
        LoadError::Spec { .. }
        | LoadError::Storage(StorageError::Open { .. } | StorageError::Foreign { .. }) => Exit::BadInput,
        LoadError::Server { .. } => Exit::Failed,
        LoadError::Storage(_) => Exit::HostCannot,
        LoadError::Cancelled { .. } => Exit::Interrupted,
        LoadError::System { ref source, .. } if is_of_the_peer(source.kind()) => Exit::Failed,
        LoadError::System { .. } | LoadError::Worker { .. } => Exit::HostCannot,
        LoadError::Panicked { .. } | LoadError::Encode { .. } => Exit::Bug,
    };
    Failure { exit, error: error.into() }
}

/// Whether this is the far end's doing, such as a server that isn't there.
fn is_of_the_peer(kind: ErrorKind) -> bool {
    use ErrorKind::{
        BrokenPipe, ConnectionRefused, ConnectionReset, HostUnreachable, TimedOut, UnexpectedEof,
    };
    matches!(
        kind,
        BrokenPipe | ConnectionRefused | ConnectionReset | HostUnreachable | TimedOut | UnexpectedEof
    )
}
