//! Calls on the page: how many, how long, what the scenario timed, what failed.

use vtax_load::LatencyHistogram;
use vtax_load::sip::ScriptFigures;

use crate::data::RunData;
use crate::format::{digits, duration, quantile_name};
use crate::html::parts::{details, titled, wide};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::metric::enough;

/// Most rows of a table about one load: a scenario may have thousands of commands, and a failure for each.
const ROWS_MAX: usize = 200;
/// Percentiles that are told.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

/// One load of one cell.
pub(super) struct Found<'a> {
    pub(super) label: String,
    pub(super) measure: &'a str,
    pub(super) figures: &'a ScriptFigures,
}

/// All loads, by cells that are compared with each other.
pub(super) fn all(data: &RunData) -> Vec<(String, Vec<Found<'_>>)> {
    let mut all = Vec::new();
    for group in data.groups() {
        let mut found = Vec::new();
        for measure in &data.plan.measures {
            found.extend(group.cells.iter().filter_map(|cell| {
                let figures = data.calls.get(&(cell.id.clone(), measure.name.clone()))?;
                Some(Found { label: data.environment_label(cell), measure: &measure.name, figures })
            }));
        }
        if !found.is_empty() {
            all.push((group.label, found));
        }
    }
    all
}

/// A percentile, where there are enough for it.
pub(super) fn percentile(times: &LatencyHistogram, quantile: f64) -> Option<f64> {
    enough(times.len(), quantile).then(|| times.quantile(quantile).0 as f64)
}

/// A time, or that there were too few values for it.
fn or_too_few(value: Option<f64>) -> String {
    value.map_or_else(|| "too few".to_owned(), duration)
}

/// How many calls there were, what became of them, and how long they took.
pub(super) fn calls(data: &RunData) -> Markup {
    let columns = [
        ("Environment", false),
        ("Load", false),
        ("Scenario", false),
        ("Calls", true),
        ("Succeeded", true),
        ("Failed", true),
        ("Sent again per call", true),
        ("Length, p50", true),
        ("Length, p99", true),
    ];
    let mut m = Markup::new();
    for (label, loads) in all(data) {
        let mut table = PlainTable::new("", &columns);
        for Found { label, measure, figures } in loads {
            let again = figures.traffic.retransmissions as f64 / figures.calls.max(1) as f64;
            let row = [
                measure.to_owned(),
                figures.scenario.clone(),
                figures.calls.to_string(),
                figures.succeeded.to_string(),
                sum(figures.failed.values()).to_string(),
                digits(again),
                or_too_few(percentile(&figures.length, 0.5)),
                or_too_few(percentile(&figures.length, 0.99)),
            ];
            table.push(&label, row);
        }
        m.element("p", &[], &titled("Calls of all trials that count, warm-up included", &label));
        m.add(&wide(&table.finish(), columns.len()));
    }
    if !m.is_empty() {
        let note = "A call is a request of the other tables. Its latency is what the scenario's first timer says, and the length of the call \
                    where it has none. A length counts from the intended start of the call.";
        m.element("p", &[("class", "small-print")], note);
    }
    m
}

/// What the scenario's timers said, and its counters.
pub(super) fn times(data: &RunData) -> Markup {
    let names = QUANTILES.map(quantile_name);
    let mut columns = vec![("Environment", false), ("Load", false), ("Timer", false), ("Times", true)];
    columns.extend(names.iter().map(|name| (name.as_str(), true)));
    columns.extend([("Mean", true), ("Maximum", true)]);
    let mut m = Markup::new();
    for (label, loads) in all(data) {
        let (mut table, mut any) = (PlainTable::new("", &columns), false);
        for Found { label, measure, figures } in &loads {
            for timer in figures.timers.iter().filter(|timer| !timer.times.is_empty()).take(ROWS_MAX) {
                any = true;
                let times = &timer.times;
                let mut row = vec![(*measure).to_owned(), timer.name.clone(), times.len().to_string()];
                row.extend(QUANTILES.map(|quantile| or_too_few(percentile(times, quantile))));
                row.extend([duration(times.mean().0 as f64), duration(times.max().0 as f64)]);
                table.push(label, row);
            }
        }
        if any {
            m.element("p", &[], &titled("What the scenario times with start_rtd and rtd", &label));
            m.add(&wide(&table.finish(), columns.len()));
        }
        m.add(&counters(&loads));
    }
    m
}

/// The scenario's own counters; nothing where it has none.
fn counters(loads: &[Found<'_>]) -> Markup {
    let columns = [("Environment", false), ("Load", false), ("Counter", false), ("Count", true)];
    let (mut table, mut any) = (PlainTable::new("", &columns), false);
    for Found { label, measure, figures } in loads {
        for (name, count) in figures.counters.iter().take(ROWS_MAX) {
            any = true;
            table.push(label, [(*measure).to_owned(), name.clone(), count.to_string()]);
        }
    }
    if any { details("The scenario's counters", &table.finish()) } else { Markup::new() }
}

/// Why calls failed, the causes of most first.
pub(super) fn failures(data: &RunData) -> Markup {
    let columns = [("Environment", false), ("Load", false), ("Calls", true), ("Cause", false)];
    let mut m = Markup::new();
    for (label, loads) in all(data) {
        let (mut table, mut any) = (PlainTable::new("", &columns), false);
        for Found { label, measure, figures } in loads {
            let mut causes: Vec<(&String, &u64)> = figures.failed.iter().collect();
            causes.sort_by_key(|(_, calls)| std::cmp::Reverse(**calls));
            for (cause, calls) in causes.into_iter().take(ROWS_MAX) {
                any = true;
                table.push(&label, [measure.to_owned(), calls.to_string(), cause.clone()]);
            }
        }
        if any {
            m.element("p", &[], &titled("Lines are those of the scenario", &label)).add(&table.finish());
        }
    }
    m
}

/// What each command of the scenario did.
pub(super) fn commands(data: &RunData) -> Markup {
    let columns = [
        ("Line", true),
        ("Command", false),
        ("Done", true),
        ("Again", true),
        ("Timeouts", true),
        ("Unexpected", true),
        ("Lost on purpose", true),
    ];
    let mut m = Markup::new();
    for (group, loads) in all(data) {
        for Found { label, measure, figures } in loads {
            let mut table = PlainTable::new("", &columns);
            for command in figures.commands.iter().take(ROWS_MAX) {
                let counts =
                    [command.done, command.again, command.timeouts, command.unexpected, command.lost];
                let counts = counts.map(|count| count.to_string());
                table.push(&command.line.to_string(), [command.label.clone()].into_iter().chain(counts));
            }
            m.add(&details(&titled(&format!("{label}, {measure}"), &group), &table.finish()));
        }
    }
    m
}

/// The sum of counts that a file says, whatever they are.
pub(super) fn sum<'a>(counts: impl Iterator<Item = &'a u64>) -> u64 {
    counts.fold(0, |sum, count| sum.saturating_add(*count))
}
