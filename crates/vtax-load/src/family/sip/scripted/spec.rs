//! What is asked for: a scenario, and what SIPp has options for.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use vtax_plan::model::{MediaOptions, SipTls, SipTransport};
use vtax_units::Nanos;

use super::answering::answering;
use crate::family::sip::media::{self, CALLS_MAX, FIRST_PORT};
use crate::{ConnectionPool, LoadError, Part, Verify};

/// A load of calls after a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScriptSpec {
    /// Where calls go; `connections` is how many there may be at once, `timeout` how long a message is waited for that has no timeout of
    /// its own.
    pub pool: ConnectionPool,
    /// What the scenario leaves open.
    pub settings: ScriptSettings,
    /// The scenario's XML.
    pub scenario: String,
    /// Password of `[authentication]` without its own: no setting, as these are shown with what was found.
    pub password: String,
    /// Injection files: how the scenario names each, and its text. The first one's name is empty where it is `[field0]`'s.
    pub injections: Vec<(String, String)>,
    /// Addresses to send from; calls are spread over them. One that isn't specified (`0.0.0.0`, `::`) stands for the host's own on the way
    /// to the target.
    pub local: Vec<IpAddr>,
    /// Over which messages go.
    pub transport: SipTransport,
    /// TLS, where that is the transport.
    #[serde(default)]
    pub tls: SipTls,
    /// Over TLS, what the service's certificate is checked for.
    #[serde(default)]
    pub verify: Verify,
    /// A connection for each call, in place of one for each worker and source address that all share.
    #[serde(default)]
    pub connection_per_call: bool,
    /// Seed of every random choice.
    pub seed: u64,
    /// Which generator of several this is: its calls are numbered among those of all, and so are the lines of injection files that they take.
    pub part: Part,
}

/// What a scenario leaves open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptSettings {
    /// The scenario's file.
    pub file: String,
    /// `[service]`.
    pub service: String,
    /// How long `<pause/>` is.
    pub pause: Nanos,
    /// How long calls under way are waited for at the end.
    pub drain: Nanos,
    /// User of `[authentication]` without its own.
    pub user: String,
    /// Keywords of the user's own, and what they stand for.
    pub keys: Vec<(String, String)>,
    /// The first `[media_port]`.
    pub media_port: u16,
    /// How calls sound; `None`: not at all. Each call then has a port of its own, which both `[media_port]` and `[auto_media_port]` stand for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaOptions>,
    /// This end answers calls too, at an address that `[callee]` stands for: the service is between both.
    #[serde(default)]
    pub callees: bool,
}

impl Default for ScriptSettings {
    /// As SIPp's.
    fn default() -> Self {
        Self {
            file: String::new(),
            service: "service".to_owned(),
            pause: Nanos::ZERO,
            drain: Nanos::from_secs(5),
            user: "service".to_owned(),
            keys: Vec::new(),
            media_port: FIRST_PORT,
            media: None,
            callees: false,
        }
    }
}

/// How far from the first of the callers' ports callees' begin.
const CALLEE_PORTS: u16 = 20_000;
/// Longer than any call is waited for.
const DRAIN_MAX: Nanos = Nanos::from_secs(24 * 3600);

impl ScriptSpec {
    /// The other end of its calls, where that is this one too.
    pub(super) fn callee(&self) -> Option<Self> {
        let media = self.settings.media.as_ref().filter(|_| self.settings.callees)?;
        // Beyond the callers' ports.
        let media_port =
            self.settings.media_port.checked_add(CALLEE_PORTS).unwrap_or(self.settings.media_port);
        let settings = ScriptSettings { media_port, media: Some(*media), ..ScriptSettings::default() };
        let target = SocketAddr::new(*self.local.first()?, 0);
        // It has calls that the callers have no more: those that are over and answer again what comes again, and those that the callers
        // gave up. A place without a call takes a few hundred bytes, and no socket.
        let pool = ConnectionPool { target, connections: CALLS_MAX as u32, ..self.pool.clone() };
        Some(Self {
            pool,
            settings,
            scenario: answering(media),
            password: String::new(),
            injections: Vec::new(),
            local: vec![target.ip()],
            transport: SipTransport::Udp,
            tls: SipTls::default(),
            verify: Verify::Nothing,
            connection_per_call: false,
            seed: self.seed,
            part: self.part,
        })
    }

    /// SIPp's own password.
    pub const PASSWORD: &'static str = "password";

    /// Checks that the specification makes sense; opening a session does so too. The scenario is checked when it is compiled.
    ///
    /// # Errors
    /// [`LoadError::Spec`] naming the first field that doesn't.
    pub fn check(&self) -> Result<(), LoadError> {
        let refuse = |field, reason: String| Err(LoadError::Spec { field, reason });
        self.pool.check()?;
        if self.local.is_empty() || self.local.len() > 1_024 {
            return refuse("local", format!("{} addresses; 1 to 1024 will do", self.local.len()));
        }
        if let Some(options) = &self.settings.media {
            media::check(options)?;
        }
        if self.settings.callees && self.settings.media.is_none() {
            return refuse("callees", "calls come back to this end where they have sound".to_owned());
        }
        let target = self.pool.target;
        if let Some(other) = self.local.iter().find(|local| local.is_ipv4() != target.is_ipv4()) {
            return refuse("local", format!("{other} is of another kind than the target {target}"));
        }
        if self.connection_per_call && self.transport == SipTransport::Udp {
            return refuse("connection_per_call", "UDP has no connections".to_owned());
        }
        if self.part.number >= self.part.of {
            return refuse("part", format!("{:?} is none", self.part));
        }
        if self.settings.drain > DRAIN_MAX || self.settings.pause > DRAIN_MAX {
            return refuse("drain", format!("pause and drain are at most {DRAIN_MAX}"));
        }
        Ok(())
    }
}
