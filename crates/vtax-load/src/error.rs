//! What can keep a load from running at all. Failed requests are results, not errors.

use std::io::ErrorKind;
use std::net::SocketAddr;

use vtax_sys::SysError;
use vtax_units::Nanos;

/// Why a load could not run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The specification makes no sense.
    #[error("{field}: {reason}")]
    Spec {
        /// The field of the specification or step.
        field: &'static str,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The server doesn't take what a load needs beforehand.
    #[error("the server can't be loaded: {reason}")]
    Server {
        /// What it doesn't take, and why.
        reason: String,
    },
    /// No connection to the server can be made.
    #[error("cannot reach the server {server}: {}", unreached(.why))]
    Unreachable {
        /// Its address.
        server: SocketAddr,
        /// What the kernel said.
        why: std::io::Error,
    },
    /// The server has data of others under the names that a load writes to.
    #[error(
        "the server {server} has a key `{key}` whose value no load of vtax wrote; --overwrite writes over such keys"
    )]
    Foreign {
        /// Its address.
        server: SocketAddr,
        /// One of the names.
        key: String,
    },
    /// The system refused something the engine needs.
    #[error("load generator: {operation}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// A worker could not be bound to its CPU, or its CPU time not be read.
    #[error("load generator: worker {worker}")]
    Worker {
        /// Number of the worker, from 0.
        worker: usize,
        /// What failed.
        #[source]
        source: SysError,
    },
    /// The load was cancelled before anything was recorded.
    #[error("cancelled after {after}, before the warm-up of {warmup} had passed")]
    Cancelled {
        /// Time since the start.
        after: Nanos,
        /// The warm-up asked for.
        warmup: Nanos,
    },
    /// The load was cancelled while it was opened.
    #[error("cancelled before the load had begun")]
    CancelledOpening,
    /// What a step found could not be written down.
    #[error("load generator: writing the result")]
    Encode {
        /// What failed.
        #[source]
        source: serde_json::Error,
    },
    /// Storage can't be worked on.
    #[error(transparent)]
    Storage(#[from] crate::storage::StorageError),
    /// A worker panicked.
    #[error("load generator: worker {worker} panicked: {message}")]
    Panicked {
        /// Number of the worker, from 0.
        worker: usize,
        /// What it said.
        message: String,
    },
}

/// Why a server can't be reached, and what may be done.
fn unreached(why: &std::io::Error) -> String {
    match why.kind() {
        ErrorKind::ConnectionRefused => "connection refused; is it running there?".to_owned(),
        ErrorKind::TimedOut => "no answer in time; is the address right?".to_owned(),
        _ => why.to_string(),
    }
}

impl LoadError {
    /// From what the thread of a worker left when it panicked.
    #[must_use]
    pub fn panicked(worker: usize, payload: &(dyn std::any::Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self::Panicked { worker, message: text.unwrap_or("without a word").to_owned() }
    }
}
