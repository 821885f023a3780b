//! Client and agent over a socket pair, without any namespace.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use vtax_agent::message::{Event, Provisioning, ServiceId};
use vtax_agent::{AgentError, Client, Role, serve};
use vtax_load::http::{HttpRequests, HttpSpec};
use vtax_load::network::{
    self, FailureKind, NetworkResult, NetworkSpec, NetworkTestKind, RrTest, ServerOptions, SocketOptions,
};
use vtax_load::redis::RedisSpec;
use vtax_load::{ConnectionPool, LoadAnswer, LoadSpec, Model, NetworkAnswer, Part, RequestStep, Step};
use vtax_plan::model::{CommandService, KeyAccess, Ready, RedisRequests, Service, ServiceKind};
use vtax_units::{Bytes, CpuSet, Nanos, Share};

const SOON: Duration = Duration::from_secs(10);

/// An agent on a thread of its own; the second end writes into the agent's stream unasked.
fn agent(on_event: impl Fn(Event) + Send + 'static) -> (Client, UnixStream, tempfile::TempDir) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let directory = tempfile::tempdir().expect("a directory");
    let role = Role { init: false, directory: directory.path().to_owned() };
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
    let mut wait = Duration::from_millis(100);
    let series = loop {
        client.start_probes(Nanos::from_millis(20)).expect("started");
        std::thread::sleep(wait);
        let series = client.stop_probes().expect("stopped");
        // A busy machine may leave its thread too little time for three.
        if series.len() >= 3 || wait > Duration::from_secs(10) {
            break series;
        }
        wait *= 2;
    };
    assert!(series.len() >= 3 && series.is_sorted_by_key(|s| s.at), "{} snapshots", series.len());
}

/// A load of requests to a port on which nothing listens.
fn refused() -> LoadSpec {
    LoadSpec::Http(HttpSpec {
        pool: ConnectionPool {
            target: ([127, 0, 0, 1], vtax_sys::free_port()).into(),
            connections: 1,
            timeout: Nanos::from_millis(200),
            cpus: CpuSet::default(),
        },
        requests: HttpRequests::get("/", "test"),
    })
}

fn closed_loop(duration: Nanos, samples: bool) -> RequestStep {
    let interval = Nanos::from_secs(1);
    let drain = Nanos::from_secs(1);
    RequestStep { model: Model::Closed, warmup: Nanos::ZERO, duration, seed: 1, samples, interval, drain }
}

#[test]
fn a_load_that_is_refused_is_a_result_with_progress() {
    let (client, _, _directory) = agent(|_| {});
    client.open_load(&refused()).expect("open");
    let step = closed_loop(Nanos::from_millis(1200), true);
    let within = step.longest();
    let mut reports = Vec::new();
    let answer: LoadAnswer = client
        .run_step(Step::Requests(step), within, &mut |progress| reports.push(*progress))
        .expect("a result");
    let refused = answer.result.counts.errors.refused;
    assert!(refused > 0, "{:?}", answer.result.counts);
    assert_eq!((answer.answered, answer.result.samples.len() as u64), (0, refused));
    let last = reports.last().expect("progress");
    assert!(last.failed >= refused && last.elapsed >= Nanos::from_millis(1200), "{reports:?}");
    client.close_load().expect("closed");
    client.close_load().expect("closing twice is no error");
}

#[test]
fn a_step_needs_a_load_of_its_family_that_is_open() {
    let (client, _, _directory) = agent(|_| {});
    let step = || Step::Requests(closed_loop(Nanos::from_millis(10), false));
    let run = || client.run_step::<LoadAnswer>(step(), SOON, &mut |_| {});
    let refusal = |answer: Result<LoadAnswer, AgentError>| answer.expect_err("a refusal").to_string();
    assert!(refusal(run()).contains("no load is open"));
    client.open_load(&LoadSpec::Network).expect("open");
    assert!(refusal(run()).contains("can't run requests"));
    client.open_load(&refused()).expect("in place of the other");
    run().expect("a result");
    let other = client.run_step::<NetworkAnswer>(step(), SOON, &mut |_| {});
    assert!(matches!(other, Err(AgentError::Confused { .. })), "{other:?}");
}

#[test]
fn a_load_stays_as_it_is_while_a_step_runs() {
    let (client, _, _directory) = agent(|_| {});
    client.open_load(&refused()).expect("open");
    std::thread::scope(|scope| {
        let (begun, running) = mpsc::channel();
        let client = &client;
        let step = scope.spawn(move || {
            let step = Step::Requests(closed_loop(Nanos::from_secs(60), false));
            client.run_step::<LoadAnswer>(step, SOON * 7, &mut |_| begun.send(()).unwrap_or(()))
        });
        running.recv_timeout(SOON).expect("it runs");
        let error = client.close_load().expect_err("a refusal").to_string();
        assert!(error.contains("a step of it runs"), "{error}");
        client.shutdown().expect("it stops, and the step with it");
        let ended = step.join().expect("no panic");
        assert!(matches!(ended, Ok(_) | Err(AgentError::Gone { .. })), "{ended:?}");
    });
}

/// An agent with a lease ends where it doesn't read for 15 s, and a store is filled for longer than that.
#[test]
fn an_agent_answers_while_a_load_is_opened() {
    let (client, _, _directory) = agent(|_| {});
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let pool = ConnectionPool {
        target: silent.local_addr().expect("an address"),
        connections: 1,
        timeout: Nanos::from_secs(60),
        cpus: CpuSet::default(),
    };
    let requests = RedisRequests {
        keys: 10,
        value: Bytes(64),
        reads: Share(0.5),
        access: KeyAccess::Uniform,
        pipeline: 1,
    };
    let spec = LoadSpec::Redis(RedisSpec { pool, requests, seed: 1, part: Part::default() });
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| client.open_load(&spec));
        let (filled, _) = silent.accept().expect("the load connects");
        client.hello(SOON).expect("an answer meanwhile");
        let error = client.close_load().expect_err("a refusal").to_string();
        assert!(error.contains("still being opened"), "{error}");
        drop(filled);
        let error = opening.join().expect("no panic").expect_err("its server is gone").to_string();
        assert!(error.contains("first value of each key"), "{error}");
    });
}

fn shell(name: &str, port: u16, script: &str) -> Service {
    Service {
        name: name.to_owned(),
        kind: ServiceKind::Command(CommandService {
            command: vec!["/bin/sh".into(), "-ec".into(), script.into()],
            port,
            ready: Ready::Log("up".to_owned()),
            env: BTreeMap::new(),
            files: BTreeMap::new(),
        }),
        ready_timeout: Nanos::from_secs(10),
        stop_timeout: Nanos::from_secs(5),
    }
}

#[test]
fn an_agent_has_several_services_each_by_its_id() {
    let (sender, events) = mpsc::channel();
    let (client, _, _directory) = agent(move |event| drop(sender.send(event)));
    let (one, other) = (ServiceId(1), ServiceId(2));
    let [first, second, third, fourth]: [u16; 4] = std::array::from_fn(|_| vtax_sys::free_port());
    let start = |id, port| {
        let service = shell("same-name", port, "echo up; exec sleep 60");
        client.start_service(id, &service, Ipv4Addr::LOCALHOST.into(), &Provisioning::default())
    };
    assert_eq!(start(one, first).expect("started").address.port(), first);
    assert_eq!(start(other, second).expect("started beside it").address.port(), second);
    let error = start(one, third).expect_err("a refusal").to_string();
    assert!(error.contains("service 1, `same-name`, still runs"), "{error}");
    client.stop_service(one, Nanos::from_secs(5)).expect("stopped");
    client.stop_service(one, Nanos::from_secs(5)).expect("stopping twice is no error");
    start(one, fourth).expect("its id is free again");
    client.shutdown().expect("both stop");
    let mut said: Vec<ServiceId> = events
        .try_iter()
        .filter_map(|event| match event {
            Event::ServiceOutput { id, line, .. } if line == "up" => Some(id),
            _ => None,
        })
        .collect();
    said.sort();
    assert_eq!(said, [one, one, other]);
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
fn what_no_frame_can_carry_is_not_sent() {
    let (client, _, _directory) = agent(|_| {});
    let error = client.execute("sut", &["x".repeat(9 << 20)]).expect_err("too much");
    assert!(error.to_string().contains("bytes, and the agent of node `test` is sent"), "{error}");
    // It was refused here: the agent doesn't wait for the rest of it.
    client.hello(SOON).expect("an answer");
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
    let (client, _, _directory) = agent(|_| {});
    client.open_load(&LoadSpec::Network).expect("open");
    let test = |spec: &NetworkSpec| {
        let (mut moved, step) = (0, Step::Network(spec.clone()));
        let found =
            client.run_step::<NetworkAnswer>(step, spec.longest(), &mut |progress| moved = progress.ok);
        (found, moved)
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = listener.local_addr().expect("its address");
    let mut spec = NetworkSpec {
        target,
        test: NetworkTestKind::Rr(RrTest {
            streams: 1,
            request: 1,
            response: 1,
            socket: SocketOptions::default(),
        }),
        seed: 1,
        warmup: Nanos::ZERO,
        duration: Nanos::from_millis(200),
        interval: Nanos::from_millis(50),
    };
    let stop = AtomicBool::new(false);
    let ((found, moved), served) = std::thread::scope(|scope| {
        let server = scope.spawn(|| network::serve(&listener, ServerOptions { tests: 1 }, &stop));
        let found = loop {
            let (found, moved) = test(&spec);
            // A busy machine may start a test's threads after its time: the next one has more.
            let nothing =
                matches!(&found, Ok(Ok(NetworkResult::Rr(rr))) if rr.transactions == 0 || moved == 0);
            if !nothing || spec.duration > Nanos::from_secs(10) {
                break (found, moved);
            }
            spec.duration = Nanos(spec.duration.0 * 4);
        };
        stop.store(true, Ordering::Relaxed);
        (found, server.join())
    });
    let (Ok(Ok(NetworkResult::Rr(rr))), Ok(Ok(()))) = (&found, &served) else {
        panic!("{found:?} {served:?}")
    };
    assert!(rr.transactions > 0);
    assert!(moved > 0, "progress was told");

    drop(listener);
    let failure = test(&spec).0.expect("the agent answers").expect_err("nobody serves any more");
    assert_eq!(failure.kind, FailureKind::PeerLost, "{failure:?}");
    let nonsense = NetworkSpec { duration: Nanos::ZERO, ..spec };
    let failure = test(&nonsense).0.expect("the agent answers").expect_err("it makes no sense");
    assert_eq!(failure.kind, FailureKind::Impossible, "{failure:?}");
}
