//! SIP as written: services, subscribers, the mix, the IMS benchmark.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use vtax_units::{Bytes, Nanos, Rate, Share, UnitError};

use crate::decode::{Decode, Many, field_schema, open_kind, scalar, unknown};
use crate::diagnose::{Report, listed};
use crate::model::{self, Scenario, Spread};
use crate::raw::load::ArrivalsRaw;
use crate::source::Spanned;
use crate::tls::TlsVersion;
use crate::tree::{Key, Node, Value};

services! {
    /// Options of `sip`, the embedded SIP registrar and proxy.
    struct SipServiceRaw = "this service", ready "30s", stop "5s" {
        /// UDP and TCP port it listens on.
        default port: u16 = "5060",
        /// Worker threads; without it, one per CPU. A list makes a cell for each.
        optional workers: Many<u32>,
    }

    /// Options of `kamailio`. A list of values makes a cell for each.
    struct KamailioRaw = "`kamailio`", ready "2m", stop "20s" {
        /// UDP and TCP port it listens on.
        default port: u16 = "5060",
        /// Worker processes per transport; without it, Kamailio's usual eight.
        optional children: Many<u32>,
        /// Memory that its processes share: subscribers' registrations and transactions.
        default shared_memory: Many<Bytes> = "256MiB",
        /// T1 of RFC 3261, from which its timers follow. Give it the workload's `t1`: with a longer one it keeps
        /// transactions that the callers have long given up.
        default t1: Nanos = "500ms",
        /// When registrations reach the database: `memory` (never), `write-through` (before the
        /// answer) or `write-back` (from a timer).
        default location: Many<LocationRaw> = "write-back",
        /// What the sound of calls goes through: `rtpengine`. Calls may then also go to an end on the host that they come from, by its address.
        optional media_relay: MediaRelayRaw,
    }
}

raw! {
    /// Who may register and call; the service is provisioned with the same.
    struct SubscribersRaw = "`subscribers`", short [u32; count] {
        /// How many. A list makes a cell for each.
        default count: Many<u32> = "100000",
        /// Format of public identities; `%d` or `%06d` stands for the number of the subscriber.
        default public: String = "subs%06d",
        /// Format of private identities, the user names of digest authentication.
        default private: String = "subs%06d",
        /// Format of passwords.
        default password: String = "abcdefgh",
        /// Realm of digest authentication.
        default realm: String = "open-ims.test",
        /// Domain of the addresses of record.
        default domain: String = "open-ims.test",
    }

    /// Options of the `sip` workload. A list of values makes a cell for each.
    struct SipWorkloadRaw = "`sip`" {
        /// Who may register and call: how many, or how many with their identities.
        default subscribers: SubscribersRaw = "",
        /// Between generator and service: `udp`, `tcp` or `tls`.
        default transport: Many<TransportRaw> = "udp",
        /// With the transport `tls`, its version: `any` (the newest), `tls12` or `tls13`.
        default tls_version: SipTlsRaw = "any",
        /// With the transport `tls`, the only cipher suite that is offered, as IANA names it; without it, all that are safe.
        optional cipher: String,
        /// Share of the subscribers that is registered before the load begins.
        default registered: Many<Share> = "80%",
        /// Scenarios and their shares of all attempts.
        default mix: MixRaw = "",
        /// From the callee's 180 to its 200: the mean of an exponential distribution, or
        /// `{constant: 5s}`.
        default ring_time: Many<SpreadRaw> = "5s",
        /// From the caller's ACK to its BYE, written the same way.
        default hold_time: Many<SpreadRaw> = "30s",
        /// Length of messages: a size, or two between which it is uniform.
        default message_bytes: Many<SizesRaw> = "1B to 279B",
        /// Registration time asked for.
        default expires: Nanos = "1000000s",
        /// Source addresses of the generator; subscribers are spread over them.
        default addresses: Many<u32> = "1",
        /// T1 of RFC 3261, from which all timers follow: an unanswered request is sent again after
        /// this time and given up after 64 times as much.
        default t1: Nanos = "500ms",
        /// The longest that each metric may take.
        default limits: SipLimitsRaw = "",
    }

    /// One scenario's part in the mix.
    struct MixPartRaw = "this scenario", short [Share; share] {
        /// Its share of all attempts.
        required share: Share,
        /// Share of its attempts that may be inadequately handled.
        default ihs_limit: Share = "10%",
    }

    /// The longest that each metric may take; beyond it its scenario is inadequately handled.
    struct SipLimitsRaw = "`limits`" {
        /// PX_TRT-REG1, REGISTER to 401.
        default reg1: Nanos = "2s",
        /// PX_TRT-REG2, second REGISTER to 200.
        default reg2: Nanos = "2s",
        /// PX_TRT-REG4, re-REGISTER to 200.
        default reg4: Nanos = "2s",
        /// PX_TRT-SES1, INVITE sent to ACK received by the callee, ring time taken out.
        default ses1: Nanos = "4s",
        /// PX_TRT-SES2, INVITE sent to INVITE received.
        default ses2: Nanos = "2s",
        /// PX_TRT-SES3, first INVITE sent to second ACK received, ring time taken out.
        default ses3: Nanos = "8s",
        /// PX_TRT-REL1, BYE to 200.
        default rel1: Nanos = "2s",
        /// PX_TRT-PMM1, MESSAGE to 200.
        default pmm1: Nanos = "2s",
        /// PX_TRT-PMM2, MESSAGE to 404.
        default pmm2: Nanos = "2s",
    }

    /// Options of `ims`.
    struct ImsRaw = "`ims`" {
        /// Name in reports.
        optional name: String,
        /// How the capacity is found: `steps` or `search`, each with options.
        default ramp: RampRaw = "search",
        /// Length of a step, of the confirmation after a search; without it, `30m` with `steps`
        /// and `2m` with `search`.
        optional step: Nanos,
        /// Time at the start of each step that doesn't count; without it, `30s` with `steps` and
        /// `10s` with `search`.
        optional transient: Nanos,
        /// Most registrations per second before the load begins; a service that is slower is given the
        /// time.
        default registration_rate: Rate = "100/s",
        /// Share of those registrations that may be inadequately handled.
        default registration_ihs_limit: Share = "1%",
        /// Time over which the load rises to that of the first step; without it, `5m` with `steps`
        /// and none with `search`.
        optional stir: Nanos,
        /// Steps of that rise.
        default stir_steps: u32 = "3",
        /// Share of its scenarios that may be inadequately handled.
        default stir_ihs_limit: Share = "1%",
        /// Arrival process.
        default arrivals: ArrivalsRaw = "poisson",
        /// Share of a step's scenarios that may be inadequately handled, all kinds together.
        default ihs_limit: Share = "10%",
    }

    /// Options of `steps`.
    struct StepsRaw = "`steps`" {
        /// Scenario attempts per second of the first step.
        default initial: Rate = "100/s",
        /// What each step adds.
        default increase: Rate = "10/s",
        /// At most this many steps.
        default count: u32 = "100",
    }

    /// Options of `search`.
    struct SearchRaw = "`search`" {
        /// Scenario attempts per second of the first step of a cell's first trial; later ones begin at what was found.
        default start: Rate = "50/s",
        /// No step goes above this rate.
        default max: Rate = "100000/s",
        /// The search ends when the bracket is narrower than this share of its lower bound.
        default precision: Share = "5%",
        /// Length of one step of the search, the transient included.
        default step: Nanos = "30s",
    }
}

kinds! {
    /// How the design objective capacity is found.
    enum RampRaw = "ramp" {
        /// Equal steps until one breaks a limit, as in the standard.
        steps: Steps(StepsRaw),
        /// A search, then a step that confirms the rate found.
        search: Search(SearchRaw),
    }
}

words! {
    /// Between generator and service.
    TransportRaw(model::SipTransport) = "transport", "transports" {
        "udp": Udp, "Datagrams, retransmitted by the transactions.";
        "tcp": Tcp, "One connection per source address and worker (a CPU of the generator), unless each call has its own.";
        "tls": Tls, "The same with TLS.";
    }
    /// The version of TLS.
    SipTlsRaw(SipTlsChoice) = "version", "versions of TLS" {
        "any": Any, "The newest that both ends have.";
        "tls12": V12, "TLS 1.2.";
        "tls13": V13, "TLS 1.3.";
    }
    /// What relays the sound of calls.
    MediaRelayRaw(model::MediaRelay) = "relay", "relays" {
        "rtpengine": Rtpengine, "Sipwise's rtpengine, without its kernel module.";
    }
    /// When registrations reach the database.
    LocationRaw(model::LocationMode) = "mode", "modes" {
        "memory": Memory, "Never.";
        "write-through": WriteThrough, "Before the answer.";
        "write-back": WriteBack, "From a timer.";
    }
}

/// The version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SipTlsChoice {
    /// The newest that both ends have.
    Any,
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}

impl SipTlsChoice {
    /// The only version that is offered; `None`: both.
    pub(crate) const fn version(self) -> Option<TlsVersion> {
        match self {
            Self::Any => None,
            Self::V12 => Some(TlsVersion::V12),
            Self::V13 => Some(TlsVersion::V13),
        }
    }
}

/// Scenarios in the order given; empty for the study's.
#[derive(Debug, Clone)]
pub(crate) struct MixRaw(pub(crate) Vec<(Key, Scenario, Spanned<MixPartRaw>)>);

impl Decode for MixRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let known = Scenario::ALL.map(Scenario::name);
        let entries = match &node.value {
            Value::Mapping(entries) => entries.as_slice(),
            _ if node.is_null() => &[],
            _ => {
                report
                    .error(
                        node.span,
                        format!("a mix is a mapping of scenarios to shares, not {}", node.describe()),
                    )
                    .help(format!("scenarios: {}", listed(known)));
                return None;
            }
        };
        let mut parts = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let Some(scenario) = Scenario::ALL.into_iter().find(|s| s.name() == &*key.value) else {
                unknown(key, "scenario", "scenarios", &known, report);
                continue;
            };
            let part = MixPartRaw::decode(value, report);
            parts.extend(part.map(|part| (key.clone(), scenario, Spanned { value: part, span: value.span })));
        }
        (parts.len() == entries.len()).then_some(Self(parts))
    }
}

/// What happens in a scenario, for editors.
fn about(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::Registration => "REGISTER, 401, REGISTER with credentials, 200.",
        Scenario::ReRegistration => "A registered subscriber registers again.",
        Scenario::DeRegistration => "A registration with an expiry of 0.",
        Scenario::Calling => "INVITE, 100, 180, ring time, 200, ACK, hold time, BYE, 200.",
        Scenario::Messaging => "MESSAGE, 200.",
        Scenario::CalleeRejects => "A call that the callee answers with 486.",
        Scenario::CallerAbandons => "A call that the caller cancels while it rings.",
        Scenario::CalleeUnknown => "A call to a user who does not exist: 404.",
        Scenario::MessageUnregistered => "A message to a subscriber who isn't registered: 404.",
        Scenario::ReInvite => "A call in which the caller sends a second INVITE before the BYE.",
    }
}

impl JsonSchema for MixRaw {
    fn schema_name() -> Cow<'static, str> {
        "Mix".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut part = |s: Scenario| {
            let schema = field_schema::<MixPartRaw>(generator, &[about(s)], None);
            (s.name().to_owned(), schema.to_value())
        };
        let parts: serde_json::Map<String, serde_json::Value> =
            Scenario::ALL.into_iter().map(&mut part).collect();
        json_schema!({
            "type": "object",
            "description": "Scenarios and their shares of all attempts, which add up to 100%.",
            "properties": parts,
            "additionalProperties": false,
        })
    }
}

/// A random length of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SpreadRaw(pub(crate) Spread);

impl Decode for SpreadRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        if node.text().is_some() {
            return Nanos::decode(node, report).map(|mean| Self(Spread::Exponential(mean)));
        }
        let (index, mean) = open_kind(node, "spread", &["exponential", "constant"], report)?;
        let mean = Nanos::decode(&mean, report)?;
        Some(Self(if index == 0 { Spread::Exponential(mean) } else { Spread::Constant(mean) }))
    }
}

impl JsonSchema for SpreadRaw {
    fn schema_name() -> Cow<'static, str> {
        "Spread".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let time = generator.subschema_for::<Nanos>();
        let keyed = |key: &str, about: &str| {
            serde_json::json!({ "type": "object", "properties": { key: time }, "required": [key],
                "additionalProperties": false, "description": about })
        };
        json_schema!({ "anyOf": [
            time,
            keyed("exponential", "Exponential with this mean."),
            keyed("constant", "Always this."),
        ]})
    }
}

/// Sizes, uniform between two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SizesRaw(pub(crate) Bytes, pub(crate) Bytes);

impl Decode for SizesRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let text = scalar(node, "a size such as `140B` or `1B to 279B`", report)?;
        let (low, high) = text.split_once(" to ").unwrap_or((text, text));
        let parsed = low.trim().parse().and_then(|low| Ok(Self(low, high.trim().parse()?)));
        parsed.map_err(|e: UnitError| report.error(node.span, e.to_string())).ok()
    }
}

scalar_schema! { SizesRaw: "Sizes", ["string", "number"], "a size such as `140B`, or two between which it is uniform", ["140B", "1B to 279B"] }
