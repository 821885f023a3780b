//! What a network test found.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

use super::{Direction, NetworkTestKind, VoiceResult};
use crate::LatencyHistogram;

/// What a test found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum NetworkResult {
    /// Of bulk TCP.
    Tcp(TcpResult),
    /// Of UDP at a rate.
    Udp(UdpResult),
    /// Of transactions.
    Rr(RrResult),
    /// Of echo.
    Ping(PingResult),
    /// Of streams of voice.
    Voice(Box<VoiceResult>),
}

/// Bulk TCP, by direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TcpResult {
    /// From the client to the server.
    pub up: Option<TcpFlow>,
    /// From the server to the client.
    pub down: Option<TcpFlow>,
}

/// All connections of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TcpFlow {
    /// As the sender saw it.
    pub sender: TcpSide,
    /// As the receiver saw it: what counts.
    pub receiver: TcpSide,
    /// What the two ends or a kernel and its program disagree about by more than
    /// [`DISAGREEMENT`], where they do; such a test doesn't count.
    pub disagreement: Option<String>,
}

/// How far two counts of the same bytes may be apart, as a share.
pub const DISAGREEMENT: f64 = 0.005;

impl TcpFlow {
    /// Payload bits per second that reached the receiver.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        self.receiver.counted_bytes as f64 * 8.0 / self.receiver.counted_time.as_secs_f64().max(1e-9)
    }
}

/// One end of a direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpSide {
    /// Bytes from the first to the last, warm-up included.
    pub total_bytes: u64,
    /// Bytes within the counted time.
    pub counted_bytes: u64,
    /// The counted time: asked for, or until the last byte where a number of bytes was.
    pub counted_time: Nanos,
    /// Bytes by interval of the counted time.
    pub intervals: Vec<u64>,
    /// What its threads used.
    pub cpu: NetworkCpu,
    /// Its connections.
    pub connections: Vec<ConnectionFacts>,
}

/// CPU time from the first to the last byte or datagram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkCpu {
    /// In user mode.
    pub user: Nanos,
    /// In the kernel, softirqs on this thread's account included.
    pub system: Nanos,
}

impl NetworkCpu {
    /// Both together.
    #[must_use]
    pub fn total(&self) -> Nanos {
        Nanos(self.user.0 + self.system.0)
    }

    pub(super) fn add(&mut self, more: Self) {
        self.user.0 += more.user.0;
        self.system.0 += more.system.0;
    }
}

/// A connection at its end, as the kernel saw it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionFacts {
    /// Send buffer that the kernel really gave, in bytes.
    pub send_buffer: u64,
    /// Receive buffer that it really gave.
    pub receive_buffer: u64,
    /// Congestion control.
    pub congestion: String,
    /// Largest segment sent.
    pub mss: u32,
    /// Smoothed round-trip time.
    pub rtt: Nanos,
    /// Congestion window in segments.
    pub congestion_window: u32,
    /// Segments sent again.
    pub retransmissions: u32,
    /// Payload bytes that the peer's kernel acknowledged.
    pub acknowledged: u64,
    /// Payload bytes that this kernel received.
    pub received: u64,
}

/// UDP at a rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpResult {
    /// What went out.
    pub sender: UdpSender,
    /// What came in.
    pub receiver: UdpReceiver,
}

/// The sending end. Datagrams of the warm-up are left out everywhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpSender {
    /// Datagrams sent.
    pub sent: u64,
    /// From when the first was due to the end of the last one's gap; without a rate, from sending the first to
    /// sending the last.
    pub time: Nanos,
    /// Actual minus intended time of sending, where there is a rate.
    pub lateness: LatencyHistogram,
    /// Why the sender could not carry the rate, where it could not: whichever end that was.
    pub limited: Option<String>,
    /// What its thread used, warm-up included.
    pub cpu: NetworkCpu,
    /// Datagrams sent, warm-up included: what `cpu` was used for.
    pub total: u64,
}

/// The receiving end. Datagrams of the warm-up are left out everywhere but in `total`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpReceiver {
    /// Datagrams received, duplicates left out.
    pub received: u64,
    /// Payload bytes of those.
    pub bytes: u64,
    /// From the first to the last.
    pub time: Nanos,
    /// Received again.
    pub duplicates: u64,
    /// Received after one that was sent later.
    pub reordered: u64,
    /// Dropped by the receiving socket for want of room: not the path's loss, but a part of what is missing.
    pub no_room: u64,
    /// Interarrival jitter at the end (RFC 3550 section 6.4.1).
    pub jitter: Nanos,
    /// Its mean over all datagrams.
    pub jitter_mean: Nanos,
    /// By interval: datagrams received.
    pub intervals: Vec<u64>,
    /// What its thread used.
    pub cpu: NetworkCpu,
    /// Datagrams received, warm-up included.
    pub total: u64,
}

impl TcpFlow {
    fn nothing_arrived(&self) -> Option<String> {
        (self.receiver.counted_bytes == 0).then(|| "not a byte arrived in the counted time".to_owned())
    }
}

impl NetworkResult {
    /// Why nothing succeeded, in words; `None` where something did.
    #[must_use]
    pub fn nothing_succeeded(&self) -> Option<String> {
        match self {
            Self::Tcp(tcp) => [&tcp.up, &tcp.down].into_iter().flatten().find_map(TcpFlow::nothing_arrived),
            Self::Udp(udp) => udp.nothing_arrived(),
            Self::Rr(rr) => {
                (rr.transactions == 0).then(|| "not a transaction ended in the counted time".to_owned())
            }
            Self::Ping(ping) => {
                (ping.answered == 0).then(|| format!("none of {} probes was answered", ping.sent))
            }
            Self::Voice(voice) => {
                let silent = [("to", &voice.up), ("from", &voice.down)].into_iter();
                let (way, packets) =
                    silent.map(|(way, of)| (way, of.packets)).find(|(_, p)| p.received == 0)?;
                Some(format!("none of {} packets of voice {way} the far end arrived", packets.intended))
            }
        }
    }

    /// Why figures of this test don't count although something arrived, in words: the ends disagree, or this end sent and was too
    /// slow. That the far end was is a finding about it.
    #[must_use]
    pub fn doubt(&self, test: &NetworkTestKind) -> Option<&str> {
        let far_end_sends = matches!(test, NetworkTestKind::Udp(udp) if udp.direction == Direction::Down);
        match self {
            Self::Tcp(tcp) => {
                [&tcp.up, &tcp.down].into_iter().flatten().find_map(|flow| flow.disagreement.as_deref())
            }
            Self::Udp(udp) => udp.sender.limited.as_deref().filter(|_| !far_end_sends),
            Self::Voice(voice) => voice.limited.as_deref(),
            Self::Rr(_) | Self::Ping(_) => None,
        }
    }
}

impl UdpResult {
    /// What both ends counted. A datagram that found no room is a lost one: where the kernel's count of what it dropped
    /// is higher, it was of pieces that weren't full.
    pub(super) fn of(sender: UdpSender, receiver: UdpReceiver) -> Self {
        let no_room = receiver.no_room.min(sender.sent.saturating_sub(receiver.received));
        Self { sender, receiver: UdpReceiver { no_room, ..receiver } }
    }

    fn nothing_arrived(&self) -> Option<String> {
        match (self.receiver.received, self.sender.sent) {
            (0, 0) => {
                let unsaid = || "not a datagram was sent in the counted time".to_owned();
                Some(self.sender.limited.clone().unwrap_or_else(unsaid))
            }
            (0, sent) => Some(format!("none of {sent} datagrams arrived")),
            _ => None,
        }
    }

    /// Datagrams that never came, as a share of those sent.
    #[must_use]
    pub fn loss(&self) -> f64 {
        let lost = self.sender.sent.saturating_sub(self.receiver.received);
        if self.sender.sent == 0 { 0.0 } else { lost as f64 / self.sender.sent as f64 }
    }

    /// Payload bits per second that came in.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        // Where the first were held up, as by an address that had to be found first, what came in took
        // less time than what went out, and would seem to have come in at a higher rate.
        let time = self.receiver.time.max(self.sender.time).as_secs_f64();
        self.receiver.bytes as f64 * 8.0 / time.max(1e-9)
    }
}

/// Transactions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RrResult {
    /// Transactions within the counted time.
    pub transactions: u64,
    /// The counted time.
    pub time: Nanos,
    /// From the first byte of the request to the last of the response.
    pub latency: LatencyHistogram,
    /// By interval.
    pub intervals: Vec<u64>,
    /// What the client's threads used.
    pub client_cpu: NetworkCpu,
    /// What the server's used.
    pub server_cpu: NetworkCpu,
    /// Bytes that the server sent again, at most: each segment that it did counts as a full one.
    #[serde(default)]
    pub server_again: u64,
    /// The client's connections.
    pub connections: Vec<ConnectionFacts>,
}

/// Echo.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PingResult {
    /// Probes meant to be sent in the counted time.
    pub intended: u64,
    /// Sent.
    pub sent: u64,
    /// Answered in time.
    pub answered: u64,
    /// Answered again.
    pub duplicates: u64,
    /// From the actual send to the answer.
    pub rtt: LatencyHistogram,
    /// From the intended send to the answer: what a user would have waited.
    pub latency: LatencyHistogram,
    /// Actual minus intended send.
    pub lateness: LatencyHistogram,
    /// By interval: answers, and their mean round-trip time.
    pub intervals: Vec<PingInterval>,
}

impl PingResult {
    /// Share of the probes meant to be sent that had no answer in time: a path that refuses one loses it too.
    #[must_use]
    pub fn loss(&self) -> f64 {
        let asked = self.intended.max(self.sent);
        if asked == 0 { 0.0 } else { asked.saturating_sub(self.answered) as f64 / asked as f64 }
    }
}

/// One interval of an echo test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingInterval {
    /// Answers.
    pub answered: u64,
    /// Sum of their round-trip times.
    pub rtt_sum: Nanos,
}

/// Live figures, handed over once per interval.
pub type Watch<'a> = &'a (dyn Fn(&Live) + Sync);

/// What a running test shows, once per interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// End of the interval, from the start of the counted time; negative in the warm-up.
    pub at_seconds: f64,
    /// Length of the interval.
    pub seconds: f64,
    /// Bytes this end received (or sent, where it only sends).
    pub bytes: u64,
    /// Datagrams, transactions or answers.
    pub events: u64,
    /// Mean round-trip time of those, where it is known.
    pub rtt: Option<Nanos>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel counts dropped pieces as if each was full, and those of the warm-up's end.
    #[test]
    fn what_found_no_room_is_never_more_than_what_is_lost() {
        let of = |no_room| {
            let sender = UdpSender { sent: 7_000, ..UdpSender::default() };
            let receiver = UdpReceiver { received: 2_400, no_room, ..UdpReceiver::default() };
            UdpResult::of(sender, receiver)
        };
        assert_eq!((of(7_000).receiver.no_room, of(4_600).receiver.no_room), (4_600, 4_600));
        assert_eq!(of(12).receiver.no_room, 12);
        assert!((of(7_000).loss() - 4_600.0 / 7_000.0).abs() < 1e-12);
    }

    #[test]
    fn what_was_not_even_sent_is_told_apart_from_what_did_not_arrive() {
        let told = |sender| {
            NetworkResult::Udp(UdpResult::of(sender, UdpReceiver::default())).nothing_succeeded().unwrap()
        };
        let sender = UdpSender { sent: 7, limited: Some("slow".to_owned()), ..UdpSender::default() };
        assert_eq!(told(sender.clone()), "none of 7 datagrams arrived");
        assert_eq!(told(UdpSender { sent: 0, ..sender }), "slow");
        assert_eq!(told(UdpSender::default()), "not a datagram was sent in the counted time");
    }

    #[test]
    fn a_far_end_that_cannot_send_casts_no_doubt() {
        let sender = UdpSender { sent: 7, limited: Some("slow".to_owned()), ..UdpSender::default() };
        let result = NetworkResult::Udp(UdpResult::of(sender, UdpReceiver::default()));
        let doubt = |direction| {
            let test = crate::network::UdpTest { rate: None, size: 100, direction, buffer: None };
            result.doubt(&NetworkTestKind::Udp(test)).map(str::to_owned)
        };
        assert_eq!(doubt(Direction::Up).as_deref(), Some("slow"));
        assert_eq!(doubt(Direction::Down), None);
    }
}
