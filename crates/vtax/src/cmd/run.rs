//! `vtax run`: build, measure, report.

mod smoke_test;
mod uncounted;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use vtax_lab::{Isolation, LabOptions};
use vtax_plan::estimate::{Assumptions, estimate};
use vtax_plan::model::{Cell, Measure, Plan};
use vtax_plan::{is_calibration, is_smoke_test};
use vtax_report::Report;
use vtax_run::{
    Executor, LabExecutor, LiveProgress, PairSupport, RunEnd, RunError, Runner, Stop, TrialsOutcome,
    calibration,
};
use vtax_store::summary::Summary;
use vtax_store::{HOSTS_FILE, RunDir, RunWriter, TAGS_FACT};
use vtax_sys::cgroup::RunGroups;
use vtax_sys::clock::unix_ms;
use vtax_units::printable;
use vtax_vm::Cache;

use crate::cmd::on::{self, OnArgs};
use crate::cmd::run_target::{RunTarget, RunTargetArgs};
use crate::cmd::streams::Opener;
use crate::exit::{Classify, Exit, Failure, Outcome, report};
use crate::front::{ControllerScope, in_controller};
use crate::out;
use crate::progress::{Lines, Progress};
use crate::signals::stop_on_signals;
use crate::time::age;
use crate::version::commit;

/// Build the testbeds of a plan, measure, and write a report.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: RunTargetArgs,
    /// Measure nothing unless everything in the plan can be measured on this host, and fail at the end where no trial of a cell's
    /// measure counts.
    #[arg(long, conflicts_with = "on")]
    strict: bool,
    /// Make each trial once and briefly, to see that everything works before a long run. The figures say
    /// nothing. The run's name is the plan's with `-smoke-test` behind it.
    #[arg(long, conflicts_with_all = ["on", "resume"])]
    smoke_test: bool,
    /// Print JSON at the end: the run's directory, how it ended, and what `summary.json` holds (docs/formats.md).
    #[arg(long, conflicts_with_all = ["on", "smoke_test"])]
    json: bool,
    /// Print no progress.
    #[arg(short, long, conflicts_with = "on")]
    quiet: bool,
    #[command(flatten)]
    on: OnArgs,
}

/// What is to be done, found out before anything is started.
pub(super) struct Job {
    pub(super) plan: Plan,
    pub(super) directory: PathBuf,
    pub(super) plan_file: Option<String>,
    /// Words to find the run by.
    pub(super) tags: Vec<String>,
    pub(super) resume: bool,
    pub(super) strict: bool,
    /// Print what was found as JSON.
    json: bool,
    /// Print no progress.
    quiet: bool,
    /// What a new run takes along, by what its virtual machines will turn out to run on.
    calibrations: calibration::Found,
    /// The QEMU for protected virtual machines.
    pub(super) pairs: PairSupport,
    /// What opens streams to other hosts, where the plan has such.
    opener: Option<Opener>,
    /// The plan that this run is a smoke test of.
    smoke_test_of: Option<Plan>,
}

/// A run that has ended, for now or for good.
pub(super) struct Measured {
    pub(super) run: RunDir,
    pub(super) ended: RunEnd,
    pub(super) outcome: TrialsOutcome,
}

/// What a host gives the trials that are made on it.
struct TrialHost {
    /// How nodes are kept apart.
    options: LabOptions,
    /// Its `/proc`, which shows what runs beside the trials.
    proc: Option<OwnedFd>,
    /// Why there are no namespaces, where there are none.
    no_namespaces: Option<String>,
}

/// What a run does first where it is asked to stop.
const RUN_ENDS: &str = "taking the testbed down, then the report";

/// How a run ends whose trials came to this, once nothing is missing.
pub(super) fn exit_of(outcome: TrialsOutcome) -> Exit {
    match outcome {
        TrialsOutcome::SomeValid => Exit::Done,
        TrialsOutcome::ServicesFailed => Exit::Failed,
        TrialsOutcome::NoneValid => Exit::HostCannot,
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    // Of a run on several hosts it is in each host's own.
    let of_several = || args.target.resumed().is_some_and(|directory| directory.join(HOSTS_FILE).exists());
    if args.on.is_given() && of_several() {
        return on::run(&args.on, &args.target);
    }
    let mut whole = None;
    let adapt = |plan: Plan| {
        if !args.smoke_test {
            return plan;
        }
        let short = vtax_plan::smoke_test(&plan);
        whole = Some(plan);
        short
    };
    let target = args.target.resolve(adapt)?;
    check_resumed(&target)?;
    // Hosts that have roles in one experiment are none that each make their own.
    if args.on.is_given() && target.plan.hosts_asked() == 0 {
        return on::run(&args.on, &args.target);
    }
    // A run that goes on has the one it began with.
    let is_new = target.plan_file.is_some();
    let find = || calibration::find_all(Cache::of_user().dir(), &target.plan, &vtax_run::host());
    let calibrations = is_new.then(find).unwrap_or_default();
    let arguments = args.on.for_roles(&target.plan)?;
    let job = Job {
        strict: args.strict,
        json: args.json,
        quiet: args.quiet,
        calibrations,
        smoke_test_of: whole,
        ..Job::new(target, &arguments)?
    };
    in_controller(&job.left(), |scope, groups| {
        let conclude = |measured: Measured| match &job.smoke_test_of {
            Some(whole) => job.conclude_smoke_test(&measured, whole, args.target.overrides()),
            None => job.conclude(&measured),
        };
        let outcome = job.control(scope, groups, RUN_ENDS).and_then(conclude);
        outcome.unwrap_or_else(|failure| report(&failure))
    })
}

/// Refuses to go on with what isn't an ordinary run.
fn check_resumed(target: &RunTarget) -> Result<(), Failure> {
    if target.plan_file.is_some() {
        return Ok(());
    }
    let error = if is_smoke_test(&target.plan) {
        // Gone on with, it would be a run like any other, of figures that say nothing.
        anyhow::anyhow!("a smoke test isn't gone on with; make it again: vtax run PLAN --smoke-test")
    } else if is_calibration(&target.plan) {
        // Gone on with as a run, what it finds wouldn't be kept.
        let (directory, command) = (shell_word(&target.directory), resuming(&target.plan, &target.directory));
        anyhow::anyhow!("{directory} is a calibration and no ordinary run; `{command}` goes on with it")
    } else {
        return Ok(());
    };
    Err(error).bad_input()
}

/// The command that goes on with a run of this plan.
pub(super) fn resuming(plan: &Plan, directory: &Path) -> String {
    let (verb, on) = vtax_plan::resuming(plan);
    format!("vtax {verb} --resume {}{on}", shell_word(directory))
}

impl Job {
    /// What is to be done, strictly and without a calibration; what opens streams is started with these arguments.
    pub(super) fn new(target: RunTarget, arguments: &[OsString]) -> Result<Self, Failure> {
        let RunTarget { plan, directory, plan_file, tags } = target;
        let (resume, pairs) = (plan_file.is_none(), PairSupport::of(&plan));
        let opener = Opener::for_plan(&plan, arguments)?;
        Ok(Self {
            plan,
            directory,
            plan_file,
            tags,
            resume,
            strict: true,
            json: false,
            quiet: false,
            calibrations: calibration::Found::default(),
            pairs,
            opener,
            smoke_test_of: None,
        })
    }

    /// What its user has where vtax itself is killed, and the command that goes on with it.
    pub(super) fn left(&self) -> String {
        match self.smoke_test_of {
            Some(_) => "finished trials are kept".to_owned(),
            None => {
                let command = resuming(&self.plan, &self.directory);
                format!("finished trials are kept, and `{command}` goes on")
            }
        }
    }

    /// The whole run, in the controller. Where a signal asks it to stop, this is done first.
    pub(super) fn control(
        &self,
        scope: ControllerScope,
        groups: &RunGroups,
        does_first: &'static str,
    ) -> Result<Measured, Failure> {
        let (stop, lines) = (Stop::default(), Lines::new(self.quiet));
        // Before any other thread: signals must be blocked in all of them.
        stop_on_signals(&stop, &lines, does_first).host_cannot()?;
        let was_there = self.directory.exists();
        let mut store = self.open_store()?;
        let host = self.host(scope, groups)?;
        let progress = Progress::new(&self.plan, lines);
        let ended = self.measure(&mut store, host, &stop, &progress);
        let removes = ended.as_ref().err().is_some_and(|failure| self.measured_nothing(failure));
        if removes {
            progress.line("nothing was measured: the run directory is removed again");
        }
        progress.finish();
        let run = store.run().clone();
        drop(store);
        if removes {
            remove(run.path(), was_there);
        }
        let (ended, outcome) = ended?;
        Ok(Measured { run, ended, outcome })
    }

    /// Whether a new run was refused as a whole for what this host lacks, before its first trial.
    fn measured_nothing(&self, failure: &Failure) -> bool {
        let Failure::Other { error, .. } = failure else { return false };
        let why = error.downcast_ref::<RunError>();
        let refused = matches!(why, Some(RunError::NothingPossible(_) | RunError::NotAllPossible(_)));
        self.strict && !self.resume && refused
    }

    fn open_store(&self) -> Result<RunWriter, Failure> {
        if self.resume {
            return Ok(RunDir::resume(&self.directory)?);
        }
        let mut provenance =
            vtax_run::provenance(&self.plan, self.plan_file.clone(), env!("CARGO_PKG_VERSION"));
        provenance.vtax_commit = commit().map(str::to_owned);
        if !self.tags.is_empty() {
            provenance.facts.insert(TAGS_FACT.to_owned(), self.tags.join(","));
        }
        Ok(RunDir::create(&self.directory, &self.plan, &provenance)?)
    }

    /// What trials are made with there.
    fn host(&self, scope: ControllerScope, groups: &RunGroups) -> Result<TrialHost, Failure> {
        let (mut host_network, mut proc) = (None, None);
        let (isolation, no_namespaces) = match scope {
            ControllerScope::Inside(inside) => {
                inside.end_with_front().context("watch the front process").host_cannot()?;
                host_network = Some(Arc::new(inside.host_network));
                proc = inside.host_proc;
                (Isolation::Namespaces, None)
            }
            ControllerScope::Outside(reason) => {
                // A name that `--resume` cleans up, should this be killed.
                let directory = self.directory.join("nodes.tmp");
                std::fs::create_dir_all(&directory).context("create directory for nodes").host_cannot()?;
                (Isolation::Loopback { directory }, Some(reason))
            }
        };
        let groups = Some(groups.clone());
        let streams = self.opener.as_ref().and_then(Opener::streams);
        let options = LabOptions { groups, host_network, streams, ..LabOptions::new(isolation) };
        Ok(TrialHost { options, proc, no_namespaces })
    }

    fn measure(
        &self,
        store: &mut RunWriter,
        TrialHost { options, proc, no_namespaces }: TrialHost,
        stop: &Stop,
        progress: &Progress,
    ) -> Result<(RunEnd, TrialsOutcome), Failure> {
        progress.line(&format!("run directory: {}", self.directory.display()));
        let nodes = match &options.isolation {
            Isolation::Loopback { directory } => Some(directory.clone()),
            Isolation::Namespaces => None,
        };
        let lengths = lengths(&self.plan);
        let length = |cell: &Cell, measure: &Measure| {
            lengths.get(&(cell.id.clone(), measure.name.clone())).copied().unwrap_or_default()
        };
        let mut executor = LabExecutor::new(&self.plan, options, &self.pairs, stop.clone(), progress)?;
        executor.watch_others(proc.as_ref());
        if let Some(calibration) = self.calibrations.on(executor.accelerator().as_deref()) {
            store.write_calibration(calibration)?;
            progress.line(&format!("testbed calibrated {}", age(calibration.made_unix_ms, unix_ms())));
        }
        let live = LiveProgress::start(store.run(), progress)?;
        let mut runner = Runner::new(&self.plan, store, &live, stop.clone(), &length)?;
        if let Some(why) = runner.other_accelerator(&executor) {
            return Err(anyhow::anyhow!(why)).host_cannot();
        }
        if self.smoke_test_of.is_some() {
            runner.repeat_nothing();
        }
        if let Some(reason) = no_namespaces {
            runner.note(&format!("namespaces are refused on this host: {reason}"))?;
        }
        runner.leave_out_impossible(self.strict, |cell| executor.obstacle(cell))?;
        let ended = runner.run(&mut executor);
        let outcome = runner.outcome();
        drop(executor);
        if let Some(nodes) = nodes {
            // What can't be removed is named when the run is resumed or looked at.
            let _ = std::fs::remove_dir_all(nodes);
        }
        Ok((ended?, outcome))
    }

    /// Writes the report and prints the verdicts.
    fn conclude(&self, measured: &Measured) -> Outcome {
        let written = vtax_report::write_all(&measured.run)?;
        let (last, exit) = self.ending(measured, &written)?;
        if self.json {
            if !last.is_empty() {
                Lines::new(self.quiet).line(last.trim_end());
            }
            let ended = Ended {
                run: self.directory.display().to_string(),
                ended: if exit == Exit::Interrupted { "interrupted" } else { "completed" },
                summary: written.summary(),
            };
            out::json(&ended)?;
            return Ok(exit);
        }
        let mut out = std::io::stdout().lock();
        // The report is written; a closed pipe must not turn that into a failure.
        let _ = writeln!(out, "\n{}", printable(&written.table()));
        let _ = writeln!(out, "report: {}", measured.run.path().join("report.html").display());
        let _ = out.write_all(last.as_bytes());
        Ok(exit)
    }

    /// How the run ends, and the lines that say so below its verdicts.
    fn ending(&self, measured: &Measured, written: &Report) -> Result<(String, Exit), Failure> {
        let Measured { run, ended, outcome } = measured;
        if *ended == RunEnd::Interrupted {
            let command = resuming(&self.plan, &self.directory);
            return Ok((format!("interrupted; go on with: {command}\n"), Exit::Interrupted));
        }
        if *outcome != TrialsOutcome::SomeValid {
            let why = uncounted::none(&self.plan, written.trials(), &written.summary().trials);
            return Ok((why, exit_of(*outcome)));
        }
        let trials = written.trials();
        if self.strict
            && let Some((line, outcome)) = uncounted::of_measures(&self.plan, trials)
        {
            return Ok((line, exit_of(outcome)));
        }
        Ok((uncounted::cells(&self.plan, trials, &left_out(run)?), Exit::Done))
    }
}

/// Removes what a run put into its directory, and the directory where it made that too, so that the same command can be given again. What
/// can't be removed is told then.
fn remove(directory: &Path, was_there: bool) {
    if !was_there {
        let _ = std::fs::remove_dir_all(directory);
        return;
    }
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Ended<'a> {
    /// The run's directory.
    run: String,
    /// `completed`, or `interrupted`.
    ended: &'a str,
    summary: &'a Summary,
}

/// The cells that a run left out, and why.
fn left_out(run: &RunDir) -> Result<Vec<(String, String)>, Failure> {
    let mut found = Vec::new();
    for entry in run.journal()? {
        let entry = entry?;
        found.extend(entry.left_out().map(|(cell, why)| (cell.to_owned(), why.to_owned())));
    }
    Ok(found)
}

/// Estimated length of a trial by cell id and measure name.
fn lengths(plan: &Plan) -> HashMap<(String, String), Duration> {
    let trials = estimate(plan, &Assumptions::TCG).trials;
    trials.into_iter().map(|t| ((t.cell, t.measure), Duration::from(t.time))).collect()
}

/// A path as it can be pasted into a shell.
pub(super) fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@=,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
