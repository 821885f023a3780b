//! Every trial with its validity, and the last words of services that failed.

use vtax_store::record::{InvalidReason, Validity};

use super::trial::load;
use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::data::RunData;
use crate::families::told;
use crate::format::duration;
use crate::html::parts::{close_table, open_table, scrolling};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::table::{Table, count, number, number_or_none, text, text_or_none, yes_no};
use crate::words::invalid;

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
        vec![table(context)]
    }
}

fn table(context: &Context) -> Table {
    let columns = "trial,cell,measure,repetition,started_unix_ms,valid,reason,testbed_ns,service_ns,measure_ns,teardown_ns,ok,failed,generator_busiest";
    let mut table = Table::new("trials", "Trials", columns);
    for (t, s) in context.data.trials.iter().zip(&context.summary.trials) {
        let l = load(t);
        let failed = l.map(|l| l.counts.intended.max(l.counts.sent).saturating_sub(l.counts.ok) as f64);
        table.push([
            number(t.index),
            text(&t.cell),
            text(&t.measure),
            number(t.repetition),
            count(t.started_unix_ms),
            yes_no(s.valid),
            text_or_none(s.reason.as_deref()),
            count(t.timings.testbed.0),
            count(t.timings.service.0),
            count(t.timings.measure.0),
            count(t.timings.teardown.0),
            number_or_none(l.map(|l| l.counts.ok as f64)),
            number_or_none(failed),
            number_or_none(l.map(|l| l.generator.busiest)),
        ]);
    }
    table
}

fn section(context: &Context) -> Markup {
    let data = &context.data;
    let mut table = open_table(
        "sortable",
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
    for t in &data.trials {
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
        table
            .element("td", &[], &invalid(&t.validity).unwrap_or_else(|| told(t, data.cell(&t.cell))))
            .close("tr");
    }
    close_table(&mut table);
    let mut m = Markup::new();
    if !data.trials.is_empty() {
        m.add(&scrolling(&table)).add(&logs(context));
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
        "",
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
        table.push(&format!("{:03}", t.index), [&t.cell, &t.measure, &what, &why]);
    }
    let mut m = Markup::new();
    if data.trials.is_empty() {
        return m;
    }
    m.element("p", &[("class", "small-print")], &summary_of(data));
    if rows > 0 {
        m.add(&scrolling(&table.finish()));
    }
    m
}

/// What counts, in a sentence.
fn summary_of(data: &RunData) -> String {
    let all = data.trials.len();
    let valid = data.trials.iter().filter(|t| t.validity == Validity::Valid).count();
    let cut = data.trials.iter().filter(|t| t.validity == Validity::Valid && t.cut().0 > 0);
    format!(
        "{valid} of {all} trials count; {} were made again or lost, and of {} the start was cut off as warm-up.",
        all - valid,
        cut.count()
    )
}
