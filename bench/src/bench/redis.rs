//! The Redis load generator beside redis-benchmark, against redis-server on another CPU.
//!
//! What counts is requests per CPU-second of the generator process. redis-benchmark sends the same commands
//! for keys of the same names and doesn't look at the values; ours verifies each.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use anyhow::{Context, Result, ensure};

use crate::place;
use crate::program::{Server, median, pinned, run, run_load};
use crate::sheet::{Row, Sheet};

const GENERATOR_CPU: &str = "0";
const SERVER_CPU: &str = "1";
const ROUNDS: usize = 5;
const SECONDS: u32 = 3;
const CONNECTIONS: u32 = 64;
const KEYS: u32 = 10_000;
const VALUE_BYTES: u32 = 100;
/// Requests that redis-benchmark makes for each of a pipeline, so that it takes some seconds too.
const REQUESTS: u32 = 150_000;
const GOAL: f64 = 1.0;

/// The rows of this bench.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    let server = Redis::start()?;
    for (command, reads, pipeline) in
        [("get", "100%", 1), ("set", "0%", 1), ("get", "100%", 16), ("set", "0%", 16)]
    {
        let mut pairs = Vec::new();
        // In turn, so that a noisy host is noisy to both; ours first, as it writes the keys.
        for _ in 0..ROUNDS {
            pairs.push((ours(&server, reads, pipeline)?, peer(&server, command, pipeline)?));
        }
        let ratio = median(pairs.iter().map(|(ours, peer)| ours / peer).collect());
        sheet.add(Row {
            name: format!(
                "Redis {}, {CONNECTIONS} connections, pipeline {pipeline}, beside redis-benchmark",
                command.to_uppercase()
            ),
            ours: median(pairs.iter().map(|p| p.0).collect()),
            peer: Some(median(pairs.iter().map(|p| p.1).collect())),
            unit: "req/CPU-s".to_owned(),
            ratio: Some(ratio),
            goal: format!(">= {GOAL}x"),
            ok: ratio >= GOAL,
        })?;
    }
    Ok(())
}

fn ours(server: &Redis, reads: &str, pipeline: u32) -> Result<f64> {
    let mut command = pinned(GENERATOR_CPU, &place::vtax().display().to_string());
    command.args([
        "load",
        "redis",
        &server.address.to_string(),
        "--json",
        "--quiet",
        "--cpus",
        GENERATOR_CPU,
    ]);
    command.args(["--connections", &CONNECTIONS.to_string(), "--pipeline", &pipeline.to_string()]);
    command.args(["--keys", &KEYS.to_string(), "--value", &format!("{VALUE_BYTES}B"), "--reads", reads]);
    // Without a warm-up all requests count that the CPU time was used for.
    command.args(["--warmup", "0s", "--duration", &format!("{SECONDS}s")]);
    let (report, reaped) = run_load(&mut command)?;
    let ok = report.pointer("/result/counts/ok").and_then(serde_json::Value::as_f64).context("no count")?;
    let errors = report.pointer("/result/counts/errors").context("no errors")?;
    let failed: u64 = errors.as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum();
    ensure!(failed == 0, "requests failed: {errors}");
    Ok(ok / reaped.cpu.total().as_secs_f64())
}

fn peer(server: &Redis, test: &str, pipeline: u32) -> Result<f64> {
    let requests = REQUESTS * pipeline;
    let mut command = pinned(GENERATOR_CPU, "redis-benchmark");
    command.args(["-h", "127.0.0.1", "-p", &server.address.port().to_string(), "-t", test, "--csv"]);
    command.args(["-c", &CONNECTIONS.to_string(), "-n", &requests.to_string()]);
    command.args(["-P", &pipeline.to_string(), "-r", &KEYS.to_string(), "-d", &VALUE_BYTES.to_string()]);
    let (output, reaped) = run(&mut command, "redis-benchmark")?;
    ensure!(output.to_lowercase().contains(test), "redis-benchmark did not run {test}: {output}");
    Ok(f64::from(requests) / reaped.cpu.total().as_secs_f64())
}

/// A Redis that keeps nothing, for as long as this lives.
struct Redis {
    _server: Server,
    address: SocketAddr,
}

impl Redis {
    fn start() -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, vtax_sys::free_port()));
        let mut command = pinned(SERVER_CPU, "redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--daemonize", "no"]);
        let mut server = Server::start(&mut command, "redis-server")?;
        server.wait(|_| TcpStream::connect(address).is_ok())?;
        Ok(Self { _server: server, address })
    }
}
