//! The tests of a network workload: one after the other on the testbed of a trial.
//!
//! Their order is drawn for each trial, so that none is always the one after the boot, and each is judged
//! by itself. The trial stays the unit: a test has one observation in it.

mod count;
mod ends;
mod judge;
mod spec;
mod testbed;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use vtax_agent::AgentError;
use vtax_load::LoadSpec;
use vtax_plan::model::{MeasureKind, NetworkTest, NetworkWorkload};
use vtax_sys::clock::unix_ms;

use crate::instrument::{Ends as LoadEnds, Instrument, Measured, Site, not_made};
use crate::observe::{Observer, RunEvent};
use crate::trial_request::TrialRequest;
use ends::Ends;
use testbed::OnTestbed;

/// The instrument of network tests.
pub(super) struct Tests<'a> {
    workload: &'a NetworkWorkload,
}

impl<'a> Tests<'a> {
    /// Of this workload.
    pub(super) const fn new(workload: &'a NetworkWorkload) -> Self {
        Self { workload }
    }
}

impl Instrument for Tests<'_> {
    fn load(&self, _: &LoadEnds<'_>, _: &TrialRequest<'_>) -> LoadSpec {
        LoadSpec::Network
    }

    fn measure(&mut self, site: &mut Site<'_>, request: &TrialRequest<'_>) -> Result<Measured, AgentError> {
        let (target, observer) = (site.target, site.observer);
        measure(&mut OnTestbed { site }, request, self.workload, target, observer)
    }
}

/// Makes every test of the workload once.
fn measure(
    ends: &mut dyn Ends,
    request: &TrialRequest<'_>,
    workload: &NetworkWorkload,
    target: SocketAddr,
    observer: &dyn Observer,
) -> Result<Measured, AgentError> {
    let MeasureKind::Network(measure) = &request.measure.kind else {
        return Err(not_made(request, "a network workload"));
    };
    let mut tests: Vec<&NetworkTest> = workload.tests.iter().collect();
    tests.shuffle(&mut StdRng::seed_from_u64(request.seed));
    let mut observations = Vec::with_capacity(tests.len());
    for (place, test) in tests.iter().enumerate() {
        let what = format!("{} ({} of {})", test.name, place + 1, tests.len());
        observer.observe(&RunEvent::Phase { what: &what });
        let measure = &measure.of(test);
        let spec = spec::spec(test, target, measure, request.seed.wrapping_add(place as u64));
        let started_unix_ms = unix_ms();
        let made = ends.make(&spec, measure, &what)?;
        observations.push(judge::observe(test, measure, made, started_unix_ms, request.tolerance));
    }
    let validity = judge::trial(&observations);
    // Tests cost differently; each has its own CPU time.
    Ok(Measured { observations, validity, answered: 0, answered_each: Vec::new(), phases: Vec::new() })
}
