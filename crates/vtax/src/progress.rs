//! Progress of a run: a table that fills in place above a live line on a terminal, plain lines in a pipe.

mod table;

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use vtax_plan::model::{NetworkTest, Plan};
use vtax_report::describe_finding;
use vtax_run::{Observer, RunEvent};
use vtax_store::record::{TrialRecord, Validity};
use vtax_store::{LiveComparison, LiveState};
use vtax_sys::sync::lock;
use vtax_units::{counted, printable};

use crate::{brief, screen};

/// Lines on standard error that stay, above the live line where there is one. Its clones have the same.
#[derive(Clone, Default)]
pub(crate) struct Lines {
    bar: Arc<OnceLock<ProgressBar>>,
    quiet: bool,
}

/// Draws a run's progress on standard error.
pub(crate) struct Progress {
    lines: Lines,
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

impl Lines {
    /// Lines that aren't printed where `quiet` is true, but for those that [always](Self::always) are.
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet, ..Self::default() }
    }

    /// Prints one. Names in it come from plans, and words in it from other programs and hosts.
    pub(crate) fn line(&self, text: &str) {
        if !self.quiet {
            self.always(text);
        }
    }

    /// Prints one where others are silent, too: what somebody must know who would otherwise do harm.
    pub(crate) fn always(&self, text: &str) {
        let text = printable(text);
        match self.bar.get() {
            Some(bar) => bar.println(text),
            // Progress that nobody can read any more must not end the run.
            None => drop(writeln!(std::io::stderr(), "{text}")),
        }
    }

    /// Puts a live line below them where standard error is a terminal that can have one. Elsewhere, as on a dumb terminal, the bar is
    /// hidden, and drops lines that are printed above it, too.
    fn begin_live(&self) {
        let bar = ProgressBar::new_spinner();
        if self.quiet || bar.is_hidden() {
            return;
        }
        bar.set_style(style(LINE));
        bar.enable_steady_tick(Duration::from_millis(200));
        // One that is there already stays.
        let _ = self.bar.set(bar);
    }
}

impl Progress {
    /// These lines, with a live one where standard error is a terminal.
    pub(crate) fn new(plan: &Plan, lines: Lines) -> Self {
        lines.begin_live();
        Self { lines, trial: Mutex::new(String::new()), tests: tests_of(plan), margin: plan.margin.0 }
    }

    /// Prints a line that stays.
    pub(crate) fn line(&self, text: &str) {
        self.lines.line(text);
    }

    /// Takes the live line away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = self.bar() {
            bar.finish_and_clear();
        }
    }

    fn bar(&self) -> Option<&ProgressBar> {
        self.lines.bar.get()
    }

    fn status(&self, text: &str) {
        if let Some(bar) = self.bar() {
            bar.set_message(printable(text));
        }
    }

    /// Shows how far the comparisons are.
    fn compare(&self, comparisons: &[LiveComparison]) {
        let Some(bar) = self.bar() else { return };
        let table = table::table(comparisons, self.margin, screen::size());
        if !table.is_empty() {
            bar.set_prefix(printable(&table));
            bar.set_style(style(TABLE));
        }
    }

    fn trial(&self) -> std::sync::MutexGuard<'_, String> {
        lock(&self.trial)
    }
}

impl Observer for Progress {
    fn observe(&self, event: &RunEvent<'_>) {
        match event {
            // Whether any is made beyond the least number isn't known yet.
            RunEvent::Started { finished, owed: 0, .. } => {
                self.line(&format!("{} done", counted(*finished, "trial")));
            }
            RunEvent::Started { finished, owed, remaining } => {
                let resumed = match *finished {
                    0 => String::new(),
                    finished => format!("{} done, ", counted(finished, "trial")),
                };
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
            RunEvent::TrialEnded { record } => self.line(&trial_line(record, &self.tests)),
            RunEvent::Comparisons { comparisons } => self.compare(comparisons),
            RunEvent::Rate { .. } => {}
            RunEvent::Note { text } => self.line(&format!("note: {}", brief::shown(text))),
        }
    }
}

/// One line about a finished trial.
fn trial_line(record: &TrialRecord, planned: &[NetworkTest]) -> String {
    let found = describe_finding(record, planned);
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

/// What is still to be measured. Beyond the least number of trials nobody knows how many there will be.
fn to_go(owed: u32, remaining: Duration) -> String {
    match owed {
        0 => LiveState::MORE_TRIALS.to_owned(),
        _ => format!("at least {} to go, about {}", counted(owed, "trial"), span(remaining)),
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
