//! The front process: starts the controller, passes signals on, says how it ended.
//!
//! It has one thread and starts none, because the controller is a fork of it.

use std::os::fd::AsFd;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use vtax_sys::cgroup::{RunGroups, sweep};
use vtax_sys::controller::{Controller, ControllerOptions, Inside};
use vtax_sys::signals::SignalFd;
use vtax_sys::{ProcessExit, SysError};

use crate::exit::{Classify, Exit, Failure, Outcome, within_limits_of_host};

/// Signals that ask for an orderly end.
pub(crate) const ENDING: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Where the controller's work runs.
pub(crate) enum ControllerScope {
    /// Inside namespaces of its own.
    Inside(Inside),
    /// On the host as it is, because namespaces are refused; the reason with the way out.
    Outside(String),
}

/// Runs `main` in a controller, or in this process where the host refuses namespaces.
///
/// `main`'s exit code becomes this process's. It gets the run's control groups, which are removed
/// after it by whoever outlives it. `left` is what its user is told to have where the controller is killed.
pub(crate) fn in_controller(left: &str, main: impl Fn(ControllerScope, &RunGroups) -> Exit) -> Outcome {
    // What a killed run left; where it can't be removed, this run works all the same.
    let _ = sweep();
    // Blocked before the keeper is forked, so that what ends this process doesn't end the keeper.
    let signals = SignalFd::new(&ENDING).context("receive signals").host_cannot()?;
    let mut groups = RunGroups::of_this_process();
    let keeper = groups.make().context("watch over control groups").host_cannot()?;
    let options = ControllerOptions::for_this_process();
    let outcome = match keeper.start_controller(options, |inside| {
        within_limits_of_host(|| main(ControllerScope::Inside(inside), &groups)).code()
    }) {
        Ok(controller) => attend(controller, &signals, left),
        Err(SysError::NamespacesRefused { reason, fix, .. }) => {
            drop(signals);
            Ok(main(ControllerScope::Outside(format!("{reason}; {fix}")), &groups))
        }
        Err(error) => Err(error).context("start the controller").host_cannot(),
    };
    let removed = groups.finish(keeper).context("remove control groups").host_cannot();
    outcome.and_then(|exit| removed.map(|()| exit))
}

/// Waits for the controller's end and passes signals on meanwhile.
fn attend(controller: Controller, signals: &SignalFd, left: &str) -> Outcome {
    loop {
        let mut fds = [
            PollFd::new(signals, PollFlags::IN),
            PollFd::from_borrowed_fd(controller.pidfd().as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e).context("wait for the controller").host_cannot(),
        }
        let ended = !fds[1].revents().is_empty();
        while let Ok(Some(signal)) = signals.next() {
            // One that has just ended needs no signal any more.
            let _ = controller.signal(signal);
        }
        if ended {
            return exit_of(controller.wait().context("wait for the controller").host_cannot()?, left);
        }
    }
}

/// How this process ends where the controller, which is vtax itself, ended so.
fn exit_of(controller: ProcessExit, left: &str) -> Outcome {
    match controller {
        ProcessExit::Exited(code) => u8::try_from(code).ok().and_then(Exit::from_code).ok_or_else(|| {
            Failure::new(Exit::Bug, anyhow::anyhow!("vtax's own process ended with exit code {code}"))
        }),
        ProcessExit::Signalled(signal) => {
            let name = signal_name(signal);
            Err(anyhow::anyhow!("vtax's own process was killed by {name}; {left}")).host_cannot()
        }
        ProcessExit::Unknown => {
            Err(anyhow::anyhow!("vtax's own process ended, and how isn't known; {left}")).host_cannot()
        }
    }
}

/// The name of a signal that ends processes, as signal(7) has it.
fn signal_name(number: i32) -> String {
    const NAMES: &[(Signal, &str)] = &[
        (Signal::KILL, "SIGKILL (which the kernel sends, too, where memory runs out)"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::SYS, "SIGSYS"),
        (Signal::XCPU, "SIGXCPU"),
    ];
    let named = NAMES.iter().find(|(signal, _)| signal.as_raw() == number);
    named.map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_killed_is_named_and_what_is_left_is_what_the_command_says() {
        let failure = exit_of(ProcessExit::Signalled(9), "nothing of it is left").unwrap_err();
        assert_eq!(failure.exit(), Exit::HostCannot);
        let said = failure.to_string();
        assert!(said.starts_with("vtax's own process was killed by SIGKILL ("), "{said}");
        assert!(said.ends_with("; nothing of it is left") && !said.contains("trials"), "{said}");
        let other = exit_of(ProcessExit::Signalled(12), "x").unwrap_err().to_string();
        assert_eq!(other, "vtax's own process was killed by signal 12; x");
        assert_eq!(exit_of(ProcessExit::Exited(3), "x").unwrap(), Exit::HostCannot);
        assert_eq!(exit_of(ProcessExit::Exited(9), "x").unwrap_err().exit(), Exit::Bug);
    }
}
