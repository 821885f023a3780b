//! What can keep a network test from giving a result.

use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Why a network test has no result.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The specification makes no sense.
    #[error("{field}: {reason}")]
    Spec {
        /// The field.
        field: &'static str,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// Nobody answers there, or nothing leads there.
    #[error("{}", unreached(*target))]
    Connect {
        /// Where to; ICMP has no port, which is 0.
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
        /// What kind of failure it is there.
        kind: FailureKind,
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
    /// The peer answers, but nothing of the transfer arrives.
    #[error(
        "small packets get through, full-sized ones (segments of {mss} bytes) don't: \
         an interface on the path has a smaller MTU than its ends"
    )]
    TooLarge {
        /// Segments tried, in bytes of payload.
        mss: u32,
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

/// What couldn't be done and what may be wrong. To the kernel's own echo there is no server, and no connection: only a way may be missing.
fn unreached(target: SocketAddr) -> String {
    match target.port() {
        0 => format!("find a way to {} (is its address right, and is there a route to it?)", target.ip()),
        _ => {
            format!("connect to {target}; is `vtax load tcp --server{}` running there?", listen(target))
        }
    }
}

/// What a server needs besides to be reached at this address.
fn listen(target: SocketAddr) -> String {
    if target.ip().is_loopback() { String::new() } else { format!(" --listen {target}") }
}

impl NetworkError {
    pub(super) fn system(operation: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { operation, source }
    }

    pub(super) fn lost(during: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Lost { during, source }
    }

    pub(super) fn protocol(what: String) -> Self {
        Self::Protocol { what }
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Connect { .. } | Self::Lost { .. } => FailureKind::PeerLost,
            Self::TooLarge { .. } => FailureKind::MtuMismatch,
            Self::Cancelled => FailureKind::Cancelled,
            Self::Refused { kind, .. } => *kind,
            Self::Spec { .. } | Self::Protocol { .. } | Self::System { .. } => FailureKind::Impossible,
        }
    }
}

/// Why a network test has no result, for those on another machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkFailure {
    /// The kind of reason.
    pub kind: FailureKind,
    /// The whole chain of causes.
    pub detail: String,
}

impl From<&NetworkError> for NetworkFailure {
    fn from(error: &NetworkError) -> Self {
        Self { kind: error.kind(), detail: vtax_sys::chain(error) }
    }
}

/// The kinds of failure of a network test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// One of the ends can't do what was asked for: an option that its kernel doesn't have.
    Impossible,
    /// The peer isn't there, went away, or stopped answering.
    PeerLost,
    /// Full-sized packets don't get through, small ones do.
    MtuMismatch,
    /// It was called off.
    Cancelled,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_can_not_be_reached_is_told_how_a_server_is_started_there() {
        let said = |target: &str| {
            let target = target.parse().unwrap();
            NetworkError::Connect { target, source: io::ErrorKind::ConnectionRefused.into() }.to_string()
        };
        // A server of this host alone needs no more; one for others must be told to listen for them.
        assert_eq!(
            said("127.0.0.1:5202"),
            "connect to 127.0.0.1:5202; is `vtax load tcp --server` running there?"
        );
        let elsewhere = said("192.0.2.7:5202");
        assert!(
            elsewhere.contains("`vtax load tcp --server --listen 192.0.2.7:5202` running"),
            "{elsewhere}"
        );
        // ICMP goes to the kernel.
        let way = "find a way to 192.0.2.7 (is its address right, and is there a route to it?)";
        assert_eq!(said("192.0.2.7:0"), way);
    }
}
