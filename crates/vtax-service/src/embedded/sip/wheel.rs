//! Timers: a wheel of buckets, so that setting and passing one costs the same however many there
//! are.

/// Milliseconds a bucket stands for. The shortest timer is T1, 500 ms.
const TICK_MS: u64 = 20;
/// Buckets: a turn takes 41 s, longer than every timer but C.
const BUCKETS: u64 = 2048;

/// One timer that was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timer {
    /// Whose.
    pub(super) slot: u32,
    /// Tells this setting from later ones, which make it void.
    pub(super) stamp: u32,
}

#[derive(Debug)]
pub(super) struct Wheel {
    buckets: Box<[Vec<Timer>]>,
    /// The first tick that hasn't passed.
    next: u64,
    /// Timers in the wheel, void ones too.
    count: usize,
}

impl Wheel {
    pub(super) fn new(now_ms: u64) -> Self {
        let buckets = std::iter::repeat_with(Vec::new).take(BUCKETS as usize).collect();
        Self { buckets, next: now_ms / TICK_MS, count: 0 }
    }

    /// Sets a timer for `at_ms`, or for the end of a turn where that is later; the code that
    /// takes it checks whether its time has come.
    pub(super) fn set(&mut self, timer: Timer, at_ms: u64) {
        // Rounded up: never early.
        let tick = at_ms.div_ceil(TICK_MS).clamp(self.next, self.next + BUCKETS - 1);
        self.buckets[(tick % BUCKETS) as usize].push(timer);
        self.count += 1;
    }

    /// Moves the timers whose tick has passed to `due`.
    pub(super) fn pass(&mut self, now_ms: u64, due: &mut Vec<Timer>) {
        let now = now_ms / TICK_MS;
        if self.count == 0 {
            self.next = self.next.max(now + 1);
        }
        while self.next <= now {
            let bucket = &mut self.buckets[(self.next % BUCKETS) as usize];
            self.count -= bucket.len();
            due.append(bucket);
            self.next += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_pass_at_their_time_and_never_early() {
        let mut wheel = Wheel::new(1_000);
        let mut due = Vec::new();
        let timer = |slot| Timer { slot, stamp: 0 };
        wheel.set(timer(1), 1_500);
        wheel.set(timer(2), 1_501);
        wheel.set(timer(3), 0);
        // Longer than a turn: comes at its end, early.
        wheel.set(timer(4), 1_000_000);
        wheel.pass(1_000, &mut due);
        assert_eq!(due, [timer(3)]);
        due.clear();
        wheel.pass(1_499, &mut due);
        assert_eq!(due, []);
        wheel.pass(1_500, &mut due);
        assert_eq!(due, [timer(1)]);
        wheel.pass(1_520, &mut due);
        assert_eq!(due, [timer(1), timer(2)]);
        wheel.pass(1_000 + TICK_MS * BUCKETS, &mut due);
        assert_eq!(due, [timer(1), timer(2), timer(4)]);
        assert!(wheel.is_empty());
        wheel.pass(10_000_000, &mut due);
        wheel.set(timer(5), 10_000_100);
        wheel.pass(10_000_100, &mut due);
        assert_eq!(due.last(), Some(&timer(5)));
    }
}
