//! The generator against a real Redis: what is asked, what is found, and what is told when data change.

#[path = "service_support/server.rs"]
mod server;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use vtax_load::redis::{RedisSession, RedisSpec};
use vtax_load::{
    ArrivalProcess, ConnectionPool, Control, LoadError, LoadResult, Model, Part, RequestStep, Segment,
};
use vtax_plan::model::{KeyAccess, Persistence, RedisOptions, RedisRequests, ServiceKind};
use vtax_service::RunningService;
use vtax_units::{Bytes, CpuSet, Nanos, Rate, Share};

/// A Redis of the test's own.
struct Server {
    address: SocketAddr,
    service: Option<RunningService>,
    _directory: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let port = vtax_sys::free_port();
        let kind = ServiceKind::Redis(RedisOptions { port, persistence: Persistence::None, io_threads: 1 });
        let directory = tempfile::tempdir().unwrap();
        let running = server::start(kind, Nanos::from_secs(30), directory.path().join("service"));
        assert!(running.version().starts_with("Redis/"), "{}", running.version());
        let address = running.address();
        Self { address, service: Some(running), _directory: directory }
    }

    /// Carries out a command as typed, and gives what came back within a moment.
    fn command(&self, line: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut buffer = [0; 4096];
        let got = stream.read(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..got]).into_owned()
    }

    fn spec(&self, requests: RedisRequests, connections: u32) -> RedisSpec {
        let (target, cpus, timeout) = (self.address, CpuSet::default(), Nanos::from_secs(10));
        let pool = ConnectionPool { target, connections, timeout, cpus };
        RedisSpec { pool, requests, seed: 7, part: Part::default() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.service.take().map(RunningService::stop);
    }
}

fn requests() -> RedisRequests {
    RedisRequests { keys: 500, value: Bytes(64), reads: Share(0.5), access: KeyAccess::Uniform, pipeline: 1 }
}

fn step(model: Model) -> RequestStep {
    RequestStep {
        model,
        warmup: Nanos::from_millis(50),
        duration: Nanos::from_millis(500),
        seed: 3,
        samples: false,
        interval: Nanos::from_millis(100),
        drain: Nanos::from_secs(1),
    }
}

fn open_loop(rate: f64) -> Model {
    let (from, to, duration) = (Rate(rate), Rate(rate), Nanos::from_secs(1));
    Model::Open { arrivals: ArrivalProcess::Poisson, profile: vec![Segment { from, to, duration }] }
}

fn run(session: &RedisSession, model: Model) -> LoadResult {
    let result = session.run_step(&step(model), &Control::new()).unwrap();
    let counts = &result.counts;
    assert_eq!(counts.sent, counts.ok + counts.errors.total() + counts.unfinished, "{counts:?}");
    result
}

#[test]
fn every_answer_is_right_at_any_depth_size_and_pace() {
    if !vtax_sys::require::installed(&["redis-server"]) {
        return;
    }
    let server = Server::start();
    for (pipeline, value, access) in [
        (1, Bytes(16), KeyAccess::Uniform),
        (16, Bytes(100), KeyAccess::Zipf),
        (100, Bytes(20_000), KeyAccess::Uniform),
    ] {
        let spec = server.spec(RedisRequests { pipeline, value, access, ..requests() }, 4);
        let session = RedisSession::open(&spec).unwrap();
        for model in [Model::Closed, open_loop(500.0), Model::Closed] {
            let counts = run(&session, model).counts;
            assert!(counts.ok > 20 && counts.errors.total() == 0, "{pipeline} {value}: {counts:?}");
        }
    }
    assert_eq!(server.command("DBSIZE"), ":500\r\n", "every key, and none besides");
}

#[test]
fn requests_are_what_was_asked_for() {
    if !vtax_sys::require::installed(&["redis-server"]) {
        return;
    }
    let server = Server::start();
    let of = |requests: RedisRequests| {
        let session = RedisSession::open(&server.spec(requests, 2)).unwrap();
        let calls = || {
            let stats = server.command("INFO commandstats");
            ["get", "set"].map(|name| {
                let of_name = format!("cmdstat_{name}:calls=");
                let line = stats.lines().find_map(|line| line.strip_prefix(&of_name));
                line.and_then(|rest| rest.split(',').next()?.parse::<f64>().ok()).unwrap_or(0.0)
            })
        };
        let [gets, sets] = calls();
        let sent = run(&session, Model::Closed).counts.sent;
        assert!(sent > 0);
        let after = calls();
        (after[0] - gets, after[1] - sets)
    };
    let (gets, sets) = of(RedisRequests { reads: Share(0.9), ..requests() });
    let share = gets / (gets + sets);
    assert!((0.85..0.95).contains(&share), "{gets} GET, {sets} SET");
    assert_eq!(of(RedisRequests { reads: Share(1.0), ..requests() }).1, 0.0);
    assert_eq!(of(RedisRequests { reads: Share(0.0), keys: 10_000, ..requests() }).0, 0.0);
}

#[test]
fn what_is_lost_stale_or_corrupt_is_told_apart() {
    if !vtax_sys::require::installed(&["redis-server"]) {
        return;
    }
    let server = Server::start();
    let only_reads = RedisRequests { reads: Share(1.0), keys: 4, ..requests() };
    // One worker, so that key 0 is at place 0 whatever the CPUs.
    let session = RedisSession::open(&server.spec(only_reads, 1)).unwrap();
    assert_eq!(run(&session, Model::Closed).counts.errors.total(), 0);

    server.command("DEL key:000000000001");
    let counts = run(&session, Model::Closed).counts;
    // Told once, and perhaps in the warm-up.
    assert!(counts.errors.lost <= 1 && counts.errors.total() == counts.errors.lost, "{counts:?}");
    server.command("SET key:000000000002 not-what-was-written");
    let counts = run(&session, Model::Closed).counts;
    assert!(counts.errors.corrupt > 0 && counts.errors.total() == counts.errors.corrupt, "{counts:?}");

    let writes = RedisRequests { reads: Share(0.5), keys: 1, ..requests() };
    let session = RedisSession::open(&server.spec(writes, 1)).unwrap();
    server.command("COPY key:000000000000 kept REPLACE");
    assert_eq!(run(&session, Model::Closed).counts.errors.total(), 0);
    let (ended, (tell, told)) = (AtomicBool::new(false), std::sync::mpsc::channel());
    let meddling = std::thread::scope(|scope| {
        let (server, ended) = (&server, &ended);
        scope.spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                server.command("COPY kept key:000000000000 REPLACE");
                let _ = tell.send(());
            }
        });
        told.recv().expect("it has begun");
        let counts = run(&session, Model::Closed).counts;
        ended.store(true, Ordering::Relaxed);
        counts
    });
    assert!(meddling.errors.stale > 0 && meddling.errors.corrupt == 0, "{meddling:?}");
}

#[test]
fn a_server_that_refuses_writes_says_so() {
    if !vtax_sys::require::installed(&["redis-server"]) {
        return;
    }
    let server = Server::start();
    let writes = RedisRequests { reads: Share(0.0), ..requests() };
    let session = RedisSession::open(&server.spec(writes.clone(), 2)).unwrap();
    assert_eq!(server.command("ACL SETUSER default -set"), "+OK\r\n");
    let counts = run(&session, Model::Closed).counts;
    assert!(counts.errors.status > 0 && counts.ok == 0, "{counts:?}");
    let error = RedisSession::open(&server.spec(writes, 2)).unwrap_err();
    let text = vtax_sys::chain(&error);
    assert!(text.contains("refused a SET with `NOPERM`"), "{text}");
}

#[test]
fn bytes_of_another_protocol_are_an_error_and_no_panic() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let pool = ConnectionPool {
        target: address,
        connections: 1,
        timeout: Nanos::from_secs(5),
        cpus: CpuSet::default(),
    };
    let error = RedisSession::open(&RedisSpec { pool, requests: requests(), seed: 1, part: Part::default() })
        .unwrap_err();
    assert!(vtax_sys::chain(&error).contains("none of `+-:$`"), "{}", vtax_sys::chain(&error));
}

#[test]
fn an_opening_ends_with_its_cancellation() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let target = silent.local_addr().unwrap();
    let pool =
        ConnectionPool { target, connections: 1, timeout: Nanos::from_secs(600), cpus: CpuSet::default() };
    let spec = RedisSpec { pool, requests: requests(), seed: 1, part: Part::default() };
    let control = Control::new();
    let opened = std::thread::scope(|scope| {
        let opening = scope.spawn(|| RedisSession::open_with(&spec, &control).map(drop));
        let _connection = silent.accept().unwrap();
        control.cancel();
        opening.join().unwrap()
    });
    assert!(matches!(opened, Err(LoadError::CancelledOpening)), "{opened:?}");
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, vtax_sys::free_port()));
    let spec = RedisSpec { pool: ConnectionPool { target: nobody, ..spec.pool.clone() }, ..spec };
    let error = RedisSession::open(&spec).map(drop).unwrap_err().to_string();
    assert!(error.contains(&format!("cannot reach the server {nobody}: connection refused")), "{error}");
}

#[test]
fn values_of_others_are_told_from_those_of_an_earlier_load() {
    if !vtax_sys::require::installed(&["redis-server"]) {
        return;
    }
    let server = Server::start();
    // Of any seed and length.
    let other = RedisRequests { value: Bytes(100), ..requests() };
    let spec = RedisSpec { seed: 8, ..server.spec(other, 2) };
    let foreign = || match RedisSession::refuse_foreign(&spec, &Control::new()) {
        Ok(()) => None,
        Err(LoadError::Foreign { key, .. }) => Some(key),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(foreign(), None, "an empty server");
    drop(RedisSession::open(&server.spec(requests(), 2)).unwrap());
    assert_eq!(foreign(), None);
    let last = "key:000000000499";
    for command in [
        format!("SET {last} precious"),
        format!("SET {last} not-what-a-load-has-written"),
        format!("COPY key:000000000000 {last} REPLACE"),
    ] {
        let answer = server.command(&command);
        assert!(!answer.starts_with('-'), "{command}: {answer}");
        assert_eq!(foreign().as_deref(), Some(last), "{command}");
    }
    server.command(&format!("DEL {last}"));
    assert_eq!(foreign(), None, "a key that isn't there");
    server.command(&format!("RPUSH {last} precious"));
    assert_eq!(foreign().as_deref(), Some(last), "a list");
}
