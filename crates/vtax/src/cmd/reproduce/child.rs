//! An experiment as a `vtax run` of its own.
//!
//! The controller of a run is a fork of a process without threads, so each run gets a process. It has a process group of its
//! own: signals from the terminal come here once, and are passed on.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use vtax_hosts::exit_code;
use vtax_sys::launch::Launch;
use vtax_sys::signals::SignalFd;
use vtax_units::printable;

use crate::exit::{Classify, Exit, Failure};

/// How often the process is looked at.
const PAUSE: Duration = Duration::from_millis(100);

/// How a run ended, with the error that it told last.
#[derive(Debug)]
pub(super) struct ChildExit {
    /// `None`: in a way that vtax never ends.
    pub(super) exit: Option<Exit>,
    pub(super) error: Option<String>,
}

/// Runs `vtax` with these arguments to its end. The kernel kills it where this thread ends first.
///
/// # Errors
///
/// Where it can't be started.
pub(super) fn vtax(arguments: &[OsString], signals: &SignalFd) -> Result<ChildExit, Failure> {
    let program = std::env::current_exe().context("find vtax's own program").host_cannot()?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    // Whatever ends this process ends the run as well: this thread, which starts it, waits for its end.
    Launch { death_signal: Some(Signal::KILL), ..Launch::default() }.apply(&mut command);
    let mut child = command.spawn().context("start a run").host_cannot()?;
    let stderr = child.stderr.take();
    let reader = std::thread::spawn(move || stderr.map(pass_on));
    let status = loop {
        if let Some(status) = child.try_wait().context("wait for a run").host_cannot()? {
            break status;
        }
        pass_signals(&child, signals);
        std::thread::sleep(PAUSE);
    };
    let error = reader.join().ok().flatten().flatten();
    let exit = status.code().and_then(|code| u8::try_from(code).ok()).and_then(Exit::from_code);
    Ok(ChildExit { exit, error })
}

fn pass_signals(child: &Child, signals: &SignalFd) {
    while let Ok(Some(signal)) = signals.next() {
        // One that has just ended needs no signal any more.
        let _ = kill_process(Pid::from_child(child), signal);
    }
}

/// Passes on what a run tells; returns the last error in it.
fn pass_on(output: impl std::io::Read) -> Option<String> {
    let mut last = None;
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if let Some(error) = exit_code::error_of(&line) {
            last = Some(error.to_owned());
        }
        // Nothing more can be said where even standard error is gone.
        let _ = writeln!(std::io::stderr().lock(), "{}", printable(&line));
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_kept() {
        let output = "building\nerror: a\nnote\nerror: b: c\nafter\n";
        assert_eq!(pass_on(output.as_bytes()).as_deref(), Some("b: c"));
        assert_eq!(pass_on("fine\n".as_bytes()), None);
    }
}
