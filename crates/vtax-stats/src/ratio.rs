//! The tax: what a candidate costs in units of its baseline.

use crate::describe::sorted;
use crate::interval::{Group, MIN_TRIALS, Part, of_groups, of_rounds};
use crate::uncertainty::Uncertainty;
use crate::verdict::ALPHA;

/// Which way a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// More is better: the tax is baseline over candidate.
    Higher,
    /// Less is better: the tax is candidate over baseline.
    Lower,
}

impl Direction {
    /// The two ends of a tax as candidate over baseline in the metric itself, the smaller first.
    #[must_use]
    pub fn own(self, (low, high): (f64, f64)) -> (f64, f64) {
        match self {
            Self::Higher => (1.0 / high, 1.0 / low),
            Self::Lower => (low, high),
        }
    }
}

/// Which side of a ratio is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Both.
    Exact,
    /// The tax is at least what was found: of the baseline's capacity, or the candidate's latency, only a lower bound is known.
    AtLeast,
    /// The tax is at most what was found: of the candidate's capacity, or the baseline's latency, only a lower bound is known.
    AtMost,
    /// Of both sides only a lower bound is known.
    Unknown,
}

/// A tax with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Ratio of typical values, above 1 where the candidate is worse.
    pub tax: f64,
    /// 95 % interval; `None` where a group has fewer than [`MIN_TRIALS`] trials, and where all rounds, or the trials of each side,
    /// agree to the last digit and are fewer than [`ENCLOSING`](crate::ENCLOSING).
    pub interval: Option<(f64, f64)>,
    /// Which way the metric is better.
    pub better: Direction,
    /// Which side of it is known.
    pub bound: Bound,
    /// Smallest true tax that as many trials with this much scatter would tell from 1 with a
    /// probability of 80 %; `None` where there is no interval.
    pub detectable: Option<f64>,
    /// Trials of the candidate.
    pub candidate_trials: usize,
    /// Trials of the baseline.
    pub baseline_trials: usize,
    /// Rounds that both sides share, where the ratio was taken within rounds.
    pub rounds: Option<usize>,
    /// Variance between rounds of the ratio's logarithm, where it was taken within rounds.
    pub scatter: Option<f64>,
    /// What the interval is made of; `None` where there is none.
    pub(crate) uncertainty: Option<Uncertainty>,
}

impl Ratio {
    /// The ratio with its interval made of this.
    pub(crate) fn with(self, uncertainty: Option<Uncertainty>) -> Self {
        Self {
            interval: uncertainty.map(|u| u.interval(self.tax, ALPHA)),
            detectable: uncertainty.and_then(|u| u.detectable()),
            uncertainty,
            ..self
        }
    }

    /// The ratio as it would be were its tax so many times larger, and known as well.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        let interval = self.interval.map(|(low, high)| (low * factor, high * factor));
        Self { tax: self.tax * factor, interval, ..*self }
    }
}

/// Why there is no ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRatio {
    /// The candidate has no valid trial.
    #[error("no valid trial of this environment gave a figure")]
    NoCandidate,
    /// The baseline has no valid trial.
    #[error("no valid trial of the baseline gave a figure")]
    NoBaseline,
    /// A value is zero or negative.
    #[error("a ratio with zero means nothing")]
    NotPositive,
}

/// Rounds that both sides share are compared as pairs where there are this many of them...
const MIN_ROUNDS: usize = MIN_TRIALS;
/// ...and where they are at least this share of the smaller side's trials: a few pairs must not speak for
/// many trials that have no partner.
const SHARED: f64 = 0.75;

/// The tax of a candidate over a baseline.
///
/// Where trials know their rounds, the ratio is taken within each round and Student's t over rounds: what
/// lasts longer than a round, and so hits both sides, cancels out (randomised complete blocks; Bulej et
/// al., "Duet benchmarking", ICPE 2020, for pairs made at the same time). Order within rounds has to be
/// random. Otherwise the groups are compared as such: Welch's t, from 6 trials in both on a bootstrap as
/// wide as that, and widened where a side's neighbouring trials resemble each other.
///
/// The same seed gives the same result; exchanging candidate and baseline turns it into its inverse
/// (exactly in rounds and below 6 trials, else up to resampling).
///
/// # Errors
///
/// [`NoRatio`] where a side has no trials or a value is not positive.
pub fn tax(
    candidate: &Group<'_>,
    baseline: &Group<'_>,
    better: Direction,
    seed: u64,
) -> Result<Ratio, NoRatio> {
    let c = sorted(candidate.values).ok_or(NoRatio::NoCandidate)?;
    let b = sorted(baseline.values).ok_or(NoRatio::NoBaseline)?;
    if c[0] <= 0.0 || b[0] <= 0.0 {
        return Err(NoRatio::NotPositive);
    }
    let sign = match better {
        Direction::Higher => -1.0,
        Direction::Lower => 1.0,
    };
    let pairs = log_ratios(candidate, baseline);
    let (log, uncertainty, scatter) = match &pairs {
        Some(logs) => {
            // Both sides of a pair may err, and independently.
            let resolution = candidate.resolution.hypot(baseline.resolution);
            let part = Part::new(logs.iter().map(|l| sign * l).collect(), resolution);
            (part.mean, of_rounds(&part), Some(part.variance))
        }
        None => {
            let cp = Part::of_logs(candidate.values, candidate.resolution);
            let bp = Part::of_logs(baseline.values, baseline.resolution);
            (sign * (cp.mean - bp.mean), of_groups(&[(sign, &cp), (-sign, &bp)], seed), None)
        }
    };
    let bound = match (baseline.censored, candidate.censored) {
        (false, false) => Bound::Exact,
        (true, true) => Bound::Unknown,
        (base, _) if base == (better == Direction::Higher) => Bound::AtLeast,
        _ => Bound::AtMost,
    };
    let ratio = Ratio {
        tax: log.exp(),
        interval: None,
        better,
        bound,
        detectable: None,
        candidate_trials: c.len(),
        baseline_trials: b.len(),
        rounds: pairs.map(|p| p.len()),
        scatter,
        uncertainty: None,
    };
    Ok(ratio.with(uncertainty))
}

/// Logarithms of candidate over baseline by round, in the order of rounds; `None` where too few rounds have
/// both. This is what [`tax`] works on, for those who draw it.
#[must_use]
pub fn log_ratios(candidate: &Group<'_>, baseline: &Group<'_>) -> Option<Vec<f64>> {
    let logs = logs_by_round(candidate, baseline)?;
    let smaller = candidate.values.len().min(baseline.values.len()) as f64;
    (logs.len() >= MIN_ROUNDS && logs.len() as f64 >= SHARED * smaller).then_some(logs)
}

/// The same however few rounds have both, for what is judged over hosts; `None` where rounds aren't known.
#[must_use]
pub fn logs_by_round(candidate: &Group<'_>, baseline: &Group<'_>) -> Option<Vec<f64>> {
    let usable = |g: &Group<'_>| g.rounds.len() == g.values.len();
    if !usable(candidate) || !usable(baseline) {
        return None;
    }
    let of = |g: &Group<'_>, round: u32| {
        let found = g.rounds.iter().position(|r| *r == round).map(|i| g.values[i]);
        found.filter(|v| *v > 0.0 && v.is_finite())
    };
    let mut rounds = candidate.rounds.to_vec();
    rounds.sort_unstable();
    rounds.dedup();
    let ratio = |round| Some(of(candidate, round)?.ln() - of(baseline, round)?.ln());
    Some(rounds.into_iter().filter_map(ratio).collect())
}

/// The ratio with its interval as it must be where the number of trials was decided by looking at it.
///
/// Ending as soon as an interval is narrow favours trials that happen to agree: of 100 such intervals
/// promising 95, as few as 90 hold the truth. One made of more than the `min` trials that were
/// made in any case is therefore wider by 2.5 / n of its width, which more than makes up for it
/// (`make soundness` shows both; the effect is Anscombe's, "Large-sample theory of sequential
/// estimation", 1952, and Ray's, 1957, and fades with n).
#[must_use]
pub fn after_looking(ratio: &Ratio, min: usize) -> Ratio {
    let n = ratio.rounds.unwrap_or(ratio.candidate_trials.min(ratio.baseline_trials));
    wider(ratio, paid_for(n, min))
}

/// The same where candidate and baseline were made in two runs, each with a rule of its own: `mins` are the trials that each
/// made in any case, `None` where nothing was looked at.
///
/// What a side gains by agreeing by chance doesn't depend on how many trials the other has, so the larger of both factors counts.
#[must_use]
pub fn after_either_looked(ratio: &Ratio, mins: [Option<usize>; 2]) -> Ratio {
    let sides = [ratio.candidate_trials, ratio.baseline_trials].into_iter().zip(mins);
    let factors = sides.map(|(n, min)| min.map_or(1.0, |min| paid_for(n, min)));
    wider(ratio, factors.fold(1.0, f64::max))
}

/// The factor for having looked after each trial beyond the `min` that were made in any case.
fn paid_for(n: usize, min: usize) -> f64 {
    if n > min { 1.0 + 2.5 / n as f64 } else { 1.0 }
}

fn wider(ratio: &Ratio, looked: f64) -> Ratio {
    if looked > 1.0 { ratio.with(ratio.uncertainty.map(|u| Uncertainty { looked, ..u })) } else { *ratio }
}

/// True where the interval is no wider than ± `until` (0.03 for 3 %) around its tax, on the logarithmic
/// scale; false without one. What the stopping rule asks of a ratio [`after_looking`].
#[must_use]
pub fn narrow(ratio: &Ratio, until: f64) -> bool {
    ratio.interval.is_some_and(|(low, high)| (high / low).ln() / 2.0 <= until.max(0.0).ln_1p())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_take_out_what_both_sides_share() {
        // The machine doubles its pace halfway; the candidate always takes 10 % longer.
        let baseline = [10.0, 10.1, 9.9, 20.0, 20.2, 19.8];
        let candidate = [11.0, 11.2, 10.8, 22.0, 22.1, 21.9];
        let rounds = [0, 1, 2, 3, 4, 5];
        let paired = |better| {
            let (c, b) = (Group::in_rounds(&candidate, &rounds), Group::in_rounds(&baseline, &rounds));
            tax(&c, &b, better, 1).unwrap()
        };
        let apart = tax(&Group::exact(&candidate), &Group::exact(&baseline), Direction::Lower, 1).unwrap();
        let together = paired(Direction::Lower);
        assert!((together.tax - apart.tax).abs() < 1e-12 && together.rounds == Some(6));
        let (low, high) = together.interval.unwrap();
        assert!(low > 1.09 && high < 1.11, "{low} {high}");
        assert!(apart.interval.unwrap().0 < 0.8 && together.detectable < apart.detectable);
        assert!((paired(Direction::Higher).tax * together.tax - 1.0).abs() < 1e-12);
        // The order in which trials are given doesn't matter, only their rounds do.
        let turned = Group::in_rounds(&[9.9, 20.0, 20.2, 19.8, 10.0, 10.1], &[2, 3, 4, 5, 0, 1]);
        let again = tax(&Group::in_rounds(&candidate, &rounds), &turned, Direction::Lower, 1).unwrap();
        assert_eq!(again, together);
    }

    #[test]
    fn pairs_have_to_be_most_of_what_there_is() {
        let values = [10.0, 10.1, 9.9, 10.2, 9.8];
        let at = |rounds: &[u32; 5]| {
            let (c, b) = (Group::in_rounds(&values, rounds), Group::in_rounds(&values, &[0, 1, 2, 3, 4]));
            tax(&c, &b, Direction::Lower, 1).unwrap().rounds
        };
        assert_eq!(at(&[0, 1, 2, 3, 4]), Some(5));
        assert_eq!(at(&[0, 1, 2, 3, 9]), Some(4));
        assert_eq!(at(&[0, 1, 2, 8, 9]), None);
    }

    #[test]
    fn pairs_that_agree_are_known_to_their_resolution() {
        let rounds = [0, 1, 2, 3, 4];
        let side = |v: &'static [f64; 5]| Group { resolution: 0.05, ..Group::in_rounds(v, &[0, 1, 2, 3, 4]) };
        let ratio = tax(&side(&[2.0; 5]), &side(&[1.0; 5]), Direction::Lower, 1).unwrap();
        let (low, high) = ratio.interval.unwrap();
        assert!(low < 1.93 && high > 2.07, "{low} {high}");
        assert_eq!(rounds.len(), ratio.rounds.unwrap());
    }

    /// All of five values lie on one side of the median in 6 of 100 cases, all of six in 3.
    #[test]
    fn what_agrees_to_the_digit_is_not_certain_in_few_rounds() {
        let rounds = [0, 1, 2, 3, 4, 5];
        let base = [10.0, 11.0, 9.0, 10.5, 9.5, 10.2];
        let candidate = base.map(|b| 3.0 * b);
        for n in 3..=6 {
            let rounds = &rounds[..n];
            let (c, b) = (Group::in_rounds(&candidate[..n], rounds), Group::in_rounds(&base[..n], rounds));
            let found = tax(&c, &b, Direction::Lower, 1).unwrap();
            assert!((found.tax - 3.0).abs() < 1e-9 && found.scatter == Some(0.0), "{found:?}");
            assert_eq!((found.interval.is_some(), found.detectable.is_some()), (n == 6, n == 6), "{n}");
            // Trials of two runs, all of a side the same; where one side scatters, that is what is known.
            let of = |c: &[f64], b: &[f64]| {
                tax(&Group::exact(c), &Group::exact(b), Direction::Lower, 1).unwrap().interval
            };
            assert_eq!(of(&[3.0; 6][..n], &[1.0; 6][..n]).is_some(), n == 6, "{n}");
            assert!(of(&[3.0; 6][..n], &base[..n]).is_some(), "{n}");
        }
    }

    #[test]
    fn looking_costs_width() {
        let values = [1.0, 1.02, 0.98, 1.01, 0.99, 1.0];
        let ratio = tax(&Group::exact(&values), &Group::exact(&values), Direction::Lower, 1).unwrap();
        assert_eq!(after_looking(&ratio, 6), ratio);
        let wider = after_looking(&ratio, 3);
        let width = |r: &Ratio| r.interval.map(|(l, h)| (h / l).ln()).unwrap();
        assert!((width(&wider) / width(&ratio) - (1.0 + 2.5 / 6.0)).abs() < 1e-9);
        assert!(narrow(&ratio, 0.1) && !narrow(&ratio, 0.001));
        // Of two runs, each pays for its own looking, however few trials the other has.
        let few = [1.0, 1.02, 0.98];
        let apart = tax(&Group::exact(&values), &Group::exact(&few), Direction::Lower, 1).unwrap();
        let times = |mins| width(&after_either_looked(&apart, mins)) / width(&apart);
        for (mins, expected) in [
            ([Some(3), None], 1.0 + 2.5 / 6.0),
            ([None, Some(2)], 1.0 + 2.5 / 3.0),
            ([Some(3), Some(2)], 1.0 + 2.5 / 3.0),
            ([Some(6), Some(3)], 1.0),
            ([None, None], 1.0),
        ] {
            assert!((times(mins) - expected).abs() < 1e-9, "{mins:?}: {}", times(mins));
        }
    }
}
