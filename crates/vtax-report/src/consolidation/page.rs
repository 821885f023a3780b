//! The chapter's sections of the page.

use vtax_plan::model::{Cell, StartOrder};
use vtax_store::record::{TrialRecord, Validity};
use vtax_store::summary::Comparison;
use vtax_units::fact;

use super::curve::{self, Curve};
use super::pressure::{Pressure, median};
use super::trial::{Role, SystemFound};
use crate::context::Context;
use crate::data::RunData;
use crate::explain::explain;
use crate::families::named;
use crate::format::{duration, fixed, quantity, typical};
use crate::html::parts::{FIGURES, badge, scrolling};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::metric::Value;

/// Figures over the number of systems, with the knee and what it was made of.
pub(super) fn curves(context: &Context) -> Markup {
    let mut m = Markup::new();
    for curve in curve::curves(&context.data) {
        for measure in &context.data.plan.measures {
            m.add(&curve_of(context, &curve, &measure.name));
        }
    }
    if !m.is_empty() {
        let promised = "Rates and counts are of all systems together; what one of them got is in the table of each system. \
                        Memory promised stands beside the budget; what a system used is in its own table.";
        m.element("p", &[("class", "small-print")], promised);
    }
    m
}

fn curve_of(context: &Context, curve: &Curve<'_>, measure: &str) -> Markup {
    let mut m = Markup::new();
    let columns = [
        ("Systems", true),
        ("Answered, all", true),
        ("Each", true),
        ("Median", true),
        ("p99", true),
        ("Failed", true),
        ("Fairness", true),
        ("Slowest", true),
        ("CPU per answer", true),
        ("CPUs busy", true),
        ("All up after", true),
        ("Memory promised", true),
    ];
    let mut table = PlainTable::new(FIGURES, &columns);
    let mut measured = 0;
    for cell in &curve.cells {
        let Some(rate) = curve::rate(context, cell, measure) else { continue };
        measured += 1;
        let of = |metric: &str, unit: &str| {
            let is_bound = context.exact_center(cell, measure, metric).is_none();
            let value = curve::center(context, cell, measure, metric);
            value.map(|value| typical(value, unit, is_bound)).unwrap_or_default()
        };
        let is_bound = curve::is_bound(context, cell, measure);
        let busy = pressure(context, cell, measure).cpus_busy;
        let boot = curve::center(context, cell, measure, "boot_slowest");
        let promised = cell.promised(&context.data.plan.budget);
        let fairness = curve::center(context, cell, measure, "fairness");
        let row = [
            typical(rate, "req/s", is_bound),
            typical(rate / f64::from(cell.environment.count.max(1)), "req/s", is_bound),
            of("latency_p50", "ns"),
            of("latency_p99", "ns"),
            of("error_share", "1"),
            fairness.map(fixed).unwrap_or_default(),
            of("rate_slowest", "req/s"),
            of("cpu_per_request", "ns/req"),
            busy.map(|busy| quantity(busy, "1")).unwrap_or_default(),
            boot.map(duration).unwrap_or_default(),
            format!("{} of {}", promised.memory, promised.memory_budget),
        ];
        table.push(&cell.environment.count.to_string(), row);
    }
    if measured == 0 {
        return m;
    }
    m.element("h3", &[], &format!("{}: {measure}", curve.label));
    m.add(&scrolling(&table.finish()));
    if let Some(words) = knee(context, curve, measure) {
        m.element("p", &[("class", "verdict-words")], &words);
    }
    if let Some(words) = boots(&context.data, curve) {
        m.element("p", &[("class", "verdict-words")], &words);
    }
    m
}

/// Valid trials of a cell and measure.
fn trials<'a>(
    data: &'a RunData,
    cell: &'a Cell,
    measure: &'a str,
) -> impl Iterator<Item = &'a TrialRecord> + Clone {
    let own = move |t: &&TrialRecord| t.cell == cell.id && t.measure == measure;
    data.trials.iter().filter(own).filter(|t| t.validity == Validity::Valid)
}

fn pressure(context: &Context, cell: &Cell, measure: &str) -> Pressure {
    Pressure::of(trials(&context.data, cell, measure))
}

/// Where the cost of another system begins, and what there was too little of there.
fn knee(context: &Context, curve: &Curve<'_>, measure: &str) -> Option<String> {
    let knee = curve::knee(&context.data, curve, measure)?;
    let words = format!("{}: {}", curve.label, knee.words(&context.data, measure));
    let Some(beyond) = knee.beyond else { return Some(format!("{words}.")) };
    let cell = curve.cells.iter().find(|cell| cell.environment.count == beyond)?;
    let short = pressure(context, cell, measure).words();
    Some(format!("{words}. By the counters, what there was too little of with {beyond}: {short}."))
}

/// CPU time that a trial's virtual machines had used when all were up; `None` where there were none.
fn boot_cpu(trial: &TrialRecord) -> Option<f64> {
    let all = trial.facts.iter().filter(|(name, _)| fact::node_of(name, fact::BOOT_CPU).is_some());
    let sum: f64 = all.filter_map(|(_, ns)| ns.parse::<f64>().ok()).sum();
    (sum > 0.0).then_some(sum)
}

/// How long all took to be up, and what of the CPUs, against one.
fn boots(data: &RunData, curve: &Curve<'_>) -> Option<String> {
    let middle = |cell: &Cell, of: fn(&TrialRecord) -> Option<f64>| {
        let valid = data.trials.iter().filter(|t| t.cell == cell.id && t.validity == Validity::Valid);
        median(valid.filter_map(of).collect())
    };
    let of = |cell: &Cell| middle(cell, |trial| Some(trial.timings.testbed.0 as f64));
    let (fewest, most) = (curve.cells.first()?, curve.cells.last()?);
    let (few, many) = (of(fewest)?, of(most)?);
    let counts = (fewest.environment.count, most.environment.count);
    if counts.0 == counts.1 || few <= 0.0 {
        return None;
    }
    let order = match most.systems.start {
        StartOrder::Together => "all at once".to_owned(),
        StartOrder::OneByOne => "one after the other".to_owned(),
        StartOrder::Gap(gap) => format!("one every {gap}"),
    };
    let cpu = middle(fewest, boot_cpu).zip(middle(most, boot_cpu));
    let cpu = cpu.map(|(few, many)| format!("; booting took {} times the CPU time", fixed(many / few)));
    Some(format!(
        "{}: a testbed of {} stood after {}, one of {} after {} ({} times as long, for {} times the systems), started {order}{}.",
        curve.label,
        counts.0,
        duration(few),
        counts.1,
        duration(many),
        fixed(many / few),
        fixed(f64::from(counts.1) / f64::from(counts.0.max(1))),
        cpu.unwrap_or_default()
    ))
}

/// What systems beside others cost these: every comparison of two sets of systems, in words.
pub(super) fn neighbours(context: &Context) -> Markup {
    let mut m = Markup::new();
    for comparison in &context.summary.comparisons {
        if is_of_neighbours(&context.data, comparison) {
            m.open("p", &[("class", "verdict-words")]);
            let words = format!(" {}{}", explain(&context.data, comparison), generator(context, comparison));
            m.add(&badge(comparison.verdict)).text(&words).close("p");
        }
    }
    m
}

/// How busy the generator was, which asks the neighbour too: what it has no time for looks like the neighbour's doing.
fn generator(context: &Context, comparison: &Comparison) -> String {
    let cell = context.data.cell(&comparison.cell);
    let busiest = cell.and_then(|cell| pressure(context, cell, &comparison.measure).generator);
    busiest.map_or_else(String::new, |busiest| {
        format!(" The generator's busiest worker used {} of its CPU.", quantity(busiest, "1"))
    })
}

/// Whether a comparison is of two sets of systems, in a metric of the first table.
fn is_of_neighbours(data: &RunData, comparison: &Comparison) -> bool {
    let set = |cell: &str| data.cell(cell).map(|cell| cell.systems.name.clone());
    let primary = named(&comparison.metric).is_some_and(|metric| metric.primary);
    primary && set(&comparison.cell) != set(&comparison.baseline)
}

/// Each system of each cell, by the middle of its trials, cells in the plan's order.
pub(super) fn systems(context: &Context) -> Markup {
    let columns = [
        ("Cell", false),
        ("System", false),
        ("Asked", true),
        ("Answered", true),
        ("Failed, a trial", true),
        ("Median", true),
        ("p99", true),
        ("CPU per answer", true),
        ("Memory", true),
        ("Steal", true),
        ("Up after", true),
    ];
    let mut table = PlainTable::new(FIGURES, &columns);
    let plan = &context.data.plan;
    let all = &context.data.systems;
    let alike = |one: &SystemFound, other: &SystemFound| {
        one.cell == other.cell && one.measure == other.measure && one.member == other.member
    };
    let mut firsts: Vec<&SystemFound> = Vec::new();
    for found in all {
        if !firsts.iter().any(|first| alike(first, found)) {
            firsts.push(found);
        }
    }
    if firsts.is_empty() {
        return Markup::new();
    }
    firsts.sort_by_key(|first| plan.cells.iter().position(|cell| cell.id == first.cell));
    for first in firsts {
        let own: Vec<&SystemFound> = all.iter().filter(|found| alike(first, found)).collect();
        let head = match plan.measures.len() {
            1 => first.cell.clone(),
            _ => format!("{}, {}", first.cell, first.measure),
        };
        table.push(&head, row(first, &own));
    }
    scrolling(&table.finish())
}

/// What a system is called, and what it is there for where that isn't the measurement.
fn named_system(found: &SystemFound) -> String {
    let mut words = found.member.clone();
    let beside = (found.role != Role::System).then(|| found.role.word());
    for more in found.name.as_deref().into_iter().chain(beside) {
        words.push_str(", ");
        words.push_str(more);
    }
    words
}

/// How long a system took, and how much of that for its address, where it asked for it.
fn up_after(boot: String, lease: String) -> String {
    if lease.is_empty() { boot } else { format!("{boot}, {lease} of it for its address") }
}

/// One system over its trials.
fn row(first: &SystemFound, own: &[&SystemFound]) -> [String; 10] {
    let middle = |of: fn(&SystemFound) -> Option<f64>, unit: &str| {
        let values: Vec<f64> = own.iter().filter_map(|system| of(system)).collect();
        median(values).map(|value| quantity(value, unit)).unwrap_or_default()
    };
    let percentile = |of: fn(&SystemFound) -> Option<Value>| {
        let found: Vec<Value> = own.iter().filter_map(|system| of(system)).collect();
        let is_bound = found.iter().any(|value| value.censored);
        let middle = median(found.iter().map(|value| value.value).collect());
        middle.map(|middle| typical(middle, "ns", is_bound)).unwrap_or_default()
    };
    [
        named_system(first),
        middle(|s| Some(s.asked), "req/s"),
        middle(|s| Some(s.rate), "req/s"),
        middle(|s| Some(s.failed as f64), ""),
        percentile(|s| s.p50),
        percentile(|s| s.p99),
        middle(|s| s.cpu, "ns/req"),
        middle(|s| s.memory, "B"),
        middle(|s| s.steal, "1"),
        up_after(middle(|s| s.boot, "ns"), middle(|s| s.lease, "ns")),
    ]
}
