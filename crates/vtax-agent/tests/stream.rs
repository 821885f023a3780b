//! Client and agent over a socket pair, without any namespace.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use vtax_agent::message::Event;
use vtax_agent::{AgentError, Client, Role, serve};
use vtax_load::net::{self, FailureKind, NetResult, NetSpec, NetTest, RrTest, ServerOptions, SocketSetup};
use vtax_load::{HttpLoad, LoadSpec, Model, Protocol};
use vtax_units::{CpuSet, Nanos};

const SOON: Duration = Duration::from_secs(10);

/// An agent on a thread of its own; the second end writes into the agent's stream unasked.
fn agent(on_event: impl Fn(Event) + Send + 'static) -> (Client, UnixStream, tempfile::TempDir) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let directory = tempfile::tempdir().expect("a directory");
    let role = Role { init: false, directory: directory.path().join("services") };
    let (read, write) = (theirs.try_clone().expect("a copy"), theirs);
    std::thread::spawn(move || serve(read.into(), write.into(), role));
    let intruder = ours.try_clone().expect("a copy");
    let read = ours.try_clone().expect("a copy");
    let client = Client::start("test", read.into(), ours.into(), Box::new(on_event)).expect("a client");
    (client, intruder, directory)
}

#[test]
fn an_agent_answers_through_garbage() {
    let (client, mut intruder, _directory) = agent(|_| {});
    for garbage in [
        &b"\x1b[2J login: "[..],
        b"VTAXVTAX",
        b"VTA",
        &[0xff; 5000],
        b"VTAX\x01\x01\0\0\0\0\0\0\xff\xff\xff\xff",
    ] {
        intruder.write_all(garbage).expect("written");
        let facts = client.hello(SOON).expect("an answer");
        assert!(facts.cpus >= 1 && facts.memory_bytes > 0 && !facts.kernel.is_empty(), "{facts:?}");
    }
    assert!(client.snapshot().expect("a snapshot").at > Nanos::ZERO);
}

#[test]
fn probes_give_a_series() {
    let (client, _, _directory) = agent(|_| {});
    client.start_probes(Nanos::from_millis(20)).expect("started");
    std::thread::sleep(Duration::from_millis(100));
    let series = client.stop_probes().expect("stopped");
    assert!(series.len() >= 3 && series.is_sorted_by_key(|s| s.at), "{} snapshots", series.len());
}

#[test]
fn a_load_that_is_refused_is_a_result_with_progress() {
    let (sender, events) = mpsc::channel();
    let (client, _, _directory) = agent(move |event| drop(sender.send(event)));
    // A port that was free a moment ago and on which nobody listens now.
    let free: SocketAddr =
        TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port");
    let spec = LoadSpec {
        target: free,
        protocol: Protocol::Http(HttpLoad {
            target: "/".into(),
            host: "test".into(),
            requests_per_connection: None,
        }),
        model: Model::Closed,
        warmup: Nanos::ZERO,
        duration: Nanos::from_millis(1200),
        timeout: Nanos::from_millis(200),
        connections: 1,
        cpus: CpuSet::default(),
        seed: 1,
        samples: false,
        interval: Nanos::from_secs(1),
    };
    let answer = client.run_load(&spec).expect("a result");
    assert!(answer.result.counts.errors.refused > 0, "{:?}", answer.result.counts);
    assert_eq!(answer.answered, 0);
    assert!(matches!(events.try_recv(), Ok(Event::LoadProgress { .. })));
}

#[test]
fn a_request_to_an_agent_that_ended_says_so() {
    let (client, _, _directory) = agent(|_| {});
    client.shutdown().expect("it stops");
    client.shutdown().expect("stopping twice is no error");
    assert!(matches!(client.snapshot(), Err(AgentError::Gone { .. })));
}

#[test]
fn an_agent_that_does_not_answer_is_named() {
    let (ours, _theirs) = UnixStream::pair().expect("a socket pair");
    let read = ours.try_clone().expect("a copy");
    let client = Client::start("mute", read.into(), ours.into(), Box::new(|_| {})).expect("a client");
    let error = client.hello(Duration::from_millis(50)).expect_err("nobody is there");
    assert!(error.to_string().contains("`mute` did not answer `hello`"), "{error}");
}

#[test]
fn an_agent_ends_when_its_controller_lets_go() {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let directory = tempfile::tempdir().expect("a directory");
    let role = Role { init: false, directory: directory.path().to_owned() };
    let (read, write) = (theirs.try_clone().expect("a copy"), theirs);
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || sender.send(serve(read.into(), write.into(), role).is_ok()));
    let read = ours.try_clone().expect("a copy");
    let client = Client::start("test", read.into(), ours.into(), Box::new(|_| {})).expect("a client");
    client.hello(SOON).expect("an answer");
    drop(client);
    assert_eq!(ended.recv_timeout(SOON), Ok(true));
}

#[test]
fn a_network_test_is_made_and_what_it_fails_of_is_told() {
    let (sender, events) = mpsc::channel();
    let (client, _, _directory) = agent(move |event| drop(sender.send(event)));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = listener.local_addr().expect("its address");
    let spec = NetSpec {
        target,
        test: NetTest::Rr(RrTest { streams: 1, request: 1, response: 1, socket: SocketSetup::default() }),
        warmup: Nanos::ZERO,
        duration: Nanos::from_millis(200),
        interval: Nanos::from_millis(50),
    };
    let stop = AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        let server = scope.spawn(|| net::serve(&listener, ServerOptions { tests: 1 }, &stop));
        let found = client.run_net(&spec);
        stop.store(true, Ordering::Relaxed);
        (found, server.join())
    });
    let (Ok(Ok(NetResult::Rr(rr))), Ok(Ok(()))) = found else { panic!("{found:?}") };
    assert!(rr.transactions > 0);
    assert!(events.try_iter().any(|event| matches!(event, Event::NetProgress { live } if live.events > 0)));

    drop(listener);
    let failure = client.run_net(&spec).expect("the agent answers").expect_err("nobody serves any more");
    assert_eq!(failure.kind, FailureKind::PeerLost, "{failure:?}");
    let nonsense = NetSpec { duration: Nanos::ZERO, ..spec };
    let failure = client.run_net(&nonsense).expect("the agent answers").expect_err("it makes no sense");
    assert_eq!(failure.kind, FailureKind::Impossible, "{failure:?}");
}
