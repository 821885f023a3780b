//! The command line: one module per subcommand.

mod agent;
mod calibrate;
mod check;
mod compare;
mod completions;
mod doctor;
mod explain;
mod export;
mod files;
mod heartbeat;
mod host_agent;
mod import;
mod init;
mod lab;
mod licences;
mod load;
mod man;
mod merge;
mod on;
mod plan_name;
mod report;
mod reproduce;
mod run;
mod run_target;
mod schema;
mod serve;
mod service;
mod setup;
mod streams;
mod subscribers;
#[cfg(test)]
mod test_args;
mod welcome;

use clap::{Parser, Subcommand};
use vtax_vm::Cache;

use crate::exit::{Classify, Exit, Outcome};
use crate::{out, version};

/// What most people begin with.
const EXAMPLES: &str = "\
Examples:
  vtax init                          a first plan, by five questions
  vtax doctor                        what this host can measure
  vtax check plans/quick.yaml        what a plan would take
  vtax run plans/quick.yaml          measure, and write a report
  vtax compare runs/before runs/after --max-tax 10%
  vtax serve                         a page to watch and browse runs";

/// Measures what every layer between a client and a service costs.
#[derive(Parser)]
#[command(name = "vtax", about, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// Print the version; with --verbose also the commit, what it runs on, and the versions of its formats.
    #[arg(short = 'V', long)]
    version: bool,
    /// Say more where something fails, such as what QEMU said before it ended.
    #[arg(long, global = true)]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The subcommands.
#[derive(Subcommand)]
enum Command {
    Init(init::Args),
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
    Explain(explain::Args),
    Load(load::Args),
    Import(import::Args),
    Lab(lab::Args),
    Schema(schema::Args),
    Service(service::Args),
    Completions(completions::Args),
    Licences(licences::Args),
    #[command(hide = true)]
    Man(man::Args),
    #[command(hide = true)]
    Agent(agent::Args),
    #[command(hide = true)]
    Heartbeat(heartbeat::Args),
    #[command(hide = true)]
    HostAgent(host_agent::Args),
    #[command(hide = true)]
    Streams(streams::Args),
}

impl Command {
    /// Whether it runs programs from the cache, or keeps there what no other user may read.
    fn trusts_cache(&self) -> bool {
        matches!(
            self,
            Self::Run(_)
                | Self::Serve(_)
                | Self::Reproduce(_)
                | Self::Calibrate(_)
                | Self::Doctor(_)
                | Self::Setup(_)
                | Self::Lab(_)
        )
    }
}

/// Runs what the command line asks for.
pub(crate) fn run(cli: &Cli) -> Outcome {
    if cli.version {
        let short = || format!("vtax {}\n", version::version());
        out::text(&if cli.verbose { version::bug_report_text() } else { short() })?;
        return Ok(Exit::Done);
    }
    let Some(command) = &cli.command else { return welcome::run() };
    if command.trusts_cache() {
        Cache::of_user().check().host_cannot()?;
    }
    match command {
        Command::Init(args) => init::run(args),
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
        Command::Explain(args) => explain::run(args),
        Command::Load(args) => load::run(args),
        Command::Import(args) => import::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Service(args) => service::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Licences(args) => licences::run(args),
        Command::Man(args) => man::run(args),
        Command::Agent(args) => agent::run(args),
        Command::Heartbeat(args) => heartbeat::run(args),
        Command::HostAgent(args) => host_agent::run(args),
        Command::Streams(args) => streams::run(args),
    }
}
