//! HTTP with TLS, requests as they are, sessions and WebSockets: against the embedded server and against servers of the test's own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use vtax_load::http::{HttpDetails, HttpRequests, HttpSession, HttpSpec};
use vtax_load::{ArrivalProcess, ConnectionPool, Control, LoadResult, Model, RequestStep, Segment, Verify};
use vtax_plan::model::{
    HttpBody, HttpCapture, HttpCompression, HttpExpectation, HttpScript, HttpSessionPlan, HttpSource,
    HttpStep, HttpTls, HttpWebSocket, TlsVersion,
};
use vtax_service::Certificate;
use vtax_service::embedded::ServerCertificate;
use vtax_service::embedded::http::serve_with;
use vtax_sys::require::again_until;
use vtax_units::{Bytes, CpuSet, Nanos, Rate};
use vtax_wire::websocket::{
    Event, FrameHead, Opcode, Receiver, Role, accept_for, write_close, write_control,
};

/// The embedded server with TLS.
struct Server {
    address: SocketAddr,
    root: Vec<u8>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start() -> Self {
        Self::start_with(true)
    }

    fn start_with(tls: bool) -> Self {
        let ip = IpAddr::from(Ipv4Addr::LOCALHOST);
        let Certificate { certificate, key, .. } = Certificate::new(ip).unwrap();
        let root = certificate.clone();
        let certificate = ServerCertificate { certificate, key };
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let flag = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let ready = |address| tell.send(address).unwrap();
            let certificate = Some(&certificate).filter(|_| tls);
            serve_with(SocketAddr::new(ip, 0), 1, certificate, &flag, ready).unwrap();
        });
        Self { address: told.recv().unwrap(), root, stop, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn step(model: Model) -> RequestStep {
    RequestStep {
        model,
        warmup: Nanos::from_millis(100),
        duration: Nanos::from_millis(400),
        seed: 1,
        samples: false,
        interval: Nanos::from_millis(100),
        drain: Nanos::from_secs(1),
    }
}

const CONNECTIONS: u32 = 2;

/// Runs a load, again where a machine that is busy with something else let hardly a request be made in its time.
fn run(target: SocketAddr, requests: HttpRequests, model: Model) -> (LoadResult, HttpDetails) {
    run_until(target, &requests, &step(model), |(result, _)| {
        result.counts.ok + result.counts.errors.total() > 5
    })
}

/// The same, again until this was found; else the last.
fn run_until(
    target: SocketAddr,
    requests: &HttpRequests,
    step: &RequestStep,
    found: impl Fn(&(LoadResult, HttpDetails)) -> bool,
) -> (LoadResult, HttpDetails) {
    again_until(|| run_once(target, requests, step), found)
}

/// Runs a load with [`CONNECTIONS`]; what must hold for every one does.
fn run_once(target: SocketAddr, requests: &HttpRequests, step: &RequestStep) -> (LoadResult, HttpDetails) {
    let timeout = Nanos::from_secs(5);
    let pool = ConnectionPool { target, connections: CONNECTIONS, timeout, cpus: CpuSet::default() };
    let session = HttpSession::open(&HttpSpec { pool, requests: requests.clone() }).unwrap();
    let mut result = session.run_step(step, &Control::new()).unwrap();
    let counts = &result.counts;
    assert_eq!(counts.intended, counts.sent + counts.missed, "{counts:?}");
    assert_eq!(counts.sent, counts.ok + counts.errors.total() + counts.unfinished, "{counts:?}");
    let details = result.details.take().and_then(|details| details.http).expect("what HTTP found");
    (result, *details)
}

fn open(rate: f64) -> Model {
    let profile = vec![Segment { from: Rate(rate), to: Rate(rate), duration: Nanos::from_secs(1) }];
    Model::Open { arrivals: ArrivalProcess::Constant, profile }
}

fn tls(version: Option<TlsVersion>, resume: bool) -> HttpTls {
    HttpTls { version, resume, ..HttpTls::default() }
}

fn secured(target: &str, tls: HttpTls) -> HttpRequests {
    HttpRequests { tls: Some(tls), ..HttpRequests::get(target, "test") }
}

#[test]
fn requests_go_through_tls_of_both_versions() {
    let server = Server::start();
    for (version, word) in [(TlsVersion::V12, "TLS 1.2"), (TlsVersion::V13, "TLS 1.3")] {
        for target in ["/bytes/10", "/bytes/300000", "/page/50"] {
            for model in [Model::Closed, open(100.0)] {
                let requests = secured(target, tls(Some(version), true));
                let (result, details) = run(server.address, requests, model);
                let counts = &result.counts;
                assert!(counts.ok > 5 && counts.errors.total() == 0, "{target}: {counts:?} {details:?}");
                let tls = details.tls.expect("TLS");
                assert_eq!(tls.failed, 0, "{tls:?}");
                // Connections are opened ahead, in the warm-up.
                if let Some(agreed) = &tls.agreed {
                    assert!(agreed.starts_with(word), "{agreed}");
                }
            }
        }
    }
}

/// As long as connections were opened, a closed loop waited for them, and in the end no request had been due.
#[test]
fn a_server_that_answers_no_handshake_answers_no_request_in_time() {
    // Its kernel takes the connections that it doesn't accept.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for http2_streams in [None, Some(5)] {
        let (target, timeout) = (listener.local_addr().unwrap(), Nanos::from_millis(100));
        let pool = ConnectionPool { target, connections: CONNECTIONS, timeout, cpus: CpuSet::default() };
        let requests = HttpRequests { http2_streams, ..secured("/bytes/10", tls(None, true)) };
        let session = HttpSession::open(&HttpSpec { pool, requests }).unwrap();
        let counts = session.run_step(&step(Model::Closed), &Control::new()).unwrap().counts;
        assert!(counts.ok == 0 && counts.errors.client_timeout > 0, "{http2_streams:?}: {counts:?}");
        assert_eq!(
            counts.errors.client_timeout + counts.unfinished,
            counts.sent,
            "{http2_streams:?}: {counts:?}"
        );
    }
}

#[test]
fn a_connection_for_each_request_resumes_or_does_not() {
    let server = Server::start();
    for version in [TlsVersion::V12, TlsVersion::V13] {
        for resume in [true, false] {
            let requests = HttpRequests {
                requests_per_connection: Some(1),
                ..secured("/bytes/10", tls(Some(version), resume))
            };
            let (result, details) =
                run_until(server.address, &requests, &step(Model::Closed), |(_, details)| {
                    details.tls.as_ref().is_some_and(|tls| tls.resumed.len().max(tls.full.len()) > 5)
                });
            let found = details.tls.expect("TLS");
            assert!(result.counts.ok > 5 && result.counts.errors.total() == 0, "{:?}", result.counts);
            assert!(found.done() > 5 && found.failed == 0, "{found:?}");
            assert_eq!(found.alpn.as_deref(), Some("http/1.1"));
            // The first of each connection has no session to resume; on a busy machine the warm-up can be over by then.
            let (all, others, most) = match resume {
                true => (found.resumed.len(), found.full.len(), CONNECTIONS.into()),
                false => (found.full.len(), found.resumed.len(), 0),
            };
            assert!(all > 5 && others <= most, "{version:?} {resume}: {all} and {others}");
            assert!(!details.connect.is_empty() && !details.lifetime.is_empty());
        }
    }
}

#[test]
fn certificates_are_checked_where_that_is_asked_for() {
    let server = Server::start();
    let verify = |name: &str| Verify::Authorities { name: name.to_owned(), roots: vec![server.root.clone()] };
    let requests = |name| HttpRequests { verify: verify(name), ..secured("/bytes/10", HttpTls::default()) };
    let (result, _) = run(server.address, requests("127.0.0.1"), Model::Closed);
    assert!(result.counts.ok > 5, "{:?}", result.counts);
    let (result, details) = run(server.address, requests("127.0.0.2"), Model::Closed);
    assert_eq!(result.counts.ok, 0);
    let why = details.first_failure.expect("why");
    assert!(why.contains("TLS") && why.contains("certificate"), "{why}");
}

#[test]
fn a_server_without_tls_fails_and_holds_nobody_up() {
    let clear = own_server(|_, _| "HTTP/1.1 400 no\r\nContent-Length: 0\r\n\r\n".to_owned());
    let (result, details) = run(clear, secured("/", HttpTls::default()), Model::Closed);
    assert_eq!(result.counts.ok, 0, "{:?}", result.counts);
    assert!(details.first_failure.is_some() || result.counts.errors.total() > 0, "{details:?}");
}

/// A server that answers each request, of which it is given head and body, with this text.
fn own_server(answer: fn(&str, &[u8]) -> String) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let _ = serve_one(stream, answer);
            });
        }
    });
    address
}

fn serve_one(stream: TcpStream, answer: fn(&str, &[u8]) -> String) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut answers = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let lower = head.to_ascii_lowercase();
        if lower.contains("expect: 100-continue") {
            answers.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut body = Vec::new();
        if lower.contains("transfer-encoding: chunked") {
            loop {
                let mut line = String::new();
                reader.read_line(&mut line)?;
                let length = usize::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
                let start = body.len();
                body.resize(start + length + 2, 0);
                reader.read_exact(&mut body[start..])?;
                body.truncate(start + length);
                if length == 0 {
                    break;
                }
            }
        } else if let Some(length) = lower.lines().find_map(|line| line.strip_prefix("content-length: ")) {
            body.resize(length.parse().map_err(std::io::Error::other)?, 0);
            reader.read_exact(&mut body)?;
        }
        answers.write_all(answer(&head, &body).as_bytes())?;
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn script(steps: Vec<HttpStep>) -> HttpScript {
    HttpScript {
        sessions: vec![HttpSessionPlan { weight: 1, steps }],
        zipf: None,
        compression: HttpCompression::None,
        cookies: false,
    }
}

fn scripted(script: HttpScript) -> HttpRequests {
    HttpRequests { script: Some(Box::new(script)), ..HttpRequests::get("/", "test") }
}

#[test]
fn bodies_arrive_whole_however_they_are_sent() {
    // The server tells how long each body was.
    let address = own_server(|_, body| ok(&format!("{} bytes", body.len())));
    for (body, length) in [
        (HttpBody::Text("hello".to_owned()), 5),
        (HttpBody::Size(Bytes(0)), 0),
        (HttpBody::Size(Bytes(70_000)), 70_000),
        (HttpBody::Size(Bytes(3_000_000)), 3_000_000),
    ] {
        for (chunked, expect_continue) in [(false, false), (true, false), (false, true), (true, true)] {
            let expect = HttpExpectation { text: Some(format!("{length} bytes")), ..Default::default() };
            let method = "PUT".to_owned();
            let step = HttpStep {
                method,
                body: body.clone(),
                chunked,
                expect_continue,
                expect,
                ..HttpStep::get("/")
            };
            let (result, details) = run(address, scripted(script(vec![step])), Model::Closed);
            let counts = &result.counts;
            assert!(
                counts.ok > 0 && counts.errors.total() == 0,
                "{body:?} {chunked}: {counts:?} {details:?}"
            );
        }
    }
}

#[test]
fn a_session_keeps_cookies_and_what_it_captured() {
    let address = own_server(|head, body| {
        if head.starts_with("GET /login ") {
            let answer = ok("{\"user\": {\"token\": \"a/b 1\"}}");
            return answer.replace("\r\n\r\n", "\r\nSet-Cookie: sid=77; Path=/\r\nX-Page: p9\r\n\r\n");
        }
        let right = head.starts_with("POST /cart?t=a/b%201 ")
            && head.contains("Cookie: sid=77\r\n")
            && head.contains("X-Page: p9\r\n")
            && body == b"token=a/b 1";
        if right { ok("welcome") } else { ok("who are you?") }
    });
    let capture = |name: &str, from| HttpCapture { name: name.to_owned(), from };
    let login = HttpStep {
        captures: vec![
            capture("t", HttpSource::Json("/user/token".to_owned())),
            capture("page", HttpSource::Header("x-page".to_owned())),
            capture("r", HttpSource::Regex("\"tok(e)n\"".to_owned())),
        ],
        ..HttpStep::get("/login")
    };
    let cart = HttpStep {
        method: "POST".to_owned(),
        headers: vec![("X-Page".to_owned(), "${page}".to_owned())],
        body: HttpBody::Text("token=${t}".to_owned()),
        think: Nanos::from_millis(5),
        expect: HttpExpectation { text: Some("welcome".to_owned()), ..HttpExpectation::default() },
        ..HttpStep::get("/cart?t=${t}")
    };
    let script = HttpScript { cookies: true, ..script(vec![login, cart]) };
    for model in [Model::Closed, open(50.0)] {
        let (result, details) = run(address, scripted(script.clone()), model);
        let found = details.exchanges.expect("requests");
        assert!(result.counts.errors.total() == 0, "{:?} {:?}", result.counts, details.first_failure);
        assert!(found.sessions > 3 && found.broken_sessions == 0, "{found:?}");
        assert_eq!(found.requests.len(), 2);
        assert!(found.requests.iter().all(|request| request.ok > 3 && request.failed == 0), "{found:?}");
        // Of the same answers: the shortest has a head of 38 bytes, the longest one of 79.
        let answers: u64 = found.requests.iter().map(|request| request.ok).sum();
        let heads = found.head_bytes as f64 / answers as f64;
        assert!((38.0..80.0).contains(&heads), "{heads}");
    }
    // A connection for each request: the session goes on all the same.
    let requests = HttpRequests { requests_per_connection: Some(1), ..scripted(script) };
    let (result, details) = run(address, requests, Model::Closed);
    let found = details.exchanges.expect("requests");
    assert!(found.sessions > 0, "{:?} {found:?}", result.counts);
}

/// Counts had a protocol error, details an answer that was right; and the next arrival went on with the session.
#[test]
fn a_session_is_over_where_a_server_says_more_than_it_was_asked() {
    let address = own_server(|head, _| {
        let more = if head.starts_with("GET /one ") { "more" } else { "" };
        ok("hello") + more
    });
    let (one, two) = (HttpStep::get("/one"), HttpStep::get("/two"));
    let cases = [(vec![one.clone()], open(50.0)), (vec![one.clone(), two.clone()], open(50.0))];
    for (steps, model) in cases.into_iter().chain([(vec![one, two], Model::Closed)]) {
        // Without a warm-up: what begins in it and ends after it is in one of the two counts.
        let step = RequestStep { warmup: Nanos::ZERO, ..step(model) };
        let some = |(result, _): &(LoadResult, HttpDetails)| result.counts.errors.protocol > 0;
        let (result, details) = run_until(address, &scripted(script(steps)), &step, some);
        let (counts, found) = (&result.counts, details.exchanges.expect("requests"));
        assert!(counts.errors.protocol > 0 && counts.ok == 0, "{counts:?}");
        assert!(found.sessions == 0 && found.requests.iter().all(|own| own.ok == 0), "{found:?}");
        // A request belongs to the time by its start there, by its end here.
        assert!(found.broken_sessions.abs_diff(counts.errors.protocol) <= 2, "{counts:?} {found:?}");
    }
}

#[test]
fn answers_that_are_not_as_expected_are_errors() {
    let address = own_server(|_, _| ok("hello"));
    let expect = |expect| scripted(script(vec![HttpStep { expect, ..HttpStep::get("/") }]));
    for (expectation, right) in [
        (HttpExpectation { status: vec![200, 404], ..HttpExpectation::default() }, true),
        (HttpExpectation { status: vec![201], ..HttpExpectation::default() }, false),
        (HttpExpectation { length: Some(Bytes(5)), ..HttpExpectation::default() }, true),
        (HttpExpectation { length: Some(Bytes(6)), ..HttpExpectation::default() }, false),
        (HttpExpectation { text: Some("ell".to_owned()), ..HttpExpectation::default() }, true),
        (HttpExpectation { text: Some("elk".to_owned()), ..HttpExpectation::default() }, false),
        (
            HttpExpectation {
                header: Some(("content-length".to_owned(), "5".to_owned())),
                ..HttpExpectation::default()
            },
            true,
        ),
    ] {
        let (result, details) = run(address, expect(expectation.clone()), Model::Closed);
        let counts = &result.counts;
        assert_eq!(counts.ok > 0, right, "{expectation:?}: {counts:?}");
        assert_eq!(counts.errors.unexpected > 0, !right, "{expectation:?}: {counts:?}");
        assert_eq!(details.first_failure.is_some(), !right);
    }
}

fn socket(messages: u32, size: u64, text: bool) -> HttpStep {
    let think = Nanos::ZERO;
    let websocket = Some(HttpWebSocket { messages, size: Bytes(size), think, text });
    HttpStep { websocket, ..HttpStep::get("/echo") }
}

#[test]
fn messages_come_back_on_websockets() {
    for tls in [false, true] {
        let server = Server::start_with(tls);
        for (size, text) in [(0, false), (100, true), (70_000, false), (1_000_000, true)] {
            for model in [Some(Model::Closed), (size == 100).then(|| open(20.0))].into_iter().flatten() {
                let steps = vec![HttpStep::get("/page/1"), socket(3, size, text), HttpStep::get("/page/2")];
                let tls = tls.then(HttpTls::default);
                let requests = HttpRequests { tls, ..scripted(script(steps)) };
                // A busy machine may take longer than a step for a whole session of a large size.
                let (result, details) =
                    run_until(server.address, &requests, &step(model.clone()), |(_, details)| {
                        details.exchanges.as_ref().is_some_and(|found| found.sessions > 0)
                    });
                let (counts, found) = (&result.counts, details.exchanges.expect("requests"));
                assert!(found.sessions > 0, "no whole session of {size} bytes: {counts:?}");
                assert_eq!(counts.errors.total(), 0, "{size}: {counts:?} {:?}", details.first_failure);
                assert!(found.messages >= 3, "{size}: {counts:?}");
                let names: Vec<&str> = found.requests.iter().map(|own| own.name.as_str()).collect();
                let of_socket = ["GET /echo (WebSocket)", "GET /echo (messages)", "GET /echo (close)"];
                assert_eq!(names[1..4], of_socket);
                // Three messages for each opening and each closing, but for sessions at either end of the time.
                let of: Vec<u64> = found.requests.iter().map(|own| own.ok).collect();
                assert!(of[2] <= 3 * of[1] + 9 && 3 * of[3] <= of[2] + 9, "{of:?}");
                assert_eq!(found.messages, of[2]);
                // A request belongs to the time by its start there, by its sending here: one of each connection may differ.
                assert!(counts.ok.abs_diff(of.iter().sum()) <= 2, "{counts:?} {of:?}");
                // The status of an opening.
                assert!(counts.status[0].abs_diff(of[1]) <= 2, "{counts:?} {of:?}");
            }
        }
    }
}

/// A server of WebSockets that does with each message what it is told, on each connection anew; the number counts messages.
fn socket_server(answer: fn(u32, bool, &[u8], &mut Vec<u8>)) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let _ = serve_socket(stream, answer);
            });
        }
    });
    address
}

fn serve_socket(mut stream: TcpStream, answer: fn(u32, bool, &[u8], &mut Vec<u8>)) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
    let accept = accept_for(key.as_bytes().try_into().map_err(std::io::Error::other)?);
    let mut out =
        b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "
            .to_vec();
    out.extend_from_slice(&accept);
    out.extend_from_slice(b"\r\n\r\n");
    // At once with the head.
    write_control(Opcode::Ping, None, b"first", &mut out);
    stream.write_all(&out)?;
    let (mut receiver, mut message, mut count, mut pongs) =
        (Receiver::new(Role::Server, 1 << 20), Vec::new(), 0, 0);
    let mut buffer = [0; 4096];
    loop {
        let got = reader.read(&mut buffer)?;
        if got == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..got];
        while !rest.is_empty() {
            let scanned = receiver.scan(rest).map_err(std::io::Error::other)?;
            let (done, after) = rest.split_at(scanned.consumed);
            rest = after;
            let mut out = Vec::new();
            match scanned.event {
                Some(Event::Data { length, mut mask, text, last, .. }) => {
                    let start = message.len();
                    message.extend_from_slice(&done[done.len() - length..]);
                    mask.apply(&mut message[start..]);
                    if last {
                        assert!(pongs > 0, "the ping was answered before the first message");
                        answer(count, text, &message, &mut out);
                        count += 1;
                        message.clear();
                    }
                }
                Some(Event::Pong(pong)) => {
                    assert_eq!(pong.bytes(), if pongs == 0 { &b"first"[..] } else { b"again" });
                    pongs += 1;
                }
                Some(Event::Close(_)) => {
                    write_close(1000, None, &mut out);
                    stream.write_all(&out)?;
                    return Ok(());
                }
                Some(Event::Ping(_)) | None => {}
            }
            stream.write_all(&out)?;
        }
    }
}

/// A server of others, which goes with its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// websocketd, of which each line that a program prints is a message.
#[test]
fn messages_come_back_from_a_server_of_others() {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, vtax_sys::free_port()));
    let mut command = Command::new("websocketd");
    command.args(["--address=127.0.0.1", &format!("--port={}", address.port()), "cat"]);
    if !vtax_sys::require::installed(&["websocketd"]) {
        return;
    }
    let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _server = Killed(started.expect("it starts"));
    let until = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < until, "it doesn't listen");
        thread::sleep(Duration::from_millis(10));
    }
    let steps = vec![socket(4, 100, true), socket(2, 3000, true)];
    let (result, details) = run(address, scripted(script(steps)), Model::Closed);
    let found = details.exchanges.expect("requests");
    let of: Vec<u64> = found.requests.iter().map(|own| own.ok).collect();
    assert_eq!(result.counts.errors.total(), 0, "{:?} {:?}", result.counts, details.first_failure);
    assert!(found.messages > 3, "{of:?}");
}

fn frame(last: bool, opcode: Opcode, payload: &[u8], out: &mut Vec<u8>) {
    FrameHead { last, opcode, key: None, length: payload.len() as u64 }.write(out);
    out.extend_from_slice(payload);
}

#[test]
fn echoes_in_parts_between_pings_are_echoes() {
    let address = socket_server(|_, text, message, out| {
        let (first, rest) = message.split_at(message.len() / 3);
        frame(false, if text { Opcode::Text } else { Opcode::Binary }, first, out);
        write_control(Opcode::Ping, None, b"again", out);
        frame(false, Opcode::Continuation, b"", out);
        frame(true, Opcode::Continuation, rest, out);
        // Behind the answer, for which nobody has asked.
        write_control(Opcode::Ping, None, b"again", out);
        write_control(Opcode::Pong, None, b"unasked", out);
    });
    let (result, details) = run(address, scripted(script(vec![socket(5, 1000, true)])), Model::Closed);
    let found = details.exchanges.expect("requests");
    assert_eq!(result.counts.errors.total(), 0, "{:?} {:?}", result.counts, details.first_failure);
    let told = (found.sessions, found.messages, found.pings);
    assert!(found.sessions > 0 && found.messages > 5, "{told:?}");
    // One with the opening, and two with each message but for those at either end of the time.
    assert!(found.pings + 20 >= 2 * found.messages, "{told:?}");
}

#[test]
fn what_is_no_echo_is_told() {
    type Answer = fn(u32, bool, &[u8], &mut Vec<u8>);
    type Counted = fn(&vtax_load::Errors) -> u64;
    let cases: [(Answer, Counted, &str); 6] = [
        // Another message of the same length.
        (
            |_, _, message, out| frame(true, Opcode::Binary, &vec![b'x'; message.len()], out),
            |e| e.corrupt,
            "isn't what was sent",
        ),
        (|_, _, message, out| frame(true, Opcode::Text, message, out), |e| e.corrupt, "isn't what was sent"),
        (
            |_, _, message, out| frame(true, Opcode::Binary, &message[1..], out),
            |e| e.corrupt,
            "isn't what was sent",
        ),
        (|_, _, _, out| out.extend_from_slice(&[0x83, 0]), |e| e.protocol, "of no kind"),
        (|_, _, _, out| write_close(1011, None, out), |e| e.reset, "closed a WebSocket"),
        (
            |count, _, message, out| {
                frame(true, Opcode::Binary, message, out);
                if count == 1 {
                    frame(true, Opcode::Binary, message, out);
                }
            },
            |e| e.protocol,
            "nobody asked for",
        ),
    ];
    for (answer, kind, word) in cases {
        let address = socket_server(answer);
        let (result, details) = run(address, scripted(script(vec![socket(3, 50, false)])), Model::Closed);
        let errors = &result.counts.errors;
        assert!(kind(errors) > 0, "{word}: {:?} {:?}", result.counts, details.first_failure);
        // One of each connection may differ.
        let ok: u64 = details.exchanges.iter().flat_map(|found| &found.requests).map(|own| own.ok).sum();
        assert!(result.counts.ok.abs_diff(ok) <= 2, "{word}: {:?} {ok}", result.counts);
        assert!(
            details.first_failure.as_ref().is_some_and(|why| why.contains(word)),
            "{:?}",
            details.first_failure
        );
    }
}

/// A server that ends each WebSocket after two messages.
#[test]
fn a_session_whose_websocket_ends_opens_another() {
    let address = socket_server(|count, text, message, out| {
        frame(true, if text { Opcode::Text } else { Opcode::Binary }, message, out);
        if count == 1 {
            write_close(1001, None, out);
        }
    });
    let (result, details) = run(address, scripted(script(vec![socket(5, 10, false)])), Model::Closed);
    let found = details.exchanges.expect("requests");
    assert_eq!(result.counts.errors.total(), 0, "{:?} {:?}", result.counts, details.first_failure);
    // Five messages are on three of them, but for sessions at either end of the time.
    let of @ [opened, messages, closed] = [0, 1, 2].map(|place: usize| found.requests[place].ok);
    assert!(found.sessions > 0 && opened > closed, "{of:?}");
    assert!(3 * closed <= opened + 6 && 5 * closed <= messages + 10, "{of:?}");
}

#[test]
fn an_answer_that_opens_no_websocket_is_told() {
    let refusing = own_server(|_, _| "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n".to_owned());
    let plain = own_server(|_, _| ok("hello"));
    let wrong = own_server(|_, _| {
        "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"
            .to_owned()
    });
    for (address, word) in [(refusing, "403"), (plain, "200"), (wrong, "its key")] {
        let (result, details) = run(address, scripted(script(vec![socket(1, 1, false)])), Model::Closed);
        let errors = &result.counts.errors;
        assert!(
            result.counts.ok == 0 && errors.status + errors.unexpected > 0,
            "{word}: {:?}",
            result.counts
        );
        assert!(details.first_failure.is_some_and(|why| why.contains(word)), "{word}");
    }
}
