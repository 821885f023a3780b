//! Real Kamailio with real MariaDB: provisioned, started, registered with, stopped, gone.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use md5::{Digest, Md5};
use vtax_plan::model::{KamailioOptions, LocationMode, Service, ServiceKind, Subscribers};
use vtax_service::{Notice, Prepared, RunningService, ServiceError, missing, prepare};
use vtax_sys::require::{Need, complete, need};
use vtax_sys::sync::lock;
use vtax_sys::{ProcessExit, free_port};
use vtax_units::{Bytes, Nanos};

use crate::common::{Bench, service};

fn subscribers(count: u32) -> Subscribers {
    Subscribers {
        count,
        public: "subs%06d".into(),
        private: "subs%06d".into(),
        // What a statement or a shell would stumble over.
        password: "a'b;$c`%d".into(),
        realm: "open-ims.test".into(),
        domain: "open-ims.test".into(),
    }
}

fn kamailio(location: LocationMode) -> Service {
    let options = KamailioOptions {
        port: free_port(),
        children: Some(2),
        shared_memory: Bytes::from_mib(64),
        t1: Nanos::from_millis(500),
        location,
        media_relay: None,
        tls: false,
    };
    let mut service = service("sip", ServiceKind::Kamailio(options));
    // A busy disk has the database take its time to begin, and to write what it holds.
    service.ready_timeout = Nanos::from_secs(120);
    service.stop_timeout = Nanos::from_secs(60);
    service
}

fn port_of(service: &Service) -> u16 {
    let ServiceKind::Kamailio(options) = &service.kind else { unreachable!("made above") };
    options.port
}

/// Whether everything is installed; says what isn't.
fn installed() -> bool {
    complete(missing(&kamailio(LocationMode::WriteBack)))
}

impl Bench {
    fn start_kamailio(
        &self,
        service: &Service,
        subscribers: &Subscribers,
        prepared: Option<&Prepared>,
    ) -> Result<RunningService, ServiceError> {
        let mut context = self.context();
        context.prepared = prepared.map(|p| p.path.clone());
        let notices = std::sync::Arc::clone(&self.notices);
        RunningService::start(service, Some(subscribers), &context, move |notice| {
            lock(&notices).push(notice);
        })
    }

    /// The answer to a statement, as Kamailio would get it.
    fn ask(&self, statement: &str) -> String {
        let output = Command::new("mariadb")
            .args(["--no-defaults", "--skip-column-names", "-ukamailio", "-pkamailiorw", "kamailio"])
            .arg(format!("--socket={}", self.private().join("database.socket").display()))
            .args(["-e", statement])
            .output()
            .expect("the client comes with the server");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

/// A user agent that does one thing at a time.
struct Agent {
    socket: UdpSocket,
    port: u16,
    count: u32,
}

impl Agent {
    fn new(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        socket.connect(server).expect("loopback");
        socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
        let port = socket.local_addr().expect("bound").port();
        Self { socket, port, count: 0 }
    }

    /// Sends a request; gives its final answer.
    fn ask(&mut self, method: &str, to: &str, uri: &str, fields: &str) -> String {
        self.count += 1;
        let (port, count) = (self.port, self.count);
        let request = format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:{port};branch=z9hG4bK{port}x{count}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:{to}@open-ims.test>;tag={count}\r\nTo: <sip:{to}@open-ims.test>\r\n\
             Call-ID: {port}-{count}\r\nCSeq: {count} {method}\r\nContact: <sip:{to}@127.0.0.1:{port}>\r\n\
             {fields}Content-Length: 0\r\n\r\n"
        );
        let own = format!("CSeq: {count} {method}\r\n");
        let mut buffer = [0; 4096];
        // Datagrams may be lost, and registrations wait for a disk that compilers may be writing to.
        for _ in 0..15 {
            self.socket.send(request.as_bytes()).expect("it listens");
            let Some(answer) = self.answer(&own, &mut buffer) else { continue };
            return answer;
        }
        panic!("no answer to {request}");
    }

    /// The final answer to a request, unless none comes in time.
    fn answer(&self, own: &str, buffer: &mut [u8]) -> Option<String> {
        loop {
            let size = self.socket.recv(buffer).ok()?;
            let answer = String::from_utf8_lossy(&buffer[..size]).into_owned();
            if answer.contains(own) && !answer.starts_with("SIP/2.0 1") {
                return Some(answer);
            }
        }
    }

    /// Registers by the challenge's own terms (RFC 7616 section 3.4).
    fn register(&mut self, user: &str, password: &str, expires: u32) -> String {
        let fields = format!("Expires: {expires}\r\n");
        let challenge = self.ask("REGISTER", user, "sip:open-ims.test", &fields);
        assert!(challenge.starts_with("SIP/2.0 401 "), "{challenge}");
        assert!(
            challenge.contains("realm=\"open-ims.test\"") && challenge.contains("qop=\"auth\""),
            "{challenge}"
        );
        let nonce = challenge.split("nonce=\"").nth(1).and_then(|r| r.split('"').next()).expect("a nonce");
        let secret = digest(&format!("{user}:open-ims.test:{password}"));
        let request = digest("REGISTER:sip:open-ims.test");
        let response = digest(&format!("{secret}:{nonce}:00000001:abc:auth:{request}"));
        let fields = format!(
            "{fields}Authorization: Digest username=\"{user}\", realm=\"open-ims.test\", nonce=\"{nonce}\", \
             uri=\"sip:open-ims.test\", qop=auth, nc=00000001, cnonce=\"abc\", response=\"{response}\"\r\n"
        );
        self.ask("REGISTER", user, "sip:open-ims.test", &fields)
    }

    fn ask_for(&mut self, method: &str, user: &str) -> String {
        self.ask(method, user, &format!("sip:{user}@open-ims.test"), "")
    }
}

fn digest(text: &str) -> String {
    Md5::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn subscribers_register_and_are_found() {
    if !installed() {
        return;
    }
    let (bench, service) = (Bench::new(), kamailio(LocationMode::WriteThrough));
    let running = bench.start_kamailio(&service, &subscribers(1000), None).expect("it starts");
    assert!(running.version().starts_with("kamailio/"), "{}", running.version());
    assert!(running.version().contains(", MariaDB/"), "{}", running.version());
    assert_eq!(running.pids().count(), 2);
    let (mut one, mut other) = (Agent::new(running.address()), Agent::new(running.address()));
    assert!(one.register("subs000007", "a'b;$c`7", 3600).starts_with("SIP/2.0 200 "));
    assert_eq!(bench.ask("SELECT username FROM location"), "subs000007", "written through");
    assert!(one.register("subs000008", "wrong", 3600).starts_with("SIP/2.0 401 "), "wrong password");
    assert!(one.register("subs001000", "a'b;$c`1000", 3600).starts_with("SIP/2.0 401 "), "one too many");
    for (method, user) in [("MESSAGE", "subs000008"), ("INVITE", "subs000008"), ("MESSAGE", "nobody")] {
        let answer = other.ask_for(method, user);
        assert!(answer.starts_with("SIP/2.0 404 "), "{method} to {user}: {answer}");
    }
    let answer = other.ask("MESSAGE", "x", "sip:x@elsewhere.test", "");
    assert!(answer.starts_with("SIP/2.0 403 "), "no open relay: {answer}");

    // Through the proxy to the one who is registered.
    one.socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    let callee = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        let size = one.socket.recv(&mut buffer).expect("the message");
        let request = String::from_utf8_lossy(&buffer[..size]).into_owned();
        assert!(request.starts_with(&format!("MESSAGE sip:subs000007@127.0.0.1:{} ", one.port)), "{request}");
        let kept = |l: &&str| ["Via:", "From:", "To:", "Call-ID:", "CSeq:"].iter().any(|n| l.starts_with(n));
        let fields: Vec<&str> = request.lines().filter(kept).collect();
        let answer = format!("SIP/2.0 200 OK\r\n{}\r\nContent-Length: 0\r\n\r\n", fields.join("\r\n"));
        one.socket.send(answer.as_bytes()).expect("loopback");
        (one, request)
    });
    assert!(other.ask_for("MESSAGE", "subs000007").starts_with("SIP/2.0 200 "));
    let (mut one, request) = callee.join().expect("it answers");
    one.socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
    // Of a slow answer Kamailio sends the same request again.
    let mut buffer = [0; 4096];
    while let Ok(size) = one.socket.recv(&mut buffer) {
        let more = String::from_utf8_lossy(&buffer[..size]);
        assert!(!more.starts_with("MESSAGE ") || more == request, "registered once, so asked once: {more}");
    }
    one.socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
    let answer = one.register("subs000007", "a'b;$c`7", 0);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let answer = other.ask_for("MESSAGE", "subs000007");
    assert!(answer.starts_with("SIP/2.0 404 "), "no longer registered: {answer}");

    let stopped = running.stop().expect("it stops");
    assert_eq!((stopped.status, stopped.killed), (Some(ProcessExit::Exited(0)), false));
    assert!(!bench.notices().iter().any(|n| matches!(n, Notice::Died { .. })), "{:?}", bench.notices());
    bench.assert_gone(port_of(&service));
}

#[test]
fn the_death_of_either_process_is_told() {
    if !installed() {
        return;
    }
    for (index, name) in ["mariadbd", "kamailio"].into_iter().enumerate() {
        let (bench, service) = (Bench::new(), kamailio(LocationMode::WriteBack));
        let running = bench.start_kamailio(&service, &subscribers(10), None).expect("it starts");
        let pid = running.pids().nth(index).and_then(|pid| i32::try_from(pid).ok()).expect("two processes");
        vtax_sys::PidFd::open(pid).and_then(|p| p.kill()).expect("it is a child of ours");
        let death = Notice::Died { process: Some(name), status: ProcessExit::Signalled(9) };
        bench.wait_for(name, |n| *n == death);
        assert_eq!(running.ended(), Some(ProcessExit::Signalled(9)));
        running.stop().expect("what is left of it stops");
        bench.assert_gone(port_of(&service));
    }
}

#[test]
fn failures_name_the_process_and_leave_nothing() {
    if !installed() {
        return;
    }
    let bench = Bench::new();
    let service = kamailio(LocationMode::WriteBack);
    let error = bench.start(&service).expect_err("nobody to serve");
    assert!(matches!(error, ServiceError::NoSubscribers { .. }), "{error}");
    let mut strange = subscribers(10);
    strange.realm = "a\"; exit; #".into();
    let error = bench.start_kamailio(&service, &strange, None).expect_err("it would be configuration");
    assert!(matches!(error, ServiceError::Subscribers { .. }), "{error}");

    let mut context = bench.context();
    context.prepared = Some("/no/such/database".into());
    let error =
        RunningService::start(&service, Some(&subscribers(10)), &context, |_| ()).expect_err("not there");
    assert!(error.to_string().contains("VTAX_CACHE"), "{error}");

    let taken = UdpSocket::bind(("127.0.0.1", port_of(&service))).expect("free a moment ago");
    let error = bench.start_kamailio(&service, &subscribers(10), None).expect_err("taken");
    assert!(matches!(&error, ServiceError::PortInUse { by: Some(_), .. }), "{error}");
    drop(taken);

    let mut hasty = service.clone();
    hasty.ready_timeout = Nanos::from_millis(1);
    let error = bench.start_kamailio(&hasty, &subscribers(10), None).expect_err("too soon");
    assert!(error.to_string().starts_with("service sip (mariadbd) was not ready within"), "{error}");
    bench.assert_gone(port_of(&service));
}

/// Provisions the study's subscribers, twice; the second time they are there.
#[test]
#[allow(clippy::print_stdout, reason = "the figures are what people look for in this test")]
fn a_hundred_thousand_subscribers_take_seconds_once() {
    if !installed() {
        return;
    }
    let (bench, service) = (Bench::new(), kamailio(LocationMode::WriteBack));
    let cache = tempfile::tempdir().expect("a temporary directory");
    let subscribers = subscribers(100_000);
    let made = prepare(&service, Some(&subscribers), cache.path()).expect("it is made").expect("a database");
    let taken = Duration::from(made.taken.expect("the cache was empty"));
    // The study took hours; the bound is for a busy machine with one slow core.
    assert!(taken < Duration::from_secs(60), "{taken:?}");
    let size = size_of(&made.path);
    assert!(size < 60 << 20, "{size} bytes to copy at each start");
    let again =
        prepare(&service, Some(&subscribers), cache.path()).expect("it is there").expect("a database");
    assert_eq!((again.path.clone(), again.taken), (made.path.clone(), None));
    let mut fewer = subscribers.clone();
    fewer.count = 99_999;
    let other = prepare(&service, Some(&fewer), cache.path()).expect("it is made").expect("a database");
    assert_ne!(other.path, made.path);

    let begun = Instant::now();
    let running = bench.start_kamailio(&service, &subscribers, Some(&made)).expect("it starts");
    println!(
        "100,000 subscribers in {taken:?}, {} MiB; in place and ready after {:?}, ready alone {:?}",
        size >> 20,
        begun.elapsed(),
        Duration::from(running.startup())
    );
    assert_eq!(bench.ask("SELECT COUNT(*) FROM subscriber"), "100000");
    let grants = bench.ask("SHOW GRANTS");
    assert!(grants.contains("GRANT SELECT, INSERT, UPDATE, DELETE ON `kamailio`.* TO"), "{grants}");
    let root = Command::new("mariadb")
        .args(["--no-defaults", "-uroot", "-e", "SELECT 1"])
        .arg(format!("--socket={}", bench.private().join("database.socket").display()))
        .output()
        .expect("the client comes with the server");
    assert!(!root.status.success(), "root is let in");
    running.stop().expect("it stops");
    bench.assert_gone(port_of(&service));
}

fn size_of(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).expect("a directory").flatten();
    entries
        .map(|e| match e.metadata().expect("it is there") {
            m if m.is_dir() => size_of(&e.path()),
            m => m.len(),
        })
        .sum()
}

/// The host can't tell these apart from a run without root: uid 0, and no other user, in a user namespace.
#[test]
fn it_starts_where_there_is_one_user_only() {
    const INSIDE: &str = "VTAX_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() || !installed() || !need(&[Need::Ns]) {
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let output = Command::new("unshare")
        .args(["-Urnmp", "--fork", "--mount-proc", "--kill-child", "sh", "-c"])
        .arg("ip link set lo up && exec timeout 600 \"$0\" kamailio::subscribers_register --test-threads 1")
        .arg(program)
        .env(INSIDE, "1")
        .output()
        .expect("unshare is there");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}
