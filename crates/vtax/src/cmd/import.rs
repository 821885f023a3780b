//! `vtax import`: plans from what other tools recorded.

use std::io::Write;
use std::path::{Path, PathBuf};

use vtax_plan::har::{self, HarError};
use vtax_units::{counted, printable};

use crate::cmd::files::write_new;
use crate::cmd::plan_name::plan_name;
use crate::exit::{Exit, Failure, Outcome};
use crate::out;

/// Write a plan from what another tool recorded.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// An HTTP archive, as browsers save it: the requests to one host as a session. What isn't taken is listed on standard error.
    Har(HarArgs),
}

#[derive(clap::Args)]
struct HarArgs {
    /// The archive.
    file: PathBuf,
    /// Write the plan to this file, which must not exist, instead of standard output.
    #[arg(long, short)]
    out: Option<PathBuf>,
    /// The plan's name.
    #[arg(long, default_value = "imported", value_parser = plan_name)]
    name: String,
    /// The statuses of the archive are expected: other ones are errors.
    #[arg(long)]
    expect: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let Command::Har(args) = &args.command;
    let options = har::Options { name: args.name.clone(), expect: args.expect };
    let imported = har::load(&args.file, &options).map_err(|error| not_imported(&args.file, error))?;
    match &args.out {
        Some(path) => write_new(path, &imported.plan)?,
        None => out::text(&imported.plan)?,
    }
    let mut text = format!("{} to {}\n", counted(imported.requests, "request"), imported.host);
    for left_out in &imported.left_out {
        text.push_str(&format!("not taken: {left_out}\n"));
    }
    for warning in &imported.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    // Nothing more can be said where even standard error is gone.
    let _ = std::io::stderr().lock().write_all(printable(&text).as_bytes());
    Ok(Exit::Done)
}

/// Why an archive isn't imported.
fn not_imported(file: &Path, error: HarError) -> Failure {
    match error {
        // It names the file.
        HarError::Plan(errors) => errors.into(),
        error @ (HarError::Json(_) | HarError::Nothing(_)) => {
            let what = format!("importing {}", file.display());
            Failure::new(Exit::BadInput, anyhow::Error::new(error).context(what))
        }
    }
}
