//! Ctrl-C and its relatives: the first asks for an orderly end, the second ends the process.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use vtax_run::Stop;
use vtax_sys::signals::SignalFd;

use crate::exit::Exit;
use crate::front::ENDING;
use crate::progress::Lines;

/// Signals that come so soon after the first ask for the same. What stops a service or a job (`systemctl stop`, `scancel`) sends one to
/// each of its processes, and the front process passes its own on.
const SAME: Duration = Duration::from_secs(1);

/// What is said at the first signal: what is done before the end, and how to have that at once.
pub(crate) fn stopping(first: &str) -> String {
    format!("stopping: {first}; once more to end at once")
}

/// Has the first signal ask the run to stop, which first does what is said here, and the second end the process, and with it
/// everything in its namespaces. Call it before any other thread is started.
pub(crate) fn stop_on_signals(stop: &Stop, lines: &Lines, does_first: &'static str) -> anyhow::Result<()> {
    let signals = SignalFd::new(&ENDING)?;
    let (stop, lines) = (stop.clone(), lines.clone());
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let mut first: Option<Instant> = None;
        loop {
            let mut fds = [PollFd::new(&signals, PollFlags::IN)];
            // An interrupted poll is asked again.
            let _ = poll(&mut fds, None);
            while let Ok(Some(_)) = signals.next() {
                if first.is_some_and(|first| first.elapsed() < SAME) {
                    continue;
                }
                if stop.asked() {
                    end_at_once();
                }
                first = Some(Instant::now());
                stop.ask();
                // Whoever isn't told presses again, and loses the report.
                lines.always(&stopping(does_first));
            }
        }
    })?;
    Ok(())
}

/// Ends the process at once, as after a second signal: the kernel takes away what is in its namespaces, and other hosts see the end of
/// their streams.
#[expect(clippy::exit, reason = "whoever presses Ctrl-C twice wants no further clean-up")]
pub(crate) fn end_at_once() -> ! {
    std::process::exit(Exit::Interrupted.code().into())
}
