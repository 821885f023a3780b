//! Bulk TCP: one thread per connection, blocking, so that all the CPU goes into the transfer.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, ipproto, sockopt};
use vtax_sys::sched::monotonic;
use vtax_sys::tcp::{TcpInfo, set_max_segment, tcp_info};
use vtax_units::Nanos;

use super::control::{self, FromServer, ToServer};
use super::meter::{Counter, Timeline, Usage, cancelled_by, count, joined};
use super::source::Source;
use super::{
    Agreed, ConnectionFacts, DISAGREEMENT, Direction, NetworkCpu, NetworkError, PATIENCE, SocketOptions,
    TcpFlow, TcpResult, TcpSide, TcpTest, Watch,
};

/// How often a thread that waits for its peer looks whether the test is over.
const LOOK: Duration = Duration::from_millis(100);
/// How long data under way may take to arrive after the end.
const DRAIN: Duration = Duration::from_secs(10);
/// How long a far end may say nothing after the test was called off, until this end waits for it no more.
const SILENCE: Nanos = Nanos::from_secs(2);
/// Connections that may wait to be taken: as many as a test may have.
const BACKLOG: i32 = 512;
/// What one call may drop or copy.
const RECEIVE_BYTES: usize = 512 * 1024;

/// Which end of its connections a side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Sends,
    Receives,
}

/// The client's part of a bulk test.
pub(super) fn client(
    session: &Agreed<'_>,
    test: &TcpTest,
    mut link: TcpStream,
) -> Result<TcpResult, NetworkError> {
    let ups = if test.direction == Direction::Down { 0 } else { test.streams };
    let downs = if test.direction == Direction::Up { 0 } else { test.streams };
    let up = fresh(connect_all(session, &test.socket, ups, true)?);
    let down = fresh(connect_all(session, &test.socket, downs, false)?);
    control::wait_for_go(&mut link)?;
    let timeline = Timeline::begin(session.spec);
    let cancelled = cancelled_by(session.control);
    // One end's figures are enough to watch: what comes in, where anything does.
    let watch_up = down.is_empty().then_some(session.watch);
    let transfer = || {
        both(
            || side(Role::Sends, up, test, &timeline, &cancelled, watch_up),
            || side(Role::Receives, down, test, &timeline, &cancelled, Some(session.watch)),
        )
    };
    let ended = if downs > 0 { or_call_off(&link, &cancelled, transfer)? } else { transfer() };
    let (sent, received) = match ended {
        (Ok(sent), Ok(received)) => (sent, received),
        (Err(error), _) | (_, Err(error)) => return Err(explain(error, &mut link)),
    };
    if session.control.is_cancelled() && sent.total_bytes + received.total_bytes == 0 {
        return Err(NetworkError::Cancelled);
    }
    let report = control::ask_report(&mut link)?;
    let flow = |sender: Option<TcpSide>, receiver: Option<TcpSide>| {
        let (sender, receiver) = (sender?, receiver?);
        let disagreement = disagreement(&sender, &receiver);
        Some(TcpFlow { sender, receiver, disagreement })
    };
    let result = TcpResult {
        up: flow((ups > 0).then_some(sent), report.received),
        down: flow(report.sent, (downs > 0).then_some(received)),
    };
    if result.up.is_some() == (ups > 0) && result.down.is_some() == (downs > 0) {
        Ok(result)
    } else {
        Err(NetworkError::protocol("a report without the test's figures".to_owned()))
    }
}

/// Does the work, and tells the server where it is called off meanwhile: what that sends it ends itself.
fn or_call_off<T>(
    link: &TcpStream,
    cancelled: &(dyn Fn() -> bool + Sync),
    work: impl FnOnce() -> T,
) -> Result<T, NetworkError> {
    let mut link = link.try_clone().map_err(NetworkError::system("watch over a transfer"))?;
    let (over, waiting) = channel::<()>();
    Ok(thread::scope(|scope| {
        scope.spawn(move || {
            while waiting.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if cancelled() {
                    // A server that is gone is told of by its connections.
                    let _ = control::send(&mut link, &ToServer::Stop);
                    return;
                }
            }
        });
        let done = work();
        // Ends the thread that waits for it.
        drop(over);
        done
    }))
}

/// How long the server may take to notice that a transfer has come to nothing, after this end has.
const NOTICE: Duration = Duration::from_secs(3);

/// Nothing arrived: whether that is because of its size is told by the control connection, whose packets
/// are small. The server has found out too and says so.
fn explain(error: NetworkError, link: &mut TcpStream) -> NetworkError {
    let NetworkError::TooLarge { .. } = error else { return error };
    let heard = link
        .set_read_timeout(Some(NOTICE))
        .map_err(NetworkError::system("wait for the server"))
        .and_then(|()| control::receive::<FromServer>(link));
    match heard {
        Ok(_) => error,
        Err(_) => NetworkError::lost("transferring to or from it")(io::ErrorKind::TimedOut.into()),
    }
}

/// Runs two pieces of work at once.
pub(super) fn both<A: Send, B: Send>(
    first: impl FnOnce() -> Result<A, NetworkError> + Send,
    second: impl FnOnce() -> Result<B, NetworkError>,
) -> (Result<A, NetworkError>, Result<B, NetworkError>) {
    thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        (joined(first.join()), second)
    })
}

/// Opens the connections of one direction and tells the server what they are.
pub(super) fn connect_all(
    session: &Agreed<'_>,
    setup: &SocketOptions,
    streams: u32,
    up: bool,
) -> Result<Vec<TcpStream>, NetworkError> {
    (0..streams)
        .map(|index| {
            let mut stream = connect(session.target(), setup)?;
            control::send(&mut stream, &ToServer::Stream { token: session.token, index, up })?;
            Ok(stream)
        })
        .collect()
}

/// Connects with everything set that must be before the handshake.
fn connect(target: SocketAddr, setup: &SocketOptions) -> Result<TcpStream, NetworkError> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
        .map_err(|e| NetworkError::system("open a socket")(e.into()))?;
    let stream = TcpStream::from(socket);
    set_up(&stream, setup)?;
    if let Some(mss) = setup.mss {
        set_max_segment(stream.as_fd(), mss)
            .map_err(|e| NetworkError::system("set the segment size")(io::Error::other(e)))?;
    }
    // Bounds the handshake as well (socket(7)).
    stream.set_write_timeout(Some(PATIENCE)).map_err(NetworkError::system("bound a connection's time"))?;
    rustix::net::connect(&stream, &target).map_err(|e| NetworkError::Connect { target, source: e.into() })?;
    Ok(stream)
}

/// Listens at an address for connections that are set up as they come into being: a receive buffer shrunk
/// after the handshake would belie the window that was offered in it, and what was sent on its strength
/// would be dropped.
pub(super) fn listen(address: SocketAddr, setup: &SocketOptions) -> Result<TcpListener, NetworkError> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
        .map_err(|e| NetworkError::system("open a socket")(e.into()))?;
    let socket = TcpStream::from(socket);
    set_up(&socket, setup)?;
    let error = NetworkError::system("listen for the test's connections");
    rustix::net::bind(&socket, &address).map_err(|e| error(e.into()))?;
    rustix::net::listen(&socket, BACKLOG).map_err(|e| error(e.into()))?;
    Ok(TcpListener::from(OwnedFd::from(socket)))
}

/// Sets what either end can set.
pub(super) fn set_up(stream: &TcpStream, setup: &SocketOptions) -> Result<(), NetworkError> {
    let set = || -> rustix::io::Result<()> {
        if let Some(window) = setup.window {
            let bytes = usize::try_from(window.0).unwrap_or(usize::MAX);
            sockopt::set_socket_send_buffer_size(stream, bytes)?;
            sockopt::set_socket_recv_buffer_size(stream, bytes)?;
        }
        sockopt::set_tcp_nodelay(stream, setup.no_delay)
    };
    set().map_err(|e| NetworkError::system("set a socket's buffers")(e.into()))?;
    match &setup.congestion {
        Some(name) => sockopt::set_tcp_congestion(stream, name)
            .map_err(|e| NetworkError::system(congestion_refused(e))(e.into())),
        None => Ok(()),
    }
}

/// What was tried, and why the kernel may have refused it (kernel document `ip-sysctl`).
fn congestion_refused(error: Errno) -> &'static str {
    match error {
        Errno::PERM => {
            "set the congestion control (without root only those of net.ipv4.tcp_allowed_congestion_control)"
        }
        _ => "set the congestion control (is its kernel module loaded?)",
    }
}

/// A connection, and what its kernel had counted before anything was sent for the test.
pub(super) struct Fresh {
    stream: TcpStream,
    before: TcpInfo,
}

/// Notes the kernel's counts. To be called before the far end may send: on a busy machine much may have come by the time
/// this end's threads run.
pub(super) fn fresh(streams: Vec<TcpStream>) -> Vec<Fresh> {
    let note = |stream: TcpStream| {
        let before = tcp_info(stream.as_fd()).unwrap_or_default();
        Fresh { stream, before }
    };
    streams.into_iter().map(note).collect()
}

/// One end of one direction: all its connections, to the last byte.
pub(super) fn side(
    role: Role,
    streams: Vec<Fresh>,
    test: &TcpTest,
    timeline: &Timeline,
    cancelled: &(dyn Fn() -> bool + Sync),
    watch: Option<Watch<'_>>,
) -> Result<TcpSide, NetworkError> {
    if streams.is_empty() {
        return Ok(TcpSide::default());
    }
    let counters: Vec<Counter> = streams.iter().map(|_| Counter::default()).collect();
    let share = test.bytes.map(|bytes| bytes.0.div_ceil(streams.len() as u64));
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(streams.len());
        for (Fresh { stream, before }, counter) in streams.iter().zip(&counters) {
            let transfer = Transfer { stream, before, test, share, timeline, counter, cancelled };
            threads.push(scope.spawn(move || transfer.run(role)));
        }
        let counted = count(timeline, &counters, cancelled, watch);
        let mut side = TcpSide {
            counted_bytes: counted.bytes,
            counted_time: counted.time,
            intervals: counted.byte_intervals,
            ..TcpSide::default()
        };
        let mut last = timeline.start;
        for thread in threads {
            let end = joined(thread.join())?;
            side.total_bytes += end.bytes;
            side.cpu.add(end.cpu);
            side.connections.push(end.facts);
            last = last.max(end.at);
        }
        if test.bytes.is_some() {
            (side.counted_bytes, side.counted_time) = (side.total_bytes, last.saturating_sub(timeline.start));
        }
        Ok(side)
    })
}

/// One connection under way.
struct Transfer<'a> {
    stream: &'a TcpStream,
    before: &'a TcpInfo,
    test: &'a TcpTest,
    /// Bytes to send where not time but they end the transfer.
    share: Option<u64>,
    timeline: &'a Timeline,
    counter: &'a Counter,
    cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// One connection at its end.
struct End {
    bytes: u64,
    /// When the last byte was taken.
    at: Nanos,
    cpu: NetworkCpu,
    facts: ConnectionFacts,
}

impl Transfer<'_> {
    fn run(&self, role: Role) -> Result<End, NetworkError> {
        let before = match role {
            // What introduced this connection may have been acknowledged since.
            Role::Sends => &tcp_info(self.stream.as_fd()).unwrap_or_default(),
            Role::Receives => self.before,
        };
        let usage = Usage::begin();
        let transferred = match role {
            Role::Sends => self.send().map_err(NetworkError::lost("sending to it")),
            Role::Receives => self.receive().map_err(NetworkError::lost("receiving from it")),
        };
        self.counter.end();
        let (bytes, at) = transferred.map_err(|error| self.stalled(role, before, error))?;
        let cpu = usage.end();
        if role == Role::Sends {
            self.wait_for_peer()
                .and_then(|()| self.check_taken(before, bytes))
                .map_err(NetworkError::lost("waiting for the last acknowledgement"))
                .map_err(|error| self.stalled(role, before, error))?;
        }
        Ok(End { bytes, at, cpu, facts: facts(self.stream, before, bytes) })
    }

    /// A receiver that gave up closes as well, and has taken nothing.
    fn check_taken(&self, before: &TcpInfo, bytes: u64) -> io::Result<()> {
        let Ok(now) = tcp_info(self.stream.as_fd()) else { return Ok(()) };
        let taken = now.bytes_acknowledged.saturating_sub(before.bytes_acknowledged);
        let is_lost = bytes > 0 && taken == 0 && !(self.cancelled)();
        if is_lost { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    /// Says more about a loss where the connection stands but carried nothing at all. Whether small
    /// packets still get through is for the control connection to tell.
    fn stalled(&self, role: Role, before: &TcpInfo, error: NetworkError) -> NetworkError {
        let timed_out =
            matches!(&error, NetworkError::Lost { source, .. } if source.kind() == io::ErrorKind::TimedOut);
        let now = tcp_info(self.stream.as_fd()).unwrap_or_default();
        let carried = match role {
            Role::Sends => now.bytes_acknowledged.saturating_sub(before.bytes_acknowledged),
            Role::Receives => now.bytes_received.saturating_sub(before.bytes_received),
        };
        // A SYN or a FIN is acknowledged like a byte.
        if timed_out && carried <= 2 { NetworkError::TooLarge { mss: now.send_mss } } else { error }
    }

    fn send(&self) -> io::Result<(u64, Nanos)> {
        self.stream.set_write_timeout(Some(LOOK))?;
        let block = self.test.block.0 as usize;
        let source = Source::new(block, self.test.copy)?;
        let stop = self.timeline.to();
        let mut sent = 0_u64;
        let mut at = self.timeline.start;
        loop {
            let now = monotonic();
            let left = self.share.map_or(u64::MAX, |share| share - sent).min(block as u64) as usize;
            if left == 0 || now >= stop || (self.cancelled)() {
                break;
            }
            match source.send(self.stream, left) {
                Ok(more) => {
                    sent += more as u64;
                    self.counter.set(sent, 0);
                    at = now;
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.stream.shutdown(Shutdown::Write)?;
        Ok((sent, at))
    }

    fn receive(&self) -> io::Result<(u64, Nanos)> {
        self.stream.set_read_timeout(Some(LOOK))?;
        let mut buffer = vec![0; RECEIVE_BYTES];
        let flags = if self.test.copy { RecvFlags::empty() } else { RecvFlags::TRUNC };
        let deadline = Nanos(self.timeline.to().0 + DRAIN.as_nanos() as u64);
        let mut received = 0_u64;
        let mut at = self.timeline.start;
        loop {
            match rustix::net::recv(self.stream, &mut buffer[..], flags) {
                Ok((_, 0)) => return Ok((received, at)),
                Ok((_, more)) => {
                    received += more as u64;
                    self.counter.set(received, 0);
                    at = monotonic();
                }
                Err(Errno::AGAIN | Errno::INTR) => {
                    let now = monotonic();
                    // Whoever sends ends soon as well, so that both ends count the same bytes.
                    if (self.cancelled)() && now.saturating_sub(at) >= SILENCE {
                        return Ok((received, at));
                    }
                    if now > deadline {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The receiver closes once it has everything; then all is acknowledged.
    fn wait_for_peer(&self) -> io::Result<()> {
        self.stream.set_read_timeout(Some(LOOK))?;
        let began = monotonic();
        let mut byte = [0];
        loop {
            match rustix::net::recv(self.stream, &mut byte[..], RecvFlags::empty()) {
                Ok((_, 0)) => return Ok(()),
                Ok(_) => return Err(io::Error::other("it sent data where none was asked for")),
                Err(Errno::AGAIN | Errno::INTR) => {
                    let waited = monotonic().saturating_sub(began);
                    if (self.cancelled)() && waited >= SILENCE {
                        return Ok(());
                    }
                    if waited.0 > DRAIN.as_nanos() as u64 {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A connection as its kernel sees it, since `before`.
pub(super) fn facts(stream: &TcpStream, before: &TcpInfo, sent: u64) -> ConnectionFacts {
    let now = tcp_info(stream.as_fd()).unwrap_or_default();
    let buffer = |size: rustix::io::Result<usize>| size.unwrap_or_default() as u64;
    // A SYN and a FIN are acknowledged like a byte each.
    let payload = |count: u64, mine: u64| count - count.saturating_sub(mine).min(2);
    let received = now.bytes_received - before.bytes_received;
    ConnectionFacts {
        send_buffer: buffer(sockopt::socket_send_buffer_size(stream)),
        receive_buffer: buffer(sockopt::socket_recv_buffer_size(stream)),
        congestion: sockopt::tcp_congestion(stream).unwrap_or_default(),
        mss: now.send_mss,
        rtt: now.rtt,
        congestion_window: now.congestion_window,
        retransmissions: now.retransmissions - before.retransmissions,
        acknowledged: payload(now.bytes_acknowledged - before.bytes_acknowledged, sent),
        received: payload(received, sent),
    }
}

/// What the counts of the same bytes differ in by more than they may.
fn disagreement(sender: &TcpSide, receiver: &TcpSide) -> Option<String> {
    let kernel =
        |side: &TcpSide, of: fn(&ConnectionFacts) -> u64| side.connections.iter().map(of).sum::<u64>();
    let counts = [
        ("the receiver's program", receiver.total_bytes),
        ("the sender's kernel", kernel(sender, |c| c.acknowledged)),
        ("the receiver's kernel", kernel(receiver, |c| c.received)),
    ];
    let sent = sender.total_bytes;
    let apart = |count: u64| sent.abs_diff(count) as f64 > sent as f64 * DISAGREEMENT;
    let (who, count) = counts.into_iter().find(|(_, count)| apart(*count))?;
    Some(format!("the sender's program counted {sent} bytes, {who} {count}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use vtax_units::Bytes;

    use super::super::{NetworkSpec, NetworkTestKind};
    use super::*;

    #[test]
    fn who_may_not_set_a_congestion_control_is_not_sent_after_modules() {
        assert!(congestion_refused(Errno::PERM).contains("tcp_allowed_congestion_control"));
        assert!(congestion_refused(Errno::NOENT).contains("module"));
    }

    #[test]
    fn what_comes_before_the_receiver_runs_counts() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let receivers = fresh(vec![listener.accept().unwrap().0]);
        (&sender).write_all(&[1; 10_000]).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
        let test = TcpTest {
            streams: 1,
            direction: Direction::Up,
            socket: SocketOptions::default(),
            bytes: None,
            block: Bytes(1_000),
            copy: true,
        };
        let timeline = Timeline::begin(&NetworkSpec {
            target: listener.local_addr().unwrap(),
            test: NetworkTestKind::Tcp(test.clone()),
            seed: 1,
            warmup: Nanos::ZERO,
            duration: Nanos::from_millis(50),
            interval: Nanos::from_millis(50),
        });
        let side = side(Role::Receives, receivers, &test, &timeline, &|| false, None).unwrap();
        assert_eq!((side.total_bytes, side.connections[0].received), (10_000, 10_000));
    }

    #[test]
    fn counts_that_differ_are_told() {
        let side = |total_bytes, acknowledged, received| TcpSide {
            total_bytes,
            connections: vec![ConnectionFacts { acknowledged, received, ..ConnectionFacts::default() }],
            ..TcpSide::default()
        };
        assert_eq!(disagreement(&side(1_000, 1_000, 0), &side(1_000, 0, 1_000)), None);
        assert_eq!(disagreement(&side(1_000, 1_004, 0), &side(996, 0, 1_000)), None);
        let told = disagreement(&side(1_000, 1_000, 0), &side(900, 0, 1_000)).unwrap();
        assert_eq!(told, "the sender's program counted 1000 bytes, the receiver's program 900");
        assert!(disagreement(&side(1_000, 900, 0), &side(1_000, 0, 1_000)).is_some());
        assert!(disagreement(&side(1_000, 1_000, 0), &side(1_000, 0, 900)).is_some());
    }
}
