//! The real NFS-Ganesha. Of version 3 it wants to be registered with a port mapper, which has to be the test's own: the same tests
//! are then made in namespaces, by another copy of this program.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use vtax_load::storage::nfs::{self, NfsSpec, NfsVersion};
use vtax_load::storage::{Failure, Kind, Operation, Shape, StorageError, Target};
use vtax_plan::model::{GaneshaBackend, GaneshaOptions, ServiceKind};
use vtax_service::RunningService;
use vtax_service::embedded::port_mapper;
use vtax_sys::require::{Need, installed, need};
use vtax_units::Nanos;

use crate::proxy::Proxy;
use crate::{fill, one, server, shape, until_done};

const TIMEOUT: Duration = Duration::from_secs(20);
/// Set in the copy of this program in which everything is of version 3.
const INSIDE: &str = "VTAX_TEST_VERSION_3";

fn version() -> NfsVersion {
    if std::env::var_os(INSIDE).is_some() { NfsVersion::V3 } else { NfsVersion::V41 }
}

fn of_version_3(mount_port: u16) -> Option<u16> {
    (version() == NfsVersion::V3).then_some(mount_port)
}

/// Not a test: the port mapper of a service that a test has started.
#[test]
#[ignore = "runs until it is ended"]
fn port_mapper_of_a_service() {
    let path = Path::new(port_mapper::SOCKET);
    port_mapper::serve(path, |path| println!("{}{}", port_mapper::READY, path.display())).unwrap();
}

/// Makes a program that is to a service what vtax is: its port mapper. By another process: one that this process has open for
/// writing may be kept so by what other tests start, and can't be run meanwhile.
fn port_mapper_at(path: &Path) {
    let this = std::env::current_exe().unwrap();
    let program = format!(
        "#!/bin/sh\nexec '{}' --exact real::port_mapper_of_a_service --ignored --nocapture\n",
        this.display()
    );
    let write = "printf %s \"$2\" >\"$1\" && chmod 755 \"$1\"";
    let made = Command::new("sh").args(["-c", write, "sh"]).arg(path).arg(program).status();
    assert!(made.unwrap().success());
}

#[test]
fn all_of_this_is_so_in_version_3() {
    if version() == NfsVersion::V3 || !need(&[Need::Root]) {
        return;
    }
    let output = Command::new("unshare")
        .args(["-nmp", "--fork", "--mount-proc", "--kill-child", "sh", "-c"])
        // Ganesha resolves no address where the host has none but loopback's.
        .arg(
            "mount -t tmpfs none /run && ip link set lo up && ip address add 10.0.0.1/32 dev lo && \
             exec timeout 200 \"$0\" real:: --test-threads 1",
        )
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("8 passed"), "{text}");
}

/// A server of the test's own.
struct Server {
    port: u16,
    mount_port: u16,
    backend: GaneshaBackend,
    running: Option<RunningService>,
    directory: tempfile::TempDir,
}

impl Server {
    fn start(backend: GaneshaBackend) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (port, mount_port) = (vtax_sys::free_port(), vtax_sys::free_port());
        port_mapper_at(&directory.path().join("vtax"));
        let mut server = Self { port, mount_port, backend, running: None, directory };
        server.begin();
        server
    }

    fn begin(&mut self) {
        let kind = ServiceKind::Ganesha(GaneshaOptions {
            port: self.port,
            backend: self.backend,
            nfs_version: version(),
            mount_port: self.mount_port,
        });
        let place = self.directory.path().join("service");
        let vtax = self.directory.path().join("vtax");
        self.running = Some(server::start_with(kind, Nanos::from_secs(30), place, vtax));
    }

    fn end(&mut self) {
        let _ = self.running.take().map(RunningService::stop);
    }

    /// Where the files are that it serves.
    fn files(&self) -> PathBuf {
        self.directory.path().join("service/files")
    }

    fn spec(&self) -> NfsSpec {
        let spec = NfsSpec::new(SocketAddr::from(([127, 0, 0, 1], self.port)), GaneshaOptions::EXPORT);
        NfsSpec { version: version(), mount_port: of_version_3(self.mount_port), ..spec }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn open(spec: &NfsSpec, shape: Shape) -> Box<dyn Target> {
    let mut target = nfs::open(spec, shape, TIMEOUT).unwrap();
    target.prepare().unwrap();
    target
}

/// Writes at depth and reads it back.
fn write_and_read(target: &mut dyn Target, length: u32) {
    const DEPTH: u16 = 8;
    for kind in [Kind::Write, Kind::Read] {
        for round in 0..4u64 {
            for slot in 0..DEPTH {
                let number = round * u64::from(DEPTH) + u64::from(slot);
                let buffer = &mut target.buffer(slot)[..length as usize];
                if kind == Kind::Write {
                    fill(buffer, number as usize)
                } else {
                    buffer.fill(0)
                }
                let offset = number * u64::from(length);
                target.submit(&Operation { slot, kind, file: 0, offset, length }).unwrap();
            }
            for done in until_done(target, DEPTH.into()) {
                assert_eq!(done.result, Ok(length), "{:?}", target.first_failure());
                let number = round * u64::from(DEPTH) + u64::from(done.slot);
                let mut expected = vec![0; length as usize];
                fill(&mut expected, number as usize);
                assert!(target.buffer(done.slot)[..length as usize] == expected[..], "{number}");
            }
        }
    }
    assert_eq!(one(target, Kind::Flush, 0, 0, 0), Ok(0));
}

#[test]
fn what_is_written_to_memory_is_read_back() {
    if !installed(&["ganesha.nfsd"]) {
        return;
    }
    let server = Server::start(GaneshaBackend::Memory);
    for length in [512, 4096, 32768] {
        let mut target = open(&NfsSpec { overwrite: true, ..server.spec() }, shape(8, 65536));
        assert!(
            target.facts().what.starts_with(&format!("NFS {}, reads of ", version().word())),
            "{}",
            target.facts().what
        );
        write_and_read(&mut *target, length);
        target.remove().unwrap();
        target.finish().unwrap();
    }
}

#[test]
fn what_is_written_to_files_is_there_and_what_is_removed_is_not() {
    if !need(&[Need::Root]) {
        return;
    }
    let server = Server::start(GaneshaBackend::Files);
    let mut target = open(&server.spec(), shape(8, 4 << 20));
    write_and_read(&mut *target, 4096);
    // Longer than the server's longest transfer: in parts.
    fill(target.buffer(0), 5);
    let sent = target.buffer(0).to_vec();
    assert_eq!(one(&mut *target, Kind::WriteDurable, 0, 8192, 4 << 20), Ok(4 << 20));
    target.buffer(0).fill(0);
    assert_eq!(one(&mut *target, Kind::Read, 0, 8192, 4 << 20), Ok(4 << 20));
    assert!(target.buffer(0) == sent);
    let file = server.files().join("vtax-3-0");
    assert!(std::fs::read(&file).unwrap()[8192..] == sent);
    // The file ends before the record does.
    assert_eq!(one(&mut *target, Kind::Read, 0, (4 << 20) + 4096, 65536), Ok(4096));
    assert_eq!(one(&mut *target, Kind::Read, 0, 1 << 30, 65536), Ok(0));
    target.empty().unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 0);
    target.remove().unwrap();
    assert_eq!(names_in(&server.files()), Vec::<String>::new());
    target.finish().unwrap();
}

fn names_in(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn small_files_are_made_counted_and_removed() {
    if !need(&[Need::Root]) {
        return;
    }
    const FILES: u32 = 700;
    let server = Server::start(GaneshaBackend::Files);
    let mut target = open(&server.spec(), shape(4, 4096));
    fill(target.buffer(0), 1);
    let content = target.buffer(0)[..1000].to_vec();
    for file in 0..FILES {
        assert_eq!(one(&mut *target, Kind::Create, file, u64::from(file % 2), 1000), Ok(1000));
    }
    assert_eq!(one(&mut *target, Kind::Create, 5, 0, 1000), Err(Failure::Other), "it is there already");
    assert_eq!(one(&mut *target, Kind::List, 0, 0, 0), Ok(FILES));
    let names = server.files().join("vtax-3.d");
    assert_eq!(std::fs::read(names.join("77")).unwrap(), content);
    assert_eq!(one(&mut *target, Kind::Remove, 77, 0, 0), Ok(0));
    assert_eq!(one(&mut *target, Kind::Remove, 77, 0, 0), Err(Failure::Missing));
    assert_eq!(one(&mut *target, Kind::List, 0, 0, 0), Ok(FILES - 1));
    assert!(target.first_failure().unwrap().contains("ERR_EXIST"), "{:?}", target.first_failure());
    target.remove().unwrap();
    assert_eq!(names_in(&server.files()), Vec::<String>::new());
}

#[test]
fn files_of_others_are_left_alone() {
    if !need(&[Need::Root]) {
        return;
    }
    let server = Server::start(GaneshaBackend::Files);
    std::fs::write(server.files().join("vtax-3-0"), "a letter").unwrap();
    let prepare = |spec: &NfsSpec| nfs::open(spec, shape(1, 4096), TIMEOUT).unwrap().prepare();
    let error = prepare(&server.spec()).unwrap_err();
    assert!(matches!(error, StorageError::Foreign { .. }), "{error}");
    prepare(&NfsSpec { overwrite: true, ..server.spec() }).unwrap();
    std::fs::write(server.files().join("vtax-3-0"), "vtaxdata and more").unwrap();
    prepare(&server.spec()).unwrap();
    let huge = Shape { size: 1 << 55, ..shape(1, 4096) };
    let error = nfs::open(&server.spec(), huge, TIMEOUT).unwrap().prepare().unwrap_err();
    assert!(matches!(error, StorageError::TooSmall { .. }), "{error}");
}

#[test]
fn a_connection_cut_in_the_middle_of_writes_loses_them_and_comes_back() {
    if !need(&[Need::Root]) {
        return;
    }
    let server = Server::start(GaneshaBackend::Files);
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], server.port)));
    let mut target = open(&NfsSpec { address: proxy.address, ..server.spec() }, shape(4, 1 << 18));
    for round in 0..5 {
        fill(target.buffer(0), round);
        let acknowledged = target.buffer(0).to_vec();
        assert_eq!(one(&mut *target, Kind::WriteDurable, 0, 0, 1 << 18), Ok(1 << 18));
        proxy.cut.store(true, Ordering::Relaxed);
        for slot in 1..4 {
            let offset = u64::from(slot) << 18;
            target.submit(&Operation { slot, kind: Kind::Write, file: 0, offset, length: 1 << 18 }).unwrap();
        }
        let done = until_done(&mut *target, 3);
        assert!(done.iter().any(|done| done.result == Err(Failure::Lost)), "{done:?}");
        target.buffer(0).fill(0);
        let again = (0..200).map(|_| one(&mut *target, Kind::Read, 0, 0, 1 << 18)).find(Result::is_ok);
        assert_eq!(again, Some(Ok(1 << 18)), "it never comes back: {:?}", target.first_failure());
        assert!(target.buffer(0) == acknowledged, "an acknowledged write is there");
    }
}

#[test]
fn a_server_that_begins_anew_is_found_again() {
    if !need(&[Need::Root]) {
        return;
    }
    let mut server = Server::start(GaneshaBackend::Files);
    let mut target = open(&server.spec(), shape(1, 4096));
    assert_eq!(one(&mut *target, Kind::Write, 0, 0, 4096), Ok(4096));
    server.end();
    assert_eq!(one(&mut *target, Kind::Read, 0, 0, 4096), Err(Failure::Lost));
    // Its verifier of writes is the second in which it began.
    thread::sleep(Duration::from_millis(1100));
    server.begin();
    let again = (0..200).map(|_| one(&mut *target, Kind::Write, 0, 0, 4096)).find(Result::is_ok);
    assert_eq!(again, Some(Ok(4096)), "{:?}", target.first_failure());
    assert_eq!(one(&mut *target, Kind::Flush, 0, 0, 0), Err(Failure::Lost), "it forgot the first write");
    assert_eq!(one(&mut *target, Kind::Flush, 0, 0, 0), Ok(0));
}

fn refused(spec: &NfsSpec, timeout_ms: u64) -> String {
    nfs::open(spec, shape(1, 4096), Duration::from_millis(timeout_ms)).err().unwrap().to_string()
}

#[test]
fn what_is_not_there_is_told_in_time() {
    if !installed(&["ganesha.nfsd"]) {
        return;
    }
    let server = Server::start(GaneshaBackend::Memory);
    let spec = NfsSpec { path: "/vtax/nothing/here".into(), ..server.spec() };
    let error = refused(&spec, 10_000);
    assert!(error.contains("/vtax/nothing/here: there is no such file"), "{error}");
    let at = |address: SocketAddr| NfsSpec {
        version: version(),
        mount_port: of_version_3(address.port()),
        ..NfsSpec::new(address, "/vtax")
    };
    let nobody = at(SocketAddr::from(([127, 0, 0, 1], vtax_sys::free_port())));
    assert!(refused(&nobody, 2000).contains("refused"), "{}", refused(&nobody, 2000));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = at(listener.local_addr().unwrap());
    assert!(refused(&silent, 200).contains("timed out"));
    // A reply to a first call: there is no such program.
    let mut reply = [0; 28];
    (reply[0], reply[3], reply[4], reply[7], reply[11], reply[27]) = (0x80, 24, 0x80, 2, 1, 1);
    let answers =
        [b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), vec![0x80, 0, 0, 4, 0, 0, 0, 0], reply.to_vec()];
    let server = thread::spawn(move || {
        // The first is the silent one's.
        let _ = listener.accept();
        for answer in answers {
            let mut stream = listener.accept().unwrap().0;
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(&answer).unwrap();
            while stream.read(&mut request).is_ok_and(|got| got > 0) {}
        }
    });
    for word in ["more than", "ends too early", "no such program"] {
        let error = refused(&silent, 5000);
        assert!(error.contains(word), "{error}");
    }
    server.join().unwrap();
}
