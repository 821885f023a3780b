//! `vtax schema`: JSON Schemas of what vtax reads and prints.

use clap::ValueEnum;

use crate::exit::{Exit, Outcome};
use crate::out;

/// Of what `vtax load --json` prints.
const LOAD: &str = include_str!("../../schema/load.schema.json");

/// Print a JSON Schema: of plans, for editors that complete and check them (docs/plan.md), of what
/// `vtax load --json` prints, or of studies (docs/studies.md).
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
    /// Studies, `claims.yaml`.
    Study,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match args.of {
        Of::Plan => out::json(&vtax_plan::schema())?,
        Of::Load => out::text(LOAD)?,
        Of::Study => out::json(&vtax_study::schema())?,
    }
    Ok(Exit::Done)
}
