//! HTTPS: the generator beside wrk on connections that stay, and beside `openssl s_time` where each request has a
//! connection and a full handshake of its own. The server is the embedded one, on another CPU.
//!
//! What counts is requests and handshakes per CPU-second of the generator process.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use vtax_service::Certificate;

use crate::place;
use crate::program::{Server, median, pinned, run, run_load, wrk_per_cpu_second};
use crate::sheet::{Row, Sheet};

const GENERATOR_CPU: &str = "0";
const SERVER_CPU: &str = "1";
const ROUNDS: usize = 5;
const SECONDS: u32 = 3;
const CONNECTIONS: u32 = 64;
/// What all are told to offer. wrk can't be told, but OpenSSL, which it uses, can, by its configuration file.
const CIPHER: &str = "TLS_AES_128_GCM_SHA256";
const WRK_GOAL: f64 = 1.1;
const S_TIME_GOAL: f64 = 1.2;

/// The rows of this bench.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    let server = Secured::start()?;
    let openssl = server.configure_openssl()?;
    let (mut ours, mut wrk, mut full, mut s_time) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // In turn, so that a noisy host is noisy to all.
    for _ in 0..ROUNDS {
        let connections = CONNECTIONS.to_string();
        ours.push(load(&server, "/result/counts/ok", &["--connections", &connections, "--cipher", CIPHER])?);
        wrk.push(wrk_per_cpu_second(GENERATOR_CPU, &server.url(), CONNECTIONS, SECONDS, Some(&openssl))?);
        let churn =
            ["--connections", "1", "--requests-per-connection", "1", "--no-resume", "--cipher", CIPHER];
        full.push(load(&server, "/result/counts/ok", &churn)?);
        s_time.push(s_time_per_cpu_second(&server)?);
    }
    sheet.add_all([
        versus(
            format!("HTTPS closed loop, {CONNECTIONS} connections, beside wrk"),
            &ours,
            &wrk,
            "req",
            WRK_GOAL,
        ),
        versus(
            "full TLS 1.3 handshakes, beside s_time".to_owned(),
            &full,
            &s_time,
            "handshakes",
            S_TIME_GOAL,
        ),
    ])
}

fn versus(name: String, ours: &[f64], peer: &[f64], of: &str, goal: f64) -> Row {
    // Of neighbours in time, so that a host that gets busy meanwhile slows both of a pair.
    let ratio = median(ours.iter().zip(peer).map(|(ours, peer)| ours / peer).collect());
    Row {
        name,
        ours: median(ours.to_vec()),
        peer: Some(median(peer.to_vec())),
        unit: format!("{of}/CPU-s"),
        ratio: Some(ratio),
        goal: format!(">= {goal}x"),
        ok: ratio >= goal,
    }
}

/// A count of one run of `vtax load`, for each second of its CPU time.
fn load(server: &Secured, count: &str, arguments: &[&str]) -> Result<f64> {
    let mut command = pinned(GENERATOR_CPU, &place::vtax().display().to_string());
    command.args(["load", "http", &server.url(), "--json", "--quiet", "--cpus", GENERATOR_CPU]);
    // Without a warm-up all requests count that the CPU time was used for.
    command.args(["--warmup", "0s", "--duration", &format!("{SECONDS}s"), "--tls-version", "1.3"]);
    let (report, reaped) = run_load(command.args(arguments))?;
    let found = report.pointer(count).and_then(Value::as_f64).with_context(|| format!("no {count}"))?;
    Ok(found / reaped.cpu.total().as_secs_f64())
}

/// It prints `N connections in T real seconds, …`.
fn s_time_per_cpu_second(server: &Secured) -> Result<f64> {
    let mut command = pinned(GENERATOR_CPU, "openssl");
    command.args(["s_time", "-connect", &server.address.to_string(), "-new", "-tls1_3"]);
    command.args(["-ciphersuites", CIPHER, "-time", &SECONDS.to_string(), "-www", "/bytes/100"]);
    let (output, reaped) = run(&mut command, "openssl")?;
    let line =
        output.lines().find(|line| line.contains(" real seconds")).context("s_time printed no count")?;
    let connections: f64 = line.split_whitespace().next().context("s_time printed no number")?.parse()?;
    Ok(connections / reaped.cpu.total().as_secs_f64())
}

/// The embedded server with a certificate of its own, for as long as this lives.
struct Secured {
    _server: Server,
    address: SocketAddr,
    directory: TempDir,
}

impl Secured {
    fn start() -> Result<Self> {
        let directory = tempfile::tempdir().context("making a temporary directory")?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, vtax_sys::free_port()));
        let made = Certificate::new(IpAddr::from(Ipv4Addr::LOCALHOST)).context("making a certificate")?;
        let paths = ["certificate.pem", "key.pem"].map(|name| directory.path().join(name));
        for (path, text) in paths.iter().zip(&made.pem) {
            fs::write(path, text)?;
        }
        let mut command = pinned(SERVER_CPU, &place::vtax().display().to_string());
        command.args(["service", "http", "--listen", &address.to_string()]);
        command.arg("--certificate").arg(&paths[0]).arg("--key").arg(&paths[1]);
        let mut server = Server::start(&mut command, "vtax service http")?;
        server.wait(|_| TcpStream::connect(address).is_ok())?;
        Ok(Self { _server: server, address, directory })
    }

    /// Writes a configuration with which OpenSSL offers one cipher suite, and sees that it is taken.
    fn configure_openssl(&self) -> Result<PathBuf> {
        let path = self.directory.path().join("openssl.cnf");
        let text = format!(
            "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = tls\n[tls]\n\
             MinProtocol = TLSv1.3\nCiphersuites = {CIPHER}\n"
        );
        fs::write(&path, text)?;
        let mut command = pinned(GENERATOR_CPU, "openssl");
        let (offered, _) =
            run(command.args(["ciphers", "-s", "-tls1_3"]).env("OPENSSL_CONF", &path), "openssl")?;
        ensure!(offered.trim() == CIPHER, "OpenSSL offers {offered} instead of {CIPHER} alone");
        Ok(path)
    }

    fn url(&self) -> String {
        format!("https://{}/bytes/100", self.address)
    }
}
