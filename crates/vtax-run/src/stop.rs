//! Asking a run to stop.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use vtax_lab::{Ender, StopFlag};
use vtax_sys::sync::lock;

/// Asks a run to stop and ends the trial that is being made; shared with the thread that gets signals.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    asked: StopFlag,
    /// What ends the nodes of the present trial. That makes every call on their agents fail at once, however long it would have
    /// waited.
    nodes: Mutex<Vec<Ender>>,
}

impl Stop {
    /// Asks.
    pub fn ask(&self) {
        self.0.asked.raise();
        for node in self.nodes().drain(..) {
            node.end();
        }
    }

    /// True once asked.
    #[must_use]
    pub fn asked(&self) -> bool {
        self.0.asked.is_raised()
    }

    /// Waits for so long, or until asked.
    pub(crate) fn pause(&self, time: Duration) {
        self.0.asked.pause(time);
    }

    /// What tells those that build testbeds.
    pub(crate) fn flag(&self) -> StopFlag {
        self.0.asked.clone()
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
