//! `vtax man`: the manual pages, for who packages vtax.

use std::path::PathBuf;

use anyhow::Context;
use clap::CommandFactory;

use crate::cmd::Cli;
use crate::exit::{Classify, Exit, Outcome};

/// Write the manual pages into a directory: one for vtax, and one for each subcommand.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The directory; it is made where it isn't there.
    directory: PathBuf,
}

pub(crate) fn run(args: &Args) -> Outcome {
    vtax_store::create_directory(&args.directory)?;
    let command = Cli::command().version(env!("CARGO_PKG_VERSION")).disable_version_flag(true);
    clap_mangen::generate_to(command, &args.directory)
        .with_context(|| format!("write manual pages into {}", args.directory.display()))
        .host_cannot()?;
    Ok(Exit::Done)
}
