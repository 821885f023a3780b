//! Mean, variance, extremes and percentiles of one measurement in one step.

use vtax_load::sip::MetricResult;
use vtax_store::ims::ImsMetric;

/// The percentiles of every table.
pub(crate) const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

const NS_PER_MS: f64 = 1e6;

/// What a table says about the values of one measurement in one step.
///
/// Whatever it is made from, it holds `min <= p50 <= p90 <= p95 <= p99 <= p99.9 <= max` and
/// `min <= mean <= max`, all finite, and nothing but the values it was made from decides it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stats {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    /// Of the sample: divided by one less than `count`; 0 for a single value.
    pub(crate) variance: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// In the order of [`QUANTILES`].
    pub(crate) percentiles: [f64; QUANTILES.len()],
}

impl Stats {
    /// Of values that are all known; what isn't finite is left out. `None` where nothing is left.
    pub(crate) fn of_values(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let n = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / n;
        let squares: f64 = sorted.iter().map(|v| (v - mean).powi(2)).sum();
        // Nearest rank: a percentile is one of the values.
        let at = |q: f64| sorted[((q * n).ceil() as usize).clamp(1, sorted.len()) - 1];
        let percentiles = QUANTILES.map(|(_, q)| at(q));
        Some(Self::ordered(
            sorted.len() as u64,
            (mean, squares / (n - 1.0).max(1.0)),
            (min, max),
            percentiles,
        ))
    }

    /// Of one metric, all its scenarios together, in milliseconds; `None` where it has no value.
    ///
    /// A stored run is not trusted: mean and variance that can't be those of the histogram are
    /// replaced by the histogram's own.
    pub(crate) fn of_metric(parts: &[&MetricResult]) -> Option<Self> {
        let parts: Vec<Part<'_>> = parts.iter().filter_map(|m| Part::new(m)).collect();
        let first = parts.first()?;
        let count: u64 = parts.iter().map(|p| p.count).sum();
        let n = count as f64;
        let mean = parts.iter().map(|p| p.mean * p.count as f64).sum::<f64>() / n;
        // Chan, Golub, LeVeque: sums of squares of parts around a common mean.
        let squares: f64 = parts
            .iter()
            .map(|p| p.variance * (p.count as f64 - 1.0) + p.count as f64 * (p.mean - mean).powi(2))
            .sum();
        let min = parts.iter().map(|p| p.min).fold(f64::INFINITY, f64::min);
        let max = parts.iter().map(|p| p.max).fold(0.0, f64::max);
        let merged = (parts.len() > 1).then(|| {
            let mut all = first.result.histogram.clone();
            parts.iter().skip(1).for_each(|p| all.add(&p.result.histogram));
            all
        });
        let histogram = merged.as_ref().unwrap_or(&first.result.histogram);
        let percentiles = QUANTILES.map(|(_, q)| histogram.quantile(q).0 as f64 / NS_PER_MS);
        Some(Self::ordered(count, (mean, squares / (n - 1.0).max(1.0)), (min, max), percentiles))
    }

    /// Of what the journal keeps of a metric, in milliseconds; `None` where it has no value.
    pub(crate) fn of_journal(m: &ImsMetric) -> Option<Self> {
        let ms = |ns: u64| ns as f64 / NS_PER_MS;
        let (min, max) = (ms(m.min_ns.min(m.max_ns)), ms(m.max_ns));
        let names = ["50", "90", "95", "99", "99.9"];
        let percentiles = names.map(|n| m.percentiles_ns.get(n).map_or(min, |v| ms(*v)));
        let finite = |v: f64| if v.is_finite() { v } else { 0.0 };
        let moments = (finite(m.mean_ns / NS_PER_MS), finite((m.sd_ns / NS_PER_MS).powi(2)));
        (m.count > 0).then(|| Self::ordered(m.count, moments, (min, max), percentiles))
    }

    /// Puts figures of several sources (exact extremes, percentiles of a histogram with three digits)
    /// into the order that the values themselves have.
    fn ordered(
        count: u64,
        (mean, variance): (f64, f64),
        (min, max): (f64, f64),
        mut percentiles: [f64; QUANTILES.len()],
    ) -> Self {
        let mut floor = min;
        for p in &mut percentiles {
            *p = p.clamp(floor, max);
            floor = *p;
        }
        Self { count, mean: mean.clamp(min, max), variance: variance.max(0.0), min, max, percentiles }
    }

    /// Standard deviation.
    pub(crate) fn sd(&self) -> f64 {
        self.variance.sqrt()
    }

    /// Whether a percentile has values beyond it; else it is the maximum by another name.
    pub(crate) fn resolves(&self, quantile: f64) -> bool {
        self.count as f64 * (1.0 - quantile) >= 1.0 - 1e-9
    }
}

/// One scenario's values, made consistent; milliseconds.
struct Part<'a> {
    result: &'a MetricResult,
    count: u64,
    mean: f64,
    variance: f64,
    min: f64,
    max: f64,
}

impl<'a> Part<'a> {
    fn new(result: &'a MetricResult) -> Option<Self> {
        let h = &result.histogram.0;
        if h.is_empty() {
            return None;
        }
        // The exact extremes lie in the histogram's outermost buckets, or they are not its extremes.
        let within = |exact: u64, bucket: u64| {
            let ok = exact >= h.lowest_equivalent(bucket) && exact <= h.highest_equivalent(bucket);
            (if ok { exact } else { bucket }) as f64 / NS_PER_MS
        };
        let (min, max) = (within(result.min.0, h.min()), within(result.max.0, h.max()));
        let (min, max) = (min.min(max), max);
        let mean = result.mean_ns / NS_PER_MS;
        let close = (mean - h.mean() / NS_PER_MS).abs() <= 0.01 * h.mean() / NS_PER_MS;
        let mean = if close { mean } else { h.mean() / NS_PER_MS };
        let variance = result.variance_ns2 / (NS_PER_MS * NS_PER_MS);
        // No sample's variance is larger than that of values at both ends only.
        let limit =
            (max - min).powi(2) * if h.len() > 1 { h.len() as f64 / (h.len() - 1) as f64 } else { 0.0 };
        let own = (h.stdev() / NS_PER_MS).powi(2);
        let variance = if (0.0..=limit).contains(&variance) { variance } else { own.min(limit) };
        Some(Self { result, count: h.len(), mean, variance, min, max })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vtax_load::LatencyHistogram;
    use vtax_plan::model::{Scenario, SipMetric};
    use vtax_units::Nanos;

    use super::*;

    fn metric(values: &[u64]) -> MetricResult {
        let mut histogram = LatencyHistogram::new();
        values.iter().for_each(|v| histogram.record(Nanos(*v)));
        let n = values.len() as f64;
        let mean_ns = values.iter().map(|v| *v as f64).sum::<f64>() / n;
        let squares = values.iter().map(|v| (*v as f64 - mean_ns).powi(2)).sum::<f64>();
        MetricResult {
            metric: SipMetric::Ses1,
            scenario: Scenario::Calling,
            mean_ns,
            variance_ns2: squares / (n - 1.0).max(1.0),
            min: Nanos(values.iter().copied().min().unwrap_or_default()),
            max: Nanos(values.iter().copied().max().unwrap_or_default()),
            histogram,
        }
    }

    fn sound(s: &Stats) {
        let mut order = vec![s.min];
        order.extend(s.percentiles);
        order.push(s.max);
        assert!(order.iter().all(|v| v.is_finite()), "{s:?}");
        assert!(order.windows(2).all(|w| w[0] <= w[1]), "{s:?}");
        assert!(s.min <= s.mean && s.mean <= s.max && s.variance >= 0.0 && s.sd().is_finite(), "{s:?}");
    }

    #[test]
    fn exact_for_a_known_sample() {
        let s = Stats::of_values([4.0, 1.0, 3.0, 2.0, f64::NAN]).unwrap();
        assert_eq!((s.count, s.mean, s.min, s.max), (4, 2.5, 1.0, 4.0));
        assert!((s.variance - 5.0 / 3.0).abs() < 1e-12);
        assert_eq!(s.percentiles, [2.0, 4.0, 4.0, 4.0, 4.0]);
        assert_eq!(Stats::of_values([f64::INFINITY]), None);
        assert_eq!(Stats::of_metric(&[]), None);
    }

    /// As in the report of a test tool of 2010: a mean of 295 retransmissions a second beside
    /// percentiles that are all 0. Both come from the same seconds here.
    #[test]
    fn a_mean_and_its_percentiles_speak_of_the_same_seconds() {
        let s = Stats::of_values((0..1800).map(|i| f64::from(i % 590))).unwrap();
        assert!(s.mean > 250.0 && s.percentiles[0] > 250.0 && s.percentiles[4] > 580.0, "{s:?}");
    }

    /// A response time is never 0.00 because of its unit.
    #[test]
    fn nanoseconds_survive() {
        let s = Stats::of_metric(&[&metric(&[740, 2_100, 900])]).unwrap();
        assert_eq!(s.min, 0.000_74);
        assert_ne!(crate::format::digits(s.min), "0");
    }

    #[test]
    fn parts_merge_as_if_they_were_one() {
        let (a, b) = ([1_000_000, 5_000_000, 9_500_000], [2_000_000, 70_000_000]);
        let all: Vec<u64> = a.iter().chain(&b).copied().collect();
        let parts = Stats::of_metric(&[&metric(&a), &metric(&b)]).unwrap();
        let one = Stats::of_metric(&[&metric(&all)]).unwrap();
        assert!((parts.mean - one.mean).abs() < 1e-9 && (parts.variance / one.variance - 1.0).abs() < 1e-9);
        assert_eq!((parts.count, parts.min, parts.max), (one.count, one.min, one.max));
        assert_eq!(parts.percentiles, one.percentiles);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_values_are_in_order(values in proptest::collection::vec(any::<f64>(), 0..80)) {
            let finite = values.iter().filter(|v| v.is_finite() && v.abs() < 1e150).copied();
            if let Some(s) = Stats::of_values(finite) {
                sound(&s);
            }
        }

        /// A run directory may hold anything.
        #[test]
        fn a_hostile_metric_is_in_order(
            values in proptest::collection::vec(0u64..40_000_000_000, 1..80),
            mean in any::<f64>(), variance in any::<f64>(), min in any::<u64>(), max in any::<u64>(),
            also in proptest::collection::vec(0u64..4_000_000_000, 1..20),
        ) {
            let mut hostile = metric(&values);
            (hostile.mean_ns, hostile.variance_ns2) = (mean, variance);
            (hostile.min, hostile.max) = (Nanos(min), Nanos(max));
            sound(&Stats::of_metric(&[&hostile]).unwrap());
            sound(&Stats::of_metric(&[&hostile, &metric(&also)]).unwrap());
            sound(&Stats::of_journal(&ImsMetric::from(&hostile)).unwrap());
            let falling = [("50", max), ("90", min), ("99", 0)].map(|(n, v)| (n.to_owned(), v));
            let torn = ImsMetric { percentiles_ns: falling.into(), ..ImsMetric::from(&hostile) };
            sound(&Stats::of_journal(&torn).unwrap());
        }

        #[test]
        fn a_sound_metric_is_shown_as_it_is(values in proptest::collection::vec(1u64..40_000_000_000, 1..80)) {
            let result = metric(&values);
            let s = Stats::of_metric(&[&result]).unwrap();
            prop_assert_eq!(s.min, result.min.0 as f64 / NS_PER_MS);
            prop_assert_eq!(s.max, result.max.0 as f64 / NS_PER_MS);
            prop_assert!((s.mean - result.mean_ns / NS_PER_MS).abs() < 1e-9 * s.mean.max(1.0));
        }
    }
}
