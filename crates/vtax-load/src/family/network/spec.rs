//! What one network test is.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vtax_plan::model::{Direction, NetworkTestKind, SocketOptions, VoiceTest, network_limits as limits};
use vtax_units::Nanos;

use super::NetworkError;

/// Port of the server, TCP.
pub const PORT: u16 = 5202;

/// One test between this end and the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkSpec {
    /// Where the server listens; for ICMP echo, whose kernel is to answer (the port doesn't matter).
    pub target: SocketAddr,
    /// What is done.
    pub test: NetworkTestKind,
    /// Seed of the gaps between echo requests.
    pub seed: u64,
    /// Time at the start that isn't counted.
    pub warmup: Nanos,
    /// Time that is counted.
    pub duration: Nanos,
    /// Length of the intervals in the result.
    pub interval: Nanos,
}

/// How long the server may take to answer a step of the control connection.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of a datagram that carry token, number and time.
pub(super) const UDP_HEADER: usize = limits::DATAGRAM.0 as usize;
const TIME_MAX: Nanos = Nanos::from_secs(24 * 3600);
const INTERVALS_MAX: u64 = 100_000;
impl NetworkSpec {
    /// The longest that the test takes: each step of either end has a limit of its own, and no test has more
    /// than five of them.
    #[must_use]
    pub fn longest(&self) -> Duration {
        Duration::from(self.warmup) + Duration::from(self.duration) + 5 * PATIENCE
    }

    /// Checks that the specification makes sense; both ends do.
    ///
    /// # Errors
    /// [`NetworkError::Spec`] naming the first field that doesn't.
    pub fn check(&self) -> Result<(), NetworkError> {
        within("duration", self.duration, Nanos::from_millis(1), TIME_MAX, "")?;
        within("warm-up", self.warmup, Nanos::ZERO, TIME_MAX, "")?;
        let finest = Nanos(self.duration.0 / INTERVALS_MAX).max(Nanos::from_millis(1));
        within("interval", self.interval, finest, TIME_MAX, "")?;
        match &self.test {
            NetworkTestKind::Tcp(test) => {
                within("streams", u64::from(test.streams), 1, u64::from(limits::STREAMS), "")?;
                within("block", test.block.0, 1, limits::BLOCK.0, "bytes")?;
                check_socket(&test.socket)
            }
            NetworkTestKind::Udp(test) => {
                within(
                    "size",
                    u64::from(test.size),
                    u64::from(limits::DATAGRAM.0),
                    u64::from(limits::DATAGRAM.1),
                    "bytes",
                )?;
                if test.direction == Direction::Both {
                    return refuse("direction", "UDP goes up or down; run two tests for both".to_owned());
                }
                match test.rate {
                    Some(rate) => within("rate", rate.0, limits::RATE.0.0, limits::RATE.1.0, "bit/s"),
                    None => Ok(()),
                }
            }
            NetworkTestKind::Rr(test) => {
                within("streams", u64::from(test.streams), 1, u64::from(limits::STREAMS), "")?;
                within("request", u64::from(test.request), 1, u64::from(limits::MESSAGE), "bytes")?;
                within("response", u64::from(test.response), 1, u64::from(limits::MESSAGE), "bytes")?;
                check_socket(&test.socket)
            }
            NetworkTestKind::Ping(test) => {
                within(
                    "size",
                    u64::from(test.size),
                    u64::from(limits::DATAGRAM.0),
                    u64::from(limits::DATAGRAM.1),
                    "bytes",
                )?;
                within("timeout", test.timeout, limits::TIMEOUT.0, limits::TIMEOUT.1, "")?;
                if !(test.rate.0 > 0.0 && test.rate <= limits::PINGS) {
                    return refuse(
                        "rate",
                        format!("{} is not above 0/s and at most {}", test.rate, limits::PINGS),
                    );
                }
                Ok(())
            }
            NetworkTestKind::Voice(test) => self.check_voice(test),
        }
    }

    fn check_voice(&self, test: &VoiceTest) -> Result<(), NetworkError> {
        within("streams", u64::from(test.streams), 1, u64::from(limits::VOICE_STREAMS), "")?;
        if !limits::VOICE_PACKETS.contains(&test.packet) {
            let known = limits::VOICE_PACKETS.map(|packet| packet.to_string()).join(", ");
            return refuse("packet", format!("{} is none of {known}", test.packet));
        }
        within("jitter buffer", test.jitter_buffer, Nanos::ZERO, limits::JITTER_BUFFER, "")?;
        within("duration", self.duration, limits::VOICE_TIME, TIME_MAX, "")
    }
}

fn check_socket(socket: &SocketOptions) -> Result<(), NetworkError> {
    if let Some(window) = socket.window {
        within("window", window.0, 1, limits::WINDOW.0, "bytes")?;
    }
    if let Some(mss) = socket.mss {
        within("mss", u64::from(mss), u64::from(limits::SEGMENT.0), u64::from(limits::SEGMENT.1), "bytes")?;
    }
    match &socket.congestion {
        Some(name)
            if name.is_empty()
                || name.len() > limits::CONGESTION
                || !name.bytes().all(|b| b.is_ascii_graphic()) =>
        {
            refuse("congestion", "must be a name of the kernel's such as `cubic`".to_owned())
        }
        _ => Ok(()),
    }
}

fn refuse(field: &'static str, reason: String) -> Result<(), NetworkError> {
    Err(NetworkError::Spec { field, reason })
}

/// A value that says its unit itself is given without one.
fn within<T: Copy + PartialOrd + Display>(
    field: &'static str,
    value: T,
    least: T,
    most: T,
    unit: &str,
) -> Result<(), NetworkError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    refuse(field, format!("{value} {unit} is not between {least} and {most}").replace("  ", " "))
}
