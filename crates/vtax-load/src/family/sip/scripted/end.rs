//! How a call ends.

use super::shared::Shared;
use crate::requests::Outcome;

/// Why a call failed that found no port for its sound.
pub(super) const NO_PORT: &str = "no free port for its sound";

/// Why a call has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Timeout(u16),
    NoAnswer(u16),
    Status(u16, u16),
    Request(u16),
    Check(u16),
    Stopped(u16),
    Loop(u16),
    Challenge(u16),
    Silence(u16),
    NoPort,
}

impl Cause {
    pub(super) fn words(self, shared: &Shared) -> String {
        let at = |command: u16| {
            let line = shared.scenario.commands.get(usize::from(command)).map_or(0, |command| command.line);
            format!("{}, line {line}", shared.scenario.label(usize::from(command)))
        };
        match self {
            Self::Timeout(command) => format!("timeout ({})", at(command)),
            Self::NoAnswer(command) => format!("no answer ({})", at(command)),
            Self::Status(command, status) => format!("status {status} ({})", at(command)),
            Self::Request(command) => format!("unexpected request ({})", at(command)),
            Self::Check(command) => format!("regular expression ({})", at(command)),
            Self::Stopped(command) => format!("stopped ({})", at(command)),
            Self::Loop(command) => format!("loop without end ({})", at(command)),
            Self::Challenge(command) => format!("unusable challenge ({})", at(command)),
            Self::Silence(command) => format!("the other end fell silent ({})", at(command)),
            Self::NoPort => NO_PORT.to_owned(),
        }
    }

    pub(super) const fn outcome(self) -> (Outcome, u16) {
        match self {
            Self::Timeout(_) | Self::NoAnswer(_) => (Outcome::ClientTimeout, 0),
            Self::Status(_, status) => (Outcome::Status, status),
            Self::Request(_) | Self::Check(_) | Self::Challenge(_) => (Outcome::Protocol, 0),
            Self::Stopped(_) | Self::Loop(_) | Self::Silence(_) | Self::NoPort => (Outcome::Other, 0),
        }
    }
}

/// A call that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    /// When it was meant to begin.
    pub(super) start: u64,
    /// When what its latency is had passed.
    pub(super) end: u64,
    pub(super) outcome: Outcome,
    pub(super) status: u16,
}
