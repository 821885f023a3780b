//! Ctrl-C and SIGTERM: they end a load early, and stop what serves.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use vtax_sys::SysError;
use vtax_sys::signals::SignalFd;

/// How often signals are looked at while something serves.
const TICK: Duration = Duration::from_millis(50);

/// The signals that ask for an end. Call it before the first thread is started, so that all have them blocked.
pub(super) fn ending_signals() -> Result<SignalFd, SysError> {
    SignalFd::new(&[Signal::INT, Signal::TERM])
}

/// Whether one of them came since they were last looked at.
pub(super) fn signalled(signals: &SignalFd) -> bool {
    matches!(signals.next(), Ok(Some(_)))
}

/// Has this serve until it ends by itself or a signal comes, at which its flag is set and its end is waited for; an error is what it
/// panicked with.
pub(super) fn serve_until_signal<T: Send>(
    signals: &SignalFd,
    server: impl FnOnce(&AtomicBool) -> T + Send,
) -> thread::Result<T> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| server(&stop));
        while !serving.is_finished() && !signalled(signals) {
            thread::sleep(TICK);
        }
        stop.store(true, Relaxed);
        serving.join()
    })
}
