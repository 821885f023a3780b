//! What came of streams in both directions.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;
use vtax_wire::rtp::{Receiver, Voice, mos};

use super::super::{NetworkCpu, NetworkError, VoiceTest};
use super::timetable::Timetable;
use crate::LatencyHistogram;

/// Streams in both directions. Packets of the warm-up are left out everywhere but in totals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VoiceResult {
    /// Streams in each direction.
    pub streams: u32,
    /// Time that counted.
    pub time: Nanos,
    /// From the client to the server.
    pub up: VoiceDirection,
    /// From the server to the client.
    pub down: VoiceDirection,
    /// Round trips beside the streams, without the time that the server held each question.
    pub round_trip: LatencyHistogram,
    /// What the client did.
    pub client: VoiceEnd,
    /// What the server did.
    pub server: VoiceEnd,
    /// Why the client could not keep the pace, where it could not.
    pub limited: Option<String>,
}

/// One direction of all streams.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VoiceDirection {
    /// Its packets.
    pub packets: VoicePackets,
    /// Each stream's interarrival jitter at its end (RFC 3550 section 6.4.1).
    pub jitter: LatencyHistogram,
    /// Each stream's jitter at its highest.
    pub jitter_max: LatencyHistogram,
    /// How it sounds: an estimate after ITU-T G.107.
    pub rating: VoiceRating,
    /// By interval: packets that came.
    pub intervals: Vec<u64>,
}

/// Packets of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoicePackets {
    /// Meant to be sent.
    pub intended: u64,
    /// Sent, on time or late.
    pub sent: u64,
    /// Came, each once.
    pub received: u64,
    /// Of those, came after their time to be played.
    pub late: u64,
    /// Came after one that was sent later.
    pub reordered: u64,
    /// Came again.
    pub duplicates: u64,
    /// Came with another sound than was sent.
    pub damaged: u64,
    /// Came, but weren't taken: none of this test's, or so far from where their stream was that they count as lost.
    pub stray: u64,
    /// Dropped by the receiving socket for want of room: a part of what is lost that isn't the path's.
    pub no_room: u64,
}

/// How streams sound, estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct VoiceRating {
    /// From mouth to ear: a packet's length, half of the median round trip, the jitter buffer.
    pub delay: Nanos,
    /// Mean of the streams' rating factors R, 0 to 100.
    pub mean: f64,
    /// The lowest of them.
    pub worst: f64,
    /// The mean opinion score that is estimated for `mean`, 1 to 4.5.
    pub mos: f64,
    /// The mean opinion score that is estimated for `worst`, 1 to 4.5.
    pub mos_worst: f64,
}

/// What one end did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VoiceEnd {
    /// Packets sent.
    pub sent: u64,
    /// Of those, the ones that its own kernel refused.
    pub refused: u64,
    /// How much later than it was due each was handed to the kernel.
    pub lateness: LatencyHistogram,
    /// Packets sent, warm-up included.
    pub total_sent: u64,
    /// Packets that came, warm-up and duplicates included.
    pub total_received: u64,
    /// What its thread used, warm-up included: to send `total_sent` and hear `total_received`.
    pub cpu: NetworkCpu,
}

/// What one end tells of a test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(in super::super) struct VoiceReport {
    pub(in super::super) end: VoiceEnd,
    /// By stream.
    pub(in super::super) heard: Vec<VoiceHeard>,
    pub(in super::super) intervals: Vec<u64>,
    pub(in super::super) no_room: u64,
    /// Datagrams of nobody's.
    pub(in super::super) foreign: u64,
    pub(in super::super) round_trip: LatencyHistogram,
}

/// What came of one stream at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct VoiceHeard {
    received: u64,
    late: u64,
    reordered: u64,
    again: u64,
    stray: u64,
    damaged: u64,
    jitter: u64,
    jitter_max: u64,
}

impl VoiceHeard {
    pub(super) fn of(receiver: &Receiver, damaged: u64) -> Self {
        let (reordered, again, late, stray) = receiver.disorder();
        let (jitter, jitter_max) = receiver.jitter();
        Self { received: receiver.received(), late, reordered, again, stray, damaged, jitter, jitter_max }
    }
}

/// p99 of the client's lateness, as a share of a packet's length, above which streams weren't paced.
const LATE: u64 = 4;

impl VoiceResult {
    /// What both ends found. `whole`: the test wasn't called off.
    pub(super) fn of(
        test: &VoiceTest,
        timetable: Timetable,
        whole: bool,
        client: VoiceReport,
        server: VoiceReport,
    ) -> Result<Self, NetworkError> {
        if client.heard.len() != timetable.streams || server.heard.len() != timetable.streams {
            let told = server.heard.len();
            return Err(NetworkError::protocol(format!("of {told} streams instead of {}", test.streams)));
        }
        let network = Nanos(client.round_trip.quantile(0.5).0 / 2);
        let delay = Nanos(test.packet.0.saturating_add(network.0).saturating_add(test.jitter_buffer.0));
        let of = |sent: u64, heard: &VoiceReport| {
            let intended = if whole { timetable.counted() } else { sent };
            direction(timetable, (intended, sent), delay, heard)
        };
        let (up, down) = (of(client.end.sent, &server), of(server.end.sent, &client));
        let limited = if whole { limited(test, &client.end, timetable.counted()) } else { None };
        Ok(Self {
            streams: test.streams,
            time: Nanos(test.packet.0 * (timetable.rounds - timetable.warm)),
            up,
            down,
            round_trip: client.round_trip,
            client: client.end,
            server: server.end,
            limited,
        })
    }

    /// Both directions.
    #[must_use]
    pub const fn directions(&self) -> [&VoiceDirection; 2] {
        [&self.up, &self.down]
    }

    /// The mean opinion score that is estimated for the worse of both directions: a call is as good as its worse ear.
    #[must_use]
    pub fn mos(&self) -> f64 {
        self.up.rating.mos.min(self.down.rating.mos)
    }

    /// Mean of the streams' jitter in the worse of both directions.
    #[must_use]
    pub fn jitter(&self) -> Nanos {
        self.up.jitter.mean().max(self.down.jitter.mean())
    }

    /// Packets of both directions that never came, as a share of those that were meant to.
    #[must_use]
    pub fn loss(&self) -> f64 {
        VoicePackets::share_of_both([&self.up.packets, &self.down.packets], VoicePackets::lost)
    }

    /// Packets of both directions that weren't heard: lost, or too late to be played.
    #[must_use]
    pub fn unheard(&self) -> f64 {
        VoicePackets::share_of_both([&self.up.packets, &self.down.packets], VoicePackets::unheard)
    }
}

impl VoicePackets {
    /// Meant to be sent, but never came.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.intended.saturating_sub(self.received)
    }

    /// Lost, or too late to be played.
    #[must_use]
    pub fn unheard(&self) -> u64 {
        self.lost().saturating_add(self.late).min(self.intended)
    }

    /// Some packets of two directions, as a share of those that were meant to be sent in both.
    pub(crate) fn share_of_both([up, down]: [&Self; 2], of: fn(&Self) -> u64) -> f64 {
        let sum = |of: fn(&Self) -> u64| of(up).saturating_add(of(down));
        share(sum(of), sum(|packets| packets.intended))
    }
}

/// A part as a share of the whole; 0 where there is no whole.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Why the client could not keep the pace.
fn limited(test: &VoiceTest, end: &VoiceEnd, intended: u64) -> Option<String> {
    let sent = share(end.sent, intended);
    if sent < 0.99 {
        return Some(format!(
            "{:.1} % of the packets went out in time: this end can't send so many streams",
            sent * 100.0
        ));
    }
    let (late, most) = (end.lateness.quantile(0.99), Nanos(test.packet.0 / LATE));
    (late > most).then(|| {
        format!("one of a hundred packets left {late} late or later, more than {most}: this end was held up")
    })
}

/// One direction of all streams: so many packets were meant to be sent, and were, of which that was heard.
fn direction(
    timetable: Timetable,
    (intended, sent): (u64, u64),
    delay: Nanos,
    report: &VoiceReport,
) -> VoiceDirection {
    let mut packets = VoicePackets { intended, sent, stray: report.foreign, ..VoicePackets::default() };
    let (mut jitter, mut jitter_max) = (LatencyHistogram::new(), LatencyHistogram::new());
    let (mut mean, mut worst) = (0.0, f64::INFINITY);
    for (number, heard) in report.heard.iter().enumerate() {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut packets.received, heard.received);
        add(&mut packets.late, heard.late);
        add(&mut packets.reordered, heard.reordered);
        add(&mut packets.duplicates, heard.again);
        add(&mut packets.stray, heard.stray);
        add(&mut packets.damaged, heard.damaged);
        jitter.record(Nanos(heard.jitter));
        jitter_max.record(Nanos(heard.jitter_max));
        let rating = rating(heard, timetable.of_stream(number, intended), delay);
        mean += rating / timetable.streams as f64;
        worst = f64::min(worst, rating);
    }
    packets.no_room = report.no_room.min(packets.lost());
    let rating = VoiceRating { delay, mean, worst, mos: mos(mean), mos_worst: mos(worst) };
    VoiceDirection { packets, jitter, jitter_max, rating, intervals: report.intervals.clone() }
}

/// The rating factor of a stream of so many packets.
fn rating(heard: &VoiceHeard, intended: u64, delay: Nanos) -> f64 {
    let unheard = intended.saturating_sub(heard.received).saturating_add(heard.late).min(intended);
    // How losses follow each other isn't told by counts: they are taken for random.
    let voice = Voice { delay_ms: delay.as_secs_f64() * 1e3, unheard: share(unheard, intended), burst: 1.0 };
    voice.rating()
}

#[cfg(test)]
mod tests {
    use super::super::super::meter::Timeline;
    use super::*;
    use crate::network::VoiceLaw;

    fn test() -> VoiceTest {
        VoiceTest {
            streams: 2,
            packet: Nanos::from_millis(20),
            law: VoiceLaw::A,
            jitter_buffer: Nanos::from_millis(60),
            bundled: false,
        }
    }

    fn timetable() -> Timetable {
        let time = Nanos::from_secs(20);
        let timeline = Timeline { start: Nanos::ZERO, warmup: Nanos::ZERO, duration: time, interval: time };
        Timetable::new(&test(), &timeline)
    }

    /// An end that sent all of 2,000 packets, and heard that many of each stream.
    fn end(received: [u64; 2], late: u64) -> VoiceReport {
        let of = |received| VoiceHeard {
            received,
            late,
            jitter: 1_000_000,
            jitter_max: 2_000_000,
            ..VoiceHeard::default()
        };
        let mut report = VoiceReport { heard: received.map(of).to_vec(), ..VoiceReport::default() };
        report.end.sent = 2_000;
        report.end.lateness.record(Nanos::from_millis(1));
        report
    }

    #[test]
    fn what_isnt_heard_lowers_the_score() {
        let mut client = end([1_000, 960], 3);
        client.no_room = 100;
        let found = VoiceResult::of(&test(), timetable(), true, client, end([1_000; 2], 0)).unwrap();
        assert_eq!((found.up.rating.delay, found.limited.as_ref()), (Nanos::from_millis(80), None));
        assert!((found.up.rating.mean - 93.2).abs() < 1e-9 && found.up.rating.mos > 4.4, "{:?}", found.up);
        let packets = found.down.packets;
        assert_eq!((packets.intended, packets.lost(), packets.late, packets.no_room), (2_000, 40, 6, 40));
        // 4.3 % of its packets: half of what loss can take away.
        assert!((found.down.rating.worst - 45.7).abs() < 1e-9, "{:?}", found.down);
        assert!(found.down.rating.mos_worst < 2.5 && found.mos() == found.down.rating.mos);
        assert!((found.unheard() - 46.0 / 4_000.0).abs() < 1e-12 && (found.loss() - 0.01).abs() < 1e-12);
        assert_eq!((found.jitter().0 / 10_000, found.up.jitter.len()), (100, 2));
    }

    #[test]
    fn what_was_not_sent_is_not_heard_either() {
        let mut server = end([1_000; 2], 0);
        server.end.sent = 1_000;
        let found = VoiceResult::of(&test(), timetable(), true, end([500; 2], 0), server.clone()).unwrap();
        assert_eq!((found.down.packets.sent, found.down.packets.lost(), found.limited), (1_000, 1_000, None));
        // A test that was called off meant to send what it did.
        let found = VoiceResult::of(&test(), timetable(), false, end([500; 2], 0), server).unwrap();
        assert_eq!((found.down.packets.lost(), found.down.rating.mos > 4.4), (0, true));
    }

    #[test]
    fn a_client_that_is_held_up_says_so() {
        let late = |millis: u64, sent: u64| {
            let mut client = end([1_000; 2], 0);
            client.end.lateness.record_n(millis * 1_000_000, 100);
            client.end.sent = sent;
            VoiceResult::of(&test(), timetable(), true, client, end([1_000; 2], 0)).unwrap().limited
        };
        assert_eq!(late(4, 2_000), None);
        assert!(late(6, 2_000).unwrap().contains("late"));
        assert!(late(1, 1_900).unwrap().starts_with("95.0 %"));
        let few = VoiceReport { heard: Vec::new(), ..end([0; 2], 0) };
        assert!(VoiceResult::of(&test(), timetable(), true, end([0; 2], 0), few).is_err());
    }
}
