//! How long the data plane of a topology took to converge after an event (RFC 6412, RFC 6413), from a stream of probes
//! at a constant rate.
//!
//! Two ways, which must agree within an interval between probes:
//!
//! - **loss-derived**: how many probes were lost, times the interval between two (RFC 6413, section 3.5's Loss-Derived
//!   Method);
//! - **rate-derived**: from the last probe before the rate of what arrives fell to the first from which on it is whole
//!   again (the Rate-Derived Method), without what was reordered or duplicated.
//!
//! What happens is told as the receiving end sees it: a probe belongs to the time in which it would arrive if it took the least time
//! that any took. Those that were on their way to a link when it was cut are lost to the cut.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

/// A stream of probes that went one way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Time between two probes as they are sent.
    pub interval: Nanos,
    /// How many were sent.
    pub sent: u64,
    /// When probe 0 was sent, on the sender's clock.
    pub first: Nanos,
    /// What arrived, in the order of arrival: number of the probe, and when, on the receiver's clock.
    pub arrivals: Vec<(u64, Nanos)>,
}

/// What became of the probes that were to arrive in a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Sent.
    pub sent: u64,
    /// Never arrived.
    pub lost: u64,
    /// Arrived more than once, each repetition counted.
    pub duplicated: u64,
    /// Arrived after one that was sent later (RFC 4737's Type-P-Reordered).
    pub reordered: u64,
}

/// An event's effect on a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Convergence {
    /// From the event to the first probe that was lost, by when it would have arrived at the soonest; `None`: none was.
    pub began: Option<Nanos>,
    /// Loss-derived convergence time.
    pub by_loss: Nanos,
    /// Rate-derived convergence time; `None` where the stream was not whole again before its end.
    pub by_rate: Option<Nanos>,
    /// From the event to the first probe from which on the stream was whole again, by when it arrived at the soonest; `None` as for
    /// `by_rate`.
    pub whole_again: Option<Nanos>,
    /// What became of the probes from the event to `until`.
    pub counts: Counts,
}

/// How many probes in a row must arrive for the stream to be whole again.
const WHOLE: u64 = 20;

impl Stream {
    /// When a probe was sent.
    fn sent_at(&self, number: u64) -> Nanos {
        Nanos(self.first.0.saturating_add(self.interval.0.saturating_mul(number)))
    }

    /// The first probe that was sent at or after a time.
    fn probe_at(&self, time: Nanos) -> u64 {
        match self.interval.0 {
            0 => 0,
            interval => time.saturating_sub(self.first).0.div_ceil(interval).min(self.sent),
        }
    }

    /// The least time that a probe was under way; none where none arrived.
    fn transit(&self) -> Nanos {
        // An arrival without a time of its own says nothing.
        let taken = self.arrivals.iter().filter_map(|(number, at)| at.0.checked_sub(self.sent_at(*number).0));
        Nanos(taken.min().unwrap_or_default())
    }

    /// Which probes arrived, by their numbers.
    fn arrived(&self) -> Vec<bool> {
        // A stream of more than this was not sent by vtax.
        let mut arrived = vec![false; usize::try_from(self.sent.min(MOST_PROBES)).unwrap_or_default()];
        for (number, _) in &self.arrivals {
            if let Some(place) = usize::try_from(*number).ok().and_then(|number| arrived.get_mut(number)) {
                *place = true;
            }
        }
        arrived
    }

    /// What an event at `event` did to the stream until `until`, both on the clock of both ends.
    #[must_use]
    pub fn after(&self, event: Nanos, until: Nanos) -> Convergence {
        let arrived = self.arrived();
        let transit = self.transit();
        let [from, to] = [event, until].map(|time| self.probe_at(time.saturating_sub(transit)));
        let to = to.max(from);
        let arrives = |number: u64| Nanos(self.sent_at(number).0.saturating_add(transit.0));
        let is_lost = |number: u64| !arrived.get(number as usize).copied().unwrap_or(true);
        let mut lost = (from..to).filter(|number| is_lost(*number));
        let first = lost.next();
        let count = u64::from(first.is_some()) + lost.count() as u64;
        let mut counts = self.counts(from, to);
        counts.lost = count;
        let began = first.map(|number| arrives(number).saturating_sub(event));
        let by_loss = Nanos(self.interval.0.saturating_mul(count));
        let Some(first) = first else {
            let none = Some(Nanos::ZERO);
            return Convergence { began, by_loss, by_rate: none, whole_again: none, counts };
        };
        let again = self.whole_from(first, to, is_lost);
        let since = |start: Nanos| again.map(|number| arrives(number).saturating_sub(start));
        Convergence { began, by_loss, by_rate: since(arrives(first)), whole_again: since(event), counts }
    }

    /// The first probe after `first` from which on [`WHOLE`] in a row arrived.
    fn whole_from(&self, first: u64, to: u64, is_lost: impl Fn(u64) -> bool) -> Option<u64> {
        let mut start = None;
        for number in first..to {
            if is_lost(number) {
                start = None;
            } else {
                let begun = *start.get_or_insert(number);
                if number - begun + 1 >= WHOLE {
                    return Some(begun);
                }
            }
        }
        None
    }

    /// What became of probes `from` to `to`, what was lost left out.
    fn counts(&self, from: u64, to: u64) -> Counts {
        let mut seen = std::collections::BTreeSet::new();
        let mut highest = None;
        let mut counts = Counts { sent: to - from, ..Counts::default() };
        for (number, _) in self.arrivals.iter().filter(|(number, _)| (from..to).contains(number)) {
            if !seen.insert(*number) {
                counts.duplicated += 1;
            } else if highest.is_some_and(|highest| *number < highest) {
                counts.reordered += 1;
            }
            highest = highest.max(Some(*number));
        }
        counts
    }
}

/// Most probes of a stream: 10,000 a second for half an hour.
const MOST_PROBES: u64 = 18_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INTERVAL: Nanos = Nanos(1_000_000);

    /// What the probes of [`stream`] take.
    const TRANSIT: Nanos = Nanos(2_000_000);

    /// A stream of `sent` probes of which those in `gone` are lost and the others take so long.
    fn taking(transit: Nanos, sent: u64, gone: std::ops::Range<u64>) -> Stream {
        let mut stream = Stream { interval: INTERVAL, sent, first: Nanos(500), arrivals: Vec::new() };
        let there = (0..sent).filter(|number| !gone.contains(number));
        stream.arrivals = there.map(|number| (number, arrival(&stream, transit, number))).collect();
        stream
    }

    fn stream(sent: u64, gone: std::ops::Range<u64>) -> Stream {
        taking(TRANSIT, sent, gone)
    }

    fn arrival(stream: &Stream, transit: Nanos, number: u64) -> Nanos {
        Nanos(stream.sent_at(number).0 + transit.0)
    }

    #[test]
    fn a_cut_of_known_length_is_told_both_ways() {
        for length in [100, 1_000, 5_000] {
            let stream = stream(10_000, 1_000..1_000 + length);
            let event = arrival(&stream, TRANSIT, 999);
            let found = stream.after(event, arrival(&stream, TRANSIT, 10_000));
            assert_eq!(found.counts, Counts { sent: 9_001, lost: length, duplicated: 0, reordered: 0 });
            assert_eq!(found.by_loss, Nanos(length * INTERVAL.0));
            assert_eq!(found.by_rate, Some(found.by_loss));
            assert_eq!(found.began, Some(INTERVAL));
            assert_eq!(found.whole_again, Some(Nanos((length + 1) * INTERVAL.0)));
        }
    }

    #[test]
    fn what_never_comes_back_has_no_end() {
        let stream = stream(1_000, 500..1_000);
        let found = stream.after(stream.sent_at(400), arrival(&stream, TRANSIT, 1_000));
        assert_eq!((found.by_rate, found.whole_again), (None, None));
        assert_eq!(found.by_loss, Nanos(500 * INTERVAL.0));
    }

    #[test]
    fn what_is_under_way_when_a_link_is_cut_is_lost_to_the_cut() {
        for transit in [0, 40_000, 50_000_000, 400_000_000].map(Nanos) {
            // What would have arrived after the cut didn't, until the link was restored.
            let lost = 1_000..1_200;
            let stream = taking(transit, 3_000, lost.clone());
            let [cut, restored] = [lost.start, lost.end].map(|number| arrival(&stream, transit, number));
            let before = stream.after(Nanos::ZERO, cut);
            assert_eq!((before.counts.lost, before.began), (0, None), "{transit}");
            let during = stream.after(cut, restored);
            assert_eq!(during.counts, Counts { sent: 200, lost: 200, ..Counts::default() }, "{transit}");
            assert_eq!((during.began, during.by_rate), (Some(Nanos::ZERO), None), "{transit}");
            let until = arrival(&stream, transit, 3_000);
            assert_eq!(stream.after(restored, until).counts.lost, 0, "{transit}");
            let whole = stream.after(cut, until);
            assert_eq!(whole.whole_again, Some(restored.saturating_sub(cut)), "{transit}");
        }
    }

    #[test]
    fn nothing_lost_is_no_time_at_all() {
        let found = stream(1_000, 0..0).after(Nanos(1_000_000), Nanos(900_000_000));
        assert_eq!((found.began, found.by_loss, found.by_rate), (None, Nanos::ZERO, Some(Nanos::ZERO)));
    }

    #[test]
    fn repetitions_and_changes_of_order_are_apart_from_losses() {
        let mut stream = stream(100, 40..45);
        let (at, late) = (stream.arrivals[10], stream.arrivals[60]);
        stream.arrivals.insert(12, at);
        stream.arrivals.remove(61);
        stream.arrivals.push(late);
        let found = stream.after(Nanos::ZERO, arrival(&stream, TRANSIT, 100));
        assert_eq!((found.counts.lost, found.counts.duplicated, found.counts.reordered), (5, 1, 1));
    }

    proptest! {
        #[test]
        fn one_gap_is_told_the_same_both_ways(start in 0_u64..500, length in 1_u64..400) {
            let stream = stream(1_000, start..start + length);
            let found = stream.after(Nanos::ZERO, arrival(&stream, TRANSIT, 1_000));
            prop_assert_eq!(found.by_rate, Some(found.by_loss));
            prop_assert_eq!(found.counts.lost, length);
        }

        #[test]
        fn any_arrivals_are_counted(
            arrivals in prop::collection::vec((any::<u64>(), any::<u64>()), 0..200),
            sent in 0_u64..1_000, event in any::<u64>(), until in any::<u64>(),
        ) {
            let arrivals = arrivals.into_iter().map(|(number, at)| (number, Nanos(at))).collect();
            let stream = Stream { interval: INTERVAL, sent, first: Nanos::ZERO, arrivals };
            let found = stream.after(Nanos(event), Nanos(until));
            prop_assert!(found.counts.lost <= found.counts.sent);
        }
    }
}
