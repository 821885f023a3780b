//! Whose fault the engine's errors are.

use std::io::ErrorKind;

use vtax_load::LoadError;
use vtax_load::storage::StorageError;

use crate::exit::{Exit, Fault};

impl Fault for LoadError {
    fn exit(&self) -> Exit {
        match self {
            Self::Spec { .. }
            | Self::Foreign { .. }
            | Self::Storage(StorageError::Open { .. } | StorageError::Foreign { .. }) => Exit::BadInput,
            Self::Server { .. } => Exit::Failed,
            Self::Storage(_) => Exit::HostCannot,
            Self::Cancelled { .. } | Self::CancelledOpening => Exit::Interrupted,
            Self::System { source: why, .. } | Self::Unreachable { why, .. }
                if is_of_the_peer(why.kind()) =>
            {
                Exit::Failed
            }
            Self::System { .. } | Self::Unreachable { .. } | Self::Worker { .. } => Exit::HostCannot,
            Self::Panicked { .. } | Self::Encode { .. } => Exit::Bug,
        }
    }
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
