//! The search driven by loads of requests: where it begins, what a step came to, and the loop over steps.

use vtax_units::{Rate, Share};

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

impl StepOutcome {
    /// What a step of requests at this rate came to.
    #[must_use]
    pub fn of_requests(rate: Rate, result: &LoadResult) -> Self {
        // A step in which no request was due is no proof that the service carries the rate.
        let loss = if result.counts.intended == 0 { 1.0 } else { result.counts.loss() };
        Self {
            rate,
            loss: Share(loss),
            latency_p95: result.latency.quantile(0.95),
            latency_p99: result.latency.quantile(0.99),
            generator_limited: matches!(result.doubt(), Some(Doubt::GeneratorLimited(_))),
        }
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
            let outcome = StepOutcome::of_requests(rate, &result);
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
            started_unix_ns: 0,
            counts: Counts { intended: offered as u64, ok, ..Counts::default() },
            latency: LatencyHistogram::new(),
            lateness: LatencyHistogram::new(),
            intervals: Vec::new(),
            connections: Vec::new(),
            generator: GeneratorUse::default(),
            samples: Vec::new(),
            details: None,
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
