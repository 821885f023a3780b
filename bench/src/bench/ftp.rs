//! The FTP load generator beside curl and lftp, against vtax's own server on another CPU.
//!
//! What counts is transfers, or bytes, per CPU-second of the client process. All fetch the same file over one session, with TLS with
//! resumed data connections; ours compares every byte, the others write to nowhere. What a single transfer takes is taken off, and with it what it
//! costs to start, to log in, and of ours to store the file.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vtax_service::Certificate;
use vtax_sys::reap::Reaped;

use crate::place;
use crate::program::{Server, median, pinned, run, run_load};
use crate::sheet::{Row, Sheet};

const GENERATOR_CPU: &str = "0";
const SERVER_CPU: &str = "1";
const ROUNDS: usize = 3;
/// The longest that ours may take for its transfers.
const LONGEST: &str = "120s";
/// Most transfers of one curl. Where EPSV is answered before it looks for the answer, curl 7.88 waits for a second until it connects:
/// it costs no CPU time, but as many as lftp makes would take half an hour.
const CURL_TIMES: u32 = 60;
/// The file that is fetched first; ours stores it.
const FILE: &str = "vtax-r0";
const USER: &str = "anonymous";
const PASSWORD: &str = "vtax@";

/// What is fetched.
#[derive(Clone, Copy)]
struct Fetches {
    name: &'static str,
    /// Bytes of the file.
    size: u64,
    /// How often the peers fetch it.
    times: u32,
    tls: bool,
    /// What is to be reached beside each peer.
    goal: f64,
}

const ALL: [Fetches; 4] = [
    Fetches { name: "files of 100 kB", size: 100_000, times: 2000, tls: false, goal: 1.5 },
    Fetches { name: "files of 100 kB, TLS", size: 100_000, times: 500, tls: true, goal: 1.0 },
    Fetches { name: "files of 64 MiB", size: 64 << 20, times: 12, tls: false, goal: 0.95 },
    Fetches { name: "files of 64 MiB, TLS", size: 64 << 20, times: 8, tls: true, goal: 0.95 },
];

/// Sessions at once, and the most memory in MiB that they may take.
const SESSIONS: u32 = 1000;
const MEMORY: f64 = 200.0;

/// A client beside ours.
type Peer = (&'static str, fn(&Ftp, Fetches) -> Result<f64>);

const PEERS: [Peer; 2] = [("curl", curl), ("lftp", lftp)];

/// The rows of this bench.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    for fetches in ALL {
        // A server of its own for each size: the file is stored anew.
        let server = Ftp::start()?;
        for (name, peer) in PEERS {
            let bulk = fetches.size > 1 << 20;
            // The goal for bulk is beside curl alone.
            if bulk && name != "curl" {
                continue;
            }
            let mut pairs = Vec::new();
            // In turn, so that a noisy host is noisy to both; ours first, as it stores the file.
            for _ in 0..ROUNDS {
                pairs.push((ours(&server, fetches)?, peer(&server, fetches)?));
            }
            let ratio = median(pairs.iter().map(|(ours, peer)| ours / peer).collect());
            let of = |transfers: f64| if bulk { transfers * fetches.size as f64 / 1e6 } else { transfers };
            sheet.add(Row {
                name: format!("FTP RETR, {}, beside {name}", fetches.name),
                ours: of(median(pairs.iter().map(|p| p.0).collect())),
                peer: Some(of(median(pairs.iter().map(|p| p.1).collect()))),
                unit: if bulk { "MB/CPU-s" } else { "files/CPU-s" }.to_owned(),
                ratio: Some(ratio),
                goal: format!(">= {}x", fetches.goal),
                ok: ratio >= fetches.goal,
            })?;
        }
    }
    memory(sheet)
}

/// Sessions over TLS that are all there at once, and what they take.
fn memory(sheet: &mut Sheet) -> Result<()> {
    let server = Ftp::start()?;
    let sessions = SESSIONS.to_string();
    let many = ["--connections", &sessions, "--think", "1s", "--duration", "10s", "--tls", "explicit"];
    let (report, reaped) = load(&server, 1000, &many)?;
    let (logins, broken) = (figure(&report, "logins")?, figure(&report, "broken_sessions")?);
    ensure!(logins >= f64::from(SESSIONS) && broken == 0.0, "{logins} logins, {broken} sessions broke");
    let ours = reaped.resident_bytes_max as f64 / f64::from(1 << 20);
    sheet.add(Row {
        name: format!("FTP, {SESSIONS} sessions over TLS, memory"),
        ours,
        peer: None,
        unit: "MiB".to_owned(),
        ratio: None,
        goal: format!("<= {MEMORY} MiB"),
        ok: ours <= MEMORY,
    })
}

/// What a load of our own found.
fn load(server: &Ftp, size: u64, more: &[&str]) -> Result<(Value, Reaped)> {
    let mut command = pinned(GENERATOR_CPU, &place::vtax().display().to_string());
    command.args(["load", "ftp", &server.address.to_string(), "--json", "--quiet", "--cpus", GENERATOR_CPU]);
    command.args(["--files", "1", "--size", &format!("{size}B"), "--warmup", "0s"]);
    // A busy machine takes its time for a long file, or for many logins at once.
    command.args(["--timeout", "60s"]).args(more);
    run_load(&mut command)
}

/// A number among its details.
fn figure(report: &Value, path: &str) -> Result<f64> {
    let found = report.pointer(&format!("/result/details/ftp/{path}"));
    found.and_then(Value::as_f64).with_context(|| format!("no {path}"))
}

/// Transfers per CPU-second of ours, as of the others. It stores the file first, each time.
fn ours(server: &Ftp, fetches: Fetches) -> Result<f64> {
    beyond_one(fetches.times, |times| ours_cpu(server, fetches, times))
}

fn ours_cpu(server: &Ftp, fetches: Fetches, times: u32) -> Result<f64> {
    let bytes = format!("{}B", fetches.size * u64::from(times));
    let mut more = vec!["--connections", "1", "--duration", LONGEST, "--bytes", &bytes];
    if fetches.tls {
        more.extend(["--tls", "explicit"]);
    }
    let (report, reaped) = load(server, fetches.size, &more)?;
    let ok = figure(&report, "retr/ok")?;
    let failed = figure(&report, "retr/failed")?;
    ensure!(
        failed == 0.0,
        "{failed} transfers failed: {:?}",
        report.pointer("/result/details/ftp/first_failure")
    );
    let full = figure(&report, "handshakes/data_full")?;
    ensure!(full == 0.0, "{full} data connections didn't resume their session");
    ensure!(ok == f64::from(times), "{ok} transfers instead of {times}");
    Ok(reaped.cpu.total().as_secs_f64())
}

/// Transfers per CPU-second of a client that makes so many: what it takes beyond one with a single transfer.
fn beyond_one(times: u32, cpu: impl Fn(u32) -> Result<f64>) -> Result<f64> {
    let (one, all) = (cpu(1)?, cpu(times)?);
    ensure!(all > one, "{times} transfers took {all} s of a CPU, one took {one} s");
    Ok(f64::from(times - 1) / (all - one))
}

/// The same of curl: one process that fetches the file again and again.
fn curl(server: &Ftp, fetches: Fetches) -> Result<f64> {
    beyond_one(fetches.times.min(CURL_TIMES), |times| curl_cpu(server, fetches.tls, times))
}

/// CPU time of a curl that fetches the file so often, in seconds.
fn curl_cpu(server: &Ftp, tls: bool, times: u32) -> Result<f64> {
    let mut list = String::new();
    for _ in 0..times {
        writeln!(list, "url = \"ftp://{}/{FILE}\"\noutput = \"/dev/null\"", server.address)?;
    }
    let file = server.directory.path().join("curl.conf");
    std::fs::write(&file, list)?;
    let mut command = pinned(GENERATOR_CPU, "curl");
    // For each transfer.
    command.args(["--max-time", "60", "--silent", "--show-error", "--fail"]);
    command.args(["--user", &format!("{USER}:{PASSWORD}"), "--config"]);
    command.arg(&file);
    if tls {
        command.args(["--ssl-reqd", "--insecure"]);
    }
    let (_, reaped) = run(&mut command, "curl")?;
    Ok(reaped.cpu.total().as_secs_f64())
}

/// The same of lftp.
fn lftp(server: &Ftp, fetches: Fetches) -> Result<f64> {
    beyond_one(fetches.times, |times| lftp_cpu(server, fetches.tls, times))
}

fn lftp_cpu(server: &Ftp, tls: bool, times: u32) -> Result<f64> {
    let (ip, port) = (server.address.ip(), server.address.port());
    let force = if tls { "true" } else { "false" };
    let mut script = format!(
        "set ssl:verify-certificate false\nset ftp:ssl-allow {force}\nset ftp:ssl-force {force}\nset ftp:ssl-protect-data {force}\n\
         set cmd:fail-exit true\nopen -u {USER},{PASSWORD} -p {port} {ip}\n"
    );
    for _ in 0..times {
        writeln!(script, "cat {FILE} > /dev/null")?;
    }
    let file = server.directory.path().join("lftp.script");
    std::fs::write(&file, script)?;
    let mut command = pinned(GENERATOR_CPU, "lftp");
    command.args(["--norc", "-f"]).arg(&file);
    let (_, reaped) = run(&mut command, "lftp")?;
    Ok(reaped.cpu.total().as_secs_f64())
}

/// A server with a certificate and a directory of its own, for as long as this lives.
struct Ftp {
    _server: Server,
    address: SocketAddr,
    directory: tempfile::TempDir,
}

impl Ftp {
    fn start() -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, vtax_sys::free_port()));
        let directory = tempfile::tempdir().context("making a temporary directory")?;
        let [certificate, key] = Certificate::new(address.ip())?.pem;
        let path = |name: &str| directory.path().join(name);
        let (files, of_certificate, of_key) = (path("files"), path("certificate.pem"), path("key.pem"));
        std::fs::create_dir(&files)?;
        std::fs::write(&of_certificate, certificate)?;
        std::fs::write(&of_key, key)?;
        let mut command = pinned(SERVER_CPU, &place::vtax().display().to_string());
        command.args(["service", "ftp", "--listen", &address.to_string(), "--directory"]).arg(&files);
        command.arg("--certificate").arg(&of_certificate).arg("--key").arg(&of_key);
        let mut server = Server::start(&mut command, "vtax service ftp")?;
        server.wait(|_| TcpStream::connect(address).is_ok())?;
        Ok(Self { _server: server, address, directory })
    }
}
