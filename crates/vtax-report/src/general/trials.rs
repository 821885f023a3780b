//! Every trial with its validity, and the last words of services that failed.

use std::collections::HashMap;

use vtax_store::record::{InvalidReason, TrialRecord, Validity};
use vtax_units::counted;

use super::trial::load;
use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::data::{Figures, RunData};
use crate::families::{describe_with, metrics, named};
use crate::format::duration;
use crate::html::parts::{close_table, open_table, scrolling};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::metric::Info;
use crate::table::{Cell, Table, count, moment, number, number_or_none, text, text_or_none, yes_no};
use crate::words::invalid;

/// How many trials the page has a row for; the workbook and the CSV files have all.
const MOST_ROWS: usize = 2_000;
/// How much of a log is shown.
const LOG_TAIL: u64 = 4096;
/// How many failed trials are shown with their logs.
const MOST_LOGS: usize = 10;

/// The chapter about trials.
#[derive(Debug)]
pub(crate) struct Trials;

impl Chapter for Trials {
    fn page(&self, context: &Context) -> Page {
        let mut page = Page::default();
        page.put(Rank::Trials, "left-out", "What doesn't count", left_out(context));
        page.put(Rank::Trials, "trials", "Trials", section(context));
        page
    }

    fn tables(&self, context: &Context) -> Vec<Table> {
        vec![table(context), values(context)]
    }
}

fn table(context: &Context) -> Table {
    let data = &context.data;
    let found: Vec<&Info> = metrics().filter(|m| found_by_trials(data, m)).collect();
    let mut columns = "trial,cell,measure,repetition,round,started_unix_ms,valid,reason,testbed_ns,service_ns,measure_ns,teardown_ns,\
                       ok,failed,generator_busiest,at_least"
        .to_owned();
    for info in &found {
        columns.push_str(&format!(",{}{}", info.name, suffix(info.unit)));
    }
    let mut table = Table::new("trials", "Trials", &columns);
    for (t, s) in data.trials.iter().zip(&context.summary.trials) {
        let l = load(t);
        let failed = l.map(|l| l.counts.intended.max(l.counts.sent).saturating_sub(l.counts.ok) as f64);
        let values = data.of_trial(t);
        let mut row = vec![
            number(t.index),
            text(&t.cell),
            text(&t.measure),
            number(t.repetition),
            number(t.round.unwrap_or(t.repetition)),
            moment(t.started_unix_ms),
            yes_no(s.valid),
            text_or_none(s.reason.as_deref()),
            count(t.timings.testbed.0),
            count(t.timings.service.0),
            count(t.timings.measure.0),
            count(t.timings.teardown.0),
            number_or_none(l.map(|l| l.counts.ok as f64)),
            number_or_none(failed),
            number_or_none(l.map(|l| l.generator.busiest)),
            if values.is_empty() { Cell::Missing } else { yes_no(values.iter().any(|v| v.censored)) },
        ];
        let of = |info: &&Info| values.iter().find(|v| v.metric == info.name).map(|v| v.value);
        row.extend(found.iter().map(|info| number_or_none(of(info))));
        table.push(row);
    }
    table
}

/// Whether a metric has a column: trials have it, as one figure each, and no other column does.
fn found_by_trials(data: &RunData, info: &Info) -> bool {
    let has = |t: &TrialRecord| data.of_trial(t).iter().any(|v| v.metric == info.name);
    info.name != "generator_busiest" && data.trials.iter().any(has)
}

/// What a column adds to a metric's name.
fn suffix(unit: &str) -> &'static str {
    match unit {
        "ns" | "ns/req" => "_ns",
        "req/s" => "_per_s",
        "SAPS" => "_saps",
        _ => "",
    }
}

/// Every figure of every trial, those of tests and of the lifecycle included.
fn values(context: &Context) -> Table {
    let data = &context.data;
    let columns = "trial,round,cell,measure,metric,unit,value,at_least";
    let mut table = Table::new("values", "Values", columns);
    let mut all: Vec<(&Figures, &str, &str)> = Vec::new();
    for cell in &data.plan.cells {
        for measure in data.measures() {
            all.extend(data.figures_of(&cell.id, measure).iter().map(|f| (f, cell.id.as_str(), measure)));
        }
    }
    all.sort_by_key(|(figures, ..)| figures.trial);
    let rounds = data.trials.iter().rev().map(|t| (t.index, f64::from(t.round.unwrap_or(t.repetition))));
    let rounds: HashMap<u32, f64> = rounds.collect();
    for (figures, cell, measure) in all {
        let round = rounds.get(&figures.trial).copied();
        for v in &figures.values {
            table.push([
                number(figures.trial),
                number_or_none(round),
                text(cell),
                text(measure),
                text(v.metric),
                text(named(v.metric).map_or("", |m| m.unit)),
                number(v.value),
                yes_no(v.censored),
            ]);
        }
    }
    table
}

fn section(context: &Context) -> Markup {
    let data = &context.data;
    let mut table = open_table(
        "sortable stacked trials",
        &[
            ("Trial", true),
            ("Counts", false),
            ("Cell", false),
            ("Measure", false),
            ("Rep.", true),
            ("Start", true),
            ("Built in", true),
            ("Ready in", true),
            ("Found", false),
        ],
    );
    for t in data.trials.iter().take(MOST_ROWS) {
        let valid = t.validity == Validity::Valid;
        table.open("tr", &[("class", if valid { "" } else { "invalid" })]);
        table.element("th", &[("scope", "row"), ("class", "n")], &format!("{:03}", t.index));
        let label = data.cell(&t.cell).map_or_else(
            || t.cell.clone(),
            |c| match data.accelerator(c) {
                Some(a) => format!("{} ({})", c.id, a.to_uppercase()),
                None => c.id.clone(),
            },
        );
        table.element("td", &[], if valid { "✓ valid" } else { "✗ no" });
        table.element("td", &[], &label).element("td", &[], &t.measure);
        table.element("td", &[("class", "n")], &(u64::from(t.repetition) + 1).to_string());
        let since = t.started_unix_ms.saturating_sub(data.provenance.started_unix_ms) / 1000;
        let clock = format!("+{}:{:02}:{:02}", since / 3600, since / 60 % 60, since % 60);
        table.element("td", &[("class", "n"), ("data-v", &since.to_string())], &clock);
        for ns in [t.timings.testbed.0, t.timings.service.0] {
            let text = if ns == 0 { String::new() } else { duration(ns as f64) };
            table.element("td", &[("class", "n"), ("data-v", &ns.to_string())], &text);
        }
        let found = || {
            let planned = data.cell(&t.cell).map_or(&[][..], |cell| cell.workload.model().tests());
            describe_with(t, planned, data.of_trial(t))
        };
        table.element("td", &[], &invalid(&t.validity).unwrap_or_else(found)).close("tr");
    }
    close_table(&mut table);
    let mut m = Markup::new();
    if !data.trials.is_empty() {
        m.add(&scrolling(&table)).add(&beyond(data.trials.len())).add(&logs(context));
    }
    m
}

/// That the page has not all of so many.
fn beyond(all: usize) -> Markup {
    let mut m = Markup::new();
    if all > MOST_ROWS {
        let text = format!(
            "These are the first {MOST_ROWS} of {all}; `csv/trials.csv` and the workbook have the others."
        );
        m.element("p", &[("class", "small-print")], &text);
    }
    m
}

fn logs(context: &Context) -> Markup {
    let mut m = Markup::new();
    // What limited the generator or disturbed the host is not in the service's logs.
    let failed = context.data.trials.iter().filter(|t| match t.validity {
        Validity::Valid => false,
        Validity::Invalid { reason, .. } => {
            !matches!(reason, InvalidReason::GeneratorLimited | InvalidReason::Disturbed)
        }
    });
    for t in failed.take(MOST_LOGS) {
        let trial = context.run.trial(t.index);
        // A log that can't be read is no reason to have no report.
        for (name, path) in trial.logs().unwrap_or_default() {
            let Ok(tail) = trial.log_tail(&path, LOG_TAIL) else { continue };
            if tail.trim().is_empty() {
                continue;
            }
            let title = format!("End of {name} in trial {:03}", t.index);
            m.open("details", &[]).element("summary", &[], &title);
            m.element("pre", &[("tabindex", "0")], &tail).close("details");
        }
    }
    m
}

/// Trials that don't count, and what was cut off those that do.
fn left_out(context: &Context) -> Markup {
    let data = &context.data;
    let mut table = PlainTable::new(
        "stacked",
        &[("Trial", true), ("Cell", false), ("Measure", false), ("Left out", false), ("Why", false)],
    );
    let mut rows = 0;
    for t in &data.trials {
        let (what, why) = match (&t.validity, t.warm_up()) {
            (Validity::Invalid { .. }, _) => {
                ("all of it".to_owned(), invalid(&t.validity).unwrap_or_default())
            }
            (Validity::Valid, Some(w)) if w.cut.0 > 0 => {
                (format!("the first {}", duration(w.cut.0 as f64)), format!("warm-up: {}", w.detail))
            }
            _ => continue,
        };
        rows += 1;
        if rows > MOST_ROWS {
            continue;
        }
        table.push(&format!("{:03}", t.index), [&t.cell, &t.measure, &what, &why]);
    }
    let mut m = Markup::new();
    if data.trials.is_empty() {
        return m;
    }
    m.element("p", &[("class", "small-print")], &summary_of(data));
    if rows > 0 {
        m.add(&scrolling(&table.finish())).add(&beyond(rows));
    }
    m
}

/// What counts, in a sentence.
fn summary_of(data: &RunData) -> String {
    let all = data.trials.len();
    let valid = data.trials.iter().filter(|t| t.validity == Validity::Valid).count();
    let cut = data.trials.iter().filter(|t| t.validity == Validity::Valid && t.cut().0 > 0).count();
    counts(all, valid, cut)
}

/// What counts of so many trials, and of how many of those the start was cut off.
fn counts(all: usize, valid: usize, cut: usize) -> String {
    let mut said = match (valid, all - valid) {
        (1, 0) => "The only trial counts".to_owned(),
        (_, 0) => format!("All {all} trials count"),
        (0, _) => format!("None of {} counts", counted(all, "trial")),
        (_, 1) => format!("{valid} of {all} trials count; the other was made again or lost"),
        _ => format!("{valid} of {all} trials count; the others were made again or lost"),
    };
    if cut > 0 {
        said.push_str(&format!("; of {cut} the start was cut off as warm-up"));
    }
    said + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_of_none() {
        for ((all, valid, cut), text) in [
            ((12, 12, 0), "All 12 trials count."),
            ((1, 1, 0), "The only trial counts."),
            ((12, 12, 3), "All 12 trials count; of 3 the start was cut off as warm-up."),
            ((12, 11, 0), "11 of 12 trials count; the other was made again or lost."),
            ((12, 9, 0), "9 of 12 trials count; the others were made again or lost."),
            ((1, 0, 0), "None of 1 trial counts."),
        ] {
            assert_eq!(counts(all, valid, cut), text);
        }
    }
}
