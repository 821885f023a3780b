//! Does the order of trials explain their values?

use crate::describe::median;

/// A drift is believed at one in a hundred: a run has many comparisons, and all are tested.
const LEVEL: f64 = 0.01;

/// Up to this many values without ties the distribution of the score is counted out.
const COUNTED: usize = 60;

/// Values that move in one direction over a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Level at the first value, on the line through all.
    pub from: f64,
    /// Level at the last.
    pub to: f64,
}

/// The drift of values in the order of time; `None` where chance explains them.
///
/// Mann and Kendall's test (Mann, Econometrica 13, 1945; Kendall, *Rank Correlation Methods*, 1975), two-sided
/// at 1 %, which nothing below 6 values can pass; the line is Theil and Sen's. Any monotonic change counts,
/// a step as much as a slope.
#[must_use]
pub fn drift(values: &[f64]) -> Option<Drift> {
    let n = values.len();
    if n < 6 || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    let (mut up, mut down) = (0usize, 0usize);
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate().skip(i + 1) {
            up += usize::from(b > a);
            down += usize::from(b < a);
            slopes.push((b - a) / (j - i) as f64);
        }
    }
    if chance(n, up, down) > LEVEL {
        return None;
    }
    let slope = median(&slopes);
    let middle = median(values);
    let reach = slope * (n - 1) as f64 / 2.0;
    Some(Drift { from: middle - reach, to: middle + reach })
}

/// Two-sided probability of so one-sided an order among values in random order.
fn chance(n: usize, up: usize, down: usize) -> f64 {
    let pairs = n * (n - 1) / 2;
    if up + down == pairs && n <= COUNTED {
        return (2.0 * at_most(n, up.min(down))).min(1.0);
    }
    let (size, score) = (n as f64, up.abs_diff(down) as f64);
    let sd = (size * (size - 1.0) * (2.0 * size + 5.0) / 18.0).sqrt();
    2.0 * crate::student::normal_tail(((score - 1.0) / sd).max(0.0))
}

/// Probability that `n` values in random order have at most `most` descents over all pairs (inversions).
fn at_most(n: usize, most: usize) -> f64 {
    // The k-th value is smaller than 0 to k - 1 of those before it, each equally likely.
    let mut share = vec![0.0; most + 1];
    share[0] = 1.0;
    for k in 2..=n {
        let mut next = vec![0.0; most + 1];
        let mut window = 0.0;
        for i in 0..=most {
            window += share[i];
            if i >= k {
                window -= share[i - k];
            }
            next[i] = window / k as f64;
        }
        share = next;
    }
    share.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    #[test]
    fn inversions_are_counted() {
        // Of 24 orders of four, 1 has no inversion, 3 have one, 5 have two.
        assert!((at_most(4, 0) - 1.0 / 24.0).abs() < 1e-12);
        assert!((at_most(4, 1) - 4.0 / 24.0).abs() < 1e-12);
        assert!((at_most(4, 2) - 9.0 / 24.0).abs() < 1e-12);
        assert!((at_most(4, 6) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_slope_is_a_drift_and_a_shuffle_is_not() {
        let found = drift(&[1.0, 1.1, 1.2, 1.3, 1.4, 1.5]).unwrap();
        assert!((found.from - 1.0).abs() < 1e-12 && (found.to - 1.5).abs() < 1e-12);
        assert_eq!(drift(&[1.3, 1.0, 1.5, 1.1, 1.4, 1.2]), None);
        assert_eq!(drift(&[1.0, 2.0, 3.0, 4.0, 5.0]), None);
        assert_eq!(drift(&[7.0; 20]), None);
    }

    #[test]
    fn chance_is_rarely_called_a_drift() {
        let mut rng = Rng::new(1);
        for n in [6, 10, 20] {
            let found = (0..4000)
                .filter(|_| {
                    let values: Vec<f64> = (0..n).map(|_| rng.below(1 << 40) as f64).collect();
                    drift(&values).is_some()
                })
                .count();
            // 1 % of 4000 and four standard errors.
            assert!(found <= 66, "{found} of 4000 at {n}");
        }
    }

    proptest! {
        #[test]
        fn turning_time_around_turns_the_drift_around(v in prop::collection::vec(1.0..9.0f64, 0..30)) {
            let back: Vec<f64> = v.iter().rev().copied().collect();
            let (there, again) = (drift(&v), drift(&back));
            prop_assert_eq!(there.is_some(), again.is_some());
            if let (Some(a), Some(b)) = (there, again) {
                prop_assert!((a.from - b.to).abs() < 1e-9 && (a.to - b.from).abs() < 1e-9);
            }
        }
    }
}
