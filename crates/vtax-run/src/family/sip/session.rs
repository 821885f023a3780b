//! The SIP session on the client node.

use std::time::Duration;

use vtax_agent::{AgentError, Client};
use vtax_load::sip::{PhaseKind, SipProfile, SipResult};
use vtax_load::{Progress, Step};
use vtax_units::Nanos;

use crate::observe::{Observer, RunEvent};

/// A session that can be driven through profiles: the client node's, or a simulated one.
pub(super) trait Session {
    /// Runs a profile to its end, which comes before `within` has passed.
    fn run(&mut self, profile: &SipProfile, within: Duration) -> Result<SipResult, AgentError>;
}

/// The session of a client node.
pub(super) struct OnClient<'a> {
    pub(super) client: &'a Client,
    pub(super) observer: &'a dyn Observer,
    /// Registrations that pre-registration makes.
    pub(super) registrations: f64,
}

impl Session for OnClient<'_> {
    fn run(&mut self, profile: &SipProfile, within: Duration) -> Result<SipResult, AgentError> {
        let mut last = Progress::default();
        self.client.run_step(Step::Sip(profile.clone()), within, &mut |progress| {
            let what = self.describe(profile, progress.elapsed, &progress.since(&last));
            self.observer.observe(&RunEvent::Phase { what: &what });
            last = *progress;
        })
    }
}

impl OnClient<'_> {
    /// A line for people: `step 3 · 70/s asked for · 68 succeeded, 2 inadequately handled`.
    fn describe(&self, profile: &SipProfile, elapsed: Nanos, lately: &Progress) -> String {
        let length = |kind: &PhaseKind, rate: f64| match kind {
            PhaseKind::Mix { duration } => duration.as_secs_f64(),
            PhaseKind::PreRegistration => self.registrations / rate.max(1e-9),
        };
        let mut left = elapsed.as_secs_f64();
        let present = profile.phases.iter().find(|phase| {
            left -= length(&phase.kind, phase.rate.0);
            left < 0.0
        });
        let (ok, bad) = (lately.ok, lately.failed);
        let found = format!("{ok} succeeded, {bad} inadequately handled in the last second");
        match present {
            Some(phase) => format!("{} · {:.1}/s asked for · {found}", phase.name, phase.rate.0),
            None => format!("waiting for the last scenarios · {found}"),
        }
    }
}
