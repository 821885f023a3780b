//! Watching and ending a load from another thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use vtax_units::Nanos;

/// The hand on a running load: what it has done so far, and a way to end it.
#[derive(Debug, Default)]
pub struct Control {
    cancelled: AtomicBool,
    elapsed_ns: AtomicU64,
    sent: AtomicU64,
    ok: AtomicU64,
    failed: AtomicU64,
    latency_ns_sum: AtomicU64,
}

/// What a load has done since its start, warm-up included; some milliseconds old.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time since the start.
    pub elapsed: Nanos,
    /// Requests sent.
    pub sent: u64,
    /// Requests answered with success.
    pub ok: u64,
    /// Requests failed, in whatever way.
    pub failed: u64,
    /// Latency of the successful ones, summed.
    pub latency_sum: Nanos,
}

impl Control {
    /// A control for one load.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the load within some tens of milliseconds; what was recorded is returned.
    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    /// True once [`cancel`](Self::cancel) was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }

    /// What was done so far.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            elapsed: Nanos(self.elapsed_ns.load(Relaxed)),
            sent: self.sent.load(Relaxed),
            ok: self.ok.load(Relaxed),
            failed: self.failed.load(Relaxed),
            latency_sum: Nanos(self.latency_ns_sum.load(Relaxed)),
        }
    }

    /// Adds what one worker has done since it last did so. Not called per request: the cache
    /// line would wander between cores.
    pub(crate) fn add(&self, more: &Progress) {
        self.elapsed_ns.fetch_max(more.elapsed.0, Relaxed);
        self.sent.fetch_add(more.sent, Relaxed);
        self.ok.fetch_add(more.ok, Relaxed);
        self.failed.fetch_add(more.failed, Relaxed);
        self.latency_ns_sum.fetch_add(more.latency_sum.0, Relaxed);
    }
}
