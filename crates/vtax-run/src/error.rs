//! What can end a run.

use vtax_store::StoreError;

/// What can end a run. A trial that fails ends only itself; it is in the journal as invalid.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The run directory can't be written or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The testbed as a whole can't be had on this host.
    #[error("this host can't build the testbed")]
    Lab(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nothing of the plan can be measured here.
    #[error("nothing of this plan can be measured on this host: {0}")]
    NothingPossible(String),
    /// Something of the plan can't be measured here, and all of it was asked for.
    #[error("not everything of this plan can be measured on this host, so with --strict nothing is: {0}")]
    NotAllPossible(String),
    /// The journal names a cell or measure that the plan doesn't have.
    #[error(
        "the journal has a trial of `{what}`, which the run's plan doesn't have: the run directory was changed"
    )]
    ForeignTrial {
        /// Cell and measure.
        what: String,
    },
}
