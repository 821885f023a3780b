//! `vtax compare`: two runs of one plan against each other, or several of each side.

use std::path::PathBuf;

use anyhow::Context as _;
use vtax_report::Report;
use vtax_report::compare::{CompareError, Options, Runs, compare_runs};
use vtax_units::Share;

use crate::cmd::files::{open_reports, write_output};
use crate::exit::{Classify, Exit, Failure, Outcome};
use crate::out;

/// Compare two runs of one plan: what does run B cost over run A?
///
/// Where A and B are directories of at least three runs each, every run counts once: what differs from one session to the next
/// is in the intervals then.
///
/// Refuses (exit code 2) what can't be compared, with every reason. With --max-tax it is a gate:
/// exit code 1 where a tax is shown to exceed the limit (docs/compare.md).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The baseline run's directory, or one with several runs in it.
    a: PathBuf,
    /// The candidate's, likewise.
    b: PathBuf,
    /// Fail (exit code 1) where a tax is shown to be higher: 10% lets B cost up to 1.1 times as much.
    #[arg(long, value_name = "SHARE")]
    max_tax: Option<Share>,
    /// Also fail where the runs can't tell whether the limit is kept.
    #[arg(long, requires = "max_tax")]
    strict: bool,
    /// Compare only these, such as capacity,latency_p99; `all`: every metric with a tax.
    #[arg(long, value_delimiter = ',', value_name = "METRIC")]
    metric: Vec<String>,
    /// Refuse runs of different machines instead of warning.
    #[arg(long)]
    same_machine: bool,
    /// Print JSON instead of the table (docs/compare.md).
    #[arg(long)]
    json: bool,
    /// Write JUnit XML, one test case per comparison.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write a summary in Markdown for a pull request.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the comparison as one self-contained page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let (a, b) = (open_reports(&args.a)?, open_reports(&args.b)?);
    let (a, b) = (side(&a)?, side(&b)?);
    let options = Options {
        max_tax: args.max_tax,
        strict: args.strict,
        metrics: trimmed(&args.metric),
        same_machine: args.same_machine,
    };
    let comparison = match compare_runs(a, b, &options) {
        Ok(comparison) => comparison,
        Err(error) => {
            // What shows tests or comments must say so, too.
            if let CompareError::Refused(refusal) = &error {
                args.write(&refusal.junit(), &refusal.markdown())?;
            }
            return Err(error.into());
        }
    };
    args.write(&comparison.junit(), &comparison.markdown())?;
    if let Some(path) = &args.html {
        write_output(path, comparison.html())?;
    }
    if args.json {
        out::text(&comparison.json())?;
    } else {
        out::printable(&comparison.table())?;
    }
    Ok(if comparison.passes() { Exit::Done } else { Exit::Failed })
}

/// Names as they are meant where blanks stand behind the commas between them.
pub(super) fn trimmed(names: &[String]) -> Vec<String> {
    names.iter().map(|name| name.trim().to_owned()).collect()
}

fn side(runs: &[Report]) -> Result<Runs<'_>, Failure> {
    Runs::new(runs).context("there is no run to compare").bad_input()
}

impl Args {
    /// Writes what CI reads, where it was asked for.
    fn write(&self, junit: &str, markdown: &str) -> Result<(), Failure> {
        for (path, text) in [(&self.junit, junit), (&self.markdown, markdown)] {
            if let Some(path) = path {
                write_output(path, text)?;
            }
        }
        Ok(())
    }
}
