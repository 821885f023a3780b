//! The load of a failover trial, held by the client node.

use vtax_agent::AgentError;
use vtax_lab::ft::PairEvent;
use vtax_load::sip::PhaseResult;
use vtax_plan::model::{FailoverMeasure, FtMode, SipWorkload};
use vtax_store::failover::{FailoverLoad, FailoverOutcome};
use vtax_store::record::{Finding, InvalidReason, Validity};
use vtax_units::Nanos;

use super::account::{Account, Told};
use super::inject::{Done, Injector};
use super::seen::Course;
use crate::burst::{Burst, Pace};
use crate::ims::{Benchmark, Found, Session};
use crate::measure::{Measured, Site, judge};
use crate::runner::Order;

/// From the request for a load to its start: the generator gets its threads ready.
const LEAD_IN: Nanos = Nanos::from_millis(20);
/// Length of the intervals of an HTTP load: a failover is over in three of them.
const INTERVAL: Nanos = Nanos::from_millis(100);
/// Intervals that one result may have.
const MOST_INTERVALS: u64 = 5_000;

/// What is needed to make an account of a load that is over.
struct Over<'a> {
    measure: &'a FailoverMeasure,
    injector: &'a Injector<'a>,
    done: &'a [Done],
    events: Vec<PairEvent>,
    started_unix_ns: u64,
    duration: Nanos,
}

impl Over<'_> {
    fn tell(&self, mode: FtMode, course: &Course) -> Told {
        let account = Account {
            mode,
            faults: &self.injector.faults,
            done: self.done,
            events: &self.events,
            started_unix_ns: self.started_unix_ns,
            duration: self.duration,
            course,
            delayed_beyond: self.measure.delayed,
        };
        account.tell()
    }

    fn outcome(&self, order: &Order<'_>, told: Told, load: FailoverLoad) -> Finding {
        Finding::Failover(Box::new(FailoverOutcome {
            offered: order.offered,
            started_unix_ns: self.started_unix_ns,
            duration: self.duration,
            delayed_beyond: self.measure.delayed,
            load,
            faults: told.faults,
            unprotected: told.unprotected,
            down: told.down,
        }))
    }
}

impl Site<'_> {
    /// Holds a load of HTTP requests while things break; the load is open.
    pub(crate) fn failover_http(
        &self,
        order: &Order<'_>,
        measure: &FailoverMeasure,
    ) -> Result<Measured, AgentError> {
        let (injector, mode) = self.injector(order)?;
        let burst = Burst {
            pace: Pace::Open(order.offered, measure.arrivals),
            warmup: measure.warmup,
            duration: measure.duration,
            seed: order.seed,
            samples: true,
        };
        let mut step = burst.step();
        step.interval = INTERVAL.max(Nanos(measure.duration.0 / MOST_INTERVALS));
        let lead = Nanos(LEAD_IN.0.saturating_add(measure.warmup.0));
        let (answer, done) = injector.during(lead, || self.requests(step));
        let answer = answer?;
        let load = answer.result;
        let over = Over {
            measure,
            injector,
            done: &done,
            events: injector.rig.events(),
            started_unix_ns: load.started_unix_ns,
            duration: load.duration,
        };
        let told = over.tell(mode, &Course::of_requests(&load));
        let validity = judge(&load);
        let outcome = over.outcome(order, told, FailoverLoad::Requests(Box::new(load)));
        Ok(Measured::whole(self.started_unix_ms, outcome, validity))
    }

    /// Holds a load of SIP scenarios while things break; the session is open.
    pub(crate) fn failover_sip(
        &self,
        order: &Order<'_>,
        workload: &SipWorkload,
        session: &mut dyn Session,
        measure: &FailoverMeasure,
    ) -> Result<(Measured, Vec<PhaseResult>), AgentError> {
        let (injector, mode) = self.injector(order)?;
        let mut done = Vec::new();
        let lead = Nanos(LEAD_IN.0.saturating_add(measure.warmup.0));
        let benchmark = Benchmark::new(session, workload, measure.arrivals, self.observer);
        let found = benchmark.held((measure.warmup, measure.duration), order.offered, |load| {
            let (result, made) = injector.during(lead, load);
            done = made;
            result
        })?;
        let Found { outcome, validity, phases } = found;
        let Some(phase) = phases.last() else {
            return Err(self.refused("the generator recorded no phase"));
        };
        let over = Over {
            measure,
            injector,
            done: &done,
            events: injector.rig.events(),
            started_unix_ns: phase
                .started_unix_ms
                .saturating_mul(1_000_000)
                .saturating_add(phase.transient.0),
            duration: phase.duration.saturating_sub(phase.transient),
        };
        let told = over.tell(mode, &Course::of_scenarios(phase));
        let outcome = over.outcome(order, told, FailoverLoad::Scenarios(Box::new(outcome)));
        Ok((Measured::whole(self.started_unix_ms, outcome, validity), phases))
    }

    fn injector(&self, order: &Order<'_>) -> Result<(&Injector<'_>, FtMode), AgentError> {
        let injector = self.injector.ok_or_else(|| self.refused("nothing was prepared to break"))?;
        Ok((injector, super::mode_of(order.cell)))
    }

    fn refused(&self, error: &str) -> AgentError {
        AgentError::Refused { node: "client".to_owned(), error: error.to_owned() }
    }
}

/// A trial in which nothing could be broken tells nothing.
pub(crate) fn nothing_happened(found: &Finding) -> Option<Validity> {
    let Finding::Failover(failover) = found else { return None };
    let broken = failover.faults.iter().filter(|f| !f.fault.kind.mends());
    let mut told = broken.clone().filter(|f| f.discounted.is_none());
    if told.next().is_some() {
        return None;
    }
    let why = broken.filter_map(|f| f.discounted.clone()).next().unwrap_or_default();
    let detail = format!("none of its faults tells anything: {why}");
    Some(Validity::Invalid { reason: InvalidReason::MeasureFailed, detail })
}
