//! The command line: one module per subcommand.

use clap::{Parser, Subcommand};

use crate::exit::Outcome;

/// Measures what every layer between a client and a service costs.
#[derive(Parser)]
#[command(name = "vtax", version, about, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Subcommand)]
pub(crate) enum Command {}

/// Runs a subcommand.
pub(crate) fn run(command: &Command) -> Outcome {
    match *command {}
}
