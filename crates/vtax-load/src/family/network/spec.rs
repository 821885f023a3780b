//! What one network test is.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vtax_units::{BitRate, Bytes, Nanos, Rate};

use super::NetError;
use crate::ArrivalProcess;

/// Port of the server, TCP.
pub const PORT: u16 = 5202;

/// One test between this end and the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetSpec {
    /// Where the server listens; for ICMP echo, whose kernel is to answer (the port doesn't matter).
    pub target: SocketAddr,
    /// What is done.
    pub test: NetTest,
    /// Time at the start that isn't counted.
    pub warmup: Nanos,
    /// Time that is counted.
    pub duration: Nanos,
    /// Length of the intervals in the result.
    pub interval: Nanos,
}

/// The kinds of test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum NetTest {
    /// As many bytes as fit.
    Tcp(TcpTest),
    /// Datagrams at a rate.
    Udp(UdpTest),
    /// A request and its response, again and again, on each connection.
    Rr(RrTest),
    /// Echo at a rate, whatever comes back.
    Ping(PingTest),
}

/// Bulk TCP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TcpTest {
    /// Connections in each direction.
    pub streams: u32,
    /// Who sends.
    pub direction: Direction,
    /// How the sockets are set.
    pub socket: SocketSetup,
    /// Send this much over all connections of a direction, instead of for a time; the test still ends
    /// after warm-up and duration.
    pub bytes: Option<Bytes>,
    /// Bytes of one write.
    pub block: Bytes,
    /// Both ends copy between their memory and the kernel's, as most programs would. Otherwise the
    /// sender's kernel sends the pages of a file in memory as they are (sendfile(2)), and the receiver's
    /// drops what it has counted (`MSG_TRUNC`, tcp(7)), so that less of the CPU goes into the instrument.
    pub copy: bool,
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The client.
    Up,
    /// The server.
    Down,
    /// Both at once, each on connections of its own.
    Both,
}

/// How sockets are set; on both ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketSetup {
    /// Send and receive buffers asked for: what iperf calls the window. Linux doubles it (socket(7)).
    pub window: Option<Bytes>,
    /// Largest segment.
    pub mss: Option<u32>,
    /// Congestion control, by the kernel's name: `cubic`, `bbr`.
    pub congestion: Option<String>,
    /// Send at once, however little (`TCP_NODELAY`).
    pub no_delay: bool,
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
    /// Receive and send buffers asked for.
    pub buffer: Option<Bytes>,
}

/// Request/response transactions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RrTest {
    /// Connections.
    pub streams: u32,
    /// Bytes of a request.
    pub request: u32,
    /// Bytes of a response.
    pub response: u32,
    /// How the sockets are set.
    pub socket: SocketSetup,
}

/// Echo at a rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PingTest {
    /// What is sent.
    pub probe: Probe,
    /// Probes per second.
    pub rate: Rate,
    /// Gaps between them.
    pub arrivals: ArrivalProcess,
    /// Payload in bytes.
    pub size: u32,
    /// A probe not answered within this time is lost.
    pub timeout: Nanos,
    /// Seed of the gaps.
    pub seed: u64,
}

/// What an echo test sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// ICMP echo requests; the peer's kernel answers.
    Icmp,
    /// UDP datagrams; the server answers.
    Udp,
}

/// Bytes of a datagram that carry token, number and time.
pub(super) const UDP_HEADER: usize = 32;
const STREAMS_MAX: u32 = 256;
const UDP_MAX: u32 = 65_507;
const BLOCK_MAX: u64 = 16 << 20;
const MESSAGE_MAX: u32 = 16 << 20;
const WINDOW_MAX: u64 = 1 << 30;
const TIME_MAX: Nanos = Nanos::from_secs(24 * 3600);
const INTERVALS_MAX: u64 = 100_000;
const PINGS_MAX: f64 = 1e6;

impl NetSpec {
    /// The longest that the test takes: each step of either end has a limit of its own, and no test has more
    /// than five of them.
    #[must_use]
    pub fn longest(&self) -> Duration {
        Duration::from(self.warmup) + Duration::from(self.duration) + 5 * super::PATIENCE
    }

    /// Checks that the specification makes sense; both ends do.
    ///
    /// # Errors
    /// [`NetError::Spec`] naming the first field that doesn't.
    pub fn check(&self) -> Result<(), NetError> {
        within("duration", self.duration.0, 1_000_000, TIME_MAX.0, "nanoseconds")?;
        within("warm-up", self.warmup.0, 0, TIME_MAX.0, "nanoseconds")?;
        let finest = (self.duration.0 / INTERVALS_MAX).max(1_000_000);
        within("interval", self.interval.0, finest, TIME_MAX.0, "nanoseconds")?;
        match &self.test {
            NetTest::Tcp(test) => {
                within("streams", u64::from(test.streams), 1, u64::from(STREAMS_MAX), "")?;
                within("block", test.block.0, 1, BLOCK_MAX, "bytes")?;
                test.socket.check()
            }
            NetTest::Udp(test) => {
                within("size", u64::from(test.size), UDP_HEADER as u64, u64::from(UDP_MAX), "bytes")?;
                if test.direction == Direction::Both {
                    return refuse("direction", "UDP goes up or down; run two tests for both".to_owned());
                }
                match test.rate {
                    Some(rate) => within("rate", rate.0, 8, 1 << 40, "bit/s"),
                    None => Ok(()),
                }
            }
            NetTest::Rr(test) => {
                within("streams", u64::from(test.streams), 1, u64::from(STREAMS_MAX), "")?;
                within("request", u64::from(test.request), 1, u64::from(MESSAGE_MAX), "bytes")?;
                within("response", u64::from(test.response), 1, u64::from(MESSAGE_MAX), "bytes")?;
                test.socket.check()
            }
            NetTest::Ping(test) => {
                within("size", u64::from(test.size), UDP_HEADER as u64, u64::from(UDP_MAX), "bytes")?;
                within("timeout", test.timeout.0, 1_000_000, 60_000_000_000, "nanoseconds")?;
                if !(test.rate.0 > 0.0 && test.rate.0 <= PINGS_MAX) {
                    return refuse("rate", format!("{} is not above 0 and at most {PINGS_MAX}/s", test.rate));
                }
                Ok(())
            }
        }
    }
}

impl SocketSetup {
    fn check(&self) -> Result<(), NetError> {
        if let Some(window) = self.window {
            within("window", window.0, 1, WINDOW_MAX, "bytes")?;
        }
        if let Some(mss) = self.mss {
            within("mss", u64::from(mss), 88, 32_767, "bytes")?;
        }
        match &self.congestion {
            Some(name)
                if name.is_empty() || name.len() > 15 || !name.bytes().all(|b| b.is_ascii_graphic()) =>
            {
                refuse("congestion", "must be a name of the kernel's such as `cubic`".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn refuse(field: &'static str, reason: String) -> Result<(), NetError> {
    Err(NetError::Spec { field, reason })
}

fn within(field: &'static str, value: u64, least: u64, most: u64, unit: &str) -> Result<(), NetError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    refuse(field, format!("{value} {unit} is not between {least} and {most}").replace("  ", " "))
}
