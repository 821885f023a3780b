//! The wall clock, and whether it was set.

use std::fmt;
use std::os::fd::OwnedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::{Errno, read};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
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

/// The wall clock as it was at some moment, so that one can see later whether somebody set it since.
///
/// NTP changes the rate of the wall clock and of the monotonic one alike, so how far one is ahead of the other changes only where the
/// wall clock is set, or where the host was suspended, for which the monotonic clock stands still (clock_gettime(2)). A clock that
/// was set and set back is seen by a timer that the kernel cancels then (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET).
#[derive(Debug)]
pub struct WallClock {
    ahead_ns: i128,
    /// `None` where no timer is to be had.
    timer: Option<OwnedFd>,
}

impl WallClock {
    /// Reads both clocks.
    #[must_use]
    pub fn look() -> Self {
        // First, so that no moment is left out.
        let timer = far_timer().ok();
        Self { ahead_ns: ahead_ns(), timer }
    }

    /// How the wall clock was set since then, or the host suspended; `None` where it wasn't.
    #[must_use]
    pub fn change(&self) -> Option<ClockChange> {
        // The kernel tells it once, on the next read.
        let told = self.timer.as_ref().is_some_and(|fd| read(fd, &mut [0_u8; 8]) == Err(Errno::CANCELED));
        let change = ClockChange { by_ns: ahead_ns() - self.ahead_ns };
        (told || change.is_seen()).then_some(change)
    }
}

/// How far the wall clock is ahead of the monotonic one.
fn ahead_ns() -> i128 {
    let reading = || {
        let (before, real, after) = (monotonic().0, realtime().0, monotonic().0);
        let middle = before + (after - before) / 2;
        (after - before, i128::from(real) - i128::from(middle))
    };
    (1..READINGS).map(|_| reading()).fold(reading(), |a, b| if b.0 < a.0 { b } else { a }).1
}

/// That the wall clock was set, or the host suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockChange {
    /// By how much in the end, in nanoseconds.
    pub by_ns: i128,
}

impl ClockChange {
    /// By how many seconds in the end.
    #[must_use]
    pub fn by_seconds(&self) -> f64 {
        self.by_ns as f64 / 1e9
    }

    /// Whether that is more than readings of the clocks differ by; a clock that was set and set back differs by less.
    fn is_seen(&self) -> bool {
        self.by_ns.unsigned_abs() > u128::from(TOLERANCE_NS)
    }
}

impl fmt::Display for ClockChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_seen() {
            true => write!(f, "set by {:+.3} s", self.by_seconds()),
            false => f.write_str("set and set back"),
        }
    }
}

/// A timer that ends in some hundred years, or at once when the wall clock is set.
fn far_timer() -> rustix::io::Result<OwnedFd> {
    const FAR_SECONDS: i64 = 3_000_000_000;
    let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    let now = (unix_ms() / 1000).cast_signed();
    let at = Itimerspec { it_interval: never, it_value: Timespec { tv_sec: now + FAR_SECONDS, ..never } };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &at)?;
    Ok(timer)
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
        let by = |ms: i128| ClockChange { by_ns: ms * 1_000_000 };
        assert!(!by(0).is_seen() && !by(1).is_seen() && !by(-2).is_seen(), "the readings were apart");
        assert!(by(3).is_seen() && by(-3).is_seen());
        let words = [-3_600, 3_600, 1].map(|ms| by(ms).to_string());
        assert_eq!(words, ["set by -3.600 s", "set by +3.600 s", "set and set back"]);
        assert!(ahead_ns() > 1_000_000_000_000_000_000, "{}: it is after 2001", ahead_ns());
        let earlier = WallClock { ahead_ns: ahead_ns() + 5_000_000_000, timer: None };
        let change = earlier.change().expect("five seconds are missing");
        assert!((-5.5..-4.5).contains(&change.by_seconds()), "{change:?}");
    }

    #[test]
    fn the_kernel_gives_a_timer_and_nobody_set_this_hosts_clock_at_once() {
        let clock = WallClock::look();
        assert!(clock.timer.is_some() && clock.change().is_none(), "{:?}", clock.change());
    }
}
