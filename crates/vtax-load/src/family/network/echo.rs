//! Echo at a rate: probes go out when they are due, whatever has come back.

use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto};
use vtax_sys::datagrams::{BATCH_MAX, Inbox, Outbox};
use vtax_sys::sched::monotonic;
use vtax_units::Nanos;

use super::control::{self, Token};
use super::meter::{Counter, Timeline, cancelled_by, count, joined};
use super::udp::{Head, Numbers, Seen, greet};
use super::{Agreed, NetworkError, NetworkSpec, PingInterval, PingResult, PingTest, UDP_HEADER, Watch};
use crate::{Control, Segment, StartTimes, timely};

/// Probes whose answers are waited for at most; more than any rate and timeout allowed ask for
/// would only take memory.
const PENDING_MAX: usize = 1 << 20;
/// Below this a wait is spent polling: going to sleep and waking up takes as long.
const POLL_BELOW: u64 = 20_000;
const SLEEP_MAX: u64 = 20_000_000;
/// Bytes of an ICMP echo message before its payload (RFC 792, RFC 4443).
const ICMP_HEADER: usize = 8;

/// UDP echo through the server.
pub(super) fn udp(
    session: &Agreed<'_>,
    test: &PingTest,
    mut link: TcpStream,
) -> Result<PingResult, NetworkError> {
    let socket = greet(session, None, &mut link)?;
    let wire = Wire { socket: socket.into(), icmp: None };
    let pinger = Pinger::new(session.spec, test, &wire, session.token);
    let result = pinger.run(session.control, session.watch)?;
    control::ask_report(&mut link)?;
    Ok(result)
}

/// ICMP echo; only the peer's kernel takes part.
pub(super) fn icmp(
    spec: &NetworkSpec,
    test: &PingTest,
    control: &Control,
    watch: Watch<'_>,
) -> Result<PingResult, NetworkError> {
    let wire = Wire::icmp(spec)?;
    let token = control::new_token()?;
    Pinger::new(spec, test, &wire, token).run(control, watch)
}

/// What probes go out on.
struct Wire {
    socket: OwnedFd,
    icmp: Option<Icmp>,
}

/// How ICMP messages look on this socket.
#[derive(Debug, Clone, Copy)]
struct Icmp {
    request: u8,
    reply: u8,
    /// The socket is raw: the IP header comes along (IPv4), and the checksum is ours.
    raw: bool,
    v4: bool,
}

impl Wire {
    /// A datagram socket where the kernel lets this group ping (icmp(7), `ping_group_range`), else
    /// a raw one, which takes privileges.
    fn icmp(spec: &NetworkSpec) -> Result<Self, NetworkError> {
        let v4 = spec.target.is_ipv4();
        let (family, protocol) =
            if v4 { (AddressFamily::INET, ipproto::ICMP) } else { (AddressFamily::INET6, ipproto::ICMPV6) };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let open = |kind| rustix::net::socket_with(family, kind, flags, Some(protocol));
        let (socket, raw) = match open(SocketType::DGRAM) {
            Ok(socket) => (socket, false),
            Err(_) => match open(SocketType::RAW) {
                Ok(socket) => (socket, true),
                Err(e) => {
                    let operation = "open an ICMP socket; allow it with \
                                     `sysctl net.ipv4.ping_group_range='0 2147483647'`, or use UDP echo";
                    return Err(NetworkError::system(operation)(e.into()));
                }
            },
        };
        let mut target = spec.target;
        target.set_port(0);
        rustix::net::connect(&socket, &target)
            .map_err(|e| NetworkError::Connect { target, source: e.into() })?;
        let (request, reply) = if v4 { (8, 0) } else { (128, 129) };
        Ok(Self { socket, icmp: Some(Icmp { request, reply, raw, v4 }) })
    }

    fn header(&self) -> usize {
        if self.icmp.is_some() { ICMP_HEADER } else { 0 }
    }

    /// Makes `message`, whose payload is written, ready to go.
    fn seal(&self, message: &mut [u8], number: u64) {
        let Some(icmp) = self.icmp else { return };
        message[..ICMP_HEADER].copy_from_slice(&[icmp.request, 0, 0, 0, 0x76, 0x78, 0, 0]);
        message[6..8].copy_from_slice(&(number as u16).to_be_bytes());
        let sum = checksum(message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }

    /// The payload of an answer; `None` for anything else that a socket may get.
    fn payload<'a>(&self, message: &'a [u8]) -> Option<&'a [u8]> {
        let Some(icmp) = self.icmp else { return Some(message) };
        let skip = if icmp.raw && icmp.v4 { usize::from(message.first()? & 15) * 4 } else { 0 };
        let message = message.get(skip..)?;
        (*message.first()? == icmp.reply).then(|| message.get(ICMP_HEADER..))?
    }
}

/// The internet checksum (RFC 1071) of a message whose own checksum field is 0.
fn checksum(bytes: &[u8]) -> u16 {
    let (pairs, last) = bytes.as_chunks::<2>();
    let sum: u64 = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum();
    let mut sum = sum + last.first().map_or(0, |byte| u64::from(*byte) << 8);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A probe under way.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    number: u64,
    intended: u64,
    sent: u64,
    counts: bool,
}

struct Pinger<'a> {
    test: &'a PingTest,
    wire: &'a Wire,
    token: Token,
    timeline: Timeline,
    arrivals: std::iter::Peekable<StartTimes>,
    message: Vec<u8>,
    inbound: Vec<u8>,
    /// By number, modulo its length.
    pending: Vec<Pending>,
    /// The number of the next probe.
    next: u64,
    numbers: Numbers,
    result: PingResult,
    all_answered: u64,
    rtt_sum: u64,
}

impl<'a> Pinger<'a> {
    fn new(spec: &NetworkSpec, test: &'a PingTest, wire: &'a Wire, token: Token) -> Self {
        let timeline = Timeline::begin(spec);
        let rate =
            Segment { from: test.rate, to: test.rate, duration: Nanos(spec.warmup.0 + spec.duration.0) };
        let outstanding = (test.rate.0 * test.timeout.as_secs_f64() * 2.0) as usize + 64;
        let size = (test.size as usize).max(UDP_HEADER);
        let intervals = timeline.duration.0.div_ceil(timeline.interval.0) as usize;
        Self {
            test,
            wire,
            token,
            timeline,
            arrivals: StartTimes::new(test.arrivals, &[rate], spec.seed, 0, 1).peekable(),
            message: vec![0x70; wire.header() + size],
            // An IP header of an IPv4 socket may come with it.
            inbound: vec![0; wire.header() + size + 60],
            pending: vec![Pending::default(); outstanding.min(PENDING_MAX)],
            next: 1,
            numbers: Numbers::new(),
            result: PingResult {
                intended: 0,
                sent: 0,
                answered: 0,
                duplicates: 0,
                rtt: crate::LatencyHistogram::new(),
                latency: crate::LatencyHistogram::new(),
                lateness: crate::LatencyHistogram::new(),
                intervals: vec![PingInterval::default(); intervals],
            },
            all_answered: 0,
            rtt_sum: 0,
        }
    }

    fn run(mut self, control: &Control, watch: Watch<'_>) -> Result<PingResult, NetworkError> {
        let cancelled = cancelled_by(control);
        let counters = [Counter::default()];
        let timeline = self.timeline;
        thread::scope(|scope| {
            let counter = &counters[0];
            let cancelled = &cancelled;
            let pinging = move || {
                let result = self.ping(counter, cancelled);
                counter.end();
                result.map(|()| self.result).map_err(NetworkError::lost("probing it"))
            };
            let thread = scope.spawn(pinging);
            count(&timeline, &counters, &cancelled, Some(watch));
            joined(thread.join())
        })
    }

    fn ping(&mut self, counter: &Counter, cancelled: &(dyn Fn() -> bool + Sync)) -> io::Result<()> {
        timely::prepare_thread();
        let stop = self.timeline.to().0;
        let end = stop + self.test.timeout.0;
        loop {
            let now = monotonic().0;
            let due = self.arrivals.peek().map(|at| self.timeline.start.0 + at.0).filter(|due| *due < stop);
            match due {
                Some(due) if due <= now => {
                    self.arrivals.next();
                    self.send(due, now)?;
                }
                None if self.nothing_under_way() || now >= end => return Ok(()),
                _ => {}
            }
            if cancelled() {
                return Ok(());
            }
            self.receive(counter)?;
            let wake = due.unwrap_or(end).min(now + SLEEP_MAX);
            self.wait(wake)?;
        }
    }

    fn nothing_under_way(&self) -> bool {
        self.result.answered >= self.result.sent
    }

    fn send(&mut self, intended: u64, now: u64) -> io::Result<()> {
        let (number, header) = (self.next, self.wire.header());
        self.next += 1;
        Head { token: self.token, number, sent: now }.write(&mut self.message[header..]);
        self.wire.seal(&mut self.message, number);
        let counts = intended >= self.timeline.from().0;
        self.result.intended += u64::from(counts);
        let slot = (number % self.pending.len() as u64) as usize;
        let sent = monotonic().0;
        match rustix::net::send(&self.wire.socket, &self.message, SendFlags::NOSIGNAL) {
            Ok(_) => {}
            // No room now, or an ICMP message about an earlier one: this probe is lost.
            Err(e) if matches!(e, Errno::AGAIN | Errno::NOBUFS) || said_by_icmp(e) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        self.pending[slot] = Pending { number, intended, sent, counts };
        if counts {
            self.result.sent += 1;
            self.result.lateness.record(Nanos(sent.saturating_sub(intended)));
        }
        Ok(())
    }

    fn receive(&mut self, counter: &Counter) -> io::Result<()> {
        loop {
            match rustix::net::recv(&self.wire.socket, &mut self.inbound[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => self.answered(monotonic().0, length, counter),
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Err(e) if said_by_icmp(e) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn answered(&mut self, now: u64, length: usize, counter: &Counter) {
        let head = self.wire.payload(&self.inbound[..length.min(self.inbound.len())]).and_then(Head::read);
        let Some(head) = head.filter(|head| head.token == self.token) else { return };
        let pending = self.pending[(head.number % self.pending.len() as u64) as usize];
        let rtt = now.saturating_sub(pending.sent);
        // What its own number doesn't lead to is too old, or was never sent.
        if pending.number != head.number || rtt > self.test.timeout.0 {
            return;
        }
        if self.numbers.see(head.number) == Seen::Again {
            self.result.duplicates += u64::from(pending.counts);
            return;
        }
        (self.all_answered, self.rtt_sum) = (self.all_answered + 1, self.rtt_sum + rtt);
        counter.set(0, self.all_answered);
        counter.set_rtt_sum(Nanos(self.rtt_sum));
        if !pending.counts {
            return;
        }
        self.result.answered += 1;
        self.result.rtt.record(Nanos(rtt));
        self.result.latency.record(Nanos(now.saturating_sub(pending.intended)));
        let interval = self.timeline.interval_of(Nanos(pending.intended));
        if let Some(interval) = interval.and_then(|i| self.result.intervals.get_mut(i)) {
            interval.answered += 1;
            interval.rtt_sum.0 += rtt;
        }
    }

    /// Waits for an answer, but not beyond `wake`.
    fn wait(&self, wake: u64) -> io::Result<()> {
        let left = wake.saturating_sub(monotonic().0);
        if left < POLL_BELOW {
            return Ok(());
        }
        let sleep = left - POLL_BELOW / 2;
        let timeout =
            Timespec { tv_sec: (sleep / 1_000_000_000) as i64, tv_nsec: (sleep % 1_000_000_000) as i64 };
        match poll(&mut [PollFd::new(&self.wire.socket, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

/// Whether an error is what ICMP said of an earlier datagram: that its port or host isn't there, or that it was too large
/// for the path and later ones go in fragments (udp(7)).
fn said_by_icmp(error: Errno) -> bool {
    matches!(error, Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::MSGSIZE)
}

/// The server's part of UDP echo: sends back what carries the token, to the one who showed it.
pub(super) fn answer(socket: &UdpSocket, token: &Token, size: usize, over: &AtomicBool) -> io::Result<()> {
    let mut inbox = Inbox::new(BATCH_MAX, size);
    let mut outbox = Outbox::new();
    let mut bytes = Vec::with_capacity(BATCH_MAX * size);
    let mut ends = Vec::with_capacity(BATCH_MAX);
    while !over.load(Relaxed) {
        let got = match inbox.receive(socket.as_fd()) {
            Ok(got) => got,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let timeout =
                    Timespec { tv_sec: 0, tv_nsec: Duration::from_millis(20).subsec_nanos().into() };
                match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)) {
                    Ok(_) | Err(Errno::INTR) => continue,
                    Err(e) => return Err(e.into()),
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) if Errno::from_io_error(&e).is_some_and(said_by_icmp) => continue,
            Err(e) => return Err(e),
        };
        bytes.clear();
        ends.clear();
        for datagram in (0..got).filter_map(|i| inbox.get(i)) {
            if !datagram.truncated && Head::read(datagram.bytes).is_some_and(|head| head.token == *token) {
                bytes.extend_from_slice(datagram.bytes);
                ends.push(bytes.len());
            }
        }
        if !ends.is_empty() {
            // What finds no room is lost, as on any other link.
            let _ = outbox.send(socket.as_fd(), &bytes, &ends, &[]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_rfc() {
        // The example of RFC 1071 section 3: the sum is ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&[]), 0xffff);
        assert_eq!(checksum(&[0x12]), !0x1200);
        assert_eq!(checksum(&[0xff; 100_000]), 0);
    }

    #[test]
    fn what_icmp_said_of_an_earlier_probe_ends_no_test() {
        for error in [Errno::CONNREFUSED, Errno::HOSTUNREACH, Errno::NETUNREACH, Errno::MSGSIZE] {
            assert!(said_by_icmp(error), "{error:?}");
        }
        assert!(!said_by_icmp(Errno::BADF) && !said_by_icmp(Errno::NETDOWN));
    }
}
