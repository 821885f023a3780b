//! One step of a load of requests, as the engine wants it.

use vtax_load::{Model, RequestStep, Segment};
use vtax_plan::model::ArrivalProcess;
use vtax_units::{Nanos, Rate};

use crate::warm_up;

/// When the requests of a step are sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pace {
    /// Open loop at a constant rate.
    Open(Rate, ArrivalProcess),
    /// Closed loop.
    Closed,
}

/// One step of a trial's load.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadStep {
    pub(super) pace: Pace,
    /// Time at its start that isn't recorded.
    pub(super) warmup: Nanos,
    /// Time that is recorded.
    pub(super) duration: Nanos,
    pub(super) seed: u64,
    pub(super) samples: bool,
    /// How long what is under way at its end is waited for.
    pub(super) drain: Nanos,
}

impl LoadStep {
    /// The step, recorded in intervals that warm-up can be seen in.
    pub(super) fn for_engine(&self) -> RequestStep {
        self.in_intervals(warm_up::interval(self.duration))
    }

    /// The step, recorded in intervals of this length.
    pub(super) fn in_intervals(&self, interval: Nanos) -> RequestStep {
        let model = match self.pace {
            Pace::Closed => Model::Closed,
            Pace::Open(rate, arrivals) => Model::Open {
                arrivals,
                profile: vec![Segment {
                    from: rate,
                    to: rate,
                    duration: Nanos(self.warmup.0 + self.duration.0),
                }],
            },
        };
        RequestStep {
            model,
            warmup: self.warmup,
            duration: self.duration,
            seed: self.seed,
            samples: self.samples,
            interval,
            drain: self.drain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plans may ask for a day. Each trial of one was refused, as a second is too short an interval then.
    #[test]
    fn steps_of_any_length_are_taken() {
        for ms in [50, 1_000, 3_600_000, 3 * 3_600_000, 24 * 3_600_000] {
            let step = LoadStep {
                pace: Pace::Closed,
                warmup: Nanos::ZERO,
                duration: Nanos::from_millis(ms),
                seed: 1,
                samples: false,
                drain: Nanos::ZERO,
            };
            step.for_engine().check().unwrap_or_else(|e| panic!("{ms} ms: {e}"));
        }
    }
}
