//! What large sweeps take of memory, and whether operations are counted as the kernel counts them.

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;

use super::served::Tgt;
use super::{CPU, figure};
use crate::place;
use crate::program::{pinned, run_load};
use crate::sheet::{Row, Sheet};

/// Most resident memory of a sweep, in MiB.
const MEMORY: f64 = 300.0;
const FILES: u32 = 1_000_000;
/// Length of the sparse unit.
const SPARSE: u64 = 1 << 40;

/// The rows of memory and counts.
pub(super) fn rows(sheet: &mut Sheet, directory: &TempDir) -> Result<()> {
    let local = format!("file:{}", directory.path().display());
    let files = FILES.to_string();
    let (_, names) = load(
        &local,
        &["--operations", "create,remove", "--files", &files, "--size", "512B", "--record", "512B"],
    )?;
    memory(sheet, "1,000,000 files made and removed", names)?;
    // Nothing but a server's sparse file is that long: a terabyte of one is written as far as 3 s go.
    let tgt = Tgt::start(SPARSE)?;
    let size = format!("{SPARSE}B");
    let sparse = [
        "--operations",
        "write",
        "--size",
        &size,
        "--record",
        "4KiB",
        "--depth",
        "32",
        "--duration",
        "3s",
        "--sync",
        "none",
    ];
    let (_, sparse) = load(&tgt.url(), &sparse)?;
    memory(sheet, "a sparse unit of 1 TiB, records of 4 KiB", sparse)?;
    let direct = [
        "--operations",
        "random-read",
        "--size",
        "64MiB",
        "--record",
        "4KiB",
        "--depth",
        "8",
        "--direct",
        "--duration",
        "2s",
    ];
    let (report, _) = load(&local, &direct)?;
    counts(sheet, &report)
}

/// What a load found, and the most memory that it took in MiB.
fn load(target: &str, more: &[&str]) -> Result<(Value, f64)> {
    let mut command = pinned(CPU, &place::vtax().display().to_string());
    command.args(["load", "storage", target, "--json", "--quiet", "--cpus", CPU]).args(more);
    let (report, reaped) = run_load(&mut command)?;
    Ok((report, reaped.resident_bytes_max as f64 / f64::from(1 << 20)))
}

fn memory(sheet: &mut Sheet, what: &str, ours: f64) -> Result<()> {
    sheet.add(Row {
        name: format!("memory of a sweep: {what}"),
        ours,
        peer: None,
        unit: "MiB".to_owned(),
        ratio: None,
        goal: format!("<= {MEMORY} MiB"),
        ok: ours <= MEMORY,
    })
}

/// Reads past the page cache, as the generator and as the kernel counted them.
fn counts(sheet: &mut Sheet, report: &Value) -> Result<()> {
    let report = report.pointer("/operations/0").context("no operation")?;
    let processes = report.pointer("/result/processes").and_then(Value::as_array).context("no processes")?;
    let ours: f64 = processes.iter().filter_map(|process| process.get("operations")?.as_f64()).sum();
    let kernel = figure(report, "/result/io/fetched")? / figure(report, "/result/record")?;
    sheet.add(Row {
        name: "direct reads: operations, beside the kernel's own count (/proc/self/io)".to_owned(),
        ours,
        peer: Some(kernel),
        unit: "op".to_owned(),
        ratio: Some(ours / kernel),
        goal: "exact".to_owned(),
        ok: ours == kernel,
    })
}
