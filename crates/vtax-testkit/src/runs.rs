//! Plans that vtax itself runs.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs a plan with changes (`--set`) by the program `vtax` in this directory, where `run` is its run; every trial that
/// ended, in the journal's form. On a busy machine none may count, but all have a result.
///
/// # Panics
///
/// Where the run came to nothing, with what vtax said.
#[must_use]
pub fn trials(vtax: &str, directory: &Path, plan: &str, changes: &[&str]) -> Vec<Value> {
    let (file, out) = (directory.join("plan.yaml"), directory.join("run"));
    std::fs::write(&file, plan).expect("a plan can be written");
    let mut command = Command::new(vtax);
    command.arg("run");
    for change in changes {
        command.args(["--set", change]);
    }
    let output = command.args([file.as_path(), Path::new("--out"), &out]).output().expect("vtax starts");
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // 3: no trial counts.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{text}");
    let trials = ended(&out);
    assert!(!trials.is_empty(), "{text}");
    assert!(out.join("report.html").exists(), "{text}");
    trials
}

/// Every trial of a run that ended.
///
/// # Panics
///
/// Where its journal can't be read.
#[must_use]
pub fn ended(run: &Path) -> Vec<Value> {
    let journal = std::fs::read_to_string(run.join("journal.jsonl")).expect("a journal");
    let lines = journal.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["event"] == "trial-ended").collect()
}
