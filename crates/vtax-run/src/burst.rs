//! From a plan's workload to the load engine's spec.

use std::net::SocketAddr;

use vtax_load::http::{HttpRequests, HttpSpec};
use vtax_load::{ConnectionPool, Model, RequestStep, Segment};
use vtax_plan::model::{Arrivals, HttpWorkload};
use vtax_units::{CpuSet, Nanos, Rate};

/// Below this, CPU times counted in ticks of 10 ms are too coarse to draw.
const SHORTEST_INTERVAL: Nanos = Nanos::from_millis(200);
const LONGEST_INTERVAL: Nanos = Nanos::from_secs(1);

/// When the requests of a burst are sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// Open loop at a constant rate.
    Open(Rate, Arrivals),
    /// Closed loop.
    Closed,
}

/// One burst of a trial's load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Burst {
    pub(crate) pace: Pace,
    /// Time at its start that isn't recorded.
    pub(crate) warmup: Nanos,
    /// Time that is recorded.
    pub(crate) duration: Nanos,
    pub(crate) seed: u64,
    pub(crate) samples: bool,
}

/// The engine's spec for loads of `http` against `target`.
pub(crate) fn http_spec(http: &HttpWorkload, target: SocketAddr) -> HttpSpec {
    HttpSpec {
        pool: ConnectionPool {
            target,
            connections: http.connections,
            timeout: http.timeout,
            // The client's agent is bound to its CPUs already: one worker on each.
            cpus: CpuSet::default(),
        },
        requests: HttpRequests {
            target: http.target.clone(),
            host: target.to_string(),
            requests_per_connection: http.requests_per_connection,
        },
    }
}

impl Burst {
    /// The engine's step for this burst.
    pub(crate) fn step(&self) -> RequestStep {
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
            interval: crate::settle::interval(self.duration),
        }
    }
}

/// How often nodes are sampled during a measurement: every second, more often where that would leave
/// fewer than eight samples to see a change in.
pub(crate) fn interval(duration: Nanos) -> Nanos {
    Nanos((duration.0 / 8).clamp(SHORTEST_INTERVAL.0, LONGEST_INTERVAL.0))
}
