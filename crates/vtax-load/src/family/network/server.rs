//! The other end of network tests.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::agreed::at_port;
use super::control::{self, FromServer, ServerReport, ToServer, Token};
use super::meter::{Counter, Timeline, joined};
use super::{
    Direction, FailureKind, NetworkCpu, NetworkError, NetworkSpec, NetworkTestKind, PATIENCE, PingTest,
    RrTest, SocketOptions, TcpTest, UdpTest, VoiceTest, echo, rr, tcp, udp, voice,
};

/// Whom a server serves.
#[derive(Debug, Clone, Copy)]
pub struct ServerOptions {
    /// Tests at the same time; one more is refused.
    pub tests: usize,
}

/// Connections that have not said yet what they are; one more is closed.
const PENDING_MAX: usize = 512;
/// How long they may take.
const INTRODUCTION: Duration = Duration::from_secs(5);
/// How long a test waits for one before it to end: who gave up comes again before this server has noticed.
const PLACE_WITHIN: Duration = Duration::from_millis(300);
/// Between two looks at whether a client is still there.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Between two looks at whether a transfer is over while the client says nothing.
const HEAR_EVERY: Duration = Duration::from_millis(20);

/// What all threads of a server share.
struct ServerState {
    options: ServerOptions,
    /// Where the connections of a test go.
    tests: Mutex<HashMap<Token, Sender<Stream>>>,
    /// How many connections have not said yet what they are.
    pending_connections: AtomicUsize,
}

/// A data connection that has introduced itself.
struct Stream {
    up: bool,
    socket: TcpStream,
}

impl ServerState {
    fn tests(&self) -> MutexGuard<'_, HashMap<Token, Sender<Stream>>> {
        vtax_sys::sync::lock(&self.tests)
    }

    /// Takes a test in, where there is a place for it or soon will be.
    fn take_in(&self, token: Token, sender: &Sender<Stream>) -> bool {
        let deadline = Instant::now() + PLACE_WITHIN;
        loop {
            let mut tests = self.tests();
            if tests.len() < self.options.tests {
                tests.insert(token, sender.clone());
                return true;
            }
            drop(tests);
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// Whether the client has closed this connection.
fn has_hung_up(link: &TcpStream) -> bool {
    let mut looked = [PollFd::new(link, PollFlags::RDHUP)];
    poll(&mut looked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

/// Serves tests until `stop` is set; then those under way are lost.
///
/// # Errors
///
/// Where the listening socket fails.
pub fn serve(listener: &TcpListener, options: ServerOptions, stop: &AtomicBool) -> Result<(), NetworkError> {
    let state = ServerState { options, tests: Mutex::default(), pending_connections: AtomicUsize::new(0) };
    listener.set_nonblocking(true).map_err(NetworkError::system("listen"))?;
    thread::scope(|scope| {
        while !stop.load(Relaxed) {
            let timeout = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout));
            let socket = match listener.accept() {
                Ok((socket, _)) => socket,
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    continue;
                }
                // The peer is gone again, or descriptors are short for now.
                Err(e) if matches!(e.kind(), io::ErrorKind::ConnectionAborted) => continue,
                Err(e) if e.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
                    thread::sleep(Duration::from_millis(50));
                    continue;
                }
                Err(e) => return Err(NetworkError::system("accept a connection")(e)),
            };
            if state.pending_connections.fetch_add(1, Relaxed) >= PENDING_MAX {
                state.pending_connections.fetch_sub(1, Relaxed);
                continue;
            }
            let state = &state;
            let serving = move || serve_connection(state, socket, stop);
            if thread::Builder::new().name("net-guest".into()).spawn_scoped(scope, serving).is_err() {
                state.pending_connections.fetch_sub(1, Relaxed);
            }
        }
        Ok(())
    })
}

/// Finds out what a new connection is, and serves it.
fn serve_connection(state: &ServerState, mut socket: TcpStream, stop: &AtomicBool) {
    let introduced = introduce(&mut socket);
    state.pending_connections.fetch_sub(1, Relaxed);
    match introduced {
        Ok(ToServer::Stream { token, up, .. }) => {
            let test = state.tests().get(&token).cloned();
            if let Some(test) = test {
                // A test that is over wants no more.
                let _ = test.send(Stream { up, socket });
            }
        }
        Ok(ToServer::Begin { version, spec }) => {
            // What went wrong is the client's to tell: it sees the same.
            let _ = run_test(state, &mut socket, version, &spec, stop);
        }
        Ok(_) | Err(_) => {}
    }
}

fn introduce(socket: &mut TcpStream) -> Result<ToServer, NetworkError> {
    socket.set_nonblocking(false).map_err(NetworkError::system("prepare a connection"))?;
    control::prepare(socket, INTRODUCTION).map_err(NetworkError::system("prepare a connection"))?;
    control::receive(socket)
}

/// One test from its beginning to its report.
fn run_test(
    state: &ServerState,
    link: &mut TcpStream,
    version: u32,
    spec: &NetworkSpec,
    stop: &AtomicBool,
) -> Result<(), NetworkError> {
    let refusal = if version == control::VERSION {
        spec.check().err().map(|e| e.to_string())
    } else {
        Some(format!("it speaks version {}, the client {version}", control::VERSION))
    };
    if let Some(reason) = refusal {
        return control::send(link, &FromServer::Refused { reason, kind: FailureKind::Impossible });
    }
    let token = control::new_token()?;
    let (sender, streams) = channel();
    if !state.take_in(token, &sender) {
        let reason = format!("it is busy with {} others", state.options.tests);
        return control::send(link, &FromServer::Refused { reason, kind: FailureKind::Impossible });
    }
    // Only the one in `tests` may be left, so that a test that is over takes no more.
    drop(sender);
    let test = RunningTest { spec, token, streams, stop };
    let result = test.run(link);
    // Before the client is told: its next test may come at once.
    state.tests().remove(&token);
    match result {
        Ok(report) => control::send(link, &FromServer::Report(Box::new(report))),
        Err(error) => {
            let reason = vtax_sys::chain(&error);
            let _ = control::send(link, &FromServer::Refused { reason, kind: error.kind() });
            Err(error)
        }
    }
}

struct RunningTest<'a> {
    spec: &'a NetworkSpec,
    token: Token,
    streams: Receiver<Stream>,
    stop: &'a AtomicBool,
}

impl RunningTest<'_> {
    /// The test itself, until the client asks for the report.
    fn run(&self, link: &mut TcpStream) -> Result<ServerReport, NetworkError> {
        let patience = Duration::from_nanos(self.spec.warmup.0 + self.spec.duration.0) + PATIENCE * 2;
        link.set_read_timeout(Some(patience)).map_err(NetworkError::system("prepare a connection"))?;
        let report = match &self.spec.test {
            // What it says next is heard beside the sending.
            NetworkTestKind::Tcp(test) => return self.tcp(test, link),
            NetworkTestKind::Rr(test) => self.rr(test, link),
            NetworkTestKind::Udp(test) if test.direction == Direction::Down => {
                return self.udp_down(test, link);
            }
            NetworkTestKind::Udp(test) => self.udp_up(test, link),
            NetworkTestKind::Ping(test) => self.echo(test, link),
            NetworkTestKind::Voice(test) => self.voice(test, link),
        };
        report.and_then(|report| asked(link).map(|()| report))
    }

    fn accepted(&self, port: u16) -> FromServer {
        FromServer::Accepted { token: self.token, port }
    }

    /// Tells the client where to connect to, and waits until all connections of the test are there.
    fn gather(
        &self,
        link: &mut TcpStream,
        setup: &SocketOptions,
        ups: u32,
        downs: u32,
    ) -> Result<(Vec<TcpStream>, Vec<TcpStream>), NetworkError> {
        // Whatever has no need of it goes to the one port that a firewall need let through.
        let own = match setup.window {
            Some(_) => Some(tcp::listen(own_address(link)?, setup)?),
            None => None,
        };
        let port = match &own {
            Some(own) => own.local_addr().map_err(NetworkError::system("ask for an address"))?.port(),
            None => 0,
        };
        control::send(link, &self.accepted(port))?;
        let (mut up, mut down) = (Vec::new(), Vec::new());
        while up.len() < ups as usize || down.len() < downs as usize {
            let stream =
                self.next(own.as_ref(), link).map_err(NetworkError::lost("waiting for its connections"))?;
            if stream.up { up.push(stream.socket) } else { down.push(stream.socket) }
        }
        for stream in up.iter().chain(&down) {
            tcp::set_up(stream, setup)?;
        }
        Ok((up, down))
    }

    /// The next connection of this test, on the port of its own where it has one; a client that gave up isn't waited for.
    fn next(&self, own: Option<&TcpListener>, link: &TcpStream) -> io::Result<Stream> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let stream = match own {
                Some(own) => self.one_of_own(own),
                None => self.streams.recv_timeout(LOOK_EVERY).ok(),
            };
            if let Some(stream) = stream {
                return Ok(stream);
            }
            if has_hung_up(link) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            if Instant::now() >= deadline || self.stop.load(Relaxed) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// A connection of this test on the port of its own, if one comes within a moment.
    fn one_of_own(&self, listener: &TcpListener) -> Option<Stream> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK_EVERY.subsec_nanos()) };
        let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout));
        let (mut socket, _) = listener.accept().ok()?;
        // One that isn't of this test is closed.
        match introduce(&mut socket) {
            Ok(ToServer::Stream { token, up, .. }) if token == self.token => Some(Stream { up, socket }),
            _ => None,
        }
    }

    fn cancelled(&self) -> impl Fn() -> bool + Sync + use<'_> {
        let stop = self.stop;
        move || stop.load(Relaxed)
    }

    /// Transfers until the time is over, and waits until the client asks; the sending ends where the client calls the test
    /// off, or is gone.
    fn tcp(&self, test: &TcpTest, link: &mut TcpStream) -> Result<ServerReport, NetworkError> {
        let ups = if test.direction == Direction::Down { 0 } else { test.streams };
        let downs = if test.direction == Direction::Up { 0 } else { test.streams };
        let (up, down) = self.gather(link, &test.socket, ups, downs)?;
        let (up, down) = (tcp::fresh(up), tcp::fresh(down));
        control::send(link, &FromServer::Go)?;
        let timeline = Timeline::begin(self.spec);
        let (stopped, broken_off) = (self.cancelled(), AtomicBool::new(false));
        let sends_no_more = || stopped() || broken_off.load(Relaxed);
        let transfer = || {
            // What is received ends with what the client sends.
            let (received, sent) = tcp::both(
                || tcp::side(tcp::Role::Receives, up, test, &timeline, &stopped, None),
                || tcp::side(tcp::Role::Sends, down, test, &timeline, &sends_no_more, None),
            );
            Ok::<_, NetworkError>((received?, sent?))
        };
        let (received, sent, has_asked) = thread::scope(|scope| {
            let thread = scope.spawn(transfer);
            let heard = hear_meanwhile(link, &broken_off, || thread.is_finished());
            let (received, sent) = joined(thread.join())?;
            heard.map(|has_asked| (received, sent, has_asked))
        })?;
        if !has_asked {
            // It may have been called off as it ended.
            asked_meanwhile(link, &broken_off)?;
        }
        Ok(ServerReport {
            received: (ups > 0).then_some(received),
            sent: (downs > 0).then_some(sent),
            ..ServerReport::default()
        })
    }

    fn rr(&self, test: &RrTest, link: &mut TcpStream) -> Result<ServerReport, NetworkError> {
        let setup = SocketOptions { no_delay: true, ..test.socket.clone() };
        let (streams, _) = self.gather(link, &setup, test.streams, 0)?;
        control::send(link, &FromServer::Go)?;
        let (cpu, again) = thread::scope(|scope| {
            let threads: Vec<_> =
                streams.into_iter().map(|stream| scope.spawn(move || rr::answer(stream, test))).collect();
            let (mut cpu, mut again) = (NetworkCpu::default(), 0_u64);
            for thread in threads {
                let (used, sent_again) = joined(thread.join())?;
                cpu.add(used);
                again = again.saturating_add(sent_again);
            }
            Ok::<_, NetworkError>((cpu, again))
        })?;
        Ok(ServerReport { cpu, again, ..ServerReport::default() })
    }

    /// A socket for datagrams on the address the client has reached.
    fn datagrams(
        &self,
        link: &mut TcpStream,
        buffer: Option<vtax_units::Bytes>,
    ) -> Result<UdpSocket, NetworkError> {
        let socket = udp::open(own_address(link)?, buffer)?;
        let port = socket.local_addr().map_err(NetworkError::system("ask for an address"))?.port();
        control::send(link, &self.accepted(port))?;
        udp::await_greeting(&socket, &self.token).map_err(NetworkError::system("wait for a datagram"))?;
        control::send(link, &FromServer::Go)?;
        Ok(socket)
    }

    /// Sends until the time is over, the client calls the test off, or it is gone.
    fn udp_down(&self, test: &UdpTest, link: &mut TcpStream) -> Result<ServerReport, NetworkError> {
        let socket = self.datagrams(link, test.buffer)?;
        let timeline = Timeline::begin(self.spec);
        let counter = Counter::default();
        let broken_off = AtomicBool::new(false);
        let (token, stopped) = (self.token, self.cancelled());
        let cancelled = || stopped() || broken_off.load(Relaxed);
        let sender = thread::scope(|scope| {
            let sending = || udp::send(&socket, token, test, &timeline, &counter, &cancelled);
            let thread = scope.spawn(sending);
            let asked = asked_meanwhile(link, &broken_off);
            let sender = joined(thread.join())?;
            asked.map(|()| sender)
        })?;
        Ok(ServerReport { udp_sent: Some(sender), ..ServerReport::default() })
    }

    fn udp_up(&self, test: &UdpTest, link: &mut TcpStream) -> Result<ServerReport, NetworkError> {
        let socket = self.datagrams(link, test.buffer)?;
        let timeline = Timeline::begin(self.spec);
        let counter = Counter::default();
        let over = AtomicBool::new(false);
        let token = self.token;
        let receiver = thread::scope(|scope| {
            let thread = scope.spawn(|| udp::receive(&socket, token, test, &timeline, &counter, &over));
            let said = control::receive(link);
            over.store(true, Relaxed);
            let receiver = joined(thread.join())?;
            match said? {
                ToServer::Sent { .. } => Ok(receiver),
                _ => Err(NetworkError::protocol("not a word about what was sent".to_owned())),
            }
        })?;
        Ok(ServerReport { udp_received: Some(receiver), ..ServerReport::default() })
    }

    fn echo(&self, test: &PingTest, link: &mut TcpStream) -> Result<ServerReport, NetworkError> {
        let socket = self.datagrams(link, None)?;
        let over = AtomicBool::new(false);
        let (size, token) = (test.size as usize, self.token);
        thread::scope(|scope| {
            let thread = scope.spawn(|| echo::answer(&socket, &token, size, &over));
            // It asks once it has had its answers.
            let waited = link.peek(&mut [0]).map_err(NetworkError::lost("waiting for its word"));
            over.store(true, Relaxed);
            joined(thread.join().map(|result| result.map_err(NetworkError::lost("answering it"))))?;
            waited.map(|_| ServerReport::default())
        })
    }

    fn voice(&self, test: &VoiceTest, link: &mut TcpStream) -> Result<ServerReport, NetworkError> {
        let socket = self.datagrams(link, Some(voice::BUFFER))?;
        voice::host(self.spec, test, self.token, &socket, link, self.stop)
    }
}

/// The address that the client has reached, with any port.
fn own_address(link: &TcpStream) -> Result<SocketAddr, NetworkError> {
    let own = link.local_addr().map_err(NetworkError::system("ask for an address"))?;
    Ok(at_port(own, 0))
}

/// Waits until the client asks for the report.
fn asked(link: &mut TcpStream) -> Result<(), NetworkError> {
    is_question(&control::receive(link)?)
}

/// The same while this end sends; `broken_off` is set where the client calls the test off before it asks, or goes. Who only asks
/// waits for the end of the sending: its clock may be ahead.
fn asked_meanwhile(link: &mut TcpStream, broken_off: &AtomicBool) -> Result<(), NetworkError> {
    let mut said = control::receive(link);
    broken_off.store(!matches!(said, Ok(ToServer::Report)), Relaxed);
    if matches!(said, Ok(ToServer::Stop)) {
        said = control::receive(link);
    }
    is_question(&said?)
}

/// Hears the client beside a transfer, until that is `over`: whether it has asked for the report. `broken_off` is set
/// where it calls the test off before it asks, or goes. Where the transfer fails its word isn't waited for: it may wait
/// itself to be told why.
fn hear_meanwhile(
    link: &mut TcpStream,
    broken_off: &AtomicBool,
    over: impl Fn() -> bool,
) -> Result<bool, NetworkError> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(HEAR_EVERY.subsec_nanos()) };
    while !over() {
        if !poll(&mut [PollFd::new(&*link, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0) {
            continue;
        }
        let said = control::receive(link);
        if matches!(said, Ok(ToServer::Report)) {
            return Ok(true);
        }
        broken_off.store(true, Relaxed);
        if !matches!(said?, ToServer::Stop) {
            return Err(NetworkError::protocol("something else than a question".to_owned()));
        }
    }
    Ok(false)
}

fn is_question(said: &ToServer) -> Result<(), NetworkError> {
    match said {
        ToServer::Report => Ok(()),
        _ => Err(NetworkError::protocol("something else than a question".to_owned())),
    }
}
