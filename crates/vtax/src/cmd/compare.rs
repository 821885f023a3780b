//! `vtax compare`: two runs of one plan against each other.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use vtax_report::compare::{CompareError, Options, compare};
use vtax_report::{Report, ReportError};
use vtax_store::RunDir;
use vtax_units::Share;

use crate::exit::{Classify, Exit, Failure, Outcome};
use crate::out;

/// Compare two runs of one plan: what does run B cost over run A?
///
/// Refuses (exit code 2) what can't be compared, with every reason. With --max-tax it is a gate:
/// exit code 1 where a tax is shown to exceed the limit (docs/compare.md).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The baseline run's directory.
    a: PathBuf,
    /// The candidate run's directory.
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
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let options = Options {
        max_tax: args.max_tax,
        strict: args.strict,
        metrics: args.metric.clone(),
        same_machine: args.same_machine,
    };
    let comparison = match compare(&a, &b, &options) {
        Ok(comparison) => comparison,
        Err(error) => {
            // What shows tests or comments must say so, too.
            if let CompareError::Refused(refusal) = &error {
                args.write(&refusal.junit(), &refusal.markdown())?;
            }
            return Err(classified(error.is_bad_input(), error));
        }
    };
    args.write(&comparison.junit(), &comparison.markdown())?;
    if let Some(path) = &args.html {
        write(path, &comparison.html())?;
    }
    let text = if args.json { comparison.json() } else { comparison.table() };
    out::text(&text)?;
    Ok(if comparison.passes() { Exit::Done } else { Exit::Failed })
}

impl Args {
    /// Writes what CI reads, where it was asked for.
    fn write(&self, junit: &str, markdown: &str) -> Result<(), Failure> {
        for (path, text) in [(&self.junit, junit), (&self.markdown, markdown)] {
            if let Some(path) = path {
                write(path, text)?;
            }
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    // Plainly, so that a pipe or a device may be named; a missing directory is the argument's fault.
    let written = std::fs::write(path, text);
    let missing = written.as_ref().is_err_and(|e| e.kind() == ErrorKind::NotFound);
    let written = written.with_context(|| format!("cannot write {}", path.display()));
    if missing { written.bad_input() } else { written.host_cannot() }
}

fn read(path: &Path) -> Result<Report, Failure> {
    let run = RunDir::open(path).map_err(|e| classified(e.is_bad_input(), e))?;
    Report::read(&run).map_err(|e: ReportError| classified(e.is_bad_input(), e))
}

fn classified(is_bad_input: bool, error: impl Into<anyhow::Error>) -> Failure {
    let exit = if is_bad_input { Exit::BadInput } else { Exit::HostCannot };
    Failure { exit, error: error.into() }
}
