//! Parsers given anything, by libFuzzer, on any compiler.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::place::root;
use crate::tasks::{newest, run};

/// What cargo-fuzz passes to the compiler, without a sanitizer: coverage feedback and checked arithmetic. The parsers have no `unsafe` that
/// one could find something in, and without it any compiler will do.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions --cfg fuzzing";

/// When a target has had enough.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    Seconds(u64),
    /// So many inputs were tried.
    Inputs(u64),
}

/// Reads `[SECONDS | --inputs N] [TARGET..]`.
pub(crate) fn arguments<'a>(args: &'a [&'a str]) -> Result<(Until, &'a [&'a str])> {
    let number = |text: &str| text.parse().with_context(|| format!("{text:?} is no number"));
    Ok(match args {
        ["--inputs", n, targets @ ..] => (Until::Inputs(number(n)?), targets),
        [seconds, targets @ ..] if seconds.starts_with(|c: char| c.is_ascii_digit()) => {
            (Until::Seconds(number(seconds)?), targets)
        }
        targets => (Until::Seconds(20), targets),
    })
}

/// Builds every fuzz target and runs all, or the named ones. What they learn is kept in `fuzz/corpus` and is where the next run starts.
///
/// # Errors
///
/// Where a target fails; the input that it failed for is in `fuzz/artifacts` then.
pub(crate) fn fuzz(until: Until, wanted: &[&str]) -> Result<()> {
    let fuzz = root().join("fuzz");
    let target = fuzz.join("target");
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--bins", "--manifest-path"]).arg(fuzz.join("Cargo.toml"));
    // Out of this workspace's settings: a static executable can't carry the fuzzer's runtime.
    build.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", FLAGS).env_remove("CARGO");
    run(&mut build)?;
    let sources = fuzz.join("src/bin");
    let entries = std::fs::read_dir(&sources).with_context(|| format!("reading {}", sources.display()))?;
    let stems = entries.flatten().filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()));
    let mut names: Vec<String> = stems.collect();
    names.sort();
    if let Some(unknown) = wanted.iter().find(|name| !names.iter().any(|known| known == *name)) {
        bail!("no fuzz target {unknown:?}: {}", names.join(", "));
    }
    println!("{:<14} {:>12} {:>10} {:>9} {:>8}", "target", "inputs", "per s", "new", "seconds");
    for name in names.iter().filter(|name| wanted.is_empty() || wanted.contains(&name.as_str())) {
        one(name, &newest(&target, &format!("release/{name}"))?, until)?;
    }
    Ok(())
}

/// Runs a target, and prints how many inputs it tried.
fn one(name: &str, program: &Path, until: Until) -> Result<()> {
    let (corpus, artifacts) = (place("corpus", name)?, place("artifacts", name)?);
    let limit = match until {
        Until::Seconds(n) => format!("-max_total_time={n}"),
        Until::Inputs(n) => format!("-runs={n}"),
    };
    let artifacts = format!("-artifact_prefix={}/", artifacts.display());
    let mut command = Command::new(program);
    command.arg(corpus).args(seeds(name));
    command.args([&limit, &artifacts, "-verbosity=0", "-print_final_stats=1"]);
    let started = std::time::Instant::now();
    let output = command.current_dir(root()).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("starting {}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the target {name} failed: {}\n{said}", output.status);
    let stat = |what: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(what));
        line.map_or("?", |rest| rest.trim_start_matches(':').trim()).to_owned()
    };
    let [inputs, rate, new] =
        ["number_of_executed_units", "average_exec_per_sec", "new_units_added"].map(stat);
    println!("{name:<14} {inputs:>12} {rate:>10} {new:>9} {:>8}", started.elapsed().as_secs());
    Ok(())
}

fn place(what: &str, name: &str) -> Result<PathBuf> {
    let place = root().join("fuzz").join(what).join(name);
    std::fs::create_dir_all(&place).with_context(|| format!("creating {}", place.display()))?;
    Ok(place)
}

/// Whole inputs of its kind that the sources have, to start from; they aren't written to.
fn seeds(name: &str) -> Vec<PathBuf> {
    let places: &[&str] = match name {
        "plan" | "sipp" => &["plans"],
        "sip" => &["crates/vtax-wire/tests/torture"],
        "iscsi" | "nfs" => &["crates/vtax-wire/tests/captures"],
        _ => &[],
    };
    places.iter().map(|place| root().join(place)).collect()
}
