//! The IMS benchmark on a testbed that stands: pre-registration, stir, then the steps or the search
//! that finds the design objective capacity (ETSI TS 186 008-1).

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use vtax_agent::AgentError;
use vtax_load::search::{Ending, Search, SearchSpec, StepOutcome};
use vtax_load::sip::{PhaseKind, PhaseResult, Pools, SipConnections, SipPhase, SipProfile, causes};
use vtax_plan::model::{
    ArrivalProcess, CapacityMeasure, ImsMeasure, LatencyMeasure, Ramp, SipWorkload, Spread,
};
use vtax_store::ims::{Doc, ImsOutcome, ImsPhase, ImsPhaseKind};
use vtax_store::record::{InvalidReason, Validity};
use vtax_units::{Nanos, Rate, Share};

use super::judge::{self, Limits, judge};
use super::session::Session;
use crate::observe::{Observer, RunEvent};

/// Steps of one search, repeated ones included; a search that needs more meets a system whose
/// capacity moves faster than it can be searched.
const MOST_STEPS: u32 = 30;
/// A step of the search goes no further beyond the last than this. A SIP service far beyond its capacity fills
/// its memory with transactions, and the wait until it is rid of them is longer than a step.
const SEARCH_FACTOR: f64 = 2.0;
/// A step that broke another limit than that of loss is told to the search as one whose loss is just beyond what is allowed: so
/// many times that, and [`BEYOND_NONE`] more. It has failed then, but not by far.
const BEYOND_LIMIT: f64 = 1.01;
/// Where no loss is allowed at all, so much is beyond it.
const BEYOND_NONE: f64 = 1e-6;
/// Registrations per second of a service that is still waited for; one that doesn't answer is not.
const SLOWEST_REGISTRAR: f64 = 10.0;
/// Rates tried in confirmation, each lower than the one before.
const MOST_CONFIRMATIONS: u32 = 4;
/// A request is given up after this many times T1: timers B and F of RFC 3261 section 17.1.
pub(super) const GIVEN_UP_AFTER: u64 = 64;
/// Calls last at most this many times their mean, but for 7 in 1,000.
const LONG_CALL: u64 = 5;
/// On top of what a profile takes by itself: the agent may be kept waiting for its CPU.
const SLACK: Duration = Duration::from_secs(120);

/// What a benchmark found.
pub(super) struct BenchmarkResult {
    pub(super) outcome: ImsOutcome,
    pub(super) validity: Validity,
    /// The phases with their seconds and histograms, for the trial's files.
    pub(super) phases: Vec<PhaseResult>,
}

/// A benchmark under way.
pub(super) struct Benchmark<'a> {
    session: &'a mut dyn Session,
    workload: &'a SipWorkload,
    observer: &'a dyn Observer,
    arrivals: ArrivalProcess,
    phases: Vec<ImsPhase>,
    details: Vec<PhaseResult>,
    stray: BTreeMap<String, u64>,
    pools: Pools,
    connections: Option<SipConnections>,
}

/// A phase to be run, with what it is for and what it must keep.
struct Planned {
    kind: ImsPhaseKind,
    phase: SipPhase,
    limits: Limits,
}

impl<'a> Benchmark<'a> {
    pub(super) fn new(
        session: &'a mut dyn Session,
        workload: &'a SipWorkload,
        arrivals: ArrivalProcess,
        observer: &'a dyn Observer,
    ) -> Self {
        let (phases, details, stray, pools, connections) = Default::default();
        Self { session, workload, observer, arrivals, phases, details, stray, pools, connections }
    }

    /// Finds the capacity; `hint` is what an earlier trial found, `seed` is this one's own.
    pub(super) fn find(
        mut self,
        measure: &ImsMeasure,
        hint: Option<Rate>,
        seed: u64,
    ) -> Result<BenchmarkResult, AgentError> {
        let mut stages = vec![registration(measure.registration_rate, Some(measure.registration_ihs_limit))];
        stages.extend(stir(measure));
        match measure.ramp {
            Ramp::Steps { initial, increase, count } => {
                let rate = |i: u32| Rate(initial.0 + increase.0 * f64::from(i));
                stages.extend((0..count).map(|i| {
                    let name = format!("step {}", i + 1);
                    self.step(ImsPhaseKind::Step, name, rate(i), (measure.step, measure.transient), measure)
                }));
                let made = self.play(stages)?;
                Ok(self.staircase(made))
            }
            Ramp::Search { start, max, precision, step } => {
                let made = self.play(stages)?;
                if let Some(failed) = self.phases[made].iter().find(|p| !p.passed) {
                    let why = preamble_failed(failed);
                    return Ok(self.conclude(None, None, why));
                }
                // Beyond it the plan's number of subscribers would decide, and not the service. Where that carries it, the
                // search finds "at least" that rate.
                let most = max.0.min(self.workload.most_rate().0);
                let most = most.max(start.0).max(CapacityMeasure::LEAST_RATE.0);
                let spec = SearchSpec {
                    start,
                    precision,
                    loss_max: measure.ihs_limit,
                    steps_max: MOST_STEPS,
                    factor_max: SEARCH_FACTOR,
                    // What passed has to hold once more for longer, and a rate that didn't is left for a lower one. Simulated, the two
                    // together lean by 1 % where the chance of passing falls from three quarters to one within 22 % of the rate.
                    confirm: false,
                    ..SearchSpec::blind(Rate(most))
                };
                let spec = hint.map_or(spec, |hint| spec.near_result(hint)).off_the_grid(seed);
                self.search(spec, step, measure)
            }
        }
    }

    /// Runs the mix at one rate, after registering the plan's share.
    pub(super) fn fixed(
        mut self,
        measure: &LatencyMeasure,
        rate: Rate,
    ) -> Result<BenchmarkResult, AgentError> {
        let load = fixed_load((measure.warmup, measure.duration), rate);
        let made = self.play(vec![registration(SipWorkload::REGISTRATION_RATE, None), load])?;
        Ok(self.conclude_fixed(made))
    }

    /// Registers the plan's share, so that a load can be [held](Self::hold).
    pub(super) fn register(&mut self) -> Result<(), AgentError> {
        self.play(vec![registration(SipWorkload::REGISTRATION_RATE, None)]).map(|_| ())
    }

    /// Runs the mix at one rate for a time that doesn't count and one that does.
    pub(super) fn hold(mut self, times: (Nanos, Nanos), rate: Rate) -> Result<BenchmarkResult, AgentError> {
        let made = self.play(vec![fixed_load(times, rate)])?;
        Ok(self.conclude_fixed(made))
    }

    fn conclude_fixed(self, made: Range<usize>) -> BenchmarkResult {
        let detail = &self.details[made.end - 1];
        let validity = if let Some(why) = &detail.generator.limited {
            invalid(InvalidReason::GeneratorLimited, why.clone())
        } else if let Some(why) = judge::too_few_subscribers(detail, self.workload) {
            // What was never sent would count as slower than every answer.
            invalid(InvalidReason::MeasureFailed, why)
        } else if detail.scenarios.iter().all(|s| s.succeeded == 0) {
            invalid(InvalidReason::NothingSucceeded, causes(&detail.scenarios))
        } else {
            Validity::Valid
        };
        self.conclude(None, None, validity)
    }

    /// Runs stages without a gap; which of `self.phases` they became. The session may end early.
    fn play(&mut self, stages: Vec<Planned>) -> Result<Range<usize>, AgentError> {
        let profile = SipProfile {
            phases: stages.iter().map(|s| s.phase.clone()).collect(),
            arrivals: self.arrivals,
            drain: self.drain(),
        };
        let from = self.phases.len();
        self.observer.observe(&RunEvent::Phase { what: &stages[0].phase.name });
        let result = self.session.run(&profile, self.time_for(&profile))?;
        for (kind, count) in result.stray {
            *self.stray.entry(kind).or_default() += count;
        }
        self.pools = result.pools;
        if let Some(more) = result.connections {
            self.connections.get_or_insert_default().add(more);
        }
        let made = result.phases.len();
        for (i, (stage, detail)) in stages.iter().zip(result.phases).enumerate() {
            let mut phase = judge(stage.kind, &detail, &stage.limits, self.workload);
            // The session ends a profile as soon as a limit is broken: what it saw then counts, even
            // where scenarios that ended later made it look better.
            if let (Some(why), true, true) = (&result.stopped, i + 1 == made, phase.passed) {
                phase.passed = false;
                phase.reason = Some(why.clone());
            }
            self.observer
                .observe(&RunEvent::PhaseEnded { rate: phase.effective, text: &judge::in_short(&phase) });
            self.phases.push(phase);
            self.details.push(detail);
        }
        Ok(from..self.phases.len())
    }

    /// What the staircase came to: the last step before the first that broke a limit.
    fn staircase(self, made: Range<usize>) -> BenchmarkResult {
        let phases = &self.phases[made.clone()];
        let broken = phases.iter().position(|p| !p.passed);
        if let Some(failed) = broken.map(|i| &phases[i]).filter(|p| p.kind != ImsPhaseKind::Step) {
            let why = preamble_failed(failed);
            return self.conclude(None, None, why);
        }
        let passed = &phases[..broken.unwrap_or(phases.len())];
        let doc = passed.iter().rposition(|p| p.kind == ImsPhaseKind::Step).map(|i| made.start + i);
        let failed = broken.map(|i| made.start + i);
        let validity = failed.map_or(Validity::Valid, |i| self.judge_limit(i, doc.is_some()));
        let bound = failed.filter(|_| validity == Validity::Valid).map(|i| self.phases[i].requested);
        self.conclude(doc, bound, validity)
    }

    fn search(
        mut self,
        spec: SearchSpec,
        step: Nanos,
        measure: &ImsMeasure,
    ) -> Result<BenchmarkResult, AgentError> {
        let mut search = Search::new(spec);
        let mut count = 0;
        while let Some(rate) = search.next() {
            count += 1;
            let (kind, name) = (ImsPhaseKind::Search, format!("search {count}"));
            let made = self.play(vec![self.step(kind, name, rate, (step, measure.transient), measure)])?;
            search.record(self.step_outcome(rate, made, measure.ihs_limit));
        }
        let bracket = search.finish();
        let last = self.phases.len() - 1;
        let Some(mut rate) = bracket.lower else {
            let why = self.judge_limit(last, false);
            return Ok(self.conclude(None, None, why));
        };
        let mut upper = bracket.upper;
        if bracket.ending == Ending::GeneratorLimited {
            let why = self.details[last].generator.limited.clone().unwrap_or_default();
            return Ok(self.conclude(None, None, invalid(InvalidReason::GeneratorLimited, why)));
        }
        let broke = |p: &ImsPhase| !p.passed && Some(p.requested) == upper;
        if let Some(index) = self.phases.iter().position(broke)
            && let why @ Validity::Invalid { .. } = self.judge_limit(index, true)
        {
            return Ok(self.conclude(None, None, why));
        }
        for _ in 0..MOST_CONFIRMATIONS {
            let (kind, name) = (ImsPhaseKind::Confirmation, "confirmation".to_owned());
            let lengths = (measure.step, measure.transient);
            let made = self.play(vec![self.step(kind, name, rate, lengths, measure)])?;
            let last = made.end - 1;
            if self.phases[last].passed {
                return Ok(self.conclude(Some(last), upper, Validity::Valid));
            }
            if let why @ Validity::Invalid { .. } = self.judge_limit(last, true) {
                return Ok(self.conclude(None, None, why));
            }
            upper = Some(rate);
            rate = Rate(rate.0 * (1.0 - measure_precision(measure)));
        }
        let why = invalid(
            InvalidReason::MeasureFailed,
            format!(
                "the capacity moved: the rate that kept to the limits in a short step didn't for longer, nor did the {} \
                 lower ones tried after it",
                MOST_CONFIRMATIONS - 1
            ),
        );
        Ok(self.conclude(None, upper, why))
    }

    /// What a step means to the search: a broken limit of one scenario is loss beyond the limit too.
    fn step_outcome(&self, rate: Rate, made: Range<usize>, limit: Share) -> StepOutcome {
        let last = made.end - 1;
        let (phase, detail) = (&self.phases[last], &self.details[last]);
        let beyond = limit.0 * BEYOND_LIMIT + BEYOND_NONE;
        let loss = if phase.passed { phase.ihs.min(limit.0) } else { phase.ihs.max(beyond) };
        StepOutcome {
            rate,
            loss: Share(loss),
            waiting: Share(0.0),
            latency_p95: Nanos::ZERO,
            latency_p99: Nanos::ZERO,
            generator_limited: detail.generator.limited.is_some(),
        }
    }

    /// Whether a step that broke a limit tells about the service.
    fn judge_limit(&self, index: usize, some_passed: bool) -> Validity {
        let (phase, detail) = (&self.phases[index], &self.details[index]);
        let reason = phase.reason.clone().unwrap_or_default();
        if let Some(why) = &detail.generator.limited {
            return invalid(InvalidReason::GeneratorLimited, why.clone());
        }
        if let Some(why) = judge::too_few_subscribers(detail, self.workload) {
            return invalid(InvalidReason::MeasureFailed, why);
        }
        if some_passed {
            return Validity::Valid;
        }
        let causes = causes(&detail.scenarios);
        invalid(
            InvalidReason::NothingSucceeded,
            format!("not even the lowest load kept to its limits: {reason}; {causes}"),
        )
    }

    fn conclude(self, doc: Option<usize>, failed: Option<Rate>, validity: Validity) -> BenchmarkResult {
        let doc = doc.map(|i| Doc {
            requested: self.phases[i].requested,
            effective: self.phases[i].effective,
            phase: u32::try_from(i).unwrap_or(u32::MAX),
        });
        let outcome = ImsOutcome {
            doc,
            failed,
            phases: self.phases,
            stray: self.stray,
            pools: self.pools,
            connections: self.connections,
            probe_clocks: BTreeMap::new(),
        };
        BenchmarkResult { outcome, validity, phases: self.details }
    }

    fn step(
        &self,
        kind: ImsPhaseKind,
        name: String,
        rate: Rate,
        (duration, transient): (Nanos, Nanos),
        measure: &ImsMeasure,
    ) -> Planned {
        let phase = SipPhase {
            name,
            kind: PhaseKind::Mix { duration },
            rate,
            transient,
            ihs_limit: Some(measure.ihs_limit),
            scenario_limits: true,
        };
        Planned { kind, phase, limits: Limits::of(measure.ihs_limit, &self.workload.mix) }
    }

    /// How long scenarios under way are waited for: until all but the longest calls have ended and what
    /// isn't answered was given up.
    fn drain(&self) -> Nanos {
        let longest = |spread: Spread| match spread {
            Spread::Constant(time) => time.0,
            Spread::Exponential(mean) => mean.0.saturating_mul(LONG_CALL),
        };
        let given_up = self.workload.t1.0.saturating_mul(GIVEN_UP_AFTER);
        let calls = longest(self.workload.ring_time).saturating_add(longest(self.workload.hold_time));
        Nanos(given_up.saturating_add(calls))
    }

    fn time_for(&self, profile: &SipProfile) -> Duration {
        let time = |phase: &SipPhase| match phase.kind {
            PhaseKind::Mix { duration } => Duration::from(duration),
            PhaseKind::PreRegistration => {
                let all = self.workload.registered_count();
                // The rate is the most: a service that is slower is given the time.
                Duration::from_secs_f64((all / phase.rate.0.min(SLOWEST_REGISTRAR)).clamp(0.0, 1e8))
            }
        };
        profile.phases.iter().map(time).sum::<Duration>() + Duration::from(profile.drain) * 2 + SLACK
    }
}

fn registration(rate: Rate, ihs_limit: Option<Share>) -> Planned {
    let phase = SipPhase {
        name: "pre-registration".to_owned(),
        kind: PhaseKind::PreRegistration,
        rate,
        transient: Nanos::ZERO,
        ihs_limit,
        scenario_limits: false,
    };
    Planned { kind: ImsPhaseKind::PreRegistration, phase, limits: Limits::only(ihs_limit) }
}

/// A rate that the plan gives, for a time that doesn't count and one that does.
fn fixed_load((warmup, duration): (Nanos, Nanos), rate: Rate) -> Planned {
    let phase = SipPhase {
        name: "load".to_owned(),
        kind: PhaseKind::Mix { duration: Nanos(warmup.0.saturating_add(duration.0)) },
        rate,
        transient: warmup,
        ihs_limit: None,
        scenario_limits: false,
    };
    Planned { kind: ImsPhaseKind::Fixed, phase, limits: Limits::none() }
}

/// Steps up to the load of the first one.
fn stir(measure: &ImsMeasure) -> Vec<Planned> {
    let (Ramp::Steps { initial: first, .. } | Ramp::Search { start: first, .. }) = measure.ramp;
    let steps = if measure.stir == Nanos::ZERO { 0 } else { measure.stir_steps };
    let stage = |i: u32| Planned {
        kind: ImsPhaseKind::Stir,
        phase: SipPhase {
            name: format!("stir {i}"),
            kind: PhaseKind::Mix { duration: Nanos(measure.stir.0 / u64::from(steps)) },
            rate: Rate(first.0 * f64::from(i) / f64::from(steps)),
            transient: Nanos::ZERO,
            ihs_limit: Some(measure.stir_ihs_limit),
            scenario_limits: false,
        },
        limits: Limits::only(Some(measure.stir_ihs_limit)),
    };
    (1..=steps).map(stage).collect()
}

/// How far a confirmation goes down where the rate found did not hold.
fn measure_precision(measure: &ImsMeasure) -> f64 {
    match measure.ramp {
        Ramp::Search { precision, .. } => precision.0.clamp(0.02, 0.5),
        Ramp::Steps { .. } => 0.05,
    }
}

/// Why nothing was measured: what comes before the first step went wrong.
fn preamble_failed(phase: &ImsPhase) -> Validity {
    let reason = phase.reason.clone().unwrap_or_default();
    let causes = causes(&phase.scenarios);
    invalid(InvalidReason::MeasureFailed, format!("{} failed: {reason}; {causes}", phase.name))
}

fn invalid(reason: InvalidReason, detail: String) -> Validity {
    Validity::Invalid { reason, detail }
}
