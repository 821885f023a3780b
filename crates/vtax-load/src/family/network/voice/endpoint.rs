//! One end of the streams: it sends its own when they are due, and hears the other's.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::ops::Range;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use vtax_sys::datagrams::{BATCH_MAX, Inbox, Outbox, coalesce, dropped, segment, stamp_arrivals};
use vtax_sys::sched::{monotonic, realtime};
use vtax_units::Nanos;
use vtax_wire::rtp::{CLOCK, Came, HEADER_BYTES, Header, Packet, Receiver};

use super::super::control::Token;
use super::super::meter::{Counter, Timeline, Usage};
use super::super::udp::{Head, LOOK, wait_for};
use super::super::{UDP_HEADER, VoiceTest};
use super::result::{VoiceHeard, VoiceReport};
use super::sound::{Names, SOUND_BYTES_MAX, Sound, first_of};
use super::timetable::Timetable;
use crate::timely;

/// Room for a packet.
const ROOM: usize = 512;
/// Bundles that are taken from the kernel at once, each with room for the longest there is.
const BUNDLES: usize = 8;
const BUNDLE_ROOM: usize = 65_536;
/// The longest packet fits it, and none is taken for a question about the round trip.
const _: () = assert!(HEADER_BYTES + SOUND_BYTES_MAX < ROOM && UDP_HEADER < HEADER_BYTES + 80);
/// From one question about the round trip to the next.
const ASKS: u64 = 100_000_000;
/// Longest sleep, so that an end is seen.
const SLEEP_MAX: u64 = 20_000_000;
/// Between two looks at what comes when all is sent.
const LISTENS: u64 = 2_000_000;
/// Going to sleep for less takes longer than looking again.
const SLEEP_MIN: u64 = 4_000;
/// Who hears nothing for so long after the end hears nothing more.
const QUIET: u64 = 2_000_000_000;
/// What couldn't be sent so long after the end isn't sent any more.
const GRACE: u64 = 2_000_000_000;
/// So long after the end, or after being called off, nobody listens any more.
const DEAF: u64 = 5_000_000_000;
/// Batches taken from the socket before packets are sent again.
const BATCHES_MAX: u32 = 16;
/// Attempts at sending a batch.
const ATTEMPTS_MAX: usize = 4 * BATCH_MAX;

/// Which of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// A stream of each direction.
struct Stream {
    /// Number and tick of the first packet that is sent, and of the first that may come.
    own: (u16, u32),
    other: (u16, u32),
    receiver: Receiver,
    damaged: u64,
}

/// One end of all streams of a test.
pub(super) struct Endpoint<'a> {
    socket: &'a UdpSocket,
    token: Token,
    timeline: Timeline,
    timetable: Timetable,
    side: Side,
    /// Packets that leave at the same time are one for the kernel.
    bundled: bool,
    sound: Sound,
    /// Bytes of sound in a packet, which are as many ticks.
    bytes: usize,
    own: Names,
    others: Names,
    streams: Vec<Stream>,
    /// Packets that wait to be sent, and where each that may wait ends.
    batch: Vec<u8>,
    ends: Vec<usize>,
    outbox: Outbox,
    /// When the next question about the round trip is due; the client's only.
    asks: u64,
    /// Packets that count and came, each once.
    heard: u64,
    /// What the socket had dropped in the warm-up.
    dropped_before: Option<u32>,
    report: VoiceReport,
}

impl<'a> Endpoint<'a> {
    /// An end on a socket that is connected to the other.
    pub(super) fn new(
        socket: &'a UdpSocket,
        token: Token,
        test: &VoiceTest,
        timeline: Timeline,
        side: Side,
    ) -> Self {
        let timetable = Timetable::new(test, &timeline);
        let bytes = (test.packet.0 * u64::from(CLOCK) / 1_000_000_000) as usize;
        let (up, down) = (Names::new(&token, true), Names::new(&token, false));
        let (own, others) = if side == Side::Client { (up, down) } else { (down, up) };
        let stream = |number| Stream {
            own: first_of(own.ssrc(number)),
            other: first_of(others.ssrc(number)),
            receiver: Receiver::new(CLOCK, test.jitter_buffer.0),
            damaged: 0,
        };
        let size = HEADER_BYTES + bytes;
        let intervals = timeline.duration.0.div_ceil(timeline.interval.0.max(1)) as usize;
        Self {
            socket,
            token,
            timeline,
            timetable,
            side,
            bundled: test.bundled && segment(socket.as_fd(), size as u16).is_ok(),
            sound: Sound::new(test.law.law()),
            bytes,
            own,
            others,
            streams: (0..timetable.streams).map(stream).collect(),
            batch: Vec::with_capacity(BATCH_MAX * size),
            ends: (1..=BATCH_MAX).map(|count| count * size).collect(),
            outbox: Outbox::new(),
            asks: timeline.from().0,
            heard: 0,
            dropped_before: None,
            report: VoiceReport { intervals: vec![0; intervals], ..VoiceReport::default() },
        }
    }

    /// Sends and hears to the end. `stopped`: nothing more is to be sent. `over`: the other end has sent all.
    pub(super) fn run(
        mut self,
        counter: &Counter,
        stopped: &dyn Fn() -> bool,
        over: &dyn Fn() -> bool,
    ) -> io::Result<VoiceReport> {
        let usage = Usage::begin();
        timely::prepare_thread();
        let result = self.talk(counter, stopped, over);
        counter.end();
        result?;
        let mut report = self.finish();
        report.end.cpu = usage.end();
        Ok(report)
    }

    fn talk(
        &mut self,
        counter: &Counter,
        stopped: &dyn Fn() -> bool,
        over: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        stamp_arrivals(self.socket.as_fd())?;
        // What the kernel can't join comes one by one.
        let together = self.bundled && coalesce(self.socket.as_fd()).is_ok();
        let (most, room) = if together { (BUNDLES, BUNDLE_ROOM) } else { (BATCH_MAX, ROOM) };
        let mut inbox = Inbox::new(most, room);
        let size = (HEADER_BYTES + self.bytes) as u64;
        let (start, groups) = (self.timeline.start.0, self.timetable.all_groups());
        let mut end = self.timeline.to().0;
        let (mut next, mut quiet_since) = (0, start);
        loop {
            let now = monotonic().0;
            if stopped() {
                (next, end) = (groups, end.min(now));
            } else if now > end + GRACE {
                next = groups;
            }
            let mut due = now + LISTENS;
            if next < groups {
                let (round, streams, after) = self.timetable.group(next);
                due = start + after;
                if due <= now {
                    self.send(round, streams, due);
                    next += 1;
                }
            }
            self.ask();
            let heard = self.heard;
            self.receive(&mut inbox, most)?;
            counter.set(self.report.end.total_received * size, self.report.end.total_received);
            let now = monotonic().0;
            if self.heard > heard {
                quiet_since = now;
            }
            if next >= groups && over() {
                let quiet = now.saturating_sub(quiet_since.max(end)) >= QUIET;
                if quiet || self.heard >= self.timetable.counted() || now >= end + DEAF {
                    return Ok(());
                }
            }
            rest(now, due);
        }
    }

    /// Sends a packet of each of these streams.
    fn send(&mut self, round: u64, streams: Range<usize>, due: u64) {
        let counts = round >= self.timetable.warm;
        for number in streams {
            let (sequence, tick) = self.streams[number].own;
            let timestamp = tick.wrapping_add((round as u32).wrapping_mul(self.bytes as u32));
            let header = Header {
                marker: round == 0,
                payload_type: self.sound.payload_type,
                sequence: sequence.wrapping_add(round as u16),
                timestamp,
                ssrc: self.own.ssrc(number),
            };
            header.write(&mut self.batch);
            self.batch.extend_from_slice(self.sound.at(timestamp, self.bytes));
            if self.batch.len() >= BATCH_MAX * (HEADER_BYTES + self.bytes) {
                self.flush(due, counts);
            }
        }
        self.flush(due, counts);
    }

    /// Hands what waits to the kernel.
    fn flush(&mut self, due: u64, counts: bool) {
        let size = HEADER_BYTES + self.bytes;
        let count = self.batch.len() / size;
        let late = monotonic().0.saturating_sub(due);
        let (mut sent, mut refused) = (0, 0);
        for _ in 0..ATTEMPTS_MAX {
            if sent >= count {
                break;
            }
            let rest = &self.batch[sent * size..];
            let left = count - sent;
            let ends = if self.bundled { &self.ends[left - 1..left] } else { &self.ends[..left] };
            match self.outbox.send(self.socket.as_fd(), rest, ends, &[]) {
                Ok(_) if self.bundled => sent = count,
                Ok(more) => sent += more,
                // The way out can't cut bundles: it is told at the first one.
                Err(e) if self.bundled && may_not_cut(&e) => {
                    self.bundled = segment(self.socket.as_fd(), 0).is_err();
                }
                Err(e) => match e.kind() {
                    // Of an earlier one: its receiver was not there.
                    ErrorKind::Interrupted | ErrorKind::ConnectionRefused => {}
                    ErrorKind::WouldBlock
                        if wait_for(self.socket, PollFlags::OUT, LOOK).is_ok_and(|is| is) => {}
                    _ => (sent, refused) = (sent + 1, refused + 1),
                },
            }
        }
        refused += count - sent.min(count);
        self.batch.clear();
        let end = &mut self.report.end;
        end.total_sent += count as u64;
        if counts {
            end.sent += count as u64;
            end.refused += refused as u64;
            end.lateness.record_n(late, count as u64);
        }
    }

    /// Asks for the round trip, where that is due.
    fn ask(&mut self) {
        // What was sent since the time was last told is no part of the round trip.
        let now = monotonic().0;
        if self.side == Side::Client && now >= self.asks && now < self.timeline.to().0 {
            self.asks += (now - self.asks) / ASKS * ASKS + ASKS;
            self.say(Head { token: self.token, number: 0, sent: now });
        }
    }

    /// Sends a question about the round trip, or its answer.
    fn say(&self, head: Head) {
        let mut bytes = [0; UDP_HEADER];
        head.write(&mut bytes);
        // What is lost is asked again.
        let _ = self.socket.send(&bytes);
    }

    fn receive(&mut self, inbox: &mut Inbox, most: usize) -> io::Result<()> {
        use ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, WouldBlock};
        for _ in 0..BATCHES_MAX {
            let got = match inbox.receive(self.socket.as_fd()) {
                Ok(got) => got,
                Err(e) if e.kind() == WouldBlock => return Ok(()),
                // What ICMP says of a packet that was sent; it is counted at the other end.
                Err(e)
                    if matches!(
                        e.kind(),
                        Interrupted | ConnectionRefused | HostUnreachable | NetworkUnreachable
                    ) =>
                {
                    continue;
                }
                Err(e) => return Err(e),
            };
            let now = monotonic().0;
            let ahead = realtime().0.saturating_sub(now);
            let interval = self.timeline.interval_of(Nanos(now));
            for datagram in (0..got).filter_map(|at| inbox.get(at)) {
                let stamp = inbox.arrival(&datagram);
                let arrived = stamp.map_or(now, |stamp| stamp.0.saturating_sub(ahead).min(now));
                let size = inbox.segment(&datagram).unwrap_or(datagram.bytes.len()).max(1);
                for bytes in datagram.bytes.chunks(size) {
                    self.take(bytes, arrived, interval);
                }
            }
            if self.heard > 0 && self.dropped_before.is_none() {
                self.dropped_before = Some(dropped(self.socket.as_fd()));
            }
            if got < most {
                return Ok(());
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8], arrived: u64, interval: Option<usize>) {
        if bytes.len() == UDP_HEADER {
            return self.asked_or_told(bytes, arrived);
        }
        match self.hear(bytes, arrived) {
            None => self.report.foreign += 1,
            Some(Came::Again | Came::Stray) => {}
            Some(_) => {
                self.heard += 1;
                if let Some(count) = interval.and_then(|i| self.report.intervals.get_mut(i)) {
                    *count += 1;
                }
            }
        }
    }

    fn asked_or_told(&mut self, bytes: &[u8], arrived: u64) {
        let head = Head::read(bytes).filter(|head| head.token == self.token && head.number != u64::MAX);
        let Some(head) = head else { return };
        match self.side {
            // How long it was here is no part of the round trip.
            Side::Server => {
                let held = monotonic().0.saturating_sub(arrived);
                self.say(Head { number: held, ..head });
            }
            Side::Client => {
                let whole = arrived.saturating_sub(head.sent);
                self.report.round_trip.record(Nanos(whole.saturating_sub(head.number)));
            }
        }
    }

    /// Hears a packet: how it came, [`Came::Stray`] for one of the warm-up; `None` where it is none of this test.
    fn hear(&mut self, bytes: &[u8], arrived: u64) -> Option<Came> {
        let packet = Packet::parse(bytes).ok()?;
        let header = packet.header;
        let stream = self.streams.get_mut(self.others.stream(header.ssrc)?)?;
        let (sequence, tick) = stream.other;
        let ticks = header.timestamp.wrapping_sub(tick) as usize;
        let round = (ticks / self.bytes) as u64;
        let own = header.payload_type == self.sound.payload_type
            && ticks.is_multiple_of(self.bytes)
            && round < self.timetable.rounds
            && header.sequence == sequence.wrapping_add(round as u16);
        if !own {
            return None;
        }
        self.report.end.total_received += 1;
        if round < self.timetable.warm {
            return Some(Came::Stray);
        }
        let came = stream.receiver.receive(header.sequence, header.timestamp, arrived);
        if !matches!(came, Came::Again | Came::Stray) {
            stream.damaged += u64::from(packet.payload != self.sound.at(header.timestamp, self.bytes));
        }
        Some(came)
    }

    fn finish(self) -> VoiceReport {
        let before = self.dropped_before.unwrap_or(0);
        // The kernel counts bundles as one.
        let each = if self.bundled { self.timetable.largest_group().min(BATCH_MAX) as u64 } else { 1 };
        let no_room = u64::from(dropped(self.socket.as_fd()).saturating_sub(before)) * each;
        let heard =
            self.streams.iter().map(|stream| VoiceHeard::of(&stream.receiver, stream.damaged)).collect();
        VoiceReport { heard, no_room, ..self.report }
    }
}

/// What udp(7) says of a bundle that can't be cut.
fn may_not_cut(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::IO | Errno::MSGSIZE | Errno::OPNOTSUPP))
}

/// Sleeps until something is due.
fn rest(now: u64, due: u64) {
    let left = due.saturating_sub(now).min(SLEEP_MAX);
    if left >= SLEEP_MIN {
        thread::sleep(Duration::from_nanos(left));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::network::VoiceLaw;

    fn server(socket: &UdpSocket) -> Endpoint<'_> {
        let test = VoiceTest {
            streams: 3,
            packet: Nanos::from_millis(20),
            law: VoiceLaw::Mu,
            jitter_buffer: Nanos::from_millis(60),
            bundled: false,
        };
        let (warmup, duration) = (Nanos::from_millis(40), Nanos::from_millis(200));
        let timeline = Timeline { start: monotonic(), warmup, duration, interval: duration };
        Endpoint::new(socket, [7; 16], &test, timeline, Side::Server)
    }

    /// The packet of that stream in that round, as the client sends it.
    fn packet(end: &Endpoint<'_>, stream: usize, round: u32) -> Vec<u8> {
        let (sequence, tick) = end.streams[stream].other;
        let timestamp = tick + 160 * round;
        let header = Header {
            marker: false,
            payload_type: 0,
            sequence: sequence.wrapping_add(round as u16),
            timestamp,
            ssrc: end.others.ssrc(stream),
        };
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        bytes.extend_from_slice(end.sound.at(timestamp, 160));
        bytes
    }

    #[test]
    fn packets_of_the_warm_up_and_of_others_are_not_heard() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut end = server(&socket);
        let at = |round: u32| 1_000_000_000 + 20_000_000 * u64::from(round);
        for (stream, round, heard) in [
            (0, 0, Some(Came::Stray)),
            (0, 2, Some(Came::InOrder)),
            (0, 2, Some(Came::Again)),
            (2, 11, Some(Came::InOrder)),
            (2, 12, None),
        ] {
            let bytes = packet(&end, stream, round);
            assert_eq!(end.hear(&bytes, at(round)), heard, "{stream} {round}");
        }
        let mut damaged = packet(&end, 1, 5);
        damaged[100] ^= 1;
        assert_eq!(end.hear(&damaged, at(5)), Some(Came::InOrder));
        assert_eq!(end.streams.iter().map(|stream| stream.damaged).collect::<Vec<_>>(), [0, 1, 0]);
        assert_eq!(end.report.end.total_received, 5);
    }

    #[test]
    fn a_question_has_the_time_at_which_it_is_asked() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        far.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(far.local_addr().unwrap()).unwrap();
        let mut end = Endpoint { side: Side::Client, asks: 0, ..server(&socket) };
        end.timeline.duration = Nanos::from_secs(3_600);
        let before = monotonic().0;
        end.ask();
        let mut bytes = [0; UDP_HEADER];
        assert_eq!(far.recv(&mut bytes).unwrap(), UDP_HEADER);
        assert!(Head::read(&bytes).unwrap().sent >= before, "sending packets would be in the round trip");
    }

    proptest! {
        #[test]
        fn no_more_is_heard_than_was_meant_to_be_sent(
            packets in proptest::collection::vec((0_usize..3, 0_u32..14, 0_usize..180, any::<u8>(), any::<u32>()), 0..200),
            others in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20),
        ) {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut end = server(&socket);
            let mut taken = 0;
            for (stream, round, place, flip, at) in packets {
                let mut bytes = packet(&end, stream, round);
                if let Some(byte) = bytes.get_mut(place) {
                    *byte ^= flip;
                }
                taken += u64::from(matches!(end.hear(&bytes, u64::from(at)), Some(Came::InOrder | Came::Reordered | Came::Late)));
            }
            for bytes in &others {
                end.hear(bytes, 0);
            }
            prop_assert!(taken <= end.timetable.counted());
            let received: u64 = end.streams.iter().map(|stream| stream.receiver.received()).sum();
            prop_assert!(received <= end.timetable.counted());
        }
    }
}
