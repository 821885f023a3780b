//! Measures, and what the rest of vtax asks of their kinds.

use serde::{Deserialize, Serialize};
use vtax_units::{Nanos, Rate, Share};

use super::faults::FailoverMeasure;
use super::load::{ArrivalProcess, Load};
use crate::family::network::model::NetworkMeasure;
use crate::family::sip::model::{ImsMeasure, Ramp};
use crate::family::storage::model::StorageMeasure;

/// One kind of measurement, made in every cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Unique in the plan: `capacity`, `latency`, `latency@lowest`.
    pub name: String,
    /// What is measured.
    pub kind: MeasureKind,
}

/// The kinds of measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum MeasureKind {
    /// The highest open-loop rate within limits, as a bracket.
    Capacity(CapacityMeasure),
    /// Latency at a given open-loop rate.
    Latency(LatencyMeasure),
    /// Completed requests per second in a closed loop.
    Throughput(ThroughputMeasure),
    /// The IMS benchmark: the design objective capacity of a SIP service.
    Ims(ImsMeasure),
    /// A fixed load during which faults happen.
    Failover(FailoverMeasure),
    /// The tests of a network workload.
    Network(NetworkMeasure),
    /// The tests of a storage workload.
    Storage(StorageMeasure),
}

/// A search for the highest rate within limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityMeasure {
    /// Rate at which the search begins where neither an earlier trial nor a closed loop tells where.
    pub start: Rate,
    /// No step of the search goes above this rate; a closed loop before it is not held to it.
    pub max: Rate,
    /// The search ends when the bracket is narrower than this share of its lower bound.
    pub precision: Share,
    /// Length of one step that counts.
    pub step: Nanos,
    /// Time at the start of each step that doesn't count.
    pub settle: Nanos,
    /// Arrival process.
    pub arrivals: ArrivalProcess,
    /// What a step must keep to pass.
    pub limits: Limits,
}

impl CapacityMeasure {
    /// Below this rate a service is said to carry nothing: no lower one is tried.
    pub const LEAST_RATE: Rate = Rate(0.5);
    /// Requests beyond a percentile that tell it: with fewer, chance decides what it is.
    const BEYOND: f64 = 10.0;
    /// A step is made longer than the plan says by this factor at most.
    const LONGER: f64 = 4.0;

    /// Length of the step at this rate that counts: long enough for ten requests beyond the highest percentile that has a limit, but no
    /// longer than four times what the plan says.
    ///
    /// Of twenty requests, none may be beyond a limit of the 99th percentile, and every other step of a service that is too slow for 3
    /// of 100 keeps to it: the slower a system, the less it would be held to.
    #[must_use]
    pub fn step_at(&self, rate: Rate) -> Nanos {
        let beyond = match (self.limits.p99, self.limits.p95) {
            (Some(_), _) => 0.01,
            (None, Some(_)) => 0.05,
            (None, None) => return self.step,
        };
        let longest = Self::LONGER * self.step.as_secs_f64();
        self.step.max(Nanos::from_secs_f64((Self::BEYOND / (beyond * rate.0)).min(longest)))
    }
}

/// What a step must keep to pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Share of requests that may fail or stay unanswered.
    pub errors: Share,
    /// The 99th percentile of latency from the intended start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Nanos>,
    /// The 95th; plans of before there was this key limit none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<Nanos>,
}

impl Limits {
    /// The limit of the 99th percentile where a plan limits no latency.
    pub const P99: Nanos = Nanos::from_millis(50);
}

/// Latency at a given load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyMeasure {
    /// Offered load.
    pub load: Load,
    /// Arrival process.
    pub arrivals: ArrivalProcess,
    /// Time at the start that never counts; more is cut where warm-up is found to last longer.
    pub warmup: Nanos,
    /// Time that counts.
    pub duration: Nanos,
    /// Keep every request's latency besides histograms.
    pub samples: bool,
}

/// Completed requests per second in a closed loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputMeasure {
    /// Time at the start that never counts.
    pub warmup: Nanos,
    /// Time that counts.
    pub duration: Nanos,
}

/// What the length of a measurement follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// One load of a given length.
    Fixed {
        /// Time at the start that never counts.
        warmup: Nanos,
        /// Time that counts.
        duration: Nanos,
    },
    /// Steps, as many as the search needs.
    Search {
        /// Time of the shortest search possible.
        least: Nanos,
    },
    /// The workload's tests one after the other, each this long unless the test has times of its own.
    Suite {
        /// Time at the start of a test that never counts.
        warmup: Nanos,
        /// Time of a test that counts.
        duration: Nanos,
    },
}

impl Timing {
    /// No trial takes less: a search has a step at least, a suite a test.
    #[must_use]
    pub const fn least(self) -> Nanos {
        match self {
            Self::Fixed { warmup, duration } | Self::Suite { warmup, duration } => {
                Nanos(warmup.0.saturating_add(duration.0))
            }
            Self::Search { least } => least,
        }
    }
}

impl MeasureKind {
    /// The kind's name in plans.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Capacity(_) => "capacity",
            Self::Latency(_) => "latency",
            Self::Throughput(_) => "throughput",
            Self::Ims(_) => "ims",
            Self::Failover(_) => "failover",
            Self::Network(_) => "network",
            Self::Storage(_) => "storage",
        }
    }

    /// What its length follows from.
    #[must_use]
    pub const fn timing(&self) -> Timing {
        match self {
            // A step that passes and one that fails.
            Self::Capacity(m) => {
                let step = m.settle.0.saturating_add(m.step.0);
                Timing::Search { least: Nanos(step.saturating_mul(2)) }
            }
            Self::Ims(m) => Timing::Search {
                least: match m.ramp {
                    Ramp::Steps { .. } => m.step,
                    Ramp::Search { step, .. } => Nanos(m.step.0.saturating_add(step.0)),
                },
            },
            Self::Latency(m) => Timing::Fixed { warmup: m.warmup, duration: m.duration },
            Self::Throughput(m) => Timing::Fixed { warmup: m.warmup, duration: m.duration },
            Self::Failover(m) => Timing::Fixed { warmup: m.warmup, duration: m.duration },
            Self::Network(m) => Timing::Suite { warmup: m.warmup, duration: m.duration },
            Self::Storage(m) => Timing::Suite { warmup: Nanos::ZERO, duration: m.duration },
        }
    }

    /// The load that the plan gives it; `None` where it finds its own, or has none.
    #[must_use]
    pub const fn load(&self) -> Option<Load> {
        match self {
            Self::Latency(m) => Some(m.load),
            Self::Failover(m) => Some(m.load),
            Self::Capacity(_) | Self::Throughput(_) | Self::Ims(_) | Self::Network(_) | Self::Storage(_) => {
                None
            }
        }
    }

    /// The rate of its first load, where the plan gives that as a rate.
    #[must_use]
    pub const fn first_rate(&self) -> Option<Rate> {
        match self {
            Self::Capacity(m) => Some(m.start),
            Self::Ims(m) => Some(match m.ramp {
                Ramp::Steps { initial, .. } => initial,
                Ramp::Search { start, .. } => start,
            }),
            _ => match self.load() {
                Some(Load::Rate(rate)) => Some(rate),
                _ => None,
            },
        }
    }

    /// The arrival process of its load; `None` for a closed loop and for tests, which have their own.
    #[must_use]
    pub const fn arrivals(&self) -> Option<ArrivalProcess> {
        match self {
            Self::Capacity(m) => Some(m.arrivals),
            Self::Latency(m) => Some(m.arrivals),
            Self::Ims(m) => Some(m.arrivals),
            Self::Failover(m) => Some(m.arrivals),
            Self::Throughput(_) | Self::Network(_) | Self::Storage(_) => None,
        }
    }

    /// Whether it finds the capacity that loads of other measures are shares of.
    #[must_use]
    pub const fn finds_capacity(&self) -> bool {
        matches!(self, Self::Capacity(_) | Self::Ims(_))
    }

    /// The one metric that it is made to find, by its name in results; `None` where it finds many.
    #[must_use]
    pub const fn finds(&self) -> Option<&'static str> {
        match self {
            Self::Capacity(_) => Some("capacity"),
            Self::Throughput(_) => Some("throughput"),
            Self::Ims(_) => Some("doc"),
            Self::Latency(_) | Self::Failover(_) | Self::Network(_) | Self::Storage(_) => None,
        }
    }

    /// Whether CPU time per request of a whole trial describes one load: a capacity search passes through
    /// overload.
    #[must_use]
    pub const fn has_one_load(&self) -> bool {
        !matches!(self, Self::Capacity(_))
    }

    /// Whether two testbeds can be measured with it at the same time. The steps of a search depend on what
    /// it finds, faults and tests have their own course.
    #[must_use]
    pub const fn may_be_duet(&self) -> bool {
        matches!(self, Self::Latency(_) | Self::Throughput(_))
    }

    /// The faults that happen while it is made.
    #[must_use]
    pub const fn failover(&self) -> Option<&FailoverMeasure> {
        match self {
            Self::Failover(failover) => Some(failover),
            _ => None,
        }
    }

    /// Whether faults happen while it is made.
    #[must_use]
    pub const fn is_failover(&self) -> bool {
        self.failover().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of 1 s has 100 requests at 100/s; ten beyond the 99th percentile take 1000, ten beyond the 95th 200.
    #[test]
    fn steps_are_long_enough_to_tell_a_percentile() {
        let of = |p95, p99, rate| {
            let search = CapacityMeasure {
                start: Rate(500.0),
                max: Rate(1e6),
                precision: Share(0.05),
                step: Nanos::from_secs(1),
                settle: Nanos::ZERO,
                arrivals: ArrivalProcess::Poisson,
                limits: Limits { errors: Share(0.001), p99, p95 },
            };
            search.step_at(Rate(rate))
        };
        let (limit, ms) = (Some(Nanos::from_millis(50)), Nanos::from_millis);
        assert_eq!([of(None, None, 1.0), of(None, limit, 2_000.0)], [ms(1_000); 2]);
        assert_eq!((of(None, limit, 400.0), of(limit, None, 100.0)), (ms(2_500), ms(2_000)));
        assert_eq!((of(limit, limit, 400.0), of(None, limit, 100.0)), (ms(2_500), ms(4_000)));
    }
}
