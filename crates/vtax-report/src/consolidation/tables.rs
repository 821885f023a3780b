//! The chapter's tables: each system of each trial, and the figures over the number of systems.

use super::curve::{self, Curve};
use crate::context::Context;
use crate::table::{Cell, Table, count, number, number_or_none, text, text_or_none, yes_no};

/// None where no cell has several systems.
pub(super) fn tables(context: &Context) -> Vec<Table> {
    let curves = curve::curves(&context.data);
    if curves.is_empty() {
        return Vec::new();
    }
    vec![over_counts(context, &curves), each(context)]
}

/// Each system of each trial.
fn each(context: &Context) -> Table {
    let mut systems = Table::new(
        "systems",
        "Systems",
        "trial,cell,measure,system,role,name,asked_per_s,answered_per_s,failed,latency_p50_ns,latency_p99_ns,\
         latency_mean_ns,cpu_ns_per_answer,memory_bytes,steal_share,boot_ns,lease_ns,at_least",
    );
    for found in &context.data.systems {
        systems.push([
            count(found.trial),
            text(&found.cell),
            text(&found.measure),
            text(&found.member),
            text(found.role.word()),
            text_or_none(found.name.as_deref()),
            number(found.asked),
            number(found.rate),
            count(found.failed),
            number_or_none(found.p50.map(|p50| p50.value)),
            number_or_none(found.p99.map(|p99| p99.value)),
            number(found.mean),
            number_or_none(found.cpu),
            number_or_none(found.memory),
            number_or_none(found.steal),
            number_or_none(found.boot),
            number_or_none(found.lease),
            yes_no([found.p50, found.p99].iter().flatten().any(|value| value.censored)),
        ]);
    }
    systems
}

/// Metrics of all systems together that have columns.
const METRICS: [&str; 6] =
    ["latency_p50", "latency_p99", "error_share", "fairness", "rate_slowest", "boot_slowest"];

/// Figures over the number of systems.
fn over_counts(context: &Context, curves: &[Curve<'_>]) -> Table {
    let mut consolidation = Table::new(
        "consolidation",
        "Consolidation",
        "curve,measure,systems,cell,answered_per_s,latency_p50_ns,latency_p99_ns,error_share,fairness,\
         slowest_per_s,boot_slowest_ns,memory_promised_bytes,memory_budget_bytes,knee_within,knee_beyond,at_least",
    );
    for curve in curves {
        for measure in &context.data.plan.measures {
            let knee = curve::knee(&context.data, curve, &measure.name);
            let (within, beyond) = knee.map_or((None, None), |knee| (Some(knee.within), knee.beyond));
            for cell in &curve.cells {
                let promised = cell.promised(&context.data.plan.budget);
                let rate = curve::rate(context, cell, &measure.name);
                let figures = METRICS.map(|metric| curve::center(context, cell, &measure.name, metric));
                let is_least = |metric: &&str| curve::is_least(context, cell, &measure.name, metric);
                let bound = curve::is_bound(context, cell, &measure.name) || METRICS.iter().any(is_least);
                let known = rate.iter().chain(figures.iter().flatten()).next().is_some();
                let mut row = vec![
                    text(&curve.label),
                    text(&measure.name),
                    count(cell.environment.count),
                    text(&cell.id),
                    number_or_none(rate),
                ];
                row.extend(figures.map(number_or_none));
                row.extend([
                    count(promised.memory.0),
                    count(promised.memory_budget.0),
                    number_or_none(within.map(f64::from)),
                    number_or_none(beyond.map(f64::from)),
                    if known { yes_no(bound) } else { Cell::Missing },
                ]);
                consolidation.push(row);
            }
        }
    }
    consolidation
}
