//! Remote desktops: the servers and workloads.

use serde::{Deserialize, Serialize};
use vtax_units::{Nanos, Rate};

/// Options of a server of remote desktops: one process for each desktop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DesktopOptions {
    /// TCP port of the first desktop; the others' are those after it.
    pub port: u16,
    /// Desktops, each for one user.
    pub sessions: u32,
    /// Width of each, in pixels.
    pub width: u16,
    /// Height of each, in pixels.
    pub height: u16,
    /// How a client proves who it is.
    pub security: DesktopSecurity,
    /// A program in front of the desktops (stunnel) speaks TLS, from the first byte.
    #[serde(default)]
    pub tunnel: bool,
}

impl DesktopOptions {
    /// The packages that it needs, of these, of which the last is the tunnel's.
    pub(crate) fn packages(&self, all: &'static [&'static str]) -> &'static [&'static str] {
        match all {
            [without @ .., _] if !self.tunnel => without,
            _ => all,
        }
    }
}

/// How a client proves who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DesktopSecurity {
    /// Not at all.
    None,
    /// By VNC authentication: a challenge, enciphered with a password.
    Password,
    /// Not at all; within TLS with the server's certificate (VeNCrypt).
    X509,
    /// By a password within TLS.
    X509Password,
}

impl DesktopSecurity {
    /// Whether a client is asked for a password.
    #[must_use]
    pub const fn asks_password(self) -> bool {
        matches!(self, Self::Password | Self::X509Password)
    }

    /// Whether sessions are within TLS.
    #[must_use]
    pub const fn is_tls(self) -> bool {
        matches!(self, Self::X509 | Self::X509Password)
    }
}

/// A desktop workload: users who type, scroll, drag a picture and watch a film.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DesktopWorkload {
    /// What users do, and how they see it.
    pub users: DesktopUsers,
    /// An action not answered on the screen within this time, counted from its intended start, has failed.
    pub timeout: Nanos,
}

/// What users do, and how they see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DesktopUsers {
    /// Which actions.
    pub actions: DesktopActions,
    /// Actions of one user per second where the load has a rate: so many users share it.
    pub rate: Rate,
    /// How long a user waits after an answer where it has none.
    pub think: Nanos,
    /// How long a user stays connected until another one comes instead; 0: to the end.
    #[serde(default)]
    pub stay: Nanos,
    /// Whether an action waits for the answer to the last.
    pub pace: DesktopPace,
    /// How pixels are sent.
    pub encoding: DesktopEncoding,
    /// The server is told that moved pixels may be sent as copies.
    pub copies: bool,
    /// The server sends updates unasked, where it can.
    pub continuous: bool,
}

/// How often each kind of action is taken, relative to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesktopActions {
    /// A character is typed.
    pub typing: u32,
    /// The wheel is turned by one click: three lines of text move.
    pub scroll: u32,
    /// A picture is dragged by some pixels.
    pub drag: u32,
    /// The next picture of a film is shown.
    pub film: u32,
}

/// Whether an action waits for the answer to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DesktopPace {
    /// It does: no two answers are merged into one update, and the work of each is seen.
    SlowMotion,
    /// It doesn't, as users don't: a server that lags merges answers, which are counted.
    RealTime,
}

/// How pixels are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DesktopEncoding {
    /// As they are.
    Raw,
    /// A background and rectangles on it.
    Rre,
    /// The same for each tile of 16 by 16.
    Hextile,
    /// Palettes and runs, compressed.
    Zrle,
    /// Palettes and fills, compressed; without JPEG.
    Tight,
}

/// What users do, as plans name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DesktopScript {
    /// Characters.
    Type,
    /// Clicks of the wheel.
    Scroll,
    /// A picture follows the pointer.
    Drag,
    /// The next picture of a film.
    Film,
    /// Of all something.
    Mix,
}

impl DesktopScript {
    /// How often each kind of action is taken.
    #[must_use]
    pub const fn actions(self) -> DesktopActions {
        match self {
            Self::Type => DesktopActions { typing: 1, scroll: 0, drag: 0, film: 0 },
            Self::Scroll => DesktopActions { typing: 0, scroll: 1, drag: 0, film: 0 },
            Self::Drag => DesktopActions { typing: 0, scroll: 0, drag: 1, film: 0 },
            Self::Film => DesktopActions { typing: 0, scroll: 0, drag: 0, film: 1 },
            Self::Mix => DesktopActions { typing: 6, scroll: 2, drag: 1, film: 1 },
        }
    }
}

impl DesktopOptions {
    /// Password of the desktops that ask for one. It hides nothing: they live as long as a trial.
    pub const PASSWORD: &str = "vtax-vnc";
}
