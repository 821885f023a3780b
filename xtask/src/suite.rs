//! Runs the whole test suite, two programs at a time where they don't disturb each other.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::place::root;
use crate::tasks::cargo_command;

/// Crates whose tests measure nothing, and disturb little when they run at the lowest priority: they compute and read files,
/// and those of vtax-serve also look at its pages in a browser.
const COMPUTE: &[&str] = &[
    "vtax-docs",
    "vtax-export",
    "vtax-hosts",
    "vtax-plan",
    "vtax-report",
    "vtax-serve",
    "vtax-stats",
    "vtax-store",
    "vtax-study",
    "vtax-topology",
    "vtax-units",
    "vtax-wire",
    "vtax-fixture",
    "xtask",
];

/// Programs that compare the processes, control groups and files of the machine before and after a run, which must be
/// none of another program's runs, or that take a CPU away from all others; of one of them only the tests with one of these words
/// in their names.
const LIST: &[(&str, &[&str])] = &[
    ("vtax tests/residue.rs", &[]),
    ("vtax-lab tests/fault_tolerance/main.rs", &["residue", "starved"]),
    ("vtax-lab tests/lab.rs", &[]),
];

/// A program, and how many of its tests run at a time: some only wait until a lease is over. It limits those that have hosts itself.
const WAITING: (&str, &str) = ("vtax tests/many.rs", "4");

/// Programs whose systems are guests, which have the same CPU in every run: beside one another each takes longer, while the generators'
/// CPU is idle.
const GUESTS: &[&str] = &[
    "vtax tests/run_desktop.rs",
    "vtax tests/run_ft.rs",
    "vtax tests/run_mounted.rs",
    "vtax tests/run_systems.rs",
    "vtax-agent tests/guest.rs",
    "vtax-agent tests/kamailio.rs",
    "vtax-lab tests/fault_tolerance/main.rs",
    "vtax-lab tests/guest.rs",
    "vtax-lab tests/paths.rs",
];

/// The programs by what may run beside them. First come those that measure: one of `guests` beside one of `measure`, and two of either
/// once the other has ended. With three at a time, trials were disturbed and made again: some programs took seven times as long, and
/// the whole suite no less. Then come one of `list` and one of `compute`, and two of those once `list` has ended.
#[derive(Default)]
struct Lanes {
    guests: Vec<Program>,
    measure: Vec<Program>,
    list: Vec<Program>,
    compute: Vec<Program>,
}

impl Lanes {
    fn of(programs: Vec<Program>) -> Self {
        let mut lanes = Self::default();
        for program in programs {
            let lists = LIST.iter().find(|(name, _)| *name == program.name);
            let guests = GUESTS.contains(&program.name.as_str());
            match lists {
                Some((_, [])) => lanes.list.push(program),
                Some((_, words)) => {
                    let [named, others] = program.halves(words);
                    lanes.list.push(named);
                    if guests { lanes.guests.push(others) } else { lanes.measure.push(others) }
                }
                None if guests => lanes.guests.push(program),
                None if COMPUTE.contains(&program.package.as_str()) => lanes.compute.push(program),
                None => lanes.measure.push(program),
            }
        }
        lanes
    }
}

/// A test program that cargo has built.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    package: String,
    /// As a reader knows it: `vtax-load tests/net.rs`.
    name: String,
    /// The package's folder, where cargo would run it.
    folder: PathBuf,
    executable: PathBuf,
    /// Which of its tests, in the words of cargo's harness: all of them where there are none.
    filter: Vec<String>,
}

impl Program {
    /// The tests with one of these words in their names, and all others.
    fn halves(&self, words: &[&str]) -> [Self; 2] {
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
    fn failed(&self, outcome: &Outcome) -> Self {
        if outcome.cases.len() < outcome.failed {
            return self.clone();
        }
        let filter = std::iter::once("--exact".to_owned()).chain(outcome.cases.iter().cloned()).collect();
        Self { filter, ..self.clone() }
    }
}

/// Most time for one program, twice what the longest takes.
const LONGEST: Duration = Duration::from_secs(20 * 60);

/// What stands for a test's name where a program didn't end.
const WHOLE: &str = "program";

/// How a test program ended.
#[derive(Clone)]
struct Outcome {
    program: Program,
    passed: usize,
    failed: usize,
    took: Duration,
    /// Names of the tests that failed.
    cases: Vec<String>,
    /// What of it failed, as it said it.
    wrong: Vec<String>,
    /// What of it failed at first, and passed when it ran once more.
    unsteady: Vec<String>,
}

impl Outcome {
    /// With what came of it when it ran again, or those of its tests that had failed.
    fn and_again(self, mut again: Self) -> Self {
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

/// What cargo has built for the tests.
#[derive(Default)]
struct Built {
    programs: Vec<Program>,
    /// Whether the compiler had something to say.
    warned: bool,
}

/// The setting up that goes on while the rest is compiled.
type SettingUp = JoinHandle<Result<()>>;

/// Which compiler builds the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compiler {
    Plain,
    /// One that lints what it compiles, where a warning is an error: to lint and to build apart reads everything twice.
    Linting,
}

/// Builds every test, installs what they need by the vtax that was built for them as soon as there is one, runs them all whatever
/// fails, and tells what failed and how long each program took. A test that failed runs once more when all others have
/// ended: what passes then is no failure, and is named all the same, since it depends on what the machine does.
///
/// # Errors
///
/// What doesn't build, install or start, and the names of the programs that failed.
pub(crate) fn run(compiler: Compiler) -> Result<()> {
    let mut setting_up = None;
    let built = build(compiler, &mut setting_up);
    // Whatever came of the build: packages are not installed half.
    let set_up = setting_up.map(joined);
    let programs = built?.programs;
    set_up.context("cargo built no vtax for the tests")??;
    let logs = root().join("target/test-logs");
    std::fs::create_dir_all(&logs).with_context(|| format!("creating {}", logs.display()))?;
    let lanes = Lanes::of(programs);
    let skipped = logs.join("skipped.txt");
    std::fs::write(&skipped, "").with_context(|| format!("writing {}", skipped.display()))?;
    let printing = Mutex::new(());
    let run = |programs: &Mutex<std::vec::IntoIter<Program>>, low: bool| -> Result<Vec<Outcome>> {
        let next = || programs.lock().unwrap_or_else(PoisonError::into_inner).next();
        std::iter::from_fn(next).map(|program| test(program, low, &logs, &printing)).collect()
    };
    let [guests, measure, list, compute] =
        [lanes.guests, lanes.measure, lanes.list, lanes.compute].map(|lane| Mutex::new(lane.into_iter()));
    // One lane after the other, beside another worker.
    let run_both = |lanes: [(&Mutex<_>, bool); 2]| -> Result<Vec<Outcome>> {
        lanes.into_iter().try_fold(Vec::new(), |mut outcomes, (lane, low)| {
            outcomes.extend(run(lane, low)?);
            Ok(outcomes)
        })
    };
    let (with_guests, without) = ((&guests, false), (&measure, false));
    let mut outcomes =
        together([[with_guests, without], [without, with_guests]].map(|lanes| move || run_both(lanes)))?;
    let (listing, computing) = ((&list, false), (&compute, true));
    outcomes.extend(together(
        [[listing, computing], [computing, computing]].map(|lanes| move || run_both(lanes)),
    )?);
    for failed in outcomes.iter_mut().filter(|outcome| outcome.failed > 0) {
        let again = test(failed.program.failed(failed), false, &logs, &printing)?;
        *failed = failed.clone().and_again(again);
    }
    outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.took));
    let skipped =
        std::fs::read_to_string(&skipped).with_context(|| format!("reading {}", skipped.display()))?;
    conclude(&outcomes, &skipped)
}

/// Installs what tests need, with this vtax, in a thread: what it says is among what the compiler says.
fn set_up(vtax: PathBuf) -> SettingUp {
    println!("Setting up what the tests need, while the others are compiled");
    std::thread::spawn(move || {
        crate::tasks::setup(&vtax)?;
        crate::tasks::test_tools()
    })
}

fn joined(setting_up: SettingUp) -> Result<()> {
    setting_up.join().unwrap_or_else(|_| Err(anyhow::anyhow!("setting up panicked")))
}

/// What all of these give, made at the same time.
fn together<const N: usize>(
    lanes: [impl FnOnce() -> Result<Vec<Outcome>> + Send; N],
) -> Result<Vec<Outcome>> {
    std::thread::scope(|scope| {
        let mut outcomes = Vec::new();
        for lane in lanes.map(|lane| scope.spawn(lane)) {
            outcomes.extend(lane.join().map_err(|_| anyhow::anyhow!("running the tests panicked"))??);
        }
        Ok(outcomes)
    })
}

/// All targets: no documentation has examples, and looking for them would read each library once more. Once vtax is built,
/// `setting_up` is what goes on with it.
fn build(compiler: Compiler, setting_up: &mut Option<SettingUp>) -> Result<Built> {
    let mut cargo = cargo_command();
    cargo.args(["test", "--workspace", "--all-targets", "--no-run"]);
    cargo.arg("--message-format=json").current_dir(root()).stdout(Stdio::piped());
    if compiler == Compiler::Linting {
        cargo.env("RUSTC_WORKSPACE_WRAPPER", clippy_driver());
    }
    let mut building = cargo.spawn().context("starting cargo")?;
    let output = building.stdout.take().context("cargo has no output")?;
    let mut built = Built::default();
    for line in BufReader::new(output).lines() {
        let line = line.context("reading what cargo says")?;
        let Ok(message) = serde_json::from_str(&line) else { continue };
        if let Some(diagnostic) = diagnostic(&message) {
            println!("{diagnostic}");
            built.warned = true;
        }
        built.programs.extend(program(&message));
        if setting_up.is_none() {
            *setting_up = vtax(&message).map(set_up);
        }
    }
    let status = building.wait().context("waiting for cargo")?;
    ensure!(status.success(), "building the tests ended with {status}");
    ensure!(compiler == Compiler::Plain || !built.warned, "each warning is an error here");
    built.programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(built)
}

/// The compiler that lints: the one beside cargo, as `cargo clippy` has it, since `PATH` may lead to none.
fn clippy_driver() -> PathBuf {
    let beside = std::env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name("clippy-driver"));
    beside.filter(|driver| driver.is_file()).unwrap_or_else(|| "clippy-driver".into())
}

/// What the compiler says in a message of cargo's, for people.
fn diagnostic(message: &Value) -> Option<&str> {
    let of_compiler = message["reason"] == "compiler-message";
    of_compiler.then(|| message["message"]["rendered"].as_str()).flatten()
}

/// The vtax that a message of cargo's is about.
fn vtax(message: &Value) -> Option<PathBuf> {
    let target = &message["target"];
    let is_vtax =
        target["name"] == "vtax" && target["kind"][0] == "bin" && message["profile"]["test"] == false;
    is_vtax.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
}

/// The test program that a message of cargo's is about.
fn program(message: &Value) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = folder.file_name()?.to_str()?.to_owned();
    let source = Path::new(message["target"]["src_path"].as_str()?);
    let source = source.strip_prefix(&folder).unwrap_or(source).display();
    let filter = Vec::new();
    Some(Program { name: format!("{package} {source}"), package, folder, executable, filter })
}

/// The name of the file that has what a program said: each half of one has its own.
fn log_of(program: &Program) -> String {
    let name = program.name.replace(".rs", "");
    format!("{}.log", name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "-"))
}

/// Runs one program and then prints all that it said, so that two at a time stay readable.
fn test(program: Program, low: bool, logs: &Path, printing: &Mutex<()>) -> Result<Outcome> {
    let path = logs.join(log_of(&program));
    let log = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    let mut command = if low {
        let mut nice = Command::new("nice");
        nice.args(["-n", "19"]).arg(&program.executable);
        nice
    } else {
        Command::new(&program.executable)
    };
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

/// In the environment of a program, and of all that it starts which doesn't clear its own: whose it is.
const MARK: &str = "VTAX_TEST_PROGRAM";

/// How a program ends, which is killed where it takes longer than `longest`, with all that it has started: its threads then.
fn end_of(command: &mut Command, longest: Duration) -> Result<(ExitStatus, Option<String>)> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mark = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    command.env(MARK, &mark);
    let mut program = command.spawn().with_context(|| format!("starting {command:?}"))?;
    let until = Instant::now() + longest;
    while Instant::now() < until {
        if let Some(status) = program.try_wait().context("waiting for a test")? {
            return Ok((status, None));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let hung = threads(program.id());
    kill_all(program.id(), &mark)?;
    program.kill().context("killing a test that hangs")?;
    Ok((program.wait().context("waiting for a test")?, Some(hung)))
}

/// Kills a program and all that it has started: what went on would disturb those that follow.
fn kill_all(program: u32, mark: &str) -> Result<()> {
    let signal = |name: &str, processes: &[u32]| {
        let mut kill = Command::new("kill");
        kill.arg(name).args(processes.iter().map(u32::to_string));
        // One that has ended meanwhile can't be told anything.
        kill.stderr(Stdio::null()).status().context("starting kill")
    };
    let mut all = started_by(program, mark);
    // Whoever is stopped starts nothing more.
    for _ in 0..10 {
        signal("-STOP", &all)?;
        let now = started_by(program, mark);
        let is_all = now == all;
        all = now;
        if is_all {
            break;
        }
    }
    signal("-KILL", &all)?;
    Ok(())
}

/// A program, all that is below it, and what carries its mark, sorted.
fn started_by(program: u32, mark: &str) -> Vec<u32> {
    let mark = format!("{MARK}={mark}");
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_marked = |process: &u32| {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let mut all: Vec<u32> = processes.filter(is_marked).collect();
    if !all.contains(&program) {
        all.push(program);
    }
    let mut next = 0;
    while let Some(process) = all.get(next).copied() {
        for task in std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|child| child.parse::<u32>().ok());
            for child in children {
                if !all.contains(&child) {
                    all.push(child);
                }
            }
        }
        next += 1;
    }
    all.sort_unstable();
    all
}

/// The names of a program's threads: cargo's harness names them after its tests, cut to 15 bytes.
fn threads(program: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{program}/task")).into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect::<Vec<_>>().join(", ")
}

/// The lines of a program that failed which say what and where: its cases, and each panic with the first and the last lines of its message.
fn wrong(said: &str) -> Vec<String> {
    const MOST: usize = 20;
    const LAST: usize = 3;
    const AFTER: [&str; 6] = ["stack backtrace:", "note: ", "thread '", "test ", "---- ", "failures:"];
    let of_message = |line: &&str| !AFTER.iter().any(|after| line.starts_with(after));
    let mut found = Vec::new();
    let mut lines = said.lines().peekable();
    while let Some(line) = lines.next() {
        let case = line.strip_prefix("test ").and_then(|l| l.split_once(" ... "));
        if case.is_some_and(|(_, end)| end.starts_with("FAILED")) {
            found.push(line.to_owned());
        } else if let Some((_, place)) = line.split_once(" panicked at ") {
            let message = std::iter::from_fn(|| lines.next_if(of_message));
            let message: Vec<&str> = message.filter(|line| !line.trim().is_empty()).collect();
            let (first, more) = message.split_first().unwrap_or((&"", &[]));
            found.push(format!("{place} {first}"));
            found.extend(more[more.len().saturating_sub(LAST)..].iter().map(|line| format!("  {line}")));
        }
    }
    found.truncate(MOST);
    match found.is_empty() {
        true => vec!["it named no case".to_owned()],
        false => found.into_iter().map(|line| line.chars().take(300).collect()).collect(),
    }
}

/// The names of the tests that failed, each once.
fn failed_cases(said: &str) -> Vec<String> {
    let cases = said.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    let failed = cases.filter(|(name, end)| end.starts_with("FAILED") && *name != WHOLE);
    let mut names: Vec<String> = failed.map(|(name, _)| name.to_owned()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Tests that passed and failed: what cargo's harness says, or the cases that a program without it names. One that
/// names none is a case by itself.
fn count(said: &str, success: bool) -> (usize, usize) {
    let ended = |word: &str| {
        let ends = said.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
        ends.filter(|(_, end)| end.starts_with(word)).count()
    };
    let (passed, failed) = harness(said).unwrap_or_else(|| (ended("ok"), ended("FAILED")));
    match (success, passed) {
        (true, 0) if harness(said).is_none() => (1, 0),
        (true, _) => (passed, 0),
        (false, _) => (passed, failed.max(1)),
    }
}

/// The last result that cargo's harness printed.
fn harness(said: &str) -> Option<(usize, usize)> {
    let (_, result) = said.rsplit_once("\ntest result: ")?;
    let number = |word: &str| result.split_once(word)?.0.rsplit_once(' ')?.1.parse().ok();
    Some((number(" passed;")?, number(" failed;")?))
}

/// Why tests were skipped, and how many for each reason, most first.
fn reasons(skipped: &str) -> Vec<(usize, &str)> {
    let mut lines: Vec<&str> = skipped.lines().collect();
    lines.sort_unstable();
    let mut reasons: Vec<(usize, &str)> =
        lines.chunk_by(|a, b| a == b).map(|same| (same.len(), same[0])).collect();
    reasons.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    reasons
}

/// In the reason of a test that saw nothing because the machine was busy, and not because it lacks something.
const TOO_BUSY: &str = "too busy";

/// What is said of tests that were skipped.
fn told_of_skipped(skipped: &str) -> String {
    let (busy, skipped): (Vec<_>, Vec<_>) =
        reasons(skipped).into_iter().partition(|(_, reason)| reason.contains(TOO_BUSY));
    let mut told = String::new();
    for (what, reasons) in [
        ("UNSTEADY, tests or parts of them that saw nothing, which count as passed", busy),
        ("Skipped tests or parts of them, which count as passed", skipped),
    ] {
        let lines: Vec<String> =
            reasons.iter().map(|(count, reason)| format!("{count:8}  {reason}\n")).collect();
        if !lines.is_empty() {
            told += &format!("\n{what}:\n{}", lines.concat());
        }
    }
    told
}

fn conclude(outcomes: &[Outcome], skipped: &str) -> Result<()> {
    println!("\n seconds  passed  failed  program");
    for outcome in outcomes {
        let Outcome { program, passed, failed, took, unsteady, .. } = outcome;
        let remark = if unsteady.is_empty() { "" } else { "  (failed at first)" };
        println!("{:8.1}  {passed:6}  {failed:6}  {}{remark}", took.as_secs_f64(), program.name);
    }
    let passed: usize = outcomes.iter().map(|o| o.passed).sum();
    let failed: usize = outcomes.iter().map(|o| o.failed).sum();
    for Outcome { program, unsteady, .. } in outcomes.iter().filter(|o| !o.unsteady.is_empty()) {
        println!("\nUNSTEADY, passed only when run again: {}\n  {}", program.name, unsteady.join("\n  "));
    }
    for Outcome { program, wrong, .. } in outcomes.iter().filter(|o| o.failed > 0) {
        println!("\nFAILED, run twice: {}\n  {}", program.name, wrong.join("\n  "));
    }
    print!("{}", told_of_skipped(skipped));
    let wrong: Vec<&str> =
        outcomes.iter().filter(|o| o.failed > 0).map(|o| o.program.name.as_str()).collect();
    let word = if wrong.is_empty() { "ok" } else { "FAILED" };
    println!("\ntest result: {word}. {passed} passed; {failed} failed; {} programs", outcomes.len());
    if !wrong.is_empty() {
        bail!("tests failed in: {}", wrong.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_ended_and_named() {
        let (status, hung) =
            end_of(Command::new("sleep").arg("600"), Duration::from_millis(100)).expect("its end");
        assert_eq!((status.success(), hung.as_deref()), (false, Some("sleep")));
        let (status, hung) = end_of(&mut Command::new("true"), Duration::from_secs(60)).expect("its end");
        assert_eq!((status.success(), hung), (true, None));
        let said =
            "running 2 tests\ntest a ... ok\n\ntest program ... FAILED: no end in 900s; its threads: b";
        assert_eq!(count(said, false), (1, 1));
        assert_eq!(wrong(said), ["test program ... FAILED: no end in 900s; its threads: b"]);
    }

    /// What hangs has processes below it, some that lost their parent, and some that cleared their environment.
    #[test]
    fn a_program_that_hangs_leaves_nothing() {
        let file = std::env::temp_dir().join(format!("xtask-hangs-{}", std::process::id()));
        let script = "sleep 600 & echo $!; (setsid sleep 600 & echo $!); env -i sleep 600 & echo $!; wait";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(File::create(&file).expect("a file"));
        let (status, hung) = end_of(&mut command, Duration::from_secs(20)).expect("its end");
        let said = std::fs::read_to_string(&file).expect("what it said");
        std::fs::remove_file(&file).expect("it is there");
        assert!(!status.success() && hung.is_some());
        let started: Vec<&str> = said.lines().collect();
        assert_eq!(started.len(), 3, "{said}");
        let goes_on = |process: &&str| {
            let line = std::fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
            line.starts_with("sleep")
        };
        let until = Instant::now() + Duration::from_secs(20);
        while started.iter().any(goes_on) {
            assert!(Instant::now() < until, "{said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn named(name: &str) -> Program {
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
    fn a_test_program_is_told_from_what_else_cargo_builds() {
        let message = |test, executable| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "manifest_path": "/w/crates/vtax-load/Cargo.toml",
                "target": {"src_path": "/w/crates/vtax-load/tests/net.rs"},
                "profile": {"test": test},
                "executable": executable,
            })
        };
        let found = program(&message(true, Value::from("/w/target/net-1"))).expect("a test");
        assert_eq!((found.package.as_str(), found.name.as_str()), ("vtax-load", "vtax-load tests/net.rs"));
        assert_eq!(found.folder, Path::new("/w/crates/vtax-load"));
        assert_eq!(program(&message(false, Value::from("/w/target/vtax"))), None);
        assert_eq!(program(&message(true, Value::Null)), None);
        assert_eq!(program(&serde_json::json!({"reason": "build-finished"})), None);
    }

    #[test]
    fn each_program_has_the_lane_of_its_name_or_its_package() {
        let pairs = "vtax-lab tests/fault_tolerance/main.rs";
        let all = ["vtax tests/residue.rs", pairs, "vtax tests/cli.rs", "vtax-stats src/lib.rs"];
        let lanes = Lanes::of(all.map(named).to_vec());
        let told = |lane: Vec<Program>| -> Vec<String> {
            lane.into_iter().map(|program| [vec![program.name], program.filter].concat().join(" ")).collect()
        };
        assert_eq!(told(lanes.measure), ["vtax tests/cli.rs"]);
        assert_eq!(
            told(lanes.guests),
            [format!("{pairs} (but residue, starved) --skip residue --skip starved")]
        );
        assert_eq!(told(lanes.compute), ["vtax-stats src/lib.rs"]);
        let alone = format!("{pairs} (residue, starved) residue starved");
        assert_eq!(told(lanes.list), ["vtax tests/residue.rs", &alone]);
    }

    /// Else a program that was renamed would run beside what it disturbs.
    #[test]
    fn every_program_that_is_named_is_there() {
        for name in LIST.iter().map(|(name, _)| name).chain(GUESTS).chain([&WAITING.0]) {
            let (package, source) = name.split_once(' ').expect("a package and its source");
            assert!(root().join("crates").join(package).join(source).exists(), "{name}");
        }
        for package in COMPUTE.iter().filter(|package| **package != "xtask") {
            assert!(root().join("crates").join(package).exists(), "{package}");
        }
    }

    #[test]
    fn the_vtax_that_the_tests_run_is_told_from_its_own_tests() {
        let message = |kind, test| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "target": {"name": "vtax", "kind": [kind]},
                "profile": {"test": test},
                "executable": "/w/target/debug/vtax",
            })
        };
        assert_eq!(vtax(&message("bin", false)), Some(PathBuf::from("/w/target/debug/vtax")));
        assert_eq!(vtax(&message("bin", true)), None);
        assert_eq!(vtax(&message("lib", false)), None);
    }

    #[test]
    fn what_the_compiler_says_is_passed_on() {
        let warning =
            serde_json::json!({"reason": "compiler-message", "message": {"rendered": "warning: x"}});
        assert_eq!(diagnostic(&warning), Some("warning: x"));
        assert_eq!(diagnostic(&serde_json::json!({"reason": "compiler-artifact"})), None);
    }

    #[test]
    fn what_a_busy_machine_kept_from_looking_is_told_apart_from_what_it_lacks() {
        let said = told_of_skipped("no QEMU\nthis machine is too busy\nno QEMU\n");
        let (busy, lacks) = said.split_once("\n\n").expect("two lists");
        assert!(
            busy.starts_with("\nUNSTEADY, ") && busy.ends_with("       1  this machine is too busy"),
            "{said}"
        );
        assert!(lacks.starts_with("Skipped tests") && lacks.ends_with("       2  no QEMU\n"), "{said}");
        assert!(!told_of_skipped("no QEMU\n").contains("UNSTEADY"));
        assert_eq!(told_of_skipped(""), "");
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
    fn reasons_of_skipped_tests_are_counted() {
        assert_eq!(reasons("b\na\nb\n"), [(2, "b"), (1, "a")]);
        assert_eq!(reasons(""), []);
    }

    #[test]
    fn what_failed_is_kept_in_a_few_lines() {
        let said = "test a ... ok\ntest b ... FAILED\n\nthread 'b' (7) panicked at tests/x.rs:5:9:\nleft is not right\n";
        let short = ["test b ... FAILED", "tests/x.rs:5:9: left is not right"];
        assert_eq!(wrong(said), short);
        assert_eq!(wrong(&format!("{said}stack backtrace:\n   0: main\n")), short);
        assert_eq!(wrong(&format!("{said}\n{said}")), [short, short].concat());
        let long = wrong(&format!("{said}1\n2\n3\n\n4\nnote: more\n"));
        assert_eq!(long[2..], ["  2", "  3", "  4"]);
        assert_eq!(wrong("Killed\n"), ["it named no case"]);
        assert!(wrong(&format!("test {} ... FAILED\n", "x".repeat(999)).repeat(99)).concat().len() < 7000);
    }

    #[test]
    fn tests_are_counted_with_and_without_a_harness() {
        let harness = "\nrunning 2 tests\ntest a ... said something\nok\ntest b ... ok\n\ntest result: ok. 2 passed; 0 failed; 0 ignored";
        assert_eq!(count(harness, true), (2, 0));
        assert_eq!(count("test one ... ok (1.0 s)\ntest two ... ok (2.0 s)\nok\n", true), (2, 0));
        let failed = "test a ... FAILED\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n";
        assert_eq!(count(&format!("{failed}{failed}"), false), (0, 1), "a harness in a harness counts once");
        assert_eq!(
            count("running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored\n", true),
            (0, 0)
        );
        assert_eq!(count("ok\n", true), (1, 0));
        assert_eq!(count("test one ... ok (1.0 s)\ntest two ... FAILED (2.0 s)\n", false), (1, 1));
        assert_eq!(count("thread 'main' panicked\n", false), (0, 1), "it died outside a case");
    }
}
