//! `make soundness`: does the measuring keep its promises? Simulated, with fixed seeds, where the truth
//! is known.

use anyhow::{Context, Result, bail};

use crate::place::root;
use crate::soundness_row::Row;

type Suite = (&'static str, fn() -> Result<Vec<Row>>);

const SUITES: &[Suite] = &[
    ("load", crate::soundness_load::rows),
    ("verdicts", crate::soundness_verdicts::rows),
    ("families", crate::soundness_families::rows),
    ("coverage", crate::soundness_coverage::rows),
    ("resolution", crate::soundness_resolution::rows),
    ("hosts", crate::soundness_hosts::rows),
    ("sessions", crate::soundness_sessions::rows),
];

/// Runs the suites named, or all; prints a table and writes `target/soundness.json`. What is missed
/// is said, and is no failure: the figures are the result.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    if let Some(unknown) = names.iter().find(|n| SUITES.iter().all(|s| s.0 != **n)) {
        let known: Vec<&str> = SUITES.iter().map(|suite| suite.0).collect();
        bail!("no suite {unknown:?}: there are {}", known.join(", "));
    }
    let mut rows = Vec::new();
    for (name, suite) in SUITES {
        if names.is_empty() || names.contains(name) {
            println!("soundness {name} ...");
            rows.extend(suite().with_context(|| format!("soundness {name}"))?);
        }
    }
    let path = root().join("target/soundness.json");
    std::fs::write(&path, serde_json::to_vec_pretty(&rows)?)
        .with_context(|| format!("writing {}", path.display()))?;
    println!("{:<76} {:>9} {:<5} goal", "", "found", "unit");
    for row in &rows {
        let mark = if row.ok { "ok" } else { "MISSED" };
        println!("{:<76} {:>9.3} {:<5} {} {mark}", row.name, row.found, row.unit, row.goal);
    }
    let missed = rows.iter().filter(|r| !r.ok).count();
    println!("{} of {} promises kept", rows.len() - missed, rows.len());
    Ok(())
}
