//! The HTTP load generator beside wrk, httperf and a bare loop of send and recv, against nginx on another CPU.
//!
//! What counts is requests per CPU-second of the generator process: on one machine throughput is
//! the server's, not the generator's.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::bare;
use crate::place;
use crate::program::{Server, median, pinned, run, run_load, wrk_per_cpu_second};
use crate::sheet::{Row, Sheet};

const GENERATOR_CPU: &str = "0";
const SERVER_CPU: &str = "1";
const ROUNDS: usize = 5;
const SECONDS: u32 = 3;
const CONNECTIONS: u32 = 64;
/// Connections and calls on each that httperf makes, one connection after another.
const HTTPERF: (u64, u64) = (100, 500);
const MANY_CONNECTIONS: u32 = 10_000;

const WRK_GOAL: f64 = 1.1;
/// What a loop costs that does nothing but send and receive is the kernel's.
const BARE_GOAL: f64 = 0.9;
const HTTPERF_GOAL: f64 = 5.0;
/// Share of the closed loop's rate that the open loop offers.
const OPEN_SHARE: f64 = 0.3;
const LATENESS_US_GOAL: f64 = 100.0;
const MEMORY_MIB_GOAL: f64 = 60.0;

/// The rows of this bench.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    let vtax = place::vtax();
    ensure!(vtax.exists(), "{} is missing; run `make build`", vtax.display());
    // nginx inherits it and needs a descriptor per connection.
    vtax_sys::sched::raise_open_files(u64::from(MANY_CONNECTIONS) + 5_000)?;
    let server = Nginx::start()?;
    let (mut ours, mut rates) = (Vec::new(), Vec::new());
    let (mut least, mut wrk, mut httperf) = (Vec::new(), Vec::new(), Vec::new());
    // In turn, so that a noisy host is noisy to all.
    for _ in 0..ROUNDS {
        let closed = load(&server, &["--connections", &CONNECTIONS.to_string()])?;
        ours.push(closed.answered / closed.cpu_seconds);
        rates.push(closed.rate);
        least.push(bare::per_cpu_second(GENERATOR_CPU, server.address, CONNECTIONS, SECONDS)?);
        wrk.push(wrk_per_cpu_second(GENERATOR_CPU, &server.url(), CONNECTIONS, SECONDS, None)?);
        httperf.push(httperf_per_cpu_second(&server)?);
    }
    let rate = format!("{:.0}/s", OPEN_SHARE * median(rates));
    let mut lateness = Vec::new();
    for _ in 0..ROUNDS {
        // With a warm-up, as every latency measure of a plan has: while an open loop opens its
        // first connections all at once, starts are late by milliseconds.
        lateness.push(load(&server, &["--rate", &rate, "--warmup", "1s"])?.lateness_us_p99);
    }
    let many = load(&server, &["--connections", &MANY_CONNECTIONS.to_string(), "--warmup", "3s"])?;
    let versus = |peer_name: &str, peer: &[f64], goal: f64| {
        // Of neighbours in time, so that a host that gets busy meanwhile slows both of a pair.
        let ratio = median(ours.iter().zip(peer).map(|(ours, peer)| ours / peer).collect());
        Row {
            name: format!("HTTP closed loop, {CONNECTIONS} connections, beside {peer_name}"),
            ours: median(ours.clone()),
            peer: Some(median(peer.to_vec())),
            unit: "req/CPU-s".to_owned(),
            ratio: Some(ratio),
            goal: format!(">= {goal}x"),
            ok: ratio >= goal,
        }
    };
    let at_most = |name: String, ours: f64, unit: &str, goal: f64| Row {
        name,
        ours,
        peer: None,
        unit: unit.to_owned(),
        ratio: Some(ours / goal),
        goal: format!("at most {goal}"),
        ok: ours <= goal,
    };
    sheet.add_all([
        versus("a bare loop", &least, BARE_GOAL),
        versus("wrk", &wrk, WRK_GOAL),
        versus("httperf", &httperf, HTTPERF_GOAL),
        at_most(format!("HTTP open loop, {rate}, p99 lateness"), median(lateness), "us", LATENESS_US_GOAL),
        at_most(
            format!("HTTP, {MANY_CONNECTIONS} connections, memory"),
            many.memory_mib,
            "MiB",
            MEMORY_MIB_GOAL,
        ),
    ])
}

/// What one run of `vtax load` gave.
struct Loaded {
    answered: f64,
    /// Answers per second.
    rate: f64,
    cpu_seconds: f64,
    lateness_us_p99: f64,
    memory_mib: f64,
}

fn load(server: &Nginx, arguments: &[&str]) -> Result<Loaded> {
    let mut command = pinned(GENERATOR_CPU, &place::vtax().display().to_string());
    command.args(["load", "http", &server.url(), "--json", "--quiet", "--cpus", GENERATOR_CPU]);
    command.args(["--duration", &format!("{SECONDS}s")]);
    // Without a warm-up all requests count that the CPU time was used for.
    if !arguments.contains(&"--warmup") {
        command.args(["--warmup", "0s"]);
    }
    let (report, reaped) = run_load(command.args(arguments))?;
    let number = |pointer: &str| {
        report.pointer(pointer).and_then(serde_json::Value::as_f64).with_context(|| format!("no {pointer}"))
    };
    let errors = report.pointer("/result/counts/errors").context("no errors")?;
    let failed: u64 = errors.as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum();
    ensure!(failed == 0, "requests failed: {errors}");
    Ok(Loaded {
        answered: number("/result/counts/ok")?,
        rate: number("/rate")?,
        cpu_seconds: reaped.cpu.total().as_secs_f64(),
        // A closed loop has no schedule to be late for.
        lateness_us_p99: number("/lateness_ns/p99").unwrap_or(0.0) / 1e3,
        memory_mib: reaped.resident_bytes_max as f64 / f64::from(1 << 20),
    })
}

fn httperf_per_cpu_second(server: &Nginx) -> Result<f64> {
    let mut command = pinned(GENERATOR_CPU, "httperf");
    let (connections, calls) = HTTPERF;
    command.args(["--hog", "--server", "127.0.0.1", "--port", &server.address.port().to_string()]);
    command.args([
        "--uri",
        "/file",
        "--num-conns",
        &connections.to_string(),
        "--num-calls",
        &calls.to_string(),
    ]);
    let (output, reaped) = run(&mut command, "httperf")?;
    let total = output.lines().find(|line| line.starts_with("Total:")).context("httperf printed no total")?;
    let mut words = total.split_whitespace().skip_while(|word| *word != "replies").skip(1);
    let replies: f64 = words.next().context("httperf printed no replies")?.parse()?;
    ensure!(replies >= (connections * calls) as f64, "httperf lost requests: {total}");
    Ok(replies / reaped.cpu.total().as_secs_f64())
}

/// nginx with a private configuration and one file of 100 bytes, for as long as this lives.
pub(super) struct Nginx {
    _server: Server,
    address: SocketAddr,
    _directory: TempDir,
}

impl Nginx {
    pub(super) fn start() -> Result<Self> {
        let directory = tempfile::tempdir().context("making a temporary directory")?;
        let root = directory.path();
        fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
        fs::write(root.join("file"), [b'x'; 100])?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, vtax_sys::free_port()));
        let configuration = root.join("nginx.conf");
        fs::write(&configuration, configure(&root.display().to_string(), address))?;
        let name = "nginx (in Debian: apt install nginx-light)";
        // It has no other process (master_process off).
        let mut server = Server::start(pinned(SERVER_CPU, "nginx").arg("-c").arg(&configuration), name)?;
        server.wait(|_| TcpStream::connect(address).is_ok())?;
        Ok(Self { _server: server, address, _directory: directory })
    }

    /// Where it listens.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    fn url(&self) -> String {
        format!("http://{}/file", self.address)
    }
}

fn configure(root: &str, address: SocketAddr) -> String {
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("  {kind}_temp_path {root}/{kind};\n"))
        .collect();
    format!(
        "daemon off;\nmaster_process off;\npid {root}/pid;\nerror_log {root}/error.log;\n\
         events {{ worker_connections 15000; }}\n\
         http {{\n  access_log off;\n  sendfile on;\n  keepalive_requests 1000000000;\n  keepalive_timeout 600;\n\
         {temporary}  server {{ listen {address} backlog=4096; root {root}; }}\n}}\n"
    )
}
