//! What can go wrong while probing.

use std::io;
use std::path::PathBuf;

/// Why a probe can't see.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A file of `/proc` that every kernel has can't be read.
    #[error("reading {}; is /proc mounted in this node?", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The process whose threads are watched is gone.
    #[error("process {pid} has ended, its threads can't be sampled")]
    Gone {
        /// Its id.
        pid: u32,
    },
    /// The sampler's thread could not be started.
    #[error("starting the sampler's thread")]
    Thread(#[source] io::Error),
}
