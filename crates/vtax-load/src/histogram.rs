//! Histograms of durations.

mod decode;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use vtax_units::Nanos;

/// Longest duration told apart; anything longer counts as this.
pub(crate) const LONGEST_NS: u64 = 3_600 * 1_000_000_000;

/// Histograms whose buckets differ: what one takes for the same duration the other tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "histograms with other buckets can't be merged: one has {} significant digits from {} ns on, the other {} from {} ns on",
    .here.0, .here.1, .there.0, .there.1
)]
pub struct UnlikeHistograms {
    /// Significant digits and smallest duration told apart, in nanoseconds.
    pub here: (u8, u64),
    /// Significant digits and smallest duration of the one that was to be merged.
    pub there: (u8, u64),
}

/// A mergeable latency histogram in nanoseconds with 3 significant digits.
///
/// Serialises as the base64 text of HdrHistogram's V2 compressed format, the same text a
/// `.hlog` file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyHistogram(pub Histogram<u64>);

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// An empty histogram that grows as needed.
    #[must_use]
    pub fn new() -> Self {
        Self(bounded(1_000))
    }

    /// Counts one duration.
    pub fn record(&mut self, duration: Nanos) {
        self.record_n(duration.0, 1);
    }

    pub(crate) fn record_n(&mut self, duration_ns: u64, count: u64) {
        // Can't fail: the histogram resizes, up to LONGEST_NS.
        let _ = self.0.record_n(duration_ns.min(LONGEST_NS), count);
    }

    /// Adds another histogram's counts.
    pub fn add(&mut self, other: &Self) {
        for value in other.0.iter_recorded() {
            self.record_n(value.value_iterated_to(), value.count_since_last_iteration());
        }
    }

    /// Significant digits and smallest duration told apart, in nanoseconds: what says where buckets begin and end.
    #[must_use]
    pub fn parameters(&self) -> (u8, u64) {
        (self.0.sigfig(), self.0.low())
    }

    /// Adds another histogram's counts bucket by bucket: nothing is rounded, and the order of merges doesn't matter.
    ///
    /// # Errors
    ///
    /// [`UnlikeHistograms`] where its buckets differ, for then there is no exact sum.
    pub fn merge(&mut self, other: &Self) -> Result<(), UnlikeHistograms> {
        let unlike = UnlikeHistograms { here: self.parameters(), there: other.parameters() };
        if unlike.here != unlike.there {
            return Err(unlike);
        }
        self.0.add(&other.0).map_err(|_| unlike)
    }

    /// The smallest recorded duration that at least this share (0 to 1) of all are not above;
    /// zero where nothing was recorded. Never decreases as `quantile` grows.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Nanos {
        if self.0.is_empty() { Nanos::ZERO } else { Nanos(self.0.value_at_quantile(quantile)) }
    }

    /// The mean; zero where nothing was recorded.
    #[must_use]
    pub fn mean(&self) -> Nanos {
        Nanos(self.0.mean() as u64)
    }

    /// The longest duration; zero where nothing was recorded.
    #[must_use]
    pub fn max(&self) -> Nanos {
        Nanos(if self.0.is_empty() { 0 } else { self.0.max() })
    }

    /// How many durations were recorded.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// True where nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The base64 text of the V2 compressed format.
    ///
    /// # Errors
    /// Where the histogram can't be encoded, which the library doesn't do for those made here.
    pub fn to_base64(&self) -> Result<String, String> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).map_err(|e| e.to_string())?;
        Ok(STANDARD.encode(bytes))
    }

    /// Reads what [`to_base64`](Self::to_base64) wrote, or another tool's `.hlog` payload in
    /// nanoseconds: of at most 3 significant digits, for durations of up to an hour.
    ///
    /// # Errors
    /// The text is not base64, or not such a histogram.
    pub fn from_base64(text: &str) -> Result<Self, String> {
        let bytes = STANDARD.decode(text).map_err(|e| format!("the histogram is not base64: {e}"))?;
        Self::from_bytes(&bytes)
    }

    /// Reads the V2 format, compressed or not. Memory is taken for what the bytes have, not for what they say.
    ///
    /// # Errors
    /// The bytes are not a histogram, or one of more than 3 significant digits or for durations of more than an hour.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let mut histogram = decode::decode(bytes).map_err(|e| format!("the histogram is damaged: {e}"))?;
        histogram.auto(true);
        Ok(Self(histogram))
    }
}

impl Serialize for LatencyHistogram {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.to_base64().map_err(ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for LatencyHistogram {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Self::from_base64(&String::deserialize(d)?).map_err(de::Error::custom)
    }
}

/// A histogram for durations up to `highest_ns` at first, all with the same buckets.
pub(crate) fn bounded(highest_ns: u64) -> Histogram<u64> {
    // The bounds are valid by construction: 1 < 1000 <= highest, 3 digits.
    let mut histogram = Histogram::new_with_bounds(1, highest_ns.clamp(10_000, LONGEST_NS), 3)
        .unwrap_or_else(|e| unreachable!("fixed bounds: {e}"));
    histogram.auto(true);
    histogram
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_round_trips(values in proptest::collection::vec(0_u64..LONGEST_NS, 0..200)) {
            let mut histogram = LatencyHistogram::new();
            for value in &values {
                histogram.record(Nanos(*value));
            }
            let text = serde_json::to_string(&histogram).unwrap();
            let back: LatencyHistogram = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&back.0, &histogram.0);
            let mut merged = back.clone();
            merged.add(&histogram);
            prop_assert_eq!(merged.len(), 2 * values.len() as u64);
            prop_assert_eq!(merged.quantile(0.5), histogram.quantile(0.5));
        }

        #[test]
        fn quantiles_are_monotonic_and_close(mut values in proptest::collection::vec(1_u64..10_000_000_000, 1..300)) {
            let mut histogram = LatencyHistogram::new();
            for value in &values {
                histogram.record(Nanos(*value));
            }
            values.sort_unstable();
            let mut last = 0;
            for step in 0..=100_usize {
                let found = histogram.quantile(step as f64 / 100.0).0;
                prop_assert!(found >= last);
                last = found;
                // The rank is computed from a rounded share, so it may be one off.
                let rank = (step * values.len()).div_ceil(100).clamp(1, values.len());
                let (low, high) = (values[rank.max(2) - 2], values[rank.min(values.len() - 1)]);
                prop_assert!(found as f64 >= low as f64 * 0.999 - 1.0, "{} {}", found, low);
                prop_assert!(found as f64 <= high as f64 * 1.001 + 1.0, "{} {}", found, high);
            }
        }
    }

    fn filled(values: &[u64]) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new();
        for value in values {
            histogram.record(Nanos(*value));
        }
        histogram
    }

    /// Every bucket with its count.
    fn buckets(histogram: &LatencyHistogram) -> Vec<(u64, u64)> {
        let recorded = histogram.0.iter_recorded();
        recorded.map(|v| (v.value_iterated_to(), v.count_since_last_iteration())).collect()
    }

    proptest! {
        #[test]
        fn merging_is_exact_and_its_order_does_not_matter(
            a in proptest::collection::vec(0_u64..LONGEST_NS, 0..100),
            b in proptest::collection::vec(0_u64..1_000_000, 0..100),
            c in proptest::collection::vec(0_u64..LONGEST_NS, 0..100),
        ) {
            let of = |parts: &[&LatencyHistogram]| {
                let mut sum = LatencyHistogram::new();
                for part in parts {
                    sum.merge(part).unwrap();
                }
                sum
            };
            let (x, y, z) = (filled(&a), filled(&b), filled(&c));
            let all = filled(&[a, b, c].concat());
            let first = of(&[&of(&[&x, &y]), &z]);
            prop_assert_eq!(buckets(&first), buckets(&all));
            for other in [of(&[&x, &of(&[&y, &z])]), of(&[&z, &y, &x])] {
                prop_assert_eq!(buckets(&other), buckets(&first));
                prop_assert_eq!((other.len(), other.max()), (first.len(), first.max()));
            }
            // Also of histograms that were stored and read again.
            let stored = [&x, &y, &z].map(|h| LatencyHistogram::from_base64(&h.to_base64().unwrap()).unwrap());
            prop_assert_eq!(buckets(&of(&[&stored[0], &stored[1], &stored[2]])), buckets(&all));
        }
    }

    #[test]
    fn other_buckets_are_refused() {
        let mut other = LatencyHistogram(Histogram::new_with_bounds(1, 1_000_000, 2).unwrap());
        other.0.auto(true);
        let mut mine = filled(&[5_000]);
        let error = mine.merge(&other).unwrap_err();
        assert_eq!(error, UnlikeHistograms { here: (3, 1), there: (2, 1) });
        assert!(error.to_string().contains("3 significant digits from 1 ns on, the other 2"), "{error}");
        assert_eq!(mine.len(), 1);
    }

    #[test]
    fn garbage_is_refused() {
        for text in ["", "!", "AAAA", "HISTFAAAAB542pNpmSzMwMDAxAABzFCaEUIz/AcAAaUCKQ=="] {
            let _ = LatencyHistogram::from_base64(text).map(|h| h.len());
        }
        assert!(LatencyHistogram::from_base64("not base64 at all").is_err());
        assert!(LatencyHistogram::from_base64("AAAAAAAA").is_err());
    }

    #[test]
    fn the_text_is_what_hlog_holds() {
        let mut histogram = LatencyHistogram::new();
        histogram.record(Nanos(5_000));
        // Every V2 compressed histogram starts with the cookie 0x1c849314, "HISTF" in base64.
        assert!(histogram.to_base64().unwrap().starts_with("HISTF"));
    }
}
