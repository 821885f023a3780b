//! The generator of FTP against the embedded server and against hostile ones.

mod certificates;
mod hostile;
mod interrupted;
mod real;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use vtax_load::ftp::{FtpDetails, FtpSession, FtpSpec, FtpVerify};
use vtax_load::{
    ArrivalProcess, ConnectionPool, Control, LoadError, LoadResult, Model, Part, RequestStep, Segment,
};
use vtax_plan::model::{
    DataMode, FileSizes, FtpArrivals, FtpMix, FtpRequests, FtpTls, FtpTlsMode, TlsVersion,
};
use vtax_service::Certificate;
use vtax_service::embedded::ftp::{FtpCertificate, FtpServer, serve};
use vtax_units::{Bytes, CpuSet, Nanos, Rate};

/// An embedded server of the test's own.
struct Server {
    address: SocketAddr,
    directory: tempfile::TempDir,
    root: Vec<u8>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(ip: IpAddr, implicit: bool) -> Self {
        let Certificate { certificate, key, .. } = Certificate::new(ip).unwrap();
        Self::with(ip, implicit, FtpCertificate { certificate, key })
    }

    fn with(ip: IpAddr, implicit: bool, certificate: FtpCertificate) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = certificate.certificate.clone();
        let server = FtpServer {
            address: SocketAddr::new(ip, 0),
            directory: directory.path().to_owned(),
            user: "u".to_owned(),
            password: "p w".to_owned(),
            tls: Some(certificate),
            implicit,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let of_thread = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            serve(&server, &of_thread, |address| tell.send(address).unwrap()).unwrap();
        });
        Self { address: told.recv().unwrap(), directory, root, stop, thread: Some(thread) }
    }

    fn local() -> Self {
        Self::start(Ipv4Addr::LOCALHOST.into(), false)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn requests() -> FtpRequests {
    FtpRequests {
        mix: FtpMix { retr: 5, stor: 3, list: 2 },
        files: 20,
        size: FileSizes::LogNormal(Bytes(50_000), Bytes(300_000)),
        transfers: Some(7),
        think: Nanos::ZERO,
        data: DataMode::Epsv,
        tls: None,
        arrivals_of: FtpArrivals::Transfers,
        read_back: 2,
        rest: false,
        bytes: None,
    }
}

fn tls(protect: bool, resume: bool, version: Option<TlsVersion>) -> FtpTls {
    FtpTls { mode: FtpTlsMode::Explicit, protect, resume, version, cipher: None }
}

fn spec(target: SocketAddr, requests: FtpRequests) -> FtpSpec {
    FtpSpec {
        pool: ConnectionPool {
            target,
            connections: 8,
            timeout: Nanos::from_secs(20),
            cpus: CpuSet::default(),
        },
        requests,
        sources: Vec::new(),
        user: "u".to_owned(),
        password: "p w".to_owned(),
        verify: FtpVerify::Nothing,
        seed: 5,
        part: Part::default(),
    }
}

/// Transfers or sessions after which a step has seen enough.
const ENOUGH: u64 = 150;
/// What a step must never need, even on a busy machine.
const LONGEST: Nanos = Nanos::from_secs(60);

/// A step of one interval, so that no count depends on when it is cancelled.
fn step(model: Model) -> RequestStep {
    let (duration, interval, drain) = (LONGEST, LONGEST, Nanos::from_secs(1));
    RequestStep { model, warmup: Nanos::ZERO, duration, seed: 3, samples: false, interval, drain }
}

/// Carries out a step until so many have ended, well or not, however long that takes.
fn until(session: &FtpSession, model: Model, enough: u64) -> (LoadResult, FtpDetails) {
    let (control, over) = (Control::new(), AtomicBool::new(false));
    let mut result = std::thread::scope(|scope| {
        scope.spawn(|| {
            let ended = || {
                let progress = control.progress();
                progress.ok + progress.failed
            };
            while ended() < enough && !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            control.cancel();
        });
        let result = session.run_step(&step(model), &control);
        over.store(true, Ordering::Relaxed);
        result.unwrap()
    });
    let details = result.details.take().and_then(|details| details.ftp).expect("details of FTP");
    (result, *details)
}

fn poisson(rate: f64) -> Model {
    let (from, to) = (Rate(rate), Rate(rate));
    let profile = vec![Segment { from, to, duration: LONGEST }];
    Model::Open { arrivals: ArrivalProcess::Poisson, profile }
}

fn run(spec: &FtpSpec, model: Model) -> (LoadResult, FtpDetails) {
    run_until(spec, model, ENOUGH)
}

fn run_until(spec: &FtpSpec, model: Model, enough: u64) -> (LoadResult, FtpDetails) {
    let session = FtpSession::open(spec).unwrap_or_else(|error| panic!("{error}"));
    until(&session, model, enough)
}

/// Nothing went wrong, and what was counted here and there agrees.
fn all_right(result: &LoadResult, details: &FtpDetails) {
    assert_eq!(result.counts.errors.total(), 0, "{:?} {details:?}", result.counts);
    assert_eq!((details.wrong(), details.broken_sessions), (0, 0), "{details:?}");
    assert_eq!(details.first_failure, None);
    assert!(result.counts.ok > 0 && details.ok() > 0, "{:?}", result.counts);
}

#[test]
fn every_transfer_is_whole_in_every_mode_of_data_connections() {
    let server = Server::local();
    for data in [DataMode::Epsv, DataMode::Pasv, DataMode::Active] {
        let (result, details) = run(&spec(server.address, FtpRequests { data, ..requests() }), Model::Closed);
        all_right(&result, &details);
        assert_eq!(result.counts.ok, details.ok(), "{data:?}");
        assert!(details.kinds().iter().all(|(_, kind)| kind.ok > 0), "{data:?} {details:?}");
        assert!(details.compared >= details.retr.bytes && details.logins > 0);
        assert_eq!((details.handshakes, details.tls), (Default::default(), None));
    }
}

#[test]
fn tls_is_counted_by_connection_and_by_what_it_resumes() {
    let server = Server::local();
    for version in [TlsVersion::V12, TlsVersion::V13] {
        for (protect, resume) in [(false, false), (true, false), (true, true)] {
            let tls = Some(tls(protect, resume, Some(version)));
            let (result, details) =
                run(&spec(server.address, FtpRequests { tls, ..requests() }), Model::Closed);
            let case = format!("{version:?} {protect} {resume}");
            all_right(&result, &details);
            let done = details.handshakes;
            assert!(done.control_full > 0 && done.control_resumed == 0, "{case} {done:?}");
            assert_eq!(done.data_full > 0, protect && !resume, "{case} {done:?}");
            assert_eq!(done.data_resumed > 0, protect && resume, "{case} {done:?}");
            assert_eq!(details.without_close_notify, 0, "{case}");
            let word = if version == TlsVersion::V12 { "TLS 1.2 " } else { "TLS 1.3 " };
            assert!(details.tls.as_ref().is_some_and(|tls| tls.starts_with(word)), "{:?}", details.tls);
        }
    }
}

#[test]
fn tls_may_begin_with_the_connection_and_names_are_checked() {
    let server = Server::start(Ipv4Addr::LOCALHOST.into(), true);
    let mut tls = tls(true, true, None);
    tls.mode = FtpTlsMode::Implicit;
    tls.cipher = Some("TLS_CHACHA20_POLY1305_SHA256".to_owned());
    let mut spec = spec(server.address, FtpRequests { tls: Some(tls), ..requests() });
    let roots = vec![server.root.clone()];
    spec.verify = FtpVerify::Authorities { name: "127.0.0.1".to_owned(), roots: roots.clone() };
    let (result, details) = run(&spec, Model::Closed);
    all_right(&result, &details);
    assert_eq!(details.tls.as_deref(), Some("TLS 1.3 TLS_CHACHA20_POLY1305_SHA256"));
    spec.verify = FtpVerify::Authorities { name: "127.0.0.2".to_owned(), roots };
    let error = FtpSession::open(&spec).map(drop).unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
}

#[test]
fn ipv6_has_extended_commands() {
    let server = Server::start(std::net::Ipv6Addr::LOCALHOST.into(), false);
    for data in [DataMode::Epsv, DataMode::Active] {
        let (result, details) = run(&spec(server.address, FtpRequests { data, ..requests() }), Model::Closed);
        all_right(&result, &details);
    }
    let pasv = spec(server.address, FtpRequests { data: DataMode::Pasv, ..requests() });
    assert!(matches!(FtpSession::open(&pasv), Err(LoadError::Spec { field: "data", .. })));
}

#[test]
fn an_open_loop_offers_transfers_or_sessions() {
    let server = Server::local();
    let small = FtpRequests { size: FileSizes::Fixed(Bytes(2_000)), ..requests() };
    let mut of_transfers = spec(server.address, FtpRequests { transfers: None, ..small.clone() });
    of_transfers.pool.connections = 50;
    of_transfers.sources = (1..=5).map(|last| Ipv4Addr::new(127, 0, 0, last).into()).collect();
    let (result, details) = run(&of_transfers, poisson(200.0));
    all_right(&result, &details);
    let due = result.counts.intended;
    assert!(due >= ENOUGH, "{due}");
    assert_eq!(result.counts.ok + result.counts.unfinished + result.counts.missed, due);
    let mut of_sessions = spec(
        server.address,
        FtpRequests {
            arrivals_of: FtpArrivals::Sessions,
            transfers: Some(3),
            think: Nanos::from_millis(2),
            ..small
        },
    );
    of_sessions.pool.connections = 50;
    let (result, details) = run_until(&of_sessions, poisson(40.0), 30);
    all_right(&result, &details);
    let sessions = result.counts.ok;
    assert!(sessions >= 30 && details.ok() >= 3 * sessions, "{sessions} {details:?}");
}

#[test]
fn a_load_may_end_with_its_bytes() {
    let server = Server::local();
    let bytes = Bytes::from_mib(3);
    let requests = FtpRequests { size: FileSizes::Fixed(Bytes(100_000)), bytes: Some(bytes), ..requests() };
    // Nothing else ends it before its time.
    let (result, details) = run_until(&spec(server.address, requests), Model::Closed, u64::MAX);
    all_right(&result, &details);
    assert!(result.duration < LONGEST, "{:?}", result.duration);
    // Each client may have begun a file when the others have begun enough.
    let moved = details.retr.bytes + details.stor.bytes;
    assert!((bytes.0..=bytes.0 + 2 * 8 * 100_000).contains(&moved), "{moved}");
    assert_eq!(result.counts.unfinished, 0);
}

/// A load that a full disk kept from moving anything had moved all at once.
#[test]
fn a_load_that_ends_with_its_bytes_counts_none_that_failed() {
    let server = Server::local();
    let (bytes, mix) = (Bytes::from_mib(3), FtpMix { retr: 0, stor: 1, list: 0 });
    let size = FileSizes::Fixed(Bytes(100_000));
    let requests = FtpRequests { mix, size, read_back: 0, bytes: Some(bytes), ..requests() };
    let session = FtpSession::open(&spec(server.address, requests)).unwrap();
    std::fs::remove_dir(server.directory.path()).unwrap();
    let control = Control::new();
    let result = std::thread::scope(|scope| {
        let running = scope.spawn(|| session.run_step(&step(Model::Closed), &control));
        // More than all of them.
        while control.progress().failed < 100 && !running.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::create_dir(server.directory.path()).unwrap();
        running.join().unwrap().unwrap()
    });
    let details = result.details.and_then(|details| details.ftp).expect("details of FTP");
    assert!(details.stor.failed >= 100 && details.stor.bytes >= bytes.0, "{details:?}");
    assert!(result.duration < LONGEST, "{:?}", result.duration);
}

#[test]
fn a_load_that_ends_with_its_bytes_counts_none_of_its_warm_up() {
    let server = Server::local();
    let bytes = Bytes::from_mib(1);
    let requests = FtpRequests { size: FileSizes::Fixed(Bytes(100_000)), bytes: Some(bytes), ..requests() };
    let session = FtpSession::open(&spec(server.address, requests)).unwrap();
    let step = RequestStep { warmup: Nanos::from_millis(500), ..step(Model::Closed) };
    let result = session.run_step(&step, &Control::new()).unwrap();
    let details = result.details.and_then(|details| details.ftp).expect("details of FTP");
    assert!(details.bytes() >= bytes.0 && result.duration < LONGEST, "{:?} {details:?}", result.duration);
    // It ended with its last transfer, so that all of them are part of the goodput.
    assert!(details.bytes_in_time.is_some_and(|moved| moved >= details.bytes()), "{details:?}");
}

#[test]
fn phases_add_up_to_what_transfers_take() {
    let server = Server::local();
    let tls = Some(tls(true, true, None));
    let mut spec = spec(server.address, FtpRequests { tls, think: Nanos::from_millis(1), ..requests() });
    spec.pool.connections = 1;
    let (result, details) = run(&spec, Model::Closed);
    all_right(&result, &details);
    let mean = |kind: &vtax_load::ftp::FtpTransfers| -> u64 {
        kind.phases.iter().map(|phase| phase.times.mean().0).sum()
    };
    for (name, kind) in details.kinds() {
        assert_eq!(kind.phases.len(), 6, "{name}");
        assert!(kind.phases.iter().all(|phase| phase.times.len() == kind.ok), "{name}");
        assert!(mean(kind) <= result.latency.max().0 * 11 / 10, "{name}");
    }
    assert_eq!(details.login.len(), 3);
}

#[test]
fn wrong_contents_are_told() {
    let server = Server::local();
    let only = FtpMix { retr: 1, stor: 0, list: 0 };
    let fetch = FtpRequests { mix: only, files: 1, size: FileSizes::Fixed(Bytes(100_000)), ..requests() };
    let spec = spec(server.address, fetch);
    let session = FtpSession::open(&spec).unwrap();
    let path = server.file("vtax-r0");
    let right = std::fs::read(&path).unwrap();
    let found = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let (result, _) = until(&session, Model::Closed, 5);
        assert_eq!(result.counts.ok, 0);
        result.counts.errors
    };
    let mut damaged = right.clone();
    damaged[77_777] ^= 1;
    assert!(found(&damaged).corrupt > 0);
    assert!(found(&[&right[..], b"x"].concat()).corrupt > 0);
    let short = found(&right[..99_999]);
    assert!(short.lost > 0 && short.corrupt == 0, "{short:?}");
    std::fs::remove_file(&path).unwrap();
    let (result, _) = until(&session, Model::Closed, 5);
    assert!(
        result.counts.errors.status > 0 && result.counts.failed_status == Some(550),
        "{:?}",
        result.counts
    );
}

#[test]
fn a_wrong_password_is_told_at_once() {
    let server = Server::local();
    let mut spec = spec(server.address, requests());
    spec.password = "wrong".to_owned();
    let error = FtpSession::open(&spec).map(drop).unwrap_err().to_string();
    assert!(error.contains("530"), "{error}");
    let free = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), vtax_sys::free_port());
    spec.pool.target = free;
    let error = FtpSession::open(&spec).map(drop).unwrap_err().to_string();
    assert!(error.contains("connecting failed"), "{error}");
}
