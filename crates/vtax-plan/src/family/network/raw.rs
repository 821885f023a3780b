//! Network tests as written: the network server, bulk TCP, UDP, echo, transactions, voice, and their measure.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use vtax_units::{BitRate, Bytes, Nanos, Rate};

use crate::decode::{Decode, Many, scalar};
use crate::diagnose::Report;
use crate::model;
use crate::raw::load::ArrivalsRaw;
use crate::source::Spanned;
use crate::tree::Node;

services! {
    /// Options of `peer`, the embedded network server.
    struct PeerRaw = "`peer`", ready "30s", stop "5s" {
        /// TCP port it listens on.
        default port: u16 = "5202",
    }
}

raw! {
    /// Options of the `tcp` workload. A list of values makes a test for each.
    struct TcpRaw = "`tcp`" {
        /// Name of the test in reports; without it, the kind's.
        optional name: String,
        /// Connections in each direction.
        default streams: Many<u32> = "1",
        /// Who sends: `up` (the client), `down` (the system under test) or `both`.
        default direction: Many<DirectionRaw> = "up",
        /// Socket buffers to ask for on both ends, iperf's window; `auto` leaves them to the kernels.
        default window: Many<WindowRaw> = "auto",
        /// Congestion control by the kernel's name, such as `cubic` or `bbr`; `default` is each kernel's own.
        default congestion: Many<String> = "default",
        /// Largest segment; without it, what the path's MTU leaves.
        optional mss: Many<u32>,
        /// Send this much over all connections of a direction instead of for a time; the test still
        /// ends with the measure's time.
        optional bytes: Bytes,
        /// Bytes of one write.
        default block: Bytes = "1MiB",
        /// Send at once, however little (`TCP_NODELAY`).
        default no_delay: bool = "false",
        /// Both ends copy between program and kernel, as most programs do; otherwise the sender's kernel
        /// sends a file's pages as they are, and the receiver's counts and drops what arrives.
        default copy: bool = "false",
        /// Time at the start of this test that never counts; without it, the measure's.
        optional warmup: Nanos,
        /// Time of this test that counts; without it, the measure's.
        optional duration: Nanos,
    }

    /// Options of the `udp` workload. A list of values makes a test for each.
    struct UdpRaw = "`udp`" {
        /// Name of the test in reports; without it, the kind's.
        optional name: String,
        /// Payload bits per second, or `max`: as fast as they go out.
        default rate: Many<UdpRateRaw> = "10mbit",
        /// Payload of a datagram in bytes.
        default size: Many<u32> = "1448",
        /// Who sends: `up` (the client) or `down` (the system under test).
        default direction: Many<DirectionRaw> = "up",
        /// Socket buffers to ask for on both ends; without it, 4 MiB.
        optional buffer: Bytes,
        /// Time at the start of this test that never counts; without it, the measure's.
        optional warmup: Nanos,
        /// Time of this test that counts; without it, the measure's.
        optional duration: Nanos,
    }

    /// Options of the `ping` workload. A list of values makes a test for each.
    struct PingRaw = "`ping`" {
        /// Name of the test in reports; without it, the kind's.
        optional name: String,
        /// What is sent: `icmp` (the peer's kernel answers) or `udp` (the peer's program does).
        default probe: Many<ProbeRaw> = "icmp",
        /// Probes per second, whatever comes back.
        default rate: Many<Rate> = "100/s",
        /// Gaps between probes.
        default arrivals: ArrivalsRaw = "constant",
        /// Payload in bytes.
        default size: Many<u32> = "56",
        /// A probe not answered within this time is lost.
        default timeout: Nanos = "1s",
        /// Time at the start of this test that never counts; without it, the measure's.
        optional warmup: Nanos,
        /// Time of this test that counts; without it, the measure's.
        optional duration: Nanos,
    }

    /// Options of the `rr` workload. A list of values makes a test for each.
    struct RrRaw = "`rr`" {
        /// Name of the test in reports; without it, the kind's.
        optional name: String,
        /// Connections, each with one transaction at a time.
        default streams: Many<u32> = "1",
        /// Bytes of a request.
        default request: Many<u32> = "1",
        /// Bytes of a response.
        default response: Many<u32> = "1",
        /// Socket buffers to ask for on both ends; `auto` leaves them to the kernels.
        default window: Many<WindowRaw> = "auto",
        /// Congestion control by the kernel's name; `default` is each kernel's own.
        default congestion: Many<String> = "default",
        /// Time at the start of this test that never counts; without it, the measure's.
        optional warmup: Nanos,
        /// Time of this test that counts; without it, the measure's.
        optional duration: Nanos,
    }

    /// Options of the `voice` workload. A list of values makes a test for each.
    struct VoiceRaw = "`voice`" {
        /// Name of the test in reports; without it, the kind's.
        optional name: String,
        /// Streams in each direction; a call has one.
        default streams: Many<u32> = "100",
        /// Sound in each packet: 10ms, 20ms, 30ms or 40ms.
        default packet: Many<Nanos> = "20ms",
        /// How sound is coded: `pcmu` (G.711 mu-law) or `pcma` (A-law).
        default codec: Many<VoiceLawRaw> = "pcmu",
        /// How long sound waits before it is played; what comes later isn't heard.
        default jitter_buffer: Many<Nanos> = "60ms",
        /// Packets that leave at the same time cross the kernels as one, and are cut apart as late as they can be: cheaper for
        /// both ends, and not what telephones do.
        default bundled: bool = "false",
        /// Time at the start of this test that never counts; without it, the measure's.
        optional warmup: Nanos,
        /// Time of this test that counts; without it, the measure's.
        optional duration: Nanos,
    }

    /// Options of `network`.
    struct NetworkRaw = "`network`" {
        /// Name in reports.
        optional name: String,
        /// Time at the start of each test that never counts, unless the test has its own.
        default warmup: Nanos = "1s",
        /// Time of each test that counts, unless the test has its own.
        default duration: Nanos = "10s",
        /// Count the bytes a third time, from a packet capture on the client's side.
        default capture: bool = "false",
        /// Cut the path in the middle of each test.
        optional cut: PathCutRaw,
    }

    /// An interruption of the path.
    struct PathCutRaw = "`cut`", short [Nanos; at] {
        /// When, from the start of the counted time of each test.
        required at: Nanos,
        /// How long; without it, until the test has ended.
        optional lasting: Nanos,
    }
}

words! {
    /// Who sends.
    DirectionRaw(model::Direction) = "direction", "directions" {
        "up": Up, "The client, to the system under test.";
        "down": Down, "The system under test, to the client.";
        "both": Both, "Both at once, each on connections of its own.";
    }
    /// What an echo test sends.
    ProbeRaw(model::Probe) = "probe", "probes" {
        "icmp": Icmp, "ICMP echo requests; the peer's kernel answers.";
        "udp": Udp, "UDP datagrams; the peer's program answers.";
    }
    /// How sound is coded.
    VoiceLawRaw(model::VoiceLaw) = "codec", "codecs" {
        "pcmu": Mu, "G.711 mu-law.";
        "pcma": A, "G.711 A-law.";
    }
}

/// A value, or a word that leaves it to others.
macro_rules! value_or_word {
    ($( $(#[doc = $doc:literal])* $name:ident($type:ty) or $word:literal, $what:literal; )*) => { $(
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub(crate) struct $name(pub(crate) Option<$type>);

        impl Decode for $name {
            fn decode(node: &Node, report: &mut Report) -> Option<Self> {
                let text = scalar(node, $what, report)?;
                if text == $word {
                    return Some(Self(None));
                }
                match text.parse() {
                    Ok(value) => Some(Self(Some(value))),
                    Err(error) => {
                        let error: vtax_units::UnitError = error;
                        report.error(node.span, format!("{} is not {}: {}", node.describe(), $what, error.reason));
                        None
                    }
                }
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).trim_end_matches("Raw").into()
            }

            fn schema_id() -> Cow<'static, str> {
                concat!(module_path!(), "::", stringify!($name)).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": ["string", "number"], "description": $what })
            }
        }
    )* };
}

value_or_word! {
    /// Socket buffers; none for `auto`.
    WindowRaw(Bytes) or "auto", "a window such as `64K`, or `auto`";
    /// A bit rate; none for `max`.
    UdpRateRaw(BitRate) or "max", "a bit rate such as `100mbit`, or `max`";
}
