//! The session that makes network tests.

use std::sync::Mutex;

use vtax_sys::sync::lock;
use vtax_units::Nanos;

use super::{Live, NetFailure, NetSpec, run};
use crate::{Control, LoadError, NetworkAnswer, Progress, Session, Step, StepResult};

/// Makes one test after the other; nothing stays open between them.
#[derive(Debug, Clone, Copy)]
pub struct NetworkSession;

impl NetworkSession {
    /// Makes one test; [`Control::progress`] follows it interval by interval.
    pub fn run_step(&self, spec: &NetSpec, control: &Control) -> NetworkAnswer {
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
        run(spec, control, &watch).map_err(|error| NetFailure::from(&error))
    }
}

impl Session for NetworkSession {
    fn run(&mut self, step: &Step, control: &Control) -> Result<Vec<u8>, LoadError> {
        let Step::Network(spec) = step else { return Err(step.not_of("network tests")) };
        self.run_step(spec, control).to_bytes()
    }
}
