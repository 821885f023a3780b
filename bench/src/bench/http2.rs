//! HTTP/2: the generator beside h2load, 10 streams on each of 16 connections, in the clear and over TLS. The server is nginx on
//! another CPU.
//!
//! What counts is requests per CPU-second of the generator process.

use std::fs::{self, Permissions};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;
use vtax_service::Certificate;

use crate::place;
use crate::program::{Server, median, pinned, run, run_load};
use crate::sheet::{Row, Sheet};

const GENERATOR_CPU: &str = "0";
const SERVER_CPU: &str = "1";
const ROUNDS: usize = 5;
const SECONDS: u32 = 3;
const CONNECTIONS: u32 = 16;
const STREAMS: u32 = 10;
/// What both are told to offer: h2load takes names of OpenSSL, which are IANA's for TLS 1.3.
const CIPHER: &str = "TLS_AES_128_GCM_SHA256";
const GOAL: f64 = 1.0;

/// The rows of this bench.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    let server = Nginx::start()?;
    for tls in [false, true] {
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        // In turn, so that a noisy host is noisy to both.
        for _ in 0..ROUNDS {
            ours.push(load(&server.url(tls), tls)?);
            peer.push(h2load(&server.url(tls), tls)?);
        }
        // Of neighbours in time, so that a host that gets busy meanwhile slows both of a pair.
        let ratio = median(ours.iter().zip(&peer).map(|(ours, peer)| ours / peer).collect());
        let over = if tls { "over TLS" } else { "in the clear" };
        sheet.add_all([Row {
            name: format!("HTTP/2 {over}, {CONNECTIONS} connections of {STREAMS} streams, beside h2load"),
            ours: median(ours),
            peer: Some(median(peer)),
            unit: "req/CPU-s".to_owned(),
            ratio: Some(ratio),
            goal: format!(">= {GOAL}x"),
            ok: ratio >= GOAL,
        }])?;
    }
    Ok(())
}

/// Answers of one run of `vtax load`, for each second of its CPU time.
fn load(url: &str, tls: bool) -> Result<f64> {
    let mut command = pinned(GENERATOR_CPU, &place::vtax().display().to_string());
    command.args(["load", "http", url, "--http2", "--streams", &STREAMS.to_string()]);
    command.args(["--connections", &CONNECTIONS.to_string(), "--json", "--quiet", "--cpus", GENERATOR_CPU]);
    // Without a warm-up all requests count that the CPU time was used for.
    command.args(["--warmup", "0s", "--duration", &format!("{SECONDS}s")]);
    if tls {
        command.args(["--tls-version", "1.3", "--cipher", CIPHER]);
    }
    let (report, reaped) = run_load(&mut command)?;
    let found = report.pointer("/result/counts/ok").and_then(Value::as_f64).context("no count of answers")?;
    Ok(found / reaped.cpu.total().as_secs_f64())
}

/// It prints `requests: N total, N started, N done, N succeeded, …`.
fn h2load(url: &str, tls: bool) -> Result<f64> {
    let mut command = pinned(GENERATOR_CPU, "h2load");
    command.args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-m{STREAMS}"), "-D", &SECONDS.to_string()]);
    if tls {
        command.args(["--tls13-ciphers", CIPHER]);
    }
    let (output, reaped) = run(command.arg(url), "h2load (in Debian: apt install nghttp2-client)")?;
    let line =
        output.lines().find(|line| line.starts_with("requests: ")).context("h2load printed no requests")?;
    let told = line.split(", ").find_map(|part| part.strip_suffix(" succeeded"));
    let succeeded: f64 = told.context("h2load printed no successes")?.trim().parse()?;
    Ok(succeeded / reaped.cpu.total().as_secs_f64())
}

/// nginx with a port in the clear, one with TLS, and one file of 100 bytes, for as long as this lives.
struct Nginx {
    _server: Server,
    ports: [u16; 2],
    _directory: TempDir,
}

impl Nginx {
    fn start() -> Result<Self> {
        let directory = tempfile::tempdir().context("making a temporary directory")?;
        let root = directory.path();
        // The user that nginx serves as may be another one.
        fs::set_permissions(root, Permissions::from_mode(0o755))?;
        fs::write(root.join("file"), [b'x'; 100])?;
        let made = Certificate::new(IpAddr::from(Ipv4Addr::LOCALHOST)).context("making a certificate")?;
        for (name, text) in ["certificate.pem", "key.pem"].iter().zip(&made.pem) {
            fs::write(root.join(name), text)?;
        }
        let ports = [vtax_sys::free_port(), vtax_sys::free_port()];
        let configuration = root.join("nginx.conf");
        fs::write(&configuration, configuration_text(&root.display().to_string(), ports))?;
        let name = "nginx (in Debian: apt install nginx-light)";
        let mut server = Server::start(pinned(SERVER_CPU, "nginx").arg("-c").arg(&configuration), name)?;
        for port in ports {
            server.wait(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())?;
        }
        Ok(Self { _server: server, ports, _directory: directory })
    }

    fn url(&self, tls: bool) -> String {
        let (scheme, port) = if tls { ("https", self.ports[1]) } else { ("http", self.ports[0]) };
        format!("{scheme}://127.0.0.1:{port}/file")
    }
}

fn configuration_text(root: &str, [clear, tls]: [u16; 2]) -> String {
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("  {name}_temp_path {root}/{name};\n"))
        .collect();
    format!(
        "daemon off;\n\
         master_process off;\n\
         pid {root}/pid;\n\
         error_log {root}/error.log;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n\
         {temporary}\
         \x20 access_log off;\n\
         \x20 sendfile on;\n\
         \x20 tcp_nodelay on;\n\
         \x20 keepalive_requests 1000000000;\n\
         \x20 server {{\n\
         \x20   listen 127.0.0.1:{clear} http2;\n\
         \x20   listen 127.0.0.1:{tls} ssl http2;\n\
         \x20   ssl_protocols TLSv1.3;\n\
         \x20   ssl_certificate {root}/certificate.pem;\n\
         \x20   ssl_certificate_key {root}/key.pem;\n\
         \x20   root {root};\n\
         \x20 }}\n\
         }}\n"
    )
}
