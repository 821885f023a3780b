//! Test programs as processes: their end, which comes in time, with all that they have started.

use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// In the environment of a program, and of all that it starts which doesn't clear its own: whose it is.
const MARK: &str = "VTAX_TEST_PROGRAM";

/// How a program ends, which is killed where it takes longer than `longest`, with all that it has started: its threads then.
pub(super) fn end_of(command: &mut Command, longest: Duration) -> Result<(ExitStatus, Option<String>)> {
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

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_program_that_hangs_is_ended_and_named() {
        let (status, hung) =
            end_of(Command::new("sleep").arg("600"), Duration::from_millis(100)).expect("its end");
        assert_eq!((status.success(), hung.as_deref()), (false, Some("sleep")));
        let (status, hung) = end_of(&mut Command::new("true"), Duration::from_secs(60)).expect("its end");
        assert_eq!((status.success(), hung), (true, None));
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
}
