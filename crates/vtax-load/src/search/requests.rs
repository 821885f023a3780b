//! The search driven by loads of requests: where it begins, what a step came to, and the loop over steps.

use vtax_units::{Nanos, Rate, Share};

use super::{Bracket, Search, SearchSpec, StepOutcome, StepVerdict};
use crate::{Doubt, LoadResult};

impl SearchSpec {
    /// Begins at what a closed loop gets. A service that answers nothing there is searched from `start`.
    #[must_use]
    pub fn near_closed_loop(self, closed: &LoadResult) -> Self {
        let throughput = closed.throughput();
        if throughput.0 > 0.0 { self.near_throughput(throughput) } else { self }
    }
}

impl SearchSpec {
    /// What a step of requests at this rate came to.
    ///
    /// Of requests that were waited for until the end, and might have gone on, nothing but this is known: they take longer than those
    /// that ended, and longer than any limit of latency. So they count in its percentiles and are no loss. Without such a limit they are:
    /// nothing else would show that the service falls behind.
    #[must_use]
    pub fn outcome(&self, rate: Rate, result: &LoadResult) -> StepOutcome {
        let counts = &result.counts;
        let waiting = if self.longest_limit().is_some() { counts.waiting } else { 0 };
        let good = counts.ok.saturating_add(waiting);
        // A step in which no request was due is no proof that the service carries the rate.
        let loss = if counts.intended == 0 { 1.0 } else { 1.0 - good as f64 / counts.intended as f64 };
        StepOutcome {
            rate,
            loss: Share(loss + self.behind(result).unwrap_or(0.0)),
            waiting: Share(waiting as f64 / counts.intended.max(1) as f64),
            latency_p95: self.percentile(result, waiting, 0.95),
            latency_p99: self.percentile(result, waiting, 0.99),
            generator_limited: matches!(result.doubt(), Some(Doubt::GeneratorLimited(_))),
        }
    }

    /// The share of requests by which a service fell behind while a step was recorded, where latency has no limit: so many more were answered
    /// of those that began in that time than in it. It answered them while it was waited for after the end, when nothing else came, so
    /// they are lost: it can't go on like that. `None` where that is no more than the precision and what chance does to the number
    /// under way, or can't be told.
    fn behind(&self, result: &LoadResult) -> Option<f64> {
        if self.longest_limit().is_some() || result.latency.quantile(0.5) > self.settle {
            // Of answers that take longer than a step settles fewer come than requests begin, also where none piles up.
            return None;
        }
        result.behind(self.precision)
    }

    /// A percentile of the latencies of those that were answered and, above them, so many that were still waited for.
    fn percentile(&self, result: &LoadResult, waiting: u64, quantile: f64) -> Nanos {
        let (answered, all) = (result.latency.len(), result.latency.len() + waiting);
        let rank = (quantile * all as f64).ceil();
        if rank > answered as f64 {
            return Nanos(result.latency.max().max(self.drain()).0.saturating_add(1));
        }
        // Without those it is the histogram's own, to the digit.
        result.latency.quantile(if waiting == 0 { quantile } else { rank / answered.max(1) as f64 })
    }
}

impl Search {
    /// Searches to the end. `run` offers a rate; where it has no result, the search ends with what it has found so
    /// far. `told` hears of each step.
    ///
    /// # Errors
    /// The first error of `run`.
    pub fn over_requests<E>(
        mut self,
        mut run: impl FnMut(Rate) -> Result<Option<LoadResult>, E>,
        mut told: impl FnMut(&StepOutcome, StepVerdict, &LoadResult),
    ) -> Result<Bracket, E> {
        while let Some(rate) = self.next() {
            let Some(result) = run(rate)? else { break };
            let outcome = self.spec.outcome(rate, &result);
            let verdict = self.record(outcome);
            told(&outcome, verdict, &result);
        }
        Ok(self.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use vtax_units::Nanos;

    use super::super::Ending;
    use super::*;
    use crate::{Counts, Errors, GeneratorUse, LatencyHistogram};

    /// A service that answers what it can, as much as the rate asks for.
    fn result(offered: f64, capacity: f64) -> LoadResult {
        let ok = offered.min(capacity) as u64;
        LoadResult {
            duration: Nanos::from_secs(1),
            counts: Counts { intended: offered as u64, ok, ..Counts::default() },
            ..LoadResult::default()
        }
    }

    #[test]
    fn steps_of_requests_find_the_capacity() {
        let spec = SearchSpec::blind(Rate(1e6)).near_closed_loop(&result(1e6, 12_345.0));
        let mut steps = 0;
        let found = Search::new(spec).over_requests(
            |rate| Ok::<_, Infallible>(Some(result(rate.0, 12_345.0))),
            |outcome, verdict, result| {
                steps += 1;
                assert_eq!(verdict == StepVerdict::Passed, result.counts.ok as f64 >= outcome.rate.0 * 0.99);
            },
        );
        let bracket = found.unwrap();
        let (lower, upper) = (bracket.lower.unwrap().0, bracket.upper.unwrap().0);
        assert!(lower <= 12_500.0 && upper >= 12_345.0 && upper <= lower * 1.051, "{lower} {upper}");
        assert!(bracket.ending == Ending::Found && steps <= 12, "{steps}");
    }

    #[test]
    fn a_service_that_refuses_carries_nothing_however_short_steps_are() {
        let refusing = |rate: Rate| {
            let intended = (rate.0 * 0.3) as u64;
            let errors = Errors { refused: intended, ..Errors::default() };
            let counts = Counts { intended, sent: intended, errors, ..Counts::default() };
            // Its own trouble is no reason to doubt what the service said.
            let generator =
                GeneratorUse { limited: Some("it was late".to_owned()), ..GeneratorUse::default() };
            LoadResult { counts, generator, ..result(0.0, 0.0) }
        };
        let search = Search::new(SearchSpec { start: Rate(50.0), ..SearchSpec::blind(Rate(1e6)) });
        let found = search.over_requests(|rate| Ok::<_, Infallible>(Some(refusing(rate))), |_, _, _| {});
        let bracket = found.unwrap();
        assert_eq!((bracket.lower, bracket.ending), (None, Ending::NothingPassed), "{:?}", bracket.steps);
    }

    /// A step of 1,000 starts, some of which had no answer when it was over; all others came within 20 ms.
    fn cut_short(waiting: u64) -> LoadResult {
        let mut latency = LatencyHistogram::new();
        (0..1_000 - waiting).for_each(|_| latency.record(Nanos::from_millis(20)));
        let counts = Counts { intended: 1_000, ok: 1_000 - waiting, waiting, ..Counts::default() };
        LoadResult { counts, latency, ..result(0.0, 0.0) }
    }

    #[test]
    fn what_is_still_waited_for_is_slow_and_no_loss() {
        let limit = Nanos::from_millis(1_500);
        let spec = SearchSpec { p99_max: Some(limit), ..SearchSpec::blind(Rate(1e6)) };
        let of = |waiting| {
            let outcome = spec.outcome(Rate(1_000.0), &cut_short(waiting));
            (outcome, Search::new(spec).record(outcome))
        };
        // Up to a hundredth is beyond the 99th percentile.
        for waiting in [0, 10] {
            let (outcome, verdict) = of(waiting);
            assert_eq!((outcome.loss, verdict), (Share(0.0), StepVerdict::Passed));
            assert!(outcome.latency_p99 < Nanos::from_millis(21), "{outcome:?}");
        }
        // They took longer than what the step waited, which is no less than the limit.
        for waiting in [11, 1_000] {
            let (outcome, verdict) = of(waiting);
            assert_eq!((outcome.loss, verdict), (Share(0.0), StepVerdict::Failed));
            assert!(outcome.latency_p99 > limit, "{outcome:?}");
        }
        assert!(of(30).0.latency_p95 < Nanos::from_millis(21) && of(60).0.latency_p95 > limit);
    }

    /// Far beyond the capacity no request fails: each only waits, and the limit is broken by no more than the step has waited.
    #[test]
    fn a_step_in_which_many_still_wait_is_not_tried_again() {
        let limit = Some(Nanos::from_millis(1_500));
        let spec = SearchSpec { p99_max: limit, start: Rate(1_000.0), ..SearchSpec::blind(Rate(1e6)) };
        let next = |spec: SearchSpec, waiting| {
            let mut search = Search::new(spec);
            let outcome = spec.outcome(Rate(1_000.0), &cut_short(waiting));
            assert_eq!((outcome.loss, outcome.waiting), (Share(0.0), Share(waiting as f64 / 1_000.0)));
            assert_eq!(search.record(outcome), StepVerdict::Failed);
            search.next()
        };
        assert_eq!(next(spec, 200), Some(Rate(1_000.0)));
        assert_eq!(next(spec, 201), Some(Rate(500.0)));
        // With what is lost anyway, as loss alone.
        assert_eq!(next(SearchSpec { loss_max: Share(0.3), ..spec }, 500), Some(Rate(1_000.0)));
    }

    #[test]
    fn without_a_limit_of_latency_what_is_still_waited_for_is_lost() {
        let spec = SearchSpec::blind(Rate(1e6));
        let outcome = spec.outcome(Rate(1_000.0), &cut_short(300));
        assert!((outcome.loss.0 - 0.3).abs() < 1e-9 && outcome.waiting == Share(0.0), "{outcome:?}");
        assert_eq!(Search::new(spec).record(outcome), StepVerdict::Failed);
    }

    /// In the second after a step's end a service caught up with what had piled up in it, so that 1.25 times its capacity passed.
    #[test]
    fn what_a_service_catches_up_with_after_a_step_is_no_capacity() {
        const CAPACITY: f64 = 1_000.0;
        let (settle, recorded, drain) = (1.0, 3.0, 1.0);
        // A queue that is served in order. The `usual` milliseconds are what an answer takes beside the waiting.
        let found = |settle_for: f64, usual: f64| {
            let spec =
                SearchSpec { settle: Nanos::from_secs_f64(settle_for), ..SearchSpec::blind(Rate(1e6)) };
            let queue = |rate: Rate| {
                let pile = |at: f64| (rate.0 - CAPACITY).max(0.0) * at;
                let mut found = LoadResult { duration: Nanos::from_secs_f64(recorded), ..result(0.0, 0.0) };
                let intended = (rate.0 * recorded) as u64;
                let waiting = (pile(settle + recorded) - CAPACITY * drain).max(0.0) as u64;
                found.counts = Counts { intended, ok: intended - waiting.min(intended), ..Counts::default() };
                found.counts.waiting = intended - found.counts.ok;
                let late = rate.0 * (usual / 1e3 - settle).max(0.0);
                found.answered_in_time = Some((rate.0.min(CAPACITY) * recorded - late) as u64);
                for begun in 0..found.counts.ok {
                    let at = settle + begun as f64 / rate.0;
                    found.latency.record(Nanos::from_secs_f64(pile(at) / CAPACITY + usual / 1e3));
                }
                Ok::<_, Infallible>(Some(found))
            };
            let bracket = Search::new(spec).over_requests(queue, |_, _, _| {}).unwrap();
            assert_eq!(bracket.ending, Ending::Found);
            (bracket.lower.unwrap().0, bracket.upper.unwrap().0)
        };
        let (lower, upper) = found(1.0, 5.0);
        assert!(lower <= CAPACITY * 1.1 && upper >= CAPACITY, "{lower} {upper}");
        // A slow service is none that falls behind, be it slower than a step settles or not.
        for usual in [300.0, 900.0, 1_800.0] {
            let (lower, upper) = found(1.0, usual);
            assert!(lower >= CAPACITY * 0.9 && upper >= CAPACITY, "{usual}: {lower} {upper}");
        }
        // Where it isn't looked at, only what the wait doesn't bring is lost.
        assert!(found(0.0, 5.0).0 > CAPACITY * 1.15);
    }

    /// Eight of a hundred more were answered after the end than before the beginning: with few under way that is no chance.
    #[test]
    fn chance_is_not_taken_for_falling_behind() {
        let spec = SearchSpec { settle: Nanos::from_secs(1), ..SearchSpec::blind(Rate(1e6)) };
        let loss = |ok: u64, answered: Option<u64>, latency: Nanos| {
            let mut found = LoadResult { duration: Nanos::from_secs(1), ..result(0.0, 0.0) };
            found.counts = Counts { intended: ok, ok, ..Counts::default() };
            (0..ok).for_each(|_| found.latency.record(latency));
            found.answered_in_time = answered;
            (spec.outcome(Rate(ok as f64), &found).loss.0 * 100.0).round()
        };
        let (fast, slow) = (Nanos::from_millis(1), Nanos::from_millis(100));
        assert_eq!(loss(1_000, Some(920), fast), 8.0);
        assert_eq!(loss(1_000, Some(951), fast), 0.0, "within the precision");
        assert_eq!(loss(1_000, Some(920), slow), 0.0, "100 are under way, and 92 a moment later");
        assert_eq!((loss(1_000, None, fast), loss(1_000, Some(1_050), fast)), (0.0, 0.0));
        let limited = SearchSpec { p99_max: Some(fast), ..spec };
        assert_eq!(limited.behind(&LoadResult { answered_in_time: Some(1), ..cut_short(0) }), None);
    }

    /// 1.5 s for each answer are within the limit: steps failed, as the answers of their last half second were not waited for.
    #[test]
    fn a_slow_service_is_searched_as_any_other() {
        let spec = SearchSpec { p99_max: Some(Nanos::from_secs(4)), ..SearchSpec::blind(Rate(1e6)) };
        let slow = |rate: Rate| {
            let mut found = result(rate.0, 1e9);
            // Beyond its capacity all that comes waits, and none of it times out.
            let waiting = (rate.0 - 3_000.0).max(0.0) as u64;
            found.counts.ok = found.counts.intended.saturating_sub(waiting);
            found.counts.waiting = found.counts.intended - found.counts.ok;
            (0..found.counts.ok).for_each(|_| found.latency.record(Nanos::from_millis(1_500)));
            Ok::<_, Infallible>(Some(found))
        };
        let bracket = Search::new(spec).over_requests(slow, |_, _, _| {}).unwrap();
        let (lower, upper) = (bracket.lower.unwrap().0, bracket.upper.unwrap().0);
        assert!(lower <= 3_031.0 && upper >= 3_000.0 && bracket.ending == Ending::Found, "{lower} {upper}");
        assert!(bracket.steps.iter().all(|(outcome, _)| outcome.loss.0 == 0.0), "{:?}", bracket.steps);
    }

    #[test]
    fn a_search_ends_where_it_is_told_to_and_with_the_first_error() {
        let search = || Search::new(SearchSpec::blind(Rate(1e6)));
        let mut once = true;
        let mut run = |rate: Rate| std::mem::take(&mut once).then(|| result(rate.0, 1e9));
        let stopped = search().over_requests(|rate| Ok::<_, Infallible>(run(rate)), |_, _, _| {});
        let stopped = stopped.unwrap();
        assert_eq!((stopped.steps.len(), stopped.ending), (1, Ending::Unfinished));
        let failed = search().over_requests(|_| Err("broken"), |_, _, _| {});
        assert_eq!(failed.unwrap_err(), "broken");
        let dead = SearchSpec::blind(Rate(1e6)).near_closed_loop(&result(0.0, 1.0));
        assert_eq!(dead, SearchSpec::blind(Rate(1e6)));
    }
}
