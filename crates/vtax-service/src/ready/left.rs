//! The time that is left.

use std::time::{Duration, Instant};

/// Until that moment, and never nothing.
pub(super) fn left(until: Instant) -> Duration {
    // A timeout of zero would mean none at all.
    until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}
