//! `vtax report`: a run as a page, a workbook and tables.

use std::path::PathBuf;

use clap::ValueEnum;
use vtax_report::{Format, Report};
use vtax_store::RunDir;

use crate::exit::{Exit, Failure, Outcome};
use crate::out;

/// Write the report of a run, complete or not: HTML, XLSX, CSV and JSON.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run directory.
    run: PathBuf,
    /// Write only these.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FORMAT")]
    format: Vec<FormatName>,
    /// Write into this directory instead of the run's own.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print summary.json to standard output; write files only where --format or --out asks for them.
    #[arg(long)]
    json: bool,
}

/// What a report can be written as.
#[derive(Clone, Copy, ValueEnum)]
enum FormatName {
    /// report.html: one page that needs nothing else
    Html,
    /// report.xlsx
    Xlsx,
    /// csv/*.csv
    Csv,
    /// summary.json (docs/formats.md)
    Json,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Html => Self::Html,
            FormatName::Xlsx => Self::Xlsx,
            FormatName::Csv => Self::Csv,
            FormatName::Json => Self::Json,
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let run = RunDir::open(&args.run)?;
    let report = Report::read(&run)?;
    let written = if args.json && args.format.is_empty() && args.out.is_none() {
        Vec::new()
    } else {
        write(args, &run, &report)?
    };
    if args.json {
        out::text(&report.json())?;
    } else {
        let files = written.iter().map(|path| format!("{}\n", path.display())).collect::<String>();
        out::printable(&format!("{}\n{files}", report.table()))?;
    }
    Ok(Exit::Done)
}

fn write(args: &Args, run: &RunDir, report: &Report) -> Result<Vec<PathBuf>, Failure> {
    let formats: Vec<Format> = match args.format.as_slice() {
        [] => Format::ALL.to_vec(),
        some => some.iter().map(|f| Format::from(*f)).collect(),
    };
    let directory = args.out.as_deref().unwrap_or(run.path());
    vtax_store::create_directory(directory)?;
    let mut written = Vec::new();
    for format in formats {
        written.extend(report.write(format, directory)?);
    }
    Ok(written)
}
