//! When to sleep and for how long, so that a request starts when it should.

/// A thread is woken late: by some microseconds on a machine of its own, by some hundred on a CPU that a hypervisor took
/// back while it was idle. The pacer learns by how much and asks to be woken that much earlier, then polls until the
/// start is due. What is late is the worst, so it follows the long delays rather than their mean. Polling costs CPU, so
/// the lead is bounded by a share of the gap between starts: at high rates requests start a wake-up late rather than
/// burn the core.
#[derive(Debug)]
pub(crate) struct Pacer {
    /// Wake-up delay that few exceed, in nanoseconds.
    overshoot: u64,
    /// Smoothed gap between two starts, in nanoseconds.
    gap: u64,
    last_start: u64,
    /// The lead is at most one part in so many of the gap.
    share: u64,
    /// Time spent polling for a start that was not due yet, in nanoseconds.
    pub(crate) polled: u64,
}

/// Longest lead: whoever waits longer for its CPU is disturbed, which is to be seen.
const LEAD_MAX: u64 = 400_000;
/// Share of the gap that the lead may take.
const LEAD_SHARE: u64 = 4;
/// Going to sleep for less takes longer than polling.
const SLEEP_MIN: u64 = 3_000;
/// Weight of a delay that is longer than the learnt one: one part in so many.
const RISE: u64 = 2;
/// Weight of a delay that is shorter than the learnt one: one part in so many. As it is so much larger, few delays are longer than the
/// learnt one.
const FALL: u64 = 128;

impl Pacer {
    pub(crate) fn new() -> Self {
        Self { overshoot: 0, gap: 0, last_start: 0, share: LEAD_SHARE, polled: 0 }
    }

    /// So many pacers have one thread, which polls for all of them no more than it would for one.
    pub(crate) fn shared_by(&mut self, pacers: usize) {
        self.share = LEAD_SHARE * pacers.max(1) as u64;
    }

    /// Notes a start, for the gap.
    pub(crate) fn started(&mut self, start: u64) {
        self.gap = smooth(self.gap, start.saturating_sub(self.last_start), 32);
        self.last_start = start;
    }

    /// How long to sleep where the next start is due at `due`; 0: don't sleep, poll.
    pub(crate) fn sleep(&self, now: u64, due: u64) -> u64 {
        let lead = self.overshoot.min(self.gap / self.share).min(LEAD_MAX);
        let sleep = due.saturating_sub(now).saturating_sub(lead);
        if sleep < SLEEP_MIN { 0 } else { sleep }
    }

    /// Notes a sleep that lasted from `now` to `woken` instead of for `asked`.
    pub(crate) fn slept(&mut self, now: u64, asked: u64, woken: u64) {
        let overshoot = (woken - now).saturating_sub(asked).min(LEAD_MAX);
        let weight = if overshoot > self.overshoot { RISE } else { FALL };
        self.overshoot = smooth(self.overshoot, overshoot, weight);
    }
}

fn smooth(average: u64, value: u64, weight: u64) -> u64 {
    (average * (weight - 1) + value) / weight
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose wake-up for each start is so late; returns lateness of each start and the time polled.
    fn simulate(gap: u64, starts: usize, delay: impl Fn(u64) -> u64) -> (Vec<u64>, u64) {
        simulate_with(Pacer::new(), gap, starts, delay)
    }

    fn simulate_with(
        mut pacer: Pacer,
        gap: u64,
        starts: usize,
        delay: impl Fn(u64) -> u64,
    ) -> (Vec<u64>, u64) {
        let (mut now, mut polled, mut lateness) = (0, 0, Vec::new());
        for i in 1..=starts as u64 {
            let due = i * gap;
            while now < due {
                match pacer.sleep(now, due) {
                    0 => (now, polled) = (now + 200, polled + 200),
                    sleep => {
                        let woken = now + sleep + delay(i);
                        pacer.slept(now, sleep, woken);
                        now = woken;
                    }
                }
            }
            lateness.push(now - due);
            pacer.started(due);
        }
        (lateness, polled)
    }

    #[test]
    fn low_rates_start_on_time() {
        let (lateness, polled) = simulate(1_000_000, 500, |_| 20_000);
        assert!(lateness[200..].iter().all(|l| *l <= 1_000), "{:?}", &lateness[200..210]);
        assert!(polled < 500 * 1_000_000 / 100, "polled {polled} ns of 500 ms");
    }

    #[test]
    fn long_wake_ups_are_reckoned_with() {
        let delay = |start: u64| if start.is_multiple_of(10) { 200_000 } else { 80_000 };
        let (lateness, polled) = simulate(4_500_000, 500, delay);
        assert!(lateness[100..].iter().all(|l| *l <= 30_000), "{:?}", lateness[100..].iter().max());
        assert!(polled < 500 * 4_500_000 / 20, "polled {polled} ns of 2.25 s");
        // Beyond what polling may take they stay visible.
        let (lateness, _) = simulate(4_500_000, 500, |start| if start > 400 { 2_000_000 } else { 80_000 });
        assert!(lateness[400..].iter().all(|l| *l >= 1_500_000), "{:?}", lateness[400..].iter().min());
    }

    #[test]
    fn high_rates_do_not_burn_the_core() {
        let (lateness, polled) = simulate(20_000, 50_000, |_| 20_000);
        assert!(lateness[200..].iter().all(|l| *l <= 41_000), "{:?}", lateness[200..].iter().max());
        assert!(polled < 50_000 * 20_000 / 2, "polled {polled} ns of 1 s");
    }

    #[test]
    fn pacers_of_one_thread_poll_no_more_than_one_would() {
        let mut one_of_six = Pacer::new();
        one_of_six.shared_by(6);
        let (gap, starts) = (6 * 100_000, 10_000);
        let delay = |start: u64| if start.is_multiple_of(10) { 60_000 } else { 5_000 };
        let (_, polled) = simulate_with(one_of_six, gap, starts, delay);
        let (_, alone) = simulate(gap, starts, delay);
        assert!(polled < starts as u64 * gap / LEAD_SHARE / 6, "polled {polled} ns of 6 s");
        assert!(polled < alone / 2, "polled {polled} ns, alone {alone}");
    }

    #[test]
    fn the_past_and_the_present_are_not_slept_for() {
        let pacer = Pacer::new();
        assert_eq!(pacer.sleep(10, 5), 0);
        assert_eq!(pacer.sleep(10, 10), 0);
        assert_eq!(pacer.sleep(0, 100_000), 100_000);
    }
}
