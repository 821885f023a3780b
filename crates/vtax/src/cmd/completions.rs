//! `vtax completions`: what shells complete.

use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::cmd::Cli;
use crate::exit::{Exit, Outcome};
use crate::out;

/// Print what a shell needs to complete vtax's command line.
///
/// For one session of bash: `source <(vtax completions bash)`. Packages install them.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// For which shell.
    #[arg(value_enum)]
    shell: For,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum For {
    /// bash.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let shell = match args.shell {
        For::Bash => Shell::Bash,
        For::Zsh => Shell::Zsh,
        For::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "vtax", &mut script);
    out::text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
