//! What can go wrong with hosts.

use std::path::PathBuf;

use vtax_store::StoreError;

/// What can go wrong before, between and after runs on hosts. What goes wrong on one host is no error but its
/// [`Outcome`](crate::Outcome).
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    /// `--on`, or the file it names, isn't understood.
    #[error("{place}: {reason}")]
    List {
        /// The argument, or the file with its line.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file can't be read or written.
    #[error("{what} {}", path.display())]
    File {
        /// What was tried, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A program of the user's can't be started, or fails.
    #[error("{program}: {reason}")]
    Program {
        /// Its name.
        program: String,
        /// What it said.
        reason: String,
    },
    /// The host isn't as it has to be.
    #[error("{host}: {reason}")]
    Host {
        /// The host's name.
        host: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What a host sent isn't what a vtax of this version sends.
    #[error("the stream carries what it should not: {0}")]
    Stream(String),
    /// Whoever was to get hosts has none.
    #[error("{why}")]
    Refused {
        /// Why it has none, in words.
        why: String,
        /// Whether the arguments are at fault.
        bad_input: bool,
    },
    /// A file of a run can't be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl HostsError {
    /// True where the arguments or files named by them are at fault, not a host.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::List { .. } => true,
            Self::Refused { bad_input, .. } => *bad_input,
            Self::File { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            Self::Store(e) => e.is_bad_input(),
            _ => false,
        }
    }
}
