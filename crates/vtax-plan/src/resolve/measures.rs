//! Measures: what is measured, and whether it can be.

use vtax_units::Nanos;

use super::check::{
    LONGEST, SHORTEST_STEP, Shares, check_load, check_name, duration_in, highest_in, rate_in, share_in,
};
use super::ft;
use crate::decode::Many;
use crate::diagnose::Report;
use crate::family::{Misfit, WorkloadModel, http, network, sip, storage};
use crate::model::{CapacityMeasure, LatencyMeasure, Limits, Load, Measure, MeasureKind, ThroughputMeasure};
use crate::raw::{CapacityRaw, LatencyRaw, MeasureRaw, PlanRaw};
use crate::source::{Span, Spanned};

/// More measures than this are taken for a slip.
const MAX_MEASURES: usize = 100;

/// A measure with where it was written.
struct Placed {
    measure: Measure,
    span: Span,
    /// Appended where the name alone is taken by a measure at another load.
    detail: Option<String>,
}

/// All measures; those that `workload` can't make are refused.
pub(super) fn measures(
    raw: &Many<MeasureRaw>,
    plan: &PlanRaw,
    workload: Option<&dyn WorkloadModel>,
    report: &mut Report,
) -> Vec<Measure> {
    let mut placed: Vec<Placed> = Vec::new();
    let mut capacity_found = false;
    let workloads = plan.workload.as_ref().map(|w| &w.value);
    for item in &raw.items {
        let span = item.span;
        let before = placed.len();
        match &item.value {
            MeasureRaw::Ims(raw) => {
                capacity_found = true;
                placed.push(Placed { measure: sip::resolve::ims(raw, report), span, detail: None });
            }
            MeasureRaw::Network(raw) => {
                placed.push(Placed {
                    measure: network::resolve::measure(raw, workloads, report),
                    span,
                    detail: None,
                });
            }
            MeasureRaw::Storage(raw) => {
                placed.push(Placed { measure: storage::resolve::measure(raw, report), span, detail: None });
            }
            MeasureRaw::Capacity(raw) => {
                capacity_found = true;
                placed.push(Placed { measure: capacity(raw, plan, report), span, detail: None });
            }
            MeasureRaw::Latency(raw) => latency(raw, span, capacity_found, &mut placed, report),
            MeasureRaw::Failover(raw) => {
                let measure = ft::failover(raw, span, plan, capacity_found, report);
                placed.push(Placed { measure, span, detail: None });
            }
            MeasureRaw::Throughput(raw) => {
                let name = raw.name.as_ref().map_or_else(|| "throughput".into(), |n| check_name(n, report));
                duration_in(&raw.warmup, "warmup", Nanos::ZERO, LONGEST, report);
                let kind = ThroughputMeasure {
                    warmup: raw.warmup.value,
                    duration: duration_in(&raw.duration, "duration", SHORTEST_STEP, LONGEST, report),
                };
                let measure = Measure { name, kind: MeasureKind::Throughput(kind) };
                placed.push(Placed { measure, span, detail: None });
            }
        }
        if let (Some(workload), Some(first)) = (workload, placed.get(before))
            && let Err(Misfit { why, instead }) = workload.accepts(&first.measure.kind)
        {
            report.error(span, why).help(instead);
        }
    }
    if let Some(first_beyond) = placed.get(MAX_MEASURES) {
        report.error(first_beyond.span, format!("the plan has more than {MAX_MEASURES} measures"));
        placed.truncate(MAX_MEASURES);
    }
    if let Some(budget) = &plan.repeat.value.budget {
        check_budget(budget, &placed, workload, report);
    }
    named(placed, report)
}

fn capacity(raw: &CapacityRaw, plan: &PlanRaw, report: &mut Report) -> Measure {
    let limits = &raw.limits.value;
    rate_in(&raw.start, report);
    highest_in(&raw.max, report);
    if raw.start.value > raw.max.value {
        let (start, max) = (raw.start.value, raw.max.value);
        report.error(raw.start.span, format!("the search starts at {start}, above its `max` of {max}"));
    }
    share_in(&limits.errors, "errors", Shares::FromNothing, report);
    let workload = plan.workload.as_ref().and_then(|w| w.value.items.first());
    let default = Spanned { value: Limits::P99, span: raw.limits.span };
    let p99 = limits.p99.as_ref().or_else(|| limits.p95.is_none().then_some(&default));
    let mut latency = |limit: Option<&Spanned<Nanos>>, key| {
        let limit = limit?;
        if let Some(workload) = workload {
            http::resolve::check_limit(limit, &workload.value, report);
        }
        Some(duration_in(limit, key, Nanos(1), LONGEST, report))
    };
    let (p95, p99) = (latency(limits.p95.as_ref(), "p95"), latency(p99, "p99"));
    duration_in(&raw.settle, "settle", Nanos::ZERO, LONGEST, report);
    let kind = CapacityMeasure {
        start: raw.start.value,
        max: raw.max.value,
        precision: share_in(&raw.precision, "precision", Shares::Part, report),
        step: duration_in(&raw.step, "step", SHORTEST_STEP, LONGEST, report),
        settle: raw.settle.value,
        arrivals: raw.arrivals.value.0,
        limits: Limits { errors: limits.errors.value, p99, p95 },
    };
    let name = raw.name.as_ref().map_or_else(|| "capacity".into(), |n| check_name(n, report));
    Measure { name, kind: MeasureKind::Capacity(kind) }
}

fn latency(
    raw: &LatencyRaw,
    span: Span,
    capacity_found: bool,
    placed: &mut Vec<Placed>,
    report: &mut Report,
) {
    let loads = &raw.load.value.items;
    let given = raw.name.as_ref().map(|name| {
        if loads.len() > 1 {
            report
                .error(name.span, "one name can't serve several loads")
                .help("leave `name` out, and each load gets its own");
        }
        check_name(name, report)
    });
    duration_in(&raw.warmup, "warmup", Nanos::ZERO, LONGEST, report);
    let duration = duration_in(&raw.duration, "duration", SHORTEST_STEP, LONGEST, report);
    for load in loads {
        check_load(load, capacity_found, report);
        let (name, detail) = match load.value.0 {
            Load::OwnCapacity(share) => ("latency".to_owned(), share.to_string()),
            Load::LowestCapacity(share) => ("latency@lowest".to_owned(), share.to_string()),
            Load::Rate(rate) => ("latency@rate".to_owned(), rate.0.to_string()),
        };
        let kind = LatencyMeasure {
            load: load.value.0,
            arrivals: raw.arrivals.value.0,
            warmup: raw.warmup.value,
            duration,
            samples: raw.samples.value,
        };
        let detail = given.is_none().then_some(detail);
        let measure = Measure { name: given.clone().unwrap_or(name), kind: MeasureKind::Latency(kind) };
        let span = if loads.len() > 1 { load.span } else { span };
        placed.push(Placed { measure, span, detail });
    }
}

/// A budget below one single measurement could never be kept.
fn check_budget(
    budget: &Spanned<Nanos>,
    placed: &[Placed],
    workload: Option<&dyn WorkloadModel>,
    report: &mut Report,
) {
    let shortest = |measure: &Measure| {
        workload.map_or_else(|| measure.kind.timing().least(), |w| w.least_time(&measure.kind))
    };
    let longest = placed.iter().max_by_key(|p| shortest(&p.measure));
    if let Some(longest) = longest.filter(|p| shortest(&p.measure) >= budget.value) {
        let (name, takes) = (&longest.measure.name, shortest(&longest.measure));
        report.error(
            budget.span,
            format!(
                "a budget of {} is over before one trial of `{name}` ends: it takes at least {takes}",
                budget.value
            ),
        );
    }
}

/// Makes names unique: measures at different loads get the load appended; what is still equal is an error.
fn named(mut placed: Vec<Placed>, report: &mut Report) -> Vec<Measure> {
    let names: Vec<String> = placed.iter().map(|p| p.measure.name.clone()).collect();
    for p in &mut placed {
        let shared = names.iter().filter(|n| **n == p.measure.name).count() > 1;
        let by_rate = p.measure.name == "latency@rate";
        match &p.detail {
            Some(detail) if by_rate => p.measure.name = format!("latency@{detail}"),
            Some(detail) if shared => p.measure.name = format!("{}@{detail}", p.measure.name),
            _ => {}
        }
    }
    for (i, p) in placed.iter().enumerate() {
        if let Some(other) = placed[..i].iter().find(|other| other.measure.name == p.measure.name) {
            report
                .error(p.span, format!("measure `{}` is in the plan twice", p.measure.name))
                .help("give this one a `name` of its own")
                .first_at(other.span);
        }
    }
    placed.into_iter().map(|p| p.measure).collect()
}
