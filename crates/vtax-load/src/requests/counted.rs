//! Durations of one interval, counted in the buckets of its histogram.

use std::hint::black_box;

use crate::histogram::LONGEST_NS;

/// Of each power of two so many buckets are told apart, as HdrHistogram does with three significant digits.
const PER_OCTAVE_BITS: u32 = 10;
const PER_OCTAVE: usize = 1 << PER_OCTAVE_BITS;
/// Buckets from 0 to [`LONGEST_NS`].
const BUCKETS: usize = bucket_of(LONGEST_NS) + 1;

/// Counts of durations that are taken out and begun anew many times. That costs as much as there are buckets with something in them: a
/// histogram's walk through all of its buckets takes some 40 us, during which nothing can start.
#[derive(Debug)]
pub(crate) struct CountedDurations {
    counts: Box<[u32]>,
    /// The buckets that aren't empty, in no order.
    used: Vec<u16>,
}

impl CountedDurations {
    /// All memory is touched now, so that no page fault happens during the load.
    pub(crate) fn new() -> Self {
        let mut counts = black_box(vec![1; BUCKETS]).into_boxed_slice();
        counts.fill(0);
        let mut used = black_box(vec![u16::MAX; BUCKETS]);
        used.clear();
        Self { counts, used }
    }

    /// Counts a duration, one longer than [`LONGEST_NS`] as that.
    pub(crate) fn record(&mut self, duration_ns: u64) {
        let bucket = bucket_of(duration_ns.min(LONGEST_NS));
        let count = &mut self.counts[bucket];
        if *count == 0 {
            self.used.push(bucket as u16);
        }
        *count = count.saturating_add(1);
    }

    /// What was counted since the last call: the longest duration of each bucket in nanoseconds, in no order, and how many it has.
    pub(crate) fn take(&mut self) -> Vec<(u64, u64)> {
        let counts = &mut self.counts;
        let taken = |bucket: u16| {
            let count = std::mem::take(&mut counts[usize::from(bucket)]);
            (longest_of(usize::from(bucket)), u64::from(count))
        };
        self.used.drain(..).map(taken).collect()
    }
}

const fn bucket_of(duration_ns: u64) -> usize {
    // Below 2,048 ns all are told apart.
    let octave = (u64::BITS - (duration_ns | 1).leading_zeros()).saturating_sub(PER_OCTAVE_BITS + 1);
    octave as usize * PER_OCTAVE + (duration_ns >> octave) as usize
}

const fn longest_of(bucket: usize) -> u64 {
    let octave = (bucket / PER_OCTAVE).saturating_sub(1);
    (((bucket - octave * PER_OCTAVE + 1) as u64) << octave) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vtax_units::Nanos;

    use super::*;
    use crate::LatencyHistogram;

    proptest! {
        #[test]
        fn what_is_taken_is_what_a_histogram_has(
            durations in proptest::collection::vec((0_u32..=42, any::<u64>()), 0..200),
        ) {
            let mut counted = CountedDurations::new();
            // Twice, since the second time finds what the first has left.
            for part in durations.chunks(100) {
                let mut recorded = LatencyHistogram::new();
                for (bits, noise) in part {
                    let duration = noise & ((1 << bits) - 1);
                    counted.record(duration);
                    recorded.record(Nanos(duration));
                }
                let mut taken = counted.take();
                taken.sort_unstable();
                let expected = recorded.0.iter_recorded();
                let expected = expected.map(|v| (v.value_iterated_to(), v.count_since_last_iteration()));
                prop_assert_eq!(taken, expected.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn buckets_are_those_of_histograms() {
        let histogram = LatencyHistogram::new();
        for duration in [0, 1, 2_047, 2_048, 2_049, 4_095, 4_096, 123_456_789, LONGEST_NS] {
            assert_eq!(
                longest_of(bucket_of(duration)),
                histogram.0.highest_equivalent(duration),
                "{duration}"
            );
        }
        assert!(BUCKETS < usize::from(u16::MAX));
        let mut counted = CountedDurations::new();
        counted.record(u64::MAX);
        assert_eq!(counted.take(), [(longest_of(BUCKETS - 1), 1)]);
        assert_eq!(counted.take(), []);
    }
}
