//! Network tests against a server on loopback, and against peers that misbehave.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use vtax_load::network::{
    Direction, NetworkError, NetworkResult, NetworkSpec, NetworkTestKind, PingResult, PingTest, Probe,
    RrResult, RrTest, ServerOptions, SocketOptions, TcpFlow, TcpResult, TcpTest, UdpResult, UdpTest, run,
    serve,
};
use vtax_load::{ArrivalProcess, Control};
use vtax_sys::require::again_until;
use vtax_units::{BitRate, Bytes, Nanos, Rate};

/// A server for as long as the test lasts.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start() -> Self {
        Self::with(ServerOptions { tests: 8 })
    }

    fn with(options: ServerOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let thread = Some(thread::spawn(move || serve(&listener, options, &flag).unwrap()));
        Self { address, stop, thread }
    }

    fn test(&self, test: NetworkTestKind) -> Result<NetworkResult, NetworkError> {
        run(&spec(self.address, test), &Control::new(), &|_| {})
    }

    fn tcp(&self, test: TcpTest) -> TcpResult {
        match self.test(NetworkTestKind::Tcp(test)).unwrap() {
            NetworkResult::Tcp(result) => result,
            other => panic!("{other:?}"),
        }
    }

    fn udp(&self, test: UdpTest) -> UdpResult {
        match self.test(NetworkTestKind::Udp(test)).unwrap() {
            NetworkResult::Udp(result) => result,
            other => panic!("{other:?}"),
        }
    }

    fn rr(&self, test: RrTest) -> RrResult {
        match self.test(NetworkTestKind::Rr(test)).unwrap() {
            NetworkResult::Rr(result) => result,
            other => panic!("{other:?}"),
        }
    }

    fn ping(&self, test: PingTest) -> PingResult {
        match self.test(NetworkTestKind::Ping(test)).unwrap() {
            NetworkResult::Ping(result) => result,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn spec(target: SocketAddr, test: NetworkTestKind) -> NetworkSpec {
    NetworkSpec {
        target,
        test,
        seed: 1,
        warmup: Nanos::from_millis(100),
        duration: Nanos::from_millis(300),
        interval: Nanos::from_millis(100),
    }
}

fn bulk(direction: Direction) -> TcpTest {
    TcpTest {
        streams: 2,
        direction,
        socket: SocketOptions::default(),
        bytes: None,
        block: Bytes(128 << 10),
        copy: false,
    }
}

fn datagrams(rate: u64, direction: Direction) -> UdpTest {
    UdpTest { rate: Some(BitRate(rate)), size: 1_000, direction, buffer: None }
}

fn transactions() -> RrTest {
    RrTest { streams: 2, request: 100, response: 1_000, socket: SocketOptions::default() }
}

fn pings(probe: Probe) -> PingTest {
    PingTest {
        probe,
        rate: Rate(1_000.0),
        arrivals: ArrivalProcess::Constant,
        size: 64,
        timeout: Nanos::from_millis(500),
    }
}

fn whole(flow: &TcpFlow, streams: usize) {
    assert_eq!(flow.disagreement, None);
    assert_eq!(flow.sender.total_bytes, flow.receiver.total_bytes);
    assert!(flow.receiver.counted_bytes > 0 && flow.receiver.counted_bytes <= flow.receiver.total_bytes);
    assert_eq!(flow.receiver.intervals.iter().sum::<u64>(), flow.receiver.counted_bytes);
    assert_eq!(flow.receiver.intervals.len(), 3);
    assert_eq!((flow.sender.connections.len(), flow.receiver.connections.len()), (streams, streams));
    let acknowledged: u64 = flow.sender.connections.iter().map(|c| c.acknowledged).sum();
    assert_eq!(acknowledged, flow.sender.total_bytes);
    assert!(flow.sender.cpu.total().0 > 0 && flow.receiver.cpu.total().0 > 0);
    assert!(flow.goodput() > 1e6);
}

/// Longest time for what a busy machine does late; less than the 10 s for which a server waits for who says nothing.
const PATIENCE: Duration = Duration::from_secs(5);

#[test]
fn bulk_goes_up_down_and_both_ways() {
    let server = Server::start();
    // Who counts is away at the end, or hears late of the begin: then an interval lacks.
    let counted = |found: &TcpResult| {
        let mut flows = [&found.up, &found.down].into_iter().flatten();
        flows.all(|flow| flow.receiver.intervals.len() == 3 && flow.goodput() > 1e6)
    };
    let tcp = |test: TcpTest| again_until(|| server.tcp(test.clone()), counted);
    let up = tcp(bulk(Direction::Up));
    assert!(up.down.is_none());
    whole(&up.up.unwrap(), 2);
    let down = tcp(bulk(Direction::Down));
    assert!(down.up.is_none());
    whole(&down.down.unwrap(), 2);
    let both = tcp(TcpTest { copy: true, ..bulk(Direction::Both) });
    whole(&both.up.unwrap(), 2);
    whole(&both.down.unwrap(), 2);
}

#[test]
fn a_number_of_bytes_is_sent_exactly() {
    let server = Server::start();
    let test = TcpTest { bytes: Some(Bytes(1_000_001)), streams: 1, ..bulk(Direction::Up) };
    // It ends with the last byte, and not when its time is over.
    let spec =
        NetworkSpec { duration: Nanos::from_secs(60), ..spec(server.address, NetworkTestKind::Tcp(test)) };
    let NetworkResult::Tcp(result) = run(&spec, &Control::new(), &|_| {}).unwrap() else { panic!() };
    let flow = result.up.unwrap();
    assert_eq!((flow.sender.total_bytes, flow.receiver.counted_bytes), (1_000_001, 1_000_001));
    assert!(flow.receiver.counted_time < Nanos::from_secs(30), "{}", flow.receiver.counted_time);
}

#[test]
fn sockets_are_set_and_what_the_kernel_gave_is_told() {
    let server = Server::start();
    let socket = SocketOptions {
        window: Some(Bytes(4 << 10)),
        mss: Some(536),
        congestion: Some("reno".to_owned()),
        no_delay: true,
    };
    let flow = server.tcp(TcpTest { socket, streams: 1, ..bulk(Direction::Up) }).up.unwrap();
    let connection = &flow.sender.connections[0];
    // Linux doubles what is asked for, and has a least of its own: 4608 bytes for sending.
    assert!((8_192..=16_384).contains(&connection.send_buffer), "{connection:?}");
    assert_eq!(connection.congestion, "reno");
    assert!(connection.mss <= 536, "{connection:?}");
    let socket = SocketOptions { congestion: Some("nonesuch".to_owned()), ..SocketOptions::default() };
    let error = server.test(NetworkTestKind::Tcp(TcpTest { socket, ..bulk(Direction::Up) })).unwrap_err();
    assert!(error.to_string().contains("congestion"), "{error}");
}

#[test]
fn datagrams_arrive_at_their_rate() {
    let server = Server::start();
    for direction in [Direction::Up, Direction::Down] {
        // 1,000 a second for 0.3 s; the last may be due just after the end. A stall of this machine leaves some
        // unsent, or sends more at once than the receiver's buffer holds: that isn't so every time.
        let whole = |result: &UdpResult| {
            (250..=301).contains(&result.sender.sent)
                && result.receiver.received == result.sender.sent
                && (result.goodput() / 8e6 - 1.0).abs() < 0.3
                && result.receiver.jitter < Nanos::from_millis(50)
        };
        let result = again_until(|| server.udp(datagrams(8_000_000, direction)), whole);
        assert!((250..=301).contains(&result.sender.sent), "{}", result.sender.sent);
        assert_eq!(result.receiver.received, result.sender.sent, "{direction:?}");
        assert_eq!((result.receiver.duplicates, result.receiver.reordered), (0, 0));
        assert_eq!(result.sender.lateness.len(), result.sender.sent);
        assert_eq!(result.receiver.bytes, 1_000 * result.receiver.received);
        assert!(result.receiver.total > result.receiver.received, "the warm-up is left out");
        assert!((result.goodput() / 8e6 - 1.0).abs() < 0.3, "{}", result.goodput());
        assert!(result.loss() == 0.0 && result.receiver.jitter < Nanos::from_millis(50));
    }
}

#[test]
fn without_a_rate_datagrams_go_as_fast_as_they_can() {
    let server = Server::start();
    let fast = || server.udp(UdpTest { rate: None, ..datagrams(1, Direction::Up) });
    let result = again_until(fast, |found| found.sender.sent > 3_000);
    assert!(result.sender.sent > 3_000, "{:?}", result.sender);
    assert!(result.receiver.received <= result.sender.sent);
    let lost = result.sender.sent - result.receiver.received;
    assert!(result.loss() == lost as f64 / result.sender.sent as f64);
}

#[test]
fn transactions_are_timed() {
    let server = Server::start();
    let result = again_until(|| server.rr(transactions()), |found| found.transactions > 100);
    assert!(result.transactions > 100, "{result:?}");
    assert_eq!(result.latency.len(), result.transactions);
    assert!(result.client_cpu.total().0 > 0 && result.server_cpu.total().0 > 0);
    assert_eq!(result.connections.len(), 2);
}

#[test]
fn echo_comes_back() {
    let server = Server::start();
    let spec = spec(server.address, NetworkTestKind::Ping(pings(Probe::Udp)));
    let test = || {
        let watched = AtomicU64::new(0);
        let watch = |_: &vtax_load::network::Live| _ = watched.fetch_add(1, Relaxed);
        let NetworkResult::Ping(result) = run(&spec, &Control::new(), &watch).unwrap() else { panic!() };
        (result, watched.into_inner())
    };
    let whole = |(result, watched): &(PingResult, u64)| {
        (250..=301).contains(&result.intended) && all_came(result) && *watched >= 3
    };
    let (result, watched) = again_until(test, whole);
    assert!((250..=301).contains(&result.intended), "{}", result.intended);
    assert_eq!((result.sent, result.answered, result.duplicates), (result.intended, result.intended, 0));
    assert!(
        result.rtt.quantile(0.5) > Nanos::ZERO && result.rtt.quantile(0.5) <= result.latency.quantile(0.5)
    );
    assert_eq!(result.intervals.iter().map(|i| i.answered).sum::<u64>(), result.answered);
    assert!(watched >= 3, "{watched}");
}

/// Whether every probe that was due was sent and answered.
fn all_came(result: &PingResult) -> bool {
    result.sent == result.intended && result.answered == result.sent
}

#[test]
fn the_kernel_answers_pings() {
    let server = Server::start();
    let test = || server.test(NetworkTestKind::Ping(pings(Probe::Icmp)));
    let whole = |found: &Result<NetworkResult, NetworkError>| match found {
        Ok(NetworkResult::Ping(result)) => result.answered == result.sent,
        _ => true,
    };
    match again_until(test, whole) {
        Ok(NetworkResult::Ping(result)) => assert_eq!((result.answered, result.duplicates), (result.sent, 0)),
        Ok(other) => panic!("{other:?}"),
        // Neither a group that may ping nor privileges: said so, with the way out.
        Err(error) => assert!(error.to_string().contains("ping_group_range"), "{error}"),
    }
}

/// Without a socket for it, or without a way, as a broadcast has none: there is no server of vtax's to be started.
#[test]
fn pings_without_a_way_are_not_told_to_start_a_server() {
    let nowhere = spec("255.255.255.255:5202".parse().unwrap(), NetworkTestKind::Ping(pings(Probe::Icmp)));
    let error = run(&nowhere, &Control::new(), &|_| {}).unwrap_err().to_string();
    assert!(!error.contains("--server"), "{error}");
    let way = "find a way to 255.255.255.255 (is its address right, and is there a route to it?)";
    assert!(error == way || error.contains("ping_group_range"), "{error}");
}

#[test]
fn times_are_refused_in_units_of_time() {
    let address = "127.0.0.1:1".parse().unwrap();
    let good = spec(address, NetworkTestKind::Ping(pings(Probe::Udp)));
    good.check().unwrap();
    let error = NetworkSpec { duration: Nanos::ZERO, ..good.clone() }.check().unwrap_err().to_string();
    assert_eq!(error, "duration: 0s is not between 1ms and 86400s");
    let timeout = PingTest { timeout: Nanos::from_secs(61), ..pings(Probe::Udp) };
    let error = NetworkSpec { test: NetworkTestKind::Ping(timeout), ..good }.check().unwrap_err().to_string();
    assert_eq!(error, "timeout: 61s is not between 1ms and 60s");
}

#[test]
fn probes_to_nobody_are_lost() {
    let server = Server::start();
    let found = again_until(|| server.ping(pings(Probe::Udp)), |found| found.answered == found.sent);
    assert_eq!(found.answered, found.sent);
    let gone = "127.0.0.1:1".parse().unwrap();
    let error =
        run(&spec(gone, NetworkTestKind::Ping(pings(Probe::Udp))), &Control::new(), &|_| {}).unwrap_err();
    assert!(matches!(error, NetworkError::Connect { .. }), "{error}");
}

/// A client that can't do its part goes away, and its place is the next one's.
#[test]
fn tests_that_a_client_gives_up_take_no_place() {
    let server = Server::with(ServerOptions { tests: 1 });
    let with = |window, congestion: &str| {
        let socket =
            SocketOptions { window, congestion: Some(congestion.to_owned()), ..SocketOptions::default() };
        let test = TcpTest { socket, streams: 1, ..bulk(Direction::Up) };
        let since = Instant::now();
        loop {
            match server.test(NetworkTestKind::Tcp(test.clone())) {
                // A busy machine may be slow to see that the client before is gone.
                Err(error) if error.to_string().contains("it is busy") && since.elapsed() < PATIENCE => {}
                found => return found,
            }
        }
    };
    for window in [None, Some(Bytes(16 << 10))] {
        for _ in 0..6 {
            let error = with(window, "none-such").unwrap_err().to_string();
            assert!(error.contains("congestion control"), "{error}");
        }
        // The one that every kernel has and lets everybody use.
        with(window, "reno").unwrap();
    }
}

#[test]
fn a_server_takes_only_as_many_tests_as_it_should() {
    let server = Server::with(ServerOptions { tests: 1 });
    let address = server.address;
    let (started, starts) = std::sync::mpsc::channel();
    let busy = thread::spawn(move || {
        let spec = NetworkSpec {
            duration: Nanos::from_secs(3),
            ..spec(address, NetworkTestKind::Rr(transactions()))
        };
        run(&spec, &Control::new(), &|_| started.send(()).unwrap_or(()))
    });
    starts.recv().unwrap();
    let error = server.test(NetworkTestKind::Rr(transactions())).unwrap_err();
    assert_eq!(error.to_string(), "the server refuses: it is busy with 1 others");
    busy.join().unwrap().unwrap();
    // Who has heard of its end can come again at once.
    for _ in 0..20 {
        let spec = NetworkSpec {
            warmup: Nanos::ZERO,
            duration: Nanos::from_millis(10),
            ..spec(address, NetworkTestKind::Rr(transactions()))
        };
        run(&spec, &Control::new(), &|_| {}).unwrap();
    }
}

/// What a test of ten minutes found that was cancelled once something had come.
fn cancelled_under_way(address: SocketAddr, test: NetworkTestKind) -> NetworkResult {
    let spec = NetworkSpec { duration: Nanos::from_secs(600), ..spec(address, test) };
    let control = Arc::new(Control::new());
    let hand = control.clone();
    let (came, comes) = std::sync::mpsc::channel();
    let test = thread::spawn(move || run(&spec, &hand, &|live| came.send(live.bytes).unwrap_or(())));
    while comes.recv().unwrap() == 0 {}
    let cancelled = std::time::Instant::now();
    control.cancel();
    let found = test.join().unwrap().unwrap();
    assert!(cancelled.elapsed() < Duration::from_secs(60), "{:?}", cancelled.elapsed());
    found
}

#[test]
fn cancelling_ends_a_test() {
    let server = Server::start();
    let found = cancelled_under_way(server.address, NetworkTestKind::Tcp(bulk(Direction::Up)));
    let NetworkResult::Tcp(result) = found else { panic!() };
    assert!(result.up.unwrap().receiver.total_bytes > 0);
}

/// The other end sends, so it must be told.
#[test]
fn cancelling_ends_what_the_server_sends() {
    let server = Server::with(ServerOptions { tests: 1 });
    let test = NetworkTestKind::Udp(datagrams(1_000_000, Direction::Down));
    let NetworkResult::Udp(result) = cancelled_under_way(server.address, test) else { panic!() };
    assert!(result.receiver.total > 0 && result.sender.total >= result.receiver.total, "{result:?}");
    // Its place is the next one's.
    server.udp(datagrams(1_000_000, Direction::Up));
}

/// Data that comes without a pause doesn't keep the client from ending the test, and the server from hearing of it.
#[test]
fn cancelling_ends_transfers_that_the_server_sends() {
    let server = Server::with(ServerOptions { tests: 1 });
    for direction in [Direction::Down, Direction::Both] {
        let found = cancelled_under_way(server.address, NetworkTestKind::Tcp(bulk(direction)));
        let NetworkResult::Tcp(result) = found else { panic!() };
        assert_eq!(result.up.is_some(), direction == Direction::Both);
        // Both ends tell what they saw.
        let down = result.down.unwrap();
        assert!(down.receiver.total_bytes > 0, "{direction:?}: {down:?}");
        assert!(down.sender.total_bytes >= down.receiver.total_bytes, "{direction:?}: {down:?}");
    }
    // Its place is the next one's.
    server.rr(transactions());
}

/// Passes one connection on to a server until it is told to cut it.
fn passage(server: SocketAddr) -> (SocketAddr, impl FnOnce()) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let ends = [listener.accept().unwrap().0, TcpStream::connect(server).unwrap()];
        for [from, to] in [[0, 1], [1, 0]] {
            let (mut from, mut to) = (ends[from].try_clone().unwrap(), ends[to].try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut from, &mut to));
        }
        ends
    });
    let cut = move || {
        for end in thread.join().unwrap() {
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
    };
    (address, cut)
}

#[test]
fn a_server_does_not_go_on_sending_to_a_client_that_is_gone() {
    // With a window its connections go to a port of their own, past what is cut.
    let socket = SocketOptions { window: Some(Bytes(64 << 10)), ..SocketOptions::default() };
    for test in [
        NetworkTestKind::Udp(datagrams(1_000_000, Direction::Down)),
        NetworkTestKind::Tcp(TcpTest { socket, ..bulk(Direction::Down) }),
    ] {
        is_not_sent_to_when_gone(test);
    }
}

fn is_not_sent_to_when_gone(test: NetworkTestKind) {
    let server = Server::with(ServerOptions { tests: 1 });
    let (address, cut) = passage(server.address);
    let mut spec = spec(address, test);
    spec.duration = Nanos::from_secs(600);
    let control = Arc::new(Control::new());
    let hand = control.clone();
    let (came, comes) = std::sync::mpsc::channel();
    let test = thread::spawn(move || run(&spec, &hand, &|live| came.send(live.bytes).unwrap_or(())));
    while comes.recv().unwrap() == 0 {}
    cut();
    // Its place is the next one's, soon.
    let since = std::time::Instant::now();
    while let Err(error) = server.test(NetworkTestKind::Rr(transactions())) {
        assert!(since.elapsed() < Duration::from_secs(60), "{error}");
    }
    control.cancel();
    assert!(test.join().unwrap().is_err());
}

/// A server that does what `peer` does with each connection.
fn stranger(peer: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().take(4).flatten() {
            peer(stream);
        }
    });
    address
}

#[test]
fn strangers_are_told_apart() {
    let test = || NetworkTestKind::Tcp(bulk(Direction::Up));
    let run = |address| run(&spec(address, test()), &Control::new(), &|_| {}).unwrap_err();
    let closes = stranger(drop);
    assert!(matches!(run(closes), NetworkError::Lost { .. }));
    let babbles = stranger(|mut s| s.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap_or(()));
    assert!(matches!(run(babbles), NetworkError::Protocol { .. } | NetworkError::Lost { .. }));
    let lies = stranger(|mut s| {
        let mut request = [0; 1_000];
        let _ = s.read(&mut request);
        let _ = s.write_all(b"\0\0\0\x0c{\"say\":\"go\"}");
        let _ = s.read(&mut request);
    });
    let error = run(lies);
    assert!(error.to_string().contains("a start before the test"), "{error}");
}

#[test]
fn a_server_survives_garbage() {
    let server = Server::start();
    for garbage in [&b""[..], b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x02{}", b"\0\0\x10\0{"]
    {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(garbage).unwrap();
    }
    server.rr(transactions());
}

#[test]
fn a_peer_that_goes_away_in_the_middle_is_named() {
    // Relays to a real server and cuts everything after 200 ms.
    let server = Server::start();
    let to = server.address;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let began = std::time::Instant::now();
        let relay = |from: TcpStream, to: TcpStream| {
            thread::spawn(move || {
                let (mut from, mut to, mut bytes) = (from, to, [0; 65_536]);
                let _ = from.set_read_timeout(Some(Duration::from_millis(50)));
                while began.elapsed() < Duration::from_millis(200) {
                    if let Ok(n @ 1..) = from.read(&mut bytes) {
                        let _ = to.write_all(&bytes[..n]);
                    }
                }
                let _ = to.shutdown(std::net::Shutdown::Both);
                let _ = from.shutdown(std::net::Shutdown::Both);
            });
        };
        for client in listener.incoming().take(3).flatten() {
            let far = TcpStream::connect(to).unwrap();
            relay(client.try_clone().unwrap(), far.try_clone().unwrap());
            relay(far, client);
        }
    });
    let mut spec = spec(address, NetworkTestKind::Tcp(bulk(Direction::Up)));
    spec.duration = Nanos::from_secs(60);
    let began = std::time::Instant::now();
    let error = run(&spec, &Control::new(), &|_| {}).unwrap_err();
    assert!(matches!(error, NetworkError::Lost { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(30), "{error}");
}

#[test]
fn nonsensical_tests_are_refused_before_they_begin() {
    let nowhere: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let refused = |spec: &NetworkSpec| match run(spec, &Control::new(), &|_| {}) {
        Err(NetworkError::Spec { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let of = |test| spec(nowhere, test);
    assert_eq!(refused(&of(NetworkTestKind::Tcp(TcpTest { streams: 0, ..bulk(Direction::Up) }))), "streams");
    assert_eq!(
        refused(&of(NetworkTestKind::Tcp(TcpTest { block: Bytes(0), ..bulk(Direction::Up) }))),
        "block"
    );
    assert_eq!(
        refused(&of(NetworkTestKind::Udp(UdpTest { size: 10, ..datagrams(1_000, Direction::Up) }))),
        "size"
    );
    assert_eq!(refused(&of(NetworkTestKind::Udp(datagrams(1_000, Direction::Both)))), "direction");
    assert_eq!(refused(&of(NetworkTestKind::Rr(RrTest { request: 0, ..transactions() }))), "request");
    assert_eq!(
        refused(&of(NetworkTestKind::Ping(PingTest { rate: Rate(0.0), ..pings(Probe::Udp) }))),
        "rate"
    );
    let mut spec = of(NetworkTestKind::Rr(transactions()));
    spec.duration = Nanos::ZERO;
    assert_eq!(refused(&spec), "duration");
}
