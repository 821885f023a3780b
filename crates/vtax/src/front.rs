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
/// after it by whoever outlives it.
pub(crate) fn in_controller(main: impl Fn(ControllerScope, &RunGroups) -> Exit) -> Outcome {
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
        Ok(controller) => attend(controller, &signals),
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
fn attend(controller: Controller, signals: &SignalFd) -> Outcome {
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
            return match controller.wait().context("wait for the controller").host_cannot()? {
                ProcessExit::Exited(code) => u8::try_from(code).ok().and_then(Exit::from_code).ok_or_else(|| {
                    let error = anyhow::anyhow!("the controller ended with exit code {code}");
                    Failure::new(Exit::Bug, error)
                }),
                ProcessExit::Signalled(signal) => Err(anyhow::anyhow!(
                    "the controller was killed by signal {signal} (9 is also what the kernel sends when memory \
                     runs out); finished trials are kept, and --resume goes on"
                ))
                .host_cannot(),
                ProcessExit::Unknown => Err(anyhow::anyhow!(
                    "the controller ended, and how isn't known; finished trials are kept, and --resume goes on"
                ))
                .host_cannot(),
            };
        }
    }
}
