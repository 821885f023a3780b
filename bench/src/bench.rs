//! `make bench`: vtax beside its peers, in one run on one machine.
//!
//! Machines differ and are noisy, so a row is a ratio of two figures taken in turn, never a
//! stored constant.

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::bench_vm;
use crate::place::root;

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

impl Row {
    fn print(&self) {
        let number = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.4}"));
        println!(
            "{:<58} {:>12} {:>12} {:>7}  {:<14} {} {}",
            self.name,
            number(Some(self.ours)),
            number(self.peer),
            self.ratio.map_or_else(|| "-".to_owned(), |r| format!("{r:.2}")),
            self.unit,
            self.goal,
            if self.ok { "ok" } else { "MISSED" },
        );
    }
}

/// `target/bench.json`. Each row is printed and written as it comes: a suite takes minutes, and one that fails
/// or is stopped must not lose what the others found.
#[derive(Default)]
pub(crate) struct Sheet {
    rows: Vec<Row>,
}

impl Sheet {
    pub(crate) fn add(&mut self, row: Row) -> Result<()> {
        row.print();
        self.rows.push(row);
        let path = root().join("target/bench.json");
        std::fs::write(&path, serde_json::to_vec_pretty(&self.rows)?)
            .with_context(|| format!("writing {}", path.display()))
    }

    pub(crate) fn add_all(&mut self, rows: impl IntoIterator<Item = Row>) -> Result<()> {
        rows.into_iter().try_for_each(|row| self.add(row))
    }
}

type Suite = (&'static str, fn(&mut Sheet) -> Result<()>);

const SUITES: &[Suite] = &[
    ("http", crate::bench_http::rows),
    ("sip", crate::bench_sip::rows),
    ("net", crate::bench_net::rows),
    ("probe", crate::bench_probe::rows),
    ("report", crate::bench_report::rows),
    ("lab", crate::bench_lab::rows),
    ("vm", bench_vm::rows),
];

/// Runs the suites named, or all, to their ends; fails where one of them did.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    let suites: Vec<&str> = SUITES.iter().map(|(suite, _)| *suite).collect();
    if let Some(name) = names.iter().find(|name| !suites.contains(name)) {
        bail!("no suite `{name}`; there are {}", suites.join(", "));
    }
    let (mut sheet, mut failed) = (Sheet::default(), Vec::new());
    println!("{:<58} {:>12} {:>12} {:>7}  {:<14} goal", "", "ours", "peer", "ratio", "unit");
    for (name, suite) in SUITES.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        println!("bench {name} ...");
        if let Err(error) = suite(&mut sheet) {
            println!("bench {name}: {error:#}");
            failed.push(*name);
        }
    }
    if !failed.is_empty() {
        bail!("no whole result of {}", failed.join(", "));
    }
    Ok(())
}
