//! Running a study's experiments, each where it stopped, and reading what they found.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use vtax_report::Report;
use vtax_report::study::{StudyRun, experiment, host, products};
use vtax_store::{RunDir, StoreError};
use vtax_study::{Experiment, ExperimentPlan, Host, State};
use vtax_sys::signals::SignalFd;
use vtax_units::printable;

use super::child::{ChildExit, vtax};
use super::{Job, plan_of};
use crate::cmd::run::shell_word;
use crate::exit::{Classify, Exit, Failure};
use crate::front::ENDING;

/// Where it is kept why experiments couldn't be run.
const FAILED: &str = "failed.json";

/// How the work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkEnd {
    /// All that could be run was.
    Finished,
    /// Someone stopped it.
    Interrupted,
}

/// What runs found, as far as there are any.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) proper: BTreeMap<String, Experiment>,
    pub(super) published: BTreeMap<String, Experiment>,
    pub(super) runs: Vec<StudyRun>,
    pub(super) hosts: BTreeSet<Host>,
}

/// Why experiments couldn't be run, by the place of their run.
type Failures = BTreeMap<String, String>;

impl Job {
    /// Runs what isn't there yet.
    pub(super) fn work(&self) -> Result<WorkEnd, Failure> {
        self.check_plans()?;
        let signals = SignalFd::new(&ENDING).context("receive signals").host_cannot()?;
        let mut failures = self.failures();
        for as_published in self.passes() {
            for experiment in self.experiments() {
                let end = self.run(experiment, as_published, &signals, &mut failures)?;
                self.write_failures(&failures)?;
                if end == WorkEnd::Interrupted {
                    say(&format!("interrupted; go on with: {}", self.again()));
                    return Ok(end);
                }
            }
        }
        Ok(WorkEnd::Finished)
    }

    /// The experiments are run once, and once more as published where that was asked for.
    fn passes(&self) -> impl Iterator<Item = bool> {
        [false, true].into_iter().take(if self.as_published { 2 } else { 1 })
    }

    /// Refuses a plan that is wrong before anything is run: the last one would be read hours after the first.
    pub(super) fn check_plans(&self) -> Result<(), Failure> {
        for as_published in self.passes() {
            for experiment in self.experiments() {
                let sets = sets_of(experiment, as_published);
                plan_of(&self.loaded, experiment.plan(self.mode), &sets)?;
            }
        }
        Ok(())
    }

    /// The command that goes on with this.
    fn again(&self) -> String {
        let mut words = vec!["vtax reproduce".to_owned(), shell_word(Path::new(&self.asked))];
        if self.mode == vtax_study::Mode::Full {
            words.push("--full".to_owned());
        }
        if self.as_published {
            words.push("--as-published".to_owned());
        }
        if !self.only.is_empty() {
            words.push(format!("--only {}", self.only.join(",")));
        }
        words.push(format!("--out {}", shell_word(&self.directory)));
        words.join(" ")
    }

    fn run(
        &self,
        experiment: &ExperimentPlan,
        as_published: bool,
        signals: &SignalFd,
        failures: &mut Failures,
    ) -> Result<WorkEnd, Failure> {
        let place = Self::place(&experiment.id, as_published);
        let (key, directory) = (place.display().to_string(), self.directory.join(&place));
        let before = read(&directory)?;
        match before.as_ref().map(|report| self::experiment(report).state) {
            Some(State::Complete) => {
                say(&format!("{key}: finished before"));
                return Ok(WorkEnd::Finished);
            }
            Some(State::Empty) => {
                let place = shell_word(&directory);
                say(&format!("{key}: finished before, and no trial counts; to run it again, remove {place}"));
                return Ok(WorkEnd::Finished);
            }
            _ => {}
        }
        let sets = sets_of(experiment, as_published);
        let plan = self.write_plan(experiment)?;
        say(&format!("{key}: {}", experiment.title));
        let mut arguments: Vec<OsString> = vec!["run".into()];
        if before.is_some() {
            arguments.extend([OsString::from("--resume"), directory.into_os_string()]);
        } else {
            arguments.extend([plan.into_os_string(), OsString::from("--out"), directory.into_os_string()]);
            let sets = sets.into_iter().flat_map(|set| [OsString::from("--set"), OsString::from(set)]);
            arguments.extend(sets);
        }
        let ChildExit { exit, error } = vtax(&arguments, signals)?;
        failures.remove(&key);
        match exit {
            Some(Exit::Done | Exit::Failed) => {}
            Some(Exit::Interrupted) => return Ok(WorkEnd::Interrupted),
            Some(Exit::BadInput | Exit::HostCannot | Exit::Bug) | None => {
                // A run of which no trial counts tells so itself.
                let killed = || exit.is_none().then(|| "its run was killed".to_owned());
                failures.extend(error.or_else(killed).map(|why| (key, why)));
            }
        }
        Ok(WorkEnd::Finished)
    }

    /// Writes an experiment's plan beside its run, where it can be looked at and run by hand.
    pub(super) fn write_plan(&self, experiment: &ExperimentPlan) -> Result<std::path::PathBuf, Failure> {
        let text = self.loaded.plan(experiment.plan(self.mode))?;
        let directory = self.directory.join("plans");
        vtax_store::create_directory(&directory)?;
        let path = directory.join(format!("{}.yaml", experiment.id));
        vtax_store::write_file(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Reads every run that is there, whether it is to be run now or not.
    pub(super) fn read(&self) -> Result<Read, Failure> {
        let failures = self.failures();
        let mut all = Read::default();
        for as_published in [false, true] {
            for plan in &self.loaded.study.experiments {
                let place = Self::place(&plan.id, as_published);
                let found = read(&self.directory.join(&place))?;
                let why = failures.get(&place.display().to_string());
                let state = found.as_ref().map(experiment);
                let over = state.as_ref().is_some_and(|run| run.state.is_over());
                let state = match (state, why) {
                    (Some(run), _) if over => Some(run),
                    (_, Some(why)) => {
                        Some(Experiment { state: State::Failed(why.clone()), ..Experiment::default() })
                    }
                    (run, None) => run,
                };
                if let Some(report) = &found {
                    all.hosts.insert(host(report));
                    all.runs.push(StudyRun {
                        experiment: plan.id.clone(),
                        as_published,
                        directory: place.display().to_string(),
                        notes: report.summary().notes.clone(),
                        products: products(report),
                    });
                }
                let of = if as_published { &mut all.published } else { &mut all.proper };
                of.extend(state.map(|run| (plan.id.clone(), run)));
            }
        }
        Ok(all)
    }

    fn failures(&self) -> Failures {
        // A reader's own file: one that can't be read tells nothing.
        let text = std::fs::read_to_string(self.directory.join(FAILED)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn write_failures(&self, failures: &Failures) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(failures).context("keep why an experiment failed")? + "\n";
        vtax_store::create_directory(&self.directory)?;
        Ok(vtax_store::write_file(&self.directory.join(FAILED), text.as_bytes())?)
    }
}

/// A run with its report; `None` where there is none.
fn read(directory: &Path) -> Result<Option<Report>, Failure> {
    match RunDir::open(directory) {
        Ok(run) => Ok(Some(Report::read(&run)?)),
        Err(StoreError::NotARun { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What changes in an experiment's plan.
fn sets_of(experiment: &ExperimentPlan, as_published: bool) -> Vec<String> {
    if as_published { experiment.published_sets() } else { Vec::new() }
}

/// Tells how far the work is, beside the results. Titles and names in it are a study's.
pub(super) fn say(text: &str) {
    // Nothing more can be said where even standard error is gone.
    let _ = writeln!(std::io::stderr().lock(), "{}", printable(text));
}
