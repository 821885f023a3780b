//! The storage generator beside fio on files of this machine, its clients beside libiscsi's and libnfs's, and what sweeps take. Mounted
//! files beside dd and fio are a suite of their own, which takes a virtual machine.
//!
//! What counts is operations per CPU-second of the generator process, both with the same engine, depth and buffers; neither verifies.
//! In an open loop it is how many operations were offered, and how late they started, which fio doesn't tell.

pub(crate) mod mounted;
mod served;
mod sweeps;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::place;
use crate::program::{median, pinned, run, run_load};
use crate::sheet::{Row, Sheet};

const CPU: &str = "0";
const ROUNDS: usize = 5;
const SECONDS: u32 = 3;
const FILE: &str = "128MiB";
const GOAL: f64 = 1.0;
/// Rate of the open loop that fio's whole microseconds can't make.
const RATE: f64 = 150_000.0;
/// How far the rate offered may be from the one asked for.
const RATE_WITHIN: f64 = 0.005;
/// Most p99 of lateness at 30 % of the peak, in microseconds.
const LATE: f64 = 100.0;

/// One shape of load.
struct Shape {
    engine: &'static str,
    peer: &'static str,
    depth: u32,
    direct: bool,
}

const SHAPES: [Shape; 4] = [
    Shape { engine: "io-uring", peer: "io_uring", depth: 32, direct: true },
    Shape { engine: "io-uring", peer: "io_uring", depth: 32, direct: false },
    Shape { engine: "psync", peer: "psync", depth: 1, direct: true },
    Shape { engine: "psync", peer: "psync", depth: 1, direct: false },
];

/// The rows of this bench.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    // On the disk of the build, as `/tmp` may be memory.
    let directory = tempfile::tempdir_in(place::root().join("target")).context("making a directory")?;
    for shape in &SHAPES {
        let mut pairs = Vec::new();
        for _ in 0..ROUNDS {
            pairs.push((ours(&directory, shape)?, peer(&directory, shape)?));
        }
        let cache = if shape.direct { "direct" } else { "cached" };
        let name = format!("4 KiB random read, {}, depth {}, {cache}, beside fio", shape.peer, shape.depth);
        beside(sheet, name, &pairs, GOAL)?;
    }
    open_loop(sheet, &directory)?;
    // What one needs may be missing without the others' figures being lost.
    let others = [sweeps::rows(sheet, &directory), served::rows(sheet)];
    let failed: Vec<String> =
        others.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(())
}

/// A row of operations per CPU-second, ours and the peer's, measured in turn.
fn beside(sheet: &mut Sheet, name: String, pairs: &[(f64, f64)], goal: f64) -> Result<()> {
    let ratio = median(pairs.iter().map(|(ours, peer)| ours / peer).collect());
    sheet.add(Row {
        name,
        ours: median(pairs.iter().map(|p| p.0).collect()),
        peer: Some(median(pairs.iter().map(|p| p.1).collect())),
        unit: "op/CPU-s".to_owned(),
        ratio: Some(ratio),
        goal: format!(">= {goal}x"),
        ok: ratio >= goal,
    })
}

fn open_loop(sheet: &mut Sheet, directory: &TempDir) -> Result<()> {
    let shape = &SHAPES[1];
    let report = load(directory, shape, &["--rate".to_owned(), format!("{RATE}/s")])?.0;
    let offered = offered(&report)?;
    let fio = fio(directory, shape, &[format!("--rate_iops={RATE}"), "--rate_process=poisson".to_owned()])?.0;
    let theirs = fio.pointer("/jobs/0/read/iops").and_then(Value::as_f64).context("no rate")?;
    let off = (offered - RATE).abs() / RATE;
    sheet.add(Row {
        name: format!("open loop at {RATE:.0}/s: rate offered, beside fio's"),
        ours: offered,
        peer: Some(theirs),
        unit: "/s".to_owned(),
        ratio: None,
        goal: format!("within {} %", RATE_WITHIN * 100.0),
        ok: off <= RATE_WITHIN,
    })?;
    let peak = figure(&load(directory, shape, &[])?.0, "/iops")?;
    let report = load(directory, shape, &["--rate".to_owned(), format!("{:.0}/s", peak * 0.3)])?.0;
    let late = figure(&report, "/lateness_ns/p99")? / 1e3;
    sheet.add(Row {
        name: "open loop at 30 % of the peak: p99 of lateness".to_owned(),
        ours: late,
        peer: None,
        unit: "us".to_owned(),
        ratio: None,
        goal: format!("<= {LATE} us"),
        ok: late <= LATE,
    })
}

fn offered(report: &Value) -> Result<f64> {
    let intended = figure(report, "/result/load/counts/intended")?;
    let time = report.pointer("/result/load/duration").and_then(Value::as_str).context("no duration")?;
    let time: vtax_units::Nanos = time.parse().context("reading a duration")?;
    Ok(intended / time.as_secs_f64())
}

fn figure(report: &Value, at: &str) -> Result<f64> {
    report.pointer(at).and_then(Value::as_f64).with_context(|| format!("no {at}"))
}

/// Operations per CPU-second of the whole program.
fn ours(directory: &TempDir, shape: &Shape) -> Result<f64> {
    let (report, cpu) = load(directory, shape, &[])?;
    Ok(figure(&report, "/result/load/counts/ok")? / cpu)
}

/// A load of random reads; what it found, and the CPU time of its generator while it read.
fn load(directory: &TempDir, shape: &Shape, more: &[String]) -> Result<(Value, f64)> {
    let mut command = pinned(CPU, &place::vtax().display().to_string());
    command.args(["load", "storage", &format!("file:{}", directory.path().display()), "--json", "--quiet"]);
    command.args(["--operations", "random-read", "--no-verify", "--size", FILE, "--record", "4KiB"]);
    command.args(["--engine", shape.engine, "--depth", &shape.depth.to_string(), "--cpus", CPU]);
    command.args(["--warmup", "0s", "--duration", &format!("{SECONDS}s")]);
    if shape.direct {
        command.arg("--direct");
    }
    command.args(more);
    let (report, _) = run_load(&mut command)?;
    let report = report.pointer("/operations/0").context("no operation")?.clone();
    let failures = report.pointer("/result/failures").and_then(Value::as_array).map_or(0, Vec::len);
    ensure!(failures == 0, "operations failed");
    // Without the writing of the file, as fio's below.
    let cpu = figure(&report, "/cpu_seconds")?;
    Ok((report, cpu))
}

fn peer(directory: &TempDir, shape: &Shape) -> Result<f64> {
    let (report, cpu) = fio(directory, shape, &[])?;
    let job = report.pointer("/jobs/0").context("no job")?;
    Ok(figure(job, "/read/total_ios")? / cpu)
}

/// fio's report, and the CPU time of its job.
fn fio(directory: &TempDir, shape: &Shape, more: &[String]) -> Result<(Value, f64)> {
    let file = directory.path().join("fio");
    lay_out(&file)?;
    let mut command = pinned(CPU, "fio");
    command.args(["--name=read", "--rw=randread", "--bs=4k", "--size=128m", "--output-format=json"]);
    command.arg(format!("--filename={}", file.display()));
    command.arg(format!("--ioengine={}", shape.peer));
    command.arg(format!("--iodepth={}", shape.depth));
    command.arg(format!("--direct={}", u8::from(shape.direct)));
    command.args(["--time_based", &format!("--runtime={SECONDS}"), "--invalidate=0", "--thread"]);
    if shape.peer == "io_uring" {
        // As ours does.
        command.args(["--fixedbufs=1", "--registerfiles=1"]);
    }
    command.args(more);
    let (output, _) = run(&mut command, "fio")?;
    let report: Value = serde_json::from_str(&output).context("reading what fio printed")?;
    let job = report.pointer("/jobs/0").context("no job")?;
    let share = (figure(job, "/usr_cpu")? + figure(job, "/sys_cpu")?) / 100.0;
    let time = figure(job, "/job_runtime")? / 1e3;
    let cpu = share * time;
    Ok((report, cpu))
}

/// The peer's file, written once and in the page cache.
fn lay_out(file: &Path) -> Result<()> {
    if !file.exists() {
        let bytes: Vec<u8> =
            (0..128_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(file, bytes).context("writing fio's file")?;
    }
    Ok(())
}
