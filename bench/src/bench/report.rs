//! A report over ten million single requests: how long, and in how much memory.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use vtax_fixture as fixture;
use vtax_store::record::Validity;

use crate::place;
use crate::sheet::{Row, Sheet};

/// Trials, cells and seconds that make ten million requests.
const REPETITIONS: u32 = 4;
const CELLS: u64 = 3;
const SECONDS: u64 = 60;
const REQUESTS: u64 = 10_000_000;

const MOST_SECONDS: f64 = 3.0;
const MOST_MIB: f64 = 300.0;

/// Makes up such a run and has `target/vtax report` read it.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let run = directory.path().join("run");
    let options = fixture::Options {
        repetitions: REPETITIONS,
        seconds: SECONDS,
        rate: REQUESTS.div_ceil(u64::from(REPETITIONS) * CELLS * SECONDS),
        ..fixture::Options::default()
    };
    let made = fixture::create(&run, &options).context("making up a run")?;
    // Only valid trials' requests are drawn: a row about ten million must be about so many.
    let mut requests = 0;
    for trial in made.trials()?.iter().filter(|t| t.validity == Validity::Valid) {
        requests += made.trial(trial.index).for_each_sample(|_| ())?;
    }
    ensure!(requests >= REQUESTS, "the run made up has {requests} requests in valid trials, not {REQUESTS}");
    // Twice: the first reads the files into the page cache, as a run that just ended has left them.
    let mut best = (f64::INFINITY, 0.0);
    for _ in 0..2 {
        let started = Instant::now();
        let child = Command::new(place::vtax())
            .arg("report")
            .arg(&run)
            .stdout(Stdio::null())
            .spawn()
            .context("starting target/vtax; `make build` makes it")?;
        let reaped = vtax_sys::reap::wait(child)?;
        ensure!(reaped.status.success(), "vtax report: {}", reaped.status);
        let seconds = started.elapsed().as_secs_f64();
        if seconds < best.0 {
            best = (seconds, reaped.resident_bytes_max as f64 / f64::from(1 << 20));
        }
    }
    sheet.add_all([
        Row::at_most("report over 10 million requests, time", best.0, "s", MOST_SECONDS),
        Row::at_most("report over 10 million requests, memory", best.1, "MiB", MOST_MIB),
    ])
}
