//! What can keep a network test from giving a result.

use std::io;
use std::net::SocketAddr;

/// Why a network test has no result.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The specification makes no sense.
    #[error("{field}: {reason}")]
    Spec {
        /// The field.
        field: &'static str,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// Nobody answers there.
    #[error("connect to {target}; is `vtax load tcp --server` running there?")]
    Connect {
        /// Where to.
        target: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The server won't do this test.
    #[error("the server refuses: {reason}")]
    Refused {
        /// Its own words.
        reason: String,
    },
    /// The peer ended or fell silent in the middle.
    #[error("the peer was lost while {during}")]
    Lost {
        /// What was going on.
        during: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The peer said what it shouldn't.
    #[error("the peer is no vtax server of this version: {what}")]
    Protocol {
        /// What came.
        what: String,
    },
    /// The system refused something the test needs.
    #[error("{operation}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The test was cancelled before anything was measured.
    #[error("cancelled before anything was measured")]
    Cancelled,
}

impl NetError {
    pub(super) fn system(operation: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { operation, source }
    }

    pub(super) fn lost(during: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Lost { during, source }
    }

    pub(super) fn protocol(what: String) -> Self {
        Self::Protocol { what }
    }
}
