//! What a metric is, and one figure of it.

use vtax_load::LatencyHistogram;
use vtax_store::summary::Better;

/// Pseudo-measure that collects what every trial tells, whichever measure it was for.
pub(crate) const LIFECYCLE: &str = "lifecycle";

/// What a metric is, apart from its values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Info {
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) label: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    /// Whether a ratio to the baseline means something.
    pub(crate) compared: bool,
    /// Whether it belongs to the first table.
    pub(crate) primary: bool,
}

impl Info {
    /// What a value can be at all: no time, count or rate is below 0, and no share above 1.
    pub(crate) fn possible(&self) -> (f64, f64) {
        (0.0, if self.unit == "1" { 1.0 } else { f64::INFINITY })
    }
}

/// A metric of which less is better; `rank` is 0 where it isn't compared, 2 where it belongs to the first table.
pub(crate) const fn lower(name: &'static str, label: &'static str, unit: &'static str, rank: u8) -> Info {
    Info { name, label, unit, better: Better::Lower, compared: rank > 0, primary: rank > 1 }
}

/// A metric of which more is better.
pub(crate) const fn higher(name: &'static str, label: &'static str, unit: &'static str, rank: u8) -> Info {
    Info { better: Better::Higher, ..lower(name, label, unit, rank) }
}

/// One figure of one trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Value {
    pub(crate) metric: &'static str,
    pub(crate) value: f64,
    /// Relative width within which it could lie ([`vtax_stats::Group::resolution`]).
    pub(crate) resolution: f64,
    /// Only a lower bound.
    pub(crate) censored: bool,
}

/// HDR histograms of three significant digits tell values apart down to this.
pub(crate) const HISTOGRAM_RESOLUTION: f64 = 0.001;

/// A figure that is known exactly.
pub(crate) fn exact(metric: &'static str, value: f64) -> Value {
    Value { metric, value, resolution: 0.0, censored: false }
}

/// Values that must be beyond a percentile for it to be told: with fewer, chance decides.
const BEYOND: f64 = 10.0;

/// Whether so many values tell the quantile `q`.
pub(crate) fn enough(values: u64, q: f64) -> bool {
    // 1 - 0.9 is a little less than 0.1.
    values as f64 * (1.0 - q) >= BEYOND - 1e-6
}

/// How many values tell the quantile `q`.
pub(crate) fn needed(q: f64) -> u64 {
    (BEYOND / (1.0 - q)).round() as u64
}

/// Those percentiles of a histogram that it has [`enough`] values for.
pub(crate) fn percentiles(
    histogram: &LatencyHistogram,
    wanted: &[(&'static str, f64)],
) -> impl Iterator<Item = Value> {
    let resolution = HISTOGRAM_RESOLUTION;
    let known = wanted.iter().filter(|(_, q)| enough(histogram.len(), *q));
    known.map(move |(metric, q)| {
        let value = histogram.quantile(*q).0 as f64;
        Value { metric, value, resolution, censored: false }
    })
}

/// Percentiles that are metrics, with their quantiles.
pub(crate) type Percentiles = &'static [(&'static str, f64)];

/// What was observed in a trial under one name.
#[derive(Debug)]
pub(crate) struct Observed<'a> {
    /// Name of the test, where each is a measure of its own.
    pub(crate) test: Option<&'a str>,
    pub(crate) values: Vec<Value>,
    /// Of usual answers, without those around faults.
    pub(crate) latency: Option<&'a LatencyHistogram>,
    /// Its percentiles.
    pub(crate) percentiles: Percentiles,
}

/// Name of a test that is a measure of its own: `network/tcp.window-4K`.
pub(crate) fn measure_of_test(measure: &str, test: &str) -> String {
    format!("{measure}/{test}")
}

/// The plan's measure of a measure, and the test that it is, where it is one.
pub(crate) fn parts_of_measure(measure: &str) -> (&str, Option<&str>) {
    // Names of measures have no such character.
    measure.split_once('/').map_or((measure, None), |(of, test)| (of, Some(test)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_that_is_a_test_has_both_parts() {
        assert_eq!(parts_of_measure(&measure_of_test("network", "tcp.a/b")), ("network", Some("tcp.a/b")));
        assert_eq!(parts_of_measure("latency"), ("latency", None));
    }

    #[test]
    fn ten_values_must_be_beyond_a_percentile() {
        for (q, least) in [(0.5, 20), (0.9, 100), (0.95, 200), (0.99, 1000), (0.999, 10_000)] {
            assert_eq!(needed(q), least, "{q}");
            assert!(enough(least, q) && !enough(least - 1, q), "{q}");
        }
    }
}
