//! Runs the whole test suite, two programs at a time where they don't disturb each other.

mod build;
mod in_memory;
mod lanes;
mod output;
mod process;
mod program;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail};

pub(crate) use self::build::Compiler;
use self::lanes::Lanes;
use self::output::told_of_skipped;
use self::program::{Outcome, Program, test};
use crate::place::root;

/// The setting up that goes on while the rest is compiled.
type SettingUp = JoinHandle<Result<()>>;

/// Builds every test, installs what they need by the vtax that was built for them as soon as there is one, runs them all whatever
/// fails, and tells what failed and how long each program took. A test that failed runs once more when all others have
/// ended: what passes then is no failure, and is named all the same, since it depends on what the machine does.
///
/// # Errors
///
/// What doesn't build, install or start, and the names of the programs that failed.
pub(crate) fn run(compiler: Compiler) -> Result<()> {
    let mut setting_up = None;
    let built = build::build(compiler, |vtax| {
        setting_up.get_or_insert_with(|| set_up(vtax));
    });
    // Whatever came of the build: packages are not installed half.
    let set_up = setting_up.map(joined);
    let programs = built?.programs;
    set_up.context("cargo built no vtax for the tests")??;
    let logs = root().join("target/test-logs");
    std::fs::create_dir_all(&logs).with_context(|| format!("creating {}", logs.display()))?;
    let skipped = logs.join("skipped.txt");
    std::fs::write(&skipped, "").with_context(|| format!("writing {}", skipped.display()))?;
    let runner = Runner { logs, printing: Mutex::new(()) };
    let mut outcomes = runner.run_all(Lanes::of(programs))?;
    for failed in outcomes.iter_mut().filter(|outcome| outcome.failed > 0) {
        let again = test(failed.program.failed(failed), false, &runner.logs, &runner.printing)?;
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

/// The programs of a lane that haven't started yet, and whether they only compute.
struct Queue {
    programs: Mutex<std::vec::IntoIter<Program>>,
    computes: bool,
}

impl Queue {
    fn of(programs: Vec<Program>, computes: bool) -> Self {
        Self { programs: Mutex::new(programs.into_iter()), computes }
    }

    fn next(&self) -> Option<Program> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

/// What runs programs at the same time.
struct Runner {
    /// The folder of what they say.
    logs: PathBuf,
    /// Held while what one program said is printed.
    printing: Mutex<()>,
}

impl Runner {
    fn run_all(&self, lanes: Lanes) -> Result<Vec<Outcome>> {
        let [guests, measure, quiet, list] =
            [lanes.guests, lanes.measure, lanes.quiet, lanes.list].map(|lane| Queue::of(lane, false));
        let compute = Queue::of(lanes.compute, true);
        let mut outcomes = self.together(&[&[&guests, &measure], &[&measure, &guests], &[&quiet]])?;
        outcomes.extend(self.together(&[&[&list, &compute], &[&compute]])?);
        Ok(outcomes)
    }

    /// One worker for each of these, which takes from one queue after the other.
    fn together(&self, workers: &[&[&Queue]]) -> Result<Vec<Outcome>> {
        let work = |queues: &[&Queue]| -> Result<Vec<Outcome>> {
            let programs = queues.iter().flat_map(|queue| {
                std::iter::from_fn(|| queue.next()).map(|program| (program, queue.computes))
            });
            programs.map(|(program, computes)| test(program, computes, &self.logs, &self.printing)).collect()
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = workers.iter().map(|queues| scope.spawn(|| work(queues))).collect();
            let mut outcomes = Vec::new();
            for worker in workers {
                outcomes.extend(worker.join().map_err(|_| anyhow::anyhow!("running the tests panicked"))??);
            }
            Ok(outcomes)
        })
    }
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
