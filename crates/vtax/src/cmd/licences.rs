//! `vtax licences`: what vtax is made of.

use crate::exit::{Exit, Outcome};
use crate::out;

/// Written by `cargo xtask licences`, and checked by `cargo xtask check`.
const LICENCES: &str = include_str!("../../licences.txt");

/// Print the packages that this program is made of, each with its licence, and the licences' texts.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the packages, without the texts.
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    // The list ends at the first line of equals signs.
    let list = LICENCES.split("\n====").next().unwrap_or(LICENCES);
    out::text(&if args.list { format!("{}\n", list.trim_end()) } else { LICENCES.to_owned() })?;
    Ok(Exit::Done)
}
