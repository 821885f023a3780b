//! Histograms of durations.

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as HdrDeserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use vtax_units::Nanos;

/// Longest duration told apart; anything longer counts as this.
pub(crate) const LONGEST_NS: u64 = 3_600 * 1_000_000_000;

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
    /// nanoseconds.
    ///
    /// # Errors
    /// The text is not base64, or not a histogram.
    pub fn from_base64(text: &str) -> Result<Self, String> {
        let bytes = STANDARD.decode(text).map_err(|e| format!("the histogram is not base64: {e}"))?;
        let mut histogram: Histogram<u64> = HdrDeserializer::new()
            .deserialize(&mut Cursor::new(bytes))
            .map_err(|e| format!("the histogram is damaged: {e}"))?;
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
