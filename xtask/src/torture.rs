//! Ends of runs at random moments, for as long as one likes.

use anyhow::Result;

use crate::tasks::{cargo_command, run, vtax};

/// Runs what `make build` left into every kind of end for so many seconds, and prints what came of it.
pub(crate) fn run_for(seconds: &str) -> Result<()> {
    let test = ["test", "--workspace", "--test", "residue", "--", "--nocapture", "whatever_befalls"];
    run(cargo_command().args(test).env("VTAX_TORTURE", seconds).env("VTAX_BIN", vtax()))
}
