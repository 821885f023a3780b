//! What to do with a trial's warm-up.
//!
//! [`steady`] takes scatter for independent from value to value. Queues and noisy machines don't do it that
//! favour: with a correlation of 0.5 it refuses every fifth of series that are as steady as they get,
//! and throwing such trials away would turn noise into bias. So what it finds is looked at again, by a
//! test that heeds correlation, and only a change that is certain, and large enough to matter, costs a
//! trial its start or its place in the figures.

use crate::describe::{at, median};
use crate::steady::{NoSteadyState, Steady, steady};

/// A change is certain when it is this many times its standard error. The largest of some forty splits
/// of a steady series is taken and its scatter is estimated from the same values, so this is well above
/// the 2 of a single comparison; `tests/settled.rs` has the false alarms that are left.
const CERTAIN: f64 = 4.0;

/// A change of level below this share is not worth cutting off.
const WORTH_CUTTING: f64 = 0.01;

/// Splits leave at least one in this many values on each side, and no fewer than three: what is shorter
/// may as well be a passing disturbance, cut off by the series' end.
const SHORTEST_SIDE: usize = 5;

/// Standard error of a median of normal values in units of a mean's, √(π/2).
const OF_A_MEDIAN: f64 = 1.2533;

/// Correlations beyond this can't be told from a change of level in series of this length.
const CORRELATION_MAX: f64 = 0.8;

/// From where the values of a trial's intervals count, or why none do.
///
/// As [`steady`], with two differences: a start is cut off only where it certainly differs from the
/// rest, and a series is refused only where its level certainly changed by more than `tolerance` (a share
/// of the level). What is neither is steady from its first value on. Made for 20 values or more.
///
/// # Errors
/// [`NoSteadyState`] as above, and always where there are fewer than [`MIN_SERIES`](crate::MIN_SERIES)
/// values or one that is not finite.
pub fn settled(series: &[f64], tolerance: f64) -> Result<Steady, NoSteadyState> {
    let whole = || Steady { from: 0, level: median(series) };
    match steady(series) {
        Ok(found) if found.from == 0 => Ok(found),
        Ok(found) => {
            let clean = without_spikes(series);
            let level = median(&clean[found.from..]);
            // A decay leans: its mean tells more of it than its median.
            let start = mean(&clean[..found.from]);
            let error = Noise::of(&clean).error_of_difference(found.from, clean.len() - found.from);
            let apart = (start - level).abs();
            let certain = apart > CERTAIN * error && apart > WORTH_CUTTING * level.abs();
            Ok(if certain { found } else { whole() })
        }
        Err(why @ (NoSteadyState::TooShort(_) | NoSteadyState::NotFinite)) => Err(why),
        Err(why) => {
            let change = largest_change(&without_spikes(series));
            let certain = change.in_errors > CERTAIN && change.share > tolerance;
            if certain { Err(why) } else { Ok(whole()) }
        }
    }
}

/// The split of a series whose sides differ most, in units of what chance explains. Sides are told by their
/// medians: bursts of noise that come and go, as a shared machine has them, are no change of level.
#[derive(Debug, Clone, Copy, Default)]
struct Change {
    /// Difference of the sides' medians over its standard error.
    in_errors: f64,
    /// Difference as a share of the later side's median.
    share: f64,
}

fn largest_change(series: &[f64]) -> Change {
    let (noise, n) = (Noise::of(series), series.len());
    let side = (n / SHORTEST_SIDE).max(3);
    (side..=n.saturating_sub(side))
        .map(|k| {
            let (before, after) = (median(&series[..k]), median(&series[k..]));
            let apart = (before - after).abs();
            Change {
                in_errors: apart / (OF_A_MEDIAN * noise.error_of_difference(k, n - k)),
                share: apart / after.abs(),
            }
        })
        .fold(Change::default(), |most, c| if c.in_errors > most.in_errors { c } else { most })
}

/// Scatter around the level as a process that remembers its last value (AR(1)).
#[derive(Debug, Clone, Copy)]
struct Noise {
    sigma: f64,
    correlation: f64,
}

impl Noise {
    /// From differences at lags 1, 2 and 3, whose mean squares are 2σ²(1 − rᵏ): a change of level
    /// touches only few of them, and those are cut down (von Neumann et al., 1941, in spirit).
    fn of(series: &[f64]) -> Self {
        let [one, two, three] = [1, 2, 3].map(|lag| mean_square_difference(series, lag));
        let least = (median(series).abs() * 1e-3).max(f64::MIN_POSITIVE.sqrt());
        if one <= 0.0 {
            return Self { sigma: least, correlation: 0.0 };
        }
        // The second over the first is 1 + r, the third over the first 1 + r + r².
        let by_two = (two / one - 1.0).clamp(0.0, CORRELATION_MAX);
        let by_three = ((4.0 * (three / one - 1.0).max(0.0) + 1.0).sqrt() - 1.0) / 2.0;
        let correlation = f64::midpoint(by_two, by_three.clamp(0.0, CORRELATION_MAX));
        Self { sigma: (one / 2.0 / (1.0 - correlation)).sqrt().max(least), correlation }
    }

    /// Standard error of the difference of the means of this many values each.
    fn error_of_difference(&self, before: usize, after: usize) -> f64 {
        let inflated = (1.0 + self.correlation) / (1.0 - self.correlation);
        self.sigma * (inflated * (1.0 / before as f64 + 1.0 / after as f64)).sqrt()
    }
}

/// Differences beyond twice their upper quartile, 2.3 standard deviations of normal ones, count as that much.
fn mean_square_difference(series: &[f64], lag: usize) -> f64 {
    let later = series.get(lag..).unwrap_or_default();
    let mut differences: Vec<f64> = series.iter().zip(later).map(|(a, b)| (b - a).abs()).collect();
    differences.sort_by(f64::total_cmp);
    let most = if differences.is_empty() { 0.0 } else { 2.0 * at(&differences, 0.75) };
    mean(&differences.iter().map(|d| d.min(most).powi(2)).collect::<Vec<_>>())
}

/// Replaces lone values that stand out from both sides by the median around them.
fn without_spikes(series: &[f64]) -> Vec<f64> {
    let (noise, n) = (Noise::of(series), series.len());
    if n < 5 {
        return series.to_vec();
    }
    let around = |i: usize| {
        let low = (i - 2).min(n - 5);
        median(&series[low..low + 5])
    };
    let stands_out = |i: usize, v: f64| i >= 2 && (v - around(i)).abs() > 3.5 * noise.sigma;
    series.iter().enumerate().map(|(i, v)| if stands_out(i, *v) { around(i) } else { *v }).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
