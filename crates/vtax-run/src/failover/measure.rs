//! A load that is held while things break, whichever family it is of.

use std::sync::Mutex;

use vtax_agent::message::ServiceId;
use vtax_agent::{AgentError, Client};
use vtax_load::sip::PhaseResult;
use vtax_plan::model::{FailoverMeasure, FaultKind};
use vtax_store::failover::{FailoverLoad, FailoverOutcome, FaultRecord};
use vtax_store::record::{Finding, InvalidReason, Validity};
use vtax_sys::chain;
use vtax_sys::clock::unix_time;
use vtax_sys::sync::lock;
use vtax_units::{Nanos, Rate};

use super::account::{Account, Revival};
use super::inject::{Breakable, Done, Injector};
use super::mode::mode_of;
use super::seen::Course;
use super::topology::Probing;
use crate::instrument::{BOOT_WITHIN, Measured, Site};
use crate::trial_request::TrialRequest;

/// From the request for a load to its start: the generator gets its threads ready.
const LEAD_IN: Nanos = Nanos::from_millis(20);

/// A load that was held, and is over.
pub(crate) struct HeldLoad {
    /// Start of its recorded time, in nanoseconds since 1970.
    pub(crate) started_unix_ns: u64,
    /// Its recorded time.
    pub(crate) duration: Nanos,
    /// What clients saw, on the clock of the recorded time.
    pub(crate) course: Course,
    /// Whether it counts, whatever broke.
    pub(crate) validity: Validity,
    /// What is kept of it.
    pub(crate) load: FailoverLoad,
    /// Phases of SIP load, for the trial's files.
    pub(crate) phases: Vec<PhaseResult>,
}

/// Runs a load and meanwhile breaks what the measure says; the times of faults count from the start of the
/// load's recorded time.
pub(crate) fn measure(
    site: &mut Site<'_>,
    request: &TrialRequest<'_>,
    measure: &FailoverMeasure,
    load: impl FnOnce() -> Result<HeldLoad, AgentError>,
) -> Result<Measured, AgentError> {
    // Of several systems it is the first that is broken, and its part of the load that is told of.
    let offered = Rate(request.rate()?.0 / f64::from(request.cell.environment.count));
    let path = site.testbed.path_switch();
    let rig = Breakable::new(&site.testbed.the_sut().node, site.sut, path, site.routers);
    let (sut, testbed, provisioning) = (site.sut, &*site.testbed, site.provisioning);
    let revivals = Mutex::new(Vec::new());
    // The service in a guest that was booted again.
    let revive = || -> Result<(), String> {
        let again = || -> Result<(), AgentError> {
            let there = testbed.the_sut();
            sut.hello(BOOT_WITHIN)?;
            if let Some(interfaces) = there.node.interfaces() {
                sut.configure_network(interfaces.to_vec())?;
            }
            let service = &request.cell.service;
            sut.start_service(ServiceId::ONLY, service, there.service_address, provisioning).map(|_| ())
        };
        let found = again();
        let revival = Revival { at_unix_ns: unix_time().0, succeeded: found.is_ok() };
        lock(&revivals).push(revival);
        found.map_err(|e| chain(&e))
    };
    let faults = measure.faults_of(request.cell).copied().collect();
    let injector = Injector { rig: &rig, faults, revive: &revive, observer: site.observer };
    let lead = Nanos(LEAD_IN.0.saturating_add(measure.warmup.0));
    let probing = site.routers.map(Probing::start);
    let (held, done) = injector.during(lead, load);
    let held = held?;
    let topology = probing.map(|probing| Box::new(probing.finish(&rig.on_routers(), held.started_unix_ns)));
    let account = Account {
        mode: mode_of(request.cell),
        faults: &injector.faults,
        done: &done,
        events: &injector.rig.events(),
        started_unix_ns: held.started_unix_ns,
        duration: held.duration,
        course: &held.course.sorted(),
        delayed_beyond: measure.delayed,
        revivals: &lock(&revivals),
    };
    let mut findings = account.findings();
    note_rebuilds(&mut findings.faults, measure.duration, site.sut);
    let validity = match held.validity {
        Validity::Valid => worth(&findings.faults, &done),
        invalid => invalid,
    };
    let outcome = Finding::Failover(Box::new(FailoverOutcome {
        offered,
        started_unix_ns: held.started_unix_ns,
        duration: held.duration,
        delayed_beyond: measure.delayed,
        load: held.load,
        faults: findings.faults,
        unplanned: findings.unplanned,
        unprotected: findings.unprotected,
        down: findings.down,
        topology,
    }));
    let measured = Measured::whole(site.started_unix_ms, outcome, validity);
    Ok(Measured { phases: held.phases, ..measured })
}

/// Notes how long rebuilds of a RAID took. One that wasn't over with the load has no figure: without a load it is faster.
fn note_rebuilds(faults: &mut [FaultRecord], duration: Nanos, sut: &Client) {
    let replaced =
        |f: &&mut FaultRecord| matches!(f.fault.kind, FaultKind::Replace(_)) && f.injected.is_some();
    let mut replaced = faults.iter_mut().filter(replaced).peekable();
    if replaced.peek().is_none() {
        return;
    }
    for (fault, took) in replaced.zip(sut.rebuilds().unwrap_or_default()) {
        let began = fault.injected.unwrap_or_default();
        fault.rebuild = took.filter(|took| began.0.saturating_add(took.0) <= duration.0);
    }
}

/// What a trial is worth whose load counts.
fn worth(faults: &[FaultRecord], done: &[Done]) -> Validity {
    nothing_happened(faults).or_else(|| routers_refused(done)).unwrap_or(Validity::Valid)
}

/// A trial in which nothing could be broken tells nothing; why, of each fault.
fn nothing_happened(faults: &[FaultRecord]) -> Option<Validity> {
    let broken = faults.iter().filter(|f| !f.fault.kind.mends());
    let mut reasons = Vec::new();
    for fault in broken {
        let why = fault.discounted.as_ref()?;
        let at = fault.injected.unwrap_or(fault.fault.at).as_secs_f64();
        reasons.push(format!("{} at {at:.2} s: {why}", fault.fault.kind.words()));
    }
    let detail = format!("none of its faults tells anything: {}", reasons.join("; "));
    Some(Validity::Invalid { reason: InvalidReason::MeasureFailed, detail })
}

/// Where routers could not be broken or mended, the trial isn't the one that the plan describes; why, of the first.
fn routers_refused(done: &[Done]) -> Option<Validity> {
    let of_routers = done.iter().filter(|done| matches!(done.fault.kind, FaultKind::Topology(_)));
    let (fault, why) = of_routers.filter_map(|done| Some((done.fault, done.refused.as_ref()?))).next()?;
    let (what, at) = (fault.kind.words(), fault.at.as_secs_f64());
    let detail = format!("{what} at {at:.2} s could not be done: {why}");
    Some(Validity::Invalid { reason: InvalidReason::MeasureFailed, detail })
}

#[cfg(test)]
mod tests {
    use vtax_plan::model::{Fault, FaultKind, FaultTarget, TopologyFault};

    use super::super::account::left_out;
    use super::*;

    #[test]
    fn each_fault_has_its_own_reason() {
        let of = |seconds, target, why: Option<&str>| FaultRecord {
            discounted: why.map(str::to_owned),
            ..left_out(Fault { at: Nanos::from_secs(seconds), kind: FaultKind::Kill(target) })
        };
        let first = of(1, FaultTarget::PrimaryHost, Some("too early"));
        let second = of(2, FaultTarget::SecondaryHost, Some("too late"));
        let Some(Validity::Invalid { detail, .. }) = nothing_happened(&[first.clone(), second]) else {
            panic!("nothing counts")
        };
        assert_eq!(
            detail,
            "none of its faults tells anything: kill: primary-host at 1.00 s: too early; kill: secondary-host at 2.00 s: too late"
        );
        assert_eq!(nothing_happened(&[first, of(2, FaultTarget::SecondaryHost, None)]), None);
    }

    #[test]
    fn a_trial_whose_router_was_not_restored_does_not_count() {
        let done = |kind, refused: Option<&str>| Done {
            number: 0,
            fault: Fault { at: Nanos::from_secs(12), kind },
            at_unix_ns: 0,
            protected: None,
            host: None,
            refused: refused.map(str::to_owned),
            undone: None,
        };
        let restore = FaultKind::Topology(TopologyFault::RestoreRouter("p1".parse().expect("a name")));
        let killed = done(FaultKind::Kill(FaultTarget::PrimaryHost), Some("there is none"));
        assert_eq!(routers_refused(&[killed.clone(), done(restore, None)]), None);
        let Some(Validity::Invalid { reason, detail }) =
            routers_refused(&[killed, done(restore, Some("no such process"))])
        else {
            panic!("it counts")
        };
        assert_eq!(reason, InvalidReason::MeasureFailed);
        assert_eq!(detail, "restore: p1 at 12.00 s could not be done: no such process");
    }
}
