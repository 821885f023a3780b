//! Made-up runs of storage: reads and writes by file and record size on disks, and behind a server in rounds.

use std::path::Path;

use vtax_load::storage::{CacheEvidence, Facts, IoCounters, Process, StorageResult, Verified};
use vtax_load::{Counts, LatencyHistogram, LoadResult};
use vtax_plan::model::{Cell, MeasureKind, Plan, SteadyState, StorageTest};
use vtax_store::record::{
    CpuBreakdown, Finding, InvalidReason, Layer, LayerTime, Observation, TrialRecord, Validity,
};
use vtax_store::storage::{HostStorage, ServerStorage, StorageFinding, StorageRound, StorageRounds};
use vtax_store::{RunDir, StoreError};
use vtax_units::Nanos;

const DISKS: &str = "
vtax: 1
name: made-up-storage
baseline: native
environments: [native, vm]
paths: direct
workload:
  storage: {operations: [write, read, random-read], size: [1MiB, 16MiB], record: [4KiB, 64KiB]}
measure: storage
repeat: 3
";

const SERVED: &str = "
vtax: 1
name: made-up-san
baseline: native
environments: [native, vm]
paths: gigabit
services: {tgt: {size: 64MiB}}
workload:
  storage: {operations: [write, read, random-write], size: 16MiB, record: 64KiB, processes: [1, 2]}
measure: {storage: {duration: 1s, steady_state: {rounds: 8}}}
repeat: 3
";

/// Bytes per second natively, and what a virtual machine has less.
const NATIVE: f64 = 400e6;
const VIRTUAL: f64 = 4.0;
/// Rounds of a test that becomes steady in the last five, as shares of its level. These average 1.
const STEADY: [f64; 7] = [2.0, 1.5, 1.0, 1.0, 1.02, 0.98, 1.0];
/// Rounds of one that never does.
const FALLING: [f64; 8] = [1.7, 1.6, 1.5, 1.4, 1.3, 1.2, 1.1, 1.0];

/// Makes up a run in `path`, which must not exist or be empty: the systems' own disks, each test made once.
///
/// # Errors
///
/// The store's, where the run can't be written.
pub fn create(path: &Path) -> Result<RunDir, StoreError> {
    made_up(path, DISKS)
}

/// The same behind a server and a path of 1 Gbit/s, in rounds. Reads are beyond the path. Random writes of the virtual machine never
/// become steady.
///
/// # Errors
///
/// The store's, where the run can't be written.
pub fn create_served(path: &Path) -> Result<RunDir, StoreError> {
    made_up(path, SERVED)
}

fn made_up(path: &Path, plan: &str) -> Result<RunDir, StoreError> {
    // A plan of this program's own that parses.
    let plan = vtax_plan::parse("made-up-storage", plan.as_bytes(), &[] as &[&str])
        .unwrap_or_else(|e| unreachable!("{e}"));
    let provenance = super::provenance(&super::Options::default());
    let mut run = RunDir::create(path, &plan, &provenance)?;
    for repetition in 0..plan.repeat.min {
        for cell in &plan.cells {
            let trial = run.begin_trial(&cell.id, "storage", repetition)?;
            let record = record(&plan, cell, repetition);
            run.finish_trial(trial, TrialRecord { repetition, round: Some(repetition), ..record })?;
        }
    }
    run.completed()?;
    Ok(run.run().clone())
}

/// The trial that a test is of.
#[derive(Clone, Copy)]
struct Trial {
    virtual_machine: bool,
    served: bool,
    repetition: u32,
    steady_state: Option<SteadyState>,
}

fn record(plan: &Plan, cell: &Cell, repetition: u32) -> TrialRecord {
    let tests = cell.workload.model().storage_tests();
    let steady_state = match &plan.measures[0].kind {
        MeasureKind::Storage(measure) => measure.steady_state,
        _ => None,
    };
    let virtual_machine = cell.environment.name == "vm";
    let served = cell.service.name != "disk";
    let trial = Trial { virtual_machine, served, repetition, steady_state };
    TrialRecord {
        observations: tests.iter().map(|test| observation(test, trial)).collect(),
        validity: Validity::Valid,
        accelerator: virtual_machine.then(|| "tcg".to_owned()),
        ..TrialRecord::begin(&cell.id, &plan.measures[0].name, repetition)
    }
}

/// Bytes per second of all processes.
fn rate(test: &StorageTest, trial: Trial) -> f64 {
    // Larger records cost less for each byte; trials differ by a few percent.
    let gain = (test.shape.record.0 as f64 / 4096.0).sqrt() * (1.0 + 0.02 * f64::from(trial.repetition));
    NATIVE * gain / if trial.virtual_machine { VIRTUAL } else { 1.0 }
}

fn observation(test: &StorageTest, trial: Trial) -> Observation {
    let result = result(test, trial);
    let (bytes, last) = (result.bytes(), result.load.duration);
    let rounds = trial.steady_state.map(|rule| rounds(test, trial, rule, &result));
    let steady = rounds.as_ref().is_none_or(|rounds| rounds.rounds.len() == STEADY.len());
    let spent = |layer, part| CpuBreakdown {
        requests: bytes,
        duration: last,
        layers: vec![LayerTime { layer, time: Nanos(last.0 / part) }],
        notes: Vec::new(),
    };
    let disk = trial.virtual_machine && !trial.served;
    let finding = StorageFinding {
        result,
        host: disk.then(|| HostStorage { fetched: Some(0), ..HostStorage::default() }),
        server: trial.served.then(|| ServerStorage { shared: !trial.virtual_machine, ..Default::default() }),
        server_cache: None,
        client: trial.served.then(|| spent(Layer::Supervisor, 3)),
        steady_state: rounds,
    };
    let layer = if trial.served { Layer::ServiceUser } else { Layer::Supervisor };
    let never = || Validity::Invalid {
        reason: InvalidReason::NoSteadyState,
        detail: format!("no steady state after {} rounds", FALLING.len()),
    };
    Observation {
        name: test.name.clone(),
        cpu: Some(spent(layer, 2)),
        result: Some(Finding::Storage(Box::new(finding))),
        validity: if steady { Validity::Valid } else { never() },
        ..Observation::default()
    }
}

/// What the rounds before found: the result is of the last one.
fn rounds(test: &StorageTest, trial: Trial, rule: SteadyState, result: &StorageResult) -> StorageRounds {
    let falls = trial.virtual_machine && test.is_timed();
    let shares: &[f64] = if falls { &FALLING } else { &STEADY };
    let level = if test.is_timed() { result.iops() } else { result.parent() };
    let latency = &result.load.latency;
    let (median, p99) = (latency.quantile(0.5), latency.quantile(0.99));
    let round = |share: &f64| StorageRound { figure: level * share, median, p99 };
    StorageRounds { rule, rounds: shares.iter().map(round).collect() }
}

fn result(test: &StorageTest, trial: Trial) -> StorageResult {
    let shape = &test.shape;
    let processes = u64::from(shape.processes);
    let bytes = shape.file.0 * processes;
    let time = bytes as f64 / rate(test, trial);
    let operations = bytes / shape.record.0;
    let mut latency = LatencyHistogram::new();
    for i in 0..operations {
        latency.record(Nanos::from_secs_f64(time / operations as f64 * (0.9 + 0.2 * (i % 10) as f64 / 10.0)));
    }
    let last = Nanos::from_secs_f64(time);
    let reads = test.operation.only_reads();
    let process = Process {
        operations: operations / processes,
        bytes: shape.file.0,
        read: if reads { shape.file.0 } else { 0 },
        first: Nanos::ZERO,
        last,
        durable: (!reads).then(|| Nanos(last.0 + last.0 / 4)),
    };
    let load = LoadResult {
        duration: last,
        counts: Counts { intended: operations, sent: operations, ok: operations, ..Counts::default() },
        latency,
        ..LoadResult::default()
    };
    let fetched = (!trial.served).then_some(if reads { bytes } else { 0 });
    StorageResult {
        load,
        record: shape.record.0,
        processes: vec![process; processes as usize],
        verified: Verified { records: if reads { operations } else { 0 }, ..Verified::default() },
        failures: Vec::new(),
        first_failure: None,
        cache: CacheEvidence { of: bytes, before: (!trial.served).then_some(0), ..CacheEvidence::default() },
        io: IoCounters { fetched, device: None, server: None },
        facts: Facts::default(),
        read_back: None,
        beside: Vec::new(),
    }
}
