//! Plans that vtax itself runs.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How often is looked whether a run has what is wanted of it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longest time until a run is in a phase, also on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(60);

/// A plan of a few seconds that asks for nothing but what every host has.
pub const SMALL_PLAN: &str = "\
vtax: 1
name: small
baseline: native
environments: [native, native: {name: other}]
services: [http]
workload:
  http: {target: /bytes/100, connections: 2}
measure:
  - latency: {load: 50/s, warmup: 0s, duration: 1s}
repeat: 3
";

/// Runs a plan with changes (`--set`) by the program `vtax` in this directory, where `run` is its run; every trial that
/// ended, in the journal's form. On a busy machine none may count, but all have a result.
///
/// # Panics
///
/// Where the run came to nothing, with what vtax said.
#[must_use]
pub fn trials(vtax: &str, directory: &Path, plan: &str, changes: &[&str]) -> Vec<Value> {
    let (mut command, out) = command(vtax, directory, plan, changes);
    let output = command.output().expect("vtax starts");
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // 3: no trial counts.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{text}");
    concluded(&out, &text)
}

/// The same, but the run is interrupted, as by Ctrl-C, once so many different pairs of cell and measure have a trial with a
/// result: all of the plan's. Left alone on a busy machine it would make trials again until one counts, up to twelve times each.
///
/// # Panics
///
/// Where the run came to nothing, with what vtax said.
#[must_use]
pub fn each_once(vtax: &str, directory: &Path, plan: &str, changes: &[&str], pairs: usize) -> Vec<Value> {
    let (mut command, out) = command(vtax, directory, plan, changes);
    let said = directory.join("said");
    let file = File::create(&said).expect("a file can be made");
    command.stdout(file.try_clone().expect("a descriptor")).stderr(file);
    let mut run = command.spawn().expect("vtax starts");
    let mut asked = false;
    let status = loop {
        if let Some(status) = run.try_wait().expect("it is a child") {
            break status;
        }
        if !asked && with_result(&out) >= pairs {
            kill_process(Pid::from_child(&run), Signal::INT).expect("it is a child");
            asked = true;
        }
        thread::sleep(LOOK_EVERY);
    };
    let text = fs::read_to_string(said).unwrap_or_default();
    // 3: no trial counts; 130: it was interrupted.
    assert!(matches!(status.code(), Some(0 | 3 | 130)), "{status}: {text}");
    concluded(&out, &text)
}

/// The command that runs a plan with changes, and the directory of its run.
fn command(vtax: &str, directory: &Path, plan: &str, changes: &[&str]) -> (Command, PathBuf) {
    let (file, out) = (directory.join("plan.yaml"), directory.join("run"));
    fs::write(&file, plan).expect("a plan can be written");
    let mut command = Command::new(vtax);
    command.arg("run");
    for change in changes {
        command.args(["--set", change]);
    }
    command.args([file.as_path(), Path::new("--out"), &out]);
    (command, out)
}

/// The trials of a run that has a report.
fn concluded(run: &Path, said: &str) -> Vec<Value> {
    let trials = ended(run);
    assert!(!trials.is_empty(), "{said}");
    assert!(run.join("report.html").exists(), "{said}");
    trials
}

/// How many pairs of cell and measure have a trial with a result, while the run goes on.
fn with_result(run: &Path) -> usize {
    let journal = fs::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
    // The last line may be half written.
    let lines = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let has_result = |line: &Value| {
        line["event"] == "trial-ended" && line["observations"].as_array().is_some_and(|all| !all.is_empty())
    };
    let pairs = lines.filter(has_result).map(|line| [&line["cell"], &line["measure"]].map(Value::to_string));
    pairs.collect::<BTreeSet<_>>().len()
}

/// The phase that a run is in, as its own live file tells it; `None` where it tells none.
#[must_use]
pub fn phase(run: &Path) -> Option<String> {
    let live = fs::read_to_string(run.join("live.jsonl")).ok()?;
    let last = serde_json::from_str::<Value>(live.lines().last()?).ok()?;
    last["phase"].as_str().filter(|phase| !phase.is_empty()).map(str::to_owned)
}

/// Waits until a run is in the middle of a load. Its live file has a line a second at most, so that the load must last for longer.
///
/// # Panics
///
/// Where it isn't within a minute.
pub fn until_measuring(run: &Path) {
    let until = Instant::now() + PATIENCE;
    while phase(run).as_deref() != Some("measuring") {
        assert!(Instant::now() < until, "no load within {PATIENCE:?}: {:?}", phase(run));
        thread::sleep(LOOK_EVERY);
    }
}

/// Every trial of a run that ended.
///
/// # Panics
///
/// Where its journal can't be read.
#[must_use]
pub fn ended(run: &Path) -> Vec<Value> {
    let journal = fs::read_to_string(run.join("journal.jsonl")).expect("a journal");
    let lines = journal.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["event"] == "trial-ended").collect()
}
