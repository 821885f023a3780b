//! The error type of this crate, and what errors of the crates above it share.

use std::io;
use std::path::Path;

/// A result of this crate.
pub type Result<T, E = SysError> = std::result::Result<T, E>;

/// Something the kernel refused.
#[derive(Debug, thiserror::Error)]
pub enum SysError {
    /// A system call failed.
    #[error("{operation} {object}")]
    Call {
        /// What was tried, as a verb: `mount`, `open`, `create bridge`.
        operation: &'static str,
        /// On what.
        object: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel lacks a feature.
    #[error("the kernel has no {feature}")]
    NoFeature {
        /// The feature with the module that would bring it.
        feature: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// New namespaces are refused on this host.
    #[error("{stage} is refused here: {reason}; {fix}")]
    NamespacesRefused {
        /// Which step failed.
        stage: &'static str,
        /// The reason, as exactly as it can be told.
        reason: String,
        /// The way out.
        fix: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The process has threads where it must have only one.
    #[error("the controller must be started before any other thread; this process has {threads}")]
    HasThreads {
        /// How many threads there are.
        threads: usize,
    },
    /// The kernel answered something that can't be understood.
    #[error("{operation}: unexpected answer: {what}")]
    Unexpected {
        /// What was tried.
        operation: &'static str,
        /// What is wrong with the answer.
        what: String,
    },
    /// A wait ended before what it waited for happened.
    #[error("{operation} {object}: not within {seconds} s")]
    TimedOut {
        /// What was tried.
        operation: &'static str,
        /// On what.
        object: String,
        /// The limit.
        seconds: f64,
    },
}

impl SysError {
    /// A failed call.
    pub fn call(operation: &'static str, object: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Call { operation, object: object.into(), source: source.into() }
    }

    /// The kernel's error number, where there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Call { source, .. }
            | Self::NoFeature { source, .. }
            | Self::NamespacesRefused { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// What failed while something of several steps was built or ended: the part that errors of crates above have in common.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The kernel refused something.
    #[error("{what}")]
    Sys {
        /// What was being built.
        what: String,
        /// What the kernel said.
        #[source]
        source: SysError,
    },
    /// A file or directory could not be used.
    #[error("{operation} {object}")]
    Io {
        /// What was tried, as a verb.
        operation: &'static str,
        /// On what.
        object: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl Failure {
    /// A file or directory at `path` that could not be used.
    pub fn on(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { operation, object: path.display().to_string(), source }
    }
}

/// Turns a failed call into a [`SysError`] with operation and object.
pub trait Context<T> {
    /// Adds what was tried on what.
    ///
    /// # Errors
    ///
    /// The error it was called on, with the context.
    fn context(self, operation: &'static str, object: impl Into<String>) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, operation: &'static str, object: impl Into<String>) -> Result<T> {
        self.map_err(|e| SysError::call(operation, object, e))
    }
}

/// The message of an error with all its causes, `a: b: c`.
#[must_use]
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
