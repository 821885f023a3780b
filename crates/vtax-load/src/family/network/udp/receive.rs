//! The receiving end.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::event::PollFlags;
use vtax_sys::datagrams::{BATCH_MAX, Inbox, coalesce, dropped, stamp_arrivals};
use vtax_sys::sched::monotonic;
use vtax_units::Nanos;

use super::super::control::Token;
use super::super::meter::{Counter, Timeline, Usage};
use super::super::{NetworkError, UDP_HEADER, UdpReceiver, UdpTest};
use super::datagram::{COUNTED, GREETING, Head, LOOK, PIECES, of_piece, wait_for};
use super::numbers::{Numbers, Seen};

/// How long the socket stays empty after the end.
const QUIET: Duration = Duration::from_millis(300);

/// Takes datagrams until the test is over and no more come.
pub(in super::super) fn receive(
    socket: &UdpSocket,
    token: Token,
    test: &UdpTest,
    timeline: &Timeline,
    counter: &Counter,
    over: &AtomicBool,
) -> Result<UdpReceiver, NetworkError> {
    let usage = Usage::begin();
    let mut receiving = Receiving::new(token, *timeline);
    // What has a rate has times of arrival, which several that come as one would share.
    let together = test.rate.is_none() && coalesce(socket.as_fd()).is_ok();
    let result = receiving.run(socket, together, counter, over);
    counter.end();
    result.map_err(NetworkError::lost("receiving datagrams from it"))?;
    // The kernel counts what it dropped, pieces as one; few are not full.
    let each = if together { of_piece(test) as u64 } else { 1 };
    let since = receiving.dropped_before.unwrap_or(0);
    let no_room = u64::from(dropped(socket.as_fd()).saturating_sub(since)) * each;
    let mut receiver = receiving.finish();
    receiver.no_room = no_room;
    receiver.cpu = usage.end();
    Ok(receiver)
}

struct Receiving {
    token: Token,
    timeline: Timeline,
    numbers: Numbers,
    jitter: Jitter,
    first: Option<u64>,
    last: u64,
    /// What the socket had dropped in the warm-up.
    dropped_before: Option<u32>,
    receiver: UdpReceiver,
    bytes: u64,
}

impl Receiving {
    fn new(token: Token, timeline: Timeline) -> Self {
        let intervals = timeline.duration.0.div_ceil(timeline.interval.0) as usize;
        Self {
            token,
            timeline,
            numbers: Numbers::new(),
            jitter: Jitter::default(),
            first: None,
            last: 0,
            dropped_before: None,
            receiver: UdpReceiver { intervals: vec![0; intervals], ..UdpReceiver::default() },
            bytes: 0,
        }
    }

    fn run(
        &mut self,
        socket: &UdpSocket,
        together: bool,
        counter: &Counter,
        over: &AtomicBool,
    ) -> io::Result<()> {
        stamp_arrivals(socket.as_fd())?;
        // Only the heads are of interest, and the kernel need not copy the rest, unless several come as one.
        let (most, room) = if together { (PIECES, usize::from(u16::MAX)) } else { (BATCH_MAX, UDP_HEADER) };
        let mut inbox = Inbox::new(most, room);
        let mut quiet_since = monotonic();
        loop {
            match inbox.receive(socket.as_fd()) {
                Ok(got) => {
                    let interval = self.timeline.interval_of(monotonic());
                    for i in 0..got {
                        self.take(&inbox, i, interval);
                    }
                    if self.first.is_some() {
                        self.dropped_before.get_or_insert_with(|| dropped(socket.as_fd()));
                    }
                    counter.set(self.bytes, self.receiver.total);
                    if got == most {
                        continue;
                    }
                    quiet_since = monotonic();
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                // The peer has closed its socket: what is under way still comes.
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(e) => return Err(e),
            }
            let quiet = monotonic().saturating_sub(quiet_since).0 >= QUIET.as_nanos() as u64;
            if over.load(Relaxed) && quiet {
                return Ok(());
            }
            wait_for(socket, PollFlags::IN, LOOK)?;
        }
    }

    /// Takes what came as one: a datagram, or several.
    fn take(&mut self, inbox: &Inbox, index: usize, interval: Option<usize>) {
        let Some(datagram) = inbox.get(index) else { return };
        let at = inbox.arrival(&datagram).map_or_else(|| monotonic().0, |time| time.0);
        match inbox.segment(&datagram) {
            None => self.take_one(datagram.bytes, datagram.length, at, interval),
            Some(size) => {
                for bytes in datagram.bytes.chunks(size) {
                    self.take_one(bytes, bytes.len(), at, interval);
                }
            }
        }
    }

    fn take_one(&mut self, bytes: &[u8], length: usize, at: u64, interval: Option<usize>) {
        let Some(head) = Head::read(bytes) else { return };
        if head.token != self.token || head.number == GREETING {
            return;
        }
        self.receiver.total += 1;
        let length = length as u64;
        self.bytes += length;
        if head.number & COUNTED == 0 {
            return;
        }
        match self.numbers.see(head.number & !COUNTED) {
            Seen::Again => {
                self.receiver.duplicates += 1;
                return;
            }
            Seen::Late => self.receiver.reordered += 1,
            Seen::InOrder => {}
        }
        self.jitter.see(head.sent, at);
        self.first.get_or_insert(at);
        self.last = self.last.max(at);
        self.receiver.received += 1;
        self.receiver.bytes += length;
        if let Some(count) = interval.and_then(|i| self.receiver.intervals.get_mut(i)) {
            *count += 1;
        }
    }

    fn finish(mut self) -> UdpReceiver {
        let span = self.last.saturating_sub(self.first.unwrap_or(self.last));
        // N datagrams have N - 1 gaps between them, and N of them made up the sending time.
        let n = self.receiver.received.max(2) as f64;
        self.receiver.time = Nanos((span as f64 * n / (n - 1.0)) as u64);
        self.receiver.jitter = Nanos(self.jitter.present as u64);
        self.receiver.jitter_mean = Nanos(self.jitter.mean() as u64);
        self.receiver
    }
}

/// Interarrival jitter as RTP has it (RFC 3550 section 6.4.1 and appendix A.8), in nanoseconds. The two
/// ends' clocks need not agree: only differences of each are used.
#[derive(Debug, Default)]
struct Jitter {
    last: Option<(u64, u64)>,
    present: f64,
    sum: f64,
    count: u64,
}

impl Jitter {
    fn see(&mut self, sent: u64, received: u64) {
        if let Some((last_sent, last_received)) = self.last {
            let between = |a: u64, b: u64| a.wrapping_sub(b) as i64 as f64;
            let difference = (between(received, last_received) - between(sent, last_sent)).abs();
            self.present += (difference - self.present) / 16.0;
            self.sum += self.present;
            self.count += 1;
        }
        self.last = Some((sent, received));
    }

    fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_that_of_the_rfc() {
        // Transit times of 10, 12, 11 and 11: differences of 2, 1 and 0.
        let mut jitter = Jitter::default();
        for (sent, received) in [(0, 10), (100, 112), (200, 211), (300, 311)] {
            jitter.see(sent, received);
        }
        let expected = [2.0 / 16.0, 2.0 / 16.0 + (1.0 - 2.0 / 16.0) / 16.0];
        let last = expected[1] * 15.0 / 16.0;
        assert!((jitter.present - last).abs() < 1e-12);
        assert!((jitter.mean() - (expected[0] + expected[1] + last) / 3.0).abs() < 1e-12);
    }
}
