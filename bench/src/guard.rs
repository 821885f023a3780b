//! What a benchmark starts ends with it, however it ends: servers put themselves into sessions of their own, and databases drop the
//! privileges that a signal at their parent's death needs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use vtax_sys::signals::{SignalFd, become_subreaper};

/// Ends that are asked for.
const ENDING: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];
/// How often children are looked at.
const PAUSE: Duration = Duration::from_millis(50);
/// Set for the process that is watched.
const WATCHED: &str = "VTAX_BENCH_WATCHED";

/// True in the process that [`watch`] started.
pub(crate) fn is_watched() -> bool {
    std::env::var_os(WATCHED).is_some()
}

/// Runs this program once more with the same arguments, and ends with it. When it has ended, or this is asked to, its descendants are
/// killed and what is left of its temporary files is removed.
pub(crate) fn watch() -> Result<ExitCode> {
    let signals = SignalFd::new(&ENDING)?;
    become_subreaper()?;
    let scratch = tempfile::Builder::new().prefix("vtax-bench-").tempdir().context("making a directory")?;
    // A database drops privileges and must still reach its files.
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755))?;
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env(WATCHED, "1").env("TMPDIR", scratch.path());
    let child = command.spawn().context("starting this program once more")?;
    let ended = wait(child, &signals);
    // They are this process's children now, so none is missed; theirs become so in turn.
    while end_children()? > 0 {}
    let code = match ended?.map(|status| (status.code(), status.signal())) {
        None => 128 + Signal::INT.as_raw(),
        Some((Some(code), _)) => code,
        Some((None, signal)) => 128 + signal.unwrap_or_default(),
    };
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// `None` where a signal came first.
fn wait(mut child: Child, signals: &SignalFd) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if signals.next()?.is_some() {
            return Ok(None);
        }
        thread::sleep(PAUSE);
    }
}

/// Kills and reaps each child; how many there were.
fn end_children() -> Result<usize> {
    let own = getpid().as_raw_nonzero();
    let children =
        fs::read_to_string(format!("/proc/{own}/task/{own}/children")).context("finding children")?;
    let mut ended = 0;
    for child in children.split_whitespace() {
        let Some(pid) = Pid::from_raw(child.parse()?) else { continue };
        // One that has ended already is reaped all the same.
        let _ = kill_process(pid, Signal::KILL);
        waitpid(Some(pid), WaitOptions::empty())?;
        ended += 1;
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outlives_a_watched_program() {
        // The middle one ends at once, and its child has a session of its own.
        let script = "setsid sh -c 'sleep 60 & echo $! >&3; exec sleep 60' & sleep 0.3";
        let told = tempfile::NamedTempFile::new().unwrap();
        become_subreaper().unwrap();
        let shell = format!("exec 3>{}; {script}", told.path().display());
        Command::new("sh").args(["-c", &shell]).status().unwrap();
        let pid: u32 = fs::read_to_string(told.path()).unwrap().trim().parse().unwrap();
        assert!(fs::exists(format!("/proc/{pid}")).unwrap());
        while end_children().unwrap() > 0 {}
        assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
    }
}
