//! The search for the rate that a service carries.

use vtax_agent::AgentError;
use vtax_load::LoadResult;
use vtax_load::search::{Ending, Search, SearchSpec, StepOutcome, StepVerdict};
use vtax_plan::model::{CapacityMeasure, Limits};
use vtax_store::record::{CapacityOutcome, CapacityStep, Finding, InvalidReason, Validity};
use vtax_units::{Nanos, Rate, Share, counted};

use super::generator::Generator;
use super::patience;
use super::step::{LoadStep, Pace};
use crate::observe::{Observer, RunEvent};
use crate::trial_request::TrialRequest;

/// Steps of one search, repeated ones included; a search that needs more meets a system whose
/// capacity moves faster than it can be searched.
const MOST_STEPS: u32 = 30;

/// A search to be made.
pub(super) struct Capacity<'a> {
    pub(super) measure: &'a CapacityMeasure,
    pub(super) request: &'a TrialRequest<'a>,
    pub(super) observer: &'a dyn Observer,
    /// Whether a closed loop tells where to begin.
    pub(super) closed_loop: bool,
}

impl Capacity<'_> {
    /// Makes the search; what it found, what that is worth, and how many requests were answered in it.
    pub(super) fn find(&self, generator: &mut dyn Generator) -> Result<(Finding, Validity, u64), AgentError> {
        let (measure, seed) = (self.measure, self.request.seed);
        let mut answered = 0;
        let spec = self.search_spec(generator, &mut answered)?;
        let search = Search::new(spec);
        let (mut steps, mut nth) = (Vec::new(), 0);
        let bracket = search.over_requests(
            |rate| {
                nth += 1;
                let pace = Pace::Open(rate, measure.arrivals);
                let step = self.step(pace, seed.wrapping_add(nth), spec.drain());
                let step = LoadStep { duration: measure.step_at(rate), ..step };
                let answer = generator.run(step.for_engine())?;
                answered += answer.answered;
                Ok::<_, AgentError>(Some(answer.result))
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
        Ok((Finding::Capacity(CapacityOutcome { lower, upper, steps }), validity, answered))
    }

    /// Where the search begins: at an earlier trial's result, else at what a closed loop gets, or where the plan says.
    fn search_spec(
        &self,
        generator: &mut dyn Generator,
        answered: &mut u64,
    ) -> Result<SearchSpec, AgentError> {
        let (measure, seed) = (self.measure, self.request.seed);
        let spec = SearchSpec {
            start: self.request.cell.total_rate(measure.start),
            precision: measure.precision,
            loss_max: measure.limits.errors,
            p99_max: measure.limits.p99,
            p95_max: measure.limits.p95,
            steps_max: MOST_STEPS,
            ..SearchSpec::blind(self.request.cell.total_rate(measure.max))
        };
        if let Some(hint) = self.request.capacity_hint {
            return Ok(spec.near_result(hint).off_the_grid(seed));
        }
        if !self.closed_loop {
            return Ok(spec.off_the_grid(seed));
        }
        let answer =
            generator.run(self.step(Pace::Closed, seed, patience(self.request.cell)).for_engine())?;
        *answered += answer.answered;
        Ok(spec.near_closed_loop(&answer.result))
    }

    fn step(&self, pace: Pace, seed: u64, drain: Nanos) -> LoadStep {
        let (warmup, duration) = (self.measure.settle, self.measure.step);
        LoadStep { pace, warmup, duration, seed, samples: false, drain }
    }
}

pub(super) fn capacity_step(
    measure: &CapacityMeasure,
    outcome: &StepOutcome,
    verdict: StepVerdict,
    result: &LoadResult,
) -> CapacityStep {
    let limits = &measure.limits;
    let reason = match verdict {
        StepVerdict::Passed => None,
        StepVerdict::GeneratorLimited => result.generator.limited.clone(),
        StepVerdict::Failed if result.counts.intended == 0 => {
            Some("no request was due in the step".to_owned())
        }
        StepVerdict::Failed if outcome.loss.0 > limits.errors.0 => {
            let failed = percent_above(outcome.loss.0, limits.errors);
            Some(format!("{failed} of the requests failed, more than {}", limits.errors))
        }
        StepVerdict::Failed => too_slow(limits, outcome, result.counts.waiting),
    };
    CapacityStep {
        offered: outcome.rate,
        goodput: result.throughput(),
        loss: outcome.loss.0,
        p99: outcome.latency_p99,
        p95: limits.p95.map(|_| outcome.latency_p95),
        passed: verdict == StepVerdict::Passed,
        reason,
    }
}

/// Which limit of latency a step was over; so many requests were still waited for at its end.
pub(super) fn too_slow(limits: &Limits, outcome: &StepOutcome, waiting: u64) -> Option<String> {
    let limited = [("95th", limits.p95, outcome.latency_p95), ("99th", limits.p99, outcome.latency_p99)];
    let mut limited = limited.into_iter().filter_map(|(name, limit, found)| Some((name, limit?, found)));
    limited.rfind(|(_, limit, found)| found > limit).map(|(name, limit, found)| {
        // What is over by a little would look like the limit.
        let is_fine = limit < Nanos::from_millis(1) || found.0 - limit.0 < 100_000;
        let ms = |time: Nanos| time.as_secs_f64() * 1e3;
        let digits = if is_fine { 3 } else { 1 };
        let shown = format!("{:.digits$}", ms(found));
        // What had no answer counts as over by a nanosecond, which no figure shows.
        let is_above = shown.parse::<f64>().is_ok_and(|shown| shown > ms(limit) + 1e-9);
        let was = if is_above { format!("{shown} ms, ") } else { String::new() };
        let more = match waiting {
            0 => String::new(),
            waiting => {
                format!("; {} had no answer when the step was over", counted(waiting, "request"))
            }
        };
        format!("the {name} percentile of latency was {was}over the limit of {limit}{more}")
    })
}

/// A share that is over this limit, in percent: with as many digits as show that.
pub(crate) fn percent_above(share: f64, limit: Share) -> String {
    let (share, limit) = (share * 100.0, limit.0 * 100.0);
    // The limit's own percentage may be off by its last bit.
    let is_above = |text: &String| text.parse::<f64>().is_ok_and(|shown| shown > limit + 1e-9);
    let shown = (2..6_usize).map(|digits| format!("{share:.digits$}")).find(is_above);
    format!("{} %", shown.unwrap_or_else(|| format!("{share:.6}")))
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

fn invalid(reason: InvalidReason, detail: String) -> Validity {
    Validity::Invalid { reason, detail }
}
