//! Asking a run to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use vtax_lab::Ender;
use vtax_sys::sync::lock;

/// How often who waits looks whether the run was asked to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Asks a run to stop and ends the trial that is being made; shared with the thread that gets signals.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    asked: AtomicBool,
    /// What ends the nodes of the present trial. That makes every call on their agents fail at once, however long it would have
    /// waited.
    nodes: Mutex<Vec<Ender>>,
}

impl Stop {
    /// Asks.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        for node in self.nodes().drain(..) {
            node.end();
        }
    }

    /// True once asked.
    #[must_use]
    pub fn asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Waits for so long, or until asked.
    pub(crate) fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.asked() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// These are the nodes to end when asked; they replace those of the trial before.
    pub(crate) fn watch(&self, nodes: Vec<Ender>) {
        *self.nodes() = nodes;
        if self.asked() {
            self.ask();
        }
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Ender>> {
        lock(&self.0.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Services that start minutes apart kept a run that was to stop.
    #[test]
    fn a_pause_ends_when_asked() {
        let stop = Stop::default();
        stop.pause(Duration::from_millis(1));
        let other = stop.clone();
        let waiting = std::thread::spawn(move || other.pause(Duration::from_secs(3600)));
        stop.ask();
        waiting.join().unwrap();
    }
}
