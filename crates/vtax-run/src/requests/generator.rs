//! The load generator of the client node, for steps of requests.

use std::time::Duration;

use vtax_agent::{AgentError, Client};
use vtax_load::{LoadAnswer, Progress, RequestStep, Step};
use vtax_units::{Nanos, Rate};

use crate::observe::{Observer, RunEvent};
use crate::team::Team;

/// Runs steps of requests: the client node's, or a simulated one.
pub(super) trait Generator {
    /// Runs one step to its end.
    fn run(&mut self, step: RequestStep) -> Result<LoadAnswer, AgentError>;
}

/// The generator on a client node, with its load open.
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
        self.client.run_step(Step::Requests(step), within, &mut rates(self.observer))
    }
}

/// The generators on hosts of their own, with their loads open.
pub(super) struct OnHosts<'a> {
    pub(super) team: &'a Team<'a>,
    pub(super) observer: &'a dyn Observer,
    /// As of [`OnClient`].
    pub(super) drain: Nanos,
}

impl Generator for OnHosts<'_> {
    fn run(&mut self, step: RequestStep) -> Result<LoadAnswer, AgentError> {
        let within = step.longest() + Duration::from(self.drain);
        self.team.run(&step, within, &mut rates(self.observer))
    }
}

/// Tells an observer the rate of answers since it was last told.
fn rates(observer: &dyn Observer) -> impl FnMut(&Progress) {
    let mut last = Progress::default();
    move |progress| {
        let lately = progress.since(&last);
        let seconds = lately.elapsed.as_secs_f64();
        if seconds > 0.0 {
            observer.observe(&RunEvent::Rate { rate: Rate(lately.ok as f64 / seconds) });
        }
        last = *progress;
    }
}
