//! Calls after SIPp's scenarios as written, and the user agent that answers calls.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use vtax_units::Nanos;

use crate::decode::{Decode, Many, Options, TextMap};
use crate::diagnose::Report;
use crate::family::network::raw::VoiceLawRaw;
use crate::family::sip::raw::{SipTlsRaw, SipWorkloadRaw, SubscribersRaw, TransportRaw};
use crate::source::Spanned;
use crate::tree::{Node, Value};

/// Most injection files of a workload.
const FILES_MAX: usize = 16;

services! {
    /// Options of `uas`, the embedded user agent that answers calls.
    struct UasRaw = "`uas`", ready "30s", stop "5s" {
        /// UDP port it listens on.
        default port: u16 = "5060",
        /// A server's scenario of SIPp's, after which calls are answered: an XML file in the plan's folder or below it.
        /// Without one, an INVITE is answered with 180 and 200, a BYE with 200.
        optional scenario_file: String,
        /// The XML itself, in place of a file.
        optional scenario: String,
        /// Most calls at once, where there is a scenario or sound.
        default calls: u32 = "50000",
        /// Calls have sound: G.711 in both directions, from when they are answered to their BYE.
        optional media: MediaRaw,
    }
}

raw! {
    /// Options of the `sip` workload with a scenario of SIPp's. A list of values makes a cell for each.
    struct ScriptWorkloadRaw = "`sip` with a scenario" {
        /// A client's scenario of SIPp's: an XML file in the plan's folder or below it.
        optional scenario_file: Many<String>,
        /// The scenario's XML itself, in place of a file.
        optional scenario: String,
        /// Injection files, in the plan's folder or below it; the first is that of `[field0]`.
        default injection_files: NamesRaw = "",
        /// Between generator and service: `udp`, `tcp` or `tls`.
        default transport: Many<TransportRaw> = "udp",
        /// With the transport `tls`, its version: `any` (the newest), `tls12` or `tls13`.
        default tls_version: SipTlsRaw = "any",
        /// With the transport `tls`, the only cipher suite that is offered, as IANA names it; without it, all that are safe.
        optional cipher: String,
        /// With the transports `tcp` and `tls`, whether each call has a connection of its own; else all of a source address and a worker share one.
        default connection_per_call: bool = "false",
        /// With the transport `tls` and a connection for each call, whether connections resume sessions of earlier ones.
        default resume: bool = "true",
        /// Source addresses of the generator; calls are spread over them.
        default addresses: Many<u32> = "1",
        /// Most calls at once; a start that finds no room waits, and is counted late or missed.
        default calls: Many<u32> = "10000",
        /// How long a message is waited for that has no timeout of its own.
        default recv_timeout: Nanos = "10s",
        /// Length of a `<pause/>` that has none of its own.
        default pause: Many<Nanos> = "0s",
        /// How long calls under way are waited for at the end of a load; a call takes less, or it never succeeds.
        default drain: Nanos = "5s",
        /// What `[service]` stands for.
        default service: String = "service",
        /// User of `[authentication]` where the scenario names none; without it, `service`.
        optional auth_user: String,
        /// Password of the same.
        default auth_password: String = "password",
        /// Keywords of your own: `[NAME]` in the scenario, and what it stands for.
        default keys: TextMap = "",
        /// The first `[media_port]`; with `media`, the first that is tried for a call.
        default media_port: u16 = "6000",
        /// Calls have sound: G.711 in both directions, from when they are answered to their BYE.
        optional media: MediaRaw,
        /// The generator answers calls too, at an address that `[callee]` stands for in the scenario: the service is between both ends.
        default callees: bool = "false",
        /// Who may register, where the service must know: `sip` and `kamailio` do.
        optional subscribers: SubscribersRaw,
    }
}

raw! {
    /// How calls sound.
    struct MediaRaw = "`media`" {
        /// How this end codes sound where the other takes both: `pcmu` (G.711 mu-law) or `pcma` (A-law).
        default codec: VoiceLawRaw = "pcmu",
        /// Sound in each packet, where the other end doesn't ask for another length: 10ms, 20ms, 30ms or 40ms.
        default packet: Nanos = "20ms",
        /// How long sound waits before it is played; what comes later isn't heard.
        default jitter_buffer: Nanos = "60ms",
    }
}

/// The `sip` workload: subscribers, or a scenario.
#[derive(Debug, Clone)]
pub(crate) enum SipRaw {
    Subscribers(Box<SipWorkloadRaw>),
    Script(Box<ScriptWorkloadRaw>),
}

impl Decode for SipRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let has_scenario = match &node.value {
            Value::Mapping(entries) => {
                entries.iter().any(|(key, _)| matches!(&*key.value, "scenario" | "scenario_file"))
            }
            _ => false,
        };
        match has_scenario {
            true => ScriptWorkloadRaw::decode(node, report).map(|raw| Self::Script(Box::new(raw))),
            false => SipWorkloadRaw::decode(node, report).map(|raw| Self::Subscribers(Box::new(raw))),
        }
    }
}

impl Options for SipRaw {
    const HAS_REQUIRED: bool = false;
}

impl JsonSchema for SipRaw {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SipWorkloads".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let subscribers = generator.subschema_for::<SipWorkloadRaw>();
        let mut script = generator.subschema_for::<ScriptWorkloadRaw>();
        let one_of = serde_json::json!([{ "required": ["scenario_file"] }, { "required": ["scenario"] }]);
        script.insert("anyOf".into(), one_of);
        json_schema!({ "anyOf": [subscribers, script] })
    }
}

/// A name or a list of names.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamesRaw(pub(crate) Vec<Spanned<String>>);

impl Decode for NamesRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let nodes = match &node.value {
            Value::Sequence(nodes) if nodes.len() > FILES_MAX => {
                report.error(node.span, format!("this list has more than {FILES_MAX} files"));
                return None;
            }
            Value::Sequence(nodes) => nodes.as_slice(),
            _ if node.is_null() => &[],
            _ => std::slice::from_ref(node),
        };
        let name = |node: &Node, report: &mut Report| {
            String::decode(node, report).map(|value| Spanned { value, span: node.span })
        };
        let names: Vec<_> = nodes.iter().filter_map(|node| name(node, report)).collect();
        (names.len() == nodes.len()).then_some(Self(names))
    }
}

impl JsonSchema for NamesRaw {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Names".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = serde_json::json!({ "type": "string" });
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}
