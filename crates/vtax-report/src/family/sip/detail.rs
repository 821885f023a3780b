//! One trial of the IMS benchmark, reduced phase by phase to what its tables and pictures show.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use vtax_load::LatencyHistogram;
use vtax_load::sip::{MetricResult, PhaseResult};
use vtax_plan::model::{Scenario, SipMetric};

use super::stats::Stats;
use super::what::What;
use crate::plot::shape::{LogBins, Moment};

/// One trial with everything that is drawn of it.
#[derive(Debug, Default)]
pub(crate) struct Detail {
    pub(crate) phases: Vec<Phase>,
    /// In the order of [`What`].
    pub(crate) measurements: Vec<Measurement>,
}

/// One phase.
#[derive(Debug)]
pub(crate) struct Phase {
    /// Without its seconds and histograms.
    pub(crate) result: PhaseResult,
    /// Seconds since the first phase.
    pub(crate) start: f64,
    /// Of the generator's lateness, in milliseconds.
    pub(crate) lateness: Option<Stats>,
    /// Places of its seconds that count.
    counted: Range<usize>,
}

impl Phase {
    pub(crate) fn end(&self) -> f64 {
        self.start + self.result.duration.as_secs_f64()
    }

    /// Where counting begins.
    pub(crate) fn counts_from(&self) -> f64 {
        self.start + self.result.transient.as_secs_f64().min(self.result.duration.as_secs_f64())
    }
}

/// One measurement over the whole trial.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) what: What,
    /// By phase, over what counts.
    pub(crate) steps: Vec<Option<Stats>>,
    /// When each value was taken, in seconds since the first phase.
    at: Arc<Vec<f32>>,
    mean: Vec<f32>,
    /// The largest value of each second, where that isn't the mean.
    high: Vec<f32>,
    /// By phase: how values are distributed.
    pub(crate) shapes: Vec<Shape>,
}

/// How the values of one measurement in one phase are distributed.
#[derive(Debug)]
pub(crate) enum Shape {
    /// Nothing to tell.
    None,
    /// One value per second or sample: these places of the course.
    Seconds(Range<usize>),
    /// Response times.
    Delays(LogBins),
}

impl Measurement {
    /// The course, value by value.
    pub(crate) fn moments(&self) -> impl Iterator<Item = Moment> {
        self.at.iter().zip(&self.mean).enumerate().map(|(i, (at, mean))| {
            let (at, mean) = (f64::from(*at), f64::from(*mean));
            let high = self.high.get(i).map_or(mean, |h| f64::from(*h)).max(mean);
            Moment { at, low: mean, mean, high }
        })
    }

    /// The course of means alone.
    pub(crate) fn means(&self) -> impl Iterator<Item = Moment> {
        self.at.iter().zip(&self.mean).map(|(at, mean)| Moment::of(f64::from(*at), f64::from(*mean)))
    }

    /// The values of some places of the course.
    pub(crate) fn values(&self, places: Range<usize>) -> impl Iterator<Item = f64> {
        self.mean.get(places).into_iter().flatten().map(|v| f64::from(*v))
    }
}

/// Values of one probe: when, and how much.
pub(crate) type Samples = Vec<(f64, f64)>;

/// Takes phases one after the other, each with its seconds and histograms.
#[derive(Debug, Default)]
pub(crate) struct Reduction {
    detail: Detail,
    first_unix_ms: u64,
    clock: Vec<f32>,
    columns: BTreeMap<What, Column>,
}

#[derive(Debug, Default)]
struct Column {
    mean: Vec<f32>,
    high: Vec<f32>,
    steps: BTreeMap<usize, Stats>,
    bins: BTreeMap<usize, LogBins>,
}

impl Column {
    fn put(&mut self, place: usize, mean: f32, high: Option<f32>) {
        self.mean.resize(place, f32::NAN);
        self.mean.push(mean);
        if let Some(high) = high {
            self.high.resize(place, f32::NAN);
            self.high.push(high);
        }
    }
}

impl Reduction {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds the next phase.
    pub(crate) fn add(&mut self, mut result: PhaseResult) {
        let index = self.detail.phases.len();
        if index == 0 {
            self.first_unix_ms = result.started_unix_ms;
        }
        let start = result.started_unix_ms.saturating_sub(self.first_unix_ms) as f64 / 1000.0;
        let first = self.clock.len();
        let (transient, duration) = (result.transient.as_secs_f64(), result.duration.as_secs_f64());
        let whole = |i: &usize| *i as f64 >= transient - 1e-3 && (i + 1) as f64 <= duration + 1e-3;
        let from = (0..result.seconds.len()).find(whole).unwrap_or(0);
        let count = (0..result.seconds.len()).filter(whole).count();
        let counted = first + from..first + from + count;
        for (i, _) in result.seconds.iter().enumerate() {
            self.clock.push((start + i as f64 + 0.5) as f32);
        }
        self.add_counts(&result, first);
        self.add_delays(&result, first, index);
        let rates = self.columns.iter_mut().filter(|(what, _)| !matches!(what, What::Delay(..)));
        for (_, column) in rates {
            let own = column.mean.get(counted.clone()).unwrap_or_default();
            if let Some(stats) = Stats::of_values(own.iter().map(|v| f64::from(*v))) {
                column.steps.insert(index, stats);
            }
        }
        let lateness = lateness(&result.lateness);
        result.seconds = Vec::new();
        result.lateness = LatencyHistogram::new();
        result.metrics.iter_mut().for_each(|m| m.histogram = LatencyHistogram::new());
        self.detail.phases.push(Phase { result, start, lateness, counted });
    }

    fn add_counts(&mut self, result: &PhaseResult, first: usize) {
        let scenarios: Vec<Scenario> = result.scenarios.iter().map(|s| s.scenario).collect();
        let of = |counts: &[u32], i: usize| f64::from(counts.get(i).copied().unwrap_or(0));
        let percent = |bad: f64, all: f64| if all > 0.0 { (bad / all * 100.0).min(100.0) } else { f64::NAN };
        let mut put = |what: What, place: usize, value: f64| {
            self.columns.entry(what).or_default().put(place, value as f32, None);
        };
        for (i, second) in result.seconds.iter().enumerate() {
            let place = first + i;
            let all = |counts: &[u32]| counts.iter().map(|c| f64::from(*c)).sum::<f64>();
            let attempts = all(&second.attempts);
            put(What::Saps, place, attempts);
            put(What::Ihs(None), place, percent(all(&second.inadequate), attempts));
            put(What::Retransmissions(None), place, all(&second.retransmissions));
            for (s, scenario) in scenarios.iter().enumerate() {
                let share = percent(of(&second.inadequate, s), of(&second.attempts, s));
                put(What::Ihs(Some(*scenario)), place, share);
                put(What::Retransmissions(Some(*scenario)), place, of(&second.retransmissions, s));
            }
        }
    }

    fn add_delays(&mut self, result: &PhaseResult, first: usize, index: usize) {
        for metric in SipMetric::ALL {
            let own: Vec<(usize, &MetricResult)> =
                result.metrics.iter().enumerate().filter(|(_, m)| m.metric == metric).collect();
            let parts: Vec<&MetricResult> = own.iter().map(|(_, m)| *m).collect();
            let Some(stats) = Stats::of_metric(&parts) else { continue };
            let mut groups = vec![(None, own.clone(), stats)];
            for (i, m) in &own {
                let stats = Stats::of_metric(&[m]);
                groups.extend(stats.map(|s| (Some(m.scenario), vec![(*i, *m)], s)));
            }
            for (scenario, own, stats) in groups {
                let column = self.columns.entry(What::Delay(metric, scenario)).or_default();
                column.steps.insert(index, stats);
                let bins = column.bins.entry(index).or_insert_with(LogBins::new);
                own.iter().for_each(|(_, m)| bins.add(&m.histogram.0));
                for (i, second) in result.seconds.iter().enumerate() {
                    let values = own.iter().filter_map(|(m, _)| second.metrics.get(*m));
                    let (mut count, mut sum, mut high) = (0.0, 0.0, 0.0f64);
                    for v in values.filter(|v| v.count > 0 && v.mean_us.is_finite()) {
                        count += f64::from(v.count);
                        sum += f64::from(v.mean_us) * f64::from(v.count);
                        high = high.max(f64::from(v.max_us));
                    }
                    if count > 0.0 {
                        let mean = sum / count / 1000.0;
                        column.put(first + i, mean as f32, Some((high / 1000.0).max(mean) as f32));
                    }
                }
            }
        }
    }

    /// Adds what a probe saw over time, times in seconds since the first phase.
    pub(crate) fn finish(self, probes: Vec<(What, Samples)>) -> Detail {
        let Self { mut detail, clock, mut columns, .. } = self;
        let clock = Arc::new(clock);
        drop_doubles(&mut columns);
        let n = detail.phases.len();
        for (what, mut column) in columns {
            column.mean.resize(clock.len(), f32::NAN);
            if !column.high.is_empty() {
                column.high.resize(clock.len(), f32::NAN);
            }
            let shapes = (0..n).map(|i| match (column.bins.remove(&i), column.steps.get(&i)) {
                (Some(bins), _) => Shape::Delays(bins),
                (None, Some(_)) if !matches!(what, What::Delay(..)) => {
                    Shape::Seconds(detail.phases[i].counted.clone())
                }
                _ => Shape::None,
            });
            detail.measurements.push(Measurement {
                what,
                steps: (0..n).map(|i| column.steps.get(&i).copied()).collect(),
                shapes: shapes.collect(),
                at: Arc::clone(&clock),
                mean: column.mean,
                high: column.high,
            });
        }
        for (what, samples) in probes {
            let places = |p: &Phase| {
                let until = |at: f64| samples.partition_point(|s| s.0 <= at);
                let from = until(p.counts_from());
                from..until(p.end()).max(from)
            };
            let shape = |p: &Phase| match places(p) {
                places if places.is_empty() => Shape::None,
                places => Shape::Seconds(places),
            };
            detail.measurements.push(Measurement {
                what,
                steps: detail
                    .phases
                    .iter()
                    .map(|p| Stats::of_values(samples[places(p)].iter().map(|s| s.1)))
                    .collect(),
                shapes: detail.phases.iter().map(shape).collect(),
                at: Arc::new(samples.iter().map(|s| s.0 as f32).collect()),
                mean: samples.iter().map(|s| s.1 as f32).collect(),
                high: Vec::new(),
            });
        }
        detail.measurements.sort_by_key(|m| m.what);
        detail
    }
}

/// Where a metric is taken in one scenario only, "all" says the same again: the one with its name stays.
fn drop_doubles(columns: &mut BTreeMap<What, Column>) {
    for metric in SipMetric::ALL {
        let of = |what: &What| matches!(what, What::Delay(m, Some(_)) if *m == metric);
        if columns.keys().filter(|w| of(w)).count() < 2 {
            columns.remove(&What::Delay(metric, None));
        }
    }
}

/// Of a histogram alone, in milliseconds.
fn lateness(histogram: &LatencyHistogram) -> Option<Stats> {
    let h = &histogram.0;
    let alone = MetricResult {
        metric: SipMetric::Reg1,
        scenario: Scenario::Registration,
        mean_ns: h.mean(),
        variance_ns2: h.stdev().powi(2),
        min: vtax_units::Nanos(h.min()),
        max: vtax_units::Nanos(h.max()),
        histogram: histogram.clone(),
    };
    Stats::of_metric(&[&alone])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vtax_load::GeneratorUse;
    use vtax_load::sip::{ScenarioResult, Second, SecondMetric};
    use vtax_units::{Nanos, Rate};

    use super::*;

    fn scenario(scenario: Scenario) -> ScenarioResult {
        let inadequate = BTreeMap::new();
        ScenarioResult { scenario, attempts: 9, succeeded: 9, inadequate, unfinished: 0, retransmissions: 0 }
    }

    fn metric(metric: SipMetric, scenario: Scenario, ms: &[u64]) -> MetricResult {
        let mut histogram = LatencyHistogram::new();
        ms.iter().for_each(|v| histogram.record(Nanos::from_millis(*v)));
        let (min, max) = (Nanos(histogram.0.min()), histogram.max());
        let mean_ns = histogram.0.mean();
        MetricResult { metric, scenario, mean_ns, variance_ns2: 0.0, min, max, histogram }
    }

    fn phase(name: &str, seconds: Vec<Second>, started_unix_ms: u64) -> PhaseResult {
        PhaseResult {
            moments: Vec::new(),
            name: name.to_owned(),
            requested: Rate(10.0),
            effective: Rate(10.0),
            started_unix_ms,
            duration: Nanos::from_secs(seconds.len() as u64),
            transient: Nanos::from_secs(1),
            scenarios: [Scenario::Registration, Scenario::DeRegistration].map(scenario).into(),
            metrics: vec![
                metric(SipMetric::Reg1, Scenario::Registration, &[4, 6]),
                metric(SipMetric::Reg1, Scenario::DeRegistration, &[20]),
                metric(SipMetric::Reg2, Scenario::Registration, &[7]),
            ],
            seconds,
            lateness: LatencyHistogram::new(),
            generator: GeneratorUse::default(),
        }
    }

    fn second(attempts: u32) -> Second {
        let of = |count, mean_us| SecondMetric { count, mean_us, max_us: mean_us };
        Second {
            attempts: vec![attempts, 10],
            inadequate: vec![attempts / 2, 0],
            retransmissions: vec![1, 0],
            metrics: vec![of(2, 5000.0), of(1, 20_000.0), of(0, 0.0)],
        }
    }

    #[test]
    fn the_transient_does_not_count() {
        let mut reduction = Reduction::new();
        reduction.add(phase("step 1", vec![second(1000), second(10), second(30)], 5_000));
        let cpu = vec![(0.5, 90.0), (1.5, 10.0), (2.5, 30.0), (3.5, 90.0)];
        let detail = reduction.finish(vec![(What::SutCpu, cpu)]);
        let of = |what| detail.measurements.iter().find(|m| m.what == what);
        let step = |what| of(what).and_then(|m| m.steps[0]).unwrap();
        assert_eq!((step(What::Saps).min, step(What::Saps).max, step(What::Saps).count), (20.0, 40.0, 2));
        assert_eq!((step(What::SutCpu).min, step(What::SutCpu).max), (10.0, 30.0));
        assert_eq!(step(What::Ihs(Some(Scenario::Registration))).max, 50.0);
        // What was drawn holds the transient.
        assert_eq!(of(What::Saps).unwrap().means().map(|m| m.mean).fold(0.0, f64::max), 1010.0);
        // A metric of two scenarios has a whole, one of a single scenario is its own.
        let all = step(What::Delay(SipMetric::Reg1, None));
        assert_eq!((all.count, all.max.round()), (3, 20.0));
        assert!((all.mean - 10.0).abs() < 0.01, "{all:?}");
        assert!(of(What::Delay(SipMetric::Reg2, None)).is_none());
        let mean = of(What::Delay(SipMetric::Reg1, None)).unwrap().means().next().unwrap().mean;
        assert!((mean - 10.0).abs() < 0.01);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Phases as no generator would write them.
        #[test]
        fn hostile_phases_are_reduced(
            rows in proptest::collection::vec(
                (proptest::collection::vec(any::<u32>(), 0..4), proptest::collection::vec(any::<(u32, f32, f32)>(), 0..5)),
                0..9,
            ),
            started in any::<u64>(), later in any::<u64>(),
            duration in any::<u64>(), transient in any::<u64>(),
            cpu in proptest::collection::vec((any::<f64>(), any::<f64>()), 0..9),
        ) {
            let seconds: Vec<Second> = rows
                .into_iter()
                .map(|(counts, metrics)| Second {
                    attempts: counts.clone(),
                    inadequate: counts.iter().rev().copied().collect(),
                    retransmissions: counts,
                    metrics: metrics
                        .into_iter()
                        .map(|(count, mean_us, max_us)| SecondMetric { count, mean_us, max_us })
                        .collect(),
                })
                .collect();
            let mut reduction = Reduction::new();
            for (name, at) in [("a", started), ("b", later)] {
                let whole = phase(name, seconds.clone(), at);
                reduction.add(PhaseResult { duration: Nanos(duration), transient: Nanos(transient), ..whole });
            }
            let detail = reduction.finish(vec![(What::SutCpu, cpu)]);
            for m in &detail.measurements {
                prop_assert_eq!(m.steps.len(), 2);
                prop_assert_eq!(m.shapes.len(), 2);
                for s in m.steps.iter().flatten() {
                    prop_assert!(s.min <= s.percentiles[0] && s.percentiles[4] <= s.max, "{:?}", s);
                }
            }
        }
    }
}
