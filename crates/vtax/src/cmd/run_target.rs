//! Which run a command is to make or to go on with.

use std::path::{Path, PathBuf};

use anyhow::Context;
use vtax_plan::model::Plan;
use vtax_store::RunDir;
use vtax_sys::clock::unix_ms;

use crate::cmd::check::PlanArgs;
use crate::exit::{Classify, Failure};
use crate::time::timestamp;

/// The arguments by which commands that measure are told of that run.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["plan", "resume"])))]
pub(super) struct RunTargetArgs {
    #[command(flatten)]
    plan: Option<PlanArgs>,
    /// Directory for the run; `runs/NAME-TIME` unless given. It must not exist or be empty.
    #[arg(long, conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// A word to find the run by on the page of `vtax serve`. May be repeated.
    #[arg(long = "tag", value_name = "WORD", conflicts_with = "resume", value_parser = tag)]
    tags: Vec<String>,
    /// Go on with the run in this directory: only what is missing is measured.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["plan", "overrides"])]
    resume: Option<PathBuf>,
}

/// The run, found out before anything is started.
pub(super) struct RunTarget {
    pub(super) plan: Plan,
    pub(super) directory: PathBuf,
    /// The plan's file; `None`: the run is there already and has its plan in it.
    pub(super) plan_file: Option<String>,
    /// Words to find the run by.
    pub(super) tags: Vec<String>,
}

/// A tag: it stands beside others with commas between them.
fn tag(text: &str) -> Result<String, String> {
    const LONGEST: usize = 60;
    let plain = |c: char| c.is_alphanumeric() || "-_./:+@".contains(c);
    if text.is_empty() || text.chars().count() > LONGEST || !text.chars().all(plain) {
        return Err(format!("a tag has 1 to {LONGEST} letters, digits or characters of -_./:+@"));
    }
    Ok(text.to_owned())
}

impl RunTargetArgs {
    /// The directory of the run to go on with.
    pub(super) fn resumed(&self) -> Option<&Path> {
        self.resume.as_deref()
    }

    /// Changes to the plan.
    pub(super) fn overrides(&self) -> &[String] {
        self.plan.as_ref().map_or(&[][..], PlanArgs::overrides)
    }

    /// Reads the plan; that of a new run is changed by `adapt`.
    ///
    /// # Errors
    ///
    /// Where the plan is faulty, or the run to go on with can't be read.
    pub(super) fn resolve(&self, adapt: impl FnOnce(Plan) -> Plan) -> Result<RunTarget, Failure> {
        if let Some(directory) = &self.resume {
            let plan = RunDir::open(directory).and_then(|run| run.plan())?;
            return Ok(RunTarget { plan, directory: directory.clone(), plan_file: None, tags: Vec::new() });
        }
        let args = self.plan.as_ref().context("which plan? give one, or --resume RUN").bad_input()?;
        let plan = adapt(args.load()?);
        let default = || PathBuf::from("runs").join(format!("{}-{}", plan.name, timestamp(unix_ms())));
        let directory = self.out.clone().unwrap_or_else(default);
        let (plan_file, tags) = (Some(args.file().display().to_string()), self.tags.clone());
        Ok(RunTarget { plan, directory, plan_file, tags })
    }
}
