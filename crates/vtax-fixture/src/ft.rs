//! Made-up runs with faults: protected virtual machines that fail over, and some that don't survive.

use std::path::Path;

use vtax_load::sip::{Moment, MomentKind, PhaseResult, ScenarioResult};
use vtax_load::{LatencyHistogram, Sample};
use vtax_plan::model::Study;
use vtax_plan::model::{
    ArrivalProcess, Cell, Environment, EnvironmentKind, FailoverMeasure, FaultTolerance, FtMode, Load,
    Measure, MeasureKind, MixPart, NetPath, PathKind, Plan, Scenario, ServiceKind, SipMetric, SipOptions,
    SipWorkload, VmOptions, Workload,
};
use vtax_plan::model::{Fault, FaultKind, FaultTarget, TopologyFault};
use vtax_store::failover::{
    CheckpointRecord, Connections, FailoverLoad, FailoverOutcome, FaultRecord, Normal, ProtectionRecord,
    Recovered, Recovery, Seen, Spell, TopologyEvent, TopologyOutcome,
};
use vtax_store::ims::{ImsOutcome, ImsPhase, ImsPhaseKind};
use vtax_store::record::{Finding, TrialRecord};
use vtax_store::{RunDir, StoreError, TrialWriter};
use vtax_topology::Name;
use vtax_topology::convergence::{Convergence, Counts};
use vtax_topology::expect::Stage;
use vtax_topology::hops::{Hop, Hops, Part, Times};
use vtax_topology::options::{Choice, MplsVpn, RoutedOptions, RouterHost};
use vtax_topology::timeline::{Entry, Source};
use vtax_units::{Bytes, Nanos, Rate, Share, fact};

use super::{CHARACTERS, Character, Noise};

/// What kind of run to make up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Trials of each environment and measure.
    pub repetitions: u32,
    /// Kills in each trial with faults.
    pub faults: u32,
    /// SIP scenarios instead of HTTP requests.
    pub sip: bool,
    /// Checkpoint intervals of Remus in milliseconds, each an environment.
    pub intervals_ms: Vec<u64>,
    /// Whether there is a measure with faults.
    pub failovers: bool,
    /// An environment that is booted again, and the guest on its own.
    pub every_mode: bool,
    /// Nothing but the native environment, behind routers too, of which a link is cut and mended; no host is killed.
    pub routed: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            repetitions: 3,
            faults: 2,
            sip: false,
            intervals_ms: vec![40],
            failovers: true,
            every_mode: false,
            routed: false,
        }
    }
}

const MS: u64 = 1_000_000;
/// Time between two faults, and before the first.
const BETWEEN: u64 = 8_000 * MS;

/// Makes up a run in `path`, which must not exist or be empty.
///
/// # Errors
///
/// The store's, where the run can't be written.
pub fn create(path: &Path, options: &Options) -> Result<RunDir, StoreError> {
    let plan = plan(options);
    let mut run = RunDir::create(path, &plan, &super::provenance(&super::Options::default()))?;
    let mut noise = Noise::new(plan.seed);
    for repetition in 0..options.repetitions {
        for measure in &plan.measures {
            for cell in plan.cells.iter().filter(|c| plan.is_measured(c, measure)) {
                let mut trial = run.begin_trial(&cell.id, &measure.name, repetition)?;
                let record = record(&mut trial, cell, measure, options, &mut noise)?;
                run.finish_trial(trial, TrialRecord { repetition, round: Some(repetition), ..record })?;
            }
        }
    }
    run.completed()?;
    Ok(run.run().clone())
}

fn ft_mode(cell: &Cell) -> Option<FtMode> {
    match &cell.environment.kind {
        EnvironmentKind::Vm(vm) => vm.fault_tolerance.as_ref().map(|ft| ft.mode),
        _ => None,
    }
}

/// The figures that a mode's trials scatter around.
fn character(cell: &Cell) -> Character {
    let vm = &CHARACTERS[2];
    let (capacity, latency_ms) = match ft_mode(cell) {
        None => (CHARACTERS[0].capacity, 0.095),
        Some(FtMode::None | FtMode::Restart) => (vm.capacity, 1.35),
        Some(FtMode::Kemari) => (380.0, 8.2),
        Some(FtMode::Colo) => (700.0, 1.9),
        Some(FtMode::Remus { interval } | FtMode::Snapshot { interval }) => {
            let ms = interval.0 as f64 / 1e6;
            (900.0 * ms / (ms + 32.0), ms * 0.55 + 6.0)
        }
    };
    let base = if ft_mode(cell).is_some() { vm } else { &CHARACTERS[0] };
    Character {
        name: base.name,
        capacity,
        latency_ns: latency_ms * 1e6,
        tail: base.tail,
        layers: base.layers,
        accelerator: base.accelerator,
        startup_ms: base.startup_ms,
        build_ms: base.build_ms,
    }
}

fn record(
    trial: &mut TrialWriter,
    cell: &Cell,
    measure: &Measure,
    options: &Options,
    noise: &mut Noise,
) -> Result<TrialRecord, StoreError> {
    let c = character(cell);
    let seconds = (BETWEEN / 1_000_000_000) * u64::from(options.faults + 1);
    let outcome = match &measure.kind {
        MeasureKind::Failover(failover) => {
            let found = failover_outcome(trial, cell, failover, options.sip, &c, noise)?;
            Finding::Failover(Box::new(found))
        }
        MeasureKind::Latency(_) => {
            let load = super::load(&c, 200, 6, noise, trial)?;
            Finding::Latency { offered: Rate(200.0), load }
        }
        _ => Finding::Capacity(super::search(&c, noise)),
    };
    let mut record = super::recorded(trial, cell, measure, &c, outcome, seconds, noise);
    let protection = ft_mode(cell).map(|mode| Box::new(protection(mode, seconds, noise)));
    if cell.path.kind.routed().is_some() {
        record.facts.extend(bring_up(noise));
        // The routers are in a guest, whatever the service is in.
        record.accelerator = Some("tcg".to_owned());
    }
    let is_watched = cell.path.kind.routed().is_some_and(|routed| routed.hops);
    let hops = is_watched.then(|| Box::new(hops(noise)));
    Ok(TrialRecord { protection, hops, validity: vtax_store::record::Validity::Valid, ..record })
}

/// Where packets spent their time: at every router more than on any cable.
fn hops(noise: &mut Noise) -> Hops {
    let parts = [
        (Part::Router("ce1".to_owned()), 40e3),
        (Part::Cable("ce1-pe1".to_owned()), 2e3),
        (Part::Router("pe1".to_owned()), 60e3),
        (Part::Cable("pe1-p1".to_owned()), 2e3),
        (Part::Router("p1".to_owned()), 50e3),
        (Part::Cable("p1-pe2".to_owned()), 2e3),
        (Part::Router("pe2".to_owned()), 55e3),
        (Part::Whole, 230e3),
    ];
    let mut hop = |up: bool, part: Part, least: f64| {
        let mut time = |times: f64| Nanos(noise.around(least * times, 0.02) as u64);
        let times =
            Times { packets: 900, least: time(1.0), median: time(1.4), mean: time(1.6), p99: time(5.0) };
        Hop { part, up, times }
    };
    let up: Vec<Hop> = parts.iter().map(|(part, least)| hop(true, part.clone(), *least)).collect();
    let (whole, others) = (&parts[parts.len() - 1], &parts[..parts.len() - 1]);
    let back = others.iter().rev().chain([whole]);
    let down: Vec<Hop> = back.map(|(part, least)| hop(false, part.clone(), *least)).collect();
    let hops = up.into_iter().chain(down).collect();
    Hops { looked: Nanos::from_secs(10), missed: 0, hops, problem: None }
}

/// What a trial's facts say of its routers.
fn bring_up(noise: &mut Noise) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut at = 0.0;
    for stage in Stage::ALL {
        at += noise.around(4e8, 0.2);
        facts.push((fact::of_stage(stage.word()), (at as u64).to_string()));
    }
    let others = [
        (fact::PATH_PLACE, "guest"),
        (fact::PATH_LAB_TTL, "62"),
        (fact::PATH_LAB_LABELS, "17 80"),
        (fact::PATH_LAB_VERSION, "zebra version 8.4.4"),
    ];
    facts.extend(others.map(|(key, value)| (key.to_owned(), value.to_owned())));
    facts
}

fn protection(mode: FtMode, seconds: u64, noise: &mut Noise) -> ProtectionRecord {
    let rate = match mode {
        FtMode::Kemari => 140.0,
        FtMode::Remus { interval } => 1000.0 / (interval.0 as f64 / 1e6 + 6.5),
        FtMode::Colo => 3.0,
        FtMode::Snapshot { .. } => 0.4,
        FtMode::None | FtMode::Restart => 0.0,
    };
    let count = (rate * seconds as f64) as u64;
    let mut pauses = LatencyHistogram::new();
    for _ in 0..count {
        pauses.record(Nanos(noise.around(6.2e6, 0.22) as u64));
    }
    let bytes = noise.around(520_000.0, 0.05);
    let checkpoint = CheckpointRecord {
        count,
        time: Nanos::from_secs(seconds),
        per_second: rate,
        stopped_share: rate * 0.0063,
        bytes_mean: bytes,
        pages_mean_at_most: bytes / 4104.0,
    };
    ProtectionRecord {
        mode: mode.word().to_owned(),
        time: Nanos::from_secs(seconds),
        armed_in: if count > 0 { vec![Nanos(noise.around(9.6e8, 0.1) as u64)] } else { Vec::new() },
        checkpoints: if count > 0 { vec![checkpoint] } else { Vec::new() },
        pauses,
        link_bytes: (bytes * count as f64) as u64,
        supervision_cpu: Nanos(seconds * 6 * MS),
        host_cpu: [("host-a".to_owned(), Nanos(seconds * 800 * MS))].into(),
        limits: Default::default(),
        problems: Vec::new(),
    }
}

/// How a made-up fault went.
struct Course {
    fault: Fault,
    injected: u64,
    detected: Option<u64>,
    fenced: Option<u64>,
    running: Option<(u64, Recovery)>,
    answered: Option<u64>,
    normal: Option<u64>,
    armed: Option<u64>,
    discounted: Option<String>,
}

fn course(mode: FtMode, fault: Fault, noise: &mut Noise) -> Course {
    let injected = fault.at.0 + (noise.unit() * 400.0) as u64 * MS;
    let mut ms = |typical: f64, scatter: f64| (noise.around(typical, scatter) * 1e6) as u64;
    let mut course = Course {
        fault,
        injected,
        detected: None,
        fenced: None,
        running: None,
        answered: None,
        normal: None,
        armed: None,
        discounted: None,
    };
    if let FaultKind::Topology(_) = fault.kind {
        course.answered = Some(injected + ms(180.0, 0.2));
        course.normal = course.answered;
        return course;
    }
    let kill = matches!(fault.kind, FaultKind::Kill(FaultTarget::PrimaryHost | FaultTarget::Sut));
    if !kill {
        course.answered = Some(injected + ms(6.0, 0.3));
        course.normal = course.answered;
        course.armed = Some(injected + ms(1500.0, 0.1));
        return course;
    }
    if mode == FtMode::None {
        return course;
    }
    let detected = injected + ms(104.0, 0.05);
    let fenced = detected + ms(0.14, 0.2);
    let (took, how) = match mode {
        FtMode::Restart => (ms(3600.0, 0.05), Recovery::Restarted),
        FtMode::Snapshot { .. } => (ms(420.0, 0.05), Recovery::Restored),
        _ => (ms(18.0, 0.1), Recovery::Promoted),
    };
    let running = fenced + took;
    let answered = running + if how == Recovery::Promoted { ms(104.0, 0.08) } else { ms(600.0, 0.1) };
    course.detected = Some(detected);
    course.fenced = Some(fenced);
    course.running = Some((running, how));
    course.answered = Some(answered);
    course.normal = Some(answered + ms(380.0, 0.25));
    course.armed = (mode != FtMode::Restart).then(|| running + ms(970.0, 0.06));
    course
}

fn failover_outcome(
    trial: &mut TrialWriter,
    cell: &Cell,
    measure: &FailoverMeasure,
    sip: bool,
    c: &Character,
    noise: &mut Noise,
) -> Result<FailoverOutcome, StoreError> {
    let mode = ft_mode(cell).unwrap_or(FtMode::None);
    let mut courses: Vec<Course> =
        measure.faults_of(cell).filter(|f| !f.kind.mends()).map(|f| course(mode, *f, noise)).collect();
    if let Some(last) = courses.last_mut().filter(|_| trial.index() % 7 == 5) {
        last.discounted = Some("the guest wasn't protected when it happened".to_owned());
    }
    let offered = 60.0;
    let load = if sip {
        FailoverLoad::Scenarios(Box::new(scenarios(trial, measure, &courses, offered, c, noise)?))
    } else {
        let mut all = super::empty(measure.duration.0 / 1_000_000_000);
        requests(trial, measure, &courses, offered, c, noise)?;
        all.counts.intended = (offered * measure.duration.as_secs_f64()) as u64;
        all.counts.ok = all.counts.intended;
        FailoverLoad::Requests(Box::new(all))
    };
    let lost = |c: &Course| c.answered.is_none();
    let down = courses.iter().filter(|c| lost(c) || c.running.is_some()).map(|c| Spell {
        from: Nanos(c.injected),
        to: c.running.map(|r| Nanos(r.0)),
        reason: match lost(c) {
            true => "its host failed while it was not protected".to_owned(),
            false => c.fault.kind.words(),
        },
    });
    let spell = |c: &Course| Spell {
        from: Nanos(c.running.map_or(c.injected, |r| r.0)),
        to: c.armed.map(Nanos),
        reason: "the copy on the other host was used up".to_owned(),
    };
    let keeps = mode.keeps_state();
    Ok(FailoverOutcome {
        offered: Rate(offered),
        started_unix_ns: 1_795_000_000_000_000_000,
        duration: measure.duration,
        delayed_beyond: measure.delayed,
        load,
        faults: courses.iter().map(|c| fault_record(c, keeps, sip, noise)).collect(),
        unplanned: Vec::new(),
        unprotected: courses.iter().filter(|c| mode.has_secondary() && !lost(c)).map(spell).collect(),
        down: down.collect(),
        topology: cell.path.kind.routed().map(|_| Box::new(topology(measure, cell, noise))),
    })
}

/// What became of probes one way: what breaks loses some, what mends loses none.
fn way(done: TopologyFault, noise: &mut Noise) -> Convergence {
    let lost = if done.mends() { 0 } else { noise.around(170.0, 0.1) as u64 };
    let time = Nanos(lost * MS);
    Convergence {
        began: (lost > 0).then_some(Nanos(MS)),
        by_loss: time,
        by_rate: Some(time),
        whole_again: Some(if lost > 0 { Nanos((lost + 1) * MS) } else { Nanos::ZERO }),
        counts: Counts { sent: 4_000, lost, ..Counts::default() },
    }
}

fn topology(measure: &FailoverMeasure, cell: &Cell, noise: &mut Noise) -> TopologyOutcome {
    let (mut events, mut timeline) = (Vec::new(), Vec::new());
    for fault in measure.faults_of(cell) {
        let FaultKind::Topology(done) = fault.kind else { continue };
        events.push(TopologyEvent {
            fault: done,
            at: fault.at,
            up: way(done, noise),
            down: way(done, noise),
        });
        let mut said = |after_ms: u64, router: &str, source: Source, text: String| {
            timeline.push(Entry {
                at: Nanos(fault.at.0 + after_ms * MS),
                router: router.to_owned(),
                source,
                text,
            });
        };
        said(0, "", Source::Fault, done.event().to_string());
        let state = if done.mends() { "up" } else { "down" };
        said(1, "p1", Source::Kernel, format!("interface pe2: {state}"));
        said(2, "p1", Source::Daemon("ospfd".to_owned()), format!("interface pe2 is {state}"));
    }
    let before = Some([Convergence::default(); 2]);
    TopologyOutcome { interval: Nanos(MS), late: Nanos(90_000), before, events, timeline, problem: None }
}

fn seen(c: &Course, keeps: bool, sip: bool, noise: &mut Noise) -> Seen {
    let connections = (!sip).then(|| {
        let open = 16;
        let lost = if keeps { u64::from(noise.unit() < 0.02) } else { open };
        Connections { open, kept: open - lost, lost }
    });
    let until = c.normal.unwrap_or(c.injected + BETWEEN / 2);
    Seen {
        last_before: Some(Nanos(c.injected.saturating_sub(9 * MS))),
        first_answer: c.answered.map(Nanos),
        outage: Some(c.answered.is_none_or(|at| at - c.injected > 20 * MS)),
        until: Nanos(until),
        attempts: (60.0 * (until - c.injected) as f64 / 1e9) as u64,
        failed: if keeps { 0 } else { 20 },
        delayed: 9 + (noise.unit() * 5.0) as u64,
        retransmissions: if sip { 7 + (noise.unit() * 4.0) as u64 } else { 0 },
        connections,
        normal: Some(Normal {
            from: Nanos(c.injected.saturating_sub(2_000 * MS)),
            answers: 118,
            p95: Nanos(19 * MS),
        }),
        normal_again: c.normal.map(Nanos),
        silence_arming: c.armed.map(|_| Nanos(180 * MS + (noise.unit() * 40.0) as u64 * MS)),
    }
}

fn fault_record(c: &Course, keeps: bool, sip: bool, noise: &mut Noise) -> FaultRecord {
    let age = |how| match how {
        Recovery::Promoted | Recovery::HandedOver => Some(Nanos::ZERO),
        Recovery::Restored => Some(Nanos(1_300 * MS)),
        Recovery::Restarted => None,
    };
    let recovered = |(at, how)| Recovered { at: Nanos(at), how, age: age(how), stopped: None };
    FaultRecord {
        fault: c.fault,
        injected: Some(Nanos(c.injected)),
        host: (!matches!(c.fault.kind, FaultKind::Topology(_))).then(|| "host-a".to_owned()),
        protected: true,
        discounted: c.discounted.clone(),
        detected: c.detected.map(Nanos),
        fenced: c.fenced.map(Nanos),
        recovered: c.running.map(recovered),
        lost: c.answered.is_none().then(|| "its host failed while it was not protected".to_owned()),
        armed: c.armed.map(Nanos),
        rebuild: None,
        seen: Some(seen(c, keeps, sip, noise)),
    }
}

/// When something sent at a time is answered, and whether it had to be sent again.
fn answered(courses: &[Course], start: u64, took: u64) -> Option<(u64, bool)> {
    let hit = courses.iter().rev().find(|c| start + took >= c.injected);
    match hit {
        None => Some((took, false)),
        Some(c) => match c.answered {
            None => None,
            Some(at) if start < at => Some((at - start + took, true)),
            Some(at) => {
                // What had piled up takes a while to go.
                let left = c.normal.unwrap_or(at).saturating_sub(start) as f64 / 4e8;
                Some((took + (took as f64 * 3.0 * left.min(1.0)) as u64, false))
            }
        },
    }
}

fn requests(
    trial: &mut TrialWriter,
    measure: &FailoverMeasure,
    courses: &[Course],
    offered: f64,
    c: &Character,
    noise: &mut Noise,
) -> Result<(), StoreError> {
    let mut samples = Vec::new();
    let mut at = 0.0;
    loop {
        at += -noise.unit().max(1e-12).ln() / offered * 1e9;
        let start = at as u64;
        if start >= measure.duration.0 {
            return trial.samples(&samples);
        }
        let took = noise.around(c.latency_ns, 0.25) as u64;
        let answer = answered(courses, start, took);
        let failed = answer.is_none_or(|(latency, _)| latency > 5_000 * MS);
        let latency = answer.map_or(5_000 * MS, |a| a.0);
        samples.push(Sample { start_ns: start, latency_ns: latency, outcome: u8::from(failed) });
    }
}

/// The study's calls and registrations, with messages.
const MIX: [(Scenario, SipMetric, f64); 3] = [
    (Scenario::Calling, SipMetric::Ses1, 0.5),
    (Scenario::Messaging, SipMetric::Pmm1, 0.3),
    (Scenario::Registration, SipMetric::Reg1, 0.2),
];

fn scenarios(
    trial: &mut TrialWriter,
    measure: &FailoverMeasure,
    courses: &[Course],
    offered: f64,
    c: &Character,
    noise: &mut Noise,
) -> Result<ImsOutcome, StoreError> {
    let transient = measure.warmup.0;
    let mut moments = Vec::new();
    let mut counts = MIX.map(|m| super::sip::empty(m.0));
    let mut at = 0.0;
    loop {
        at += -noise.unit().max(1e-12).ln() / offered * 1e9;
        let started = at as u64;
        if started >= measure.duration.0 {
            break;
        }
        let draw = noise.unit();
        let scenario = MIX.iter().scan(0.0, |sum, m| {
            *sum += m.2;
            Some(*sum)
        });
        let scenario = scenario.take_while(|edge| draw > *edge).count().min(MIX.len() - 1);
        let mut happened = |at: u64, what: MomentKind| {
            let (at, started) = (Nanos(at + transient), Nanos(started + transient));
            moments.push(Moment { at, started, scenario: scenario as u8, what });
        };
        counts[scenario].attempts += 1;
        let transactions: &[(SipMetric, u64)] = match scenario {
            0 => &[(SipMetric::Ses1, 0), (SipMetric::Rel1, 1_500 * MS)],
            i => &[(MIX[i].1, 0)],
        };
        let mut end = started;
        let mut good = true;
        for (metric, later) in transactions {
            let (begun, took) = (started + later, noise.around(c.latency_ns, 0.25) as u64);
            match answered(courses, begun, took) {
                Some((latency, resent)) => {
                    if resent && latency > 100 * MS {
                        happened(begun + 100 * MS, MomentKind::Repeated);
                    }
                    happened(begun + latency, MomentKind::Took(*metric, Nanos(latency)));
                    (end, good) = (begun + latency, good && latency < 2_000 * MS);
                }
                None => (end, good) = (begun + 4_000 * MS, false),
            }
        }
        happened(end, if good { MomentKind::Succeeded } else { MomentKind::Failed });
        if good {
            counts[scenario].succeeded += 1;
        } else {
            *counts[scenario].inadequate.entry("timeout".to_owned()).or_default() += 1;
        }
    }
    moments.sort_by_key(|m| m.at);
    let phase = phase(measure, offered, counts.to_vec(), moments);
    trial.phase(&phase)?;
    Ok(outcome_of(&phase))
}

fn phase(
    measure: &FailoverMeasure,
    offered: f64,
    scenarios: Vec<ScenarioResult>,
    moments: Vec<Moment>,
) -> PhaseResult {
    PhaseResult {
        name: "load".to_owned(),
        requested: Rate(offered),
        effective: Rate(offered),
        started_unix_ms: 1_795_000_000_000 - measure.warmup.0 / MS,
        duration: Nanos(measure.warmup.0 + measure.duration.0),
        transient: measure.warmup,
        scenarios,
        metrics: Vec::new(),
        seconds: Vec::new(),
        moments,
        lateness: LatencyHistogram::new(),
        generator: vtax_load::GeneratorUse { workers: 1, busiest: 0.02, ..Default::default() },
    }
}

fn outcome_of(phase: &PhaseResult) -> ImsOutcome {
    let attempts: u64 = phase.scenarios.iter().map(|s| s.attempts).sum();
    let inadequate: u64 = phase.scenarios.iter().map(ScenarioResult::inadequate_total).sum();
    ImsOutcome {
        doc: None,
        failed: None,
        phases: vec![ImsPhase {
            name: phase.name.clone(),
            kind: ImsPhaseKind::Fixed,
            requested: phase.requested,
            effective: phase.effective,
            started_unix_ms: phase.started_unix_ms,
            duration: phase.duration,
            transient: phase.transient,
            ihs: inadequate as f64 / attempts.max(1) as f64,
            passed: true,
            reason: None,
            scenarios: phase.scenarios.clone(),
            metrics: Vec::new(),
        }],
        stray: Default::default(),
        pools: Default::default(),
        connections: None,
        probe_clocks: Default::default(),
    }
}

fn plan(options: &Options) -> Plan {
    let base = super::plan(&super::Options { repetitions: options.repetitions, ..super::Options::default() });
    let mut modes: Vec<(String, Option<FtMode>)> =
        vec![("native".to_owned(), None), ("vm".to_owned(), Some(FtMode::None))];
    modes.push(("vm-kemari".to_owned(), Some(FtMode::Kemari)));
    for ms in &options.intervals_ms {
        let name =
            if options.intervals_ms.len() > 1 { format!("vm-remus-{ms}") } else { "vm-remus".to_owned() };
        modes.push((name, Some(FtMode::Remus { interval: Nanos::from_millis(*ms) })));
    }
    if options.every_mode {
        modes.push(("vm-restart".to_owned(), Some(FtMode::Restart)));
        let interval = Nanos::from_secs(2);
        modes.push(("vm-snapshot".to_owned(), Some(FtMode::Snapshot { interval })));
        modes.push(("vm-colo".to_owned(), Some(FtMode::Colo)));
    }
    let mut cells: Vec<Cell> =
        modes.into_iter().map(|(name, mode)| cell(&base.cells[0], &name, mode, options)).collect();
    if options.routed {
        cells.truncate(1);
        cells.push(behind_routers(&cells[0]));
    }
    let mut measures: Vec<Measure> = base.measures.iter().take(2).cloned().collect();
    if options.failovers {
        let kind = MeasureKind::Failover(measure(options));
        measures.push(Measure { name: "failover".to_owned(), kind });
    }
    Plan {
        name: "ft".to_owned(),
        description: "Does the service survive the failure of its host, and what does that cost?".to_owned(),
        cells,
        measures,
        study: options.sip.then_some(Study::VirtualizedIms),
        primary: None,
        ..base
    }
}

fn measure(options: &Options) -> FailoverMeasure {
    let fault = |at: u64, kind| Fault { at: Nanos(at), kind };
    let mut faults = Vec::new();
    for i in (1..=u64::from(options.faults)).filter(|_| !options.routed) {
        faults.push(fault(i * BETWEEN, FaultKind::Kill(FaultTarget::PrimaryHost)));
        faults.push(fault(i * BETWEEN + 4_000 * MS, FaultKind::Restore(FaultTarget::Hosts)));
    }
    if options.every_mode {
        faults.push(fault(u64::from(options.faults) * BETWEEN, FaultKind::Kill(FaultTarget::Sut)));
        faults.sort_by_key(|f| f.at);
    }
    if let Some(link) = "p1-pe2".parse::<Name>().ok().filter(|_| options.routed) {
        for i in 1..=u64::from(options.faults) {
            faults.push(fault(i * BETWEEN, FaultKind::Topology(TopologyFault::CutLink(link))));
            let mended = FaultKind::Topology(TopologyFault::RestoreLink(link));
            faults.push(fault(i * BETWEEN + 4_000 * MS, mended));
        }
        faults.sort_by_key(|f| f.at);
    }
    FailoverMeasure {
        load: Load::LowestCapacity(Share(0.5)),
        arrivals: ArrivalProcess::Poisson,
        warmup: Nanos::from_secs(1),
        duration: Nanos(BETWEEN * u64::from(options.faults + 1)),
        delayed: Nanos::from_millis(100),
        faults,
    }
}

/// The same with the study's VPN between client and service, compared with itself without it.
fn behind_routers(native: &Cell) -> Cell {
    let vpn = RoutedOptions {
        topology: Choice::MplsVpn(MplsVpn::default()),
        place: RouterHost::default(),
        hops: true,
    };
    Cell {
        id: native.id.replace("bridge", "mpls-vpn"),
        path: NetPath::new("mpls-vpn", PathKind::Routed(Box::new(vpn))),
        baseline: Some(native.id.clone()),
        ..native.clone()
    }
}

fn cell(base: &Cell, name: &str, mode: Option<FtMode>, options: &Options) -> Cell {
    let service = if options.sip { "sip" } else { "http" };
    let id = |name: &str| format!("{name}.bridge.{service}");
    let kind = match mode {
        None => EnvironmentKind::Native,
        Some(mode) => EnvironmentKind::Vm(VmOptions {
            vcpus: Some(1),
            fault_tolerance: Some(FaultTolerance::new(mode)),
            ..VmOptions::new(Bytes::from_mib(256))
        }),
    };
    let mut cell = Cell {
        id: id(name),
        environment: Environment::new(name, kind),
        baseline: mode.map(|_| id("native")),
        ..base.clone()
    };
    if options.sip {
        cell.service.name = service.to_owned();
        cell.service.kind = ServiceKind::Sip(SipOptions { port: 5060, workers: None, tls: false });
        let part = |(scenario, _, share): &(Scenario, SipMetric, f64)| MixPart {
            scenario: *scenario,
            share: Share(*share),
            ihs_limit: Share(0.1),
        };
        let workload = super::sip::workload(&super::sip::Options::default());
        let mix = MIX.iter().map(part).collect();
        cell.workload = Workload::Sip(Box::new(SipWorkload { mix, ..workload }));
    }
    cell
}
