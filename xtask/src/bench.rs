//! `make bench`: vtax beside its peers, in one run on one machine.
//!
//! Machines differ and are noisy, so a row is a ratio of two figures taken in turn, never a
//! stored constant.

use anyhow::{Context, Result};
use serde::Serialize;

use crate::bench_vm;
use crate::tasks::root;

/// One row of `target/bench.json`.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) ours: f64,
    pub(crate) peer: Option<f64>,
    pub(crate) unit: String,
    pub(crate) ratio: Option<f64>,
    pub(crate) goal: String,
    pub(crate) ok: bool,
}

type Suite = (&'static str, fn() -> Result<Vec<Row>>);

const SUITES: &[Suite] = &[
    ("http", crate::bench_http::rows),
    ("sip", crate::bench_sip::rows),
    ("net", crate::bench_net::rows),
    ("probe", crate::bench_probe::rows),
    ("report", crate::bench_report::rows),
    ("lab", crate::bench_lab::rows),
    ("vm", bench_vm::rows),
];

/// Runs the suites named, or all; prints a table and writes `target/bench.json`.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    crate::tasks::setup()?;
    let mut rows = Vec::new();
    for (name, suite) in SUITES {
        if names.is_empty() || names.contains(name) {
            println!("bench {name} ...");
            rows.extend(suite().with_context(|| format!("bench {name}"))?);
        }
    }
    let path = root().join("target/bench.json");
    std::fs::write(&path, serde_json::to_vec_pretty(&rows)?)
        .with_context(|| format!("writing {}", path.display()))?;
    println!("{:<58} {:>12} {:>12} {:>7}  {:<14} goal", "", "ours", "peer", "ratio", "unit");
    for row in &rows {
        let number = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.4}"));
        let mark = if row.ok { "ok" } else { "MISSED" };
        println!(
            "{:<58} {:>12} {:>12} {:>7}  {:<14} {} {mark}",
            row.name,
            number(Some(row.ours)),
            number(row.peer),
            row.ratio.map_or_else(|| "-".to_owned(), |r| format!("{r:.2}")),
            row.unit,
            row.goal,
        );
    }
    Ok(())
}
