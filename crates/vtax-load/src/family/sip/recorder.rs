//! What one worker writes down about one phase.

use std::fmt;

use hdrhistogram::Histogram;
use vtax_plan::model::{Scenario, SipMetric};
use vtax_units::Nanos;

use super::{Moment, MomentKind};
use crate::histogram::{LONGEST_NS, bounded};

/// How many scenarios and metrics there are.
const SCENARIOS: usize = Scenario::ALL.len();
const METRICS: usize = SipMetric::ALL.len();
/// Moments kept of one phase and worker, 60 bytes each; at 1,000 attempts a second that is a minute.
const MOST_MOMENTS: usize = 1 << 18;
/// Histograms begin with room for this, in nanoseconds, and grow.
const USUAL_NS: u64 = 1_000_000_000;

/// Which metrics a scenario can have.
fn metrics_of(scenario: Scenario) -> &'static [SipMetric] {
    match scenario {
        Scenario::Registration | Scenario::DeRegistration => &[SipMetric::Reg1, SipMetric::Reg2],
        Scenario::ReRegistration => &[SipMetric::Reg1, SipMetric::Reg4],
        Scenario::Calling => &[SipMetric::Ses1, SipMetric::Ses2, SipMetric::Rel1],
        Scenario::ReInvite => &[SipMetric::Ses1, SipMetric::Ses2, SipMetric::Ses3, SipMetric::Rel1],
        Scenario::Messaging => &[SipMetric::Pmm1],
        Scenario::MessageUnregistered => &[SipMetric::Pmm2],
        Scenario::CalleeRejects | Scenario::CallerAbandons => &[SipMetric::Ses2],
        Scenario::CalleeUnknown => &[],
    }
}

/// Position of a metric in [`SipMetric::ALL`].
pub(crate) fn metric_number(metric: SipMetric) -> usize {
    metric as usize
}

/// The scenarios of a phase and the metrics they can have, in the order of reports.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) scenarios: Vec<Scenario>,
    /// Metric and position of its scenario.
    pub(crate) pairs: Vec<(SipMetric, usize)>,
    /// Position in `pairs` by scenario's position and metric's number.
    lookup: [[u8; METRICS]; SCENARIOS],
}

const NO_PAIR: u8 = u8::MAX;

impl Layout {
    pub(crate) fn new(of: impl Fn(Scenario) -> bool) -> Self {
        let scenarios: Vec<Scenario> = Scenario::ALL.into_iter().filter(|s| of(*s)).collect();
        let mut layout = Self { scenarios, pairs: Vec::new(), lookup: [[NO_PAIR; METRICS]; SCENARIOS] };
        for metric in SipMetric::ALL {
            for (position, scenario) in layout.scenarios.iter().enumerate() {
                if metrics_of(*scenario).contains(&metric) {
                    layout.lookup[position][metric_number(metric)] = layout.pairs.len() as u8;
                    layout.pairs.push((metric, position));
                }
            }
        }
        layout
    }

    fn pair(&self, scenario: usize, metric: SipMetric) -> Option<usize> {
        let pair = self.lookup[scenario][metric_number(metric)];
        (pair != NO_PAIR).then_some(usize::from(pair))
    }
}

/// Why an attempt was handled inadequately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// No answer in time.
    Timeout,
    /// A final answer that the scenario doesn't have.
    Status(u16),
    /// A metric passed its limit.
    OverLimit(SipMetric),
    /// The pool that a user was to be drawn from was empty.
    NoFreeSubscriber,
    /// The callee got no ACK to its answer.
    NoAck,
    /// A challenge that can't be answered.
    Challenge,
    /// An answer that lacks what the next request needs.
    UnusableAnswer,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("timeout"),
            Self::Status(code) => write!(f, "status {code}"),
            Self::OverLimit(metric) => write!(f, "over-limit {}", metric.name()),
            Self::NoFreeSubscriber => f.write_str("no-free-subscriber"),
            Self::NoAck => f.write_str("no-ack"),
            Self::Challenge => f.write_str("unusable-challenge"),
            Self::UnusableAnswer => f.write_str("unusable-answer"),
        }
    }
}

/// Exact moments of a sample (Welford 1962; merged after Chan et al. 1979).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Moments {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    /// Sum of squared differences from the mean.
    squares: f64,
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl Moments {
    pub(crate) fn add(&mut self, value: u64) {
        self.count += 1;
        let difference = value as f64 - self.mean;
        self.mean += difference / self.count as f64;
        self.squares += difference * (value as f64 - self.mean);
        self.min = if self.count == 1 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let difference = other.mean - self.mean;
        self.mean += difference * b / (a + b);
        self.squares += other.squares + difference * difference * a * b / (a + b);
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Of the sample, with n - 1; zero where there are fewer than two values.
    pub(crate) fn variance(&self) -> f64 {
        if self.count < 2 { 0.0 } else { self.squares / (self.count - 1) as f64 }
    }
}

/// The values of one metric in one scenario.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) moments: Moments,
    pub(crate) histogram: Histogram<u64>,
}

/// One scenario, transient left out.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) attempts: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) inadequate: Vec<(Cause, u64)>,
    pub(crate) unfinished: u64,
    pub(crate) retransmissions: u64,
}

/// One metric over one second.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SecondValues {
    pub(crate) count: u32,
    pub(crate) sum_ns: u64,
    pub(crate) max_ns: u64,
}

/// What an attempt is recorded under.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RecordKey {
    /// Number of the phase in the profile.
    pub(crate) phase: u16,
    /// Position of the scenario in the phase's layout.
    pub(crate) scenario: u8,
    /// After the transient.
    pub(crate) counted: bool,
    /// When it is meant to start, in nanoseconds from the start of the phase.
    pub(crate) since: u64,
}

impl RecordKey {
    /// Second of the phase.
    const fn second(self) -> u32 {
        (self.since / 1_000_000_000) as u32
    }
}

/// What happened in one phase, or to attempts that started in it.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) layout: Layout,
    pub(crate) counts: Vec<Count>,
    /// By pair of the layout.
    pub(crate) values: Vec<Option<Box<Values>>>,
    pub(crate) lateness: Histogram<u64>,
    // Second by second, all scenarios or pairs of one second next to each other.
    pub(crate) attempts: Vec<u32>,
    pub(crate) inadequate: Vec<u32>,
    pub(crate) retransmissions: Vec<u32>,
    pub(crate) second_values: Vec<SecondValues>,
    /// With times of CLOCK_MONOTONIC; empty where they aren't kept.
    pub(crate) moments: Vec<Moment>,
}

impl Record {
    /// For a phase of about so many seconds; a longer one makes memory grow.
    pub(crate) fn new(layout: Layout, seconds: usize) -> Self {
        let (scenarios, pairs) = (layout.scenarios.len(), layout.pairs.len());
        Self {
            counts: layout.scenarios.iter().map(|_| Count::default()).collect(),
            values: layout.pairs.iter().map(|_| None).collect(),
            lateness: bounded(USUAL_NS),
            attempts: Vec::with_capacity(seconds * scenarios),
            inadequate: Vec::with_capacity(seconds * scenarios),
            retransmissions: Vec::with_capacity(seconds * scenarios),
            second_values: Vec::with_capacity(seconds * pairs),
            moments: Vec::new(),
            layout,
        }
    }

    /// Seconds with any entry.
    pub(crate) fn seconds(&self) -> usize {
        self.attempts.len() / self.layout.scenarios.len().max(1)
    }

    /// Makes room up to that second.
    fn reach(&mut self, second: u32) {
        let seconds = second as usize + 1;
        if self.seconds() < seconds {
            let scenarios = seconds * self.layout.scenarios.len();
            self.attempts.resize(scenarios, 0);
            self.inadequate.resize(scenarios, 0);
            self.retransmissions.resize(scenarios, 0);
            self.second_values.resize(seconds * self.layout.pairs.len(), SecondValues::default());
        }
    }

    /// Keeps what happened to an attempt.
    pub(crate) fn happened(&mut self, key: RecordKey, at: u64, what: MomentKind) {
        if self.moments.len() < MOST_MOMENTS {
            let started = Nanos(key.since);
            self.moments.push(Moment { at: Nanos(at), started, scenario: key.scenario, what });
        }
    }

    fn cell(&self, key: RecordKey) -> usize {
        key.second() as usize * self.layout.scenarios.len() + usize::from(key.scenario)
    }

    /// An attempt starts, so much later than it was meant to.
    pub(crate) fn started(&mut self, key: RecordKey, late: u64) {
        self.reach(key.second());
        let cell = self.cell(key);
        self.attempts[cell] += 1;
        if key.counted {
            self.counts[usize::from(key.scenario)].attempts += 1;
            record(&mut self.lateness, late);
        }
    }

    /// An attempt has ended.
    pub(crate) fn ended(&mut self, key: RecordKey, fault: Option<Cause>) {
        let Some(cause) = fault else {
            self.counts[usize::from(key.scenario)].succeeded += u64::from(key.counted);
            return;
        };
        let cell = self.cell(key);
        self.inadequate[cell] += 1;
        if key.counted {
            let count = &mut self.counts[usize::from(key.scenario)];
            count.failed += 1;
            match count.inadequate.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, times)) => *times += 1,
                None => count.inadequate.push((cause, 1)),
            }
        }
    }

    /// An attempt had not ended when the profile was over.
    pub(crate) fn unfinished(&mut self, key: RecordKey) {
        self.counts[usize::from(key.scenario)].unfinished += u64::from(key.counted);
    }

    /// An attempt that belongs to this phase needed something sent again.
    pub(crate) fn repeated(&mut self, key: RecordKey) {
        self.counts[usize::from(key.scenario)].retransmissions += u64::from(key.counted);
    }

    /// A message of an attempt was sent again, in the second of this phase in which it was.
    pub(crate) fn repeated_in(&mut self, second: u32, scenario: Scenario) {
        if let Some(position) = self.layout.scenarios.iter().position(|s| *s == scenario) {
            self.reach(second);
            let cell = second as usize * self.layout.scenarios.len() + position;
            self.retransmissions[cell] += 1;
        }
    }

    /// A value of a metric, in nanoseconds.
    pub(crate) fn measured(&mut self, key: RecordKey, metric: SipMetric, value: u64) {
        let Some(pair) = self.layout.pair(usize::from(key.scenario), metric) else { return };
        let cell = key.second() as usize * self.layout.pairs.len() + pair;
        let second = &mut self.second_values[cell];
        second.count += 1;
        second.sum_ns += value;
        second.max_ns = second.max_ns.max(value);
        if key.counted {
            let values = self.values[pair].get_or_insert_with(|| {
                Box::new(Values { moments: Moments::default(), histogram: bounded(USUAL_NS) })
            });
            values.moments.add(value);
            record(&mut values.histogram, value);
        }
    }

    /// Counted attempts of a scenario that have ended, and of those, inadequately.
    pub(crate) fn tally(&self) -> Vec<(u64, u64)> {
        self.counts.iter().map(|c| (c.succeeded + c.failed, c.failed)).collect()
    }
}

/// Counts a duration. The histogram grows for it, up to the longest there is.
fn record(histogram: &mut Histogram<u64>, value: u64) {
    let _ = histogram.record(value.min(LONGEST_NS));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn moments_are_exact_however_they_are_merged(
            values in proptest::collection::vec(0_u64..10_000_000_000, 1..200),
            cut in 0_usize..200,
        ) {
            let of = |values: &[u64]| {
                let mut moments = Moments::default();
                values.iter().for_each(|v| moments.add(*v));
                moments
            };
            let whole = of(&values);
            let (a, b) = values.split_at(cut.min(values.len()));
            let mut merged = of(a);
            merged.merge(&of(b));
            let n = values.len() as f64;
            let mean = values.iter().map(|v| *v as f64).sum::<f64>() / n;
            let squares = values.iter().map(|v| (*v as f64 - mean).powi(2)).sum::<f64>();
            let variance = if values.len() < 2 { 0.0 } else { squares / (n - 1.0) };
            for m in [whole, merged] {
                prop_assert_eq!(m.count, values.len() as u64);
                prop_assert_eq!(Some(&m.min), values.iter().min());
                prop_assert_eq!(Some(&m.max), values.iter().max());
                prop_assert!((m.mean - mean).abs() <= 1e-9 * mean.max(1.0));
                prop_assert!((m.variance() - variance).abs() <= 1e-6 * variance.max(1.0));
            }
        }
    }

    #[test]
    fn the_transient_counts_only_by_the_second() {
        let mut record =
            Record::new(Layout::new(|s| matches!(s, Scenario::Calling | Scenario::Messaging)), 2);
        assert_eq!(record.layout.scenarios, [Scenario::Calling, Scenario::Messaging]);
        let key =
            |second, counted| RecordKey { phase: 0, scenario: 1, counted, since: second * 1_000_000_000 };
        for (second, counted) in [(0, false), (1, true), (4, true)] {
            record.started(key(second, counted), 5);
            record.measured(key(second, counted), SipMetric::Pmm1, 1_000 * (second + 1));
            // A metric that the scenario doesn't have.
            record.measured(key(second, counted), SipMetric::Ses1, 1);
            record.repeated(key(second, counted));
        }
        // Beyond what the histogram has room for at first.
        record.measured(key(1, true), SipMetric::Pmm1, 90 * USUAL_NS);
        record.ended(key(0, false), Some(Cause::Timeout));
        record.ended(key(1, true), None);
        record.ended(key(4, true), Some(Cause::Status(503)));
        record.repeated_in(3, Scenario::Calling);
        record.repeated_in(3, Scenario::Registration);
        assert_eq!(record.seconds(), 5);
        assert_eq!(record.attempts, [0, 1, 0, 1, 0, 0, 0, 0, 0, 1]);
        assert_eq!(record.inadequate, [0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(record.retransmissions, [0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        let count = &record.counts[1];
        assert_eq!((count.attempts, count.succeeded, count.failed, count.retransmissions), (2, 1, 1, 2));
        assert_eq!(count.inadequate, [(Cause::Status(503), 1)]);
        assert_eq!(record.tally(), [(0, 0), (2, 1)]);
        let pair = record.layout.pairs.iter().position(|p| *p == (SipMetric::Pmm1, 1)).unwrap();
        let values = record.values[pair].as_ref().unwrap();
        let moments = values.moments;
        assert_eq!((moments.count, moments.min, moments.max), (3, 2_000, 90 * USUAL_NS));
        assert!(values.histogram.max() >= 90 * USUAL_NS);
        assert_eq!(record.second_values[4 * record.layout.pairs.len() + pair].max_ns, 5_000);
    }

    #[test]
    fn metrics_are_numbered_in_their_order() {
        for (i, metric) in SipMetric::ALL.into_iter().enumerate() {
            assert_eq!(metric_number(metric), i);
        }
    }

    #[test]
    fn causes_have_names() {
        assert_eq!(Cause::OverLimit(SipMetric::Ses1).to_string(), "over-limit PX_TRT-SES1");
        assert_eq!(Cause::Status(486).to_string(), "status 486");
    }
}
