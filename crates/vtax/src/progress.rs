//! Progress of a run: a table that fills in place above a live line on a terminal, plain lines in a pipe.

mod table;

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use vtax_plan::model::{NetworkTest, Plan};
use vtax_report::{told_storage, told_tests};
use vtax_run::{Observer, RunEvent};
use vtax_store::LiveWidth;
use vtax_store::failover::FailoverOutcome;
use vtax_store::record::{Finding, TrialRecord, Validity};

use crate::{brief, screen};

/// Draws a run's progress on standard error.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    trial: Mutex<String>,
    /// Network tests of the plan, in its order.
    tests: Vec<NetworkTest>,
    /// A tax within 1 ± margin counts as equal.
    margin: f64,
}

/// The live line alone, until there is something to compare.
const LINE: &str = "{spinner} {wide_msg}";
/// The table above it.
const TABLE: &str = "{prefix}\n{spinner} {wide_msg}";

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

impl Progress {
    /// A live line where standard error is a terminal.
    pub(crate) fn new(plan: &Plan) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_style(style(LINE));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar, trial: Mutex::new(String::new()), tests: tests_of(plan), margin: plan.margin.0 }
    }

    /// Prints a line that stays.
    pub(crate) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            // Progress that nobody can read any more must not end the run.
            None => drop(writeln!(std::io::stderr(), "{text}")),
        }
    }

    /// Takes the live line away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn status(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    /// Shows how far the comparisons are.
    fn compare(&self, widths: &[LiveWidth]) {
        let Some(bar) = &self.bar else { return };
        let table = table::table(widths, self.margin, screen::size());
        if !table.is_empty() {
            bar.set_prefix(table);
            bar.set_style(style(TABLE));
        }
    }

    fn trial(&self) -> std::sync::MutexGuard<'_, String> {
        self.trial.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Observer for Progress {
    fn observe(&self, event: &RunEvent<'_>) {
        match event {
            // Whether any is made beyond the least number isn't known yet.
            RunEvent::Started { finished, owed: 0, .. } => self.line(&format!("{finished} trials done")),
            RunEvent::Started { finished, owed, remaining } => {
                let resumed = if *finished > 0 { format!("{finished} trials done, ") } else { String::new() };
                self.line(&format!("{resumed}{}", to_go(*owed, *remaining)));
            }
            RunEvent::TrialStarted { index, cell, measure, repetition, owed, remaining } => {
                *self.trial() = format!(
                    "trial {} · {cell} · {measure} · repetition {} · {}",
                    index + 1,
                    repetition + 1,
                    to_go(*owed, *remaining)
                );
                self.status(&self.trial());
            }
            RunEvent::Phase { what } => self.status(&format!("{} · {what}", self.trial())),
            RunEvent::Step { step } => {
                let mark = if step.passed { "passed" } else { "failed" };
                self.status(&format!("{} · {:.0}/s {mark}", self.trial(), step.offered.0));
            }
            RunEvent::PhaseEnded { text, .. } => self.status(&format!("{} · {text}", self.trial())),
            RunEvent::TrialEnded { record } => self.line(&ended(record, &self.tests)),
            RunEvent::Widths { widths } => self.compare(widths),
            RunEvent::Rate { .. } => {}
            RunEvent::Note { text } => self.line(&format!("note: {}", brief::shown(text))),
        }
    }
}

/// What became of the faults of a trial.
fn faults(outcome: &FailoverOutcome) -> String {
    let broken = || outcome.faults.iter().filter(|f| f.injected.is_some() && !f.fault.kind.mends());
    let answered: Vec<String> = broken()
        .filter_map(|f| {
            let seen = f.seen.as_ref()?.first_answer?;
            Some(latency(seen.0.saturating_sub(f.injected?.0)))
        })
        .collect();
    let lost = broken().filter(|f| f.lost.is_some()).count();
    format!(
        "at {:.0}/s: {} faults, first answer after {}{}",
        outcome.offered.0,
        broken().count(),
        if answered.is_empty() { "none".to_owned() } else { answered.join(", ") },
        if lost > 0 { format!("; service lost {lost} times") } else { String::new() }
    )
}

/// One line about a finished trial.
fn ended(record: &TrialRecord, planned: &[NetworkTest]) -> String {
    let found = match record.finding() {
        Some(Finding::Capacity(c)) => match c.upper {
            Some(upper) => format!("{:.0} to {:.0} requests/s", c.lower.0, upper.0),
            None => format!("at least {:.0} requests/s", c.lower.0),
        },
        Some(Finding::Latency { offered, load }) => format!(
            "at {:.0}/s: median {}, p99 {}",
            offered.0,
            latency(load.latency.0.value_at_quantile(0.5)),
            latency(load.latency.0.value_at_quantile(0.99))
        ),
        Some(Finding::Throughput { load }) => {
            format!("{:.0} requests/s", load.counts.ok as f64 / load.duration.as_secs_f64())
        }
        Some(Finding::Ims(ims)) => match (ims.doc, ims.decisive()) {
            (Some(doc), _) => {
                format!("DOC {:.1} scenario attempts/s (asked for {:.1})", doc.effective.0, doc.requested.0)
            }
            (None, Some(phase)) => {
                format!("at {:.1} scenario attempts/s: IHS {:.2} %", phase.effective.0, phase.ihs * 100.0)
            }
            (None, None) => "no step kept to its limits".to_owned(),
        },
        Some(Finding::Failover(failover)) => faults(failover),
        Some(Finding::Network(_)) => told_tests(&record.observations, planned),
        Some(Finding::Storage(_)) => told_storage(&record.observations),
        Some(Finding::Unknown { of }) => format!("`{of}`, which this vtax doesn't know"),
        None if record.observations.iter().any(|o| o.storage().is_some()) => {
            told_storage(&record.observations)
        }
        None if !record.observations.is_empty() => told_tests(&record.observations, planned),
        None => "nothing measured".to_owned(),
    };
    let validity = match &record.validity {
        Validity::Valid => String::new(),
        Validity::Invalid { detail, .. } => format!("  INVALID: {}", brief::shown(detail)),
    };
    let label =
        record.accelerator.as_deref().map_or_else(String::new, |a| format!(" [{}]", a.to_uppercase()));
    format!("{:>4}  {:<34} {:<18} {found}{label}{validity}", record.index + 1, record.cell, record.measure)
}

/// Every network test of the plan, each name once.
fn tests_of(plan: &Plan) -> Vec<NetworkTest> {
    let mut tests: Vec<NetworkTest> = Vec::new();
    for cell in &plan.cells {
        let new = |test: &&NetworkTest| tests.iter().all(|known| known.name != test.name);
        let new: Vec<NetworkTest> = cell.workload.model().tests().iter().filter(new).cloned().collect();
        tests.extend(new);
    }
    tests
}

/// Nanoseconds with a unit that keeps three digits readable.
fn latency(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.0} µs", ns as f64 / 1e3),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

/// What is still to be measured. Beyond the least number of trials nobody knows how many there will be.
fn to_go(owed: u32, remaining: Duration) -> String {
    let s = if owed == 1 { "" } else { "s" };
    match owed {
        0 => "more trials: until the taxes are known well enough, or in place of disturbed ones".to_owned(),
        _ => format!("at least {owed} trial{s} to go, about {}", span(remaining)),
    }
}

/// A rough span of time: `45 s`, `3 min 20 s`.
fn span(d: Duration) -> String {
    match d.as_secs() {
        s @ 0..90 => format!("{s} s"),
        s @ 90..600 => format!("{} min {} s", s / 60, s % 60 / 10 * 10),
        s => format!("{} min", s.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_go_is_the_least() {
        assert_eq!(to_go(6, Duration::from_secs(45)), "at least 6 trials to go, about 45 s");
        assert_eq!(to_go(1, Duration::from_secs(5)), "at least 1 trial to go, about 5 s");
        assert_eq!(
            to_go(0, Duration::ZERO),
            "more trials: until the taxes are known well enough, or in place of disturbed ones"
        );
    }
}
