//! What a metric is, and one figure of it.

use vtax_load::{LatencyHistogram, LoadResult};
use vtax_store::summary::Better;
use vtax_units::Nanos;
use vtax_units::metric::{DOC, VOICE_MOS};

/// Pseudo-measure that collects what every trial tells, whichever measure it was for.
pub(crate) const LIFECYCLE: &str = "lifecycle";

/// The mean opinion score that few calls don't exceed.
pub(crate) const VOICE_MOS_WORST: &str = "voice_mos_worst";

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
    /// What a value can be at all: no time, count or rate is below 0, no share above 1, and a mean opinion score is what ITU-T
    /// G.107 has.
    pub(crate) fn possible(&self) -> (f64, f64) {
        match self.unit {
            _ if [VOICE_MOS.name, VOICE_MOS_WORST].contains(&self.name) => (1.0, 4.5),
            "1" => (0.0, 1.0),
            _ => (0.0, f64::INFINITY),
        }
    }

    /// Whether a trial's value is a count, or the median of counts: requests lost, connections refused. A score has no unit either and
    /// is none, nor is a mean per call.
    pub(crate) fn is_count(&self) -> bool {
        self.unit.is_empty() && ![VOICE_MOS.name, VOICE_MOS_WORST, "call_sent_again"].contains(&self.name)
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

impl Value {
    /// What taxes are made of: the value, or where that is the lower end of its bracket the middle, so that what the resolution hides
    /// reaches as far down as up (the middle of a rectangle, JCGM 100:2008, 4.3.7). A design objective capacity is the last load
    /// that passed, as ETSI TS 186 008 has it; the tax of 100 over 30 in steps of 10 would be 3.3, and is 3.0.
    pub(crate) fn for_tax(&self) -> f64 {
        if self.metric == DOC.name { self.value * (self.resolution / 2.0).exp() } else { self.value }
    }
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

/// What was asked for and had no answer, of which a histogram of answers knows nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Unanswered {
    /// Its share of all that was asked for.
    pub(crate) share: f64,
    /// How long an answer was waited for at least.
    pub(crate) waited: Nanos,
}

impl Unanswered {
    /// Of a load.
    pub(crate) fn of(load: &LoadResult) -> Self {
        Self { share: load.unanswered(), waited: load.timeout }
    }
}

/// Those percentiles of all that was asked for which a histogram of answers has [`enough`] values for. What had no answer counts
/// as slower than every answer, so that a percentile can't become better where more fails; a percentile that lies among
/// it is a bound.
pub(crate) fn percentiles(
    histogram: &LatencyHistogram,
    unanswered: Unanswered,
    wanted: &[(&'static str, f64)],
) -> impl Iterator<Item = Value> {
    let answered = 1.0 - unanswered.share;
    let known = wanted.iter().filter(|(_, q)| enough(histogram.len(), *q));
    known.map(move |(metric, q)| {
        let censored = *q > answered;
        let value = match censored {
            true => unanswered.waited.0.max(histogram.0.max()),
            false => histogram.quantile(q / answered).0,
        };
        Value { metric, value: value as f64, resolution: HISTOGRAM_RESOLUTION, censored }
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
    fn a_value_is_within_what_it_can_be() {
        assert_eq!(lower("rebuild", "", "ns", 0).possible(), (0.0, f64::INFINITY));
        assert_eq!(higher("survived", "", "1", 0).possible(), (0.0, 1.0));
        for score in [VOICE_MOS.name, VOICE_MOS_WORST] {
            assert_eq!(higher(score, "", "", 0).possible(), (1.0, 4.5));
        }
        let estimate = vtax_stats::estimate(&vtax_stats::Group::exact(&[4.4, 4.3, 1.2])).unwrap();
        assert!(estimate.interval.is_some_and(|(low, high)| low < 1.0 && high > 4.5), "{estimate:?}");
        let score = higher(VOICE_MOS.name, VOICE_MOS.label, "", 2);
        assert_eq!(estimate.within(score.possible()).interval, Some((1.0, 4.5)));
    }

    #[test]
    fn what_had_no_answer_is_slower_than_every_answer() {
        let mut answers = LatencyHistogram::new();
        for ms in 1..=1000 {
            answers.record(Nanos::from_millis(ms));
        }
        let found = |share, waited| -> Vec<(f64, bool)> {
            let unanswered = Unanswered { share, waited };
            let values = percentiles(&answers, unanswered, &[("latency_p50", 0.5), ("latency_p99", 0.99)]);
            values.map(|v| ((v.value / 1e6).round(), v.censored)).collect()
        };
        let close = |found: &[(f64, bool)], wanted: [(f64, bool); 2]| {
            found.iter().zip(wanted).all(|(a, b)| (a.0 - b.0).abs() <= 1.0 && a.1 == b.1)
        };
        assert!(close(&found(0.0, Nanos::ZERO), [(500.0, false), (990.0, false)]));
        // Half of all that was asked for was answered by 556 ms, where a tenth had no answer.
        assert!(close(&found(0.1, Nanos::from_secs(2)), [(556.0, false), (2000.0, true)]));
        assert!(close(&found(0.1, Nanos::ZERO), [(556.0, false), (1000.0, true)]));
        assert!(close(&found(0.6, Nanos::from_secs(2)), [(2000.0, true), (2000.0, true)]));
    }

    #[test]
    fn ten_values_must_be_beyond_a_percentile() {
        for (q, least) in [(0.5, 20), (0.9, 100), (0.95, 200), (0.99, 1000), (0.999, 10_000)] {
            assert_eq!(needed(q), least, "{q}");
            assert!(enough(least, q) && !enough(least - 1, q), "{q}");
        }
    }
}
