//! Which datagrams are due when.

use super::super::meter::Timeline;

/// When datagrams are due. Where there is a rate, each has a place: how many are due before it, from the start of the
/// warm-up on. Which count is decided by their places, as times are rounded.
pub(super) struct Schedule {
    start: u64,
    /// When the counted time begins.
    from: u64,
    /// Nanoseconds between two datagrams, where there is a rate.
    gap: Option<f64>,
    /// The place of the next datagram.
    next: u64,
    /// The first place of the counted time.
    counted_from: u64,
}

impl Schedule {
    pub(super) fn new(timeline: &Timeline, gap: Option<f64>) -> Self {
        let counted_from = gap.map_or(0, |gap| (timeline.warmup.0 as f64 / gap).ceil() as u64);
        Self { start: timeline.start.0, from: timeline.from().0, gap, next: 0, counted_from }
    }

    pub(super) fn gap(&self) -> Option<f64> {
        self.gap
    }

    /// Gives up what is left of the warm-up once that is over: a sender that can't carry the rate would send it
    /// in the counted time.
    pub(super) fn catch_up(&mut self, now: u64) {
        if now >= self.from {
            self.next = self.next.max(self.counted_from);
        }
    }

    /// How many datagrams are due, all of the warm-up or all of the counted time; `None` without a rate.
    pub(super) fn due(&self, now: u64) -> Option<u64> {
        let gap = self.gap?;
        let mut until = (now.saturating_sub(self.start) as f64 / gap) as u64 + 1;
        if !self.counts(now) {
            until = until.min(self.counted_from);
        }
        Some(until.saturating_sub(self.next))
    }

    /// Whether the next datagram is meant for the counted time.
    pub(super) fn counts(&self, now: u64) -> bool {
        match self.gap {
            Some(_) => self.next >= self.counted_from,
            None => now >= self.from,
        }
    }

    /// When the datagram so many places after the next one is due; `now` without a rate.
    pub(super) fn time_of(&self, after: u64, now: u64) -> u64 {
        self.gap.map_or(now, |gap| self.start + ((self.next + after) as f64 * gap) as u64)
    }

    /// So many have gone.
    pub(super) fn sent(&mut self, count: u64) {
        self.next += count;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vtax_units::Nanos;

    use super::*;

    fn timeline(warmup: Nanos, duration: Nanos) -> Timeline {
        Timeline { start: Nanos(7_000_000_007), warmup, duration, interval: duration }
    }

    /// A sender that takes so many nanoseconds for one datagram, where one is due each millisecond: how many it sends in
    /// the second that counts, and how late the first of them is.
    fn sent_in_a_second(each: u64) -> (u64, u64) {
        let timeline = timeline(Nanos::from_secs(1), Nanos::from_secs(1));
        let mut schedule = Schedule::new(&timeline, Some(1e6));
        let (mut now, mut counted, mut late) = (timeline.start.0, 0, None);
        while now < timeline.to().0 {
            schedule.catch_up(now);
            if schedule.due(now).unwrap() == 0 {
                now += 1_000;
                continue;
            }
            if schedule.counts(now) {
                assert!(now >= timeline.from().0, "one of the warm-up counts");
                counted += 1;
                late.get_or_insert(now - schedule.time_of(0, now));
            }
            schedule.sent(1);
            now += each;
        }
        (counted, late.unwrap())
    }

    #[test]
    fn what_was_left_of_the_warm_up_is_not_sent_in_the_counted_time() {
        // Twice, five and twenty times as many as it can carry.
        for times in [2, 5, 20] {
            let (counted, late) = sent_in_a_second(times * 1_000_000);
            let expected = 1_000 / times;
            assert!((expected..=expected + 1).contains(&counted), "{times}: {counted}");
            assert!(late < times * 1_000_000, "{times}: the first was {late} ns late");
        }
        let (counted, late) = sent_in_a_second(1_000);
        assert!((999..=1_000).contains(&counted) && late <= 2_000, "{counted}, {late}");
    }

    #[test]
    fn a_warm_up_that_is_over_by_rounding_is_over() {
        // 29 gaps of 1,000 bytes at 29 Mbit/s are 8 ms, of which rounding takes something away.
        let gap = 1_000.0 * 8e9 / 29e6;
        for warmup in [Nanos::from_millis(8), Nanos::from_secs(1)] {
            let timeline = timeline(warmup, warmup);
            let mut schedule = Schedule::new(&timeline, Some(gap));
            let before = timeline.from().0 - 1;
            schedule.sent(schedule.due(before).unwrap());
            assert_eq!(schedule.due(before), Some(0));
            let after = timeline.from().0 + gap as u64 + 1;
            schedule.catch_up(after);
            assert!(schedule.counts(after) && schedule.due(after).unwrap() > 0, "{warmup}");
        }
    }

    proptest! {
        #[test]
        fn every_counted_time_begins(
            size in 32_u32..65_000,
            rate in 1_000_u64..100_000_000_000,
            warmup in 0..10_000_000_000_u64,
        ) {
            let gap = f64::from(size) * 8e9 / rate as f64;
            let timeline = timeline(Nanos(warmup), Nanos::from_secs(1));
            let mut schedule = Schedule::new(&timeline, Some(gap));
            let after = timeline.from().0 + gap.ceil() as u64 + 1;
            schedule.catch_up(after);
            prop_assert!(schedule.counts(after) && schedule.due(after).unwrap() > 0);
        }
    }
}
