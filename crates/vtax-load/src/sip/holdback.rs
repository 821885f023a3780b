//! How many registrations are under way at once before the load begins.
//!
//! A pre-registration prepares the service and isn't measured, so its rate is the most and not a demand: a service that
//! was just started and is slower than that, as in a guest under emulation, would be buried under what callers
//! repeat, and the trial lost before it began.

use vtax_units::Rate;

/// Registrations that may be under way in any case, in all workers together.
const FEW: usize = 8;
/// How many times as many as the rate needs, by the fastest registration so far.
const AMPLE: f64 = 4.0;
/// A service that has answered nobody for so many times T1 is dead, or as good as that, and not spared: it fails
/// as soon as it would have.
const DEAD_AFTER: u64 = 20;

/// One worker's. Times are in nanoseconds.
#[derive(Debug)]
pub(crate) struct Holdback {
    few: usize,
    rate: Rate,
    dead_after: u64,
    /// Shortest time of a registration.
    fastest: Option<u64>,
    /// The last success, or the beginning.
    alive: u64,
    /// Attempts are being held back.
    holds: bool,
    /// The last time that one which was held back could begin.
    freed: u64,
    dead: bool,
}

impl Holdback {
    /// For a worker that is to make so many registrations a second, with so many others.
    pub(crate) fn new(rate: Rate, workers: usize, t1: u64, now: u64) -> Self {
        let few = FEW.div_ceil(workers);
        let dead_after = t1.saturating_mul(DEAD_AFTER);
        Self { few, rate, dead_after, fastest: None, alive: now, holds: false, freed: 0, dead: false }
    }

    /// Whether the next attempt has to wait while so many are under way.
    pub(crate) fn holds(&mut self, now: u64, live: usize) -> bool {
        if self.dead || live < self.most() {
            return false;
        }
        self.holds = now.saturating_sub(self.alive) <= self.dead_after;
        if !self.holds {
            (self.dead, self.freed) = (true, now);
        }
        self.holds
    }

    /// An attempt that began at `begun` has ended.
    pub(crate) fn ended(&mut self, now: u64, begun: u64, succeeded: bool) {
        if succeeded {
            let took = now.saturating_sub(begun);
            self.fastest = Some(self.fastest.map_or(took, |fastest| fastest.min(took)));
            self.alive = now;
        }
        if std::mem::take(&mut self.holds) {
            self.freed = now;
        }
    }

    /// When an attempt that was due at `due` could begin.
    pub(crate) fn could_begin(&self, due: u64) -> u64 {
        due.max(self.freed)
    }

    fn most(&self) -> usize {
        let needed = self.fastest.map_or(0.0, |fastest| AMPLE * self.rate.0 * fastest as f64 / 1e9);
        self.few.max(needed as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Time and failures until all have registered with a service of one thread.
    fn register(rate: f64, service_time: u64, count: u64) -> (u64, usize) {
        let mut holdback = Holdback::new(Rate(rate), 1, 100 * MS, 0);
        let (mut now, mut made, mut most) = (0, 0, 0);
        let mut waiting = std::collections::VecDeque::new();
        let mut ready = 0;
        let mut done = 0;
        while done < count {
            let due = (made as f64 * 1e9 / rate) as u64;
            if made < count && due <= now && !holdback.holds(now, waiting.len()) {
                assert!(now - holdback.could_begin(due) <= MS, "who is held back isn't late");
                waiting.push_back(now);
                made += 1;
                most = most.max(waiting.len());
                ready = if waiting.len() == 1 { now + service_time } else { ready };
            } else {
                now += MS / 10;
                if waiting.front().is_some() && now >= ready {
                    holdback.ended(now, waiting.pop_front().unwrap(), true);
                    done += 1;
                    ready = now + service_time;
                }
            }
        }
        (now, most)
    }

    #[test]
    fn a_fast_service_gets_the_rate_and_a_slow_one_what_it_can_take() {
        let (took, _) = register(1_000.0, MS / 2, 500);
        assert!(took < 520 * MS, "{took}");
        let (took, most) = register(1_000.0, 10 * MS, 500);
        assert!((4_900 * MS..5_700 * MS).contains(&took), "{took}");
        assert!(most <= 40, "{most}");
    }

    #[test]
    fn distance_is_no_slowness() {
        let mut holdback = Holdback::new(Rate(1_000.0), 2, 500 * MS, 0);
        assert!(!holdback.holds(0, 3) && holdback.holds(0, 4));
        holdback.ended(100 * MS, 0, true);
        assert!(!holdback.holds(100 * MS, 399) && holdback.holds(100 * MS, 400));
    }

    #[test]
    fn the_dead_are_not_spared() {
        let mut holdback = Holdback::new(Rate(1_000.0), 1, 100 * MS, 0);
        assert!(holdback.holds(2_000 * MS, 8));
        holdback.ended(2_000 * MS, 0, false);
        assert!(!holdback.holds(2_001 * MS, 8), "a failure is no sign of life");
        assert!(!holdback.holds(2_002 * MS, 5_000));
        assert_eq!(holdback.could_begin(5), 2_001 * MS);
    }
}
