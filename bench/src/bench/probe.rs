//! What sampling costs.

use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result};
use vtax_probe::{Probe, Sampler, Scope};
use vtax_units::Nanos;

use crate::sheet::{Row, Sheet};

const PROCESSES: usize = 100;
const SNAPSHOTS_PER_SECOND: f64 = 1.0;
/// The goal of the design: a sampler costs at most this share of a core.
const MOST: f64 = 0.01;

/// A child that is killed and reaped at the end.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        // One that has ended already is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CPU time of a sampler that watches 100 processes once per second.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    let sleepers: Vec<Sleeper> = (0..PROCESSES)
        .map(|_| Command::new("sleep").arg("60").spawn().map(Sleeper).context("starting sleep"))
        .collect::<Result<_>>()?;
    let roots = sleepers.iter().map(|s| s.0.id()).collect();
    let probe = Probe::new(Scope::Processes(roots))?;
    // Twenty times as often as in a run, to have something to measure in two seconds.
    let sampler = Sampler::start(probe, Nanos::from_millis(50))?;
    std::thread::sleep(Duration::from_secs(2));
    let samples = sampler.stop();
    let each = samples.own_cpu.as_secs_f64() / samples.snapshots.len().max(1) as f64;
    let ours = each * SNAPSHOTS_PER_SECOND;
    sheet.add(Row {
        name: format!("sampler, {PROCESSES} processes, 1 snapshot per second"),
        ours: ours * 100.0,
        peer: None,
        unit: "% of a core".to_owned(),
        ratio: None,
        goal: format!("at most {}", MOST * 100.0),
        ok: ours <= MOST,
    })
}
