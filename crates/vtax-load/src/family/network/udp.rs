//! UDP at a rate: what goes out, when, and what of it comes in.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use vtax_sys::datagrams::{BATCH_MAX, Inbox, Outbox, coalesce, dropped, segment, stamp_arrivals};
use vtax_sys::sched::monotonic;
use vtax_units::{Bytes, Nanos};

use super::control::{self, ToServer, Token};
use super::meter::{Counter, Course, Usage, cancelled_by, count, joined};
use super::{Agreed, Direction, NetError, PATIENCE, UDP_HEADER, UdpReceiver, UdpResult, UdpSender, UdpTest};

/// Set in the number of a datagram that counts; those of the warm-up are numbered without it.
const COUNTED: u64 = 1 << 63;
/// A number that greets: sent before the test, so that the server learns where its peer is.
const GREETING: u64 = u64::MAX;
/// Waiting for less takes longer than trying again.
const SLEEP_MIN: u64 = 4_000;
/// The most bytes and datagrams that the kernel cuts of one piece (`UDP_MAX_SEGMENTS` of `linux/udp.h`).
const PIECE_BYTES: usize = 65_507;
const PIECE_DATAGRAMS: usize = 64;
/// Pieces of one call: enough to pay for the call, and still at home in a CPU's cache.
const PIECES: usize = 4;
/// Socket buffers where the plan names none: bursts of a fast sender fit while this end is not running.
const BUFFER: Bytes = Bytes(4 << 20);
/// How long a receiver looks at an empty socket at once, and how long it stays empty after the end.
const LOOK: Duration = Duration::from_millis(20);
const QUIET: Duration = Duration::from_millis(300);

/// The head of each datagram: token, number, time of sending in nanoseconds; all big-endian.
pub(super) struct Head {
    pub(super) token: Token,
    pub(super) number: u64,
    pub(super) sent: u64,
}

impl Head {
    pub(super) fn write(&self, to: &mut [u8]) {
        to[..16].copy_from_slice(&self.token);
        to[16..24].copy_from_slice(&self.number.to_be_bytes());
        to[24..32].copy_from_slice(&self.sent.to_be_bytes());
    }

    pub(super) fn read(from: &[u8]) -> Option<Self> {
        let (token, rest) = from.split_first_chunk::<16>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (sent, _) = rest.split_first_chunk::<8>()?;
        Some(Self { token: *token, number: u64::from_be_bytes(*number), sent: u64::from_be_bytes(*sent) })
    }
}

/// The client's part.
pub(super) fn client(
    session: &Agreed<'_>,
    test: &UdpTest,
    mut link: TcpStream,
) -> Result<UdpResult, NetError> {
    let socket = greet(session, test.buffer, &mut link)?;
    let course = Course::begin(session.spec);
    let cancelled = cancelled_by(session.control);
    let counters = [Counter::default()];
    if test.direction == Direction::Up {
        let sender = thread::scope(|scope| {
            let sending = || send(&socket, session.token, test, &course, &counters[0], &cancelled);
            let thread = scope.spawn(sending);
            count(&course, &counters, &cancelled, Some(session.watch));
            joined(thread.join())
        })?;
        control::send(&mut link, &ToServer::Sent { datagrams: sender.sent })?;
        let receiver = control::ask_report(&mut link)?.udp_received;
        let receiver = receiver.ok_or_else(|| NetError::protocol("a report without datagrams".into()))?;
        return Ok(UdpResult { sender, receiver });
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiving = || receive(&socket, session.token, test, &course, &counters[0], &over);
        let thread = scope.spawn(receiving);
        count(&course, &counters, &cancelled, Some(session.watch));
        let report = control::ask_report(&mut link);
        over.store(true, Relaxed);
        let receiver = joined(thread.join())?;
        let sender = report?.udp_sent;
        let sender = sender.ok_or_else(|| NetError::protocol("a report without datagrams".into()))?;
        Ok(UdpResult { sender, receiver })
    })
}

/// Opens the client's socket and waits until the server has seen a datagram from it.
pub(super) fn greet(
    session: &Agreed<'_>,
    buffer: Option<Bytes>,
    link: &mut TcpStream,
) -> Result<UdpSocket, NetError> {
    let server = SocketAddr::new(session.spec.target.ip(), session.port);
    let socket = open(if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }, buffer)?;
    socket.connect(server).map_err(|source| NetError::Connect { target: server, source })?;
    let mut greeting = [0; UDP_HEADER];
    Head { token: session.token, number: GREETING, sent: 0 }.write(&mut greeting);
    link.set_read_timeout(Some(Duration::from_millis(100)))
        .map_err(NetError::system("wait for the server"))?;
    let rounds = PATIENCE.as_millis() / 100;
    for _ in 0..rounds {
        // Refused where the path drops it with an ICMP message: the server says so after its own wait.
        let _ = socket.send(&greeting);
        let mut byte = [0];
        match link.peek(&mut byte) {
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            _ => break,
        }
    }
    let patience = Duration::from_nanos(session.spec.warmup.0 + session.spec.duration.0) + PATIENCE;
    link.set_read_timeout(Some(patience)).map_err(NetError::system("wait for the server"))?;
    control::wait_for_go(link)?;
    Ok(socket)
}

/// A socket with room for bursts.
pub(super) fn open(at: &str, buffer: Option<Bytes>) -> Result<UdpSocket, NetError> {
    let socket = UdpSocket::bind(at).map_err(NetError::system("open a UDP socket"))?;
    let bytes = usize::try_from(buffer.unwrap_or(BUFFER).0).unwrap_or(usize::MAX);
    // What the network's owner may set regardless of the system's maximum, anybody else up to that.
    sockopt::set_socket_send_buffer_size(&socket, bytes)
        .and_then(|()| {
            sockopt::set_socket_recv_buffer_size_force(&socket, bytes)
                .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, bytes))
        })
        .map_err(|e| NetError::system("set a socket's buffers")(e.into()))?;
    Ok(socket)
}

/// Waits for the client's greeting and connects to where it came from, so that nothing is ever sent to
/// who doesn't know the token.
pub(super) fn await_greeting(socket: &UdpSocket, token: &Token) -> io::Result<()> {
    let deadline = monotonic().0 + PATIENCE.as_nanos() as u64;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut bytes = [0; 64];
    while monotonic().0 < deadline {
        match socket.recv_from(&mut bytes) {
            Ok((length, from)) => {
                let head = Head::read(&bytes[..length]);
                if head.is_some_and(|head| head.token == *token && head.number == GREETING) {
                    return socket.connect(from);
                }
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no datagram came: does the path carry UDP to this port?"))
}

/// Sends datagrams as their times come.
pub(super) fn send(
    socket: &UdpSocket,
    token: Token,
    test: &UdpTest,
    course: &Course,
    counter: &Counter,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<UdpSender, NetError> {
    let usage = Usage::begin();
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let mut sending = Sending::new(socket, token, test, course);
    let result = sending.run(counter, cancelled);
    counter.end();
    result.map_err(NetError::lost("sending datagrams to it"))?;
    let mut sender = sending.sender;
    sender.cpu = usage.end();
    // N datagrams that are due take N of the gaps between them.
    sender.time = Nanos(sending.last.saturating_sub(sending.first) + sending.gap.unwrap_or(0.0) as u64);
    if let Some(gap) = sending.gap
        && !cancelled()
    {
        let intended = (course.duration.0 as f64 / gap).floor();
        let share = sender.sent as f64 / intended.max(1.0);
        if share < 0.99 {
            sender.limited = Some(format!(
                "{:.1} % of the datagrams went out in time: this end can't send at that rate",
                share * 100.0
            ));
        }
    }
    Ok(sender)
}

/// Datagrams that may be sent as one: where there is a rate, each goes at its own time.
fn of_piece(test: &UdpTest) -> usize {
    match test.rate {
        None => (PIECE_BYTES / test.size as usize).clamp(1, PIECE_DATAGRAMS),
        Some(_) => 1,
    }
}

struct Sending<'a> {
    socket: &'a UdpSocket,
    course: &'a Course,
    token: Token,
    size: usize,
    /// Nanoseconds between two datagrams, where there is a rate.
    gap: Option<f64>,
    outbox: Outbox,
    bytes: Vec<u8>,
    /// Datagrams of one piece: several where the kernel cuts it.
    of_piece: usize,
    /// Where the pieces of one call end.
    ends: Vec<usize>,
    /// When datagrams of the counted time were first due and last went out.
    first: u64,
    last: u64,
    sender: UdpSender,
}

impl<'a> Sending<'a> {
    fn new(socket: &'a UdpSocket, token: Token, test: &UdpTest, course: &'a Course) -> Self {
        let size = test.size as usize;
        let of_piece = of_piece(test);
        let mut sending = Self {
            socket,
            course,
            token,
            size,
            gap: test.rate.map(|rate| f64::from(test.size) * 8e9 / rate.0 as f64),
            outbox: Outbox::new(),
            bytes: Vec::new(),
            of_piece: 1,
            ends: Vec::new(),
            first: 0,
            last: 0,
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
        let stop = self.course.to().0;
        loop {
            let now = monotonic().0;
            if now >= stop || cancelled() {
                return Ok(());
            }
            let due = self.due(now);
            if due == 0 {
                self.sleep(now, stop);
                continue;
            }
            let sent = self.burst(now, due)?;
            self.sender.total += sent as u64;
            counter.set(self.sender.total * self.size as u64, self.sender.total);
        }
    }

    /// How many datagrams are due, up to what one call takes.
    fn due(&self, now: u64) -> usize {
        let Some(gap) = self.gap else { return self.ends.len() * self.of_piece };
        let until = |time: u64| ((time - self.course.start.0) as f64 / gap) as u64 + 1;
        // A batch is of the warm-up or of the counted time, by when its datagrams were meant to go.
        let present = if self.counts(now) { now } else { now.min(self.course.from().0.saturating_sub(1)) };
        (until(present.max(self.course.start.0)).saturating_sub(self.sender.total)).min(BATCH_MAX as u64)
            as usize
    }

    /// When the datagram of that number is due.
    fn time_of(&self, number: u64, now: u64) -> u64 {
        self.gap.map_or(now, |gap| self.course.start.0 + (number as f64 * gap) as u64)
    }

    /// Whether the next datagram is meant for the counted time.
    fn counts(&self, now: u64) -> bool {
        self.time_of(self.sender.total, now) >= self.course.from().0
    }

    fn sleep(&self, now: u64, stop: u64) {
        let wait = self.time_of(self.sender.total, now).min(stop).saturating_sub(now);
        if wait >= SLEEP_MIN {
            thread::sleep(Duration::from_nanos(wait));
        }
    }

    /// Sends up to `due` datagrams; returns how many the kernel took.
    fn burst(&mut self, now: u64, due: usize) -> io::Result<usize> {
        let counts = self.counts(now);
        for i in 0..due {
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
            Err(e) => return Err(e),
        };
        if counts {
            if self.sender.sent == 0 {
                // A thread that starts late sends what was due at once, and not at a higher rate.
                self.first = self.time_of(self.sender.total, now);
            }
            self.last = now;
            if self.gap.is_some() {
                for i in 0..sent as u64 {
                    let late = now.saturating_sub(self.time_of(self.sender.total + i, now));
                    self.sender.lateness.record(Nanos(late));
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

fn wait_for(socket: &UdpSocket, what: PollFlags, at_most: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(socket, what)];
    let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
    match poll(&mut fds, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Takes datagrams until the test is over and no more come.
pub(super) fn receive(
    socket: &UdpSocket,
    token: Token,
    test: &UdpTest,
    course: &Course,
    counter: &Counter,
    over: &AtomicBool,
) -> Result<UdpReceiver, NetError> {
    let usage = Usage::begin();
    let mut receiving = Receiving::new(token, *course);
    // What has a rate has times of arrival, which several that come as one would share.
    let together = test.rate.is_none() && coalesce(socket.as_fd()).is_ok();
    let result = receiving.run(socket, together, counter, over);
    counter.end();
    result.map_err(NetError::lost("receiving datagrams from it"))?;
    let mut receiver = receiving.finish();
    // The kernel counts what it dropped, pieces as one; few are not full.
    let each = if together { of_piece(test) as u64 } else { 1 };
    receiver.no_room = u64::from(dropped(socket.as_fd())) * each;
    receiver.cpu = usage.end();
    Ok(receiver)
}

struct Receiving {
    token: Token,
    course: Course,
    numbers: Numbers,
    jitter: Jitter,
    first: Option<u64>,
    last: u64,
    receiver: UdpReceiver,
    bytes: u64,
}

impl Receiving {
    fn new(token: Token, course: Course) -> Self {
        let intervals = course.duration.0.div_ceil(course.interval.0) as usize;
        Self {
            token,
            course,
            numbers: Numbers::new(),
            jitter: Jitter::default(),
            first: None,
            last: 0,
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
                    let interval = self.course.interval_of(monotonic());
                    for i in 0..got {
                        self.take(&inbox, i, interval);
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

/// Which numbers were seen, as far back as a window reaches.
#[derive(Debug)]
pub(super) struct Numbers {
    seen: Box<[u64]>,
    /// One more than the highest.
    next: u64,
}

/// What a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    InOrder,
    Late,
    Again,
}

const WINDOW: u64 = 1 << 16;

impl Numbers {
    pub(super) fn new() -> Self {
        Self { seen: vec![0; (WINDOW / 64) as usize].into_boxed_slice(), next: 0 }
    }

    pub(super) fn see(&mut self, number: u64) -> Seen {
        if number >= self.next {
            if number - self.next >= WINDOW {
                self.seen.fill(0);
            } else {
                (self.next..=number).for_each(|n| self.clear(n));
            }
            self.next = number + 1;
            self.set(number);
            return Seen::InOrder;
        }
        // Beyond the window it can't be told from a duplicate; a late one is likelier.
        if self.next - number > WINDOW {
            return Seen::Late;
        }
        if self.get(number) {
            return Seen::Again;
        }
        self.set(number);
        Seen::Late
    }

    fn place(number: u64) -> (usize, u64) {
        let bit = number % WINDOW;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn get(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.seen[word] & bit != 0
    }

    fn set(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.seen[word] |= bit;
    }

    fn clear(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.seen[word] &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_told_apart_like_a_set_does(numbers in proptest::collection::vec(0_u64..5_000, 0..400)) {
            let mut seen = Numbers::new();
            let mut model = std::collections::BTreeSet::new();
            for number in numbers {
                let expected = if model.contains(&number) {
                    Seen::Again
                } else if model.last().is_some_and(|last| number < *last) {
                    Seen::Late
                } else {
                    Seen::InOrder
                };
                prop_assert_eq!(seen.see(number), expected);
                model.insert(number);
            }
        }

        #[test]
        fn any_numbers_do(numbers in proptest::collection::vec(0..u64::MAX, 0..50)) {
            let mut seen = Numbers::new();
            numbers.into_iter().for_each(|number| _ = seen.see(number));
        }

        #[test]
        fn heads_round_trip(token: [u8; 16], number: u64, sent: u64) {
            let mut bytes = [0; UDP_HEADER];
            Head { token, number, sent }.write(&mut bytes);
            let head = Head::read(&bytes).unwrap();
            prop_assert_eq!((head.token, head.number, head.sent), (token, number, sent));
            prop_assert!(Head::read(&bytes[..31]).is_none());
        }
    }

    #[test]
    fn a_sender_that_starts_late_seems_no_faster() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(receiver.local_addr().unwrap()).unwrap();
        let rate = Some(vtax_units::BitRate(800_000));
        let test = UdpTest { rate, size: 100, direction: Direction::Up, buffer: None };
        // Long enough for a machine that takes the CPU away for half a second.
        let [late, duration] = [Nanos::from_millis(40), Nanos::from_millis(600)];
        let start = Nanos(monotonic().0 - late.0);
        let course = Course { start, warmup: Nanos::ZERO, duration, interval: duration };
        let sender = send(&socket, [1; 16], &test, &course, &Counter::default(), &|| false).unwrap();
        // A datagram each millisecond, and those of the first forty at once.
        let rate = sender.sent as f64 / sender.time.as_secs_f64();
        assert!(sender.sent > 40 && sender.sent <= 600, "{sender:?}");
        assert!(rate < 1_010.0, "{rate} datagrams each second");
    }

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
