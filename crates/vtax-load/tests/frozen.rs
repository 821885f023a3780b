//! Coordinated omission, for real: a server that stands still a tenth of the time must show in the tail of an
//! open loop as theory says, and hides in that of a closed one (Tene, "How NOT to measure latency", 2013).
//! A tenth of the scale that is simulated by `make soundness`.

mod http_support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use http_support::{Load, run};
use vtax_load::{ArrivalProcess, Control, LoadResult, Model, Segment};
use vtax_sys::require::{possible, watched};
use vtax_units::{CpuSet, Nanos, Rate};

const PERIOD: Duration = Duration::from_secs(1);
const FREEZE: Duration = Duration::from_millis(100);
const RATE: f64 = 300.0;
const TOO_BUSY: &str = "this machine is too busy: it held up each of ten loads";

/// Answers at once, but for the last tenth of each second.
fn frozen_server() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let begin = Instant::now();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream, begin));
        }
    });
    address
}

/// One request at a time, as the load engine sends them; ends with the connection.
fn serve(mut stream: TcpStream, begin: Instant) {
    let mut request = [0; 4096];
    while stream.read(&mut request).is_ok_and(|n| n > 0) {
        let within = begin.elapsed().as_nanos() % PERIOD.as_nanos();
        if within >= (PERIOD - FREEZE).as_nanos() {
            thread::sleep(Duration::from_nanos((PERIOD.as_nanos() - within) as u64));
        }
        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
            return;
        }
    }
}

fn load(target: SocketAddr, model: Model, connections: u32) -> LoadResult {
    let spec = Load {
        target,
        path: "/".to_owned(),
        requests_per_connection: None,
        model,
        warmup: Nanos::from_millis(200),
        // Whole periods, so that a tenth of the requests meets a freeze whenever it begins.
        duration: Nanos::from_secs(4),
        timeout: Nanos::from_secs(2),
        connections,
        cpus: CpuSet::default(),
        samples: false,
        interval: Nanos::from_millis(500),
    };
    run(&spec, &Control::new()).unwrap()
}

/// Makes a load up to ten times, until its result fits: the machine that tests run on may be too busy to keep time. Nothing where
/// it was too busy each time.
fn quiet<T>(load: impl Fn() -> T, fits: impl Fn(&T) -> bool) -> Option<T> {
    let mut last = None;
    for _ in 0..10 {
        let (found, busy) = watched(&load);
        if fits(&found) {
            return Some(found);
        }
        if !busy {
            last = Some(found);
        }
    }
    last
}

#[test]
fn an_open_loop_sees_a_freeze_as_theory_says() {
    let address = frozen_server();
    let profile = vec![Segment { from: Rate(RATE), to: Rate(RATE), duration: Nanos::from_secs(10) }];
    let open = || {
        let model = Model::Open { arrivals: ArrivalProcess::Constant, profile: profile.clone() };
        load(address, model, 128)
    };
    // A tenth of the requests waits evenly for 0 to 100 ms: the slowest hundredth begins at 90 ms, the
    // slowest twentieth at 50 ms.
    let fits = |r: &LoadResult| {
        let at = |q: f64| r.latency.quantile(q).as_secs_f64() * 1e3;
        (78.0..115.0).contains(&at(0.99)) && (38.0..75.0).contains(&at(0.95)) && at(0.5) < 20.0
    };
    let Some(result) = quiet(open, fits) else {
        let _ = possible(Some(TOO_BUSY));
        return;
    };
    let found: Vec<Nanos> = [0.5, 0.95, 0.99].iter().map(|q| result.latency.quantile(*q)).collect();
    assert!(fits(&result), "median, p95, p99: {found:?}");
    // The same server in a closed loop: four requests a second meet a freeze, out of thousands.
    let closed = || load(address, Model::Closed, 4).latency.quantile(0.99);
    let hides = |p99: &Nanos| p99.as_secs_f64() * 3.0 < found[2].as_secs_f64();
    let Some(p99) = quiet(closed, hides) else {
        let _ = possible(Some(TOO_BUSY));
        return;
    };
    assert!(hides(&p99), "{p99:?} {:?}", found[2]);
}
