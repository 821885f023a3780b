//! The command line: one module per subcommand.

mod agent;
mod calibrate;
mod check;
mod chosen;
mod compare;
mod doctor;
mod export;
mod heartbeat;
mod host_agent;
mod import;
mod lab;
mod load;
mod many;
mod merge;
mod report;
mod reproduce;
mod run;
mod schema;
mod serve;
mod service;
mod setup;
mod subscribers;

use clap::{Parser, Subcommand};

use crate::exit::Outcome;
use crate::version::version;

/// What most people begin with.
const EXAMPLES: &str = "\
Examples:
  vtax doctor                        what this host can measure
  vtax check plans/quick.yaml        what a plan would take
  vtax run plans/quick.yaml          measure, and write a report
  vtax compare runs/before runs/after --max-tax 10%
  vtax serve                         a page to watch and browse runs";

/// Measures what every layer between a client and a service costs.
#[derive(Parser)]
#[command(name = "vtax", version = version(), about, after_help = EXAMPLES, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Report(report::Args),
    Compare(compare::Args),
    Merge(merge::Args),
    Serve(serve::Args),
    Export(export::Args),
    Reproduce(reproduce::Args),
    Calibrate(calibrate::Args),
    Check(check::Args),
    Doctor(doctor::Args),
    Setup(setup::Args),
    Load(load::Args),
    Import(import::Args),
    Lab(lab::Args),
    Schema(schema::Args),
    Service(service::Args),
    #[command(hide = true)]
    Agent(agent::Args),
    #[command(hide = true)]
    Heartbeat(heartbeat::Args),
    #[command(hide = true)]
    HostAgent(host_agent::Args),
}

/// Runs a subcommand.
pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Run(args) => run::run(args),
        Command::Report(args) => report::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Export(args) => export::run(args),
        Command::Reproduce(args) => reproduce::run(args),
        Command::Calibrate(args) => calibrate::run(args),
        Command::Check(args) => check::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Setup(args) => setup::run(args),
        Command::Load(args) => load::run(args),
        Command::Import(args) => import::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Service(args) => service::run(args),
        Command::Agent(args) => agent::run(args),
        Command::Heartbeat(args) => heartbeat::run(args),
        Command::HostAgent(args) => host_agent::run(args),
    }
}
