//! The next connection, made by a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// Waits between attempts: the first and the longest.
const WAITS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// Tries until it has a connection, or until this is dropped.
#[derive(Debug)]
pub(in crate::family::storage) struct Reconnect<L> {
    made: Receiver<L>,
    called_off: Arc<AtomicBool>,
}

impl<L: Send + 'static> Reconnect<L> {
    /// Begins. Each attempt must end by itself.
    pub(in crate::family::storage) fn begin(mut attempt: impl FnMut() -> Option<L> + Send + 'static) -> Self {
        let (to, made) = sync_channel(1);
        let called_off = Arc::new(AtomicBool::new(false));
        let off = Arc::clone(&called_off);
        let work = move || {
            let mut wait = WAITS.0;
            while !off.load(Ordering::Relaxed) {
                if let Some(link) = attempt() {
                    // Nobody waits any more where this fails.
                    let _ = to.send(link);
                    return;
                }
                thread::sleep(wait);
                wait = (wait * 2).min(WAITS.1);
            }
        };
        // Where no thread can be had, the channel is closed at once: everything stays lost.
        let _ = thread::Builder::new().name("storage-connect".into()).spawn(work);
        Self { made, called_off }
    }

    /// Waits at most so long for it.
    pub(in crate::family::storage) fn wait(&mut self, wait: Duration) -> Option<L> {
        match self.made.recv_timeout(wait) {
            Ok(link) => Some(link),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(wait);
                None
            }
        }
    }
}

impl<L> Drop for Reconnect<L> {
    fn drop(&mut self) {
        self.called_off.store(true, Ordering::Relaxed);
    }
}
