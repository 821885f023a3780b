//! Intervals of one group of trials, and the pieces a ratio is made of.

use crate::center::{ENCLOSING, agree, median_interval, memory, tells_nothing};
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
    /// 95 % interval of the median of all trials that could be made; `None` below [`MIN_TRIALS`], and where fewer than
    /// [`ENCLOSING`] all agree.
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
/// widened where neighbouring trials resemble each other. It is as wide below 6 trials as it has to be. Fewer than 6 that
/// all agree have none, unless their resolution gives them one.
#[must_use]
pub fn estimate(group: &Group<'_>) -> Option<Estimate> {
    let values = sorted(group.values)?;
    if values.len() < MIN_TRIALS {
        return Some(Estimate { center: at(&values, 0.5), interval: None });
    }
    let scale = if values[0] > 0.0 { &LOGARITHMS } else { &PLAIN };
    let (median, interval) = scale.median(&values, group);
    Some(Estimate { center: (scale.back)(median), interval })
}

/// The same of counts: lost requests, connections. The center is the median as it is.
///
/// Few counts are far from normal on logarithms: of 2, 3 and 76 an interval made there ends at 81,447. The square root of a count
/// and 3/8 scatters about as much whatever the count is (Anscombe, "The transformation of Poisson, binomial and negative-binomial
/// data", Biometrika 35, 1948), and has a place for none. What neighbours have in common isn't told from fewer than 6.
#[must_use]
pub fn estimate_counts(group: &Group<'_>) -> Option<Estimate> {
    let values = sorted(group.values)?;
    let interval = (values.len() >= MIN_TRIALS).then(|| COUNTS.median(&values, group).1).flatten();
    Some(Estimate { center: at(&values, 0.5), interval })
}

/// What an interval is made on.
struct Scale {
    to: fn(f64) -> f64,
    back: fn(f64) -> f64,
    /// How far a value there moves for each share by which the value itself does.
    moves: fn(f64) -> f64,
    /// Fewer values aren't asked for what neighbours have in common.
    memory_from: usize,
}

const LOGARITHMS: Scale = Scale { to: f64::ln, back: f64::exp, moves: |_| 1.0, memory_from: 0 };

/// Of values without a logarithm.
const PLAIN: Scale = Scale { to: |v| v, back: |v| v, moves: f64::abs, memory_from: 0 };

/// Anscombe's constant.
const THREE_EIGHTHS: f64 = 0.375;

const COUNTS: Scale = Scale {
    to: |v| (v.max(0.0) + THREE_EIGHTHS).sqrt(),
    back: count,
    moves: |root| count(root) / (2.0 * root),
    memory_from: ENCLOSING,
};

/// The count of which this is the root; none below 0.
fn count(root: f64) -> f64 {
    (root.max(0.0).powi(2) - THREE_EIGHTHS).max(0.0)
}

impl Scale {
    /// The median on the scale of three sorted values or more, and its interval as values.
    fn median(&self, sorted: &[f64], group: &Group<'_>) -> (f64, Option<(f64, f64)>) {
        let scaled: Vec<f64> = sorted.iter().map(|v| (self.to)(*v)).collect();
        let (median, (low, high)) = median_interval(&scaled);
        // More trials don't cure it.
        let unseen = normal_quantile(0.975) * hidden(group.resolution).sqrt() * (self.moves)(median);
        if unseen <= 0.0 && tells_nothing(&scaled) {
            return (median, None);
        }
        let ordered: Vec<f64> = group.values.iter().map(|v| (self.to)(*v)).collect();
        let remembers = scaled.len() >= self.memory_from;
        let stretch = if remembers { memory(&[&ordered], SPARE).sqrt() } else { 1.0 };
        let below = ((median - low) * stretch).hypot(unseen);
        let above = ((high - median) * stretch).hypot(unseen);
        (median, Some(((self.back)(median - below), (self.back)(median + above))))
    }
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
        // What rounding makes of values that agree is no scatter.
        let variance = if agree(&values) { 0.0 } else { variance };
        Self { values, mean, variance, resolution }
    }

    fn n(&self) -> f64 {
        self.values.len() as f64
    }
}

/// How far the sum of `sign * mean` over groups may be off; `None` where one has too few trials, or where the trials of each agree
/// and are too few to tell anything by that.
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
    let same = groups.iter().all(|values| agree(values));
    if unseen <= 0.0 && same && groups.iter().any(|values| tells_nothing(values)) {
        return None;
    }
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
    within_rounds(&part.values, part.variance, hidden(part.resolution))
}

/// The same of logarithms with this variance, of which so much is hidden.
pub(crate) fn within_rounds(logs: &[f64], variance: f64, unseen: f64) -> Option<Uncertainty> {
    let n = logs.len() as f64;
    let known = logs.len() >= MIN_TRIALS && (unseen > 0.0 || !tells_nothing(logs));
    known.then(|| Uncertainty::symmetric(variance / n, n - 1.0, unseen))
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
    fn few_trials_that_agree_to_the_digit_have_no_interval() {
        let is = |found: Estimate, n: usize, value: f64| {
            assert!((found.center - value).abs() < 1e-9, "{n}: {found:?}");
            // All of five lie on one side of the median in 6 of 100 cases, all of six in 3.
            assert_eq!(found.interval.is_some(), n >= 6, "{n}: {found:?}");
            let (low, high) = found.interval.unwrap_or((value, value));
            assert!((low - value).abs() < 1e-9 && (high - value).abs() < 1e-9, "{n}: {found:?}");
        };
        for n in 3..8 {
            for value in [0.0, 0.1, 7.0] {
                let values = vec![value; n];
                is(estimate(&Group::exact(&values)).unwrap(), n, value);
                is(estimate_counts(&Group::exact(&values)).unwrap(), n, value);
            }
        }
        assert!(estimate(&Group::exact(&[0.1, 0.1, 0.2])).unwrap().interval.is_some());
    }

    /// By hand for 2, 3, 76: roots 1.541104, 1.837117 and 8.739279, their mean 4.039167, their sd 4.073107; t(0.975, 2) = 4.302653,
    /// so that the upper root is 14.157421.
    #[test]
    fn counts_are_bounded_as_counts() {
        let of = |values: &[f64]| estimate_counts(&Group::exact(values)).unwrap();
        let expected: [(&[f64], f64, f64); 5] = [
            (&[2.0, 3.0, 76.0], 0.0, 200.0548),
            (&[1.0, 3.0, 32.0], 0.0, 79.8819),
            (&[3.0, 0.0, 0.0], 0.0, 7.3377),
            (&[4.0, 3.0, 8.0], 0.1455, 12.9069),
            (&[1344.0, 1348.0, 1427.0], 1235.7690, 1490.8905),
        ];
        for (values, low, high) in expected {
            let found = of(values).interval.unwrap();
            assert!((found.0 - low).abs() < 1e-3 && (found.1 - high).abs() < 1e-3, "{values:?}: {found:?}");
        }
        // The median as it is, also of an even number, and whatever the order.
        assert_eq!((of(&[76.0, 2.0, 3.0]), of(&[4.0, 9.0]).center), (of(&[2.0, 3.0, 76.0]), 6.5));
        assert_eq!(of(&[0.0, 8.0]).interval, None);
        // From 6 on neighbours count here as well.
        let width = |values: &[f64]| of(values).interval.map(|(low, high)| high - low).unwrap();
        let rising = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
        assert!(width(&rising) > 1.5 * width(&[10.0, 60.0, 20.0, 50.0, 30.0, 40.0]));
        assert_eq!(estimate_counts(&Group::exact(&[1.0, f64::NAN, 2.0])), None);
    }

    /// 1.959964 * 0.1 / sqrt(12) = 0.056579 of the median is hidden, whether or not a trial is 0.
    #[test]
    fn a_resolution_holds_beside_a_zero_too() {
        let values = [0.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0];
        let with = |resolution| estimate(&Group { resolution, ..Group::exact(&values) }).unwrap();
        let (blind, seen) = (with(0.0), with(0.1));
        assert_eq!((blind.center, seen.center), (100.0, 100.0));
        let ((_, high), (low, with)) = (blind.interval.unwrap(), seen.interval.unwrap());
        assert!((high - 100.0).abs() < 1e-9 && (with - 105.657_9).abs() < 1e-3, "{high} {with}");
        let below = 100.0 - blind.interval.unwrap().0;
        assert!((100.0 - low - below.hypot(5.657_9)).abs() < 1e-3, "{low} {below}");
        // Counts: at the root of 100.375, 10.018733, a share of 0.056579 is 0.282366.
        let group = Group { resolution: 0.1, ..Group::exact(&[100.0; 3]) };
        let (low, high) = estimate_counts(&group).unwrap().interval.unwrap();
        assert!((high - 105.737_6).abs() < 1e-3 && (low - 94.421_9).abs() < 1e-3, "{low} {high}");
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
