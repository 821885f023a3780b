//! HTTP/2: against nginx and Apache, and against servers of the test's own that refuse, reset, go away or are hostile.

#[path = "service_support/server.rs"]
mod server;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Duration;

use vtax_load::http::{HttpDetails, HttpRequests, HttpSession, HttpSpec};
use vtax_load::{
    ArrivalProcess, ConnectionPool, Control, LoadError, LoadResult, Model, RequestStep, Segment,
};
use vtax_plan::model::{
    HttpBody, HttpCompression, HttpExpectation, HttpScript, HttpSessionPlan, HttpStep, HttpTls, ServiceKind,
    WebOptions,
};
use vtax_service::RunningService;
use vtax_sys::require::{again_until, installed};
use vtax_units::{Bytes, CpuSet, Nanos, Rate};
use vtax_wire::http2::hpack::{Indexing, Name, Writer};
use vtax_wire::http2::{FrameHead, PREFACE, flag, kind};

const STREAMS: u32 = 5;

fn spec(target: SocketAddr, requests: HttpRequests, timeout: Nanos) -> HttpSpec {
    let pool = ConnectionPool { target, connections: 2, timeout, cpus: CpuSet::default() };
    HttpSpec { pool, requests: HttpRequests { http2_streams: Some(STREAMS), ..requests } }
}

/// Runs a load with two connections of five streams each; what must hold for every one does.
fn run_for(
    target: SocketAddr,
    requests: HttpRequests,
    model: Model,
    timeout: Nanos,
) -> (LoadResult, HttpDetails) {
    let session = HttpSession::open(&spec(target, requests, timeout)).unwrap();
    let step = RequestStep {
        model,
        warmup: Nanos::ZERO,
        duration: Nanos::from_millis(500),
        seed: 1,
        samples: false,
        interval: Nanos::from_millis(100),
        drain: Nanos::from_secs(1),
    };
    let mut result = session.run_step(&step, &Control::new()).unwrap();
    let counts = &result.counts;
    assert_eq!(counts.intended, counts.sent + counts.missed, "{counts:?}");
    assert_eq!(counts.sent, counts.ok + counts.errors.total() + counts.unfinished, "{counts:?}");
    let details = result.details.take().and_then(|details| details.http).expect("what HTTP found");
    (result, *details)
}

/// The same, again where a machine that is busy with something else let hardly a request be made in its time.
fn run(target: SocketAddr, requests: HttpRequests, model: Model) -> (LoadResult, HttpDetails) {
    run_until(target, &requests, &model, |(result, _)| result.counts.ok + result.counts.errors.total() > 20)
}

/// The same, again until this was found; else the last.
fn run_until(
    target: SocketAddr,
    requests: &HttpRequests,
    model: &Model,
    found: impl Fn(&(LoadResult, HttpDetails)) -> bool,
) -> (LoadResult, HttpDetails) {
    again_until(|| run_for(target, requests.clone(), model.clone(), Nanos::from_secs(5)), found)
}

fn open(rate: f64) -> Model {
    let profile = vec![Segment { from: Rate(rate), to: Rate(rate), duration: Nanos::from_secs(1) }];
    Model::Open { arrivals: ArrivalProcess::Constant, profile }
}

fn get(target: &str) -> HttpRequests {
    HttpRequests::get(target, "test")
}

fn scripted(steps: Vec<HttpStep>) -> HttpRequests {
    let session = |step| HttpSessionPlan { weight: 1, steps: vec![step] };
    let script = HttpScript {
        sessions: steps.into_iter().map(session).collect(),
        zipf: None,
        compression: HttpCompression::None,
        cookies: false,
    };
    HttpRequests { script: Some(Box::new(script)), ..get("/") }
}

/// A web server that speaks HTTP/2.
struct Web {
    service: Option<RunningService>,
    _directory: tempfile::TempDir,
}

type Kind = fn(WebOptions) -> ServiceKind;
const SERVERS: [Kind; 2] = [ServiceKind::Nginx, ServiceKind::Apache];

impl Web {
    fn start(kind: Kind, tls: bool) -> (Self, SocketAddr) {
        let directory = tempfile::tempdir().unwrap();
        // It drops privileges.
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let kind = kind(WebOptions { tls, http2: true, ..WebOptions::on(vtax_sys::free_port()) });
        let service = server::start(kind, Nanos::from_secs(30), directory.path().join("service"));
        let address = service.address();
        (Self { service: Some(service), _directory: directory }, address)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.service.take().map(RunningService::stop);
    }
}

#[test]
fn web_servers_answer_on_all_streams() {
    if !installed(&["nginx", "apache2"]) {
        return;
    }
    for (kind, tls) in SERVERS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let (_server, address) = Web::start(kind, tls);
        for (target, model) in
            [("/100b", Model::Closed), ("/1m", Model::Closed), ("/10k", open(200.0)), ("/none", open(50.0))]
        {
            let requests = HttpRequests { tls: tls.then(HttpTls::default), ..get(target) };
            let (result, details) = run(address, requests, model);
            let (counts, found) = (&result.counts, details.http2.expect("HTTP/2"));
            if target == "/none" {
                assert!(counts.errors.status > 5 && counts.ok == 0, "{counts:?}");
                continue;
            }
            assert!(counts.ok > 5 && counts.errors.total() == 0, "{target}: {counts:?} {found:?}");
            assert_eq!(found.by, if tls { "ALPN" } else { "prior knowledge" });
            assert!((1..=STREAMS).contains(&found.most_streams), "{found:?}");
            assert!(found.frames["HEADERS"] >= counts.ok && found.frames["DATA"] >= counts.ok, "{found:?}");
            if target == "/100b" {
                assert_eq!(found.most_streams, STREAMS);
            }
            if let Some(tls) = details.tls {
                assert_eq!(tls.alpn.as_deref(), Some("h2"), "{tls:?}");
            }
        }
    }
}

#[test]
fn requests_are_sent_as_they_are() {
    if !installed(&["nginx", "apache2"]) {
        return;
    }
    let (_server, address) = Web::start(ServiceKind::Apache, false);
    let expect = HttpExpectation {
        length: Some(Bytes(10_000)),
        header: Some(("Accept-Ranges".to_owned(), "bytes".to_owned())),
        ..HttpExpectation::default()
    };
    let upload = HttpStep {
        method: "POST".to_owned(),
        // More than a stream's window, and than what is sent in one piece.
        body: HttpBody::Size(Bytes(300_000)),
        headers: vec![("X-Own".to_owned(), "1".to_owned())],
        expect: HttpExpectation { length: Some(Bytes(100)), ..HttpExpectation::default() },
        ..HttpStep::get("/100b")
    };
    let text = HttpStep { body: HttpBody::Text("a=b".to_owned()), ..upload.clone() };
    let head = HttpStep { method: "HEAD".to_owned(), ..HttpStep::get("/1m") };
    let steps = vec![HttpStep { expect, ..HttpStep::get("/10k") }, upload, text, head];
    let (result, details) = run(address, scripted(steps), Model::Closed);
    assert!(result.counts.ok > 10, "{:?}", result.counts);
    assert_eq!(result.counts.errors.total(), 0, "{:?} {:?}", result.counts, details.first_failure);
    let found = details.exchanges.expect("replies");
    assert!(found.requests.iter().all(|request| request.ok > 0 && request.failed == 0), "{found:?}");
    // What isn't as expected is an error.
    let wrong = HttpExpectation { length: Some(Bytes(9)), ..HttpExpectation::default() };
    let steps = vec![HttpStep { expect: wrong, ..HttpStep::get("/100b") }];
    let (result, details) = run(address, scripted(steps), Model::Closed);
    assert!(result.counts.errors.unexpected > 0 && result.counts.ok == 0, "{:?}", result.counts);
    assert!(details.first_failure.is_some_and(|why| why.contains("100 bytes")));
}

#[test]
fn connections_are_closed_after_their_requests() {
    if !installed(&["nginx", "apache2"]) {
        return;
    }
    let (_server, address) = Web::start(ServiceKind::Nginx, false);
    let requests = HttpRequests { requests_per_connection: Some(7), ..get("/100b") };
    let (result, _) = run(address, requests, Model::Closed);
    let counts = &result.counts;
    assert!(counts.ok > 14 && counts.errors.total() == 0, "{counts:?}");
    assert!(counts.connects >= counts.ok / 7, "{counts:?}");
}

/// One connection of a server of the test's own.
struct Peer {
    stream: TcpStream,
    out: Vec<u8>,
    answered: u32,
}

impl Peer {
    fn read(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The next frame.
    fn frame(&mut self) -> Option<FrameHead> {
        let head = FrameHead::parse(self.read(9)?.first_chunk()?);
        self.read(head.length as usize)?;
        Some(head)
    }

    fn put(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        FrameHead { length: payload.len() as u32, kind, flags, stream }.write(&mut self.out);
        self.out.extend_from_slice(payload);
    }

    fn answer(&mut self, stream: u32) {
        self.put(kind::HEADERS, flag::END_HEADERS, stream, &[0x88]);
        self.put(kind::DATA, flag::END_STREAM, stream, b"x");
        self.answered += 1;
    }

    fn send(&mut self) -> Option<()> {
        self.stream.write_all(&self.out).ok()?;
        self.out.clear();
        Some(())
    }
}

/// Serves every connection: `request` is told each stream that opens.
fn serve(request: impl Fn(&mut Peer, u32) + Copy + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let mut peer = Peer { stream, out: Vec::new(), answered: 0 };
                talk(&mut peer, request)
            });
        }
    });
    address
}

fn talk(peer: &mut Peer, request: impl Fn(&mut Peer, u32)) -> Option<()> {
    peer.read(PREFACE.len()).filter(|bytes| bytes == PREFACE)?;
    peer.put(kind::SETTINGS, 0, 0, &[]);
    peer.send()?;
    loop {
        let head = peer.frame()?;
        if head.kind == kind::HEADERS {
            request(peer, head.stream);
            peer.send()?;
        }
    }
}

#[test]
fn what_a_server_that_goes_away_did_not_look_at_is_sent_again() {
    let address = serve(|peer, stream| {
        if stream <= 11 {
            peer.answer(stream);
            if peer.answered == 6 {
                peer.put(kind::GOAWAY, 0, 0, &[0, 0, 0, 11, 0, 0, 0, 0]);
            }
        }
    });
    for model in [Model::Closed, open(300.0)] {
        let (result, details) = run_until(address, &get("/"), &model, |(result, details)| {
            let goaways = details.http2.as_ref().and_then(|found| found.goaways.get("NO_ERROR"));
            result.counts.ok > 20 && goaways.is_some_and(|count| *count > 2)
        });
        let (counts, found) = (&result.counts, details.http2.expect("HTTP/2"));
        assert!(counts.ok > 20 && counts.errors.total() == 0, "{counts:?} {found:?}");
        assert!(found.goaways["NO_ERROR"] > 2, "{found:?}");
        assert_eq!(found.streams, counts.ok + found.again + counts.unfinished, "{found:?}");
    }
}

/// With the last request of a connection came a GOAWAY, upon which Apache drops what is under way (before 2.4.69).
#[test]
fn a_connection_says_nothing_of_its_end_before_the_last_answer() {
    // Of seven requests the first two are answered at once, so that the last two can be sent, and the rest when all are there.
    let address = serve(|peer, stream| match stream {
        1 | 3 => peer.answer(stream),
        13 => {
            // What was sent with the last request comes before the answer to this.
            peer.put(kind::PING, 0, 0, &[0; 8]);
            if peer.send().is_none() {
                return;
            }
            loop {
                match peer.frame() {
                    Some(frame) if frame.kind == kind::PING && frame.has(flag::ACK) => break,
                    Some(frame) if frame.kind != kind::GOAWAY => {}
                    _ => {
                        let _ = peer.stream.shutdown(Shutdown::Both);
                        return;
                    }
                }
            }
            (5..=13).step_by(2).for_each(|stream| peer.answer(stream));
        }
        _ => {}
    });
    let requests = HttpRequests { requests_per_connection: Some(7), ..get("/") };
    let (result, details) = run(address, requests, Model::Closed);
    let counts = &result.counts;
    assert!(counts.ok > 14 && counts.errors.total() == 0, "{counts:?} {:?}", details.first_failure);
    assert!(counts.connects >= 2, "{counts:?}");
}

/// An answer that names a coding but has no body was called corrupt.
#[test]
fn an_answer_without_a_body_is_not_decoded() {
    let address = serve(|peer, stream| {
        // 200, and the coding.
        let mut block = vec![0x88];
        let mut writer = Writer { out: &mut block, huffman: false };
        writer.literal(Indexing::Without, Name::of("content-encoding"), b"gzip");
        peer.put(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &block);
    });
    let mut requests = scripted(vec![HttpStep::get("/")]);
    if let Some(script) = &mut requests.script {
        script.compression = HttpCompression::Decode;
    }
    let (result, details) = run(address, requests, open(100.0));
    let counts = &result.counts;
    assert!(counts.ok > 5 && counts.errors.total() == 0, "{counts:?} {:?}", details.first_failure);
}

#[test]
fn streams_that_are_reset_leave_the_others() {
    let address = serve(|peer, stream| match stream % 8 {
        1 => peer.put(kind::RST_STREAM, 0, stream, &[0, 0, 0, 2]),
        // Refused streams are sent again as others are answered.
        5 => peer.put(kind::RST_STREAM, 0, stream, &[0, 0, 0, 7]),
        _ => peer.answer(stream),
    });
    // A worker that starts too late has no connection.
    let both = |(result, _): &(LoadResult, HttpDetails)| {
        let counts = &result.counts;
        assert!(counts.connects <= 2, "a stream cost its connection: {counts:?}");
        counts.ok > 20 && counts.errors.reset > 5 && counts.connects == 2
    };
    let (result, details) = run_until(address, &get("/"), &Model::Closed, both);
    let (counts, found) = (&result.counts, details.http2.expect("HTTP/2"));
    assert!(counts.ok > 20 && counts.errors.reset > 5, "{counts:?}");
    assert_eq!(
        found.resets["INTERNAL_ERROR"],
        counts.errors.reset - found.resets.get("REFUSED_STREAM").unwrap_or(&0)
    );
    assert!(found.again > 5, "{found:?}");
    assert_eq!(counts.connects, 2, "{counts:?}");
    assert!(details.first_failure.is_some_and(|why| why.contains("INTERNAL_ERROR")));
}

#[test]
fn a_server_that_refuses_all_is_not_asked_for_ever() {
    let address = serve(|peer, stream| peer.put(kind::RST_STREAM, 0, stream, &[0, 0, 0, 7]));
    let (result, details) = run(address, get("/"), open(100.0));
    let found = details.http2.expect("HTTP/2");
    assert_eq!((result.counts.ok, found.again), (0, 0), "{found:?}");
    assert!(
        found.resets["REFUSED_STREAM"] == result.counts.errors.reset && found.resets["REFUSED_STREAM"] > 20
    );
}

#[test]
fn a_request_that_times_out_leaves_the_others() {
    let address = serve(|peer, stream| {
        if stream != 5 {
            peer.answer(stream);
        }
    });
    // A connection on which nothing is heard for that long is closed, and a busy machine may say nothing for a moment.
    let (result, details) = run_for(address, get("/"), open(200.0), Nanos::from_secs(1));
    let (counts, found) = (&result.counts, details.http2.expect("HTTP/2"));
    assert!(counts.ok > 20 && counts.errors.client_timeout >= 1, "{counts:?}");
    assert!(found.given_up >= 1 && counts.connects <= 2, "{counts:?} {found:?}");
    // One that says nothing more is left.
    let address = serve(|_, _| {});
    let (result, details) = run_for(address, get("/"), open(100.0), Nanos::from_millis(50));
    let found = details.http2.expect("HTTP/2");
    assert!(result.counts.errors.client_timeout > 10 && result.counts.connects > 4, "{:?}", result.counts);
    assert!(found.given_up <= result.counts.errors.client_timeout, "{found:?}");
}

/// What a server does with a stream.
type Answer = fn(&mut Peer, u32);

fn bomb() -> Vec<u8> {
    let mut block = Vec::new();
    let mut writer = Writer { out: &mut block, huffman: false };
    writer.literal(Indexing::Incremental, Name::Text(b"a"), &[b'x'; 4000]);
    (0..1000).for_each(|_| writer.indexed(62));
    block
}

#[test]
fn hostile_servers_are_errors() {
    let answers: [(Answer, &str); 8] = [
        (|peer, _| peer.put(kind::DATA, 0, 0, b"x"), "stands where it can't"),
        (|peer, stream| peer.put(kind::DATA, 0, stream, &[0; 20_000]), "wrong length"),
        (|peer, stream| peer.put(kind::HEADERS, 4, stream, &bomb()), "too long together"),
        (|peer, stream| peer.put(kind::PUSH_PROMISE, 4, stream, &[0; 8]), "stands where it can't"),
        (|peer, _| peer.put(kind::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]), "window"),
        (|peer, _| (0..5000).for_each(|_| peer.put(kind::PING, 0, 0, &[0; 8])), "replies"),
        (
            |peer, stream| {
                peer.put(kind::HEADERS, 0, stream, &[0x88]);
                (0..1000).for_each(|_| peer.put(kind::CONTINUATION, 0, stream, &[]));
            },
            "too many pieces",
        ),
        (
            |peer, stream| {
                peer.put(kind::HEADERS, 4, stream, &[0x88]);
                (0..2000).for_each(|_| peer.put(kind::DATA, 8, stream, &[255; 256]));
                peer.put(kind::RST_STREAM, 0, 1000, &[0; 4]);
            },
            "stands where it can't",
        ),
    ];
    for (answer, word) in answers {
        let address = serve(answer);
        let (result, details) = run(address, get("/"), open(50.0));
        let errors = &result.counts.errors;
        assert!(errors.protocol > 5 && result.counts.ok == 0, "{word}: {:?}", result.counts);
        let why = details.first_failure.expect("words for it");
        assert!(why.starts_with("HTTP/2: ") && why.contains(word), "{word}: {why}");
    }
}

#[test]
fn what_speaks_http_1_1_is_named() {
    if !installed(&["nginx", "apache2"]) {
        return;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut buffer = [0; 1000];
            let _ = stream.read(&mut buffer);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let (result, details) = run(address, get("/"), open(50.0));
    assert!(result.counts.ok == 0 && result.counts.errors.total() > 5, "{:?}", result.counts);
    let why = details.first_failure.expect("words for it");
    assert!(why.contains("SETTINGS"), "{why}");
    // Over TLS, ALPN says so.
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let options = WebOptions { tls: true, ..WebOptions::on(vtax_sys::free_port()) };
    let kind = ServiceKind::Nginx(options);
    let service = server::start(kind, Nanos::from_secs(30), directory.path().join("service"));
    let requests = HttpRequests { tls: Some(HttpTls::default()), ..get("/100b") };
    let (result, details) = run(service.address(), requests, open(50.0));
    assert!(result.counts.ok == 0 && result.counts.errors.protocol > 5, "{:?}", result.counts);
    let why = details.first_failure.expect("words for it");
    assert!(why.starts_with("ALPN: ") && why.contains("`h2`"), "{why}");
    let _ = service.stop();
}

#[test]
fn what_http_2_has_not_is_refused_beforehand() {
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let refused = |requests: HttpRequests| match HttpSession::open(&spec(target, requests, Nanos(1))) {
        Err(LoadError::Spec { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let tls = HttpTls { alpn: false, ..HttpTls::default() };
    assert_eq!(refused(HttpRequests { tls: Some(tls), ..get("/") }), "alpn");
    let step = HttpStep { chunked: true, body: HttpBody::Text("x".to_owned()), ..HttpStep::get("/") };
    assert_eq!(refused(scripted(vec![step])), "requests");
    for streams in [0, 1001] {
        let mut spec = spec(target, get("/"), Nanos(1));
        spec.requests.http2_streams = Some(streams);
        assert!(HttpSession::open(&spec).is_err());
    }
}
