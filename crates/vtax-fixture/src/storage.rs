//! A made-up run of storage: reads and writes by file and record size, natively and in a virtual machine.

use std::path::Path;

use vtax_load::storage::{CacheEvidence, Facts, IoCounters, Process, StorageResult, Verified};
use vtax_load::{Counts, GeneratorUse, LatencyHistogram, LoadResult};
use vtax_plan::model::{Cell, Plan, StorageTest};
use vtax_store::record::{CpuBreakdown, Finding, Layer, LayerTime, Observation, TrialRecord, Validity};
use vtax_store::storage::{HostStorage, StorageFinding};
use vtax_store::{RunDir, StoreError};
use vtax_units::Nanos;

const PLAN: &str = "
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

/// Bytes per second natively, and what a virtual machine has less.
const NATIVE: f64 = 400e6;
const VIRTUAL: f64 = 4.0;

/// Makes up a run in `path`, which must not exist or be empty.
///
/// # Errors
///
/// The store's, where the run can't be written.
pub fn create(path: &Path) -> Result<RunDir, StoreError> {
    // A plan of this program's own that parses.
    let plan = vtax_plan::parse("made-up-storage", PLAN.as_bytes(), &[] as &[&str])
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

fn record(plan: &Plan, cell: &Cell, repetition: u32) -> TrialRecord {
    let tests = cell.workload.model().storage_tests();
    let virtual_machine = cell.environment.name == "vm";
    TrialRecord {
        observations: tests.iter().map(|test| observation(test, virtual_machine, repetition)).collect(),
        validity: Validity::Valid,
        accelerator: virtual_machine.then(|| "tcg".to_owned()),
        ..TrialRecord::begin(&cell.id, &plan.measures[0].name, repetition)
    }
}

fn observation(test: &StorageTest, virtual_machine: bool, repetition: u32) -> Observation {
    let shape = &test.shape;
    // Larger records cost less for each byte; trials differ by a few percent.
    let gain = (shape.record.0 as f64 / 4096.0).sqrt() * (1.0 + 0.02 * f64::from(repetition));
    let rate = NATIVE * gain / if virtual_machine { VIRTUAL } else { 1.0 };
    let time = shape.file.0 as f64 / rate;
    let operations = shape.file.0 / shape.record.0;
    let mut latency = LatencyHistogram::new();
    for i in 0..operations {
        latency.record(Nanos::from_secs_f64(time / operations as f64 * (0.9 + 0.2 * (i % 10) as f64 / 10.0)));
    }
    let last = Nanos::from_secs_f64(time);
    let reads = test.operation.only_reads();
    let result = StorageResult {
        load: LoadResult {
            duration: last,
            started_unix_ns: 0,
            counts: Counts { intended: operations, sent: operations, ok: operations, ..Counts::default() },
            latency,
            lateness: LatencyHistogram::new(),
            intervals: Vec::new(),
            connections: Vec::new(),
            generator: GeneratorUse::default(),
            samples: Vec::new(),
        },
        record: shape.record.0,
        processes: vec![Process {
            operations,
            bytes: shape.file.0,
            read: if reads { shape.file.0 } else { 0 },
            first: Nanos::ZERO,
            last,
            durable: (!reads).then(|| Nanos(last.0 + last.0 / 4)),
        }],
        verified: Verified { records: if reads { operations } else { 0 }, ..Verified::default() },
        failures: Vec::new(),
        first_failure: None,
        cache: CacheEvidence { of: shape.file.0, before: Some(0), ..CacheEvidence::default() },
        io: IoCounters { fetched: Some(if reads { shape.file.0 } else { 0 }), device: None },
        facts: Facts::default(),
    };
    let host = virtual_machine.then(|| HostStorage { fetched: Some(0), ..HostStorage::default() });
    let cpu = CpuBreakdown {
        requests: shape.file.0,
        duration: last,
        layers: vec![LayerTime { layer: Layer::Supervisor, time: Nanos(last.0 / 2) }],
        notes: Vec::new(),
    };
    let finding = Finding::Storage(Box::new(StorageFinding { result, host }));
    Observation { name: test.name.clone(), cpu: Some(cpu), result: Some(finding), ..Observation::default() }
}
