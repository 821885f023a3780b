//! `vtax schema`: the JSON Schema of plans.

use std::io::Write;

use anyhow::Context;

use crate::exit::{Exit, Outcome};

/// Print the JSON Schema of plans, for editors that complete and check them (docs/plan.md).
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Outcome {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &vtax_plan::schema()).context("printing the schema")?;
    writeln!(out).context("printing the schema")?;
    Ok(Exit::Done)
}
