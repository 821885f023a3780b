//! `vtax schema`: the JSON Schema of plans.

use crate::exit::{Exit, Outcome};
use crate::out;

/// Print the JSON Schema of plans, for editors that complete and check them (docs/plan.md).
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Outcome {
    out::json(&vtax_plan::schema())?;
    Ok(Exit::Done)
}
