//! Fault tolerance: protected virtual machines, and faults that can happen.

use vtax_topology::Name;
use vtax_topology::event::ALL;
use vtax_topology::name::NameError;
use vtax_units::{BitRate, Bytes, Nanos};

use super::check::{LONGEST, SHORTEST_STEP, check_load, check_name, count_in, duration_in, memory_in};
use super::variants::{Named, Variants};
use crate::decode::{Item, Many};
use crate::diagnose::Report;
use crate::model::{
    Cell, Environment, EnvironmentKind, FailoverMeasure, Fault, FaultKind, FaultTolerance, FtMode, HostCards,
    LossyLink, Measure, MeasureKind, StopDaemon, Systems, TopologyFault,
};
use crate::raw::{EnvironmentRaw, FailoverRaw, FaultRaw, FaultToleranceRaw, PlanRaw, Technique};
use crate::source::{Span, Spanned};

/// Between checkpoints, where the plan doesn't say.
const REMUS_INTERVAL: Nanos = Nanos::from_millis(40);
/// Between snapshots, where the plan doesn't say.
const SNAPSHOT_INTERVAL: Nanos = Nanos::from_secs(5);
/// Silence that is no more than one late beat says nothing.
const LEAST_BEATS: u64 = 2;
/// More faults than this in one trial are taken for a slip.
const MOST_FAULTS: usize = 1_000;

/// The variants of a protected virtual machine.
pub(super) fn protected(
    raw: &Spanned<FaultToleranceRaw>,
    variants: Variants<Environment>,
    report: &mut Report,
) -> Variants<Environment> {
    let options = &raw.value;
    let Some(technique) = options.mode.as_ref().map(|mode| mode.value.0) else { return variants };
    let usual = options_of(options, technique, report);
    let set = |environment: &mut Environment, change: &dyn Fn(&mut FaultTolerance)| {
        if let EnvironmentKind::Vm(vm) = &mut environment.kind {
            change(vm.fault_tolerance.get_or_insert_with(|| usual.clone()));
        }
    };
    let with = |variants: Variants<Environment>| {
        variants.map(|mut environment| {
            set(&mut environment, &|_| {});
            environment
        })
    };
    with(variants)
        .vary_if("interval", options.interval.as_ref(), report, |e, interval| {
            set(e, &|ft| ft.mode = mode(technique, Some(interval)));
        })
        .vary_if("link", options.link.as_ref(), report, |e, link| set(e, &|ft| ft.link = Some(link)))
        .vary("cards", &options.cards.value, report, |e, cards| set(e, &|ft| ft.cards = cards.0))
}

/// What a protected virtual machine is called where the plan gives it no name: `vm-kemari`.
pub(super) fn usual_name(technique: Technique) -> String {
    match mode(technique, None) {
        FtMode::None => "vm".to_owned(),
        mode => format!("vm-{}", mode.word()),
    }
}

fn mode(technique: Technique, interval: Option<Nanos>) -> FtMode {
    match technique {
        Technique::None => FtMode::None,
        Technique::Kemari => FtMode::Kemari,
        Technique::Remus => FtMode::Remus { interval: interval.unwrap_or(REMUS_INTERVAL) },
        Technique::Colo => FtMode::Colo,
        Technique::Restart => FtMode::Restart,
        Technique::Snapshot => FtMode::Snapshot { interval: interval.unwrap_or(SNAPSHOT_INTERVAL) },
    }
}

/// The options but for those that may be lists, checked with them.
fn options_of(raw: &FaultToleranceRaw, technique: Technique, report: &mut Report) -> FaultTolerance {
    let mode = mode(technique, None);
    if let Some(interval) = &raw.interval {
        if mode.interval().is_none() {
            report
                .error(interval.span, format!("`interval` means nothing to `{}`", mode.word()))
                .help("`remus` and `snapshot` have one; `kemari` makes a checkpoint at each output");
        }
        let least = if technique == Technique::Snapshot { 500 } else { 5 };
        for item in &interval.value.items {
            let given = Spanned { value: item.value, span: item.span };
            duration_in(&given, "interval", Nanos::from_millis(least), Nanos::from_secs(3600), report);
        }
    }
    for item in raw.link.iter().flat_map(|link| &link.value.items).filter(|l| l.value < BitRate(1_000_000)) {
        report.error(item.span, "over a link below 1mbit no checkpoint gets through in reasonable time");
    }
    let shared = raw.cards.value.items.iter().find(|item| item.value.0 == HostCards::Shared);
    if let Some(shared) = shared.filter(|_| raw.link.is_none()) {
        report
            .error(shared.span, "`cards: shared` says nothing where the card has no rate")
            .help("name it as `link`, such as `link: 1gbit`");
    }
    if let Some(disk) = &raw.disk {
        memory_in(&disk.value, disk.span, Bytes::from_mib(1), report);
        if !matches!(mode, FtMode::Kemari | FtMode::Remus { .. } | FtMode::None) {
            report
                .error(disk.span, format!("`{}` replicates no disk", mode.word()))
                .help("`kemari` and `remus` do");
        }
    }
    if let Some(memory) = &raw.secondary_memory {
        memory_in(&memory.value, memory.span, Bytes::from_mib(64), report);
    }
    if !(2..=3).contains(&raw.hosts.value) {
        report.error(raw.hosts.span, format!("{} hosts: there are two, or three", raw.hosts.value));
    }
    duration_in(&raw.heartbeat, "heartbeat", Nanos::from_millis(1), Nanos::from_secs(10), report);
    duration_in(&raw.patience, "patience", Nanos::from_millis(2), Nanos::from_secs(60), report);
    if raw.patience.value.0 < raw.heartbeat.value.0.saturating_mul(LEAST_BEATS) {
        let (patience, beat) = (raw.patience.value, raw.heartbeat.value);
        report
            .error(raw.patience.span, format!("a patience of {patience} is over before two beats of {beat}"))
            .help("hosts that live would be killed; four beats do well");
    }
    FaultTolerance {
        hosts: raw.hosts.value,
        disk: raw.disk.as_ref().map(|d| d.value),
        secondary_memory: raw.secondary_memory.as_ref().map(|m| m.value),
        heartbeat: raw.heartbeat.value,
        patience: raw.patience.value,
        ..FaultTolerance::new(mode)
    }
}

/// Where any virtual machine is protected, the others get the same QEMU, devices and root, and so do those beside them.
pub(super) fn level(environments: &mut [Named<Environment>], sets: &mut [Named<Systems>]) {
    let all = || environments.iter().flat_map(|e| &e.variants.0).map(|variant| &variant.value.kind);
    if !all().any(EnvironmentKind::is_pair) {
        return;
    }
    // A disk costs memory and time even where it is not replicated.
    let disk = all().find_map(|kind| match kind {
        EnvironmentKind::Vm(vm) => vm.fault_tolerance.as_ref()?.disk,
        EnvironmentKind::Native | EnvironmentKind::Container | EnvironmentKind::Uml => None,
    });
    let plain = FaultTolerance { disk, ..FaultTolerance::new(FtMode::None) };
    let own = environments.iter_mut().flat_map(|e| &mut e.variants.0).map(|variant| &mut variant.value);
    let sets = sets.iter_mut().flat_map(|set| &mut set.variants.0);
    let beside = sets.flat_map(|set| &mut set.value.beside).filter_map(|beside| beside.environment.as_mut());
    for environment in own.chain(beside) {
        if let EnvironmentKind::Vm(vm) = &mut environment.kind {
            let own = vm.fault_tolerance.get_or_insert_with(|| plain.clone());
            if own.mode == FtMode::None {
                own.disk = own.disk.or(plain.disk);
            }
        }
    }
}

/// A `failover` measure with its faults, the plan's or its own.
pub(super) fn failover(
    raw: &FailoverRaw,
    span: Span,
    plan: &PlanRaw,
    capacity_found: bool,
    report: &mut Report,
) -> Measure {
    let name = raw.name.as_ref().map_or_else(|| "failover".into(), |n| check_name(n, report));
    let load = Item { value: raw.load.value, span: raw.load.span, text: String::new() };
    check_load(&load, capacity_found, report);
    duration_in(&raw.warmup, "warmup", Nanos::ZERO, LONGEST, report);
    let duration = duration_in(&raw.duration, "duration", SHORTEST_STEP, LONGEST, report);
    let written = raw.faults.as_ref().or(plan.faults.as_ref());
    if written.is_none() {
        report
            .error(span, format!("`{name}` has no faults, so nothing fails over"))
            .help("say what breaks in the plan's `faults`, such as `- {at: 10s, kill: primary-host}`");
    }
    let mut faults =
        written.map_or_else(Vec::new, |faults| happenings(&faults.value, &name, duration, report));
    faults.sort_by_key(|fault| fault.at);
    check_disks(&faults, written.map_or(span, |written| written.span), report);
    let kind = FailoverMeasure {
        load: raw.load.value.0,
        arrivals: raw.arrivals.value.0,
        warmup: raw.warmup.value,
        duration,
        delayed: duration_in(&raw.delayed, "delayed", Nanos(1), LONGEST, report),
        faults,
    };
    Measure { name, kind: MeasureKind::Failover(kind) }
}

/// Refuses disks that fail and are replaced in an order that can't be: a RAID-5 goes on without one of its disks, not without two.
fn check_disks(faults: &[Fault], span: Span, report: &mut Report) {
    let mut failed = false;
    for fault in faults {
        let why = match (fault.kind, failed) {
            (FaultKind::Fail(_), true) => {
                "a disk of the RAID has failed already, and it doesn't go on without two"
            }
            (FaultKind::Replace(_), false) => "no disk of the RAID has failed that could be replaced",
            (FaultKind::Fail(_), false) | (FaultKind::Replace(_), true) => {
                failed = !failed;
                continue;
            }
            _ => continue,
        };
        let text = format!("`{}` at {} can't be: {why}", fault.kind.words(), fault.at);
        report.error(span, text).help("let `fail: disk` and `replace: disk` follow each other");
        return;
    }
}

/// What happens when, repetitions written out.
fn happenings(raw: &Many<FaultRaw>, measure: &str, duration: Nanos, report: &mut Report) -> Vec<Fault> {
    let mut all = Vec::new();
    for item in &raw.items {
        let (Some(at), Some(kind)) = (&item.value.at, kind_of(item, report)) else { continue };
        if at.value >= duration {
            report
                .error(
                    at.span,
                    format!("this fault comes at {}, when the load of `{measure}` is over", at.value),
                )
                .help(format!("the load lasts {duration}; raise its `duration` or let it fail sooner"));
            continue;
        }
        let (step, times) = repetition(&item.value, at.value, duration, report);
        for i in 0..times {
            let when = Nanos(at.value.0.saturating_add(step.0.saturating_mul(i)));
            if when >= duration {
                let span = item.value.times.as_ref().map_or(item.span, |t| t.span);
                report
                    .error(
                        span,
                        format!(
                            "number {} of this fault comes at {when}, when the load of `{measure}` is over",
                            i + 1
                        ),
                    )
                    .help(format!("the load lasts {duration}"));
                break;
            }
            if all.len() == MOST_FAULTS {
                report.error(item.span, format!("more than {MOST_FAULTS} faults in one trial"));
                return all;
            }
            all.push(Fault { at: when, kind });
        }
    }
    all
}

/// Time between repetitions and their number.
fn repetition(raw: &FaultRaw, at: Nanos, duration: Nanos, report: &mut Report) -> (Nanos, u64) {
    match (&raw.every, &raw.times) {
        (None, None) => (Nanos::ZERO, 1),
        (None, Some(times)) if times.value == 1 => (Nanos::ZERO, 1),
        (None, Some(times)) => {
            report
                .error(times.span, "`times` without `every` doesn't say when")
                .help("add the time between two, such as `every: 5s`");
            (Nanos::ZERO, 1)
        }
        (Some(every), times) => {
            let every = duration_in(every, "every", Nanos::from_millis(100), LONGEST, report);
            let fitting = duration.0.saturating_sub(at.0).div_ceil(every.0.max(1));
            let wanted = times.as_ref().map(|times| {
                let most = u32::try_from(MOST_FAULTS).unwrap_or(u32::MAX);
                u64::from(count_in(times, "a fault happens at least once", most, report))
            });
            (every, wanted.unwrap_or(fitting))
        }
    }
}

/// What a fault does to a topology; `None` where a name can't be one.
fn topology_faults(raw: &FaultRaw, report: &mut Report) -> Option<Vec<(TopologyFault, Span)>> {
    let mut found = Vec::new();
    if let Some(link) = &raw.cut_link {
        found.push((TopologyFault::CutLink(name(link, report)?), link.span));
    }
    if let Some(lossy) = &raw.lossy_link {
        let link = name(lossy.value.link.as_ref()?, report)?;
        let from = match &lossy.value.from {
            None => None,
            Some(from) => Some(name(from, report)?),
        };
        let share = &lossy.value.share;
        if !(share.value.0 > 0.0 && share.value.0 <= 1.0) {
            report.error(share.span, "`share` must be above 0% and at most 100%");
        }
        let of_a_million = (share.value.0.clamp(0.0, 1.0) * f64::from(ALL)).round() as u32;
        found.push((TopologyFault::LossyLink(LossyLink { link, from, of_a_million }), lossy.span));
    }
    if let Some(router) = &raw.kill_router {
        found.push((TopologyFault::KillRouter(name(router, report)?), router.span));
    }
    if let Some(stop) = &raw.stop_daemon {
        let router = name(stop.value.router.as_ref()?, report)?;
        let daemon = stop.value.daemon.as_ref()?.value.0;
        found.push((TopologyFault::StopDaemon(StopDaemon { router, daemon }), stop.span));
    }
    if let Some(link) = &raw.restore_link {
        found.push((TopologyFault::RestoreLink(name(link, report)?), link.span));
    }
    if let Some(router) = &raw.restore_router {
        found.push((TopologyFault::RestoreRouter(name(router, report)?), router.span));
    }
    Some(found)
}

fn name(text: &Spanned<String>, report: &mut Report) -> Option<Name> {
    match text.value.parse() {
        Ok(name) => Some(name),
        Err(error) => {
            let error: NameError = error;
            report.error(text.span, error.to_string());
            None
        }
    }
}

/// The one thing that a fault does.
fn kind_of(item: &Item<FaultRaw>, report: &mut Report) -> Option<FaultKind> {
    let raw = &item.value;
    let given = [
        raw.kill.as_ref().map(|t| (FaultKind::Kill(t.value.0), t.span)),
        raw.hang.as_ref().map(|t| (FaultKind::Hang(t.value.0), t.span)),
        raw.cut.as_ref().map(|t| (FaultKind::Cut(t.value.0), t.span)),
        raw.restore.as_ref().map(|t| (FaultKind::Restore(t.value.0), t.span)),
        raw.failover.as_ref().map(|t| (FaultKind::Failover(t.value.0), t.span)),
        raw.fail.as_ref().map(|t| (FaultKind::Fail(t.value.0), t.span)),
        raw.replace.as_ref().map(|t| (FaultKind::Replace(t.value.0), t.span)),
    ];
    let of_topology =
        topology_faults(raw, report)?.into_iter().map(|(f, span)| (FaultKind::Topology(f), span));
    let mut given = given.into_iter().flatten().chain(of_topology);
    let Some((kind, _)) = given.next() else {
        report
            .error(item.span, "this fault does nothing")
            .help("give it one of `kill`, `hang`, `cut`, `restore`, `failover`; of a RAID `fail`, `replace`; of a `routed` path `cut_link`, `lossy_link`, `kill_router`, `stop_daemon`, `restore_link`, `restore_router`");
        return None;
    };
    if let Some((second, span)) = given.next() {
        report
            .error(span, format!("this fault does two things: `{}` and `{}`", kind.words(), second.words()))
            .help("write two faults; they may have the same time");
    }
    Some(kind)
}

/// Refuses disks of protected virtual machines, and of those that are built like them: they have but the one that is replicated.
fn check_own_disks(plan: &PlanRaw, cells: &[Cell], report: &mut Report) {
    let given = |environment: &&Environment| match &environment.kind {
        EnvironmentKind::Vm(vm) => vm.fault_tolerance.is_some() && vm.disk.is_some(),
        EnvironmentKind::Native | EnvironmentKind::Container | EnvironmentKind::Uml => false,
    };
    if let Some(environment) = cells.iter().flat_map(Cell::environments).find(given) {
        let written = plan.environments.iter().flat_map(|environments| &environments.value.items);
        let mut disks = written.filter_map(|item| match &item.value {
            EnvironmentRaw::Vm(vm) => vm.disk.as_ref().map(|disk| disk.span),
            _ => None,
        });
        let span = disks.next().or(plan.systems.as_ref().map(|systems| systems.span)).unwrap_or_default();
        report
            .error(span, format!("{} that tests of storage could use", without_disk(environment)))
            .help("leave `disk` out, or measure this virtual machine in a plan without `fault_tolerance`");
    }
    let served = |cell: &Cell| {
        let mut systems = cell.environments().zip(cell.services());
        let found =
            systems.find(|(environment, service)| environment.kind.is_pair() && service.kind.serves_disk());
        found.map(|(environment, service)| (without_disk(environment), service.name.clone()))
    };
    if let Some((why, service)) = cells.iter().find_map(served) {
        let own = cells.iter().any(|cell| cell.service.kind.serves_disk());
        let services = plan.services.as_ref().filter(|_| own).map(|services| services.span);
        let span = services.or(plan.systems.as_ref().map(|systems| systems.span)).unwrap_or_default();
        report.error(span, format!("{why} that `{service}` could serve from")).help("write `backend: files`");
    }
}

/// Why a virtual machine of a plan with protected ones has no disk for what it serves.
fn without_disk(environment: &Environment) -> String {
    format!(
        "`{}` is protected, or compared with protected ones, and has no disk of its own",
        environment.name
    )
}

/// Refuses faults that fit no environment of the plan, faults without a measure that they happen in, and disks that protected virtual
/// machines don't have.
pub(super) fn check(plan: &PlanRaw, cells: &[Cell], measures: &[Measure], report: &mut Report) {
    check_own_disks(plan, cells, report);
    let failovers = measures.iter().any(|m| m.kind.is_failover());
    if let (Some(faults), false) = (&plan.faults, failovers) {
        report
            .error(faults.span, "nothing is measured while these faults happen")
            .help("add `- failover` to `measure`: it holds a load meanwhile");
    }
    let own = plan.measure.iter().flat_map(|m| &m.value.items).filter_map(|m| match &m.value {
        crate::raw::MeasureRaw::Failover(raw) => raw.faults.as_ref(),
        _ => None,
    });
    for item in plan.faults.iter().chain(own).flat_map(|faults| &faults.value.items) {
        let Some(kind) = kind_of(item, &mut Report::new(Vec::new())) else { continue };
        let misfit = |cell: &Cell| kind.misfit_of(cell);
        // Of paths with routers the reason says more than of those without any.
        let routed = cells.iter().find(|cell| cell.path.kind.routed().is_some());
        let told =
            if matches!(kind, FaultKind::Topology(_)) { routed.or(cells.first()) } else { cells.first() };
        if let Some(why) = told.and_then(misfit)
            && cells.iter().all(|cell| misfit(cell).is_some())
        {
            let help = match kind {
                FaultKind::Topology(_) => {
                    "`vtax lab graph PLAN` draws the topology with its links' and routers' names"
                }
                FaultKind::Fail(_) | FaultKind::Replace(_) => "give a `vm` a RAID: `disk: {raid5: {}}`",
                _ => {
                    "give a `vm` a `fault_tolerance`, such as `{mode: kemari}`; `kill: sut` fits any but `uml`"
                }
            };
            let text = format!("`{}` can't happen in any environment of this plan: {why}", kind.words());
            report.error(item.span, text).help(help);
        }
    }
}
