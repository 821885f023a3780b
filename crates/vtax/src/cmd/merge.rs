//! `vtax merge`: runs of one plan on several hosts, taken together.

use std::path::PathBuf;

use vtax_hosts::run_directories;
use vtax_report::merged::{MergeOptions, Merged, merge};

use crate::cmd::compare::trimmed;
use crate::cmd::files::open_report;
use crate::exit::{Exit, Failure, Outcome};
use crate::out;

/// Take runs of one plan on several hosts together: each host's tax, their spread, the overall one.
///
/// Refuses (exit code 2) what can't be merged, with every reason (docs/many-machines.md).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run directories, also those of `vtax run --on`.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Merge only these, such as capacity,latency_p99; `all`: every metric with a tax.
    #[arg(long, value_delimiter = ',', value_name = "METRIC")]
    metric: Vec<String>,
    /// Write merged.json, merged.html and csv/ into this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let merged = merged(&args.runs, &args.metric)?;
    let written = match &args.out {
        Some(directory) => merged.write(directory)?,
        None => Vec::new(),
    };
    if args.json {
        out::text(&merged.json())?;
    } else {
        let files: String = written.iter().map(|path| format!("{}\n", path.display())).collect();
        out::printable(&format!("{}{files}", merged.table()))?;
    }
    Ok(Exit::Done)
}

/// Merges the runs that these paths stand for.
///
/// # Errors
///
/// Where one can't be read, or they can't be merged.
fn merged(paths: &[PathBuf], metrics: &[String]) -> Result<Merged, Failure> {
    let mut runs = Vec::new();
    for path in paths {
        for directory in run_directories(path)? {
            runs.push(open_report(&directory)?);
        }
    }
    Ok(merge(&runs, &MergeOptions { metrics: trimmed(metrics) })?)
}
