//! What benchmarks against a peer share: programs on a CPU of their own, run to their ends.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use vtax_sys::reap::{self, Reaped};

/// How `vtax load` ends where the generator was at its limit (README, "Exit codes").
const GENERATOR_LIMITED: i32 = 3;

/// A command bound to a CPU from its first instruction on.
pub(crate) fn pinned(cpu: &str, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", cpu, program]);
    command
}

/// Runs to the end; what it printed and what it used.
///
/// # Errors
/// It can't be started, or ends with another status than 0.
pub(crate) fn run(command: &mut Command, name: &str) -> Result<(String, Reaped)> {
    run_to(command, name, &[0])
}

/// Runs a load of vtax's own to the end; what it found and what it used. Its figures count here also where the
/// generator was at its limit: what a request costs it is the question.
///
/// # Errors
/// As [`run`], or it printed no JSON.
pub(crate) fn run_load(command: &mut Command) -> Result<(serde_json::Value, Reaped)> {
    let (output, reaped) = run_to(command, "vtax load", &[0, GENERATOR_LIMITED])?;
    Ok((serde_json::from_str(&output).context("reading what vtax load printed")?, reaped))
}

fn run_to(command: &mut Command, name: &str, codes: &[i32]) -> Result<(String, Reaped)> {
    let started = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = started.with_context(|| format!("starting {name}"))?;
    let output = std::io::read_to_string(child.stdout.take().context("no pipe")?)?;
    let reaped = reap::wait(child)?;
    ensure!(
        reaped.status.code().is_some_and(|code| codes.contains(&code)),
        "{name}: {}; is it installed? (`target/vtax setup --tests`)\n{output}",
        reaped.status
    );
    Ok((output, reaped))
}

/// The middle of the values, the upper one of two; NaN where there are none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
