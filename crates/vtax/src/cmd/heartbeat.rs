//! `vtax heartbeat`: says that an emulated host lives.

use anyhow::Context;

use crate::exit::{Classify, Exit, Outcome};

/// Beats on two inherited sockets until it is killed. Started by vtax itself, never by hand.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Microseconds between two beats.
    #[arg(long)]
    interval_us: u64,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let words = ["--interval-us".to_owned(), args.interval_us.to_string()];
    vtax_vm::ft::heartbeat::run_process(&words).context("beat").host_cannot()?;
    Ok(Exit::Done)
}
