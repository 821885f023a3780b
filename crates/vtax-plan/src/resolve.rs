//! Raw plan to resolved plan: what the keys mean together, and what can't be.

mod captured;
pub(crate) mod check;
mod families;
mod ft;
mod generators;
mod matrix;
mod measures;
mod path;
mod primary;
mod routed;
mod sut;
mod systems;
mod translated;
pub(crate) mod variants;

use vtax_units::{Bytes, Nanos};

use self::check::{LONGEST, Shares, check_name, count_in, duration_in, memory_in, share_in};
pub(crate) use self::sut::LEAST_VM_MEMORY;
use self::variants::{Named, Variants};
use crate::decode::Trials;
use crate::diagnose::Report;
use crate::family::{ftp, network, storage};
use crate::model::{Budget, Cell, Measure, PLAN_VERSION, Plan, Protocol, Repeat, Service, TrialKind};
use crate::raw::{BudgetRaw, PlanRaw, RepeatRaw};
use crate::source::{Span, Spanned};

/// More trials than this of one cell and measure are taken for a slip.
const MOST_TRIALS: u32 = 10_000;

/// Draws the conclusions; `None` where some part is missing, which has been reported.
pub(crate) fn resolve(raw: &PlanRaw, report: &mut Report) -> Option<Plan> {
    check_version(raw, report);
    let name = raw.name.as_ref().map(|name| check_name(name, report));
    let margin = share_in(&raw.margin, "margin", Shares::Part, report);
    let budget = budget(&raw.budget.value, report);
    let repeat = repeat(&raw.repeat.value, report);
    let parts = systems::Parts::of(raw);
    let mut environments =
        raw.environments.as_ref().map(|e| sut::environments(&e.value, &raw.budget, parts, report));
    let (paths, mut sets) = (path::paths(&raw.paths.value, report), systems::sets(raw, report));
    ft::level(environments.as_deref_mut().unwrap_or_default(), &mut sets);
    let services = services(raw, report);
    let mut workloads = raw.workload.as_ref().and_then(|w| families::workloads(w, report));
    if let (Some(workload), Some(services)) = (&raw.workload, &services) {
        families::check_served(workload, services, report);
        families::leave_out(workload, workloads.as_mut(), services, report);
    }
    let workload = workloads.as_ref().and_then(|w| w.0.first()).map(|variant| variant.value.model());
    let measures = raw.measure.as_ref().map(|m| measures::measures(&m.value, raw, workload, report));
    let parts = matrix::Parts {
        environments: environments?,
        paths,
        services: services?,
        systems: sets,
        workloads: workloads?,
        baseline: raw.baseline.as_ref()?,
        complete: raw.environments.as_ref()?.value.complete && raw.paths.value.complete,
    };
    let cells =
        matrix::cells(&parts, raw.services.as_ref().map_or(raw.baseline.as_ref()?.span, |s| s.span), report);
    let measures = measures?;
    ft::check(raw, &cells, &measures, report);
    systems::check_cells(&cells, raw, &budget, report);
    check_paths(&cells, &measures, raw.paths.span, report);
    crate::tls::check_certificates(&cells, raw.workload.as_ref().map_or(raw.paths.span, |w| w.span), report);
    if let Some(workload) = &raw.workload {
        storage::resolve::check_cells(&cells, &measures, workload.span, report);
        ftp::resolve::check_cells(&cells, workload.span, report);
    }
    let plan = Plan {
        version: PLAN_VERSION,
        name: name?,
        description: raw.description.as_ref().map_or(String::new(), |d| d.value.trim().to_owned()),
        seed: raw.seed.value,
        cells,
        measures,
        repeat,
        budget,
        margin,
        study: raw.study.as_ref().map(|study| study.value.0),
        primary: None,
    };
    let primary = raw.primary.as_ref().map(|primary| primary::primary(primary, &plan, report));
    let plan = Plan { primary, ..plan };
    check_duet(&plan, raw.repeat.value.trials.span, report);
    Some(plan)
}

fn check_version(raw: &PlanRaw, report: &mut Report) {
    let Some(version) = raw.vtax.as_ref().filter(|v| v.value != PLAN_VERSION) else { return };
    report
        .error(
            version.span,
            format!("this vtax reads plans of version {PLAN_VERSION}, not {}", version.value),
        )
        .help(if version.value > PLAN_VERSION { "a newer vtax is needed" } else { "write `vtax: 1`" });
}

/// Refuses what can't be measured over a path of the plan's.
fn check_paths(cells: &[Cell], measures: &[Measure], span: Span, report: &mut Report) {
    generators::check(cells, measures, span, report);
    translated::check(cells, span, report);
    captured::check(cells, measures, span, report);
}

/// Refuses duets of what can't be measured twice at the same time.
fn check_duet(plan: &Plan, span: Span, report: &mut Report) {
    if plan.repeat.trials == TrialKind::Single {
        return;
    }
    let alone = plan.cells.iter().find(|c| !c.path.kind.may_stand_twice());
    if let Some(cell) = alone {
        let (name, word) = (&cell.path.name, cell.path.kind.word());
        report
            .error(span, format!("path `{name}` can't be part of a duet"))
            .help(format!("there is one of what a `{word}` path is made of: leave `trials` or the path out"));
    }
    if !plan.measures.iter().any(|m| plan.is_duet(m)) {
        report.error(span, "no measure of this plan can be made as a duet").help(
            "the steps of a capacity search depend on what it finds, and failovers and tests have courses of their own, so \
                 two can't go along together: measure `latency` or `throughput`, or leave `trials` out",
        );
    }
    if plan.cells.iter().any(|c| c.environment.kind.is_pair()) {
        report
            .error(span, "protected virtual machines are measured one at a time")
            .help("two pairs at once would need four hosts: leave `trials` out");
    }
}

/// The services named; the network server or the disk where the workload needs no more said.
fn services(raw: &PlanRaw, report: &mut Report) -> Option<Vec<Named<Service>>> {
    if let Some(services) = &raw.services {
        return Some(families::services(&services.value, report));
    }
    let workload = raw.workload.as_ref()?;
    let all = |protocol| workload.value.items.iter().all(|w| w.value.protocol() == protocol);
    let default = if all(Protocol::Network) {
        Some(network::resolve::default_peer())
    } else {
        all(Protocol::Storage).then(storage::resolve::default_disk)
    };
    if let Some(service) = default {
        let name = service.name.clone();
        return Some(vec![Named { name, span: workload.span, variants: Variants::of(service) }]);
    }
    // No other mapping has this key.
    if !report.guessed.contains("services") {
        report.error(workload.span.at_start(), "the plan needs the key `services`");
    }
    None
}

fn repeat(raw: &RepeatRaw, report: &mut Report) -> Repeat {
    let none = "at least one trial is needed";
    let count = |given: &Spanned<Trials>| Spanned { value: given.value.0, span: given.span };
    let min = count_in(&count(&raw.min), none, MOST_TRIALS, report);
    let given = raw.max.as_ref().map(count);
    let max = given.as_ref().map_or(min.max(10), |max| count_in(max, none, MOST_TRIALS, report));
    if let Some(max) = given.filter(|max| max.value < min) {
        report.error(max.span, format!("`max` ({}) is below `min` ({min})", max.value));
    }
    let until = share_in(&raw.until, "until", Shares::Part, report);
    if let Some(budget) = &raw.budget {
        duration_in(budget, "budget", Nanos(1), Nanos(LONGEST.0 * 31), report);
    }
    Repeat {
        min,
        max,
        until,
        budget: raw.budget.as_ref().map(|b| b.value),
        order: raw.order.value.0,
        trials: raw.trials.value.0,
    }
}

fn budget(raw: &BudgetRaw, report: &mut Report) -> Budget {
    let cpus = |value: &Option<Spanned<u32>>, report: &mut Report| {
        value.as_ref().map(|cpus| count_in(cpus, "at least one CPU is needed", 8192, report))
    };
    memory_in(&raw.sut_memory.value, raw.sut_memory.span, Bytes::from_mib(16), report);
    Budget {
        sut_cpus: cpus(&raw.sut_cpus, report),
        sut_memory: raw.sut_memory.value,
        client_cpus: cpus(&raw.client_cpus, report),
    }
}
