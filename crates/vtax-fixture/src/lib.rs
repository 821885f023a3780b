//! Made-up runs that look like real ones, for tests, benches and for trying out the report's looks.
//!
//! No program that users have depends on it.

pub mod desktop;
pub mod ft;
pub mod hostile;
pub mod network;
pub mod script;
pub mod sip;
pub mod storage;
pub mod systems;

use std::collections::BTreeMap;
use std::path::Path;

use vtax_load::{Counts, GeneratorUse, Interval, LatencyHistogram, LoadResult, Sample};
use vtax_plan::model::{
    ArrivalProcess, Budget, CapacityMeasure, Cell, Environment, EnvironmentKind, HttpWorkload,
    LatencyMeasure, Limits, Load, Measure, MeasureKind, NetPath, PLAN_VERSION, PathKind, Plan, Repeat,
    Service, ServiceKind, ThroughputMeasure, VmOptions, WebOptions, Workload,
};
use vtax_probe::{CpuTimes, InterfaceCounters, Memory, Snapshot, TaskTimes};
use vtax_stats::Rng;
use vtax_store::provenance::{AcceleratorFacts, HostFacts, NodeFacts, ProgramFacts};
use vtax_store::record::{
    CapacityOutcome, CapacityStep, CpuBreakdown, Finding, InvalidReason, Layer, LayerTime, Observation,
    Timings, TrialRecord, Validity,
};
use vtax_store::{PROVENANCE_VERSION, Provenance, RunDir, StoreError, TrialEvent, TrialWriter};
use vtax_units::{Bytes, Nanos, Rate, Share};

/// What kind of run to make up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Trials of each cell and measure.
    pub repetitions: u32,
    /// Seconds of each latency and throughput trial.
    pub seconds: u64,
    /// Requests per second in latency trials, each kept as a sample.
    pub rate: u64,
    /// File sizes to make cells of; empty: one group of three cells.
    pub targets: Vec<String>,
    /// Name of the service, which ends up in ids, labels and logs.
    pub service: String,
}

impl Default for Options {
    fn default() -> Self {
        Self { repetitions: 5, seconds: 20, rate: 600, targets: Vec::new(), service: "http".to_owned() }
    }
}

/// Figures of an environment that a made-up trial scatters around.
struct Character {
    name: &'static str,
    capacity: f64,
    latency_ns: f64,
    tail: f64,
    layers: &'static [(Layer, f64)],
    accelerator: Option<&'static str>,
    startup_ms: f64,
    build_ms: f64,
}

const CHARACTERS: [Character; 3] = [
    Character {
        name: "native",
        capacity: 24_000.0,
        latency_ns: 95_000.0,
        tail: 1.0,
        layers: &[
            (Layer::ServiceUser, 9_100.0),
            (Layer::ServiceSystem, 21_400.0),
            (Layer::ServiceInterrupts, 3_300.0),
            (Layer::Supervisor, 250.0),
        ],
        accelerator: None,
        startup_ms: 6.0,
        build_ms: 41.0,
    },
    Character {
        name: "container",
        capacity: 23_700.0,
        latency_ns: 97_000.0,
        tail: 1.1,
        layers: &[
            (Layer::ServiceUser, 9_200.0),
            (Layer::ServiceSystem, 22_000.0),
            (Layer::ServiceInterrupts, 3_400.0),
            (Layer::Supervisor, 900.0),
        ],
        accelerator: None,
        startup_ms: 7.5,
        build_ms: 162.0,
    },
    Character {
        name: "vm",
        capacity: 1_350.0,
        latency_ns: 1_350_000.0,
        tail: 2.2,
        layers: &[
            (Layer::ServiceUser, 88_000.0),
            (Layer::ServiceSystem, 262_000.0),
            (Layer::ServiceInterrupts, 61_000.0),
            (Layer::GuestOther, 18_000.0),
            (Layer::Vcpu, 94_000.0),
            (Layer::HypervisorIo, 71_000.0),
            (Layer::HostInterrupts, 9_000.0),
        ],
        accelerator: Some("tcg"),
        startup_ms: 210.0,
        build_ms: 3_900.0,
    },
];

/// What a made-up measurement needs of random numbers.
struct Noise(Rng);

impl Noise {
    fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// About normal: four uniforms.
    fn normal(&mut self) -> f64 {
        ((0..4).map(|_| self.unit()).sum::<f64>() - 2.0) * 3f64.sqrt()
    }

    fn around(&mut self, value: f64, relative: f64) -> f64 {
        value * (relative * self.normal()).exp()
    }

    fn latency(&mut self, c: &Character) -> u64 {
        let body = self.around(c.latency_ns, 0.22);
        let tail = if self.unit() < 0.02 { self.unit().powi(-1).min(40.0) * c.tail } else { 0.0 };
        (body * (1.0 + tail)) as u64
    }
}

/// Makes up a run in `path`, which must not exist or be empty.
///
/// # Errors
///
/// The store's, where the run can't be written.
pub fn create(path: &Path, options: &Options) -> Result<RunDir, StoreError> {
    let plan = plan(options);
    let mut run = RunDir::create(path, &plan, &provenance(options))?;
    run.note(None, "CPU sets by affinity: cgroup v2 cpuset is not available here")?;
    run.note(
        Some(&plan.cells[2].id),
        "the generator shares no core with the guest, but the host has only 2 cores",
    )?;
    let mut noise = Noise::new(plan.seed);
    for repetition in 0..options.repetitions {
        for measure in &plan.measures {
            for (i, cell) in plan.cells.iter().enumerate() {
                let character = &CHARACTERS[i % CHARACTERS.len()];
                let mut trial = run.begin_trial(&cell.id, &measure.name, repetition)?;
                let record = record(&mut trial, cell, measure, character, options, &mut noise)?;
                run.finish_trial(trial, TrialRecord { repetition, ..record })?;
            }
        }
    }
    run.completed()?;
    Ok(run.run().clone())
}

fn record(
    trial: &mut TrialWriter,
    cell: &Cell,
    measure: &Measure,
    c: &Character,
    options: &Options,
    noise: &mut Noise,
) -> Result<TrialRecord, StoreError> {
    let name = &cell.service.name;
    trial.log(&format!("sut.{name}.stderr"), &format!("{name}: listening on 10.0.0.2:8080"))?;
    let event = |at: u64, kind: &str, text: &str| TrialEvent {
        at: Nanos::from_millis(at),
        node: "sut".to_owned(),
        kind: kind.to_owned(),
        text: text.to_owned(),
    };
    trial.event(&event(40, "testbed-up", "every agent answered"))?;
    trial.event(&event(55, "service-ready", "10.0.0.2:8080"))?;
    let outcome = match measure.kind {
        MeasureKind::Capacity(_) => Finding::Capacity(search(c, noise)),
        MeasureKind::Latency(_) => {
            let load = load(c, options.rate, options.seconds, noise, trial)?;
            Finding::Latency { offered: Rate(options.rate as f64), load }
        }
        MeasureKind::Throughput(_) => {
            let rate = noise.around(c.capacity * 1.05, 0.02) as u64;
            Finding::Throughput { load: closed(c, rate, options.seconds, noise) }
        }
        MeasureKind::Ims(_)
        | MeasureKind::Failover(_)
        | MeasureKind::Network(_)
        | MeasureKind::Storage(_) => {
            unreachable!("these plans measure requests only")
        }
    };
    probes(trial, c, options, noise)?;
    Ok(recorded(trial, cell, measure, c, outcome, options.seconds, noise))
}

/// What the journal says of a trial that found `outcome`.
fn recorded(
    trial: &TrialWriter,
    cell: &Cell,
    measure: &Measure,
    c: &Character,
    outcome: Finding,
    seconds: u64,
    noise: &mut Noise,
) -> TrialRecord {
    let requests = 12_000;
    let layers = c.layers.iter().map(|(layer, ns)| LayerTime {
        layer: *layer,
        time: Nanos((noise.around(*ns, 0.02) * requests as f64) as u64),
    });
    let cpu = CpuBreakdown {
        requests,
        duration: Nanos::from_secs(seconds),
        layers: layers.collect(),
        notes: Vec::new(),
    };
    let limited = trial.index() % 23 == 11;
    let started_unix_ms = 1_795_000_000_000 + u64::from(trial.index()) * 31_000;
    TrialRecord {
        index: trial.index(),
        cell: cell.id.clone(),
        measure: measure.name.clone(),
        repetition: 0,
        started_unix_ms,
        validity: match limited {
            false => Validity::Valid,
            true => Validity::Invalid {
                reason: InvalidReason::GeneratorLimited,
                detail: "worker 0 used 97 % of its CPU; p99 of its lateness was 3.1 ms".to_owned(),
            },
        },
        observations: vec![Observation { cpu: Some(cpu), ..Observation::whole(started_unix_ms, outcome) }],
        timings: Timings {
            testbed: Nanos((noise.around(c.build_ms, 0.06) * 1e6) as u64),
            service: Nanos((noise.around(c.startup_ms, 0.08) * 1e6) as u64),
            measure: Nanos::from_secs(seconds + 2),
            teardown: Nanos::from_millis(30),
        },
        accelerator: c.accelerator.map(str::to_owned),
        facts: [("address", "10.0.0.2:8080"), ("sut_cpus", "1"), ("client_cpus", "0")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
        ..TrialRecord::default()
    }
}

/// A search as the runner makes it: doubling, then halving the bracket.
fn search(c: &Character, noise: &mut Noise) -> CapacityOutcome {
    let truth = noise.around(c.capacity, 0.02);
    let (mut lower, mut upper) = (0.0, None::<f64>);
    let mut offered = 500.0;
    let mut steps = Vec::new();
    while upper.is_none_or(|u| u / f64::max(lower, 1.0) > 1.05) && steps.len() < 30 {
        let passed = offered <= noise.around(truth, 0.005);
        steps.push(CapacityStep {
            offered: Rate(offered),
            goodput: Rate(offered.min(truth)),
            loss: if passed { 0.0 } else { 1.0 - truth / offered },
            p99: Nanos((c.latency_ns * if passed { 1.0 + 3.0 * offered / truth } else { 90.0 }) as u64),
            p95: None,
            passed,
            reason: (!passed).then(|| "p99 above the limit of 50ms".to_owned()),
        });
        if passed {
            lower = offered
        } else {
            upper = Some(offered)
        }
        offered = upper.map_or(offered * 2.0, |u| (f64::max(lower, u / 4.0) * u).sqrt());
    }
    CapacityOutcome { lower: Rate(lower), upper: upper.map(Rate), steps }
}

fn load(
    c: &Character,
    rate: u64,
    seconds: u64,
    noise: &mut Noise,
    trial: &mut TrialWriter,
) -> Result<LoadResult, StoreError> {
    let mut result = empty(seconds);
    let factor = noise.around(1.0, 0.03);
    let mut pending = Vec::new();
    for second in 0..seconds {
        let mut interval = Interval {
            start: Nanos::from_secs(second),
            counts: Counts::default(),
            latency: LatencyHistogram::new(),
            begun: None,
        };
        // A hiccup in the middle, so that the picture over time has something to show.
        let hiccup = if c.tail > 2.0 && second == seconds / 2 { 2.5 } else { 1.0 };
        for i in 0..rate {
            let latency = (noise.latency(c) as f64 * factor * hiccup) as u64;
            // Scattered within its slot: equal gaps would pack into nothing.
            let slot = i as f64 + noise.unit();
            let start_ns = second * 1_000_000_000 + (slot * 1e9 / rate as f64) as u64;
            let outcome = if noise.unit() < 0.0004 * c.tail { 1 } else { 0 };
            pending.push(Sample { start_ns, latency_ns: latency, outcome });
            count(&mut interval.counts, outcome);
            if outcome == 0 {
                interval.latency.record(Nanos(latency));
            }
        }
        trial.samples(&pending)?;
        pending.clear();
        add(&mut result, interval);
    }
    for _ in 0..1000 {
        result.lateness.record(Nanos(noise.around(9_000.0, 0.6) as u64));
    }
    Ok(result)
}

fn closed(c: &Character, rate: u64, seconds: u64, noise: &mut Noise) -> LoadResult {
    let mut result = empty(seconds);
    for second in 0..seconds {
        let ok = noise.around(rate as f64, 0.02) as u64;
        let mut interval = Interval {
            start: Nanos::from_secs(second),
            counts: Counts { sent: ok, ok, ..Counts::default() },
            latency: LatencyHistogram::new(),
            begun: None,
        };
        for _ in 0..2000 {
            interval.latency.record(Nanos(noise.latency(c) * 3));
        }
        add(&mut result, interval);
    }
    result
}

fn empty(seconds: u64) -> LoadResult {
    LoadResult {
        started_unix_ns: 0,
        connections: Vec::new(),
        duration: Nanos::from_secs(seconds),
        counts: Counts::default(),
        latency: LatencyHistogram::new(),
        lateness: LatencyHistogram::new(),
        intervals: Vec::new(),
        generator: GeneratorUse { workers: 1, busiest: 0.31, ..GeneratorUse::default() },
        samples: Vec::new(),
        details: None,
        timeout: Nanos::ZERO,
        answered_in_time: None,
    }
}

fn count(counts: &mut Counts, outcome: u8) {
    counts.intended += 1;
    counts.sent += 1;
    match outcome {
        0 => counts.ok += 1,
        _ => counts.errors.client_timeout += 1,
    }
}

fn add(result: &mut LoadResult, interval: Interval) {
    let (all, one) = (&mut result.counts, &interval.counts);
    all.intended += one.intended;
    all.sent += one.sent;
    all.ok += one.ok;
    all.errors.client_timeout += one.errors.client_timeout;
    result.latency.add(&interval.latency);
    result.intervals.push(interval);
}

fn probes(
    trial: &mut TrialWriter,
    c: &Character,
    options: &Options,
    noise: &mut Noise,
) -> Result<(), StoreError> {
    let busy_of = |name: &str| match (name, c.name) {
        ("client", _) => 0.3,
        (_, "vm") => 0.92,
        _ => 0.05,
    };
    for node in ["client", "sut"] {
        let mut at = Snapshot { at: Nanos::from_secs(1000), ..Snapshot::default() };
        at.cpus = vec![CpuTimes { cpu: u32::from(node == "sut"), ..CpuTimes::default() }];
        at.tasks = vec![TaskTimes { id: 42, name: "http".to_owned(), ..TaskTimes::default() }];
        at.memory = Memory { total_bytes: 256 << 20, available_bytes: 200 << 20, swap_used_bytes: 0 };
        at.interfaces = vec![InterfaceCounters { name: "eth0".to_owned(), ..InterfaceCounters::default() }];
        for _ in 0..=options.seconds {
            trial.snapshot(node, &at)?;
            let busy = noise.around(busy_of(node), 0.05).min(1.0);
            let cpu = &mut at.cpus[0];
            cpu.user.0 += (busy * 3e8) as u64;
            cpu.system.0 += (busy * 6e8) as u64;
            cpu.softirq.0 += (busy * 1e8) as u64;
            cpu.idle.0 += ((1.0 - busy) * 1e9) as u64;
            at.tasks[0].user.0 += (busy * 3e8) as u64;
            at.tasks[0].resident_bytes = 9 << 20;
            at.memory.available_bytes -= 200_000;
            at.interfaces[0].rx_bytes += noise.around(90_000.0, 0.05) as u64;
            at.interfaces[0].tx_bytes += noise.around(190_000.0, 0.05) as u64;
            at.interfaces[0].rx_packets += 1200;
            at.interfaces[0].tx_packets += 1200;
            at.at.0 += 1_000_000_000;
        }
    }
    Ok(())
}

fn plan(options: &Options) -> Plan {
    let targets = match options.targets.as_slice() {
        [] => vec![None],
        some => some.iter().map(|t| Some(t.clone())).collect(),
    };
    let cells = targets.iter().flat_map(|t| CHARACTERS.iter().map(|c| cell(c, t.as_deref(), options)));
    Plan {
        version: PLAN_VERSION,
        name: "quick".to_owned(),
        description: "What do a container and a virtual machine cost a small web service?".to_owned(),
        seed: 20_261_120,
        cells: cells.collect(),
        measures: measures(options),
        repeat: Repeat {
            min: options.repetitions,
            max: options.repetitions,
            until: Share(0.05),
            budget: Some(Nanos::from_secs(280)),
            order: Default::default(),
            trials: Default::default(),
        },
        budget: Budget { sut_cpus: Some(1), sut_memory: Bytes::from_mib(256), client_cpus: Some(1) },
        margin: Share(0.05),
        study: None,
        primary: None,
    }
}

fn cell(c: &Character, target: Option<&str>, options: &Options) -> Cell {
    let id = |name: &str| match target {
        Some(t) => format!("{name}.bridge.{}.target-{t}", options.service),
        None => format!("{name}.bridge.{}", options.service),
    };
    Cell {
        id: id(c.name),
        environment: Environment::new(
            c.name,
            match c.name {
                "vm" => {
                    EnvironmentKind::Vm(VmOptions { vcpus: Some(1), ..VmOptions::new(Bytes::from_mib(256)) })
                }
                "container" => EnvironmentKind::Container,
                _ => EnvironmentKind::Native,
            },
        ),
        path: NetPath::new("bridge", PathKind::Bridge),
        service: Service {
            name: options.service.clone(),
            kind: ServiceKind::Http(WebOptions::on(8080)),
            ready_timeout: Nanos::from_secs(30),
            stop_timeout: Nanos::from_secs(5),
        },
        workload: Workload::Http(HttpWorkload {
            target: format!("/bytes/{}", target.unwrap_or("100")),
            connections: 64,
            requests_per_connection: None,
            http2_streams: None,
            timeout: Nanos::from_secs(1),
            tls: None,
            script: None,
        }),
        systems: Default::default(),
        parameters: target.map(|t| ("target".to_owned(), t.to_owned())).into_iter().collect(),
        baseline: (c.name != "native").then(|| id("native")),
    }
}

fn measures(options: &Options) -> Vec<Measure> {
    let duration = Nanos::from_secs(options.seconds);
    let kinds = [
        (
            "capacity",
            MeasureKind::Capacity(CapacityMeasure {
                start: Rate(500.0),
                max: Rate(200_000.0),
                precision: Share(0.05),
                step: Nanos::from_secs(2),
                settle: Nanos::from_millis(500),
                arrivals: ArrivalProcess::Poisson,
                limits: Limits { errors: Share(0.01), p99: Some(Nanos::from_millis(50)), p95: None },
            }),
        ),
        (
            "latency",
            MeasureKind::Latency(LatencyMeasure {
                load: Load::LowestCapacity(Share(0.5)),
                arrivals: ArrivalProcess::Poisson,
                warmup: Nanos::from_secs(1),
                duration,
                samples: true,
            }),
        ),
        ("throughput", MeasureKind::Throughput(ThroughputMeasure { warmup: Nanos::from_secs(1), duration })),
    ];
    kinds.map(|(name, kind)| Measure { name: name.to_owned(), kind }).into()
}

/// Version and command line.
const QEMU: [&str; 2] = [
    "QEMU emulator version 7.2.22",
    "qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max -smp 1 -m 256 -nodefaults -display none -kernel vmlinux",
];

fn provenance(options: &Options) -> Provenance {
    let program = |version: &str, command: &str| ProgramFacts {
        version: version.to_owned(),
        command: command.split_whitespace().map(str::to_owned).collect(),
        ..ProgramFacts::default()
    };
    let pairs = |p: &[(&str, &str)]| -> BTreeMap<String, String> {
        p.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    let node = |memory_bytes| NodeFacts {
        kernel: "6.1.0-49-amd64".to_owned(),
        cpus: 1,
        memory_bytes,
        ..NodeFacts::default()
    };
    Provenance {
        run_id: "0".repeat(32),
        version: PROVENANCE_VERSION,
        vtax_version: env!("CARGO_PKG_VERSION").to_owned(),
        vtax_commit: Some("0123abc".to_owned()),
        command_line: ["vtax", "run", "plans/quick.yaml"].map(str::to_owned).into(),
        plan_file: Some("plans/quick.yaml".to_owned()),
        seed: 20_261_120,
        started_unix_ms: 1_795_000_000_000,
        ended_unix_ms: Some(1_795_000_252_000),
        host: HostFacts {
            name: "example".into(),
            kernel: "6.1.0-49-amd64".to_owned(),
            architecture: "x86_64".to_owned(),
            distribution: "Debian GNU/Linux 12 (bookworm)".to_owned(),
            cpu_model: "Example CPU @ 2.60GHz".to_owned(),
            cpus: 2,
            cpu_quota: None,
            threads_per_core: Some(2),
            memory_bytes: 24 << 30,
            load_average: Some([0.42, 0.61, 0.55]),
            virtualization: Some("kvm".to_owned()),
            governor: None,
        },
        accelerator: Some(AcceleratorFacts {
            kind: "tcg".to_owned(),
            reason: "KVM is present, but its probe guest printed nothing within 3 s".to_owned(),
        }),
        qemu: Some(program(QEMU[0], QEMU[1])),
        container_runtime: Some(program("crun version 1.8.1", "crun run sut")),
        services: [(
            "native.bridge.http".to_owned(),
            program("vtax 0.1.0", &format!("{} --listen 10.0.0.2:8080", options.service)),
        )]
        .into(),
        nodes: [("client".to_owned(), node(24 << 30)), ("sut".to_owned(), node(256 << 20))].into(),
        packages: pairs(&[("qemu-system-x86", "1:7.2+dfsg-7+deb12u18"), ("crun", "1.8.1-1+deb12u1")]),
        limits: pairs(&[("cpus", "affinity"), ("memory", "none: no memory cgroup")]),
        environment: pairs(&[("LANG", "C.UTF-8")]),
        facts: pairs(&[("vm.command", QEMU[1]), ("vm.qemu", QEMU[0])]),
    }
}
