//! Congestion control of pre-registrations: how many are under way at once before the load begins.
//!
//! A pre-registration prepares the service and isn't measured, so its rate is the most and not a demand: a service that
//! was just started and is slower than that, as in a guest under emulation, would be overloaded by what callers
//! repeat, and the trial lost before it began.
//!
//! How many may be under way is found out as TCP does it (RFC 5681): each answer allows for more, and what had to be
//! repeated is what a lost segment is there.

/// Registrations under way at first, in all workers together.
const FIRST: f64 = 8.0;
/// A service without a success for so many times T1 is taken for dead and not spared: it fails as soon as it
/// would have.
const DEAD_AFTER: u64 = 20;

/// One worker's. Times are in nanoseconds.
#[derive(Debug)]
pub(crate) struct CongestionControl {
    /// How many may be under way.
    window: f64,
    /// Below this the window grows fast.
    threshold: f64,
    /// When the window was last cut: what began before says nothing about the present one.
    cut: u64,
    dead_after: u64,
    /// The last success, or the beginning.
    alive: u64,
    /// Attempts are being held back.
    holds: bool,
    /// The last time that one which was held back could begin.
    freed: u64,
    dead: bool,
}

impl CongestionControl {
    /// For one of so many workers.
    pub(crate) fn new(workers: usize, t1: u64, now: u64) -> Self {
        Self {
            window: (FIRST / workers as f64).max(1.0),
            threshold: f64::INFINITY,
            cut: 0,
            dead_after: t1.saturating_mul(DEAD_AFTER),
            alive: now,
            holds: false,
            freed: 0,
            dead: false,
        }
    }

    /// Whether the next attempt has to wait while so many are under way.
    pub(crate) fn holds(&mut self, now: u64, live: usize) -> bool {
        if self.dead || (live as f64) < self.window.floor() {
            return false;
        }
        self.holds = now.saturating_sub(self.alive) <= self.dead_after;
        if !self.holds {
            (self.dead, self.freed) = (true, now);
        }
        self.holds
    }

    /// An attempt that began at `begun` had to repeat a request.
    pub(crate) fn repeated(&mut self, now: u64, begun: u64) {
        if begun >= self.cut {
            self.cut = now;
            self.window = (self.window / 2.0).max(1.0);
            self.threshold = self.window;
        }
    }

    /// An attempt that began at `begun` has ended.
    pub(crate) fn ended(&mut self, now: u64, begun: u64, succeeded: bool) {
        if succeeded {
            self.alive = now;
            if begun >= self.cut {
                self.window += if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
            }
        }
        if std::mem::take(&mut self.holds) {
            self.freed = now;
        }
    }

    /// When an attempt that was due at `due` could begin.
    pub(crate) fn could_begin(&self, due: u64) -> u64 {
        due.max(self.freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const T1: u64 = 100 * MS;

    /// Time until all have registered with a service of one thread at some distance, how many had to repeat, and
    /// how many were under way at most.
    fn register(rate: f64, service_time: u64, distance: u64, count: u64) -> (u64, u64, usize) {
        let mut congestion = CongestionControl::new(1, T1, 0);
        // Of those under way: when each began, and when it will have been served.
        let mut under_way = std::collections::VecDeque::<(u64, u64)>::new();
        let (mut now, mut made, mut done, mut repeats, mut most, mut free) = (0, 0, 0, 0, 0, 0);
        while done < count {
            let due = (made as f64 * 1e9 / rate) as u64;
            if made < count && due <= now && !congestion.holds(now, under_way.len()) {
                assert!(now - congestion.could_begin(due) <= MS, "who is held back isn't late");
                free = now.max(free) + service_time;
                under_way.push_back((now, free + distance));
                (made, most) = (made + 1, most.max(under_way.len()));
                continue;
            }
            now += MS / 10;
            let late = under_way.iter().filter(|(begun, _)| (T1..T1 + MS / 10).contains(&(now - begun)));
            for (begun, _) in late {
                repeats += 1;
                congestion.repeated(now, *begun);
            }
            while let Some((begun, _)) = under_way.front().copied().filter(|(_, served)| *served <= now) {
                under_way.pop_front();
                congestion.ended(now, begun, true);
                done += 1;
            }
        }
        (now, repeats, most)
    }

    #[test]
    fn a_fast_service_gets_the_rate() {
        let (took, repeats, _) = register(1_000.0, MS / 2, MS, 500);
        assert!(took < 520 * MS && repeats == 0, "{took} {repeats}");
    }

    #[test]
    fn a_slow_service_gets_what_it_can_take() {
        let (took, repeats, most) = register(1_000.0, 10 * MS, MS, 1_000);
        assert!((9_900 * MS..10_500 * MS).contains(&took), "{took}");
        // Without holding back nearly all of them would, seven times.
        assert!(repeats < 250 && most < 30, "{repeats} {most}");
    }

    #[test]
    fn distance_is_no_slowness() {
        let (took, repeats, most) = register(1_000.0, MS / 2, 90 * MS, 3_000);
        assert!(took < 4_500 * MS && repeats < 100, "{took} {repeats} {most}");
    }

    #[test]
    fn the_dead_are_not_spared() {
        let mut congestion = CongestionControl::new(1, T1, 0);
        assert!(!congestion.holds(0, 7) && congestion.holds(2_000 * MS, 8));
        congestion.ended(2_000 * MS, 0, false);
        assert!(!congestion.holds(2_001 * MS, 8), "a failure is no sign of life");
        assert!(!congestion.holds(2_002 * MS, 5_000));
        assert_eq!(congestion.could_begin(5), 2_001 * MS);
    }
}
