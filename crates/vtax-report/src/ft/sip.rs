//! The courses of SIP scenarios around faults.

use vtax_load::sip::{Moment, MomentKind, PhaseResult};
use vtax_plan::model::{Scenario, SipMetric};
use vtax_store::failover::FailoverOutcome;
use vtax_store::ims::{ImsPhase, ImsPhaseKind};
use vtax_store::{StoreError, TrialDir};

use super::course::{Course, Kind};
use super::failovers::What;
use super::found::{Found, Recorder, put};

const fn count(name: &'static str, title: &'static str, axis: &'static str) -> What {
    What { name, title, axis, unit: "" }
}

const fn delay(name: &'static str, title: &'static str) -> What {
    What { name, title, axis: "mean delay", unit: "ms" }
}

/// Counts, with the scenario that is counted and what of it.
const COUNTS: [(What, Option<Scenario>, Counted); 7] = [
    (count("ihs", "Inadequately handled scenarios", "per second, all scenarios"), None, Counted::Failed),
    (
        count("ihs-calling", "Inadequately handled calls", "per second, calling"),
        Some(Scenario::Calling),
        Counted::Failed,
    ),
    (count("resent", "Retransmissions", "per second, all scenarios"), None, Counted::Repeated),
    (
        count("resent-calling", "Retransmissions of calls", "per second, calling"),
        Some(Scenario::Calling),
        Counted::Repeated,
    ),
    (
        count("resent-registration", "Retransmissions of registrations", "per second, registration"),
        Some(Scenario::Registration),
        Counted::Repeated,
    ),
    (count("delayed", "Delayed answers", "per second, all scenarios"), None, Counted::Delayed),
    (count("answered", "Answers", "per second, all scenarios"), None, Counted::Answered),
];

/// What a course counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Failed,
    Repeated,
    Delayed,
    Answered,
}

/// The metrics shown, in the study's order.
const DELAYS: [(SipMetric, What); 9] = [
    (SipMetric::Ses1, delay("ses1", "Session set-up (SES1)")),
    (SipMetric::Rel1, delay("rel1", "Session release, BYE to OK (REL1)")),
    (SipMetric::Ses2, delay("ses2", "INVITE on its way (SES2)")),
    (SipMetric::Ses3, delay("ses3", "Set-up with re-INVITE (SES3)")),
    (SipMetric::Pmm1, delay("pmm1", "Message (PMM1)")),
    (SipMetric::Pmm2, delay("pmm2", "Message to nobody (PMM2)")),
    (SipMetric::Reg1, delay("reg1", "First REGISTER (REG1)")),
    (SipMetric::Reg2, delay("reg2", "Second REGISTER (REG2)")),
    (SipMetric::Reg4, delay("reg4", "Re-registration (REG4)")),
];

/// Courses of one trial.
struct Courses<'a> {
    recorder: &'a Recorder,
    delayed_beyond_ns: u64,
    counts: Vec<Vec<Course>>,
    delays: Vec<Vec<Course>>,
    /// Whether the run has the scenario or the metric at all.
    used: (Vec<bool>, Vec<bool>),
}

/// Reads what happened to the scenarios of a trial.
pub(super) fn scenarios(
    trial: &TrialDir,
    outcome: &FailoverOutcome,
    phases: &[ImsPhase],
    recorder: &Recorder,
    found: &mut Found,
) -> Result<(), StoreError> {
    let mut courses = Courses {
        recorder,
        delayed_beyond_ns: outcome.delayed_beyond.0,
        counts: COUNTS.iter().map(|_| recorder.courses(Kind::Rate)).collect(),
        delays: DELAYS.iter().map(|_| recorder.courses(Kind::Mean)).collect(),
        used: (vec![false; COUNTS.len()], vec![false; DELAYS.len()]),
    };
    let mut kinds = phases.iter().map(|p| p.kind);
    trial.for_each_phase(|phase| {
        // What comes before the load prepares it; its own transient is the warm-up.
        if kinds.next() == Some(ImsPhaseKind::Fixed) {
            courses.phase(&phase, -phase.transient.as_secs_f64());
        }
    })?;
    let Courses { counts, delays, used, .. } = courses;
    let counts = COUNTS.iter().map(|c| c.0).zip(counts).zip(used.0);
    let delays = DELAYS.iter().map(|d| d.1).zip(delays).zip(used.1);
    // Delays of answers belong before what only completes the picture.
    let first = COUNTS.len() - 2;
    let order = |i: usize| if i < first { i } else { i + DELAYS.len() };
    for (i, ((what, courses), _)) in counts.enumerate().filter(|(_, (_, used))| *used) {
        put(found, order(i), what, courses);
    }
    for (i, ((what, courses), _)) in delays.enumerate().filter(|(_, (_, used))| *used) {
        put(found, first + i, what, courses);
    }
    Ok(())
}

impl Courses<'_> {
    /// Adds a phase that began at that time of the load.
    fn phase(&mut self, phase: &PhaseResult, began: f64) {
        for (i, (_, scenario, _)) in COUNTS.iter().enumerate() {
            let has = |s: &Scenario| phase.scenarios.iter().any(|r| r.scenario == *s);
            self.used.0[i] |= scenario.as_ref().is_none_or(has);
        }
        for moment in &phase.moments {
            let scenario = phase.scenarios.get(usize::from(moment.scenario)).map(|s| s.scenario);
            self.moment(moment, scenario, began);
        }
    }

    fn moment(&mut self, moment: &Moment, scenario: Option<Scenario>, began: f64) {
        let at = began + moment.at.as_secs_f64();
        let started = began + moment.started.as_secs_f64();
        match moment.what {
            // It stands where it was meant to start, or at the fault where it was under way then.
            MomentKind::Failed => {
                let near = self.recorder.place(started, at);
                self.count(Counted::Failed, scenario, near);
            }
            MomentKind::Repeated => self.count(Counted::Repeated, scenario, at),
            MomentKind::Succeeded => {}
            MomentKind::Took(metric, value) => {
                let took = value.as_secs_f64();
                // Ring time is taken out of the times of a call's set-up, so that their end says nothing about
                // their begin.
                let from = match metric {
                    SipMetric::Ses1 | SipMetric::Ses3 => started,
                    _ => at - took,
                };
                if let Some(i) = DELAYS.iter().position(|d| d.0 == metric) {
                    self.used.1[i] = true;
                    self.recorder.add(&mut self.delays[i], from, took * 1e3, 1.0);
                }
                self.count(Counted::Answered, scenario, at);
                if value.0 > self.delayed_beyond_ns {
                    self.count(Counted::Delayed, scenario, from);
                }
            }
        }
    }

    fn count(&mut self, what: Counted, scenario: Option<Scenario>, seconds: f64) {
        for ((_, wanted, counted), courses) in COUNTS.iter().zip(&mut self.counts) {
            if *counted == what && wanted.is_none_or(|w| Some(w) == scenario) {
                self.recorder.add(courses, seconds, 1.0, 1.0);
            }
        }
    }
}
