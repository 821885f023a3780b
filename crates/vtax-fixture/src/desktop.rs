//! Made-up runs of remote desktops: two and ten users, natively and in a virtual machine.

use std::path::Path;

use vtax_load::desktop::{DesktopFigures, Kind};
use vtax_load::{Counts, Details, LatencyHistogram, LoadResult};
use vtax_plan::model::{Cell, Load, Measure, MeasureKind};
use vtax_store::record::{CpuBreakdown, Finding, Layer, LayerTime, Observation, TrialRecord, Validity};
use vtax_store::{RunDir, StoreError};
use vtax_units::{Nanos, Rate};

const PLAN: &str = "
vtax: 1
name: made-up-desktops
baseline: native
environments: [native, vm]
services: {tigervnc: {sessions: 10}}
study: virtual-servers
workload:
  desktop: {rate: 4/s}
measure:
  - latency: {load: [8/s, 40/s], duration: 60s}
repeat: 3
";

/// Length of a trial, in seconds.
const SECONDS: u64 = 60;
/// Actions of one user per second, as in the plan.
const USER_RATE: f64 = 4.0;
/// Latency of an action of one user natively, and CPU time for it, in nanoseconds. A virtual machine takes three times as much.
const LATENCY: u64 = 10_000_000;
const CPU: u64 = 2_000_000;
const VIRTUAL: u64 = 3;
/// One pixel.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Makes up a run in `path`, which must not exist or be empty.
///
/// # Errors
///
/// The store's, where the run can't be written.
pub fn create(path: &Path) -> Result<RunDir, StoreError> {
    // A plan of this program's own that parses.
    let plan = vtax_plan::parse("made-up-desktops", PLAN.as_bytes(), &[] as &[&str])
        .unwrap_or_else(|e| unreachable!("{e}"));
    let provenance = super::provenance(&super::Options::default());
    let mut run = RunDir::create(path, &plan, &provenance)?;
    for repetition in 0..plan.repeat.min {
        for cell in &plan.cells {
            for measure in &plan.measures {
                let trial = run.begin_trial(&cell.id, &measure.name, repetition)?;
                let record = record(cell, measure, repetition);
                run.finish_trial(trial, TrialRecord { repetition, round: Some(repetition), ..record })?;
            }
        }
    }
    run.completed()?;
    Ok(run.run().clone())
}

fn record(cell: &Cell, measure: &Measure, repetition: u32) -> TrialRecord {
    let offered = match &measure.kind {
        MeasureKind::Latency(latency) => match latency.load {
            Load::Rate(rate) => rate,
            _ => Rate(USER_RATE),
        },
        _ => Rate(USER_RATE),
    };
    let virtual_machine = cell.environment.name == "vm";
    let factor = if virtual_machine { VIRTUAL } else { 1 };
    let load = load(offered, factor, u64::from(repetition));
    let cpu = CpuBreakdown {
        requests: load.counts.ok,
        duration: load.duration,
        layers: vec![LayerTime { layer: Layer::ServiceUser, time: Nanos(load.counts.ok * CPU * factor) }],
        notes: Vec::new(),
    };
    let whole = Observation::whole(1_700_000_000_000, Finding::Latency { offered, load });
    TrialRecord {
        observations: vec![Observation { cpu: Some(cpu), ..whole }],
        validity: Validity::Valid,
        accelerator: virtual_machine.then(|| "tcg".to_owned()),
        ..TrialRecord::begin(&cell.id, &measure.name, repetition)
    }
}

fn load(offered: Rate, factor: u64, repetition: u64) -> LoadResult {
    let actions = offered.0 as u64 * SECONDS;
    let users = (offered.0 / USER_RATE) as u32;
    let mut latency = LatencyHistogram::new();
    let mut by_kind = Kind::ALL.map(|kind| (kind, LatencyHistogram::new()));
    for action in 0..actions {
        // Ten users wait a little longer than two; trials and actions differ by some percent.
        let spread = LATENCY / 100 * (action % 10 + repetition) + LATENCY / 20 * u64::from(users);
        let took = Nanos((LATENCY + spread) * factor);
        latency.record(took);
        by_kind[(action % 4) as usize].1.record(took);
    }
    let mut opening = LatencyHistogram::new();
    opening.record(Nanos(LATENCY * 10 * factor));
    let found = DesktopFigures {
        duration: Nanos::from_secs(SECONDS),
        sessions: users,
        connected: 10,
        size: (1024, 768),
        updates: actions,
        rects: vec![("Tight".to_owned(), actions * 3)],
        pixels: actions * 5_000,
        bytes: actions * 1_000,
        merged: actions / 100,
        continuous: 10,
        by_kind: by_kind.into(),
        opening,
        trouble: None,
        picture: Some(PICTURE.to_owned()),
    };
    LoadResult {
        counts: Counts {
            intended: actions,
            sent: actions,
            ok: actions,
            bytes_received: actions * 1_000,
            bytes_sent: actions * 16,
            ..Counts::default()
        },
        latency,
        details: Some(Details { desktop: Some(Box::new(found)), ..Details::default() }),
        ..super::empty(SECONDS)
    }
}
