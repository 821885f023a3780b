//! Measurements with a generator that isn't there.

use vtax_agent::AgentError;
use vtax_load::search::{SearchSpec, StepOutcome, StepVerdict};
use vtax_load::{Counts, GeneratorUse, LatencyHistogram, LoadAnswer, LoadResult, Model, RequestStep};
use vtax_plan::model::{Cell, Limits, MeasureKind, Plan};
use vtax_store::record::{Finding, InvalidReason, Validity};
use vtax_units::{Nanos, Rate, Share};

use super::capacity::Capacity;
use super::generator::Generator;
use super::{held, validity};
use crate::failover::Stretch;
use crate::observe::Silent;
use crate::trial_request::TrialRequest;

const PLAN: &str = "
vtax: 1
name: test
baseline: native
environments: native
services: http
workload: {http: {target: /bytes/1}}
measure: [MEASURE]
repeat: 1
";
const FAULTS: &str = "faults: [{at: 5s, kill: sut}]";

fn plan(measure: &str) -> Plan {
    let faults = if measure.contains("failover") { FAULTS } else { "" };
    let text = format!("{}{faults}", PLAN.replace("MEASURE", measure));
    vtax_plan::parse("test", text.as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"))
}

fn request(plan: &Plan, offered: Option<f64>, hint: Option<f64>) -> TrialRequest<'_> {
    let cell: &Cell = &plan.cells[0];
    TrialRequest {
        cell,
        measure: plan.measures.last().expect("one"),
        repetition: 0,
        round: 0,
        seed: 5,
        round_seed: 5,
        offered: offered.map(Rate),
        capacity_hint: hint.map(Rate),
        tolerance: Share(0.05),
    }
}

/// A service that answers so many requests per second.
struct Service {
    capacity: f64,
    /// Rate from which the generator is late.
    generator: f64,
    steps: Vec<RequestStep>,
}

impl Service {
    fn of(capacity: f64) -> Self {
        Self { capacity, generator: f64::INFINITY, steps: Vec::new() }
    }
}

impl Generator for Service {
    fn run(&mut self, step: RequestStep) -> Result<LoadAnswer, AgentError> {
        let offered = match &step.model {
            Model::Closed => self.capacity,
            Model::Open { profile, .. } => profile[0].from.0,
        };
        let seconds = step.duration.as_secs_f64();
        let (intended, ok) = ((offered * seconds) as u64, (offered.min(self.capacity) * seconds) as u64);
        let mut latency = LatencyHistogram::new();
        (0..ok.min(100)).for_each(|_| latency.record(Nanos::from_millis(1)));
        let limited = (offered > self.generator).then(|| "it was late".to_owned());
        let result = LoadResult {
            duration: step.duration,
            started_unix_ns: 7,
            counts: Counts { intended, sent: intended, ok, ..Counts::default() },
            latency,
            lateness: LatencyHistogram::new(),
            intervals: Vec::new(),
            connections: Vec::new(),
            generator: GeneratorUse { limited, ..GeneratorUse::default() },
            samples: Vec::new(),
            details: None,
            timeout: Nanos::ZERO,
            answered_in_time: None,
        };
        self.steps.push(step);
        Ok(LoadAnswer { result, answered: ok + 1, members: Vec::new() })
    }
}

/// The bracket of a search with its validity, and the answers it was told of.
fn search(service: &mut Service, hint: Option<f64>) -> (f64, Option<f64>, Validity, u64) {
    let plan = plan("capacity");
    let request = request(&plan, None, hint);
    let MeasureKind::Capacity(measure) = &request.measure.kind else { panic!("{:?}", request.measure) };
    let capacity = Capacity { measure, request: &request, observer: &Silent, closed_loop: true };
    let (found, validity, answered) = capacity.find(service).expect("no failure");
    let Finding::Capacity(found) = found else { panic!("{found:?}") };
    (found.lower.0, found.upper.map(|upper| upper.0), validity, answered)
}

#[test]
fn a_search_brackets_what_the_service_carries() {
    let mut service = Service::of(3_000.0);
    let (lower, upper, validity, answered) = search(&mut service, None);
    let upper = upper.expect("something failed");
    assert!(lower <= 3_050.0 && upper > 3_000.0 && upper / lower < 1.2, "{lower} to {upper}");
    assert_eq!((validity, &service.steps[0].model), (Validity::Valid, &Model::Closed));
    assert!(answered > service.steps.len() as u64);
    let seeds: std::collections::BTreeSet<u64> = service.steps.iter().map(|step| step.seed).collect();
    assert_eq!(seeds.len(), service.steps.len(), "steps don't share their arrival times");
    // The closed loop waits as long as a request may take, a step until its limit of 50 ms is broken and a second at the least.
    let drains: Vec<Nanos> = service.steps.iter().map(|step| step.drain).collect();
    assert_eq!(drains[0], Nanos::from_secs(2));
    assert!(drains[1..].iter().all(|drain| *drain == Nanos::from_secs(1)), "{drains:?}");
    // A thousand requests tell the 99th percentile that has a limit: a slow service is given up to four times as long for them.
    let lengths =
        |service: &Service| -> Vec<Nanos> { service.steps[1..].iter().map(|step| step.duration).collect() };
    assert!(lengths(&service).iter().all(|length| *length == Nanos::from_secs(1)), "{:?}", service.steps);
    let mut slow = Service::of(40.0);
    search(&mut slow, None);
    assert!(lengths(&slow).iter().all(|length| *length == Nanos::from_secs(4)), "{:?}", slow.steps);
    // What an earlier trial found is where the next one begins.
    let mut service = Service::of(3_000.0);
    let (near, ..) = search(&mut service, Some(lower));
    assert!(matches!(service.steps[0].model, Model::Open { .. }) && near > 2_500.0, "{near}");
}

#[test]
fn a_step_that_is_too_slow_says_what_had_no_answer() {
    let limits = Limits { errors: Share(0.01), p99: Some(Nanos::from_secs(3)), p95: None };
    let spec = SearchSpec { p99_max: limits.p99, loss_max: limits.errors, ..SearchSpec::blind(Rate(1e6)) };
    let counts =
        Counts { intended: 100, sent: 100, ok: 70, waiting: 30, unfinished: 30, ..Counts::default() };
    let result = LoadResult { counts, ..vtax_load::merged(&[]) };
    let outcome = spec.outcome(Rate(100.0), &result);
    let why = super::capacity::too_slow(&limits, &outcome, result.counts.waiting).expect("it is");
    assert!(why.ends_with("over the limit of 3s; 30 requests had no answer when the step was over"), "{why}");
    // It is over by a nanosecond, which no figure shows.
    assert!(why.contains("latency was over the limit") && !why.contains("3000.000"), "{why}");
    assert!(!super::capacity::too_slow(&limits, &outcome, 0).expect("it is").contains("no answer"));
    let one = super::capacity::too_slow(&limits, &outcome, 1).expect("it is");
    assert!(one.ends_with("; 1 request had no answer when the step was over"), "{one}");
}

#[test]
fn what_is_over_a_limit_by_a_little_doesnt_look_like_it() {
    let too_slow = |limit, found| {
        let limits = Limits { errors: Share(0.01), p99: Some(Nanos(limit)), p95: None };
        let spec = SearchSpec::blind(Rate(1e6));
        let outcome = spec.outcome(Rate(100.0), &vtax_load::merged(&[]));
        let outcome = StepOutcome { latency_p99: Nanos(found), ..outcome };
        super::capacity::too_slow(&limits, &outcome, 0).expect("it is")
    };
    assert!(too_slow(200_000, 234_000).contains("was 0.234 ms, over the limit of 200us"));
    assert!(too_slow(50_000_000, 50_020_000).contains("was 50.020 ms, over the limit of 50ms"));
    assert!(too_slow(50_000_000, 61_000_000).contains("was 61.0 ms, over the limit of 50ms"));
    assert!(too_slow(50_000_000, 50_000_400).contains("latency was over the limit of 50ms"));
    let above = super::percent_above;
    assert_eq!([above(0.1727, Share(0.1)), above(0.07004, Share(0.07))], ["17.27 %", "7.004 %"]);
    assert_eq!(above(1e-6, Share(0.0)), "0.0001 %");
}

/// At a rate this low a step may be over before the first request is due.
#[test]
fn a_step_without_a_request_is_told_as_that() {
    let plan = plan("capacity");
    let request = request(&plan, None, None);
    let MeasureKind::Capacity(measure) = &request.measure.kind else { panic!("{:?}", request.measure) };
    let result = vtax_load::merged(&[]);
    let outcome = SearchSpec::blind(Rate(1e6)).outcome(Rate(0.5), &result);
    let step = super::capacity::capacity_step(measure, &outcome, StepVerdict::Failed, &result);
    assert_eq!(step.reason.as_deref(), Some("no request was due in the step"));
}

#[test]
fn a_limit_of_the_generator_is_none_of_the_service() {
    let mut service = Service { generator: 1_000.0, ..Service::of(3_000.0) };
    service.capacity = 1_500.0;
    let (_, upper, validity, _) = search(&mut service, None);
    let Validity::Invalid { reason, detail } = validity else { panic!("valid") };
    assert_eq!((reason, detail.as_str(), upper), (InvalidReason::GeneratorLimited, "it was late", None));
}

#[test]
fn nothing_answered_is_worth_nothing() {
    let step = super::LoadStep {
        pace: super::Pace::Closed,
        warmup: Nanos::ZERO,
        duration: Nanos::from_secs(1),
        seed: 1,
        samples: false,
        drain: Nanos::ZERO,
    };
    let result = |capacity| Service::of(capacity).run(step.for_engine()).expect("no failure").result;
    assert_eq!(validity(&result(10.0)), Validity::Valid);
    let Validity::Invalid { reason, detail } = validity(&result(0.0)) else { panic!("valid") };
    assert_eq!(reason, InvalidReason::NothingSucceeded);
    assert!(!detail.contains('{'), "words, not JSON: {detail}");
}

#[test]
fn a_load_is_held_at_the_rate_that_was_ordered() {
    let plan = plan("failover: {load: 500/s, duration: 20s}");
    let MeasureKind::Failover(measure) = &plan.measures.last().expect("one").kind else {
        panic!("{:?}", plan.measures)
    };
    let mut service = Service::of(3_000.0);
    let load = held(&mut service, &request(&plan, Some(500.0), None), measure).expect("no failure");
    assert_eq!((load.started_unix_ns, load.duration, load.validity), (7, measure.duration, Validity::Valid));
    let step = &service.steps[0];
    assert!(step.samples && step.interval < Nanos::from_millis(101), "{step:?}");
    assert_eq!(step.drain, Nanos::from_secs(2), "the timeout");
    let unordered = held(&mut service, &request(&plan, None, None), measure).err().expect("a refusal");
    assert!(unordered.to_string().contains("without a load"), "{unordered}");
}

#[test]
fn a_course_has_what_was_answered_what_failed_and_what_never_began() {
    let step = super::LoadStep {
        pace: super::Pace::Open(Rate(10.0), vtax_plan::model::ArrivalProcess::Constant),
        warmup: Nanos::ZERO,
        duration: Nanos::from_secs(10),
        seed: 1,
        samples: true,
        drain: Nanos::ZERO,
    };
    let mut load = Service::of(10.0).run(step.for_engine()).expect("no failure").result;
    let second = 1_000_000_000;
    for i in 0..100 {
        // Each tenth of a second asks, and is answered after 1 ms; what is asked in the sixth second fails.
        let start_ns = i * second / 10;
        let outcome = u8::from((5 * second..6 * second).contains(&start_ns));
        load.samples.push(vtax_load::Sample { start_ns, latency_ns: 1_000_000, outcome });
    }
    for i in 0..10 {
        let counts = Counts { missed: u64::from(i == 5), ..Counts::default() };
        let start = Nanos(i * second);
        load.intervals.push(vtax_load::Interval {
            start,
            counts,
            latency: LatencyHistogram::new(),
            begun: None,
        });
    }
    let course = super::course(&load).sorted();
    let stretch = Stretch { before: 0, asked_from: 0, at: 5 * second, mended: u64::MAX, next: 10 * second };
    let seen = course.seen(&stretch, None, Nanos::from_millis(100));
    assert_eq!((seen.failed, seen.connections), (11, None), "ten failed, one never began");
    assert_eq!(seen.first_answer, Some(Nanos(6 * second + 1_000_000)));
    // One that took longer than 4.29 s came when it came.
    load.samples.retain(|sample| sample.start_ns < 5 * second);
    load.samples.push(vtax_load::Sample { start_ns: 2 * second, latency_ns: 7_500_000_000, outcome: 0 });
    let seen = super::course(&load).sorted().seen(&stretch, None, Nanos::from_millis(100));
    assert_eq!(seen.first_answer, Some(Nanos(9_500_000_000)));
}
