//! The end of `vtax run --smoke-test`: what works, what doesn't, and what the whole run would take.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use vtax_load::Interval;
use vtax_plan::model::Plan;
use vtax_run::RunEnd;
use vtax_store::RunDir;
use vtax_store::record::{InvalidReason, TrialRecord, Validity};
use vtax_units::{counted, printable};

use super::{Job, Measured, left_out, shell_word};
use crate::cmd::check::time_of;
use crate::exit::{Exit, Outcome};

impl Job {
    /// Writes the report, and prints what came of the trials, and what begins the whole run, with these changes of the plan.
    /// [`Exit::Failed`] where something doesn't work.
    pub(super) fn conclude_smoke_test(
        &self,
        measured: &Measured,
        whole: &Plan,
        changes: &[String],
    ) -> Outcome {
        let Measured { run, ended, .. } = measured;
        vtax_report::write_all(run)?;
        let trials = run.trials()?;
        let result = SmokeTest::of(&trials, left_out(run)?, |trial| is_under_way(run, trial.index));
        let mut out = std::io::stdout().lock();
        // What can't be printed any more must not hide how it ended.
        let _ = write!(out, "\n{}", printable(&result.text()));
        let _ = writeln!(out, "report: {}", run.path().join("report.html").display());
        if *ended == RunEnd::Interrupted {
            let _ = writeln!(out, "interrupted");
            return Ok(Exit::Interrupted);
        }
        let file = self.plan_file.as_deref().unwrap_or_default();
        let words = std::iter::once(file).chain(changes.iter().flat_map(|change| ["--set", change]));
        let words: Vec<String> = words.map(|word| shell_word(Path::new(word))).collect();
        let _ = writeln!(out, "the whole run {}: vtax run {}", time_of(whole), words.join(" "));
        Ok(if result.failed.is_empty() && result.trials() > 0 { Exit::Done } else { Exit::Failed })
    }
}

/// Whether no request of a trial had ended with it, neither well nor badly: they take longer than a smoke test.
fn is_under_way(run: &RunDir, trial: u32) -> bool {
    let (mut sent, mut ended) = (0, 0);
    let read = run.trial(trial).for_each_interval(|Interval { counts, .. }| {
        sent += counts.sent;
        ended += counts.ok + counts.errors.total() + counts.missed;
    });
    read.is_ok() && sent > 0 && ended == 0
}

/// What came of the trials.
struct SmokeTest {
    worked: usize,
    /// Trials that worked, and that a longer time or a host that is left alone can make count: which, and why they don't.
    uncounted: Vec<(String, String)>,
    /// Trials of which nothing had ended yet.
    unknown: Vec<(String, String)>,
    failed: Vec<(String, String)>,
    /// Cells that this host can't build.
    left_out: Vec<(String, String)>,
}

impl SmokeTest {
    fn of(
        trials: &[TrialRecord],
        left_out: Vec<(String, String)>,
        is_under_way: impl Fn(&TrialRecord) -> bool,
    ) -> Self {
        let (uncounted, unknown, failed) = (Vec::new(), Vec::new(), Vec::new());
        let mut result = Self { worked: 0, uncounted, unknown, failed, left_out };
        for trial in trials {
            let Validity::Invalid { reason, detail } = &trial.validity else {
                result.worked += 1;
                continue;
            };
            let entry = (format!("{}  {}", trial.cell, trial.measure), detail.clone());
            match reason {
                InvalidReason::GeneratorLimited
                | InvalidReason::Disturbed
                | InvalidReason::NoSteadyState
                | InvalidReason::Overloaded
                | InvalidReason::PartnerInvalid => result.uncounted.push(entry),
                InvalidReason::NothingSucceeded if is_under_way(trial) => result.unknown.push(entry),
                _ => result.failed.push(entry),
            }
        }
        // They were made in an order drawn by lot.
        for list in [&mut result.failed, &mut result.uncounted, &mut result.unknown, &mut result.left_out] {
            list.sort_unstable();
        }
        result
    }

    fn trials(&self) -> usize {
        self.working() + self.unknown.len() + self.failed.len()
    }

    const fn working(&self) -> usize {
        self.worked + self.uncounted.len()
    }

    fn text(&self) -> String {
        let (working, trials) = (self.working(), self.trials());
        let work = if trials == 1 { "works" } else { "work" };
        let mut text = format!("smoke test: {working} of {} {work}\n", counted(trials, "trial"));
        let lists = [
            ("these fail", &self.failed),
            ("not on this host", &self.left_out),
            ("not known, as none of their requests ends within a smoke test", &self.unknown),
            ("these work; whether they would count can't be judged in so short a time", &self.uncounted),
        ];
        for (head, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            // What can be written to a String always is.
            let _ = writeln!(text, "\n{head}");
            for (what, why) in list {
                let _ = writeln!(text, "  {what}\n    {why}");
            }
        }
        text + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(measure: &str, validity: Validity) -> TrialRecord {
        TrialRecord { validity, ..TrialRecord::begin("vm.bridge.http", measure, 0) }
    }

    fn invalid(reason: InvalidReason, detail: &str) -> Validity {
        Validity::Invalid { reason, detail: detail.to_owned() }
    }

    #[test]
    fn what_only_a_longer_trial_can_show_is_no_failure() {
        let trials = [
            trial("latency", Validity::Valid),
            trial("throughput", invalid(InvalidReason::Disturbed, "a neighbour")),
            trial("capacity", invalid(InvalidReason::ServiceFailed, "it ended by signal 9")),
            trial("large", invalid(InvalidReason::NothingSucceeded, "one under way")),
            trial("latency@8", invalid(InvalidReason::NothingSucceeded, "all were refused")),
        ];
        let left_out = vec![("uml.bridge.http".to_owned(), "no linux.uml".to_owned())];
        let result = SmokeTest::of(&trials, left_out, |trial| trial.measure == "large");
        assert_eq!((result.working(), result.failed.len(), result.unknown.len()), (2, 2, 1));
        let text = result.text();
        for words in [
            "smoke test: 2 of 5 trials work\n",
            "these fail\n  vm.bridge.http  capacity\n    it ended by signal 9\n  vm.bridge.http  latency@8\n",
            "not on this host\n  uml.bridge.http\n    no linux.uml\n",
            "a smoke test\n  vm.bridge.http  large\n    one under way\n",
            "these work; whether they would count can't be judged in so short a time\n  vm.bridge.http  throughput\n    a neighbour",
        ] {
            assert!(text.contains(words), "{words:?} is not in\n{text}");
        }
        let well = SmokeTest::of(&trials[..1], Vec::new(), |_| false);
        assert_eq!(well.text(), "smoke test: 1 of 1 trial works\n\n");
    }
}
