//! What is asked of servers of remote desktops.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use vtax_plan::model::{DesktopEncoding, DesktopSecurity, DesktopUsers, desktop_limits as limits};
use vtax_units::{CpuSet, Nanos};
use vtax_wire::rfb::{Encoding, Login, Security};

use crate::LoadError;

/// A load of desktop users: where to and what they do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DesktopSpec {
    /// Where the first desktop is served; the others are at the ports after it.
    pub first: SocketAddr,
    /// Desktops. Each has one user.
    pub sessions: u32,
    /// How a client proves who it is.
    pub security: DesktopSecurity,
    /// All is within TLS, by a program in front of the server.
    #[serde(default)]
    pub tunnel: bool,
    /// Where the server asks for one.
    pub password: Option<String>,
    /// What users do, and how they see it.
    pub users: DesktopUsers,
    /// An action not answered within this time, counted from its intended start, has failed.
    pub timeout: Nanos,
    /// CPUs to pin workers to, one worker each; empty: one worker per CPU this process may use.
    pub cpus: CpuSet,
    /// Seed of what users do.
    pub seed: u64,
    /// Whose pixels are kept.
    pub keep: Keep,
}

/// Of which desktops all pixels are kept; of the others, only the rows with the marker are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Of none: there is no picture.
    Markers,
    /// Of the first, of which there is a picture.
    First,
    /// Of all.
    All,
}

impl Keep {
    /// Whether all pixels of the desktop with this number are kept.
    pub(super) const fn all_of(self, number: usize) -> bool {
        match self {
            Self::Markers => false,
            Self::First => number == 0,
            Self::All => true,
        }
    }
}

impl DesktopSpec {
    /// Checks that the specification makes sense; opening a session does so too.
    ///
    /// # Errors
    /// [`LoadError::Spec`] naming the first field that doesn't.
    pub fn check(&self) -> Result<(), LoadError> {
        let refuse = |field, reason: String| Err(LoadError::Spec { field, reason });
        if !limits::SESSIONS.contains(&self.sessions) {
            let (least, most) = (limits::SESSIONS.start(), limits::SESSIONS.end());
            return refuse("sessions", format!("{} is not between {least} and {most}", self.sessions));
        }
        if u32::from(self.first.port()) + self.sessions - 1 > u32::from(u16::MAX) {
            let reason =
                format!("{} of them don't fit between {} and 65535", self.sessions, self.first.port());
            return refuse("sessions", reason);
        }
        if self.timeout == Nanos::ZERO || self.timeout > *limits::THINK.end() {
            let most = limits::THINK.end();
            return refuse("timeout", format!("{} is not between 1ns and {most}", self.timeout));
        }
        let users = &self.users;
        if !limits::RATE.contains(&users.rate.0) {
            let (least, most) = (limits::RATE.start(), limits::RATE.end());
            return refuse("rate", format!("{} is not between {least}/s and {most}/s", users.rate));
        }
        if !limits::THINK.contains(&users.think) {
            return refuse("think", format!("{} is more than {}", users.think, limits::THINK.end()));
        }
        if !limits::stays(users.stay) {
            let (least, most) = (limits::STAY.start(), limits::STAY.end());
            return refuse("stay", format!("{} is neither 0s nor between {least} and {most}", users.stay));
        }
        if self.tunnel && self.security.is_tls() {
            return refuse("tunnel", "the server's own security is TLS already".to_owned());
        }
        let actions = &users.actions;
        let weights = [actions.typing, actions.scroll, actions.drag, actions.film];
        if weights.iter().any(|weight| !limits::WEIGHT.contains(weight)) || weights.iter().all(|w| *w == 0) {
            let most = limits::WEIGHT.end();
            return refuse("actions", format!("each is 0 to {most}, and one is above 0"));
        }
        Ok(())
    }

    /// Where a session's desktop is served.
    pub(super) fn address(&self, session: usize) -> SocketAddr {
        let mut address = self.first;
        address.set_port(self.first.port().saturating_add(session as u16));
        address
    }

    /// Whether sessions are within TLS, or begin it.
    pub(super) fn needs_tls(&self) -> bool {
        self.tunnel || self.security.is_tls()
    }

    pub(super) fn login(&self) -> Login {
        let security = match self.security {
            DesktopSecurity::None => Security::None,
            DesktopSecurity::Password => Security::Vnc,
            DesktopSecurity::X509 => Security::X509None,
            DesktopSecurity::X509Password => Security::X509Vnc,
        };
        Login { security, password: self.password.clone(), shared: true }
    }

    pub(super) fn encoding(&self) -> Encoding {
        match self.users.encoding {
            DesktopEncoding::Raw => Encoding::Raw,
            DesktopEncoding::Rre => Encoding::Rre,
            DesktopEncoding::Hextile => Encoding::Hextile,
            DesktopEncoding::Zrle => Encoding::Zrle,
            DesktopEncoding::Tight => Encoding::Tight,
        }
    }
}
