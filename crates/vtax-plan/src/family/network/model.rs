//! Network tests: bulk TCP, UDP at a rate, echo, transactions and voice between the two ends of a path.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vtax_units::{BitRate, Bytes, Nanos, Rate};

use crate::model::load::ArrivalProcess;

/// Tests that are made one after the other on the testbed of each trial, in an order drawn for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkWorkload {
    /// In the plan's order; at least one.
    pub tests: Vec<NetworkTest>,
}

impl NetworkWorkload {
    /// The test of that name.
    #[must_use]
    pub fn test(&self, name: &str) -> Option<&NetworkTest> {
        self.tests.iter().find(|test| test.name == name)
    }
}

/// One test: what is observed once in each trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkTest {
    /// Unique in the workload, stable across runs, safe in file names: `tcp.window-4K`, `udp`.
    pub name: String,
    /// The options that vary within the workload, for labels: name to value as written.
    pub parameters: BTreeMap<String, String>,
    /// What is done.
    pub kind: NetworkTestKind,
    /// Time at its start that never counts; `None`: the measure's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Nanos>,
    /// Time of it that counts; `None`: the measure's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Nanos>,
}

impl NetworkTest {
    /// Its name where lines are short: of bulk TCP without a name of its own only what varies, such as
    /// `4K` or `cubic 4K`.
    #[must_use]
    pub fn short_name(&self) -> String {
        let values: Vec<&str> = self.parameters.values().map(String::as_str).collect();
        match self.kind {
            NetworkTestKind::Tcp(_) if self.name.starts_with("tcp.") && !values.is_empty() => {
                values.join(" ")
            }
            _ => self.name.clone(),
        }
    }
}

/// The kinds of network test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum NetworkTestKind {
    /// As many bytes as fit.
    Tcp(TcpTest),
    /// Datagrams at a rate.
    Udp(UdpTest),
    /// Echo at a rate, whatever comes back.
    Ping(PingTest),
    /// A request and its response, again and again.
    Rr(RrTest),
    /// Streams of voice in both directions.
    Voice(VoiceTest),
}

impl NetworkTestKind {
    /// The kind's name in plans.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tcp(_) => "tcp",
            Self::Udp(_) => "udp",
            Self::Ping(_) => "ping",
            Self::Rr(_) => "rr",
            Self::Voice(_) => "voice",
        }
    }
}

/// Bulk TCP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TcpTest {
    /// Connections in each direction.
    pub streams: u32,
    /// Who sends.
    pub direction: Direction,
    /// How the sockets of both ends are set.
    pub socket: SocketOptions,
    /// Send this much over all connections of a direction, instead of for a time; the test still ends
    /// with the measure's time.
    pub bytes: Option<Bytes>,
    /// Bytes of one write.
    pub block: Bytes,
    /// Both ends copy between their memory and the kernel's, as most programs do; otherwise the sender's kernel
    /// sends a file's pages as they are, and the receiver's counts and drops what arrives.
    pub copy: bool,
}

/// How the sockets of both ends are set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketOptions {
    /// Send and receive buffers asked for, iperf's window; `None`: the kernel's own sizing. Linux gives
    /// twice as much, within bounds of its own; a trial records what it really gave.
    pub window: Option<Bytes>,
    /// Largest segment; `None`: what the path's MTU leaves.
    pub mss: Option<u32>,
    /// Congestion control by the kernel's name; `None`: each kernel's default.
    pub congestion: Option<String>,
    /// Send at once, however little.
    pub no_delay: bool,
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The client, to the system under test.
    Up,
    /// The system under test, to the client.
    Down,
    /// Both at once, each on connections of its own.
    Both,
}

/// UDP at a rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpTest {
    /// Payload bits per second; `None`: as fast as they go out.
    pub rate: Option<BitRate>,
    /// Payload of a datagram in bytes.
    pub size: u32,
    /// Who sends; not both.
    pub direction: Direction,
    /// Socket buffers asked for; `None`: the instrument's own, which hold bursts.
    pub buffer: Option<Bytes>,
}

/// Echo at a rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PingTest {
    /// What is sent.
    pub probe: Probe,
    /// Probes per second, whatever comes back.
    pub rate: Rate,
    /// Gaps between them.
    pub arrivals: ArrivalProcess,
    /// Payload in bytes.
    pub size: u32,
    /// A probe not answered within this time is lost.
    pub timeout: Nanos,
}

/// What an echo test sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// ICMP echo requests; the peer's kernel answers.
    Icmp,
    /// UDP datagrams; the network server answers.
    Udp,
}

/// Request/response transactions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RrTest {
    /// Connections, each with one transaction at a time.
    pub streams: u32,
    /// Bytes of a request.
    pub request: u32,
    /// Bytes of a response.
    pub response: u32,
    /// How the sockets of both ends are set.
    pub socket: SocketOptions,
}

/// Streams of G.711 in both directions at once, as RTP (RFC 3550, RFC 3551).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoiceTest {
    /// Streams in each direction: a call has one.
    pub streams: u32,
    /// Sound in each packet.
    pub packet: Nanos,
    /// How samples are bytes.
    pub law: VoiceLaw,
    /// How long after its stream's first packet the playing of a packet begins: what comes later isn't heard.
    pub jitter_buffer: Nanos,
    /// Packets that leave at the same time cross the kernels as one, and are cut apart as late as they can be.
    #[serde(default)]
    pub bundled: bool,
}

/// The laws of G.711.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VoiceLaw {
    /// PCMU, payload type 0.
    Mu,
    /// PCMA, payload type 8.
    A,
}

impl VoiceLaw {
    /// The law as it is on the wire.
    #[must_use]
    pub const fn law(self) -> vtax_wire::rtp::Law {
        match self {
            Self::Mu => vtax_wire::rtp::Law::Mu,
            Self::A => vtax_wire::rtp::Law::A,
        }
    }
}

/// Options of the embedded network server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerOptions {
    /// TCP port of its control connections; data uses this and ports that the kernel picks.
    pub port: u16,
}

/// Every test of a network workload, one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkMeasure {
    /// Time at the start of each test that never counts, unless the test has its own.
    pub warmup: Nanos,
    /// Time of each test that counts, unless the test has its own.
    pub duration: Nanos,
    /// Count the bytes a third time, from a packet capture.
    pub capture: bool,
    /// Cut the path in the middle of each test.
    pub cut: Option<Cut>,
}

impl NetworkMeasure {
    /// This measure as that test is made: with the times that the test has of its own.
    #[must_use]
    pub fn of(&self, test: &NetworkTest) -> Self {
        let (warmup, duration) = (test.warmup.unwrap_or(self.warmup), test.duration.unwrap_or(self.duration));
        Self { warmup, duration, ..self.clone() }
    }

    /// Time of one test, as far as the plan gives it.
    #[must_use]
    pub fn test_time(&self) -> Nanos {
        Nanos(self.warmup.0.saturating_add(self.duration.0))
    }
}

/// An interruption of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// When, from the start of the counted time of each test.
    pub at: Nanos,
    /// How long; `None`: until the test has ended.
    pub lasting: Option<Nanos>,
}
