//! `vtax host-agent`: a host's end of a run on several.

use std::path::PathBuf;

use anyhow::Context;
use vtax_hosts::{HostAgent, serve};

use crate::exit::{Classify, Exit, Outcome};
use crate::version::version;

/// Serves a controller on standard input and output. Started by vtax itself, never by hand.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A directory of its own, made where it is missing and removed at the end.
    #[arg(long)]
    dir: PathBuf,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let program = std::env::current_exe().context("find vtax's own program").host_cannot()?;
    let agent = HostAgent { program, version: version().to_owned(), directory: args.dir.clone() };
    let (read, write) =
        vtax_sys::inherit::standard_streams().context("the controller's stream").bad_input()?;
    serve(std::fs::File::from(read), std::fs::File::from(write), &agent).host_cannot()?;
    Ok(Exit::Done)
}
