//! What can go wrong with an export.

use std::path::PathBuf;

/// What can go wrong with an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file can't be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The address of a receiver is none that is understood.
    #[error("{url} is no address of a receiver: {reason}")]
    Address {
        /// As given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The address of a receiver is a host without how it is spoken to.
    #[error("{url} is no address of a receiver: write http://{url}")]
    NoScheme {
        /// As given.
        url: String,
    },
    /// The receiver can't be reached, or went away.
    #[error("cannot send to {url}")]
    Unreachable {
        /// The address with its path.
        url: String,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The receiver took nothing.
    #[error("{url} refused what was sent: {answer}")]
    Refused {
        /// The address with its path.
        url: String,
        /// The first line of its answer, or what is wrong with it.
        answer: String,
    },
}

impl ExportError {
    /// True where what was given is at fault, not the host.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Address { .. } | Self::NoScheme { .. } => true,
            // The directory in which the file was to be isn't there.
            Self::Write { source, .. } => source
                .downcast_ref::<std::io::Error>()
                .is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound),
            Self::Unreachable { .. } | Self::Refused { .. } => false,
        }
    }
}
