//! Ends of runs at random moments, for as long as one likes.

use std::process::Command;

use anyhow::Result;

use crate::tasks::{run, vtax};

/// Runs what `make build` left into every kind of end for so many seconds, and prints what came of it.
pub(crate) fn run_for(seconds: &str) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let test = ["test", "--workspace", "--test", "residue", "--", "--nocapture", "whatever_befalls"];
    run(Command::new(cargo).args(test).env("VTAX_TORTURE", seconds).env("VTAX_BIN", vtax()))
}
