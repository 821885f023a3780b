//! The wall clock, and whether it was set.

use std::time::{SystemTime, UNIX_EPOCH};

use vtax_units::Nanos;

use crate::sched::{monotonic, realtime};

/// Readings of both clocks, of which the closest pair counts.
const READINGS: usize = 5;
/// What a pair of readings may be apart: the thread may have had to wait between them.
const TOLERANCE_NS: u64 = 2_000_000;

/// The time since 1970 in UTC; zero where the clock is set before that.
#[must_use]
pub fn unix_time() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().into()
}

/// Milliseconds since 1970 in UTC, as records and logs count them.
#[must_use]
pub fn unix_ms() -> u64 {
    unix_time().0 / 1_000_000
}

/// How far the wall clock is ahead of the monotonic one. NTP changes the rate of both alike, so this changes only where
/// somebody sets the wall clock, or where the host was suspended, for which the monotonic clock stands still (clock_gettime(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallClock {
    ahead_ns: i128,
}

impl WallClock {
    /// Reads both clocks.
    #[must_use]
    pub fn look() -> Self {
        let reading = || {
            let (before, real, after) = (monotonic().0, realtime().0, monotonic().0);
            let middle = before + (after - before) / 2;
            (after - before, Self { ahead_ns: i128::from(real) - i128::from(middle) })
        };
        let closest = (1..READINGS).map(|_| reading()).fold(reading(), |a, b| if b.0 < a.0 { b } else { a });
        closest.1
    }

    /// By how many seconds the wall clock was set since that, or the host was suspended; `None` where it wasn't.
    #[must_use]
    pub fn set_since(&self, earlier: &Self) -> Option<f64> {
        let by = self.ahead_ns - earlier.ahead_ns;
        (by.unsigned_abs() > u128::from(TOLERANCE_NS)).then_some(by as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_units_tell_the_same_time() {
        let (before, ms, after) = (unix_time().0 / 1_000_000, unix_ms(), unix_time().0 / 1_000_000);
        assert!(before <= ms && ms <= after);
        // A day in 2023, so that neither a wrong unit nor a wrong epoch passes.
        assert!(ms > 1_700_000_000_000 && ms < 10_000_000_000_000);
    }

    #[test]
    fn a_clock_that_is_set_is_told_from_one_that_runs() {
        let at = |ahead_ms: i128| WallClock { ahead_ns: ahead_ms * 1_000_000 };
        assert_eq!(at(5_000).set_since(&at(5_000)), None);
        assert_eq!(at(5_001).set_since(&at(5_000)), None, "the readings were apart");
        assert_eq!(at(1_400).set_since(&at(5_000)), Some(-3.6), "set back");
        assert_eq!(at(8_600).set_since(&at(5_000)), Some(3.6));
        // Before 1970 too.
        assert_eq!(at(-1_000).set_since(&at(1_000)), Some(-2.0));
        let seconds = WallClock::look().ahead_ns / 1_000_000_000;
        assert!(seconds > 1_000_000_000, "{seconds}");
    }
}
