//! What a run can tell before it is over, and when it has told enough.

use crate::describe::moments;
use crate::interval::MIN_TRIALS;
use crate::moderate::{moderated, prior, typical_variance};
use crate::multiple::{judge_family, widened};
use crate::ratio::{Bound, Ratio, after_looking, narrow};
use crate::student::t_quantile;
use crate::verdict::{ALPHA, Verdict};

/// Of the chance of a false claim, the share that may be spent on ending a comparison early.
const EARLY: f64 = 0.2;

/// The smallest tax that so many rounds tell from 1 in four runs of five, where ratios scatter with this standard deviation
/// of their logarithm and so many comparisons are read together; `None` below three rounds, or beyond all numbers.
///
/// exp((t₁₋ₐ + t₀.₈) · sd / √n) with a = 5 % / (2 · comparisons): the first step of Holm's and of Hommel's procedure. Nothing that
/// comparisons lend each other is counted on.
#[must_use]
pub fn tellable(sd: f64, rounds: usize, comparisons: usize) -> Option<f64> {
    if rounds < MIN_TRIALS || !(sd.is_finite() && sd >= 0.0) {
        return None;
    }
    let df = (rounds - 1) as f64;
    let level = ALPHA / comparisons.max(1) as f64;
    let errors = t_quantile(1.0 - level / 2.0, df) + t_quantile(0.8, df);
    Some((errors * sd / (rounds as f64).sqrt()).exp()).filter(|t| t.is_finite())
}

/// More rounds than this aren't looked for.
const FAR: usize = 200;

/// Degrees of freedom that what scatter is usual counts beside a comparison's own, where nothing but a guess is made of it.
const USUAL: f64 = 4.0;

/// A comparison after its first rounds: the logarithms of its ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoFar<'a> {
    /// Comparisons of the same metric borrow scatter from each other.
    pub metric: &'a str,
    /// One for each round, in any order; which way is better doesn't matter.
    pub logs: &'a [f64],
}

impl SoFar<'_> {
    /// As it is seen, without an interval.
    fn seen(&self) -> Ratio {
        let (mean, variance) = moments(self.logs);
        Ratio {
            tax: mean.exp(),
            interval: None,
            bound: Bound::Exact,
            detectable: None,
            df: f64::INFINITY,
            candidate_trials: self.logs.len(),
            baseline_trials: self.logs.len(),
            rounds: Some(self.logs.len()),
            scatter: (self.logs.len() > 1).then_some(variance),
            unseen: 0.0,
        }
    }
}

/// Which of these comparisons, all read together with `unknown` others of which nothing is known yet, `rounds` will probably
/// tell to be better or worse, where taxes are as they seem: each at least in four runs of five.
///
/// They are judged as a report does after so many rounds ([`moderated`], [`judge_family`]), with taxes nearer to 1 by what
/// one run in five errs. This is a guess, which no claim hangs on: the scatter of few rounds is averaged with what is usual.
#[must_use]
pub fn foreseen(found: &[SoFar<'_>], unknown: usize, rounds: usize, margin: f64, alpha: f64) -> Vec<bool> {
    if rounds < MIN_TRIALS {
        return vec![false; found.len()];
    }
    let mut expected: Vec<Ratio> = found.iter().map(SoFar::seen).collect();
    let mut metrics: Vec<&str> = found.iter().map(|s| s.metric).collect();
    metrics.sort_unstable();
    metrics.dedup();
    for metric in metrics {
        let seen: Vec<Ratio> = found.iter().filter(|s| s.metric == metric).map(SoFar::seen).collect();
        let (shared, usual) = (prior(&seen), typical_variance(&seen));
        for (ratio, _) in expected.iter_mut().zip(found).filter(|(_, s)| s.metric == metric) {
            let alone = usual.map_or(*ratio, |usual| after(ratio, usual, rounds));
            *ratio = nearer(&shared.map_or(alone, |p| moderated(&alone, &p)));
        }
    }
    let equal = Ratio { tax: 1.0, interval: Some((0.5, 2.0)), ..SoFar { metric: "", logs: &[] }.seen() };
    expected.extend(std::iter::repeat_n(equal, unknown));
    let told = |verdict| matches!(verdict, Verdict::Better | Verdict::Worse);
    judge_family(&expected, margin, alpha).iter().take(found.len()).map(|j| told(j.verdict)).collect()
}

/// What a comparison will be after so many rounds, if its tax is as it seems.
fn after(seen: &Ratio, usual: f64, rounds: usize) -> Ratio {
    let own = seen.scatter.unwrap_or_default();
    let df = seen.rounds.map_or(0.0, |n| n.saturating_sub(1) as f64);
    let variance = (USUAL * usual + df * own) / (USUAL + df);
    in_rounds(seen, variance, rounds)
}

/// The comparison with so many rounds of this scatter.
fn in_rounds(ratio: &Ratio, variance: f64, rounds: usize) -> Ratio {
    let df = (rounds - 1) as f64;
    let half = t_quantile(0.975, df) * (variance / rounds as f64 + ratio.unseen).sqrt();
    Ratio {
        interval: Some((ratio.tax * (-half).exp(), ratio.tax * half.exp())),
        df,
        candidate_trials: rounds,
        baseline_trials: rounds,
        rounds: Some(rounds),
        scatter: Some(variance),
        ..*ratio
    }
}

/// The tax, with its interval, where one run in five finds it nearer to 1 than it is.
fn nearer(ratio: &Ratio) -> Ratio {
    let Some((low, high)) = ratio.interval else { return *ratio };
    let error = (high / low).ln() / 2.0 / t_quantile(0.975, ratio.df);
    let log = ratio.tax.ln();
    let by = (t_quantile(0.8, ratio.df) * error).min(log.abs()).copysign(log);
    let moved = |end: f64| end * (-by).exp();
    Ratio { tax: moved(ratio.tax), interval: Some((moved(low), moved(high))), ..*ratio }
}

/// How many more rounds end this comparison, if it stays what it seems: as narrow as ± `until`, or [`plain`]. `None` where it has
/// no interval made in rounds, where `most` rounds don't end it, or where it has as many.
///
/// `ratio` comes as it was found, `min` is the number of rounds that were made in any case ([`after_looking`]).
#[must_use]
pub fn further(
    ratio: &Ratio,
    (min, most): (usize, usize),
    until: f64,
    margin: f64,
    comparisons: usize,
) -> Option<usize> {
    let (now, variance) = (ratio.rounds?, ratio.scatter?);
    let ended = |n: usize| {
        let then = after_looking(&in_rounds(ratio, variance, n), min);
        narrow(&then, until) || plain(&then, margin, comparisons)
    };
    let (mut low, mut high) = (now, most.min(now + FAR));
    if high <= now || !ended(high) {
        return None;
    }
    // With the same scatter an interval only becomes narrower.
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        (low, high) = if ended(middle) { (low, middle) } else { (middle, high) };
    }
    Some(high - now)
}

/// True where a comparison needs no more rounds, as it lies beyond the margin for certain: even at a fifth of the
/// level that the strongest of so many comparisons is judged at.
///
/// Ending where a verdict seems clear is looking more than once. A fifth of what may be wrong is spent on it, and what the
/// rest may err is more than made up for by the width that [`after_looking`](crate::after_looking) adds to
/// comparisons that went on (`make soundness`: families whose rounds end early).
#[must_use]
pub fn plain(ratio: &Ratio, margin: f64, comparisons: usize) -> bool {
    let level = EARLY * ALPHA / comparisons.max(1) as f64;
    let edge = 1.0 + margin.max(0.0);
    let beyond = |(low, high): (f64, f64)| low > edge || high < 1.0 / edge;
    ratio.bound == Bound::Exact && widened(ratio, level).interval.is_some_and(beyond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Group;
    use crate::ratio::{Direction, tax};

    #[test]
    fn what_rounds_can_tell_by_hand() {
        // t(0.975, 4) = 2.776445, t(0.8, 4) = 0.940965; 0.1 / sqrt(5) = 0.0447214.
        let alone = tellable(0.1, 5, 1).unwrap();
        assert!((alone.ln() - 3.717_410 * 0.044_721_4).abs() < 1e-5, "{alone}");
        assert!(tellable(0.1, 5, 20) > Some(alone) && tellable(0.1, 10, 1) < Some(alone));
        assert_eq!(tellable(0.1, 2, 1), None);
        assert_eq!(tellable(f64::NAN, 5, 1), None);
        assert_eq!(tellable(1e9, 3, 60), None);
    }

    #[test]
    fn what_is_foreseen_is_judged_as_a_report_judges() {
        let pairs = [[0.69, 0.71], [0.40, 0.36], [0.06, 0.08], [-0.9, -0.88]];
        let of = |metric, logs| SoFar { metric, logs };
        let four: Vec<SoFar<'_>> = pairs.iter().map(|p| of("a", p.as_slice())).collect();
        assert_eq!(foreseen(&four, 0, 2, 0.05, ALPHA), [false; 4], "two rounds tell nothing");
        assert_eq!(foreseen(&four, 0, 3, 0.05, ALPHA), [true, true, false, true]);
        assert_eq!(foreseen(&four, 0, 30, 0.05, ALPHA), [true; 4]);
        // Sixty of which nothing is known may all be equal.
        assert!(foreseen(&four, 60, 3, 0.05, ALPHA).iter().filter(|told| **told).count() < 3);
        // Ten and more lend each other what few rounds don't know.
        let many: Vec<[f64; 2]> = (0..30).map(|i| [0.5 + 0.001 * f64::from(i % 7), 0.58]).collect();
        let told = |metric: &dyn Fn(usize) -> &'static str| {
            let found: Vec<SoFar<'_>> =
                many.iter().enumerate().map(|(i, p)| of(metric(i), p.as_slice())).collect();
            foreseen(&found, 30, 3, 0.05, ALPHA).iter().filter(|told| **told).count()
        };
        assert_eq!((told(&|_| "all"), told(&|i| ["a", "b", "c", "d"][i % 4])), (30, 0));
    }

    #[test]
    fn the_nearest_end_is_counted_in_rounds() {
        let rounds = [0, 1, 2];
        let base = Group::in_rounds(&[1.0, 1.02, 0.98], &rounds);
        let of = |c: &[f64; 3]| tax(&Group::in_rounds(c, &rounds), &base, Direction::Lower, 1).unwrap();
        let end = |ratio: &Ratio, most| further(ratio, (3, most), 0.01, 0.05, 6);
        let (near, far) = (of(&[1.5, 1.45, 1.6]), of(&[1.05, 1.0, 1.1]));
        let n = end(&near, 40).unwrap();
        assert!((1..10).contains(&n) && end(&far, 3 + n).is_none(), "{n}");
        assert_eq!((end(&near, 3 + n - 1), end(&near, 3 + n)), (None, Some(n)), "the last that is allowed");
        assert_eq!(end(&Ratio { rounds: None, ..near }, 40), None);
    }

    #[test]
    fn a_large_tax_is_plain_and_a_small_one_is_not() {
        let rounds = [0, 1, 2];
        let found = |candidate: &[f64; 3]| {
            let base = Group::in_rounds(&[1.0, 1.02, 0.98], &rounds);
            tax(&Group::in_rounds(candidate, &rounds), &base, Direction::Lower, 1).unwrap()
        };
        let large = found(&[9.0, 9.3, 8.7]);
        assert!(plain(&large, 0.05, 6) && !plain(&large, 0.05, 1_000_000));
        assert!(!plain(&found(&[1.04, 1.02, 1.03]), 0.05, 1), "within the margin");
        assert!(!plain(&Ratio { bound: Bound::AtLeast, ..large }, 0.05, 1));
        assert!(!plain(&Ratio { interval: None, ..large }, 0.05, 1));
    }
}
