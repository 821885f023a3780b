//! Scatter that the comparisons of a run share.
//!
//! Three rounds say little about how far the next one may be off: at the level that a verdict among sixty
//! needs, Student's t asks for 35 standard errors. Comparisons that were made on the same machine at the same
//! time scatter alike, more or less, and how much they differ is seen in the comparisons themselves. Their common
//! scatter is a second opinion on that of each (Smyth, "Linear models and empirical Bayes methods for assessing
//! differential expression in microarray experiments", Statistical Applications in Genetics and Molecular Biology 3,
//! 2004). It is used with more caution than there: see [`Prior`].

use statrs::function::gamma::digamma;

use crate::interval::MIN_TRIALS;
use crate::ratio::Ratio;
use crate::uncertainty::Uncertainty;

/// From this many comparisons on, each borrows from the others: fewer don't show how scatter differs between them.
const LENDING: usize = 10;

/// Below this many, not even what scatter is usual is known.
const LEAST: usize = 3;

/// Comparisons of more rounds than this speak for themselves.
const FEW_ROUNDS: usize = 5;

/// The spread of scatter is taken this many standard errors above what was found.
const CAUTION: f64 = 1.0;

/// The largest weight of what is borrowed, in degrees of freedom. Comparisons share baselines, and a trial's metrics its
/// luck, so that sixty scatters aren't sixty independent ones.
const MOST: f64 = 4.0;

/// Of the weight, what is added to the degrees of freedom of a comparison's own rounds.
const CREDIT: f64 = 0.5;

/// The smallest share of the usual variance that a comparison of few rounds is believed to have.
const FLOOR: f64 = 0.1;

/// What is known of a comparison's scatter before it is looked at, from comparisons of the same metric in the same run.
///
/// It is more cautious than Smyth's: how scatter differs between comparisons is overestimated ([`CAUTION`]), so that
/// less is borrowed; what is borrowed is bounded ([`MOST`]) and credited by half ([`CREDIT`]); a variance is never taken for
/// smaller than it was seen, nor for far smaller than is usual ([`moderated`]). Smyth's own, without these, made false claims
/// in 5 to 30 of 100 families in the simulations of `make soundness`; this in at most 5.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// Its weight beside a comparison's own rounds, in degrees of freedom; 0 where nothing is borrowed.
    pub weight: f64,
    /// Degrees of freedom that it adds.
    pub df: f64,
    /// The usual variance between rounds of the logarithm of a ratio.
    pub variance: f64,
}

/// What these comparisons, all of one metric, say about the scatter of each; `None` where fewer than three were made in
/// rounds and scatter. Fewer than ten lend nothing, but show what is usual.
///
/// Smyth's method of moments on log variances, whose sampling distribution is known: its mean and variance are those
/// of a log gamma distribution (digamma and trigamma of half the degrees of freedom).
#[must_use]
pub fn prior(ratios: &[Ratio]) -> Option<Prior> {
    let known = scatters(ratios);
    let logs: Vec<f64> = known.iter().map(|(log, _)| *log).collect();
    if logs.len() < LEAST {
        return None;
    }
    let m = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / m;
    let moment = |k: i32| logs.iter().map(|l| (l - mean).powi(k)).sum::<f64>();
    let found = moment(2) / (m - 1.0);
    // The standard error of a variance, whatever the distribution (its fourth moment tells).
    let kurtosis = moment(4) / m / (found * found).max(f64::MIN_POSITIVE);
    let error = found * ((kurtosis - (m - 3.0) / (m - 1.0)).max(0.5) / m).sqrt();
    let by_chance = known.iter().map(|(_, half)| trigamma(*half)).sum::<f64>() / m;
    let spread = found + CAUTION * error - by_chance;
    let half = if spread > 0.0 { trigamma_inverse(spread).min(MOST / 2.0) } else { MOST / 2.0 };
    let weight = if logs.len() < LENDING { 0.0 } else { 2.0 * half };
    Some(Prior { weight, df: CREDIT * weight, variance: (mean + digamma(half) - half.ln()).exp() })
}

/// Of each comparison made in rounds that scatter: the logarithm of its variance, without what few rounds make it too small on
/// average, and half its degrees of freedom.
fn scatters(ratios: &[Ratio]) -> Vec<(f64, f64)> {
    let known = ratios.iter().filter_map(|r| Some((r.scatter?, r.rounds?)));
    let known =
        known.filter(|(s, n)| *s > 0.0 && s.is_finite() && *n > 1).map(|(s, n)| (s, (n - 1) as f64 / 2.0));
    known.map(|(s, half)| (s.ln() - digamma(half) + half.ln(), half)).collect()
}

/// The geometric mean of their variances, which neither a few large ones nor chance move far; `None` where none scatters.
pub(crate) fn typical_variance(ratios: &[Ratio]) -> Option<f64> {
    let known = scatters(ratios);
    let sum = known.iter().map(|(log, _)| log).sum::<f64>();
    (!known.is_empty()).then(|| (sum / known.len() as f64).exp())
}

/// A comparison with its interval as it is known with the others' scatter; unchanged where it wasn't made in rounds, or in
/// six or more.
///
/// The variance is Smyth's weighted mean of the prior's and its own, but never below its own: a comparison that
/// scatters more than the others isn't made surer than it is. Nor is it below a tenth of what is usual: three
/// rounds that agree that well agree by chance, more often than Student's t knows where trials are bimodal. So rounds that agree
/// to the last digit, which have no interval of their own, have one by the others' scatter.
#[must_use]
pub fn moderated(ratio: &Ratio, prior: &Prior) -> Ratio {
    let (Some(own), Some(n)) = (ratio.scatter, ratio.rounds) else { return *ratio };
    if !(MIN_TRIALS..=FEW_ROUNDS).contains(&n) {
        return *ratio;
    }
    let df = (n - 1) as f64;
    let shared = (prior.weight * prior.variance + df * own) / (prior.weight + df);
    let scatter = shared.max(own).max(FLOOR * prior.variance) / n as f64;
    if !(scatter > 0.0 && scatter.is_finite()) {
        return *ratio;
    }
    let alone = ratio.uncertainty.unwrap_or_else(|| Uncertainty::symmetric(0.0, df, 0.0));
    ratio.with(Some(Uncertainty { scatter, df: prior.df + df, ..alone }))
}

/// The second derivative of the logarithm of the gamma function, for x > 0 (Abramowitz and Stegun, 6.4.6 and 6.4.12).
fn trigamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < 10.0 {
        below += 1.0 / (x * x);
        x += 1.0;
    }
    let f = 1.0 / (x * x);
    below + 1.0 / x + f / 2.0 + f / x * (1.0 / 6.0 - f * (1.0 / 30.0 - f * (1.0 / 42.0 - f / 30.0)))
}

/// Where [`trigamma`], which falls all the way, has this value; by halving, as it is needed once a family.
fn trigamma_inverse(value: f64) -> f64 {
    let (mut low, mut high) = (1e-6_f64, 1e6_f64);
    for _ in 0..100 {
        let middle = (low * high).sqrt();
        if trigamma(middle) > value {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low * high).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Group;
    use crate::ratio::{Direction, tax};
    use crate::rng::Rng;
    use crate::student::t_quantile;
    use proptest::prelude::*;

    /// A comparison of `n` rounds whose ratios scatter by about `sd`.
    fn made(sd: f64, n: usize, rng: &mut Rng) -> Ratio {
        let mut uniform = || rng.below(1 << 30) as f64 / f64::from(1 << 30) - 0.5;
        let values: Vec<f64> = (0..n).map(|_| (sd * 12f64.sqrt() * uniform()).exp()).collect();
        let (rounds, ones) = ((0..n as u32).collect::<Vec<u32>>(), vec![1.0; n]);
        let (c, b) = (Group::in_rounds(&values, &rounds), Group::in_rounds(&ones, &rounds));
        tax(&c, &b, Direction::Lower, 1).unwrap()
    }

    fn family(members: usize, n: usize) -> Vec<Ratio> {
        let mut rng = Rng::new(7);
        (0..members).map(|_| made(0.1, n, &mut rng)).collect()
    }

    fn width(ratio: &Ratio) -> f64 {
        let (low, high) = ratio.interval.unwrap();
        (high / low).ln()
    }

    #[test]
    fn functions_of_tables() {
        // Abramowitz and Stegun, table 6.1: trigamma(1) = pi^2 / 6, trigamma(1/2) = pi^2 / 2, trigamma(2) one less.
        let square = std::f64::consts::PI.powi(2);
        for (x, expected) in [(1.0, square / 6.0), (0.5, square / 2.0), (2.0, square / 6.0 - 1.0)] {
            assert!((trigamma(x) - expected).abs() < 1e-9, "{x}");
            assert!((trigamma_inverse(expected) / x - 1.0).abs() < 1e-9, "{x}");
        }
    }

    #[test]
    fn scatter_that_is_alike_is_borrowed_up_to_the_bound() {
        let alike = prior(&family(40, 3)).unwrap();
        assert!((1.5..=MOST).contains(&alike.weight), "{alike:?}");
        assert_eq!(alike.df, alike.weight * CREDIT);
        assert!((0.03..0.3).contains(&alike.variance.sqrt()), "{alike:?}");
        let mut rng = Rng::new(3);
        let unlike: Vec<Ratio> = (0..40).map(|i| made(0.001 * 1.3f64.powi(i), 3, &mut rng)).collect();
        assert!(prior(&unlike).unwrap().weight < 1.0);
    }

    #[test]
    fn few_comparisons_lend_nothing_and_fewer_show_nothing() {
        assert_eq!(prior(&family(2, 3)), None);
        let few = prior(&family(9, 3)).unwrap();
        assert_eq!((few.weight, few.df), (0.0, 0.0));
        let ratios = family(9, 3);
        for ratio in &ratios {
            assert!(width(&moderated(ratio, &few)) >= width(ratio) - 1e-12);
        }
    }

    #[test]
    fn more_rounds_speak_for_themselves() {
        let shared = prior(&family(20, 6)).unwrap();
        for ratio in family(20, 6) {
            assert_eq!(moderated(&ratio, &shared), ratio);
        }
        // Three rounds that agree by chance are no certainty.
        let agreeing = Ratio { scatter: Some(1e-9), ..family(1, 3)[0] };
        assert!(width(&moderated(&agreeing, &prior(&family(20, 3)).unwrap())) > 0.1);
        // Nor are those that agree to the last digit: they have a tenth of what is usual.
        let rounds = [0, 1, 2];
        let (c, b) = (Group::in_rounds(&[1.1; 3], &rounds), Group::in_rounds(&[1.0; 3], &rounds));
        let same = tax(&c, &b, Direction::Lower, 1).unwrap();
        assert_eq!((same.scatter, same.interval), (Some(0.0), None));
        let usual = Prior { weight: 0.0, df: 0.0, variance: 0.03 };
        let half = t_quantile(0.975, 2.0) * (0.1 * 0.03f64 / 3.0).sqrt();
        assert!((width(&moderated(&same, &usual)) - 2.0 * half).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn a_comparison_that_scatters_more_gains_degrees_of_freedom_alone(
            weight in 0.0..4.0f64, variance in 1e-6..1.0f64, seed in 0u64..1000, n in 3usize..6,
        ) {
            let ratio = made(0.1, n, &mut Rng::new(seed));
            let given = Prior { weight, df: weight * CREDIT, variance };
            let with = moderated(&ratio, &given);
            let own = ratio.scatter.unwrap();
            let df = with.uncertainty.unwrap().df;
            let least = 2.0 * t_quantile(0.975, df) * (own / n as f64).sqrt();
            prop_assert!(width(&with) >= least * (1.0 - 1e-9));
            prop_assert_eq!(with.tax, ratio.tax);
        }
    }
}
