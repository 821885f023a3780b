//! Benchmarks against a simulated service.

use std::collections::BTreeMap;
use std::time::Duration;

use vtax_agent::AgentError;
use vtax_load::sip::{
    MetricResult, PhaseKind, PhaseResult, Pools, ScenarioResult, SipPhase, SipProfile, SipResult,
};
use vtax_load::{GeneratorUse, LatencyHistogram};
use vtax_plan::model::{
    ArrivalProcess, ImsMeasure, MeasureKind, Plan, Scenario, SipMetric, SipWorkload, Workload,
};
use vtax_store::ims::{ImsPhaseKind, MedianOfAttempts};
use vtax_store::record::{InvalidReason, Validity};
use vtax_units::{Nanos, Rate};

use super::benchmark::{Benchmark, BenchmarkResult};
use super::session::Session;
use crate::observe::Silent;

/// Of the trial.
const SEED: u64 = 7;

/// A service that carries so many scenarios per second; what comes on top fails.
struct Service {
    capacity: f64,
    /// Rate from which the generator is late.
    generator: f64,
    /// Share of registrations that it refuses.
    refuses: f64,
    /// Rate from which no subscriber is free.
    subscribers: f64,
    /// Rate from which a step of at least a minute fails.
    endurance: f64,
    profiles: u32,
}

impl Service {
    fn of(capacity: f64) -> Self {
        let no = f64::INFINITY;
        Self { capacity, generator: no, refuses: 0.0, subscribers: no, endurance: no, profiles: 0 }
    }

    fn phase(&self, phase: &SipPhase, workload: &SipWorkload) -> PhaseResult {
        let (attempts, duration, parts) = match phase.kind {
            PhaseKind::PreRegistration => {
                let n = f64::from(workload.subscribers.count) * workload.registered.0;
                let time = Nanos::from_secs_f64(n / phase.rate.0);
                (n, time, vec![(Scenario::Registration, 1.0)])
            }
            PhaseKind::Mix { duration } => {
                let counted = duration.as_secs_f64() - phase.transient.as_secs_f64();
                let parts = workload.mix.iter().map(|p| (p.scenario, p.share.0)).collect();
                (phase.rate.0 * counted, duration, parts)
            }
        };
        let long = duration >= Nanos::from_secs(60);
        let capacity = if long { self.capacity.min(self.endurance) } else { self.capacity };
        let registering = phase.kind == PhaseKind::PreRegistration;
        let (lost, cause) = if registering {
            (self.refuses, "status 403")
        } else if phase.rate.0 > self.subscribers {
            (0.9, "no-free-subscriber")
        } else {
            ((1.0 - capacity / phase.rate.0).max(0.0), "timeout")
        };
        let scenarios = parts.into_iter().map(|(scenario, share)| {
            let attempts = (attempts * share).round() as u64;
            let bad = (attempts as f64 * lost).round() as u64;
            ScenarioResult {
                scenario,
                attempts,
                succeeded: attempts - bad,
                inadequate: BTreeMap::from([(cause.to_owned(), bad)]),
                unfinished: 0,
                retransmissions: bad,
            }
        });
        let scenarios: Vec<ScenarioResult> = scenarios.collect();
        let late = !registering && phase.rate.0 > self.generator;
        let limited = late.then(|| "its workers were 300 ms late".to_owned());
        PhaseResult {
            moments: Vec::new(),
            name: phase.name.clone(),
            requested: phase.rate,
            effective: Rate(phase.rate.0 * 0.998),
            started_unix_ms: 1_000,
            duration,
            transient: phase.transient,
            metrics: setups(&scenarios),
            scenarios,
            seconds: Vec::new(),
            lateness: LatencyHistogram::new(),
            generator: GeneratorUse { limited, ..GeneratorUse::default() },
        }
    }
}

/// How long the setup of a call takes that is carried.
const SETUP: Nanos = Nanos::from_millis(2);

/// The setups of calls.
fn setups(scenarios: &[ScenarioResult]) -> Vec<MetricResult> {
    let calls = scenarios.iter().filter(|s| s.scenario == Scenario::Calling && s.succeeded > 0);
    let setup = |calls: &ScenarioResult| {
        let mut histogram = LatencyHistogram::new();
        histogram.0.record_n(SETUP.0, calls.succeeded).expect("a histogram grows");
        MetricResult {
            metric: SipMetric::Ses1,
            scenario: calls.scenario,
            mean_ns: SETUP.0 as f64,
            variance_ns2: 0.0,
            min: SETUP,
            max: SETUP,
            histogram,
        }
    };
    calls.map(setup).collect()
}

struct Simulated {
    service: Service,
    workload: SipWorkload,
}

impl Session for Simulated {
    fn run(&mut self, profile: &SipProfile, within: Duration) -> Result<SipResult, AgentError> {
        self.service.profiles += 1;
        let mut phases: Vec<PhaseResult> = Vec::new();
        let mut stopped = None;
        for phase in &profile.phases {
            let result = self.service.phase(phase, &self.workload);
            let attempts: u64 = result.scenarios.iter().map(|s| s.attempts).sum();
            let bad: u64 = result.scenarios.iter().map(ScenarioResult::inadequate_total).sum();
            phases.push(result);
            if phase.ihs_limit.is_some_and(|limit| bad as f64 > limit.0 * attempts as f64) {
                stopped = Some("a limit".to_owned());
                break;
            }
        }
        let takes: u64 = phases.iter().map(|p| p.duration.0).sum();
        assert!(Duration::from_nanos(takes) < within, "{within:?}");
        let stray = BTreeMap::from([("malformed".to_owned(), 1)]);
        let pools = Pools { unregistered: 1, registered: 2, busy: 0 };
        Ok(SipResult { phases, stopped, stray, pools, connections: None })
    }
}

/// Calls are so short that 800 registered subscribers are enough for 16,000 scenarios per second.
fn plan(measure: &str) -> Plan {
    plan_with_calls("ring_time: 5ms, hold_time: 20ms", measure)
}

fn plan_with_calls(times: &str, measure: &str) -> Plan {
    let text = format!(
        "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: sip\n\
         workload: {{sip: {{subscribers: 1000, {times}}}}}\nmeasure: {measure}\n"
    );
    vtax_plan::parse("t", text.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"))
}

fn workload(plan: &Plan) -> SipWorkload {
    let Workload::Sip(workload) = &plan.cells[0].workload else { panic!("not SIP") };
    (**workload).clone()
}

fn measure(plan: &Plan) -> ImsMeasure {
    let MeasureKind::Ims(measure) = &plan.measures[0].kind else { panic!("not IMS") };
    measure.clone()
}

/// The benchmark of that measure on that service; how many profiles it took.
fn find(text: &str, service: Service, hint: Option<f64>) -> (BenchmarkResult, u32) {
    find_in(&plan(text), service, hint)
}

fn find_in(plan: &Plan, service: Service, hint: Option<f64>) -> (BenchmarkResult, u32) {
    let workload = workload(plan);
    let mut session = Simulated { service, workload: workload.clone() };
    let benchmark = Benchmark::new(&mut session, &workload, ArrivalProcess::Poisson, &Silent);
    let found = benchmark.find(&measure(plan), hint.map(Rate), SEED).expect("the simulation never fails");
    assert_eq!(found.phases.len(), found.outcome.phases.len());
    (found, session.service.profiles)
}

const STEPS: &str = "{ims: {ramp: {steps: {initial: 50/s, increase: 10/s, count: 30}}}}";
const SEARCH: &str = "{ims: {ramp: {search: {start: 50/s, max: 5000/s, precision: 5%}}}}";

fn names(found: &BenchmarkResult) -> Vec<&str> {
    found.outcome.phases.iter().map(|p| p.name.as_str()).collect()
}

#[test]
fn the_staircase_ends_with_the_step_that_breaks_a_limit() {
    let (found, profiles) = find(STEPS, Service::of(91.0), None);
    assert_eq!(profiles, 1);
    assert_eq!(found.validity, Validity::Valid);
    let doc = found.outcome.doc.expect("some steps passed");
    // 10 % above 91/s is 101.1/s: the step at 100/s passes, that at 110/s doesn't.
    assert_eq!((doc.requested, doc.effective), (Rate(100.0), Rate(99.8)));
    assert_eq!(found.outcome.failed, Some(Rate(110.0)));
    assert_eq!(
        names(&found),
        [
            "pre-registration",
            "stir 1",
            "stir 2",
            "stir 3",
            "step 1",
            "step 2",
            "step 3",
            "step 4",
            "step 5",
            "step 6",
            "step 7"
        ]
    );
    assert_eq!(found.outcome.phases[doc.phase as usize].name, "step 6");
    let failed = &found.outcome.phases[10];
    assert_eq!(failed.reason.as_deref(), Some("IHS 17.27 %, over the limit of 10%"));
    assert_eq!(found.outcome.stray["malformed"], 1);
}

#[test]
fn a_staircase_without_an_end_is_a_lower_bound() {
    let (found, _) = find(STEPS, Service::of(10_000.0), None);
    assert_eq!(found.outcome.doc.expect("all passed").requested, Rate(340.0));
    assert_eq!((found.outcome.failed, found.validity), (None, Validity::Valid));
}

#[test]
fn a_search_finds_the_same_capacity() {
    for capacity in [60.0, 91.0, 1_234.0] {
        let (found, profiles) = find(SEARCH, Service::of(capacity), None);
        assert_eq!(found.validity, Validity::Valid);
        let (doc, at_limit) = (found.outcome.doc.expect("found").requested.0, capacity / 0.9);
        let upper = found.outcome.failed.expect("bracketed").0;
        assert!(doc <= at_limit && at_limit <= upper && upper / doc < 1.051, "{doc} {at_limit} {upper}");
        assert_eq!(names(&found).last(), Some(&"confirmation"));
        assert!(profiles <= 16, "{profiles}");
        let (again, fewer) = find(SEARCH, Service::of(capacity), Some(doc));
        assert!(again.outcome.doc.is_some() && fewer < profiles, "{fewer} of {profiles}");
    }
}

#[test]
fn a_rate_that_does_not_hold_is_confirmed_lower() {
    let service = Service { endurance: 80.0, ..Service::of(91.0) };
    let (found, _) = find(SEARCH, service, None);
    let doc = found.outcome.doc.expect("confirmed");
    assert!(doc.requested.0 <= 80.0 / 0.9, "{doc:?}");
    assert_eq!(found.outcome.phases[doc.phase as usize].kind, ImsPhaseKind::Confirmation);
    assert!(found.outcome.failed.expect("a confirmation failed").0 <= 101.2);
    let hopeless = Service { endurance: 1.0, ..Service::of(91.0) };
    let (found, _) = find(SEARCH, hopeless, None);
    let Validity::Invalid { reason, detail } = &found.validity else { panic!("{:?}", found.validity) };
    assert_eq!(*reason, InvalidReason::MeasureFailed);
    let confirmed = names(&found).into_iter().filter(|name| *name == "confirmation").count();
    assert!(detail.contains(&format!("nor did the {} lower ones", confirmed - 1)), "{detail}");
}

#[test]
fn what_goes_wrong_is_named() {
    let reason = |text: &str, service: Service| match find(text, service, None).0.validity {
        Validity::Invalid { reason, detail } => (reason, detail),
        Validity::Valid => panic!("{text} is valid"),
    };
    for text in [STEPS, SEARCH] {
        let (why, detail) = reason(text, Service { refuses: 1.0, ..Service::of(1e4) });
        assert_eq!(why, InvalidReason::MeasureFailed);
        assert!(
            detail.contains("pre-registration failed") && detail.contains("status 403 800 times"),
            "{detail}"
        );
        let (why, detail) = reason(text, Service { generator: 90.0, ..Service::of(85.0) });
        assert_eq!((why, detail.as_str()), (InvalidReason::GeneratorLimited, "its workers were 300 ms late"));
    }
    let slow_start = STEPS.replace("{ims: {", "{ims: {registration_rate: 1/s, ").replace("50/s", "500/s");
    let (why, _) = reason(&slow_start, Service::of(20.0));
    assert_eq!(why, InvalidReason::MeasureFailed, "the stir already breaks its limit");
    let no_stir = slow_start.replace("{ims: {", "{ims: {stir: 0s, ");
    let (why, detail) = reason(&no_stir, Service::of(20.0));
    assert_eq!(why, InvalidReason::NothingSucceeded);
    assert!(detail.contains("timeout"), "{detail}");
}

#[test]
fn too_few_subscribers_are_the_plans_fault() {
    // 60/s of 35 s keep 2,100 subscribers in calls, of 800.
    let crowded = |text: &str| plan_with_calls("ring_time: 5s, hold_time: 30s", text);
    for (text, free_below) in [(STEPS, 120.0), (SEARCH, 30.0)] {
        let service = Service { subscribers: free_below, ..Service::of(1e4) };
        let found = find_in(&crowded(text), service, None).0;
        let Validity::Invalid { reason, detail } = &found.validity else { panic!("{text} is valid") };
        assert_eq!(*reason, InvalidReason::MeasureFailed);
        assert!(detail.contains("too few subscribers"), "{detail}");
        let mut told = found.outcome.phases.iter().filter_map(|p| p.reason.as_deref());
        assert!(told.any(|why| why.ends_with("register more subscribers")), "{:?}", found.outcome.phases);
    }
}

/// A call that was never sent would count as one slower than every answer.
#[test]
fn too_few_subscribers_are_the_plans_fault_at_a_given_rate() {
    // 200/s of 35 s keep 7,000 subscribers in calls; of 25 ms, 5.
    let long = "ring_time: 5s, hold_time: 30s";
    for (times, is_the_plans) in [(long, true), ("ring_time: 5ms, hold_time: 20ms", false)] {
        let plan = plan_with_calls(times, "{latency: {load: 200/s, duration: 20s}}");
        let MeasureKind::Latency(latency) = &plan.measures[0].kind else { panic!("not latency") };
        let workload = workload(&plan);
        let service = Service { subscribers: 30.0, ..Service::of(1e4) };
        let mut session = Simulated { service, workload: workload.clone() };
        let benchmark = Benchmark::new(&mut session, &workload, ArrivalProcess::Poisson, &Silent);
        let found = benchmark.fixed(latency, Rate(200.0)).expect("no failure");
        if is_the_plans {
            let Validity::Invalid { reason, detail } = &found.validity else { panic!("{times} is valid") };
            assert_eq!(*reason, InvalidReason::MeasureFailed);
            assert!(detail.contains("too few subscribers"), "{detail}");
        } else {
            assert_eq!(found.validity, Validity::Valid, "a service that holds its subscribers is measured");
        }
    }
}

#[test]
fn a_search_goes_no_further_than_its_subscribers() {
    // 1,000/s of 0.4 s keep 400 subscribers in calls: half of those that are registered.
    let few = plan_with_calls("ring_time: 100ms, hold_time: 300ms", SEARCH);
    let found = find_in(&few, Service { subscribers: 1_100.0, ..Service::of(1e4) }, None).0;
    assert_eq!((found.validity, found.outcome.failed), (Validity::Valid, None), "at least");
    assert_eq!(found.outcome.doc.expect("all passed").requested, Rate(1_000.0));
}

#[test]
fn an_overloaded_service_is_not_the_plans_fault() {
    let short = plan("{ims: {ramp: {search: {start: 50/s, max: 5000/s}}}}");
    let mut workload = workload(&short);
    workload.ring_time = vtax_plan::model::Spread::Constant(Nanos::from_millis(100));
    workload.hold_time = workload.ring_time;
    // No subscriber is free above 120/s, although calls as short as these keep few subscribers busy.
    let service = Service { subscribers: 120.0, ..Service::of(1e4) };
    let mut session = Simulated { service, workload: workload.clone() };
    let benchmark = Benchmark::new(&mut session, &workload, ArrivalProcess::Poisson, &Silent);
    let found = benchmark.find(&measure(&short), None, SEED).expect("no failure");
    assert_eq!(found.validity, Validity::Valid);
    assert!(found.outcome.doc.expect("found").requested.0 <= 120.0);
    let mut told = found.outcome.phases.iter().filter_map(|p| p.reason.as_deref());
    assert!(told.any(|why| why.contains("they wait for the service")), "{:?}", found.outcome.phases);
}

#[test]
fn one_scenarios_own_limit_counts_where_it_can_be_judged() {
    let strict = plan("{ims: {ramp: {search: {start: 50/s}}}}");
    let mut workload = workload(&strict);
    for part in &mut workload.mix {
        part.ihs_limit = vtax_units::Share(if part.scenario == Scenario::Messaging { 0.01 } else { 0.5 });
    }
    let mut session = Simulated { service: Service::of(100.0), workload: workload.clone() };
    let benchmark = Benchmark::new(&mut session, &workload, ArrivalProcess::Constant, &Silent);
    let found = benchmark.find(&measure(&strict), None, SEED).expect("no failure");
    let doc = found.outcome.doc.expect("found");
    // 1 % instead of 10 %.
    assert!((95.0..101.5).contains(&doc.requested.0), "{doc:?}");
    let why = found.outcome.phases.iter().find_map(|p| p.reason.as_ref()).expect("something failed");
    assert!(why.contains("IHS"), "{why}");
}

#[test]
fn a_given_rate_is_measured_as_it_is() {
    let plan = plan("{latency: {load: 200/s, duration: 20s}}");
    let MeasureKind::Latency(latency) = &plan.measures[0].kind else { panic!("not latency") };
    let workload = workload(&plan);
    let run = |capacity: f64| {
        let mut session = Simulated { service: Service::of(capacity), workload: workload.clone() };
        let benchmark = Benchmark::new(&mut session, &workload, ArrivalProcess::Poisson, &Silent);
        benchmark.fixed(latency, Rate(200.0)).expect("no failure")
    };
    let found = run(150.0);
    assert_eq!((found.validity.clone(), found.outcome.doc), (Validity::Valid, None));
    let phase = found.outcome.decisive().expect("the load");
    assert_eq!((phase.kind, phase.passed), (ImsPhaseKind::Fixed, true));
    assert!((phase.ihs - 0.25).abs() < 0.01);
    let median = |found: &BenchmarkResult| {
        found.outcome.median_at_given_rate(SipMetric::Ses1, Scenario::Calling).expect("a median")
    };
    assert_eq!(median(&found), MedianOfAttempts { ns: SETUP.0, at_least: false });
    // Of 200 calls a second 120 are lost: half of all took longer than an answer is waited for.
    let given_up = MedianOfAttempts { ns: 64 * workload.t1.0, at_least: true };
    assert_eq!(median(&run(80.0)), given_up);
    let dead = run(0.0);
    assert!(matches!(dead.validity, Validity::Invalid { reason: InvalidReason::NothingSucceeded, .. }));
}
