//! `vtax reproduce`: published studies repeated, and their claims judged.

mod check;
mod child;
mod listed;
mod smoke_test;
mod work;

use std::path::{Path, PathBuf};

use vtax_plan::model::Plan;
use vtax_report::study::StudyReport;
use vtax_study::{ExperimentPlan, Loaded, Mode, open};
use vtax_sys::clock::unix_ms;

use crate::exit::{Classify, Exit, Failure, Outcome};
use crate::out;
use crate::version::version;

pub(super) use check::{check, is_study};

/// Repeat a published study on this host, and judge its claims: held, contradicted, can't tell, can't be run here.
///
/// Without a study, lists those that vtax brings along. Each experiment is a run of its own; what was finished before is
/// not run again, and what was cut short goes on (docs/studies.md).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A study that vtax brings along, or a folder with one.
    study: Option<String>,
    /// Run the full plans instead of those that take minutes.
    #[arg(long, requires = "study")]
    full: bool,
    /// Run each experiment once more as the study did: its number of trials, its options.
    #[arg(long, requires = "study")]
    as_published: bool,
    /// Run only these experiments.
    #[arg(long, value_delimiter = ',', value_name = "EXPERIMENT", requires = "study")]
    only: Vec<String>,
    /// Show its claims, experiments and defects; run nothing.
    #[arg(long, requires = "study", conflicts_with_all = ["report", "only", "out"])]
    list: bool,
    /// Make the report of what was run before; run nothing.
    #[arg(long, requires = "study")]
    report: bool,
    /// Make each trial of its plans once and briefly, to see that everything works before hours are spent; judge no claim.
    #[arg(long, requires = "study", conflicts_with_all = ["report", "list", "as_published"])]
    smoke_test: bool,
    /// Directory for runs and report; `runs/reproduce-NAME-quick` (or `-full`) unless given.
    #[arg(long, requires = "study")]
    out: Option<PathBuf>,
}

/// A study to reproduce, with everything that was found out before anything is started.
struct Job {
    /// The study as it was asked for.
    asked: String,
    loaded: Loaded,
    mode: Mode,
    as_published: bool,
    only: Vec<String>,
    directory: PathBuf,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let Some(name) = &args.study else {
        out::text(&listed::all()?)?;
        return Ok(Exit::Done);
    };
    let loaded = open(name)?;
    let mode = if args.full { Mode::Full } else { Mode::Quick };
    if args.list {
        out::printable(&listed::one(&loaded)?)?;
        return Ok(Exit::Done);
    }
    let default = || PathBuf::from("runs").join(format!("reproduce-{}-{}", loaded.study.name, mode.word()));
    let directory = args.out.clone().unwrap_or_else(default);
    let job = Job {
        asked: name.clone(),
        mode,
        as_published: args.as_published,
        only: args.only.clone(),
        directory,
        loaded,
    };
    job.check_only()?;
    if args.smoke_test {
        return job.smoke_test();
    }
    let ended = if args.report { work::WorkEnd::Finished } else { job.work()? };
    let exit = job.conclude()?;
    Ok(if ended == work::WorkEnd::Interrupted { Exit::Interrupted } else { exit })
}

/// The plan of an experiment, with changes as `vtax run --set` has them.
fn plan_of(loaded: &Loaded, file: &str, sets: &[String]) -> Result<Plan, Failure> {
    let text = loaded.plan(file)?;
    Ok(vtax_plan::parse(file, text.as_bytes(), sets)?)
}

impl Job {
    /// Refuses names of experiments that the study doesn't have.
    fn check_only(&self) -> Result<(), Failure> {
        let study = &self.loaded.study;
        let unknown = self.only.iter().find(|id| study.experiment(id).is_none());
        let Some(unknown) = unknown else { return Ok(()) };
        let known: Vec<&str> = study.experiments.iter().map(|experiment| experiment.id.as_str()).collect();
        Err(anyhow::anyhow!("`{}` has no experiment `{unknown}`: {}", study.name, known.join(", ")))
            .bad_input()
    }

    /// Experiments that are to be run.
    fn experiments(&self) -> impl Iterator<Item = &ExperimentPlan> {
        let all = self.loaded.study.experiments.iter();
        all.filter(move |experiment| self.only.is_empty() || self.only.contains(&experiment.id))
    }

    /// Where an experiment's run is, from the job's directory.
    fn place(experiment: &str, as_published: bool) -> PathBuf {
        if as_published { Path::new("as-published").join(experiment) } else { PathBuf::from(experiment) }
    }

    /// Reads the runs, judges the claims, writes the report.
    fn conclude(&self) -> Outcome {
        let read = self.read()?;
        let found = vtax_study::reproduce(
            &self.loaded.study,
            self.mode,
            &read.proper,
            &read.published,
            read.hosts.into_iter().collect(),
        );
        let report = StudyReport {
            study: &self.loaded.study,
            found: &found,
            runs: &read.runs,
            made_unix_ms: unix_ms(),
            vtax: version(),
        };
        vtax_store::create_directory(&self.directory)?;
        let written = report.write(&self.directory)?;
        let files: String = written.iter().map(|path| format!("{}\n", path.display())).collect();
        out::printable(&format!("{}\n{files}", report.table()))?;
        // The host could do nothing of it.
        let nothing = found.states.values().all(|state| matches!(state, vtax_study::State::Failed(_)));
        Ok(if nothing && !found.states.is_empty() { Exit::HostCannot } else { Exit::Done })
    }
}
