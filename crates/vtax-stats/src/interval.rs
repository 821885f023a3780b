//! Intervals of one group of trials, and the pieces a ratio is made of.

use crate::center::{median_interval, memory};
use crate::describe::{at, moments, sorted};
use crate::rng::Rng;
use crate::student::{normal_quantile, normal_tail, t_quantile};
use crate::uncertainty::{Uncertainty, hidden};

/// Below this many trials there is no interval: two trials that happen to agree say nothing.
pub const MIN_TRIALS: usize = 3;

/// From this many trials in every group the bootstrap is used; below it there are too few
/// different resamples, and Student's t on logarithms is closer to its promise.
const BOOTSTRAP_TRIALS: usize = 6;

/// Added to the autocorrelation of a single group, over the number of its trials; half of it for two.
const SPARE: f64 = 0.15;

/// Resamples: at the far tail used for 6 trials (about 0.7 %) some 28 lie beyond the limit.
const RESAMPLES: usize = 4000;

/// The trials of one cell in one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group<'a> {
    /// One value per valid trial, in the order of time.
    pub values: &'a [f64],
    /// The round of each value; empty where rounds are not known.
    pub rounds: &'a [u32],
    /// Relative width within which each value could lie unseen: `ln(upper / lower)` of a capacity
    /// bracket, 0.001 for a histogram of 3 digits; 0 where exact. All trials may err the same way.
    pub resolution: f64,
    /// True where values are only lower bounds: the system was never driven to its limit, or too much of it had no answer.
    pub censored: bool,
}

impl<'a> Group<'a> {
    /// Exact values of trials whose rounds are not known.
    #[must_use]
    pub fn exact(values: &'a [f64]) -> Self {
        Self::in_rounds(values, &[])
    }

    /// Exact values, each with the round it was measured in.
    #[must_use]
    pub fn in_rounds(values: &'a [f64], rounds: &'a [u32]) -> Self {
        Self { values, rounds, resolution: 0.0, censored: false }
    }
}

/// A typical value with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The median over trials.
    pub center: f64,
    /// 95 % interval of the median of all trials that could be made; `None` below [`MIN_TRIALS`].
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// The estimate with its interval cut to what a value can be at all: a time is never below 0, a share never above 1.
    /// The truth isn't in what is cut off, so the interval holds it as often as before. It keeps its center.
    #[must_use]
    pub fn within(self, (least, most): (f64, f64)) -> Self {
        let cut =
            |(low, high): (f64, f64)| (low.max(least).min(self.center), high.min(most).max(self.center));
        Self { interval: self.interval.map(cut), ..self }
    }
}

/// The typical value of a group; `None` where it is empty or holds a value that isn't finite.
///
/// The interval holds the median of *any* distribution of independent trials with at least 93 %, and is
/// widened where neighbouring trials resemble each other. It is as wide below 6 trials as it has to be.
#[must_use]
pub fn estimate(group: &Group<'_>) -> Option<Estimate> {
    let values = sorted(group.values)?;
    if values.len() < MIN_TRIALS {
        return Some(Estimate { center: at(&values, 0.5), interval: None });
    }
    let positive = values[0] > 0.0;
    let scale = |v: &f64| if positive { v.ln() } else { *v };
    let back = |v: f64| if positive { v.exp() } else { v };
    let scaled: Vec<f64> = values.iter().map(scale).collect();
    let ordered: Vec<f64> = group.values.iter().map(scale).collect();
    let (median, (low, high)) = median_interval(&scaled);
    let stretch = memory(&[&ordered], SPARE).sqrt();
    // More trials don't cure it.
    let unseen = if positive { normal_quantile(0.975) * hidden(group.resolution).sqrt() } else { 0.0 };
    let below = ((median - low) * stretch).hypot(unseen);
    let above = ((high - median) * stretch).hypot(unseen);
    Some(Estimate { center: back(median), interval: Some((back(median - below), back(median + above))) })
}

/// One group on the logarithmic scale that ratios are made on.
#[derive(Debug)]
pub(crate) struct Part {
    /// In the order of time.
    values: Vec<f64>,
    pub(crate) mean: f64,
    pub(crate) variance: f64,
    resolution: f64,
}

impl Part {
    pub(crate) fn of_logs(positive: &[f64], resolution: f64) -> Self {
        Self::new(positive.iter().map(|v| v.ln()).collect(), resolution)
    }

    pub(crate) fn new(values: Vec<f64>, resolution: f64) -> Self {
        let (mean, variance) = moments(&values);
        Self { values, mean, variance, resolution }
    }

    fn n(&self) -> f64 {
        self.values.len() as f64
    }
}

/// How far the sum of `sign * mean` over groups may be off; `None` where one has too few trials.
///
/// The scatter of Welch's t: its degrees of freedom are those of Welch and Satterthwaite. From [`BOOTSTRAP_TRIALS`] in every
/// group on it leans the way the trials do.
pub(crate) fn of_groups(parts: &[(f64, &Part)], seed: u64) -> Option<Uncertainty> {
    if parts.iter().any(|(_, p)| p.values.len() < MIN_TRIALS) {
        return None;
    }
    let groups: Vec<&[f64]> = parts.iter().map(|(_, p)| p.values.as_slice()).collect();
    let memory = memory(&groups, SPARE / 2.0);
    let plain: f64 = parts.iter().map(|(_, p)| p.variance / p.n()).sum();
    let fourth: f64 = parts.iter().map(|(_, p)| (p.variance / p.n()).powi(2) / (p.n() - 1.0)).sum();
    let unseen: f64 = parts.iter().map(|(_, p)| hidden(p.resolution)).sum();
    let found = Uncertainty::symmetric(memory * plain, plain * plain / fourth, unseen);
    let many = parts.iter().all(|(_, p)| p.values.len() >= BOOTSTRAP_TRIALS);
    if plain > 0.0 && many {
        let half = t_quantile(0.975, found.df) * plain.sqrt();
        let (low, high) = bootstrap(parts, half, seed);
        return Some(Uncertainty { lean: (-low / half, high / half), ..found });
    }
    Some(found)
}

/// The same for one group whose values are symmetric by design: Student's t as it stands.
pub(crate) fn of_rounds(part: &Part) -> Option<Uncertainty> {
    let known = part.values.len() >= MIN_TRIALS;
    known.then(|| Uncertainty::symmetric(part.variance / part.n(), part.n() - 1.0, hidden(part.resolution)))
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
pub(crate) fn pick(values: &mut [f64], q: f64) -> f64 {
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
        // Logarithms -0.1, 0, 0.1 in an order without memory: sd 0.1, t(0.975, 2) = 4.302653.
        let values = [1.0, 0.1f64.exp(), (-0.1f64).exp()];
        let e = estimate(&Group::exact(&values)).unwrap();
        let stretch = memory(&[&[0.0, 0.1, -0.1]], SPARE).sqrt();
        let half = 4.302_653 * 0.1 / 3f64.sqrt() * stretch;
        let (low, high) = e.interval.unwrap();
        assert!((e.center - 1.0).abs() < 1e-12);
        assert!((low.ln() + half).abs() < 1e-5 && (high.ln() - half).abs() < 1e-5, "{low} {high}");
    }

    /// As methodology.md has it.
    #[test]
    fn of_an_even_number_it_is_the_geometric_mean_of_the_middle_two() {
        let center = |values: &[f64]| estimate(&Group::exact(values)).unwrap().center;
        assert!((center(&[1.0, 4.0, 9.0, 100.0]) - 6.0).abs() < 1e-12);
        assert!((center(&[1.0, 4.0, 9.0]) - 4.0).abs() < 1e-12);
        // Too few for an interval, and values without a logarithm: their mean.
        assert!((center(&[4.0, 9.0]) - 6.5).abs() < 1e-12);
        assert!((center(&[0.0, 4.0, 9.0, 100.0]) - 6.5).abs() < 1e-12);
    }

    #[test]
    fn agreement_is_not_certainty() {
        let same = Group { resolution: 0.05, ..Group::exact(&[100.0; 5]) };
        let (low, high) = estimate(&same).unwrap().interval.unwrap();
        assert!(low < 97.3 && high > 102.7, "{low} {high}");
        assert_eq!(estimate(&Group::exact(&[1.0, 1.0])).unwrap().interval, None);
    }

    #[test]
    fn memory_widens_and_alternation_does_not_shrink() {
        let width = |v: &[f64]| {
            let (low, high) = estimate(&Group::exact(v)).unwrap().interval.unwrap();
            (high / low).ln()
        };
        let drifting = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7];
        let alternating = [1.0, 1.7, 1.1, 1.6, 1.2, 1.5, 1.3, 1.4];
        assert!(width(&drifting) > 2.0 * width(&alternating));
    }

    #[test]
    fn a_time_is_never_below_zero_and_a_share_never_above_one() {
        // One trial had none of it: no logarithms, and Student's t reaches below 0.
        let some = estimate(&Group::exact(&[0.0, 90_000.0, 120_000.0])).unwrap();
        let (low, high) = some.interval.unwrap();
        assert!(low < 0.0 && high > 120_000.0, "{low} {high}");
        assert_eq!(some.within((0.0, f64::INFINITY)).interval, Some((0.0, high)));
        let most = estimate(&Group::exact(&[0.9, 1.0, 0.95])).unwrap();
        assert!(most.interval.unwrap().1 > 1.0, "{most:?}");
        let (low, high) = most.within((0.0, 1.0)).interval.unwrap();
        assert!(low == most.interval.unwrap().0 && high == 1.0, "{low} {high}");
        // Two of more than six trials are between which it lies, unless neighbours resemble each other.
        let drifting = estimate(&Group::exact(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])).unwrap();
        assert!(drifting.interval.unwrap().1 > 8.0, "{drifting:?}");
    }

    #[test]
    fn one_wild_trial_does_not_move_the_typical_one() {
        let e = estimate(&Group::exact(&[10.0, 10.2, 9.9, 10.1, 9.8, 10.0, 10.1, 55.0, 9.9, 10.0])).unwrap();
        assert!((e.center - 10.0).abs() < 0.06 && e.interval.unwrap().1 < 11.0, "{e:?}");
    }

    proptest! {
        #[test]
        fn picking_is_sorting(mut v in prop::collection::vec(-1e6..1e6f64, 1..50), q in 0.0..=1.0f64) {
            let expected = crate::describe::quantile(&v, q).unwrap();
            prop_assert!((pick(&mut v, q) - expected).abs() < 1e-6);
        }

        #[test]
        fn interval_holds_its_center(v in prop::collection::vec(0.0..1e9f64, 3..12)) {
            let e = estimate(&Group::exact(&v)).unwrap();
            let (low, high) = e.interval.unwrap();
            prop_assert!(low <= e.center * (1.0 + 1e-9) && e.center <= high * (1.0 + 1e-9) + 1e-9);
            let (low, high) = e.within((0.0, f64::INFINITY)).interval.unwrap();
            prop_assert!(low >= 0.0 && low <= e.center && e.center <= high);
        }

        #[test]
        fn the_unit_does_not_matter(v in prop::collection::vec(0.1..1e6f64, 3..12), power in -20i32..20) {
            let scaled: Vec<f64> = v.iter().map(|x| x * 2f64.powi(power)).collect();
            let (a, b) = (estimate(&Group::exact(&v)).unwrap(), estimate(&Group::exact(&scaled)).unwrap());
            let (x, y) = (a.interval.unwrap(), b.interval.unwrap());
            let back = 2f64.powi(-power);
            prop_assert!((y.0 * back / x.0 - 1.0).abs() < 1e-9 && (y.1 * back / x.1 - 1.0).abs() < 1e-9);
        }
    }
}
