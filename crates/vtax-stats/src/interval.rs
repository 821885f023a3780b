//! Intervals of one group of trials, and the pieces a ratio is made of.

use crate::describe::{moments, sorted};
use crate::rng::Rng;
use crate::student::{normal_tail, t_quantile};

/// Below this many trials there is no interval: two trials that happen to agree say nothing.
pub const MIN_TRIALS: usize = 3;

/// From this many trials in every group the bootstrap is used; below it there are too few
/// different resamples, and Student's t on logarithms is closer to its promise.
const BOOTSTRAP_TRIALS: usize = 6;

/// Resamples: at the far tail used for 6 trials (about 0.7 %) some 28 lie beyond the limit.
const RESAMPLES: usize = 4000;

/// The trials of one cell in one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group<'a> {
    /// One value per valid trial.
    pub values: &'a [f64],
    /// Relative width within which each value could lie unseen: `ln(upper / lower)` of a capacity
    /// bracket, 0.001 for a histogram of 3 digits; 0 where exact. All trials may err the same way.
    pub resolution: f64,
    /// True where values are only lower bounds: the system was never driven to its limit.
    pub censored: bool,
}

impl<'a> Group<'a> {
    /// Exact values.
    #[must_use]
    pub fn exact(values: &'a [f64]) -> Self {
        Self { values, resolution: 0.0, censored: false }
    }
}

/// A typical value with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Geometric mean where all values are positive, else the arithmetic mean.
    pub center: f64,
    /// 95 % interval of `center`; `None` below [`MIN_TRIALS`].
    pub interval: Option<(f64, f64)>,
}

/// The typical value of a group; `None` where it is empty or holds a value that isn't finite.
///
/// The same seed gives the same interval, whatever the order of trials.
#[must_use]
pub fn estimate(group: &Group<'_>, seed: u64) -> Option<Estimate> {
    let values = sorted(group.values)?;
    if values[0] > 0.0 {
        let part = Part::of_logs(&values, group.resolution);
        let spread = Spread::of(&[(1.0, &part)], seed);
        let at = |d: f64| (part.mean + d).exp();
        return Some(Estimate { center: part.mean.exp(), interval: spread.map(|s| (at(s.low), at(s.high))) });
    }
    let part = Part::new(values, 0.0);
    let spread = Spread::of(&[(1.0, &part)], seed);
    Some(Estimate { center: part.mean, interval: spread.map(|s| (part.mean + s.low, part.mean + s.high)) })
}

/// One group on the scale the work is done on.
#[derive(Debug)]
pub(crate) struct Part {
    values: Vec<f64>,
    pub(crate) mean: f64,
    variance: f64,
    resolution: f64,
}

impl Part {
    pub(crate) fn of_logs(positive: &[f64], resolution: f64) -> Self {
        Self::new(positive.iter().map(|v| v.ln()).collect(), resolution)
    }

    fn new(values: Vec<f64>, resolution: f64) -> Self {
        let (mean, variance) = moments(&values);
        Self {
            values,
            mean,
            variance,
            resolution: if resolution.is_finite() { resolution.max(0.0) } else { 0.0 },
        }
    }

    fn n(&self) -> f64 {
        self.values.len() as f64
    }
}

/// How far a signed sum of group means may be off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    /// Lower end, as a distance from the estimate (negative).
    pub(crate) low: f64,
    /// Upper end.
    pub(crate) high: f64,
    /// Standard error with everything in it.
    pub(crate) error: f64,
    /// Its effective degrees of freedom.
    pub(crate) df: f64,
}

impl Spread {
    /// The 95 % interval of the sum of `sign * mean` over groups; `None` where one has too few trials.
    ///
    /// Scatter between trials is combined with the measurement's resolution, which more trials
    /// don't cure, as the GUM combines type A and type B uncertainty (JCGM 100:2008, 4.3.7 for the
    /// rectangular distribution's width / sqrt(12), G.4.1 for the Welch-Satterthwaite formula).
    pub(crate) fn of(parts: &[(f64, &Part)], seed: u64) -> Option<Self> {
        if parts.iter().any(|(_, p)| p.values.len() < MIN_TRIALS) {
            return None;
        }
        let scatter: f64 = parts.iter().map(|(_, p)| p.variance / p.n()).sum();
        let fourth: f64 = parts.iter().map(|(_, p)| (p.variance / p.n()).powi(2) / (p.n() - 1.0)).sum();
        let resolution: f64 = parts.iter().map(|(_, p)| p.resolution.powi(2) / 12.0).sum();
        let total = scatter + resolution;
        let df = if fourth > 0.0 { total * total / fourth } else { f64::INFINITY };
        let error = total.sqrt();
        if parts.iter().all(|(_, p)| p.values.len() >= BOOTSTRAP_TRIALS) && scatter > 0.0 {
            let scatter_df = scatter * scatter / fourth;
            let (low, high) = bootstrap(parts, t_quantile(0.975, scatter_df) * scatter.sqrt(), seed);
            // 1.96 standard errors, as infinitely many degrees of freedom are credited to resolution.
            let widen = |end: f64| end.hypot(1.96 * resolution.sqrt());
            return Some(Self { low: -widen(low), high: widen(high), error, df });
        }
        let half = t_quantile(0.975, df) * error;
        Some(Self { low: -half, high: half, error, df })
    }
}

/// Percentile bootstrap over trials, expanded so that for normal values it is as wide as Student's t.
///
/// The plain percentile interval is too narrow by sqrt((n - 1) / n) and by normal instead of t
/// quantiles; for 6 trials it holds 90 % where it promises 95 %. The expanded one takes further
/// percentiles to make up for both (Hesterberg, "What teachers should know about the bootstrap",
/// The American Statistician 69, 2015, section 3.2) and still leans the way the data lean.
fn bootstrap(parts: &[(f64, &Part)], half: f64, seed: u64) -> (f64, f64) {
    let mut rng = Rng::new(seed);
    let mut sums = vec![0.0; RESAMPLES];
    for sum in &mut sums {
        for (sign, part) in parts {
            let n = part.values.len();
            let mean = (0..n).map(|_| part.values[rng.below(n)]).sum::<f64>() / part.n();
            *sum += sign * (mean - part.mean);
        }
    }
    sums.sort_by(f64::total_cmp);
    // Standard deviation of the bootstrap distribution, known without resampling.
    let sd: f64 = parts.iter().map(|(_, p)| p.variance * (p.n() - 1.0) / (p.n() * p.n())).sum::<f64>().sqrt();
    let tail = normal_tail(half / sd);
    let low = crate::describe::at(&sums, tail);
    let high = crate::describe::at(&sums, 1.0 - tail);
    (low.min(0.0), high.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_trials_by_hand() {
        // Logarithms -0.1, 0, 0.1: sd 0.1, se 0.1/sqrt(3), t(0.975, 2) = 4.302653.
        let values = [(-0.1f64).exp(), 1.0, 0.1f64.exp()];
        let e = estimate(&Group::exact(&values), 1).unwrap();
        let half = 4.302_653 * 0.1 / 3f64.sqrt();
        let (low, high) = e.interval.unwrap();
        assert!((e.center - 1.0).abs() < 1e-12);
        assert!((low.ln() + half).abs() < 1e-5 && (high.ln() - half).abs() < 1e-5);
    }

    #[test]
    fn agreement_is_not_certainty() {
        let same = Group { values: &[100.0; 5], resolution: 0.05, censored: false };
        let (low, high) = estimate(&same, 1).unwrap().interval.unwrap();
        assert!(low < 97.3 && high > 102.7, "{low} {high}");
        assert_eq!(estimate(&Group::exact(&[1.0, 1.0]), 1).unwrap().interval, None);
    }

    proptest! {
        #[test]
        fn interval_holds_its_center(v in prop::collection::vec(0.0..1e9f64, 3..12), seed: u64) {
            let e = estimate(&Group::exact(&v), seed).unwrap();
            let (low, high) = e.interval.unwrap();
            prop_assert!(low <= e.center * (1.0 + 1e-9) && e.center <= high * (1.0 + 1e-9) + 1e-9);
        }

        #[test]
        fn order_and_repetition_do_not_matter(v in prop::collection::vec(0.1..1e9f64, 1..12), turn in 0usize..12) {
            let mut w = v.clone();
            w.rotate_left(turn % v.len());
            prop_assert_eq!(estimate(&Group::exact(&v), 7), estimate(&Group::exact(&w), 7));
        }
    }
}
