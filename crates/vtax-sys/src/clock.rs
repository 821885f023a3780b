//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

use vtax_units::Nanos;

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
}
