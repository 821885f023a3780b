//! Calls after SIPp's scenarios.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

use crate::family::network::model::VoiceLaw;
use crate::family::sip::model::{SipTls, SipTransport, Subscribers};

/// How calls sound: G.711 in both directions, from when a call is answered to its BYE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaOptions {
    /// The law that an end speaks where the other takes both.
    pub law: VoiceLaw,
    /// Sound in a packet, where the other end doesn't ask for another length.
    pub packet: Nanos,
    /// How long sound waits before it is played: what comes later isn't heard.
    pub jitter_buffer: Nanos,
}

/// Options of vtax's own user agent that answers calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UasOptions {
    /// UDP port.
    pub port: u16,
    /// The scenario after which calls are answered; `None`: an INVITE with 180 and 200, a BYE with 200.
    pub scenario: Option<ScriptFile>,
    /// Most calls at once, where there is a scenario or sound.
    pub calls: u32,
    /// How calls sound; `None`: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaOptions>,
}

/// A file that the plan names, or what it has in place of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptFile {
    /// Its name in the plan; empty where the text is the plan's own.
    pub name: String,
    /// What is in it.
    pub text: String,
}

impl ScriptFile {
    /// What the scenario calls it: its name without folders.
    #[must_use]
    pub fn base(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }
}

/// A workload of calls after a scenario of SIPp's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScriptWorkload {
    /// The scenario.
    pub scenario: ScriptFile,
    /// Injection files; the first is that of `[field0]`.
    pub injections: Vec<ScriptFile>,
    /// Transport between generator and service.
    pub transport: SipTransport,
    /// TLS, where that is the transport.
    #[serde(default, skip_serializing_if = "SipTls::is_usual")]
    pub tls: SipTls,
    /// A connection for each call, in place of one for each source address that all share.
    #[serde(default, skip_serializing_if = "is_false")]
    pub connection_per_call: bool,
    /// Source addresses of the generator; calls are spread over them.
    pub addresses: u32,
    /// Most calls at once.
    pub calls: u32,
    /// How long a message is waited for that has no timeout of its own.
    pub recv_timeout: Nanos,
    /// Length of a pause that has none.
    pub pause: Nanos,
    /// How long calls under way are waited for at the end of a load.
    pub drain: Nanos,
    /// `[service]`.
    pub service: String,
    /// User of `[authentication]` without its own.
    pub auth_user: String,
    /// Password of the same.
    pub auth_password: String,
    /// Keywords of the user's own, and what they stand for.
    pub keys: Vec<(String, String)>,
    /// The first `[media_port]`.
    pub media_port: u16,
    /// How calls sound; `None`: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaOptions>,
    /// The generator answers calls too, at an address that `[callee]` stands for.
    #[serde(default, skip_serializing_if = "is_false")]
    pub callees: bool,
    /// Who may register, where the service must know.
    pub subscribers: Option<Subscribers>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
pub(crate) const fn is_false(value: &bool) -> bool {
    !*value
}

impl ScriptWorkload {
    /// The keywords with which its scenario is compiled, and what they stand for; of what is known only in a run, an example.
    pub(crate) fn keywords(&self) -> Vec<(String, String)> {
        let callee = self.callees.then(|| ("callee".to_owned(), "127.0.0.1:5060".to_owned()));
        self.keys.iter().cloned().chain(callee).collect()
    }

    /// Bytes of its texts.
    pub(crate) fn text_bytes(&self) -> usize {
        self.scenario.text.len() + self.injections.iter().map(|file| file.text.len()).sum::<usize>()
    }
}
