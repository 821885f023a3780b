//! What a load of requests is, whichever family it is of.

use serde::Serialize;
use vtax_load::{ConnectionPool, Control, LoadError, LoadResult, RequestStep};

/// A family of requests: where they go and what they are, without the step.
pub(super) trait RequestSpec: Clone + Send + Sync {
    /// The family's name.
    const FAMILY: &'static str;
    /// What it sends, for the JSON.
    type Requests: Serialize;
    /// A load that is open.
    type Session: Send + Sync;

    fn pool_mut(&mut self) -> &mut ConnectionPool;
    fn pool(&self) -> &ConnectionPool;
    fn requests(&self) -> &Self::Requests;
    fn check(&self) -> Result<(), LoadError>;
    /// What opening it does, where that takes its time.
    fn opening(&self) -> Option<String> {
        None
    }
    fn open(&self, control: &Control) -> Result<Self::Session, LoadError>;
    fn run(session: &Self::Session, step: &RequestStep, control: &Control) -> Result<LoadResult, LoadError>;
}

/// What is asked for: a load and its step, or the model of a search's steps.
#[derive(Clone)]
pub(super) struct RequestLoad<S> {
    /// Where it goes, as it was given.
    pub(super) target: String,
    pub(super) spec: S,
    pub(super) step: RequestStep,
}
