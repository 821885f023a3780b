//! Plans that vtax itself runs.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::programs::Killed;

/// How often is looked whether a run has what is wanted of it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longest time until a run is in a phase, also on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time until a run that is interrupted once it has what is wanted has come to its end: far below what the suite gives a program.
const ENDS_WITHIN: Duration = Duration::from_secs(600);

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
/// Where the run came to nothing, or to no end within ten minutes, with what vtax said.
#[must_use]
pub fn each_once(vtax: &str, directory: &Path, plan: &str, changes: &[&str], pairs: usize) -> Vec<Value> {
    once_within(ENDS_WITHIN, command(vtax, directory, plan, changes), directory, pairs)
}

fn once_within(
    longest: Duration,
    (mut command, out): (Command, PathBuf),
    directory: &Path,
    pairs: usize,
) -> Vec<Value> {
    let said = directory.join("said");
    let file = File::create(&said).expect("a file can be made");
    command.stdout(file.try_clone().expect("a descriptor")).stderr(file);
    let mut run = Killed::new(command.spawn().expect("vtax starts"));
    let (mut asked, mut found) = (false, Found::default());
    let until = Instant::now() + longest;
    let status = loop {
        if let Some(status) = run.try_wait().expect("it is a child") {
            break status;
        }
        if !asked && found.with_result(&out) >= pairs {
            kill_process(Pid::from_child(&run), Signal::INT).expect("it is a child");
            asked = true;
        }
        if Instant::now() > until {
            run.kill().expect("it is a child");
            let text = fs::read_to_string(&said).unwrap_or_default();
            panic!("no end within {longest:?}; interrupted: {asked}: {text}");
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

/// What has been found in a journal so far.
#[derive(Default)]
struct Found {
    /// How long the journal was then.
    length: u64,
    pairs: usize,
}

impl Found {
    /// How many pairs of cell and measure have a trial with a result, while the run goes on. The journal is read where it has
    /// grown: to read it each time would take CPUs from the trials.
    fn with_result(&mut self, run: &Path) -> usize {
        let journal = run.join("journal.jsonl");
        let length = fs::metadata(&journal).map_or(0, |file| file.len());
        if length != self.length {
            *self = Self { length, pairs: with_result(&fs::read_to_string(journal).unwrap_or_default()) };
        }
        self.pairs
    }
}

/// How many pairs of cell and measure have a trial with a result in a journal.
fn with_result(journal: &str) -> usize {
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

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::programs::{goes_on, make};

    /// A directory of this test's own, which goes with it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let place = std::env::temp_dir().join(format!("testkit-runs-{name}-{}", std::process::id()));
            fs::create_dir(&place).unwrap();
            Self(place)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_run_without_an_end_is_killed_and_what_it_said_is_told() {
        let place = Place::new("hangs");
        let (program, number) = (place.0.join("program"), place.0.join("number"));
        make(
            &program,
            &format!("#!/bin/sh\necho $$ > {}\necho it hangs\nexec sleep 600\n", number.display()),
        );
        let longest = Duration::from_secs(20);
        let made = || once_within(longest, (Command::new(&program), place.0.join("run")), &place.0, 1);
        let failed = catch_unwind(AssertUnwindSafe(made)).expect_err("it has no end");
        let told = failed.downcast_ref::<String>().unwrap();
        assert!(told.starts_with("no end within 20s; interrupted: false: it hangs"), "{told}");
        let process: u32 = fs::read_to_string(number).unwrap().trim().parse().unwrap();
        assert!(!goes_on(process));
    }

    #[test]
    fn a_journal_is_read_again_only_where_it_has_grown() {
        let place = Place::new("journal");
        let journal = place.0.join("journal.jsonl");
        let ended = |cell: &str, found: &str| {
            format!(
                "{{\"event\":\"trial-ended\",\"cell\":\"{cell}\",\"measure\":\"m\",\"observations\":[{found}]}}\n"
            )
        };
        let mut found = Found::default();
        assert_eq!(found.with_result(&place.0), 0, "there is none yet");
        let whole = [ended("a", "1"), ended("a", "1"), ended("b", "")].concat();
        let torn = format!("{whole}{{\"event\":");
        fs::write(&journal, &torn).unwrap();
        assert_eq!(found.with_result(&place.0), 1);
        // As long as before, it is taken for the same.
        fs::write(&journal, "x".repeat(torn.len())).unwrap();
        assert_eq!(found.with_result(&place.0), 1);
        fs::write(&journal, whole + &ended("b", "1")).unwrap();
        assert_eq!(found.with_result(&place.0), 2);
    }
}
