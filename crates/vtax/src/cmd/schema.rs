//! `vtax schema`: JSON Schemas of what vtax reads and prints.

use clap::ValueEnum;

use crate::exit::{Exit, Outcome};
use crate::out;

/// Of what `vtax load --json` prints.
const LOAD: &str = include_str!("../../../../schema/load.schema.json");

/// Print a JSON Schema: of plans, for editors that complete and check them (docs/plan.md), or of what
/// `vtax load --json` prints.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Of what.
    #[arg(value_enum, default_value_t = Of::Plan)]
    of: Of,
}

#[derive(Clone, Copy, ValueEnum)]
enum Of {
    /// Plans.
    Plan,
    /// What `vtax load --json` prints.
    Load,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match args.of {
        Of::Plan => out::json(&vtax_plan::schema())?,
        Of::Load => out::text(LOAD)?,
    }
    Ok(Exit::Done)
}
