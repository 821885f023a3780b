//! Word that what is being built is to be given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often who waits looks for it.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Raised once, by a thread that gets signals, and seen by whoever waits for something. All copies are one.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Raises it.
    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// True once raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits for so long, or until it is raised.
    pub fn pause(&self, time: Duration) {
        self.pause_while(time, || true);
    }

    /// Waits while this holds, for so long at most, or until it is raised.
    pub(crate) fn pause_while(&self, time: Duration, waiting: impl Fn() -> bool) {
        let until = Instant::now() + time;
        while !self.is_raised() && waiting() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guests and services that start minutes apart kept a run that was to stop.
    #[test]
    fn a_pause_ends_when_the_flag_is_raised() {
        let flag = StopFlag::default();
        flag.pause(Duration::from_millis(1));
        flag.pause_while(Duration::from_secs(3600), || false);
        let other = flag.clone();
        let waiting = std::thread::spawn(move || other.pause(Duration::from_secs(3600)));
        flag.raise();
        waiting.join().unwrap();
        assert!(flag.is_raised());
    }
}
