//! Makes one measurement on a testbed that stands.

use std::net::SocketAddr;

use vtax_agent::{AgentError, Client};
use vtax_load::search::{Ending, Search, SearchSpec, StepOutcome, StepVerdict};
use vtax_load::{LoadAnswer, LoadResult, LoadSpec, RequestStep, Step};
use vtax_plan::model::{CapacityMeasure, HttpWorkload, MeasureKind};
use vtax_store::record::{
    CapacityOutcome, CapacityStep, Finding, InvalidReason, Observation, Validity, WarmUp,
};
use vtax_units::{Nanos, Rate, Share};

use crate::burst::{Burst, Pace, http_spec};
use crate::failover::Injector;
use crate::gate;
use crate::observe::{Observer, RunEvent};
use crate::runner::Order;
use crate::settle::{Course, settle};

/// Steps of one search, repeated ones included; a search that needs more meets a system whose
/// capacity moves faster than it can be searched.
const MOST_STEPS: u32 = 30;

/// The two ends of a testbed that stands, with its service running.
pub(crate) struct Site<'a> {
    pub(crate) client: &'a Client,
    pub(crate) target: SocketAddr,
    pub(crate) observer: &'a dyn Observer,
    /// Who is measured at the same time.
    pub(crate) partner: Option<&'a gate::Seat>,
    /// What breaks meanwhile, where the measure is about that.
    pub(crate) injector: Option<&'a Injector<'a>>,
    /// When the measurement began.
    pub(crate) started_unix_ms: u64,
}

/// What a measurement found.
pub(crate) struct Measured {
    /// In the order of time.
    pub(crate) observations: Vec<Observation>,
    /// Whether the trial counts, as far as its observations tell.
    pub(crate) validity: Validity,
    /// Successful answers over everything that was sent, for CPU time per request.
    pub(crate) answered: u64,
}

impl Measured {
    /// Of a measure that observes one thing.
    pub(crate) fn whole(started_unix_ms: u64, found: Finding, validity: Validity) -> Self {
        let whole = Observation { validity: validity.clone(), ..Observation::whole(started_unix_ms, found) };
        Self { observations: vec![whole], validity, answered: 0 }
    }

    /// The same with what was cut off its start, and with the successful answers that CPU time was spent on.
    fn with(mut self, warm_up: Option<WarmUp>, answered: u64) -> Self {
        for observation in &mut self.observations {
            observation.warm_up.clone_from(&warm_up);
        }
        Self { answered, ..self }
    }
}

impl Site<'_> {
    /// Makes the measurement that `order` asks for with HTTP requests.
    pub(crate) fn http(&self, order: &Order<'_>, http: &HttpWorkload) -> Result<Measured, AgentError> {
        self.client.open_load(&LoadSpec::Http(http_spec(http, self.target)))?;
        match &order.measure.kind {
            MeasureKind::Capacity(capacity) => self.capacity(order, capacity),
            MeasureKind::Latency(latency) => {
                let pace = Pace::Open(order.offered, latency.arrivals);
                let (warmup, duration) = (latency.warmup, latency.duration);
                let burst = Burst { pace, warmup, duration, seed: order.seed, samples: latency.samples };
                let mut answer = self.burst(burst)?;
                let (validity, warm_up) = self.judge(&mut answer.result, Course::Latency, order.tolerance);
                let found = Finding::Latency { offered: order.offered, load: answer.result };
                Ok(Measured::whole(self.started_unix_ms, found, validity).with(warm_up, answer.answered))
            }
            MeasureKind::Throughput(throughput) => {
                let (warmup, duration) = (throughput.warmup, throughput.duration);
                let burst = Burst { pace: Pace::Closed, warmup, duration, seed: order.seed, samples: false };
                let mut answer = self.burst(burst)?;
                let (validity, warm_up) = self.judge(&mut answer.result, Course::Pace, order.tolerance);
                let found = Finding::Throughput { load: answer.result };
                Ok(Measured::whole(self.started_unix_ms, found, validity).with(warm_up, answer.answered))
            }
            MeasureKind::Failover(failover) => self.failover_http(order, failover),
            MeasureKind::Ims(_) | MeasureKind::Network(_) => {
                let error = "an IMS benchmark needs a SIP workload".to_owned();
                Err(AgentError::Refused { node: "client".to_owned(), error })
            }
        }
    }

    /// What a burst is worth, its warm-up cut off; how it went along tells nothing where it doesn't count
    /// anyway. Of two at the same time, both lose what either has to.
    fn judge(&self, load: &mut LoadResult, course: Course, tolerance: Share) -> (Validity, Option<WarmUp>) {
        let agree = |own: Nanos| {
            self.partner.and_then(|partner| partner.meet(own)).map_or(own, |other| own.max(other))
        };
        match judge(load) {
            Validity::Valid => {
                let (warm_up, validity) = settle(load, course, tolerance, agree);
                (validity, Some(warm_up))
            }
            invalid => {
                agree(Nanos::ZERO);
                (invalid, None)
            }
        }
    }

    fn burst(&self, burst: Burst) -> Result<LoadAnswer, AgentError> {
        self.requests(burst.step())
    }

    /// Runs a step of requests.
    pub(crate) fn requests(&self, step: RequestStep) -> Result<LoadAnswer, AgentError> {
        let within = step.longest();
        self.client.run_step(Step::Requests(step), within, &mut |_| {})
    }

    fn capacity(&self, order: &Order<'_>, measure: &CapacityMeasure) -> Result<Measured, AgentError> {
        let mut answered = 0;
        let search = Search::new(self.search_spec(order, measure, &mut answered)?);
        let (mut steps, mut nth) = (Vec::new(), 0);
        let bracket = search.over_requests(
            |rate| {
                nth += 1;
                let pace = Pace::Open(rate, measure.arrivals);
                let answer = self.burst(step(measure, pace, order.seed.wrapping_add(nth)))?;
                answered += answer.answered;
                Ok::<_, AgentError>((answer.result, false))
            },
            |outcome, verdict, result| {
                let step = capacity_step(measure, outcome, verdict, result);
                self.observer.observe(&RunEvent::Step { step: &step });
                steps.push(step);
            },
        )?;
        let validity = judge_bracket(bracket.ending, bracket.lower, &steps);
        // A limit that the generator set is no upper bound of the service.
        let upper = bracket.upper.filter(|_| bracket.ending != Ending::GeneratorLimited);
        let lower = bracket.lower.unwrap_or(Rate(0.0));
        let found = Finding::Capacity(CapacityOutcome { lower, upper, steps });
        Ok(Measured::whole(self.started_unix_ms, found, validity).with(None, answered))
    }

    /// Where the search begins: at an earlier trial's result, else at what a closed loop gets.
    fn search_spec(
        &self,
        order: &Order<'_>,
        measure: &CapacityMeasure,
        answered: &mut u64,
    ) -> Result<SearchSpec, AgentError> {
        let spec = SearchSpec {
            start: measure.start,
            precision: measure.precision,
            loss_max: measure.limits.errors,
            p99_max: Some(measure.limits.p99),
            steps_max: MOST_STEPS,
            ..SearchSpec::blind(measure.max)
        };
        if let Some(hint) = order.capacity_hint {
            return Ok(spec.near_result(hint).off_the_grid(order.seed));
        }
        let answer = self.burst(step(measure, Pace::Closed, order.seed))?;
        *answered += answer.answered;
        Ok(spec.near_closed_loop(&answer.result))
    }
}

fn step(measure: &CapacityMeasure, pace: Pace, seed: u64) -> Burst {
    Burst { pace, warmup: measure.settle, duration: measure.step, seed, samples: false }
}

fn capacity_step(
    measure: &CapacityMeasure,
    outcome: &StepOutcome,
    verdict: StepVerdict,
    result: &LoadResult,
) -> CapacityStep {
    let limits = &measure.limits;
    let reason = match verdict {
        StepVerdict::Passed => None,
        StepVerdict::GeneratorLimited => result.generator.limited.clone(),
        StepVerdict::Failed if outcome.loss.0 > limits.errors.0 => {
            Some(format!("{} of the requests failed, more than {}", percent(outcome.loss), limits.errors))
        }
        StepVerdict::Failed => Some(format!(
            "the 99th percentile of latency was {:.1} ms, over the limit of {}",
            outcome.latency_p99.as_secs_f64() * 1e3,
            limits.p99
        )),
    };
    CapacityStep {
        offered: outcome.rate,
        goodput: result.throughput(),
        loss: outcome.loss.0,
        p99: outcome.latency_p99,
        passed: verdict == StepVerdict::Passed,
        reason,
    }
}

fn percent(share: Share) -> String {
    format!("{:.2} %", share.0 * 100.0)
}

fn judge_bracket(ending: Ending, lower: Option<Rate>, steps: &[CapacityStep]) -> Validity {
    let last_reason = || steps.last().and_then(|s| s.reason.clone()).unwrap_or_default();
    match (ending, lower) {
        (Ending::GeneratorLimited, _) => invalid(InvalidReason::GeneratorLimited, last_reason()),
        (_, None) => invalid(
            InvalidReason::NothingSucceeded,
            format!("no rate kept to the limits, not even the lowest tried: {}", last_reason()),
        ),
        (Ending::StepsSpent, Some(_)) => invalid(
            InvalidReason::MeasureFailed,
            format!("the capacity moved: no stable bracket after {} steps", steps.len()),
        ),
        (Ending::Found | Ending::AtMax | Ending::NothingPassed | Ending::Unfinished, Some(_)) => {
            Validity::Valid
        }
    }
}

/// What a burst is worth, whatever its course.
pub(crate) fn judge(result: &LoadResult) -> Validity {
    if let Some(why) = &result.generator.limited {
        return invalid(InvalidReason::GeneratorLimited, why.clone());
    }
    if result.counts.ok == 0 {
        let errors = serde_json::to_string(&result.counts.errors).unwrap_or_default();
        let sent = result.counts.sent;
        return invalid(InvalidReason::NothingSucceeded, format!("{sent} requests sent, errors: {errors}"));
    }
    Validity::Valid
}

fn invalid(reason: InvalidReason, detail: String) -> Validity {
    Validity::Invalid { reason, detail }
}
