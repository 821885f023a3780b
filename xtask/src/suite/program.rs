//! A test program: which of its tests run, and what came of them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::in_memory;
use super::lanes::WAITING;
use super::output::{WHOLE, count, failed_cases, wrong};
use super::process::end_of;

/// A test program that cargo has built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) package: String,
    /// As a reader knows it: `vtax-load tests/net.rs`.
    pub(super) name: String,
    /// The package's folder, where cargo would run it.
    pub(super) folder: PathBuf,
    pub(super) executable: PathBuf,
    /// Which of its tests, in the words of cargo's harness: all of them where there are none.
    pub(super) filter: Vec<String>,
}

impl Program {
    /// The tests with one of these words in their names, and all others.
    pub(super) fn halves(&self, words: &[&str]) -> [Self; 2] {
        let named = words.join(", ");
        let others: Vec<&str> = words.iter().flat_map(|word| ["--skip", *word]).collect();
        [self.with(&named, words), self.with(&format!("but {named}"), &others)]
    }

    /// A part of its tests, and what it is called.
    fn with(&self, part: &str, filter: &[&str]) -> Self {
        let filter = filter.iter().map(|word| (*word).to_owned()).collect();
        Self { name: format!("{} ({part})", self.name), filter, ..self.clone() }
    }

    /// Those of its tests that failed, all of them where it didn't name each.
    pub(super) fn failed(&self, outcome: &Outcome) -> Self {
        if outcome.cases.len() < outcome.failed {
            return self.clone();
        }
        let filter = std::iter::once("--exact".to_owned()).chain(outcome.cases.iter().cloned()).collect();
        Self { filter, ..self.clone() }
    }
}

/// Most time for one program, twice what the longest takes.
const LONGEST: Duration = Duration::from_secs(20 * 60);

/// How a test program ended.
#[derive(Clone)]
pub(super) struct Outcome {
    pub(super) program: Program,
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) took: Duration,
    /// Names of the tests that failed.
    cases: Vec<String>,
    /// What of it failed, as it said it.
    pub(super) wrong: Vec<String>,
    /// What of it failed at first, and passed when it ran once more.
    pub(super) unsteady: Vec<String>,
}

impl Outcome {
    /// With what came of it when it ran again, or those of its tests that had failed.
    pub(super) fn and_again(self, mut again: Self) -> Self {
        let part = again.program != self.program;
        if part && again.passed + again.failed < self.cases.len() {
            again.failed = self.cases.len();
            again.wrong = self.wrong.clone();
        }
        let before = if part { self.passed } else { 0 };
        let mut unsteady = if again.failed == 0 { self.wrong } else { Vec::new() };
        unsteady.extend(again.unsteady);
        Self {
            program: self.program,
            passed: before + again.passed,
            took: self.took + again.took,
            unsteady,
            ..again
        }
    }
}

/// The name of the file that has what a program said: each half of one has its own.
fn log_of(program: &Program) -> String {
    let name = program.name.replace(".rs", "");
    format!("{}.log", name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "-"))
}

/// Runs one program, one that only computes at the lowest priority, and then prints all that it said, so that two at a time stay
/// readable.
pub(super) fn test(program: Program, computes: bool, logs: &Path, printing: &Mutex<()>) -> Result<Outcome> {
    let path = logs.join(log_of(&program));
    let log = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    let executable = &program.executable;
    let mut command = if computes { in_memory::command(executable) } else { Command::new(executable) };
    command.args(&program.filter).current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    command.env("VTAX_SKIPPED", logs.join("skipped.txt"));
    if program.name == WAITING.0 {
        command.env("RUST_TEST_THREADS", WAITING.1);
    }
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let started = Instant::now();
    let (status, hung) = end_of(&mut command, LONGEST)?;
    let took = started.elapsed();
    let said = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut said = String::from_utf8_lossy(&said).into_owned();
    if let Some(threads) = hung {
        said.push_str(&format!("\ntest {WHOLE} ... FAILED: no end in {LONGEST:?}; its threads: {threads}"));
    }
    let (passed, failed) = count(&said, status.success());
    let _whole = printing.lock().unwrap_or_else(PoisonError::into_inner);
    println!("\n     Running {}\n{}", program.name, said.trim_end());
    if !said.contains("\ntest result: ") {
        let word = if failed == 0 { "ok" } else { "FAILED" };
        println!("\ntest result: {word}. {passed} passed; {failed} failed; {status}");
    }
    let (cases, wrong) =
        if failed > 0 { (failed_cases(&said), wrong(&said)) } else { (Vec::new(), Vec::new()) };
    // What a program has run again by itself, and says so.
    let unsteady = said.lines().filter(|line| failed == 0 && line.ends_with(": UNSTEADY, run again"));
    let unsteady = unsteady.map(str::to_owned).collect();
    Ok(Outcome { program, passed, failed, took, cases, wrong, unsteady })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::suite) fn named(name: &str) -> Program {
        Program {
            package: name.split(' ').next().unwrap_or_default().to_owned(),
            name: name.to_owned(),
            folder: PathBuf::new(),
            executable: PathBuf::new(),
            filter: Vec::new(),
        }
    }

    fn outcome(program: Program, passed: usize, cases: &[&str]) -> Outcome {
        let cases: Vec<String> = cases.iter().map(|case| (*case).to_owned()).collect();
        let (failed, took) = (cases.len(), Duration::from_secs(1));
        Outcome { program, passed, failed, took, wrong: cases.clone(), cases, unsteady: Vec::new() }
    }

    #[test]
    fn only_what_failed_runs_again() {
        let said = "test a: b ... ok (1 s)\ntest c: d ... FAILED (2 s)\ntest e ... FAILED\ntest e ... FAILED";
        assert_eq!(failed_cases(said), ["c: d", "e"]);
        let first = outcome(named("x y.rs"), 5, &["c: d"]);
        let only = first.program.failed(&first);
        assert_eq!(only.filter, ["--exact", "c: d"]);
        let mended = first.clone().and_again(outcome(only.clone(), 1, &[]));
        assert_eq!((mended.passed, mended.failed, mended.unsteady), (6, 0, vec!["c: d".to_owned()]));
        let wrong = first.clone().and_again(outcome(only.clone(), 0, &["c: d"]));
        assert_eq!((wrong.passed, wrong.failed, wrong.unsteady), (5, 1, vec![]));
        // A name that isn't found again is no success.
        assert_eq!(first.and_again(outcome(only, 0, &[])).failed, 1);
    }

    #[test]
    fn a_program_that_named_no_test_runs_again_as_a_whole() {
        let hung = "test a ... ok\n\ntest program ... FAILED: no end in 900s; its threads: b";
        assert_eq!(failed_cases(hung), Vec::<String>::new());
        let first = Outcome { failed: 1, ..outcome(named("x y.rs"), 5, &[]) };
        assert_eq!(first.program.failed(&first), first.program);
        let again = outcome(first.program.clone(), 6, &[]);
        assert_eq!(first.and_again(again).passed, 6);
    }

    #[test]
    fn each_half_of_a_program_keeps_what_it_said() {
        let program = named("vtax tests/cli.rs");
        assert_eq!(log_of(&program), "vtax-tests-cli.log");
        let logs = program.halves(&["residue"]).map(|half| log_of(&half));
        assert_ne!(logs[0], logs[1]);
        assert!(logs.iter().all(|log| !log.contains(['/', ' '])), "{logs:?}");
    }

    #[test]
    fn a_program_that_hangs_is_no_success() {
        let said =
            "running 2 tests\ntest a ... ok\n\ntest program ... FAILED: no end in 900s; its threads: b";
        assert_eq!(count(said, false), (1, 1));
        assert_eq!(wrong(said), ["test program ... FAILED: no end in 900s; its threads: b"]);
    }
}
