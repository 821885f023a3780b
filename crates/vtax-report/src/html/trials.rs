//! Every trial with its validity, and the last words of services that failed.

use vtax_plan::model::Workload;
use vtax_store::record::{InvalidReason, Outcome, TrialRecord, Validity};

use super::{head, scrolling};
use crate::data::{RunData, load};
use crate::format::{duration, quantity, tick};
use crate::links::line::told_tests;
use crate::markup::Markup;
use crate::plot::capacity::words;
use crate::report::Report;
use crate::summarise::invalid;

/// How much of a log is shown.
const LOG_TAIL: u64 = 4096;
/// How many failed trials are shown with their logs.
const MOST_LOGS: usize = 10;

pub(super) fn trials(report: &Report) -> Markup {
    let data = &report.data;
    let mut table = Markup::new();
    table.open("table", &[("class", "sortable")]);
    head(
        &mut table,
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
    table.open("tbody", &[]);
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
        table.element("td", &[], &invalid(&t.validity).unwrap_or_else(|| found(data, t))).close("tr");
    }
    table.close("tbody").close("table");
    let mut m = Markup::new();
    if !data.trials.is_empty() {
        m.add(&scrolling(&table)).add(&logs(report));
    }
    m
}

/// What a trial found, in a few words.
fn found(data: &RunData, t: &TrialRecord) -> String {
    match &t.outcome {
        None => String::new(),
        Some(Outcome::Capacity(c)) => format!("{} req/s, {} steps", words(c), c.steps.len()),
        Some(Outcome::Ims(ims)) => super::ims::conclusion(ims),
        Some(Outcome::Net(net)) => match data.cell(&t.cell).map(|cell| &cell.workload) {
            Some(Workload::Net(workload)) => told_tests(net, &workload.tests),
            _ => String::new(),
        },
        Some(_) => load(t).map_or_else(String::new, |l| {
            let failed = l.counts.intended.max(l.counts.sent).saturating_sub(l.counts.ok);
            let rate = l.counts.ok as f64 / l.duration.as_secs_f64().max(1e-9);
            let busiest = tick(l.generator.busiest, "1");
            format!("{} answered, {failed} not; generator {busiest} busy", quantity(rate, "req/s"))
        }),
    }
}

fn logs(report: &Report) -> Markup {
    let mut m = Markup::new();
    // What limited the generator or disturbed the host is not in the service's logs.
    let failed = report.data.trials.iter().filter(|t| match t.validity {
        Validity::Valid => false,
        Validity::Invalid { reason, .. } => {
            !matches!(reason, InvalidReason::GeneratorLimited | InvalidReason::Disturbed)
        }
    });
    for t in failed.take(MOST_LOGS) {
        let trial = report.run.trial(t.index);
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
