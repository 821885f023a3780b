//! SIP subscribers: the IMS benchmark, a load that the plan gives, and one that is held while things break.

mod benchmark;
mod judge;
mod session;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use vtax_agent::AgentError;
use vtax_load::sip::{MomentKind, PhaseResult, SipSpec};
use vtax_load::{LoadSpec, Verify};
use vtax_plan::model::{FailoverMeasure, MeasureKind, SipWorkload};
use vtax_store::failover::FailoverLoad;
use vtax_store::record::Finding;
use vtax_units::{CpuSet, Nanos};

use crate::failover::{self, Course, HeldLoad};
use crate::instrument::{Ends, Instrument, Measured, Site, not_made};
use crate::trial_request::TrialRequest;
use benchmark::{Benchmark, BenchmarkResult};
use session::OnClient;

/// The instrument of SIP workloads.
pub(super) struct Subscribers<'a> {
    workload: &'a SipWorkload,
}

impl<'a> Subscribers<'a> {
    /// Of this workload.
    pub(super) const fn new(workload: &'a SipWorkload) -> Self {
        Self { workload }
    }
}

impl Instrument for Subscribers<'_> {
    fn load(&self, ends: &Ends<'_>, request: &TrialRequest<'_>) -> LoadSpec {
        LoadSpec::Sip(Box::new(SipSpec {
            target: ends.target,
            workload: self.workload.clone(),
            local: ends.sources.to_vec(),
            // The client's agent is bound to its CPUs already: one worker on each.
            cpus: CpuSet::default(),
            seed: request.seed,
            moments: request.measure.kind.is_failover(),
            // Certificates are made for the run, and nobody else can be there.
            verify: Verify::Nothing,
        }))
    }

    fn measure(&mut self, site: &mut Site<'_>, request: &TrialRequest<'_>) -> Result<Measured, AgentError> {
        let (workload, observer) = (self.workload, site.observer);
        let registrations = workload.registered_count();
        let mut session = OnClient { client: site.client, observer, registrations };
        let found =
            match &request.measure.kind {
                MeasureKind::Ims(ims) => Benchmark::new(&mut session, workload, ims.arrivals, observer)
                    .find(ims, request.capacity_hint, request.seed)?,
                MeasureKind::Latency(latency) => {
                    Benchmark::new(&mut session, workload, latency.arrivals, observer)
                        .fixed(latency, request.rate()?)?
                }
                MeasureKind::Failover(measure) => {
                    let mut benchmark = Benchmark::new(&mut session, workload, measure.arrivals, observer);
                    benchmark.register()?;
                    let clocks = site.probes.clocks.clone();
                    let load = || held(benchmark, request, measure, clocks);
                    return failover::measure(site, request, measure, load);
                }
                MeasureKind::Capacity(_)
                | MeasureKind::Throughput(_)
                | MeasureKind::Network(_)
                | MeasureKind::Storage(_) => {
                    return Err(not_made(request, "a SIP workload"));
                }
            };
        let BenchmarkResult { mut outcome, validity, phases } = found;
        outcome.probe_clocks.clone_from(&site.probes.clocks);
        // Registrations and calls cost differently: CPU time per request would say nothing.
        let measured = Measured::whole(site.started_unix_ms, Finding::Ims(Box::new(outcome)), validity);
        Ok(Measured { phases, ..measured })
    }
}

/// Holds a load of scenarios for as long as things break; `clocks` are those of the probes.
fn held(
    benchmark: Benchmark<'_>,
    request: &TrialRequest<'_>,
    measure: &FailoverMeasure,
    clocks: BTreeMap<String, i64>,
) -> Result<HeldLoad, AgentError> {
    let found = benchmark.hold((measure.warmup, measure.duration), request.rate()?)?;
    let BenchmarkResult { mut outcome, validity, phases } = found;
    outcome.probe_clocks = clocks;
    let Some(phase) = phases.last() else {
        let error = "the generator recorded no phase".to_owned();
        return Err(AgentError::Refused { node: "client".to_owned(), error });
    };
    let started_unix_ns = phase.started_unix_ms.saturating_mul(1_000_000).saturating_add(phase.transient.0);
    Ok(HeldLoad {
        started_unix_ns,
        duration: phase.duration.saturating_sub(phase.transient),
        course: course(phase),
        validity,
        load: FailoverLoad::Scenarios(Box::new(outcome)),
        phases,
    })
}

/// What clients saw of a phase, whose transient is over when the recorded load starts.
fn course(phase: &PhaseResult) -> Course {
    let transient = phase.transient.0;
    let mut course = Course::new(phase.duration.saturating_sub(phase.transient));
    // What comes before the recorded load doesn't count.
    let since = |time: Nanos| time.0.checked_sub(transient).map(Nanos);
    for moment in &phase.moments {
        let Some(at) = since(moment.at) else { continue };
        match moment.what {
            MomentKind::Took(_, value) => course.answered(at.saturating_sub(value), at),
            MomentKind::Repeated => course.sent_again(at),
            MomentKind::Succeeded | MomentKind::Failed => {
                let started = since(moment.started).unwrap_or_default();
                course.ended(started, at, moment.what == MomentKind::Failed);
            }
        }
    }
    course
}
