//! `vtax export`: runs in the formats of other tools.

use std::path::PathBuf;

use anyhow::Context;
use vtax_export::ParquetFile;
use vtax_export::send::Receiver;
use vtax_store::RunDir;

use crate::cmd::files::{open_report, write_output};
use crate::exit::{Exit, Outcome};
use crate::out;

/// Write a run for other tools: OpenTelemetry's OTLP, or Parquet for DuckDB, pandas and others.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Metrics and trials as OTLP in JSON: metrics.json and traces.json, or to a receiver.
    Otlp(OtlpArgs),
    /// Every figure of every trial as one Parquet file.
    Parquet(ParquetArgs),
}

#[derive(clap::Args)]
struct OtlpArgs {
    /// The run directory.
    run: PathBuf,
    /// Write both files into this directory, over those that are there.
    #[arg(long, value_name = "DIR", conflicts_with = "to", required_unless_present = "to")]
    out: Option<PathBuf>,
    /// Send to this receiver instead, such as http://localhost:4318.
    #[arg(long, value_name = "URL")]
    to: Option<String>,
}

#[derive(clap::Args)]
struct ParquetArgs {
    /// Run directories.
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Otlp(args) => open_telemetry(args),
        Command::Parquet(args) => parquet(args),
    }
}

fn open_telemetry(args: &OtlpArgs) -> Outcome {
    let receiver = args.to.as_deref().map(Receiver::parse).transpose()?;
    let report = open_report(&args.run)?;
    if let Some(directory) = &args.out {
        vtax_store::create_directory(directory)?;
    }
    let parts = [
        ("metrics", "/v1/metrics", vtax_export::otlp::metrics(&report)),
        ("traces", "/v1/traces", vtax_export::otlp::traces(&report)),
    ];
    for (name, path, value) in parts {
        let text = serde_json::to_vec(&value).context("making JSON")?;
        if let Some(receiver) = &receiver {
            receiver.post(path, &text)?;
            out::text(&format!("sent {name}, {} bytes\n", text.len()))?;
        }
        if let Some(directory) = &args.out {
            let file = directory.join(format!("{name}.json"));
            write_output(&file, &text)?;
            out::text(&format!("{}\n", file.display()))?;
        }
    }
    Ok(Exit::Done)
}

fn parquet(args: &ParquetArgs) -> Outcome {
    // What isn't a run is told before anything is made. One that can't be read costs nothing either: the file takes the place of what
    // is there when it is whole.
    for run in &args.runs {
        RunDir::open(run)?;
    }
    let mut file = ParquetFile::create(&args.out)?;
    let mut rows = 0;
    for run in &args.runs {
        rows += file.add(&open_report(run)?)?;
    }
    file.finish()?;
    out::text(&format!("{}: {rows} rows\n", args.out.display()))?;
    Ok(Exit::Done)
}
