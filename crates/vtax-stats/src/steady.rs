//! Where a series stops warming up.
//!
//! A change-point search in the manner of Barrett, Bolz-Tereick, Killick, Mount and Tratt
//! ("Virtual machine warmup blows hot and cold", OOPSLA 2017): a series is cut into stretches of
//! equal level, and it is steady from where every later stretch is as good as the last one. What
//! has no such stretch, or only a short one at its end, has *no* steady state, and a mean over it
//! says nothing. Kalibera and Jones (ISMM 2013) ask for the same by eye; here it is a rule.

use crate::describe::{median, moments};

/// Fewer values than this can't show a level and its scatter.
pub const MIN_SERIES: usize = 5;

/// Levels this close are one level: the share of the level that no plan asks to tell apart.
const SAME_LEVEL: f64 = 0.01;

/// The steady stretch is at least this share of the series, or what precedes it may just be longer
/// than what was seen.
const STEADY_SHARE: f64 = 0.25;

/// Price of a change point in units of σ² ln n. The Bayesian criterion says 2 (a level and a place);
/// more, as values of neighbouring intervals aren't independent (Barrett et al. use 15 on variances
/// as well; 4 finds a step of 3 σ in 20 values).
const PENALTY: f64 = 4.0;

/// Values in the shortest period that is told from scatter.
const FASTEST: usize = 5;

/// A swing is believed at one in a thousand: noise of some correlation has frequencies that stand out.
const SWING_CHANCE: f64 = 1e-3;

/// A trend is believed at one in two hundred.
const TREND_Z: f64 = 2.807;

/// A steady stretch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// Index of the first steady value; 0 where there was no warm-up.
    pub from: usize,
    /// Median of the steady values.
    pub level: f64,
}

/// Why a series has no steady state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoSteadyState {
    /// Too short to tell.
    #[error("{0} intervals are too few to tell, at least {MIN_SERIES} are needed")]
    TooShort(usize),
    /// A value is not a number.
    #[error("an interval has no value")]
    NotFinite,
    /// It still rises or falls at the end.
    #[error("it was still moving in one direction at the end")]
    StillMoving,
    /// It changed its level shortly before the end.
    #[error("its level changed shortly before the end")]
    LateChange,
    /// It goes up and down.
    #[error("its level went up and down until the end")]
    Oscillating,
}

/// Finds where a series of per-interval values (5 to some thousand, any unit) becomes steady.
///
/// Lone spikes are no change of level. Alternation within fewer than five values is scatter, not
/// oscillation: it can't be told from it.
///
/// # Errors
/// [`NoSteadyState`] where the series is too short, or never becomes steady for a quarter of its length.
pub fn steady(series: &[f64]) -> Result<Steady, NoSteadyState> {
    if series.iter().any(|v| !v.is_finite()) {
        return Err(NoSteadyState::NotFinite);
    }
    let n = series.len();
    if n < MIN_SERIES {
        return Err(NoSteadyState::TooShort(n));
    }
    let sigma = scatter(series);
    let clean = without_spikes(series, sigma);
    let segments = segments(&clean, PENALTY * (n as f64).ln() * sigma * sigma);
    let levels: Vec<f64> = segments.windows(2).map(|s| median(&clean[s[0]..s[1]])).collect();
    let last = levels[levels.len() - 1];
    let same = (SAME_LEVEL * last.abs()).max(sigma);
    let differ = levels.iter().rposition(|l| (l - last).abs() > same);
    let mut from = differ.map_or(0, |i| segments[i + 1]);
    let shortest = ((n as f64 * STEADY_SHARE).ceil() as usize).max(3);
    if n - from < shortest {
        return Err(unsettled(&levels, same));
    }
    let settled = from;
    // The end of a slow approach is one stretch to the search, as its slope hides in the scatter.
    while drifts(&clean[from..], same) {
        from += ((n - from) / 5).max(1);
        if n - from < shortest {
            return Err(NoSteadyState::StillMoving);
        }
    }
    if (from > settled || in_stages(&levels, same)) && remaining(&clean).abs() > same {
        return Err(NoSteadyState::StillMoving);
    }
    if swings(&clean[from..], SAME_LEVEL * last.abs()) {
        return Err(NoSteadyState::Oscillating);
    }
    Ok(Steady { from, level: median(&series[from..]) })
}

/// Standard deviation of what remains when levels are taken away: from the median of the absolute
/// second differences, which neither steps nor a trend disturb.
fn scatter(series: &[f64]) -> f64 {
    let differences: Vec<f64> = series.windows(3).map(|w| (w[1] - f64::midpoint(w[0], w[2])).abs()).collect();
    // A difference of one value and the mean of two has the variance 1 + 1/2.
    let sigma = 1.4826 * median(&differences) / 1.5f64.sqrt();
    // Rounded series may have none at all; a thousandth of the level is below any interest.
    let level = median(series).abs();
    sigma.max(level * 1e-3).max(f64::MIN_POSITIVE.sqrt())
}

/// Replaces values that stand out from both sides of their surroundings by the local median.
fn without_spikes(series: &[f64], sigma: f64) -> Vec<f64> {
    let n = series.len();
    let reach = if n < 12 { 1 } else { 2 };
    (0..n)
        .map(|i| {
            // What stands out at the start is warm-up; at the end the window is moved inwards.
            if i < reach {
                return series[i];
            }
            let low = (i - reach).min(n - 2 * reach - 1);
            let around = median(&series[low..=low + 2 * reach]);
            if (series[i] - around).abs() > 3.5 * sigma { around } else { series[i] }
        })
        .collect()
}

/// Boundaries of the stretches, 0 and n included, that make squared distances from their means
/// plus `penalty` for each least (optimal partitioning; Jackson et al. 2005, pruned as in PELT,
/// Killick et al. 2012).
fn segments(series: &[f64], penalty: f64) -> Vec<usize> {
    let n = series.len();
    let center = median(series);
    let mut sums = vec![(0.0, 0.0); n + 1];
    for (i, v) in series.iter().enumerate() {
        let d = v - center;
        sums[i + 1] = (sums[i].0 + d, sums[i].1 + d * d);
    }
    let cost = |a: usize, b: usize| {
        let s = sums[b].0 - sums[a].0;
        (sums[b].1 - sums[a].1 - s * s / (b - a) as f64).max(0.0)
    };
    let mut best = vec![(-penalty, 0usize); n + 1];
    let mut starts: Vec<usize> = vec![0];
    for end in 1..=n {
        let total = |&a: &usize| best[a].0 + cost(a, end) + penalty;
        let (start, least) = starts
            .iter()
            .map(|a| (*a, total(a)))
            .fold((0, f64::INFINITY), |m, c| if c.1 < m.1 { c } else { m });
        starts.retain(|a| total(a) - penalty <= least);
        best[end] = (least, start);
        starts.push(end);
    }
    let mut boundaries = vec![n];
    let mut at = n;
    while at > 0 {
        at = best[at].1;
        boundaries.push(at);
    }
    boundaries.reverse();
    boundaries
}

/// True where a stretch rises or falls significantly (Mann 1945, Kendall 1975) and by more than `same`
/// from its first to its last value (Theil and Sen's slope).
fn drifts(stretch: &[f64], same: f64) -> bool {
    let n = stretch.len();
    let (mut score, mut slopes) = (0.0f64, Vec::with_capacity(n * n / 2));
    for (i, a) in stretch.iter().enumerate() {
        for (j, b) in stretch.iter().enumerate().skip(i + 1) {
            score += if b > a {
                1.0
            } else if b < a {
                -1.0
            } else {
                0.0
            };
            slopes.push((b - a) / (j - i) as f64);
        }
    }
    let size = n as f64;
    let z = (score.abs() - 1.0) / (size * (size - 1.0) * (2.0 * size + 5.0) / 18.0).sqrt();
    z > TREND_Z && median(&slopes).abs() * (size - 1.0) > same
}

/// True where a stretch goes up and down too fast for a search of levels, which takes that for scatter: one
/// of its frequencies stands out (Fisher, "Tests of significance in harmonic analysis", 1929), by more than
/// `least` and by more than what remains without it. Periods run from 5 values to a third of the stretch.
fn swings(stretch: &[f64], least: f64) -> bool {
    let n = stretch.len();
    let ordinates = n / 2;
    if n < 3 * FASTEST {
        return false;
    }
    let (mean, variance) = moments(stretch);
    let total = variance * (n - 1) as f64;
    // Squared distances from the mean that a sine of k periods explains.
    let explained = |k: usize| {
        let turn = std::f64::consts::TAU * k as f64 / n as f64;
        let (mut a, mut b) = (0.0, 0.0);
        for (i, v) in stretch.iter().enumerate() {
            let (sin, cos) = (turn * i as f64).sin_cos();
            a += (v - mean) * cos;
            b += (v - mean) * sin;
        }
        (a * a + b * b) * 2.0 / n as f64
    };
    let most = (3..=n / FASTEST).map(explained).fold(0.0, f64::max);
    if total <= 0.0 {
        return false;
    }
    let chance = ordinates as f64 * (1.0 - (most / total).min(1.0)).powi(ordinates as i32 - 1);
    let amplitude = (2.0 * most / n as f64).sqrt();
    let rest = ((total - most).max(0.0) / n as f64).sqrt();
    chance < SWING_CHANCE && amplitude > least.max(rest)
}

/// True where the level moved more than once, and always the same way: an approach rather than a jump.
fn in_stages(levels: &[f64], same: f64) -> bool {
    let [first, .., last] = levels else { return false };
    let way = (last - first).signum();
    let least = same / 2.0;
    let back = levels.windows(2).any(|l| (l[1] - l[0]) * way < -least);
    !back && levels.windows(2).filter(|l| (l[1] - l[0]) * way > least).count() > 1
}

/// How far an exponential approach still has to go, from the means of the series' thirds (Aitken's Δ²);
/// infinite where it doesn't slow down.
fn remaining(series: &[f64]) -> f64 {
    let third = series.len() / 3;
    let ends = series.len() - 3 * third;
    let mean = |k: usize| {
        let part = &series[ends + k * third..ends + (k + 1) * third];
        part.iter().sum::<f64>() / third as f64
    };
    let (first, second) = (mean(1) - mean(0), mean(2) - mean(1));
    match second / first {
        share if share <= 0.0 || !share.is_finite() => 0.0,
        share if share < 1.0 => second * share / (1.0 - share),
        _ => f64::INFINITY,
    }
}

fn unsettled(levels: &[f64], same: f64) -> NoSteadyState {
    let moves: Vec<f64> = levels.windows(2).map(|l| l[1] - l[0]).filter(|d| d.abs() > same).collect();
    let turns = moves.windows(2).filter(|m| m[0] * m[1] < 0.0).count();
    match (turns, moves.len()) {
        (2.., _) => NoSteadyState::Oscillating,
        (0, 2..) => NoSteadyState::StillMoving,
        _ => NoSteadyState::LateChange,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_cases() {
        let step: Vec<f64> = (0..40).map(|i| if i < 10 { 50.0 } else { 100.0 } + f64::from(i % 3)).collect();
        let found = steady(&step).unwrap();
        assert!((9..=11).contains(&found.from), "{found:?}");
        assert_eq!(steady(&[7.0; 6]), Ok(Steady { from: 0, level: 7.0 }));
        assert_eq!(steady(&[0.0; 6]), Ok(Steady { from: 0, level: 0.0 }));
        assert_eq!(steady(&[1.0; 4]), Err(NoSteadyState::TooShort(4)));
        assert_eq!(steady(&[1.0, 1.0, f64::NAN, 1.0, 1.0]), Err(NoSteadyState::NotFinite));
        let ramp: Vec<f64> = (0..30).map(|i| 100.0 + 5.0 * f64::from(i)).collect();
        assert_eq!(steady(&ramp), Err(NoSteadyState::StillMoving));
        let late: Vec<f64> = (0..30).map(|i| if i < 27 { 100.0 } else { 70.0 } + f64::from(i % 2)).collect();
        assert_eq!(steady(&late), Err(NoSteadyState::LateChange));
        let wave: Vec<f64> = (0..60).map(|i| 100.0 + 20.0 * (f64::from(i) / 3.0).sin()).collect();
        assert_eq!(steady(&wave), Err(NoSteadyState::Oscillating));
    }

    proptest! {
        #[test]
        fn any_series_has_an_answer(v in prop::collection::vec(prop::num::f64::NORMAL | prop::num::f64::ZERO, 0..40)) {
            if let Ok(found) = steady(&v) {
                prop_assert!(found.from < v.len());
            }
        }

        #[test]
        fn the_unit_does_not_matter(v in prop::collection::vec(1.0..1e3f64, 5..60), power in -20i32..20) {
            let scaled: Vec<f64> = v.iter().map(|x| x * 2f64.powi(power)).collect();
            let from = |s: &[f64]| steady(s).map(|f| f.from);
            prop_assert_eq!(from(&v), from(&scaled));
        }
    }
}
