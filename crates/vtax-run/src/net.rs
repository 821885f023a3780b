//! The tests of a network workload: one after the other on the testbed of a trial.
//!
//! Their order is drawn for each trial, so that none is always the one after the boot, and each is judged
//! by itself. The trial stays the unit: a test has one observation in it.

mod count;
mod judge;
mod spec;
mod stand;

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use vtax_agent::AgentError;
use vtax_load::network::{NetFailure, NetResult, NetSpec};
use vtax_plan::model::{MeasureKind, NetworkMeasure, NetworkTest, NetworkWorkload, Plan};
use vtax_probe::layers::CpuBreakdown;
use vtax_store::unix_ms;
use vtax_sys::netlink::LinkStats;

use crate::measure::Measured;
use crate::observe::{Observer, RunEvent};
use crate::runner::Order;

pub(crate) use stand::Stand;

/// What a test is made on: two ends, and all that watches them.
pub(crate) trait Ground {
    /// Makes ready for tests.
    fn open(&mut self) -> Result<(), AgentError>;

    /// Makes one test to its end. `what` says which, for people.
    fn make(&mut self, spec: &NetSpec, measure: &NetworkMeasure, what: &str) -> Result<Made, AgentError>;
}

/// A test that was made.
pub(crate) struct Made {
    /// What both ends found, or why they found nothing.
    pub(crate) answer: Result<NetResult, NetFailure>,
    /// What went through the client's and the system under test's interface, as each sees it.
    pub(crate) counted: Option<[LinkStats; 2]>,
    /// What a capture saw, where one was asked for.
    pub(crate) captured: Option<Result<Captured, String>>,
    /// CPU time on the side of the system under test.
    pub(crate) cpu: Option<CpuBreakdown>,
    /// Why the path could not be cut as the plan asks, where it could not.
    pub(crate) uncut: Option<String>,
}

/// Payload that went over the path as a capture on the client's side saw it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Captured {
    /// Bytes towards the system under test, sent again included.
    pub(crate) up: u64,
    /// Bytes towards the client.
    pub(crate) down: u64,
    /// Packets that the capture missed.
    pub(crate) dropped: u64,
}

/// Kernel modules that the plan's workloads need.
pub(crate) fn modules(plan: &Plan) -> Vec<String> {
    let modules = plan.cells.iter().flat_map(|cell| cell.workload.model().kernel_modules());
    modules.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Makes every test of the workload once.
pub(crate) fn measure(
    ground: &mut dyn Ground,
    order: &Order<'_>,
    workload: &NetworkWorkload,
    target: std::net::SocketAddr,
    observer: &dyn Observer,
) -> Result<Measured, AgentError> {
    let MeasureKind::Network(measure) = &order.measure.kind else {
        let error = format!("`{}` is not measured with a network workload", order.measure.name);
        return Err(AgentError::Refused { node: "client".to_owned(), error });
    };
    ground.open()?;
    let mut tests: Vec<&NetworkTest> = workload.tests.iter().collect();
    tests.shuffle(&mut StdRng::seed_from_u64(order.seed));
    let mut observations = Vec::with_capacity(tests.len());
    for (place, test) in tests.iter().enumerate() {
        let what = format!("{} ({} of {})", test.name, place + 1, tests.len());
        observer.observe(&RunEvent::Phase { what: &what });
        let measure = &measure.of(test);
        let spec = spec::spec(test, target, measure, order.seed.wrapping_add(place as u64));
        let started_unix_ms = unix_ms();
        let made = ground.make(&spec, measure, &what)?;
        observations.push(judge::observe(test, measure, made, started_unix_ms, order.tolerance));
    }
    let validity = judge::trial(&observations);
    // Tests cost differently; each has its own CPU time.
    Ok(Measured { observations, validity, answered: 0 })
}

#[cfg(test)]
mod tests;
