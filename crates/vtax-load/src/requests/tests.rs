//! The engine with a protocol that pipelines and verifies: numbers are sent as lines and come back as they are.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use vtax_sys::require::again_until;
use vtax_units::{CpuSet, Nanos, Rate};

use super::dialogue::{Answer, Dialogue, Taken};
use super::engine::{Part, Requests, run, run_together};
use super::recorder::Outcome;
use super::{ConnectionPool, Model, RequestStep, Segment};
use crate::{ArrivalProcess, Control, Counts, LoadResult};

struct Lines {
    depth: u32,
    next: u64,
}

#[derive(Debug, Default)]
struct Expected {
    numbers: VecDeque<u64>,
    line: Vec<u8>,
}

impl Dialogue for Lines {
    type Connection = Expected;

    fn depth(&self) -> u32 {
        self.depth
    }

    fn write(&mut self, connection: &mut Expected, _last: bool, out: &mut Vec<u8>) {
        self.next += 1;
        connection.numbers.push_back(self.next);
        assert!(connection.numbers.len() <= self.depth as usize, "no more than may be under way");
        out.extend_from_slice(format!("{}\n", self.next).as_bytes());
    }

    fn read(&mut self, connection: &mut Expected, bytes: &[u8]) -> Result<Taken, Outcome> {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            connection.line.extend_from_slice(bytes);
            return Ok(Taken { bytes: bytes.len(), answer: None });
        };
        connection.line.extend_from_slice(&bytes[..end]);
        let text = String::from_utf8(std::mem::take(&mut connection.line)).map_err(|_| Outcome::Protocol)?;
        let number: u64 = text.parse().map_err(|_| Outcome::Protocol)?;
        let right = connection.numbers.pop_front() == Some(number);
        let outcome = if right { Outcome::Ok } else { Outcome::Corrupt };
        Ok(Taken { bytes: end + 1, answer: Some(Answer { outcome, status: 0, keep: true }) })
    }
}

/// A server that does this with each connection; the lines that came are given one by one.
fn server(serve: fn(&str, u64, &mut TcpStream) -> std::io::Result<()>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                let mut answers = stream.try_clone().unwrap();
                let lines = BufReader::new(stream).lines().map_while(Result::ok);
                for (count, line) in (1..).zip(lines) {
                    if serve(&line, count, &mut answers).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// In one piece: a line that follows on its own would wait for the acknowledgement of the text.
fn say(answers: &mut TcpStream, line: &str) -> std::io::Result<()> {
    answers.write_all(format!("{line}\n").as_bytes())
}

fn echo(line: &str, _count: u64, answers: &mut TcpStream) -> std::io::Result<()> {
    say(answers, line)
}

fn load(target: SocketAddr, connections: u32, depth: u32, model: Model) -> LoadResult {
    load_enough(target, (connections, depth), model, |counts| counts.ok + counts.errors.total() > 20)
}

/// The same, again until a machine that is busy with something else let this much of it be done; else the last.
fn load_enough(
    target: SocketAddr,
    shape: (u32, u32),
    model: Model,
    enough: impl Fn(&Counts) -> bool,
) -> LoadResult {
    let times = (Nanos::from_millis(50), Nanos::from_secs(2), Nanos::from_secs(1));
    again_until(|| load_until(target, shape, model.clone(), times), |result| enough(&result.counts))
}

fn load_until(
    target: SocketAddr,
    (connections, depth): (u32, u32),
    model: Model,
    (warmup, timeout, drain): (Nanos, Nanos, Nanos),
) -> LoadResult {
    let pool = ConnectionPool { target, connections, timeout, cpus: CpuSet::default() };
    let step = RequestStep {
        model,
        warmup,
        duration: Nanos::from_millis(300),
        seed: 1,
        samples: false,
        interval: Nanos::from_millis(100),
        drain,
    };
    let load = Requests { pool: &pool, per_connection: None, dialogue: |_| Lines { depth, next: 0 } };
    let result = run(&load, &step, &Control::new()).unwrap();
    let counts = &result.counts;
    assert_eq!(counts.intended, counts.sent + counts.missed, "{counts:?}");
    assert_eq!(counts.sent, counts.ok + counts.errors.total() + counts.unfinished, "{counts:?}");
    result
}

#[test]
fn requests_are_pipelined_and_their_answers_verified() {
    let address = server(echo);
    for depth in [1, 3, 16] {
        let counts = load(address, 2, depth, Model::Closed).counts;
        assert!(counts.ok > 20 && counts.errors.total() == 0, "{depth}: {counts:?}");
    }
}

#[test]
fn an_open_loop_pipelines_where_connections_are_few() {
    // The one connection has several requests under way while the server waits before each answer.
    let address = server(|line, _, answers| {
        thread::sleep(std::time::Duration::from_micros(500));
        say(answers, line)
    });
    let profile = vec![Segment { from: Rate(1_000.0), to: Rate(1_000.0), duration: Nanos::from_secs(1) }];
    let model = Model::Open { arrivals: ArrivalProcess::Poisson, profile };
    // A worker that starts late connects after the warm-up.
    let counts = load_enough(address, (1, 64), model, |counts| counts.ok > 20 && counts.connects == 0).counts;
    assert!(counts.ok > 20 && counts.errors.total() == 0, "{counts:?}");
    assert_eq!(counts.connects, 0, "it was connected in the warm-up and stays: {counts:?}");
}

/// At a given rate, evenly.
fn open(rate: f64) -> Model {
    let profile = vec![Segment { from: Rate(rate), to: Rate(rate), duration: Nanos::from_secs(1) }];
    Model::Open { arrivals: ArrivalProcess::Constant, profile }
}

/// What took longer than a second was left unfinished, although nothing failed.
#[test]
fn requests_under_way_at_the_end_have_their_time() {
    let address = server(|line, _, answers| {
        thread::sleep(std::time::Duration::from_millis(1_300));
        say(answers, line)
    });
    let timeout = Nanos::from_secs(60);
    for model in [Model::Closed, open(10.0)] {
        let none = matches!(model, Model::Open { .. }).then_some(0);
        let once = || load_until(address, (4, 1), model.clone(), (Nanos::ZERO, timeout, timeout));
        // Workers that start too late have no request to send.
        let result = again_until(once, |found| found.counts.ok > 0);
        let counts = &result.counts;
        assert!(counts.ok > 0 && counts.ok == counts.intended, "{counts:?}");
        assert_eq!(result.answered_in_time, none, "all came after the recorded time");
    }
}

#[test]
fn what_is_cut_short_is_told_from_what_took_too_long() {
    let silent = server(|_, _, _| Ok(()));
    let minute = Nanos::from_secs(60);
    let counts =
        load_until(silent, (1, 1), open(100.0), (Nanos::ZERO, minute, Nanos::from_millis(20))).counts;
    assert!(counts.missed > 0 && counts.waiting == counts.intended, "{counts:?}");
    let timeout = Nanos::from_millis(150);
    let counts = load_until(silent, (1, 1), open(100.0), (Nanos::ZERO, timeout, minute)).counts;
    assert!(counts.waiting == 0 && counts.unfinished == 0, "{counts:?}");
    assert_eq!(counts.errors.client_timeout + counts.missed, counts.intended, "{counts:?}");
}

/// A closed loop whose connections didn't come up in its warm-up sent nothing, and said that no request was due.
#[test]
fn connections_that_never_come_up_are_requests_that_time_out() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    // The kernel keeps one for a program that accepts none, and doesn't answer those that come after it.
    rustix::net::listen(&listener, 0).unwrap();
    let _kept = TcpStream::connect(address).unwrap();
    let (short, long) = (Nanos::from_millis(50), Nanos::from_millis(100));
    let counts = load_until(address, (2, 1), Model::Closed, (short, long, Nanos::from_secs(1))).counts;
    assert!(counts.ok == 0 && counts.errors.client_timeout > 0, "{counts:?}");
    assert_eq!(counts.errors.client_timeout, counts.sent, "{counts:?}");
}

/// Requests of before the epoch were recorded as some of time zero, and their answers as some that had taken no time.
#[test]
fn a_closed_loop_without_a_warm_up_has_no_answers_of_before_it_began() {
    let address = server(echo);
    let second = Nanos::from_secs(1);
    let once = || load_until(address, (2, 1), Model::Closed, (Nanos::ZERO, second, second));
    let result = again_until(once, |found| found.counts.ok > 20);
    assert!(result.counts.ok > 20, "{:?}", result.counts);
    assert!(result.latency.quantile(0.0) > Nanos::ZERO, "{:?}", result.latency.quantile(0.0));
}

#[test]
fn wrong_answers_are_told_from_those_that_are_none() {
    let wrong = server(|line, count, answers| match count % 4 {
        0 => say(answers, "0"),
        _ => say(answers, line),
    });
    let counts = load(wrong, 1, 8, Model::Closed).counts;
    assert!(counts.errors.corrupt > 0 && counts.ok > 2 * counts.errors.status, "{counts:?}");
    let nonsense = server(|_, count, answers| match count % 4 {
        0 => say(answers, "what?"),
        _ => Ok(()),
    });
    let counts = load(nonsense, 1, 8, Model::Closed).counts;
    assert!(
        counts.ok == 0 && counts.errors.protocol >= 4,
        "all under way end with their connection: {counts:?}"
    );
    let unasked = server(|line, _, answers| say(answers, &format!("{line}\n{line}")));
    let counts = load(unasked, 1, 1, Model::Closed).counts;
    assert!(counts.errors.protocol > 0, "{counts:?}");
}

#[test]
fn a_server_that_leaves_resets_all_that_is_under_way() {
    let address = server(|line, count, answers| match count % 4 {
        0 => Err(std::io::ErrorKind::ConnectionAborted.into()),
        _ => say(answers, line),
    });
    let counts = load(address, 2, 4, Model::Closed).counts;
    assert!(counts.errors.reset > 0 && counts.ok > 0, "{counts:?}");
    assert_eq!(counts.errors.total(), counts.errors.reset, "{counts:?}");
}

#[test]
fn loads_that_share_threads_are_told_apart() {
    // The second says nothing, ever: its worker waits while the first one's goes on.
    let pool = |target, timeout| ConnectionPool {
        target,
        connections: 2,
        timeout: Nanos::from_millis(timeout),
        cpus: CpuSet::default(),
    };
    // Of the first nothing times out, however busy the machine is.
    let pools = [pool(server(echo), 10_000), pool(server(|_, _, _| Ok(())), 150)];
    let profile = vec![Segment { from: Rate(200.0), to: Rate(200.0), duration: Nanos::from_secs(1) }];
    let steps = [Model::Closed, Model::Open { arrivals: ArrivalProcess::Constant, profile }].map(|model| {
        RequestStep {
            model,
            warmup: Nanos::from_millis(50),
            duration: Nanos::from_millis(300),
            seed: 1,
            samples: false,
            interval: Nanos::from_millis(100),
            drain: Nanos::from_secs(1),
        }
    });
    let controls = [Control::new(), Control::new()];
    let of_pool =
        |pool| Requests { pool, per_connection: None, dialogue: |_: usize| Lines { depth: 4, next: 0 } };
    let loads: Vec<_> = pools.iter().map(of_pool).collect();
    let parts = loads.iter().zip(&steps).zip(&controls);
    let parts: Vec<_> = parts.map(|((load, step), control)| Part { load, step, control }).collect();
    let results = again_until(|| run_together(&parts).unwrap(), |found| found[0].counts.ok > 20);
    let [alive, silent] = results.as_slice() else { panic!("{}", results.len()) };
    assert!(alive.counts.ok > 20 && alive.counts.errors.total() == 0, "{:?}", alive.counts);
    assert_eq!(silent.counts.ok, 0, "{:?}", silent.counts);
    assert!(silent.counts.errors.client_timeout + silent.counts.unfinished > 0, "{:?}", silent.counts);
    assert_eq!(silent.counts.intended, silent.counts.sent + silent.counts.missed, "{:?}", silent.counts);
    assert_eq!(alive.generator.workers, silent.generator.workers);
    assert_eq!(controls[1].progress().ok, 0);
}
