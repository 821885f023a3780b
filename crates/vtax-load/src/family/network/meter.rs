//! Counts kept by the threads of one end, and read by another at the marks of the test's time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use vtax_sys::sched::monotonic;
use vtax_sys::usage::{CpuTime, thread_cpu};
use vtax_units::Nanos;

use super::{Live, NetworkCpu, NetworkError, NetworkSpec, Watch};
use crate::Control;

/// One thread's count, on a cache line of its own: it is written with every call and read rarely.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counter {
    bytes: AtomicU64,
    events: AtomicU64,
    rtt_sum: AtomicU64,
    ended: AtomicBool,
}

impl Counter {
    /// Sets both counts; only its own thread does.
    pub(super) fn set(&self, bytes: u64, events: u64) {
        self.bytes.store(bytes, Relaxed);
        self.events.store(events, Relaxed);
    }

    /// Sets the sum of the round-trip times of all events.
    pub(super) fn set_rtt_sum(&self, sum: Nanos) {
        self.rtt_sum.store(sum.0, Relaxed);
    }

    /// Nothing more will come.
    pub(super) fn end(&self) {
        self.ended.store(true, Relaxed);
    }
}

/// When a test begins, counts and ends, on one end's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeline {
    pub(super) start: Nanos,
    pub(super) warmup: Nanos,
    pub(super) duration: Nanos,
    pub(super) interval: Nanos,
}

impl Timeline {
    pub(super) fn begin(spec: &NetworkSpec) -> Self {
        Self {
            start: monotonic(),
            warmup: spec.warmup,
            duration: spec.duration,
            interval: spec.interval.min(spec.duration),
        }
    }

    /// When counting begins.
    pub(super) fn from(&self) -> Nanos {
        Nanos(self.start.0 + self.warmup.0)
    }

    /// When it ends.
    pub(super) fn to(&self) -> Nanos {
        Nanos(self.start.0 + self.warmup.0 + self.duration.0)
    }

    /// Which interval of the counted time an instant falls into.
    pub(super) fn interval_of(&self, at: Nanos) -> Option<usize> {
        let within = at >= self.from() && at < self.to();
        within.then(|| ((at.0 - self.from().0) / self.interval.0) as usize)
    }
}

/// What was counted between the marks.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) bytes: u64,
    pub(super) events: u64,
    pub(super) time: Nanos,
    pub(super) byte_intervals: Vec<u64>,
    pub(super) event_intervals: Vec<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    at: Nanos,
    bytes: u64,
    events: u64,
    rtt: u64,
    ended: bool,
}

fn sum(counters: &[Counter]) -> Sum {
    let mut sum = Sum { at: monotonic(), ended: true, ..Sum::default() };
    for counter in counters {
        sum.bytes += counter.bytes.load(Relaxed);
        sum.events += counter.events.load(Relaxed);
        sum.rtt += counter.rtt_sum.load(Relaxed);
        sum.ended &= counter.ended.load(Relaxed);
    }
    sum
}

/// Longest sleep, so that an end is seen.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Reads the counters at every mark until the counted time is over, all threads have ended or the
/// test is cancelled. A mark is read when this thread wakes up, so every count goes with the time
/// at which it was really read.
pub(super) fn count(
    timeline: &Timeline,
    counters: &[Counter],
    cancelled: &(dyn Fn() -> bool + Sync),
    watch: Option<Watch<'_>>,
) -> Counted {
    let mut counted = Counted::default();
    let mut last = Sum { at: timeline.start, ..Sum::default() };
    let mut base = None;
    let mut mark = if timeline.warmup == Nanos::ZERO {
        timeline.from()
    } else {
        Nanos((timeline.start.0 + timeline.interval.0).min(timeline.from().0))
    };
    loop {
        let present = wait(mark, counters, cancelled);
        let first = base.is_none();
        if present.at >= timeline.from() && first {
            base = Some(present);
        }
        if present.at > last.at {
            show(timeline, &last, &present, watch);
        }
        if !first {
            counted.byte_intervals.push(present.bytes - last.bytes);
            counted.event_intervals.push(present.events - last.events);
        }
        last = present;
        if present.at >= timeline.to() || present.ended || cancelled() {
            break;
        }
        let next = present.at.0.max(mark.0);
        mark = Nanos(if base.is_none() {
            (next + timeline.interval.0).min(timeline.from().0)
        } else {
            (mark.0 + timeline.interval.0).min(timeline.to().0)
        });
    }
    let base = base.unwrap_or(last);
    counted.bytes = last.bytes - base.bytes;
    counted.events = last.events - base.events;
    counted.time = last.at.saturating_sub(base.at);
    counted
}

/// Sleeps until the mark, or until there is nothing to wait for.
fn wait(mark: Nanos, counters: &[Counter], cancelled: &(dyn Fn() -> bool + Sync)) -> Sum {
    loop {
        let left = Duration::from_nanos(mark.saturating_sub(monotonic()).0);
        let present = sum(counters);
        if left.is_zero() || present.ended || cancelled() {
            return present;
        }
        std::thread::sleep(left.min(SLEEP_MAX));
    }
}

fn show(timeline: &Timeline, last: &Sum, present: &Sum, watch: Option<Watch<'_>>) {
    let Some(watch) = watch else { return };
    let events = present.events - last.events;
    watch(&Live {
        at_seconds: present.at.as_secs_f64() - timeline.from().as_secs_f64(),
        seconds: present.at.saturating_sub(last.at).as_secs_f64(),
        bytes: present.bytes - last.bytes,
        events,
        rtt: (present.rtt > last.rtt && events > 0).then(|| Nanos((present.rtt - last.rtt) / events)),
    });
}

/// What the calling thread uses from here on.
pub(super) struct Usage(CpuTime);

impl Usage {
    pub(super) fn begin() -> Self {
        Self(thread_cpu().unwrap_or_default())
    }

    pub(super) fn end(&self) -> NetworkCpu {
        let used = thread_cpu().unwrap_or_default().since(self.0);
        NetworkCpu { user: used.user, system: used.system }
    }
}

/// The end of a thread's work, whatever it was.
pub(super) fn joined<T>(result: std::thread::Result<Result<T, NetworkError>>) -> Result<T, NetworkError> {
    result.unwrap_or_else(|_| Err(NetworkError::system("run a thread")(std::io::Error::other("it panicked"))))
}

/// Whether the user has called the test off.
pub(super) fn cancelled_by(control: &Control) -> impl Fn() -> bool + Sync + '_ {
    || control.is_cancelled()
}
