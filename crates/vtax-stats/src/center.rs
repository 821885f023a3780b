//! The typical value of one group of trials: the median, with an interval that asks little of the
//! distribution.
//!
//! A mean needs to know how trials scatter before it can say how far it may be off, and a few trials
//! can't tell: five of them may all miss the way three of ten turn out. Half of all trials lie below the
//! median whatever their distribution, so how many of n do is known beforehand, and with it which of
//! them enclose the median 95 times of 100.

use crate::describe::{at, moments};
use crate::student::t_quantile;

/// From this many trials the outermost two enclose the median more often than 95 times of 100; fewer that all agree tell
/// nothing of how far the next may be off.
///
/// All of n trials lie on one side of the median with a chance of 2 · 2⁻ⁿ, also where they are one and the same value: of three
/// in 25 of 100 cases, of five in 6, of six in 3.
pub const ENCLOSING: usize = 6;

/// The largest autocorrelation believed: beyond it, so few values only show that they all went one way.
const MAX_MEMORY: f64 = 0.9;

/// The largest autocorrelation believed below 10 trials. Six to nine that are independent often seem to have a high one, and with
/// 0.9 an interval is four times as wide as it has to be. Where the true one is 0.3, intervals hold the truth as often as with 0.9,
/// but for 3 in 1000 (simulated).
const MAX_MEMORY_OF_SOME: f64 = 0.7;

/// From this many trials on an autocorrelation up to [`MAX_MEMORY`] is believed.
const SOME: usize = 10;

/// The largest autocorrelation believed below 6 trials, where three in a row that rise are no news.
const MAX_MEMORY_OF_FEW: f64 = 0.5;

/// Values that differ by less than this share differ by rounding.
const ROUNDING: f64 = 1e-12;

/// Whether all of these values are the same, as far as a computer knows.
pub(crate) fn agree(values: &[f64]) -> bool {
    let of = |(low, high): (f64, f64), v: &f64| (low.min(*v), high.max(*v));
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), of);
    high - low <= ROUNDING * low.abs().max(high.abs()).max(1.0)
}

/// Whether values tell nothing of how far the next may be off: fewer than [`ENCLOSING`] that all agree.
pub(crate) fn tells_nothing(values: &[f64]) -> bool {
    values.len() < ENCLOSING && agree(values)
}

/// The median of sorted values and its 95 % interval, for 3 values or more.
///
/// From 6 values on: two order statistics, interpolated between the pair that holds the median just more
/// often than 95 % and the next one (Hettmansperger and Sheather, "Confidence intervals based on
/// interpolated order statistics", Statistics & Probability Letters 4, 1986). Below, no two values
/// enclose it often enough: all of them, and Student's interval where that goes further.
pub(crate) fn median_interval(sorted: &[f64]) -> (f64, (f64, f64)) {
    let n = sorted.len();
    let median = at(sorted, 0.5);
    if n < ENCLOSING {
        let (mean, variance) = moments(sorted);
        let half = t_quantile(0.975, (n - 1) as f64) * (variance / n as f64).sqrt();
        let low = sorted[0].min(mean.min(median) - half);
        let high = sorted[n - 1].max(mean.max(median) + half);
        return (median, (low, high));
    }
    let (k, held, next) = enclosing(n);
    let (size, rank) = (n as f64, k as f64);
    let i = (held - 0.95) / (held - next);
    let inner = (size - rank) * i / (rank + (size - 2.0 * rank) * i);
    let between = |outer: f64, inside: f64| (1.0 - inner) * outer + inner * inside;
    (median, (between(sorted[k - 1], sorted[k]), between(sorted[n - k], sorted[n - k - 1])))
}

/// The innermost pair of `n` values, the k-th from either end, that encloses their distribution's median with 95 %; how
/// often it does, and how often the next pair inside does.
fn enclosing(n: usize) -> (usize, f64, f64) {
    let mut outside = 0.0;
    let mut held = 1.0;
    for (k, term) in halves(n).enumerate() {
        outside += term;
        let next = 1.0 - 2.0 * outside;
        if next < 0.95 {
            return (k.max(1), held, next);
        }
        held = next;
    }
    (1, held, held)
}

/// How often 0, 1, 2 ... of `n` values are below the median: binomial with one half.
fn halves(n: usize) -> impl Iterator<Item = f64> {
    /// Of more values the first terms are smaller than any number, and their products stay 0: logarithms don't.
    const MOST: usize = 1000;
    let mut term = 0.5f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut log = -(n as f64) * std::f64::consts::LN_2;
    (0..n).map(move |below| {
        let now = if n > MOST { log.exp() } else { term };
        let ratio = (n - below) as f64 / (below + 1) as f64;
        term *= ratio;
        log += ratio.ln();
        now
    })
}

/// How many times larger the variance of a mean or median is than for independent values, from groups of
/// values, each in the order of time; 1 or more.
///
/// (1 + r) / (1 - r) for a first-order autoregression (Bayley and Hammersley, 1946). The usual estimate of
/// r is too low by about (1 + 4r) / n (Kendall; Marriott and Pope, Biometrika 41, 1954), which is made up
/// for, with `spare` / n on top, as too wide is the better mistake. r is the machine's, so groups are
/// averaged. Never below 0: alternation may be chance.
pub(crate) fn memory(groups: &[&[f64]], spare: f64) -> f64 {
    let (mut sum, mut n, mut moving) = (0.0, 0.0, 0.0);
    for values in groups {
        let (mean, variance) = moments(values);
        let all = variance * (values.len() as f64 - 1.0);
        if all > 0.0 && values.len() >= 3 {
            sum += values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>() / all;
            n += values.len() as f64;
            moving += 1.0;
        }
    }
    if moving == 0.0 {
        return 1.0;
    }
    let n = n / moving;
    let r = (sum / moving + (1.0 + spare) / n) * n / (n - 4.0).max(1.0);
    let most = match n {
        n if n < ENCLOSING as f64 => MAX_MEMORY_OF_FEW,
        n if n < SOME as f64 => MAX_MEMORY_OF_SOME,
        _ => MAX_MEMORY,
    };
    let r = r.clamp(0.0, most);
    (1.0 + r) / (1.0 - r)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn six_values_by_hand() {
        // The outermost of six enclose the median unless all lie on one side: 1 - 2/64.
        let (k, held, next) = enclosing(6);
        assert!(k == 1 && (held - 0.96875).abs() < 1e-12 && (next - 0.78125).abs() < 1e-12);
        // The second and the last but one of nine: 1 - 2 x 10 / 512.
        assert!((enclosing(9).1 - (1.0 - 2.0 * 10.0 / 512.0)).abs() < 1e-12);
        let (median, (low, high)) = median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert!((median - 3.5).abs() < 1e-12);
        // I = (0.96875 - 0.95) / (0.96875 - 0.78125) = 0.1; 5 x 0.1 / (1 + 4 x 0.1) = 0.357.
        assert!((low - 1.357_142_857).abs() < 1e-6 && (high - 5.642_857_143).abs() < 1e-6);
    }

    /// 2^-1075 is 0 in a computer: looking for a pair by it never came to an end.
    #[test]
    fn thousands_of_values_have_an_interval() {
        for n in [999, 1000, 1001, 1074, 1075, 1500, 20_000] {
            let (k, held, next) = enclosing(n);
            assert!(held >= 0.95 && next < 0.95, "{n}: {held} {next}");
            // The normal approximation, which is good to a place or two for so many.
            let expected = n as f64 / 2.0 - 0.98 * (n as f64).sqrt();
            assert!((k as f64 - expected).abs() < 2.0, "{n}: {k} and not {expected}");
        }
        let sorted: Vec<f64> = (0..5000).map(f64::from).collect();
        let (median, (low, high)) = median_interval(&sorted);
        assert!((median - 2499.5).abs() < 1e-9 && low > 2400.0 && high < 2600.0, "{low} {high}");
    }

    #[test]
    fn alternation_is_not_a_reason_to_know_more() {
        let of = |v: &[f64]| memory(&[v], 0.15);
        assert!((of(&[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]) - 1.0).abs() < 1e-12);
        // Of ten values 0.9 is believed, of six to nine 0.7, of five 0.5.
        for (n, most) in [(10, 0.9), (9, 0.7), (6, 0.7), (5, 0.5)] {
            let rising: Vec<f64> = (0..n).map(f64::from).collect();
            assert!((of(&rising) - (1.0 + most) / (1.0 - most)).abs() < 1e-9, "{n}: {}", of(&rising));
        }
        assert!((of(&[5.0; 8]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn few_values_that_agree_tell_nothing() {
        for n in 1..ENCLOSING {
            assert!(tells_nothing(&vec![0.1; n]) && tells_nothing(&vec![0.0; n]), "{n}");
        }
        assert!(!tells_nothing(&[0.1; ENCLOSING]) && !tells_nothing(&[0.1, 0.1, 0.2]));
        // The last bit is a computer's.
        assert!(tells_nothing(&[1e9, 1e9, 1e9 + 1e-7]) && !tells_nothing(&[1e9, 1e9, 1e9 + 1.0]));
        assert!(tells_nothing(&[0.1 + 0.2, 0.3, 0.3]));
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_median_and_lies_within_what_was_seen(
            mut v in prop::collection::vec(-1e6..1e6f64, 3..60),
        ) {
            v.sort_by(f64::total_cmp);
            let (median, (low, high)) = median_interval(&v);
            prop_assert!(low <= median && median <= high);
            if v.len() >= ENCLOSING {
                prop_assert!(v[0] <= low && high <= v[v.len() - 1]);
            }
        }
    }
}
