//! HTTP with TLS, requests as they are, and sessions: against the embedded server and against servers of the test's own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use vtax_load::http::{HttpDetails, HttpRequests, HttpSession, HttpSpec};
use vtax_load::{ArrivalProcess, ConnectionPool, Control, LoadResult, Model, RequestStep, Segment, Verify};
use vtax_plan::model::{
    HttpBody, HttpCapture, HttpCompression, HttpExpectation, HttpScript, HttpSessionPlan, HttpSource,
    HttpStep, HttpTls, TlsVersion,
};
use vtax_service::Certificate;
use vtax_service::embedded::ServerCertificate;
use vtax_service::embedded::http::serve_with;
use vtax_units::{Bytes, CpuSet, Nanos, Rate};

/// The embedded server with TLS.
struct Server {
    address: SocketAddr,
    root: Vec<u8>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start() -> Self {
        let ip = IpAddr::from(Ipv4Addr::LOCALHOST);
        let Certificate { certificate, key, .. } = Certificate::new(ip).unwrap();
        let root = certificate.clone();
        let certificate = ServerCertificate { certificate, key };
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let flag = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let ready = |address| tell.send(address).unwrap();
            serve_with(SocketAddr::new(ip, 0), 1, Some(&certificate), &flag, ready).unwrap();
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
    }
}

/// Runs a load with two connections; what must hold for every one does.
fn run(target: SocketAddr, requests: HttpRequests, model: Model) -> (LoadResult, HttpDetails) {
    let pool =
        ConnectionPool { target, connections: 2, timeout: Nanos::from_secs(5), cpus: CpuSet::default() };
    let session = HttpSession::open(&HttpSpec { pool, requests }).unwrap();
    let mut result = session.run_step(&step(model), &Control::new()).unwrap();
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

#[test]
fn a_connection_for_each_request_resumes_or_does_not() {
    let server = Server::start();
    for version in [TlsVersion::V12, TlsVersion::V13] {
        for resume in [true, false] {
            let requests = HttpRequests {
                requests_per_connection: Some(1),
                ..secured("/bytes/10", tls(Some(version), resume))
            };
            let (result, details) = run(server.address, requests, Model::Closed);
            let found = details.tls.expect("TLS");
            assert!(result.counts.ok > 5 && result.counts.errors.total() == 0, "{:?}", result.counts);
            assert!(found.done() > 5 && found.failed == 0, "{found:?}");
            assert_eq!(found.alpn.as_deref(), Some("http/1.1"));
            // In the warm-up each worker had a session to resume.
            let (all, none) =
                if resume { (&found.resumed, &found.full) } else { (&found.full, &found.resumed) };
            assert!(all.len() > 5 && none.is_empty(), "{version:?} {resume}: {found:?}");
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
