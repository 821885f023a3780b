//! The bytes of a test as others counted them: the kernel at both interfaces, and a capture.

use vtax_load::network::{NetworkResult, TcpFlow, VoiceEnd};
use vtax_plan::model::{Direction, NetworkTestKind};
use vtax_store::network::{CountCheck, CountedBy};
use vtax_sys::netlink::LinkStats;

use super::ends::Captured;

/// Ethernet, IPv4 and TCP with timestamps (RFC 7323): what each packet of a transfer carries beside its
/// payload. A burst that an offload takes for one packet has them once, and counts as one packet.
const TCP_HEADERS: u64 = 14 + 20 + 32;
/// Ethernet and IPv4; a datagram that goes in fragments has UDP's own eight bytes in the first only.
const FRAGMENT_HEADERS: u64 = 14 + 20;
const UDP_HEADER: u64 = 8;
/// A packet of voice before its sound, and bytes of sound in a second (RFC 3550 section 5.1, RFC 3551 section 4.5.14).
const RTP_HEADER: u64 = 12;
const SOUND_BYTES_PER_SECOND: u64 = 8_000;
/// What else goes over the path during a test: its control connection, ARP, handshakes.
const OTHERS: u64 = 32 << 10;
/// What the far end reports of a stream of voice, at most: about a hundred bytes of text, and their headers.
const VOICE_REPORT: u64 = 256;

/// One direction of a test: what its ends say about its payload.
struct Payload {
    up: bool,
    /// Bytes that must have left the sender's interface.
    left: u64,
    /// Bytes that must have come to the receiver's.
    came: u64,
    /// Bytes that either may have seen at most, what was sent again included.
    most: u64,
    /// Headers of each packet.
    headers: u64,
}

/// What the two ends say, by direction; nothing about echo, each answer of which names its probe.
fn payloads(kind: &NetworkTestKind, result: &NetworkResult) -> Vec<Payload> {
    match (kind, result) {
        (_, NetworkResult::Tcp(tcp)) => {
            let flows = [(true, tcp.up.as_ref()), (false, tcp.down.as_ref())];
            flows.into_iter().filter_map(|(up, flow)| Some(of_flow(up, flow?))).collect()
        }
        (NetworkTestKind::Udp(test), NetworkResult::Udp(udp)) => {
            let size = u64::from(test.size);
            let came = udp.receiver.total.saturating_mul(size);
            // A queue of the sender's own may have dropped what its program sent.
            let most = udp.sender.total.saturating_mul(size + UDP_HEADER).saturating_add(OTHERS);
            let up = test.direction != Direction::Down;
            vec![Payload { up, left: came, came, most, headers: FRAGMENT_HEADERS }]
        }
        (_, NetworkResult::Rr(rr)) => {
            let again: u64 =
                rr.connections.iter().map(|c| u64::from(c.retransmissions) * u64::from(c.mss)).sum();
            let asked: u64 = rr.connections.iter().map(|c| c.acknowledged).sum();
            let answered: u64 = rr.connections.iter().map(|c| c.received).sum();
            let of = |up, bytes: u64, again: u64| {
                let most = bytes.saturating_add(again).saturating_add(OTHERS);
                Payload { up, left: bytes, came: bytes, most, headers: TCP_HEADERS }
            };
            vec![of(true, asked, again), of(false, answered, rr.server_again)]
        }
        (NetworkTestKind::Voice(test), NetworkResult::Voice(voice)) => {
            let size = RTP_HEADER + test.packet.0 * SOUND_BYTES_PER_SECOND / 1_000_000_000;
            let of = |up, from: &VoiceEnd, to: &VoiceEnd, report: u64| {
                let came = to.total_received.saturating_mul(size);
                let most = from.total_sent.saturating_mul(size + UDP_HEADER);
                // Questions about the round trip go beside the packets: ten a second, fewer than one for two packets of a stream.
                let asked = most / 2 / u64::from(test.streams.max(1));
                let most = most.saturating_add(asked).saturating_add(report).saturating_add(OTHERS);
                Payload { up, left: came, came, most, headers: FRAGMENT_HEADERS }
            };
            let report = u64::from(test.streams) * VOICE_REPORT;
            vec![of(true, &voice.client, &voice.server, 0), of(false, &voice.server, &voice.client, report)]
        }
        (_, NetworkResult::Udp(_) | NetworkResult::Ping(_) | NetworkResult::Voice(_)) => Vec::new(),
    }
}

fn of_flow(up: bool, flow: &TcpFlow) -> Payload {
    let again = |c: &vtax_load::network::ConnectionFacts| u64::from(c.retransmissions) * u64::from(c.mss);
    let again: u64 = flow.sender.connections.iter().map(again).sum();
    let (left, came) = (flow.sender.total_bytes, flow.receiver.total_bytes);
    let most = left.saturating_add(again).saturating_add(OTHERS);
    Payload { up, left, came, most, headers: TCP_HEADERS }
}

/// What the interfaces counted, less headers, beside what they should have.
pub(super) fn at_interfaces(
    kind: &NetworkTestKind,
    result: &NetworkResult,
    [client, sut]: &[LinkStats; 2],
) -> Vec<CountCheck> {
    let mut checks = Vec::new();
    for payload in payloads(kind, result) {
        let net = |bytes: u64, packets: u64| bytes.saturating_sub(packets.saturating_mul(payload.headers));
        let out = |s: &LinkStats| net(s.sent_bytes, s.sent_packets);
        let into = |s: &LinkStats| net(s.received_bytes, s.received_packets);
        let (at_client, at_sut) =
            if payload.up { (out(client), into(sut)) } else { (into(client), out(sut)) };
        let (left, came) = (payload.left, payload.came);
        let (by_client, by_sut) = if payload.up { (left, came) } else { (came, left) };
        let most = payload.most;
        let check = |by, found, least| CountCheck { by, up: payload.up, found, least, most };
        checks.push(check(CountedBy::ClientInterface, at_client, by_client));
        checks.push(check(CountedBy::SutInterface, at_sut, by_sut));
    }
    checks
}

/// What a capture counted; `None` where it could not keep up and its count says nothing.
pub(super) fn in_capture(
    kind: &NetworkTestKind,
    result: &NetworkResult,
    captured: &Captured,
) -> Option<Vec<CountCheck>> {
    if captured.dropped > 0 {
        return None;
    }
    let check = |payload: Payload| {
        let found = if payload.up { captured.up } else { captured.down };
        let least = if payload.up { payload.left } else { payload.came };
        CountCheck { by: CountedBy::Capture, up: payload.up, found, least, most: payload.most }
    };
    Some(payloads(kind, result).into_iter().map(check).collect())
}

/// The disagreement of the check that is furthest out, where that is more than it may be.
pub(super) fn disagreement(checks: &[CountCheck]) -> Option<String> {
    let worst = checks.iter().max_by(|a, b| a.apart().total_cmp(&b.apart()))?;
    if worst.apart() <= vtax_load::network::DISAGREEMENT {
        return None;
    }
    let who = match worst.by {
        CountedBy::ClientInterface => "the client's interface",
        CountedBy::SutInterface => "the far end's interface",
        CountedBy::Capture => "the capture",
    };
    let way = if worst.up { "up" } else { "down" };
    Some(format!(
        "{who} counted {} bytes {way}, the test's ends {} to {}: {:.2} % apart",
        worst.found,
        worst.least,
        worst.most,
        worst.apart() * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use vtax_load::LatencyHistogram;
    use vtax_load::network::{
        ConnectionFacts, NetworkCpu, RrResult, RrTest, VoiceLaw, VoiceResult, VoiceTest,
    };
    use vtax_plan::model::SocketOptions;
    use vtax_units::Nanos;

    use super::*;

    /// Transactions whose answers are ten megabytes, of which the server sent that many bytes again.
    fn transactions(server_again: u64) -> NetworkResult {
        let connection =
            ConnectionFacts { acknowledged: 20_000, received: 10_000_000, ..ConnectionFacts::default() };
        NetworkResult::Rr(RrResult {
            transactions: 200,
            time: Nanos::from_secs(1),
            latency: LatencyHistogram::new(),
            intervals: Vec::new(),
            client_cpu: NetworkCpu::default(),
            server_cpu: NetworkCpu::default(),
            server_again,
            connections: vec![connection],
        })
    }

    #[test]
    fn answers_that_are_sent_again_are_seen_more_often_than_they_came() {
        let test = RrTest { streams: 1, request: 100, response: 50_000, socket: SocketOptions::default() };
        let kind = NetworkTestKind::Rr(test);
        let again = 100 * 1_448;
        let told = |result: &NetworkResult, up, down| {
            let captured = Captured { up, down, dropped: 0 };
            disagreement(&in_capture(&kind, result, &captured).unwrap())
        };
        assert_eq!(told(&transactions(again), 20_000, 10_000_000 + again), None);
        // Only what goes down was sent again, and no more of it than that.
        assert!(told(&transactions(0), 20_000, 10_000_000 + again).is_some());
        assert!(told(&transactions(again), 20_000 + again, 10_000_000).is_some());
    }

    #[test]
    fn a_report_on_many_streams_is_no_disagreement() {
        let test = VoiceTest {
            streams: 5_000,
            packet: Nanos::from_millis(20),
            law: VoiceLaw::Mu,
            jitter_buffer: Nanos::from_millis(60),
            bundled: false,
        };
        // Ten packets of each stream, and the report in segments of 1448 bytes.
        let packets = 50_000;
        let end = VoiceEnd { total_sent: packets, total_received: packets, ..VoiceEnd::default() };
        let result =
            VoiceResult { streams: 5_000, client: end.clone(), server: end, ..VoiceResult::default() };
        let (result, kind) = (NetworkResult::Voice(Box::new(result)), NetworkTestKind::Voice(test));
        let report = 5_000_u64 * 105;
        let segments = report.div_ceil(1_448);
        let voice = packets * (14 + 20 + 8 + 12 + 160);
        let told = |with_report: bool, lost_bytes: u64| {
            let (bytes, more) = if with_report { (report + segments * 66, segments) } else { (0, 0) };
            let client = LinkStats {
                sent_bytes: voice,
                sent_packets: packets,
                received_bytes: voice + bytes - lost_bytes,
                received_packets: packets + more,
                ..LinkStats::default()
            };
            let sut = LinkStats {
                sent_bytes: client.received_bytes,
                sent_packets: client.received_packets,
                received_bytes: client.sent_bytes,
                received_packets: client.sent_packets,
                ..LinkStats::default()
            };
            disagreement(&at_interfaces(&kind, &result, &[client, sut]))
        };
        assert_eq!((told(false, 0), told(true, 0)), (None, None));
        assert!(told(false, voice / 10).is_some());
    }
}
