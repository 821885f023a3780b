//! What can go wrong between controller and agent.

use std::io;
use std::time::Duration;

use crate::frame::MAX_PAYLOAD;

/// What can go wrong between controller and agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The stream broke or ended: the node died or was killed.
    #[error("the agent of node `{node}` is gone")]
    Gone {
        /// The node.
        node: String,
    },
    /// No answer in time.
    #[error("the agent of node `{node}` did not answer `{request}` within {waited:?}")]
    Silent {
        /// The node.
        node: String,
        /// The request's name.
        request: &'static str,
        /// How long it was given.
        waited: Duration,
    },
    /// The agent did what it was asked and failed.
    #[error("node `{node}`: {error}")]
    Refused {
        /// The node.
        node: String,
        /// The agent's own words.
        error: String,
    },
    /// The two ends are of different versions.
    #[error(
        "node `{node}` runs an agent of protocol version {theirs}, this vtax speaks {ours}: \
         use the same vtax binary on both sides"
    )]
    Version {
        /// The node.
        node: String,
        /// The agent's version.
        theirs: u32,
        /// This binary's version.
        ours: u32,
    },
    /// The request is more than a frame can carry.
    #[error(
        "`{request}` has {bytes} bytes, and the agent of node `{node}` is sent {MAX_PAYLOAD} at most: make what the workload sends \
         smaller, its bodies and targets for instance"
    )]
    TooLarge {
        /// The node.
        node: String,
        /// The request's name.
        request: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// The answer was not of the kind that was asked for.
    #[error("the agent of node `{node}` answered `{request}` with something else")]
    Confused {
        /// The node.
        node: String,
        /// The request's name.
        request: &'static str,
    },
    /// The stream could not be set up.
    #[error("could not talk to the agent of node `{node}`")]
    Stream {
        /// The node.
        node: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
