//! Loads against several systems at the same time, on loopback.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use vtax_load::http::{HttpRequests, HttpSpec};
use vtax_load::{
    ArrivalProcess, ConnectionPool, Control, Counts, LoadAnswer, LoadResult, LoadSpec, Model, PartPace,
    RequestStep, Segment, SpreadPart, SpreadSession, SpreadSpec,
};
use vtax_units::{CpuSet, Nanos, Rate};

/// A server that answers each request, or reads them and says nothing.
fn server(answers: bool) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream, answers));
        }
    });
    address
}

fn serve(mut stream: TcpStream, answers: bool) {
    let (mut buffer, mut seen) = ([0; 4096], Vec::new());
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..length]);
        while let Some(end) = seen.windows(4).position(|w| w == b"\r\n\r\n") {
            seen.drain(..end + 4);
            if answers && stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
    }
}

/// Of a system that answers: longer than even a busy machine needs for that.
fn part(member: &str, target: SocketAddr, pace: PartPace) -> SpreadPart {
    part_within(member, target, pace, Nanos::from_secs(10))
}

fn part_within(member: &str, target: SocketAddr, pace: PartPace, timeout: Nanos) -> SpreadPart {
    let pool = ConnectionPool { target, connections: 4, timeout, cpus: CpuSet::default() };
    let requests = HttpRequests::get("/", "test");
    SpreadPart { member: member.to_owned(), load: LoadSpec::Http(HttpSpec { pool, requests }), pace }
}

fn step(rate: f64) -> RequestStep {
    let profile = vec![Segment { from: Rate(rate), to: Rate(rate), duration: Nanos::from_secs(1) }];
    RequestStep {
        model: Model::Open { arrivals: ArrivalProcess::Constant, profile },
        warmup: Nanos::from_millis(100),
        duration: Nanos::from_millis(600),
        seed: 1,
        samples: true,
        interval: Nanos::from_millis(100),
        drain: Nanos::from_secs(1),
    }
}

fn run(parts: Vec<SpreadPart>, step: &RequestStep) -> (LoadAnswer, Control) {
    let control = Control::new();
    let mut session = SpreadSession::open(&SpreadSpec { parts }).unwrap();
    (session.run_step(step, &control).unwrap(), control)
}

/// What must hold whatever the systems did: the whole is the sum of those that share the step.
fn check_sum(answer: &LoadAnswer) {
    let mut counts = Counts::default();
    let (mut latencies, mut answered) = (0, 0);
    for member in answer.members.iter().filter(|member| member.counted) {
        counts.add(&member.result.counts);
        latencies += member.result.latency.len();
        answered += member.answered;
        assert!(member.result.samples.is_empty());
    }
    assert_eq!((&answer.result.counts, answer.result.latency.len()), (&counts, latencies));
    assert_eq!(answer.answered, answered);
    let mut of_intervals = Counts::default();
    answer.result.intervals.iter().for_each(|interval| of_intervals.add(&interval.counts));
    assert_eq!(of_intervals, counts);
    let ended = counts.ok + counts.errors.total();
    assert_eq!(answer.result.samples.len() as u64, ended);
    assert!(answer.result.samples.is_sorted_by_key(|sample| sample.start_ns));
}

#[test]
fn a_load_is_spread_and_the_whole_is_the_sum() {
    let (one, other) = (server(true), server(true));
    let share = PartPace::Share(0.5);
    let (answer, control) = run(vec![part("sut", one, share), part("sut-2", other, share)], &step(200.0));
    check_sum(&answer);
    let names: Vec<&str> = answer.members.iter().map(|member| member.member.as_str()).collect();
    assert_eq!(names, ["sut", "sut-2"]);
    for member in &answer.members {
        // 100/s over 0.6 s, whose ends may fall either side.
        let intended = member.result.counts.intended;
        assert!((55..=65).contains(&intended), "{intended}");
        assert!(member.result.counts.ok > 0, "{:?}", member.result.counts);
    }
    assert!(control.progress().ok >= answer.result.counts.ok);
    assert_eq!(control.progress().ok, answer.answered);
    // Each thread serves both.
    let workers = |load: &LoadResult| load.generator.workers;
    assert!(workers(&answer.result) > 0);
    assert!(answer.members.iter().all(|member| workers(&member.result) == workers(&answer.result)));
}

#[test]
fn a_system_that_hangs_holds_up_no_other() {
    let parts = vec![
        part("sut", server(true), PartPace::Share(0.5)),
        part_within("sut-2", server(false), PartPace::Share(0.5), Nanos::from_millis(300)),
        part("sut-3", server(true), PartPace::Rate(Rate(50.0))),
    ];
    let (answer, _) = run(parts, &step(100.0));
    check_sum(&answer);
    let [alive, hung, beside] = answer.members.as_slice() else { panic!("{}", answer.members.len()) };
    assert!(alive.result.counts.ok > 0 && alive.result.counts.errors.total() == 0);
    assert_eq!(hung.result.counts.ok, 0);
    assert!(hung.result.counts.errors.client_timeout + hung.result.counts.unfinished > 0);
    assert!(!beside.counted && beside.result.counts.ok > 0);
}

#[test]
fn a_spread_load_is_cancelled_as_a_whole() {
    let parts =
        vec![part("sut", server(true), PartPace::Share(1.0)), part("sut-2", server(true), PartPace::Closed)];
    let long = RequestStep { duration: Nanos::from_secs(600), interval: Nanos::from_secs(1), ..step(100.0) };
    let control = Control::new();
    let mut session = SpreadSession::open(&SpreadSpec { parts }).unwrap();
    thread::scope(|scope| {
        let running = scope.spawn(|| session.run_step(&long, &control));
        let given_up = Instant::now() + Duration::from_secs(60);
        while control.progress().ok < 30 && Instant::now() < given_up {
            thread::sleep(Duration::from_millis(5));
        }
        control.cancel();
        let answer = running.join().unwrap().unwrap();
        check_sum(&answer);
        assert!(answer.result.duration < Nanos::from_secs(600));
    });
}

#[test]
fn what_was_found_travels_whole() {
    use vtax_load::StepResult;
    let share = PartPace::Share(0.5);
    let parts = vec![part("sut", server(true), share), part("sut-2", server(true), share)];
    let (answer, _) = run(parts, &step(50.0));
    let bytes = answer.to_bytes().unwrap();
    assert_eq!(LoadAnswer::from_bytes(&bytes), Some(answer));
}
