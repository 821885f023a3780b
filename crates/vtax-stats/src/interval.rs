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

/// [`estimate`] for values in the order of time: where neighbouring trials resemble each other, each
/// says less than an independent one, and the interval is widened for it.
///
/// The standard error grows by √((1 + r) / (1 - r)), the effective sample size of a first-order
/// autoregression (Bayley and Hammersley 1946). r is the first autocorrelation, corrected by 1/n as
/// that of so few independent values is negative on average, and never below 0: alternation could be
/// chance, and an interval must not shrink by chance.
#[must_use]
pub fn estimate_in_order(group: &Group<'_>, seed: u64) -> Option<Estimate> {
    let found = estimate(group, seed)?;
    let positive = group.values.iter().all(|v| *v > 0.0);
    let scale = |v: f64| if positive { v.ln() } else { v };
    let values: Vec<f64> = group.values.iter().map(|v| scale(*v)).collect();
    let stretch = memory(&values).sqrt();
    let center = scale(found.center);
    let away = |end: f64| {
        let moved = center + (scale(end) - center) * stretch;
        if positive { moved.exp() } else { moved }
    };
    Some(Estimate { interval: found.interval.map(|(low, high)| (away(low), away(high))), ..found })
}

/// How many times larger the variance of the mean is than for independent values; 1 or more.
fn memory(values: &[f64]) -> f64 {
    let (mean, variance) = moments(values);
    let n = values.len() as f64;
    let all = variance * (n - 1.0);
    let neighbours: f64 = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    // Above 0.8 the estimate from some trials is all chance.
    let r = if all > 0.0 { (neighbours / all + 1.0 / n).clamp(0.0, 0.8) } else { 0.0 };
    (1.0 + r) / (1.0 - r)
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

    pub(crate) fn new(values: Vec<f64>, resolution: f64) -> Self {
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

    /// Distances from the mean between which it lies with 95 %, corrected for the skewness of few values
    /// by Hall's cubic transformation ("On the removal of skewness by transformation", Journal of the
    /// Royal Statistical Society B 54, 1992) with the adjusted Fisher-Pearson coefficient; 3 values or more.
    fn skewed_ends(&self) -> (f64, f64) {
        let (n, sd) = (self.n(), self.variance.sqrt());
        let third: f64 = self.values.iter().map(|v| ((v - self.mean) / sd).powi(3)).sum();
        let skew = third * n / ((n - 1.0) * (n - 2.0));
        let g = skew / (6.0 * n.sqrt());
        let t = t_quantile(0.975, n - 1.0);
        let back = |y: f64| match y - g {
            y if g.abs() < 1e-9 => y,
            y => ((1.0 + 6.0 * g * y).cbrt() - 1.0) / (2.0 * g),
        };
        let error = sd / n.sqrt();
        (-back(t) * error, -back(-t) * error)
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
        let resampled = parts.iter().all(|(_, p)| p.values.len() >= BOOTSTRAP_TRIALS) && scatter > 0.0;
        if resampled || (parts.len() == 1 && scatter > 0.0) {
            let half = t_quantile(0.975, scatter * scatter / fourth) * scatter.sqrt();
            let (mut low, mut high) = if resampled { bootstrap(parts, half, seed) } else { (-half, half) };
            // In a ratio of groups alike skewness cancels out; in a single group it makes the end on
            // the tail's side too near, with the bootstrap as with Student's t.
            if let [(sign, part)] = parts {
                let ends = part.skewed_ends();
                let (a, b) = (sign * ends.0, sign * ends.1);
                (low, high) = (low.min(a).min(b), high.max(a).max(b));
            }
            // 1.96 standard errors, as infinitely many degrees of freedom are credited to resolution.
            let widen = |end: f64| end.hypot(1.96 * resolution.sqrt());
            return Some(Self { low: -widen(low), high: widen(high), error, df });
        }
        let half = t_quantile(0.975, df) * error;
        Some(Self { low: -half, high: half, error, df })
    }

    /// The same for one group whose values are symmetric by design: Student's t as it stands.
    pub(crate) fn student(part: &Part) -> Option<Self> {
        if part.values.len() < MIN_TRIALS {
            return None;
        }
        let (scatter, resolution) = (part.variance / part.n(), part.resolution.powi(2) / 12.0);
        let total = scatter + resolution;
        let df = if scatter > 0.0 { (total / scatter).powi(2) * (part.n() - 1.0) } else { f64::INFINITY };
        let half = t_quantile(0.975, df) * total.sqrt();
        Some(Self { low: -half, high: half, error: total.sqrt(), df })
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
    // Standard deviation of the bootstrap distribution, known without resampling.
    let sd: f64 = parts.iter().map(|(_, p)| p.variance * (p.n() - 1.0) / (p.n() * p.n())).sum::<f64>().sqrt();
    let tail = normal_tail(half / sd);
    let low = pick(&mut sums, tail);
    let high = pick(&mut sums, 1.0 - tail);
    (low.min(0.0), high.max(0.0))
}

/// [`at`](crate::describe::at) without sorting all for two quantiles; leaves `values` in another order.
fn pick(values: &mut [f64], q: f64) -> f64 {
    let position = q.clamp(0.0, 1.0) * (values.len() - 1) as f64;
    let fraction = position.fract();
    let (_, low, above) = values.select_nth_unstable_by(position as usize, f64::total_cmp);
    let low = *low;
    let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
    low * (1.0 - fraction) + high * fraction
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

    #[test]
    fn memory_widens_and_alternation_does_not_shrink() {
        let width = |v: &[f64]| {
            let (low, high) = estimate_in_order(&Group::exact(v), 1).unwrap().interval.unwrap();
            (high / low).ln()
        };
        let drifting = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7];
        let alternating = [1.0, 1.7, 1.1, 1.6, 1.2, 1.5, 1.3, 1.4];
        let (low, high) = estimate(&Group::exact(&drifting), 1).unwrap().interval.unwrap();
        assert!(width(&drifting) > 1.5 * (high / low).ln());
        assert!((width(&alternating) - (high / low).ln()).abs() < 1e-12);
    }

    #[test]
    fn a_tail_moves_its_end_out() {
        // Logarithms 0, 0, 0, 0, 1: the upper end is further away than the lower.
        let e = estimate(&Group::exact(&[1.0, 1.0, 1.0, 1.0, 1f64.exp()]), 1).unwrap();
        let (low, high) = e.interval.unwrap();
        assert!(high.ln() - e.center.ln() > 1.2 * (e.center.ln() - low.ln()), "{low} {high}");
    }

    proptest! {
        #[test]
        fn picking_is_sorting(mut v in prop::collection::vec(-1e6..1e6f64, 1..50), q in 0.0..=1.0f64) {
            let expected = crate::describe::quantile(&v, q).unwrap();
            prop_assert!((pick(&mut v, q) - expected).abs() < 1e-6);
        }

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
