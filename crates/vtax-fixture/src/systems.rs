//! Made-up runs on several systems: one to six virtual machines on one host, and a neighbour that bursts.

use std::path::Path;

use vtax_load::{Counts, GeneratorUse, LatencyHistogram, LoadResult, merged};
use vtax_plan::model::{BesideLoad, Cell, Measure};
use vtax_store::record::{
    CpuBreakdown, Finding, Layer, LayerTime, Observation, Timings, TrialRecord, Validity,
};
use vtax_store::{RunDir, StoreError};
use vtax_units::{Nanos, Rate};

const PLAN: &str = "
vtax: 1
name: made-up-consolidation
baseline: {environment: vm, count: 1}
environments: [{vm: {count: [1, 2, 3, 4, 6], memory: 256MiB}}]
services: http
study: consolidated-servers
workload:
  http: {target: /bytes/100}
consolidation: {load: each}
measure:
  - latency: {load: 100/s, duration: 20s}
repeat: 5
budget: {sut_cpus: 2, sut_memory: 512MiB}
";

const NEIGHBOUR: &str = "
vtax: 1
name: made-up-neighbour
baseline: {environment: vm, systems: quiet}
environments: vm
services: http
workload:
  http: {target: /bytes/100}
measure:
  - latency: {load: 100/s, duration: 20s}
repeat: 5
systems:
  - name: quiet
    beside: {name: tenant, service: {http: {name: other}}, workload: {http: {target: /page/100}}, load: idle}
  - name: busy
    beside: {name: tenant, service: {http: {name: other}}, workload: {http: {target: /page/100}}, load: 50/s}
";

/// Length of a trial, in seconds.
const SECONDS: u64 = 20;
/// Requests per second of each system.
const RATE: u64 = 100;
/// Median latency of one system, in nanoseconds.
const LATENCY: u64 = 400_000;
/// CPU time of a request, in nanoseconds.
const CPU: u64 = 3_000_000;

/// Makes up a run of one to six virtual machines in `path`, which must not exist or be empty: from three on, each is ten
/// times slower, the last the slowest.
///
/// # Errors
///
/// The store's, where the run can't be written.
pub fn create(path: &Path) -> Result<RunDir, StoreError> {
    run(path, PLAN)
}

/// Makes up a run beside a neighbour that is quiet, and one that bursts and makes answers take twice as long.
///
/// # Errors
///
/// As [`create`].
pub fn neighbour(path: &Path) -> Result<RunDir, StoreError> {
    run(path, NEIGHBOUR)
}

fn run(path: &Path, text: &str) -> Result<RunDir, StoreError> {
    // A plan of this program's own that parses.
    let plan = vtax_plan::parse("made-up-systems", text.as_bytes(), &[] as &[&str])
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
    let count = u64::from(cell.environment.count);
    let bursts = cell.systems.beside.iter().any(|beside| beside.load != BesideLoad::Idle);
    // Trials differ by some percent.
    let trial = u64::from(repetition) * LATENCY / 100;
    let slower = if count >= 3 { 10 } else { 1 } * if bursts { 2 } else { 1 };
    let loads: Vec<LoadResult> =
        (0..count).map(|number| load(RATE, (LATENCY + trial) * slower + number * LATENCY / 50)).collect();
    let whole = merged(&loads.iter().collect::<Vec<_>>());
    let offered = Rate((RATE * count) as f64);
    let whole = Finding::Latency { offered, load: whole };
    let started = 1_700_000_000_000;
    let answered: u64 = loads.iter().map(|load| load.counts.ok).sum();
    let mut observations =
        vec![Observation { cpu: Some(cpu(answered)), ..Observation::whole(started, whole) }];
    let name = |number: u64| if number == 0 { "sut".to_owned() } else { format!("sut-{}", number + 1) };
    let mut members: Vec<(String, &str, LoadResult)> =
        (0..).map(name).zip(loads).map(|(name, load)| (name, "system", load)).collect();
    if bursts {
        members.push((name(count), "neighbour", load(RATE / 2, LATENCY)));
    }
    if cell.is_several() {
        observations.extend(members.into_iter().map(|(member, role, load)| {
            let (answered, rate) = (load.counts.ok, load.counts.intended as f64 / SECONDS as f64);
            let facts = [("role", role), ("memory_bytes", "104857600"), ("steal_share", "0.0100")];
            Observation {
                member: Some(member),
                cpu: Some(cpu(answered)),
                facts: facts.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
                ..Observation::whole(started, Finding::Latency { offered: Rate(rate), load })
            }
        }));
    }
    let busy = if count >= 3 { "0.9800" } else { "0.4200" };
    let mut facts: std::collections::BTreeMap<String, String> =
        [("host.sut_cpus_busy", busy), ("host.swapped_pages", "0"), ("host.memory_wait", "0.0000")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
    // They boot in a row.
    facts.extend((0..count).map(|n| (format!("{}.boot_ns", name(n)), 3_000_000_000_u64.to_string())));
    facts.extend((0..count).map(|n| (format!("{}.up_ns", name(n)), (3_000_000_000 * count).to_string())));
    facts.extend((0..count).map(|n| (format!("{}.boot_cpu_ns", name(n)), "2000000000".to_owned())));
    TrialRecord {
        observations,
        validity: Validity::Valid,
        accelerator: Some("tcg".to_owned()),
        timings: Timings { testbed: Nanos::from_secs(3 * count), ..Timings::default() },
        facts,
        ..TrialRecord::begin(&cell.id, &measure.name, repetition)
    }
}

fn cpu(requests: u64) -> CpuBreakdown {
    CpuBreakdown {
        requests,
        duration: Nanos::from_secs(SECONDS),
        layers: vec![LayerTime { layer: Layer::Vcpu, time: Nanos(requests * CPU) }],
        notes: Vec::new(),
    }
}

fn load(rate: u64, latency_ns: u64) -> LoadResult {
    let answered = rate * SECONDS;
    let mut latency = LatencyHistogram::new();
    for request in 0..answered {
        latency.record(Nanos(latency_ns + latency_ns / 100 * (request % 20)));
    }
    LoadResult {
        counts: Counts { intended: answered, sent: answered, ok: answered, ..Counts::default() },
        duration: Nanos::from_secs(SECONDS),
        latency,
        generator: GeneratorUse { workers: 1, busiest: 0.2, ..GeneratorUse::default() },
        ..merged(&[])
    }
}
