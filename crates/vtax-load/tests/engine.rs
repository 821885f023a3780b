//! The engine against servers on loopback, good and bad.

mod http_support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use http_support::{Load, run};
use vtax_load::{ArrivalProcess, Control, Counts, LoadError, LoadResult, Model, Segment};
use vtax_units::{CpuSet, Nanos, Rate};

fn spec(target: SocketAddr, path: &str) -> Load {
    Load {
        target,
        path: path.to_owned(),
        requests_per_connection: None,
        model: Model::Closed,
        warmup: Nanos::from_millis(100),
        duration: Nanos::from_millis(400),
        // However busy the machine is; a load ends as soon as nothing is under way.
        timeout: Nanos::from_secs(20),
        connections: 4,
        cpus: CpuSet::default(),
        samples: false,
        interval: Nanos::from_millis(100),
    }
}

fn open(rate: f64, spec: Load) -> Load {
    let profile = vec![Segment { from: Rate(rate), to: Rate(rate), duration: Nanos::from_secs(1) }];
    Load { model: Model::Open { arrivals: ArrivalProcess::Constant, profile }, ..spec }
}

fn per_connection(requests: u32, spec: Load) -> Load {
    Load { requests_per_connection: Some(requests), ..spec }
}

/// Runs a load and checks what must hold for every one.
fn load(spec: &Load) -> LoadResult {
    let control = Control::new();
    let result = run(spec, &control).unwrap();
    let counts = &result.counts;
    assert_eq!(counts.intended, counts.sent + counts.missed, "{counts:?}");
    assert_eq!(counts.sent, counts.ok + counts.errors.total() + counts.unfinished, "{counts:?}");
    assert_eq!(result.latency.len(), counts.ok);
    let mut sum = Counts::default();
    result.intervals.iter().for_each(|interval| sum.add(&interval.counts));
    assert_eq!(&sum, counts);
    let progress = control.progress();
    assert!(progress.sent >= counts.sent && progress.ok >= counts.ok);
    result
}

/// Longest time in which a machine that is busy with something else gets a step done undisturbed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same, again until the result is as it must be where nothing else runs; else the last one.
fn load_until(spec: &Load, good: impl Fn(&LoadResult) -> bool) -> LoadResult {
    let began = Instant::now();
    loop {
        let result = load(spec);
        if good(&result) || began.elapsed() > PATIENCE {
            return result;
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// The same, again where the machine that tests run on was too busy to generate it in time.
fn load_undisturbed(spec: &Load) -> LoadResult {
    load_until(spec, |result| result.generator.limited.is_none())
}

/// The embedded server, for as long as the test lasts.
struct Embedded {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Embedded {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel();
        let flag = Arc::clone(&stop);
        thread::spawn(move || {
            let address = (Ipv4Addr::LOCALHOST, 0).into();
            vtax_service::embedded::http::serve(address, 1, &flag, |a| sender.send(a).unwrap()).unwrap();
        });
        Self { address: receiver.recv_timeout(Duration::from_secs(30)).unwrap(), stop }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// A server that does this with every connection, each in its own thread.
fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Reads one request; false at the end.
fn request(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 4096];
    stream.read(&mut buffer).is_ok_and(|n| n > 0)
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let server = Embedded::start();
    let result = load_undisturbed(&open(2_000.0, spec(server.address, "/bytes/100")));
    assert_eq!(result.counts.intended, 800);
    assert_eq!(result.counts.ok, 800);
    assert_eq!(result.intervals.len(), 4);
    assert_eq!(result.lateness.len(), 800);
    assert_eq!(result.duration, Nanos::from_millis(400));
    assert!(result.counts.bytes_received > 800 * 200);
    assert_eq!(result.counts.status, [0, 800, 0, 0, 0]);
}

#[test]
fn an_open_loop_has_connections_when_it_starts() {
    let server = Embedded::start();
    let mut spec = open(4_000.0, spec(server.address, "/bytes/100"));
    (spec.warmup, spec.connections) = (Nanos::ZERO, 200);
    // 5 ms of starts; more are opened only where a stall of this machine asks for them. A worker that starts too late opens none.
    for (connections, least) in [(200, 20), (7, 7)] {
        spec.connections = connections;
        let found = load_until(&spec, |result| {
            let opened = result.counts.connects;
            assert!(opened <= connections.into(), "never more than the load may have: {opened}");
            opened >= least
        });
        assert!(found.counts.connects >= least, "{:?}", found.counts);
    }
}

#[test]
fn a_ramp_is_followed() {
    let server = Embedded::start();
    let mut spec = Load { samples: true, ..spec(server.address, "/bytes/100") };
    spec.warmup = Nanos::ZERO;
    spec.model = Model::Open {
        arrivals: ArrivalProcess::Poisson,
        profile: vec![Segment { from: Rate(0.0), to: Rate(8_000.0), duration: Nanos::from_millis(400) }],
    };
    let result = load(&spec);
    // When each was meant to start, whenever that was: a busy machine is late, and may lose some.
    let mut quarters = [0.0; 4];
    for sample in &result.samples {
        quarters[(sample.start_ns / 100_000_000).min(3) as usize] += 1.0;
    }
    let lost = (result.counts.intended - result.samples.len() as u64) as f64;
    for (count, expected) in quarters.into_iter().zip([100.0_f64, 300.0, 500.0, 700.0]) {
        let chance = 5.0 * expected.sqrt();
        assert!((expected - chance - lost..=expected + chance).contains(&count), "{quarters:?} {lost}");
    }
    assert!((result.counts.intended as f64 - 1600.0).abs() < 5.0 * 40.0, "{quarters:?}");
}

#[test]
fn a_closed_loop_sends_one_after_another() {
    let server = Embedded::start();
    let spec = Load { samples: true, ..spec(server.address, "/bytes/100") };
    let result = load(&spec);
    assert!(result.counts.ok > 100, "{:?}", result.counts);
    assert_eq!(result.counts.errors.total(), 0);
    assert!(result.lateness.is_empty());
    assert_eq!(result.samples.len() as u64, result.counts.ok);
    assert!(result.samples.windows(2).all(|w| w[0].start_ns <= w[1].start_ns));
}

#[test]
fn large_bodies_are_read_to_the_end() {
    let server = Embedded::start();
    for path in ["/bytes/3000000", "/page/20000"] {
        let result = load_until(&spec(server.address, path), |result| result.counts.ok > 4);
        assert!(result.counts.ok > 4, "{path}: {:?}", result.counts);
        assert_eq!(result.counts.errors.total(), 0, "{path}");
    }
}

#[test]
fn connections_are_closed_after_their_requests() {
    let server = Embedded::start();
    for requests in [1, 3] {
        for spec in [spec(server.address, "/bytes/100"), open(1_000.0, spec(server.address, "/bytes/100"))] {
            let all = |counts: &Counts| counts.connects.abs_diff(counts.sent / u64::from(requests)) <= 8;
            // Without a warm-up, so that no connection is opened in it and used after it. What is due before the end and sent after it
            // has its connection after it too: on a busy machine that may be many.
            let spec = per_connection(requests, Load { warmup: Nanos::ZERO, ..spec });
            let counts = load_until(&spec, |result| all(&result.counts)).counts;
            assert_eq!(counts.errors.total(), 0, "{counts:?}");
            assert!(all(&counts), "{requests}: {counts:?}");
        }
    }
}

#[test]
fn errors_of_the_server_have_their_class() {
    let server = Embedded::start();
    let result = load(&open(500.0, spec(server.address, "/nothing")));
    assert_eq!((result.counts.errors.status, result.counts.status[3]), (200, 200));
    assert!(result.counts.connects <= 4, "a 404 keeps the connection: {:?}", result.counts);
}

#[test]
fn nobody_listening_is_refused() {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, vtax_sys::free_port()));
    let refused = |result: &LoadResult| result.counts.errors.refused;
    let result = load_until(&open(500.0, spec(free, "/")), |result| refused(result) == 200);
    assert_eq!(refused(&result), 200, "{:?}", result.counts);
    // A closed loop doesn't spin on it. A machine that gives it no CPU for most of the step lets it try less.
    let result = load_until(&spec(free, "/"), |result| refused(result) >= 4);
    assert!((4..=80).contains(&refused(&result)), "{:?}", result.counts);
}

#[test]
fn a_server_that_hangs_up_is_reset() {
    let address = server(|mut stream| {
        request(&mut stream);
    });
    let result = load(&open(200.0, spec(address, "/")));
    assert_eq!(result.counts.errors.reset, 80, "{:?}", result.counts);
    let address = server(|mut stream| {
        request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").unwrap();
    });
    let result = load(&open(200.0, spec(address, "/")));
    assert_eq!(result.counts.errors.reset, 80, "{:?}", result.counts);
}

#[test]
fn nonsense_is_a_protocol_error() {
    for answer in ["220 mail ready\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabcdef"] {
        let address = server(
            move |mut stream| {
                while request(&mut stream) && stream.write_all(answer.as_bytes()).is_ok() {}
            },
        );
        let result = load(&open(200.0, spec(address, "/")));
        assert_eq!(result.counts.errors.protocol, 80, "{answer}: {:?}", result.counts);
    }
}

#[test]
fn torn_answers_are_put_together() {
    let address = server(|mut stream| {
        stream.set_nodelay(true).unwrap();
        while request(&mut stream) {
            for byte in b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" {
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
            }
        }
    });
    let result = load(&open(100.0, spec(address, "/")));
    assert_eq!(result.counts.ok, 40, "{:?}", result.counts);
}

#[test]
fn an_answer_may_end_with_the_connection() {
    let address = server(|mut stream| {
        request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nuntil the end").unwrap();
    });
    let result = load(&open(200.0, spec(address, "/")));
    assert_eq!(result.counts.ok, 80, "{:?}", result.counts);
}

#[test]
fn a_silent_server_is_not_the_generators_fault() {
    let address = server(|mut stream| while request(&mut stream) {});
    let mut spec = open(500.0, spec(address, "/"));
    spec.timeout = Nanos::from_millis(150);
    let result = load_undisturbed(&spec);
    let counts = &result.counts;
    assert_eq!(counts.ok, 0);
    // Each start either waited for one of the four connections until too late, or went out.
    assert_eq!(counts.errors.client_timeout + counts.missed, 200, "{counts:?}");
    assert_eq!(result.generator.limited, None);
}

#[test]
fn a_slow_server_shows_in_latency_and_is_not_the_generators_fault() {
    // 4 connections at 20 ms each carry 200/s; 400/s are offered.
    let address = server(|mut stream| {
        while request(&mut stream) {
            thread::sleep(Duration::from_millis(20));
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    });
    let spec = Load { duration: Nanos::from_millis(1000), ..open(400.0, spec(address, "/")) };
    let result = load_undisturbed(&spec);
    // From the intended start: after a second, half a second behind.
    assert!(result.latency.quantile(0.99) > Nanos::from_millis(300), "{}", result.latency.quantile(0.99));
    assert_eq!(result.generator.limited, None);
    assert!(result.counts.intended == 400, "{:?}", result.counts);
}

#[test]
fn a_cancelled_load_returns_what_it_has() {
    let server = Embedded::start();
    // One interval and no warm-up, so that no count depends on when it is cancelled.
    let (warmup, duration) = (Nanos::ZERO, Nanos::from_secs(600));
    let open = open(500.0, spec(server.address, "/bytes/1"));
    let spec = Load { warmup, duration, interval: duration, ..open };
    let control = Control::new();
    let result = thread::scope(|scope| {
        let load = scope.spawn(|| run(&spec, &control));
        while control.progress().ok < 100 && !load.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
        control.cancel();
        load.join().unwrap().unwrap()
    });
    assert!(result.duration < duration && result.counts.ok >= 100, "{:?}", result.counts);
    let early = Control::new();
    early.cancel();
    let warming_up = Load { warmup: Nanos::from_secs(60), ..spec };
    assert!(matches!(run(&warming_up, &early), Err(LoadError::Cancelled { .. })));
}

#[test]
fn nonsensical_specifications_are_refused() {
    let good = spec("127.0.0.1:1".parse().unwrap(), "/");
    let bad = [
        Load { duration: Nanos::ZERO, ..good.clone() },
        Load { connections: 0, ..good.clone() },
        Load { timeout: Nanos::ZERO, ..good.clone() },
        Load { interval: Nanos(1), ..good.clone() },
        open(0.0, good.clone()),
        open(f64::NAN, good.clone()),
        open(-1.0, good.clone()),
        per_connection(0, good.clone()),
        spec("127.0.0.1:1".parse().unwrap(), "no-slash"),
        spec("127.0.0.1:1".parse().unwrap(), "/a b\r\nX: y"),
    ];
    for spec in bad {
        assert!(matches!(run(&spec, &Control::new()), Err(LoadError::Spec { .. })), "{spec:?}");
    }
}

#[test]
fn a_cpu_that_is_not_there_is_an_error() {
    let spec = Load { cpus: CpuSet::of([1023]), ..spec("127.0.0.1:1".parse().unwrap(), "/") };
    assert!(matches!(run(&spec, &Control::new()), Err(LoadError::Worker { worker: 0, .. })));
}
