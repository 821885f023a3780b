//! The session that makes network tests.

use std::sync::Mutex;

use vtax_sys::sync::lock;
use vtax_units::Nanos;

use super::{Live, NetworkFailure, NetworkResult, NetworkSpec, run};
use crate::{Control, Progress};

/// What a network test found. Why it came to nothing is a finding too.
pub type NetworkAnswer = Result<NetworkResult, NetworkFailure>;

/// Makes one test after the other; nothing stays open between them.
#[derive(Debug, Clone, Copy)]
pub struct NetworkSession;

impl NetworkSession {
    /// Makes one test; [`Control::progress`] follows it interval by interval.
    ///
    /// # Errors
    ///
    /// [`NetworkFailure`]: why the test came to nothing, as it is recorded.
    pub fn run_step(&self, spec: &NetworkSpec, control: &Control) -> NetworkAnswer {
        let elapsed = Mutex::new(Nanos::ZERO);
        let watch = |live: &Live| {
            let mut elapsed = lock(&elapsed);
            elapsed.0 += Nanos::from_secs_f64(live.seconds.max(0.0)).0;
            control.add(&Progress {
                elapsed: *elapsed,
                ok: live.events,
                bytes: live.bytes,
                latency_sum: Nanos(live.rtt.map_or(0, |rtt| rtt.0.saturating_mul(live.events))),
                ..Progress::default()
            });
        };
        run(spec, control, &watch).map_err(|error| NetworkFailure::from(&error))
    }
}
