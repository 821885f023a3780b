//! The load generator of the client node, for steps of requests.

use std::time::Duration;

use vtax_agent::{AgentError, Client};
use vtax_load::{LoadAnswer, Progress, RequestStep, Step};
use vtax_units::{Nanos, Rate};

use crate::observe::{Observer, RunEvent};

/// Runs steps of requests: the client node's, or a simulated one.
pub(super) trait Generator {
    /// Runs one step to its end.
    fn run(&mut self, step: RequestStep) -> Result<LoadAnswer, AgentError>;
}

/// That of a client node, with its load open.
pub(super) struct OnClient<'a> {
    pub(super) client: &'a Client,
    pub(super) observer: &'a dyn Observer,
    /// How much longer than others its steps wait for what is under way at their end.
    pub(super) drain: Nanos,
}

impl Generator for OnClient<'_> {
    /// Tells about once a second how many answers come: the agent sends that in any case.
    fn run(&mut self, step: RequestStep) -> Result<LoadAnswer, AgentError> {
        let within = step.longest() + Duration::from(self.drain);
        let mut last = Progress::default();
        self.client.run_step(Step::Requests(step), within, &mut |progress| {
            let lately = progress.since(&last);
            let seconds = lately.elapsed.as_secs_f64();
            if seconds > 0.0 {
                self.observer.observe(&RunEvent::Rate { rate: Rate(lately.ok as f64 / seconds) });
            }
            last = *progress;
        })
    }
}
