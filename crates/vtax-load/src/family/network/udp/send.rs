//! The sending end.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use vtax_sys::datagrams::{BATCH_MAX, Outbox, segment};
use vtax_sys::sched::monotonic;
use vtax_units::Nanos;

use super::super::control::Token;
use super::super::meter::{Counter, Timeline, Usage};
use super::super::{Direction, NetworkError, UdpSender, UdpTest};
use super::datagram::{COUNTED, Head, LOOK, PIECES, of_piece, wait_for};
use super::schedule::Schedule;
use crate::limit::FLOOR_BESIDE;
use crate::{LatencyHistogram, timely};

/// Waiting for less takes longer than trying again.
const SLEEP_MIN: u64 = 4_000;

/// Sends datagrams as their times come. The generator's end is prepared for that as it is for voice.
pub(in super::super) fn send(
    socket: &UdpSocket,
    token: Token,
    test: &UdpTest,
    timeline: &Timeline,
    counter: &Counter,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<UdpSender, NetworkError> {
    let usage = Usage::begin();
    let is_generator = test.direction == Direction::Up;
    if is_generator && test.rate.is_some() {
        timely::prepare_thread();
    } else {
        timely::sleep_exactly();
    }
    let mut sending = Sending::new(socket, token, test, timeline);
    let result = sending.run(counter, cancelled);
    counter.end();
    result.map_err(NetworkError::lost("sending datagrams to it"))?;
    let mut sender = sending.sender;
    sender.cpu = usage.end();
    // N datagrams that are due take N of the gaps between them.
    let gap = sending.schedule.gap();
    sender.time = Nanos(sending.last.saturating_sub(sending.first) + gap.unwrap_or(0.0) as u64);
    if let Some(gap) = gap
        && !cancelled()
    {
        let intended = (timeline.duration.0 as f64 / gap).floor();
        let who = if is_generator { "this end" } else { "the far end" };
        sender.limited = limited(who, sender.sent as f64 / intended.max(1.0), gap, &sending.own_lateness);
    }
    Ok(sender)
}

/// Why a sender could not carry the rate: it sent only this share, or was held up and then sent many at once.
fn limited(who: &str, share: f64, gap: f64, own_lateness: &LatencyHistogram) -> Option<String> {
    if share < 0.99 {
        return Some(format!(
            "{:.1} % of the datagrams went out in time: {who} can't send at that rate",
            share * 100.0
        ));
    }
    // Jitter counts from the actual send. What is late by less than a gap goes out before the next is due, alone.
    let most = FLOOR_BESIDE.max(Nanos(gap as u64));
    let late = own_lateness.quantile(0.99);
    (late > most).then(|| {
        format!("one of a hundred datagrams left {late} late or later, more than {most}: {who} was held up")
    })
}

struct Sending<'a> {
    socket: &'a UdpSocket,
    timeline: &'a Timeline,
    token: Token,
    size: usize,
    schedule: Schedule,
    outbox: Outbox,
    bytes: Vec<u8>,
    /// Datagrams of one piece: several where the kernel cuts it.
    of_piece: usize,
    /// Where the pieces of one call end.
    ends: Vec<usize>,
    /// When datagrams of the counted time were first due and last went out.
    first: u64,
    last: u64,
    /// When it was last waited until the socket had room: what was due before was held up by the way out.
    room_since: u64,
    /// Actual minus intended time of sending as far as this end is late itself, where there is a rate.
    own_lateness: LatencyHistogram,
    sender: UdpSender,
}

impl<'a> Sending<'a> {
    fn new(socket: &'a UdpSocket, token: Token, test: &UdpTest, timeline: &'a Timeline) -> Self {
        let size = test.size as usize;
        let of_piece = of_piece(test);
        let gap = test.rate.map(|rate| f64::from(test.size) * 8e9 / rate.0 as f64);
        let mut sending = Self {
            socket,
            timeline,
            token,
            size,
            schedule: Schedule::new(timeline, gap),
            outbox: Outbox::new(),
            bytes: Vec::new(),
            of_piece: 1,
            ends: Vec::new(),
            first: 0,
            last: 0,
            room_since: 0,
            own_lateness: LatencyHistogram::new(),
            sender: UdpSender::default(),
        };
        let cut = of_piece > 1 && segment(socket.as_fd(), test.size as u16).is_ok();
        sending.cut(if cut { of_piece } else { 1 });
        sending
    }

    /// Prepares pieces of that many datagrams.
    fn cut(&mut self, of_piece: usize) {
        self.of_piece = of_piece;
        let pieces = if of_piece == 1 { BATCH_MAX } else { PIECES };
        self.bytes = vec![0xa5; pieces * of_piece * self.size];
        self.ends = (1..=pieces).map(|i| i * of_piece * self.size).collect();
    }

    fn run(&mut self, counter: &Counter, cancelled: &(dyn Fn() -> bool + Sync)) -> io::Result<()> {
        let stop = self.timeline.to().0;
        loop {
            let now = monotonic().0;
            if now >= stop || cancelled() {
                return Ok(());
            }
            self.schedule.catch_up(now);
            let due = self.due(now);
            if due == 0 {
                self.sleep(now, stop);
                continue;
            }
            let sent = self.burst(now, due)? as u64;
            self.schedule.sent(sent);
            self.sender.total += sent;
            counter.set(self.sender.total * self.size as u64, self.sender.total);
        }
    }

    /// How many datagrams are due, up to what one call takes.
    fn due(&self, now: u64) -> usize {
        let most = self.ends.len() * self.of_piece;
        self.schedule.due(now).map_or(most, |due| due.min(most as u64) as usize)
    }

    fn sleep(&self, now: u64, stop: u64) {
        let wait = self.schedule.time_of(0, now).min(stop).saturating_sub(now);
        if wait >= SLEEP_MIN {
            thread::sleep(Duration::from_nanos(wait));
        }
    }

    /// Sends up to `due` datagrams; returns how many the kernel took.
    fn burst(&mut self, now: u64, due: usize) -> io::Result<usize> {
        let counts = self.schedule.counts(now);
        for i in 0..due {
            // Those that count have numbers of their own, without holes: what is missing at the far end is lost.
            let number =
                if counts { COUNTED | (self.sender.sent + i as u64) } else { self.sender.total + i as u64 };
            let head = Head { token: self.token, number, sent: now };
            head.write(&mut self.bytes[i * self.size..]);
        }
        let ends = &self.ends[..due / self.of_piece];
        let sent = match self.outbox.send(self.socket.as_fd(), &self.bytes, ends, &[]) {
            Ok(pieces) => pieces * self.of_piece,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                wait_for(self.socket, PollFlags::OUT, LOOK)?;
                self.room_since = monotonic().0;
                return Ok(0);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(0),
            // A queue on the way was full: the datagram is gone, as the path's loss.
            Err(e) if Errno::from_io_error(&e) == Some(Errno::NOBUFS) => self.of_piece,
            // A datagram doesn't fit into a frame here, or the interface can't have it cut.
            Err(e) if self.of_piece > 1 && may_not_cut(&e) => {
                segment(self.socket.as_fd(), 0)?;
                self.cut(1);
                return Ok(0);
            }
            // What ICMP said of an earlier one: the path's MTU is smaller. From now on the kernel makes fragments.
            Err(e) if Errno::from_io_error(&e) == Some(Errno::MSGSIZE) => return Ok(0),
            Err(e) => return Err(e),
        };
        if counts {
            if self.sender.sent == 0 {
                // A thread that starts late sends what was due at once, and not at a higher rate.
                self.first = self.schedule.time_of(0, now);
            }
            self.last = now;
            if self.schedule.gap().is_some() {
                for i in 0..sent as u64 {
                    let due = self.schedule.time_of(i, now);
                    self.sender.lateness.record(Nanos(now.saturating_sub(due)));
                    self.own_lateness.record(Nanos(now.saturating_sub(due.max(self.room_since))));
                }
            }
            self.sender.sent += sent as u64;
        }
        Ok(sent)
    }
}

/// What udp(7) says of a piece that can't be cut.
fn may_not_cut(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::IO | Errno::MSGSIZE | Errno::OPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent over loopback by a sender that starts so late. Long enough for a machine that takes the CPU away for
    /// half a second.
    fn sent(rate: u64, size: u32, late: Nanos, warmup: Nanos) -> UdpSender {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(receiver.local_addr().unwrap()).unwrap();
        let rate = Some(vtax_units::BitRate(rate));
        let test = UdpTest { rate, size, direction: Direction::Up, buffer: None };
        let (start, duration) = (Nanos(monotonic().0 - late.0), Nanos::from_millis(600));
        let timeline = Timeline { start, warmup, duration, interval: duration };
        send(&socket, [1; 16], &test, &timeline, &Counter::default(), &|| false).unwrap()
    }

    #[test]
    fn a_warm_up_ends_whatever_the_gap() {
        // 29 gaps are the warm-up, but for what rounding takes away.
        let sender = sent(29_000_000, 1_000, Nanos::ZERO, Nanos::from_millis(8));
        assert!(sender.sent > 0 && sender.total >= sender.sent, "{sender:?}");
    }

    /// The kernel says the same of a datagram that is too large for any path.
    #[test]
    fn what_was_too_large_for_the_path_ends_no_test() {
        let sender = sent(8_000_000, 70_000, Nanos::ZERO, Nanos::ZERO);
        assert!(sender.sent == 0 && sender.limited.is_some(), "{sender:?}");
    }

    #[test]
    fn a_sender_that_starts_late_seems_no_faster() {
        let sender = sent(800_000, 100, Nanos::from_millis(40), Nanos::ZERO);
        // A datagram each millisecond, and those of the first forty at once.
        let rate = sender.sent as f64 / sender.time.as_secs_f64();
        assert!(sender.sent > 40 && sender.sent <= 600, "{sender:?}");
        assert!(rate < 1_010.0, "{rate} datagrams each second");
        assert!(sender.limited.is_some(), "a burst is no even rate: {sender:?}");
    }

    #[test]
    fn who_was_held_up_says_so_although_all_was_sent() {
        let after = |late: Nanos, gap: Nanos| {
            let mut lateness = LatencyHistogram::new();
            lateness.record_n(10_000, 980);
            lateness.record_n(late.0, 20);
            limited("this end", 1.0, gap.0 as f64, &lateness)
        };
        let millisecond = Nanos::from_millis(1);
        let why = after(Nanos::from_millis(30), millisecond).unwrap();
        assert!(why.ends_with("more than 1ms: this end was held up"), "{why}");
        assert_eq!(after(Nanos(900_000), millisecond), None, "it only moves the load a little");
        assert_eq!(after(Nanos::from_millis(90), Nanos::from_millis(100)), None, "before the next is due");
        let why = limited("the far end", 0.95, 1e6, &LatencyHistogram::new()).unwrap();
        assert_eq!(why, "95.0 % of the datagrams went out in time: the far end can't send at that rate");
    }
}
