//! What the tests of real services share.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vtax_plan::model::{CommandService, Ready, Service, ServiceKind};
use vtax_service::{Notice, RunningService, ServiceError, StartContext};
use vtax_sys::sync::lock;
use vtax_units::Nanos;

/// A directory that every user may enter, so that servers can drop privileges.
pub(crate) struct Bench {
    directory: tempfile::TempDir,
    pub(crate) notices: Arc<Mutex<Vec<Notice>>>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755))
            .expect("own directory");
        Self { directory, notices: Arc::default() }
    }

    pub(crate) fn private(&self) -> PathBuf {
        self.directory.path().join("service")
    }

    pub(crate) fn context(&self) -> StartContext {
        StartContext {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            directory: self.private(),
            cpus: 2,
            vtax: PathBuf::from("/proc/self/exe"),
            die_with_starter: false,
            prepared: None,
            disk: None,
            call_off: None,
        }
    }

    pub(crate) fn start(&self, service: &Service) -> Result<RunningService, ServiceError> {
        let notices = Arc::clone(&self.notices);
        RunningService::start(service, None, &self.context(), move |notice| {
            lock(&notices).push(notice);
        })
    }

    pub(crate) fn notices(&self) -> Vec<Notice> {
        lock(&self.notices).clone()
    }

    /// Waits until a notice fits, at most 10 s.
    pub(crate) fn wait_for(&self, what: &str, fits: impl Fn(&Notice) -> bool) {
        let until = Instant::now() + Duration::from_secs(10);
        while !self.notices().iter().any(&fits) {
            assert!(Instant::now() < until, "no {what} among {:?}", self.notices());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Nothing of the service is left: no process, no file, no listener on its port.
    pub(crate) fn assert_gone(&self, port: u16) {
        let left = processes_below(&self.private());
        assert!(left.is_empty(), "processes left behind: {left:?}");
        assert!(!self.private().exists(), "its directory is left behind");
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("its port is free");
    }
}

/// Processes whose command line or working directory names the directory.
pub(crate) fn processes_below(directory: &std::path::Path) -> Vec<String> {
    let needle = directory.to_string_lossy().into_owned();
    std::fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()))
        .filter_map(|e| {
            let line = String::from_utf8_lossy(&std::fs::read(e.path().join("cmdline")).ok()?).into_owned();
            let cwd = std::fs::read_link(e.path().join("cwd")).unwrap_or_default();
            (line.contains(&needle) || cwd.starts_with(directory)).then_some(line)
        })
        .collect()
}

pub(crate) fn service(name: &str, kind: ServiceKind) -> Service {
    Service {
        name: name.into(),
        kind,
        ready_timeout: Nanos::from_secs(20),
        stop_timeout: Nanos::from_secs(10),
    }
}

/// A service of the user's own, run by a shell script.
pub(crate) fn script(port: u16, ready: Ready, script: &str) -> Service {
    let command = CommandService {
        command: ["sh", "{dir}/run.sh"].map(str::to_owned).to_vec(),
        port,
        ready,
        env: BTreeMap::from([("WHERE".into(), "{address}:{port}".into())]),
        files: BTreeMap::from([("run.sh".into(), script.to_owned())]),
    };
    service("own", ServiceKind::Command(command))
}

/// GETs `path`: status line and body.
pub(crate) fn get(address: SocketAddr, path: &str) -> (String, Vec<u8>) {
    let (head, body) = get_whole(address, path);
    (head.lines().next().unwrap_or("").to_owned(), body)
}

/// GETs `path`: head and body.
pub(crate) fn get_whole(address: SocketAddr, path: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    (head, answer[end + 4..].to_vec())
}
