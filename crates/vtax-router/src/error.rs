//! The one error type of this crate.

use std::io;
use std::path::Path;

use vtax_sys::Failure;

/// A result of this crate.
pub type Result<T, E = RouterError> = std::result::Result<T, E>;

/// Why routers could not be brought up, or could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// The kernel refused something, or a file or directory of a router's could not be used.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The machine lacks something that the topology needs.
    #[error("{0}")]
    Machine(String),
    /// A daemon of FRR's did not start, or ended.
    #[error("router {router}: {daemon} {how}: {output}")]
    Daemon {
        /// The router.
        router: String,
        /// The daemon.
        daemon: &'static str,
        /// What became of it.
        how: String,
        /// Its last words.
        output: String,
    },
    /// FRR refused a line of a router's configuration.
    #[error("router {router}: FRR refuses its configuration: {what}")]
    Configuration {
        /// The router.
        router: String,
        /// Lines with what FRR says of each.
        what: String,
    },
    /// A command of a node's failed.
    #[error("node {node}: `{command}`: {how}: {output}")]
    Command {
        /// The node.
        node: String,
        /// The command.
        command: String,
        /// How it ended.
        how: String,
        /// Its last words.
        output: String,
    },
    /// Not everything that must hold did in time.
    #[error("the routers did not agree within {seconds} s; missing: {missing}")]
    NotReady {
        /// The time that they had.
        seconds: u64,
        /// What is missing.
        missing: String,
    },
    /// What was asked for isn't there.
    #[error("{0}")]
    Unknown(String),
}

/// Adds to a failed system call what was being built.
pub(crate) trait While<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> While<T> for vtax_sys::Result<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Failure::Sys { what: what(), source }.into())
    }
}

/// Adds to a failed file operation what was tried on what.
pub(crate) trait OnPath<T> {
    fn on(self, operation: &'static str, path: &Path) -> Result<T>;
}

impl<T> OnPath<T> for io::Result<T> {
    fn on(self, operation: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Failure::on(operation, path, source).into())
    }
}
