//! The search for the capacity of a service: the highest rate it carries within limits.
//!
//! Pure: the caller asks for the [`next`](Search::next) rate, offers it for a while, and
//! [`record`](Search::record)s what came of it. From the start rate the search goes up or down by
//! a growing factor until one rate has passed and a higher one has failed, then halves the
//! bracket (geometrically) until it is narrow enough. A failure that is not gross, or that may be
//! the generator's, is tried once more before it counts, as a moment's noise must not pass for a
//! bound. Nor may a moment's luck: of a rate that passed and failed, a third try decides, and the
//! lower end of the last bracket has to pass twice. Were failures tried again and passes not, a
//! rate that passes every other time would count as passed three times of four, and what scatters
//! most would seem to carry the most.

mod requests;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use vtax_plan::model::CapacityMeasure;
use vtax_units::{Nanos, Rate, Share};

/// What is searched for, and where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SearchSpec {
    /// First rate tried.
    pub start: Rate,
    /// First step up or down, as a factor above 1. It is squared with each further step in the
    /// same direction, up to `factor_max`.
    pub factor: f64,
    /// Largest factor between two steps, at most 4. A service that needs time to recover from a load
    /// far beyond its capacity wants a small one.
    pub factor_max: f64,
    /// Rate that is not exceeded.
    pub max: Rate,
    /// The bracket is narrow enough once its upper rate is at most this share above the lower.
    pub precision: Share,
    /// A step passes where at most this share of its intended starts failed...
    pub loss_max: Share,
    /// ... and, if given, the 99th percentile of latency is at most this...
    pub p99_max: Option<Nanos>,
    /// ... and, if given, the 95th at most this.
    pub p95_max: Option<Nanos>,
    /// How long a step goes on before it is recorded. Without a limit of latency, and where most answers take no longer, a service that
    /// answers fewer within the recorded time than begin in it falls behind; 0: that isn't looked at.
    #[serde(default)]
    pub settle: Nanos,
    /// Most steps, repeated ones included.
    pub steps_max: u32,
    /// Both ends of the bracket have to hold in two of three tries; false where the caller tries the lower one again itself. Then a
    /// rate passes as soon as one try of it does.
    pub confirm: bool,
}

/// Below this rate a service is said to carry nothing.
const RATE_MIN: f64 = CapacityMeasure::LEAST_RATE.0;
/// How long answers are waited for after a step's end at the least.
const DRAIN_MIN: Nanos = Nanos::from_secs(1);
/// Largest factor between two steps.
const FACTOR_MAX: f64 = 4.0;
/// A failure is gross, and not tried again, where more than this share was lost or still waited for, or it took this many times a limit of latency.
const GROSS_LOSS: f64 = 0.2;
const GROSS_LATENCY: f64 = 8.0;
/// A bracket as wide as the precision, but for rounding, is narrow enough.
const ROUNDING: f64 = 1e-12;

impl SearchSpec {
    /// A search that knows nothing: from 1000/s, doubling; 5 % precision, 1 % loss.
    #[must_use]
    pub fn blind(max: Rate) -> Self {
        Self {
            start: Rate(1_000.0_f64.min(max.0)),
            factor: 2.0,
            factor_max: FACTOR_MAX,
            max,
            precision: Share(0.05),
            loss_max: Share(0.01),
            p99_max: None,
            p95_max: None,
            settle: Nanos::ZERO,
            steps_max: 40,
            confirm: true,
        }
    }

    /// Begins near a closed loop's throughput, which is a little above what an open loop gets.
    #[must_use]
    pub fn near_throughput(self, throughput: Rate) -> Self {
        Self { start: self.within(throughput.0 * 0.8), factor: 1.25, ..self }
    }

    /// Begins at the capacity that an earlier search of the same cell found: two steps where it still holds.
    #[must_use]
    pub fn near_result(self, found: Rate) -> Self {
        Self { start: self.within(found.0), factor: 1.0 + self.precision.0, ..self }
    }

    /// The rate where it may be searched, else the nearest that may. No rate is above the maximum, however low that is.
    const fn within(&self, rate: f64) -> Rate {
        Rate(rate.max(RATE_MIN).min(self.max.0))
    }

    /// How long a step waits for what is under way at its end, where its requests may take longer: until each of them is known to have
    /// broken the longest limit of latency.
    #[must_use]
    pub fn drain(&self) -> Nanos {
        DRAIN_MIN.max(self.longest_limit().unwrap_or_default())
    }

    fn longest_limit(&self) -> Option<Nanos> {
        self.p95_max.max(self.p99_max)
    }

    /// Begins lower, by a draw of at most the precision. Searches that begin at one rate go on to the same rates, so
    /// that their results fall on one grid and look more alike than they are.
    #[must_use]
    pub fn off_the_grid(self, seed: u64) -> Self {
        let draw: f64 = Xoshiro256PlusPlus::seed_from_u64(seed).random();
        Self { start: Rate(self.start.0 * (1.0 + self.precision.0.max(0.0)).powf(-draw)), ..self }
    }
}

/// What came of one step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepOutcome {
    /// The rate offered.
    pub rate: Rate,
    /// Share of intended starts that failed.
    pub loss: Share,
    /// Share of them that were waited for until the end and are no loss: the percentiles tell of them. Matters only where the step did
    /// not pass.
    #[serde(default, skip_serializing_if = "is_none")]
    pub waiting: Share,
    /// 95th percentile of the latency, at the least where some were still waited for.
    pub latency_p95: Nanos,
    /// 99th percentile of the latency, likewise.
    pub latency_p99: Nanos,
    /// The generator could not carry the step ([`crate::GeneratorUse::limited`]). Matters only
    /// where the step did not pass.
    pub generator_limited: bool,
}

fn is_none(share: &Share) -> bool {
    share.0 == 0.0
}

/// How one step was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepVerdict {
    /// Within the limits.
    Passed,
    /// Beyond them.
    Failed,
    /// Beyond them, but the generator may be the reason.
    GeneratorLimited,
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The bracket is narrow enough.
    Found,
    /// The highest rate allowed passed: the capacity is at least that.
    AtMax,
    /// The generator could not offer more: the capacity is at least the lower rate.
    GeneratorLimited,
    /// Not even the lowest rate tried passed.
    NothingPassed,
    /// The most steps were made; the bracket is what is known.
    StepsSpent,
    /// The caller stopped asking.
    Unfinished,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bracket {
    /// Highest rate that passed.
    pub lower: Option<Rate>,
    /// Lowest rate that failed.
    pub upper: Option<Rate>,
    /// Why the search ended.
    pub ending: Ending,
    /// Every step in order.
    pub steps: Vec<(StepOutcome, StepVerdict)>,
}

/// A rate that passed.
#[derive(Debug, Clone, Copy)]
struct Passed {
    rate: f64,
    /// It passed in two tries of three.
    sure: bool,
}

/// What came of the tries of one rate.
#[derive(Debug, Clone, Copy, Default)]
struct Tries {
    passed: u32,
    failed: u32,
    limited: u32,
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Search {
    spec: SearchSpec,
    /// Rates that passed, the lowest first; all are below the upper end.
    passed: Vec<Passed>,
    upper: Option<f64>,
    factor: f64,
    /// The rate to offer next; `None` once the search has ended.
    pending: Option<f64>,
    /// What is known of the pending rate.
    tries: Tries,
    ending: Ending,
    steps: Vec<(StepOutcome, StepVerdict)>,
}

impl Search {
    /// A search at its beginning. Nonsensical numbers are brought within sense: factors from 1.01 to 4, a precision of at least 0.1 %.
    /// With a maximum below the lowest rate that is searched it has ended.
    #[must_use]
    pub fn new(spec: SearchSpec) -> Self {
        let max = spec.max.0;
        let start = if spec.start.0 > 0.0 { spec.within(spec.start.0).0 } else { max };
        let factor_max = spec.factor_max.clamp(1.01, FACTOR_MAX);
        let spec = SearchSpec {
            precision: Share(spec.precision.0.max(0.001)),
            factor: spec.factor.clamp(1.01, factor_max),
            factor_max,
            ..spec
        };
        Self {
            spec,
            passed: Vec::new(),
            upper: None,
            factor: spec.factor,
            pending: (max >= RATE_MIN).then_some(start),
            tries: Tries::default(),
            ending: if max >= RATE_MIN { Ending::Unfinished } else { Ending::NothingPassed },
            steps: Vec::new(),
        }
    }

    /// The rate to offer next, the same until it is recorded; `None` once the search has ended.
    #[must_use]
    pub fn next(&self) -> Option<Rate> {
        self.pending.map(Rate)
    }

    /// Says what came of the rate that [`next`](Self::next) gave. Without effect after the end.
    pub fn record(&mut self, outcome: StepOutcome) -> StepVerdict {
        let verdict = self.judge(&outcome);
        let Some(rate) = self.pending else { return verdict };
        self.steps.push((outcome, verdict));
        match verdict {
            StepVerdict::Passed => self.tries.passed += 1,
            StepVerdict::Failed => self.tries.failed += 1,
            StepVerdict::GeneratorLimited => self.tries.limited += 1,
        }
        if self.is_open(verdict, &outcome) && !self.is_spent() {
            return verdict;
        }
        let tries = std::mem::take(&mut self.tries);
        match verdict {
            StepVerdict::Passed => {
                self.passed.retain(|passed| passed.rate < rate);
                self.passed.push(Passed { rate, sure: tries.passed > 1 });
                if rate >= self.spec.max.0 {
                    self.end(Ending::AtMax);
                    return verdict;
                }
            }
            StepVerdict::Failed => self.fail(rate),
            // With a rate that passed, that is all this generator can tell; otherwise look below.
            StepVerdict::GeneratorLimited if !self.passed.is_empty() => {
                self.end(Ending::GeneratorLimited);
                return verdict;
            }
            StepVerdict::GeneratorLimited => {}
        }
        self.choose(rate);
        verdict
    }

    /// What was found, also before the end.
    #[must_use]
    pub fn finish(self) -> Bracket {
        Bracket {
            lower: self.passed.last().map(|passed| Rate(passed.rate)),
            upper: self.upper.map(Rate),
            ending: self.ending,
            steps: self.steps,
        }
    }

    /// Whether the pending rate, of which this is the last try, is tried once more.
    fn is_open(&self, last: StepVerdict, outcome: &StepOutcome) -> bool {
        let Tries { passed, failed, limited } = self.tries;
        match last {
            StepVerdict::Passed => self.spec.confirm && failed > 0 && passed < 2,
            // What passed before has not failed by far, whatever this try was like.
            StepVerdict::Failed if passed > 0 => self.spec.confirm && failed < 2,
            StepVerdict::Failed => failed + limited < 2 && !self.is_gross(outcome),
            StepVerdict::GeneratorLimited => failed + limited < 2,
        }
    }

    /// Takes a rate for the upper end. Where it had passed before, the way down begins anew.
    fn fail(&mut self, rate: f64) {
        self.upper = Some(rate);
        let before = self.passed.len();
        self.passed.retain(|passed| passed.rate < rate);
        if self.passed.len() < before {
            self.factor = self.spec.factor;
        }
    }

    fn judge(&self, outcome: &StepOutcome) -> StepVerdict {
        let slow = self.limited(outcome).any(|(latency, limit)| latency > limit);
        // A generator in trouble only makes things worse: what passed in spite of it has passed.
        if outcome.loss.0 <= self.spec.loss_max.0 && !slow {
            StepVerdict::Passed
        } else if outcome.generator_limited {
            StepVerdict::GeneratorLimited
        } else {
            StepVerdict::Failed
        }
    }

    fn is_gross(&self, outcome: &StepOutcome) -> bool {
        let far =
            |(latency, limit): (Nanos, Nanos)| latency.as_secs_f64() > GROSS_LATENCY * limit.as_secs_f64();
        let unanswered = outcome.loss.0 + outcome.waiting.0;
        unanswered > GROSS_LOSS.max(2.0 * self.spec.loss_max.0) || self.limited(outcome).any(far)
    }

    /// Percentiles of latency that have limits, with these.
    fn limited(&self, outcome: &StepOutcome) -> impl Iterator<Item = (Nanos, Nanos)> + use<> {
        let p95 = self.spec.p95_max.map(|limit| (outcome.latency_p95, limit));
        let p99 = self.spec.p99_max.map(|limit| (outcome.latency_p99, limit));
        p95.into_iter().chain(p99)
    }

    fn is_spent(&self) -> bool {
        self.steps.len() >= self.spec.steps_max as usize
    }

    fn end(&mut self, ending: Ending) {
        self.ending = ending;
        self.pending = None;
    }

    /// Chooses the rate after `rate`.
    fn choose(&mut self, rate: f64) {
        let narrow = (1.0 + self.spec.precision.0) * (1.0 + ROUNDING);
        let next = match (self.passed.last().copied(), self.upper) {
            (Some(lower), Some(upper)) if upper <= lower.rate * narrow => return self.close(lower),
            (Some(lower), Some(upper)) => (lower.rate * upper).sqrt(),
            (Some(lower), None) => (lower.rate * self.factor).min(self.spec.max.0),
            (None, _) => rate / self.factor,
        };
        self.factor = (self.factor * self.factor).min(self.spec.factor_max);
        if next < RATE_MIN {
            let limited = self.upper.is_none();
            return self.end(if limited { Ending::GeneratorLimited } else { Ending::NothingPassed });
        }
        if self.is_spent() {
            return self.end(Ending::StepsSpent);
        }
        self.pending = Some(next);
    }

    /// Ends with a bracket that is narrow enough, once its lower end has passed twice: once may be luck.
    fn close(&mut self, lower: Passed) {
        if lower.sure || !self.spec.confirm {
            self.end(Ending::Found);
        } else if self.is_spent() {
            self.end(Ending::StepsSpent);
        } else {
            self.tries.passed = 1;
            self.pending = Some(lower.rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A queue with this capacity and a p99 that grows as an M/M/1 queue's.
    fn server(capacity: f64, rate: Rate) -> StepOutcome {
        let share = rate.0 / capacity;
        let p99 = if share < 0.999 { 0.001 / (1.0 - share) } else { 5.0 };
        StepOutcome {
            rate,
            loss: Share((1.0 - 1.0 / share).max(0.0)),
            waiting: Share(0.0),
            latency_p95: Nanos::from_secs_f64(p99 * 0.65),
            latency_p99: Nanos::from_secs_f64(p99),
            generator_limited: false,
        }
    }

    fn search(spec: SearchSpec, mut offer: impl FnMut(Rate) -> StepOutcome) -> Bracket {
        let mut search = Search::new(spec);
        while let Some(rate) = search.next() {
            search.record(offer(rate));
        }
        search.finish()
    }

    fn spec() -> SearchSpec {
        SearchSpec { p99_max: Some(Nanos::from_millis(20)), ..SearchSpec::blind(Rate(1e6)) }
    }

    /// With a p95 of 0.65 ms / (1 - share), 6.5 ms are reached at 90 % of the capacity.
    #[test]
    fn a_search_keeps_to_a_limit_of_the_95th_percentile() {
        let spec = SearchSpec { p95_max: Some(Nanos(6_500_000)), ..SearchSpec::blind(Rate(1e6)) };
        let found = search(spec, |rate| server(10_000.0, rate));
        let (lower, upper) = (found.lower.unwrap().0, found.upper.unwrap().0);
        assert!(lower <= 9_000.0 && upper >= 9_000.0 && upper <= lower * 1.051, "{lower} {upper}");
    }

    /// With a p99 of 1 ms / (1 - share), 20 ms are reached at 95 % of the capacity.
    const AT_LIMIT: f64 = 0.95;

    #[test]
    fn a_blind_search_finds_the_capacity() {
        for capacity in [3.0, 470.0, 8_000.0, 123_456.0] {
            let found = search(spec(), |rate| server(capacity, rate));
            let (lower, upper) = (found.lower.unwrap().0, found.upper.unwrap().0);
            assert_eq!(found.ending, Ending::Found);
            assert!(
                lower <= capacity * AT_LIMIT && capacity * AT_LIMIT <= upper,
                "{lower} {upper} {capacity}"
            );
            assert!(upper / lower <= 1.05 + 1e-9);
            assert!(found.steps.len() <= 20, "{} steps for {capacity}", found.steps.len());
        }
    }

    #[test]
    fn a_gentle_search_goes_no_further_beyond_than_asked() {
        let gentle = SearchSpec { start: Rate(50.0), factor_max: 2.0, ..spec() };
        let found = search(gentle, |rate| server(470.0, rate));
        assert_eq!(found.ending, Ending::Found);
        let highest = found.steps.iter().map(|(step, _)| step.rate.0).fold(0.0, f64::max);
        assert!(highest <= 2.0 * 470.0, "{highest}");
    }

    #[test]
    fn a_hint_saves_steps() {
        let capacity = 10_000.0;
        let near = search(spec().near_throughput(Rate(capacity)), |rate| server(capacity, rate));
        assert_eq!(near.ending, Ending::Found);
        assert!(near.steps.len() <= 7, "{:?}", near.steps);
        let lower = near.lower.unwrap();
        let again = search(spec().near_result(lower), |rate| server(capacity, rate));
        assert_eq!(again.ending, Ending::Found);
        // One that passes twice, one that fails twice.
        assert!(again.steps.len() <= 4, "{:?}", again.steps);
        let moved = search(spec().near_result(lower), |rate| server(capacity * 0.6, rate));
        assert_eq!(moved.ending, Ending::Found);
        assert!(moved.upper.unwrap().0 >= capacity * 0.6 * AT_LIMIT);
        assert!(moved.steps.len() <= 16, "{:?}", moved.steps.len());
    }

    /// Twenty searches of one capacity give results all over the bracket's width, not one and the same.
    #[test]
    fn results_of_several_searches_fall_on_no_grid() {
        let result = |seed: u64| {
            let spec = SearchSpec { precision: Share(0.2), ..spec() }.near_result(Rate(9_000.0));
            let found = search(spec.off_the_grid(seed), |rate| server(10_000.0, rate));
            found.lower.unwrap().0 / (10_000.0 * AT_LIMIT)
        };
        let mut results: Vec<f64> = (0..20).map(result).collect();
        results.sort_by(f64::total_cmp);
        assert!(results[0] >= 1.0 / 1.2 && results[19] <= 1.0, "{results:?}");
        let widest_gap = results.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
        assert!(results[19] - results[0] > 0.1 && widest_gap < 0.06, "{results:?}");
    }

    #[test]
    fn the_maximum_ends_it() {
        let found = search(SearchSpec { max: Rate(5_000.0), ..spec() }, |rate| server(1e5, rate));
        assert_eq!((found.lower, found.upper, found.ending), (Some(Rate(5_000.0)), None, Ending::AtMax));
    }

    /// Hints were brought between the lowest rate and the maximum, which panicked where that was below.
    #[test]
    fn a_maximum_below_all_rates_is_none_to_search() {
        let low = SearchSpec { max: Rate(0.3), ..spec() };
        assert_eq!(low.near_throughput(Rate(900.0)).start, Rate(0.3));
        assert_eq!(low.near_result(Rate(900.0)).start, Rate(0.3));
        let found = search(low.near_result(Rate(900.0)), |rate| panic!("{rate} was tried"));
        assert_eq!((found.lower, found.ending), (None, Ending::NothingPassed));
        let found = search(SearchSpec { max: Rate(0.5), ..spec() }, |rate| server(1e5, rate));
        assert_eq!((found.lower, found.ending), (Some(Rate(0.5)), Ending::AtMax));
    }

    #[test]
    fn steps_wait_until_the_longest_limit_is_broken() {
        let of = |p95_max, p99_max| SearchSpec { p95_max, p99_max, ..spec() }.drain();
        let ms = |ms| Some(Nanos::from_millis(ms));
        assert_eq!((of(None, None), of(ms(200), ms(500))), (Nanos::from_secs(1), Nanos::from_secs(1)));
        assert_eq!((of(ms(3_000), ms(500)), of(None, ms(7_000))), (Nanos::from_secs(3), Nanos::from_secs(7)));
    }

    #[test]
    fn a_dead_server_ends_it() {
        let dead = |rate| StepOutcome { loss: Share(1.0), ..server(1.0, rate) };
        let found = search(spec(), dead);
        assert_eq!((found.lower, found.ending), (None, Ending::NothingPassed));
        assert!(found.upper.unwrap().0 >= RATE_MIN);
    }

    #[test]
    fn a_limited_generator_ends_it() {
        let weak = |rate: Rate| StepOutcome {
            generator_limited: rate.0 > 50_000.0,
            loss: Share((1.0 - 50_000.0 / rate.0).max(0.0)),
            ..server(1e5, rate)
        };
        let found = search(spec(), weak);
        assert_eq!((found.upper, found.ending), (None, Ending::GeneratorLimited));
        assert!(found.lower.unwrap().0 <= 50_000.0);
        // Starting beyond the generator's reach, it looks below first.
        let found = search(SearchSpec { start: Rate(200_000.0), ..spec() }, weak);
        assert!(found.lower.unwrap().0 > 10_000.0, "{found:?}");
    }

    #[test]
    fn a_step_that_passes_counts_whatever_the_generator_says() {
        let noisy = |rate| StepOutcome { generator_limited: true, ..server(10_000.0, rate) };
        let found = search(spec(), noisy);
        assert!(found.lower.unwrap().0 >= 8_000.0, "{found:?}");
        assert_eq!(found.ending, Ending::GeneratorLimited);
    }

    #[test]
    fn one_bad_moment_is_forgiven() {
        let mut calls = 0;
        let found = search(spec(), |rate| {
            calls += 1;
            let outcome = server(10_000.0, rate);
            // The second step, far below the capacity, hits a hiccup.
            if calls == 2 { StepOutcome { loss: Share(0.05), ..outcome } } else { outcome }
        });
        assert!(found.upper.unwrap().0 > 9_000.0);
        assert_eq!(found.steps[1].0.rate, found.steps[2].0.rate);
    }

    /// The rates of a search's steps, each with whether it passed.
    fn course(found: &Bracket) -> Vec<(f64, bool)> {
        found.steps.iter().map(|(step, found)| (step.rate.0, *found == StepVerdict::Passed)).collect()
    }

    /// A search from 10,000/s up by 5 % at first, of which `passes` says whether the nth try of a rate passes.
    fn scripted(confirm: bool, passes: impl Fn(f64, usize) -> bool) -> Bracket {
        let spec = SearchSpec { confirm, ..SearchSpec::blind(Rate(1e6)).near_result(Rate(10_000.0)) };
        let mut tried: Vec<f64> = Vec::new();
        search(spec, |rate| {
            tried.push(rate.0);
            let nth = tried.iter().filter(|other| **other == rate.0).count();
            StepOutcome {
                loss: Share(if passes(rate.0, nth) { 0.0 } else { 0.1 }),
                latency_p99: Nanos::ZERO,
                ..server(1e6, rate)
            }
        })
    }

    #[test]
    fn one_lucky_moment_is_no_bound() {
        let lucky = |rate: f64, nth: usize| rate < 9_700.0 || (rate == 10_000.0 && nth == 1);
        let found = scripted(true, lucky);
        let (high, low) = (10_000.0 * 1.05, 10_000.0 / 1.05);
        let expected = [(10_000.0, true), (high, false), (high, false), (10_000.0, false), (10_000.0, false)];
        assert_eq!(course(&found)[..5], expected);
        assert_eq!(course(&found)[5..], [(low, true), (low, true)]);
        let end = (found.lower, found.upper, found.ending);
        assert_eq!(end, (Some(Rate(low)), Some(Rate(10_000.0)), Ending::Found));
        // Whoever tries the lower end again itself is left to it.
        let found = scripted(false, lucky);
        assert_eq!(course(&found), expected[..3]);
        assert_eq!((found.lower, found.ending), (Some(Rate(10_000.0)), Ending::Found));
    }

    #[test]
    fn of_a_rate_that_passed_and_failed_a_third_try_decides() {
        let low = 10_000.0 / 1.05;
        for (tries, passes) in [([false, true, true], true), ([false, true, false], false)] {
            let found = scripted(true, |rate, nth| {
                rate < 10_000.0 || (rate == 10_000.0 && tries.get(nth - 1).copied().unwrap_or(true))
            });
            let first: Vec<(f64, bool)> = tries.map(|passed| (10_000.0, passed)).to_vec();
            assert_eq!(course(&found)[..3], first, "{tries:?}");
            assert_eq!(found.ending, Ending::Found);
            assert_eq!(found.lower, Some(Rate(if passes { 10_000.0 } else { low })), "{tries:?}");
        }
        // Without it the second one does.
        let found = scripted(false, |rate, nth| rate < 10_000.0 || (rate == 10_000.0 && nth == 2));
        assert_eq!((found.lower, found.steps.len()), (Some(Rate(10_000.0)), 4));
    }

    /// Steps pass with a chance that falls from one to none around 1000/s, over a width as told: the ends are as often above
    /// it as below. Were only failures tried again, ends of noisy systems would be a twentieth and a tenth too high.
    #[test]
    fn a_bracket_leans_to_neither_side() {
        const SEARCHES: u64 = 400;
        let lean = |confirm: bool, width: f64| {
            let log_of = |seed: u64| {
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
                let start = Rate(1_000.0 * (-0.35 + 0.2 * rng.random::<f64>()).exp());
                let spec = SearchSpec { start, factor: 1.25, confirm, ..SearchSpec::blind(Rate(1e6)) };
                let found = search(spec, |rate| {
                    let beyond = (rate.0 / 1_000.0).ln() / width;
                    let passes = rng.random::<f64>() < 1.0 / (1.0 + beyond.exp());
                    let loss = match (passes, beyond > 8.0) {
                        (true, _) => 0.0,
                        (false, false) => 0.1,
                        (false, true) => 0.5,
                    };
                    StepOutcome { loss: Share(loss), latency_p99: Nanos::ZERO, ..server(1e9, rate) }
                });
                (found.lower.unwrap().0 * found.upper.unwrap().0).sqrt().ln() - 1_000f64.ln()
            };
            (0..SEARCHES).map(log_of).sum::<f64>() / SEARCHES as f64
        };
        for (width, alone) in [(0.05, 0.04), (0.1, 0.08)] {
            let (both, one) = (lean(true, width), lean(false, width));
            assert!(both.abs() < 0.02 && one > alone, "{width}: {both} {one}");
        }
    }

    #[test]
    fn noise_moves_the_bracket_little() {
        let capacity = 20_000.0;
        let mut near = 0;
        for seed in 0..200 {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let found = search(spec(), |rate| {
                let outcome = server(capacity * rng.random_range(0.98..1.02), rate);
                // One step in twelve is disturbed.
                if rng.random_bool(1.0 / 12.0) {
                    StepOutcome { latency_p99: Nanos::from_millis(60), ..outcome }
                } else {
                    outcome
                }
            });
            let lower = found.lower.unwrap().0;
            near += u32::from((capacity * 0.85..capacity).contains(&lower));
        }
        assert!(near >= 185, "{near} of 200");
    }

    proptest! {
        #[test]
        fn it_always_ends(
            start in -1e3_f64..1e7, factor in 0.0_f64..100.0, max in -1.0_f64..1e7,
            factor_max in 0.0_f64..9.0, precision in 0.0_f64..1.0, steps in 0_u32..60, answers in proptest::collection::vec(0_u8..3, 1..20),
        ) {
            let spec = SearchSpec {
                start: Rate(start), factor, factor_max, max: Rate(max), precision: Share(precision),
                loss_max: Share(0.01), p99_max: None, p95_max: None, settle: Nanos::ZERO, steps_max: steps,
                confirm: steps % 2 == 0,
            };
            let mut count = 0;
            let found = search(spec, |rate| {
                count += 1;
                let answer = answers[count % answers.len()];
                StepOutcome {
                    rate, loss: Share(if answer == 0 { 0.0 } else { 0.1 }), waiting: Share(0.0),
                    latency_p95: Nanos::ZERO, latency_p99: Nanos::ZERO, generator_limited: answer == 2,
                }
            });
            let spec = spec.near_throughput(Rate(start)).near_result(Rate(start)).off_the_grid(steps.into());
            prop_assert!(spec.start.0 <= max.max(RATE_MIN));
            prop_assert!(found.steps.len() <= steps.max(1) as usize);
            prop_assert!(found.steps.iter().all(|(step, _)| step.rate.0 <= max));
            if let (Some(lower), Some(upper)) = (found.lower, found.upper) {
                prop_assert!(lower.0 < upper.0);
            }
        }
    }
}
