//! Watching and ending a load from another thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

/// Watches a load that runs, and ends it.
#[derive(Debug, Default)]
pub struct Control {
    cancelled: AtomicBool,
    elapsed_ns: AtomicU64,
    sent: AtomicU64,
    ok: AtomicU64,
    failed: AtomicU64,
    latency_ns_sum: AtomicU64,
    bytes: AtomicU64,
}

/// What a step has done since its start, warm-up included; some milliseconds old. What a request is depends
/// on the family: a request, a SIP scenario, a datagram, an echo or a transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Time since the start.
    pub elapsed: Nanos,
    /// Requests sent.
    pub sent: u64,
    /// Requests answered with success.
    pub ok: u64,
    /// Requests failed, in whatever way.
    pub failed: u64,
    /// Latency of the successful ones, summed; 0 where it isn't known while the step runs.
    pub latency_sum: Nanos,
    /// Bytes of payload that network tests moved; other families don't count them while they run.
    pub bytes: u64,
}

impl Progress {
    /// What loads at the same time have done, as one.
    #[must_use]
    pub fn together(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut sum = Self::default();
        for part in parts {
            sum.elapsed = sum.elapsed.max(part.elapsed);
            sum.sent += part.sent;
            sum.ok += part.ok;
            sum.failed += part.failed;
            sum.latency_sum.0 += part.latency_sum.0;
            sum.bytes += part.bytes;
        }
        sum
    }

    /// What has happened since an earlier moment of the same step; `elapsed` is the time between them.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            elapsed: self.elapsed.saturating_sub(earlier.elapsed),
            sent: self.sent.saturating_sub(earlier.sent),
            ok: self.ok.saturating_sub(earlier.ok),
            failed: self.failed.saturating_sub(earlier.failed),
            latency_sum: self.latency_sum.saturating_sub(earlier.latency_sum),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }

    /// Mean latency of what succeeded, where that is known.
    #[must_use]
    pub fn mean_latency(&self) -> Option<Nanos> {
        (self.ok > 0 && self.latency_sum > Nanos::ZERO).then(|| Nanos(self.latency_sum.0 / self.ok))
    }
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
            bytes: self.bytes.load(Relaxed),
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
        self.bytes.fetch_add(more.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_adds_up() {
        let one = Progress { elapsed: Nanos(5), ok: 2, sent: 3, ..Progress::default() };
        let other = Progress { elapsed: Nanos(7), ok: 4, failed: 1, sent: 6, ..Progress::default() };
        let whole = Progress::together([one, other]);
        assert_eq!((whole.elapsed, whole.ok, whole.sent, whole.failed), (Nanos(7), 6, 9, 1));
    }
}
