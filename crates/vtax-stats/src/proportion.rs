//! How often something happens, from how often it was seen.

use statrs::function::factorial::ln_binomial;

/// The 95 % interval of a share of which `successes` of `n` were seen; `None` where `n` is 0.
///
/// Exact (Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the
/// binomial", Biometrika 26, 1934): holds the truth at least 95 times of 100, also where all or none succeeded,
/// which is the usual case of failovers. Five of five show only that at least 47 of 100 would.
#[must_use]
pub fn proportion(successes: u64, n: u64) -> Option<(f64, f64)> {
    if n == 0 {
        return None;
    }
    let k = successes.min(n);
    let low = if k == 0 { 0.0 } else { solve(|p| 1.0 - at_most(k - 1, n, p), true) };
    let high = if k == n { 1.0 } else { solve(|p| at_most(k, n, p), false) };
    Some((low, high))
}

/// How often two shares, `a` of `n` and `b` of `m`, are at least as far apart where they are the same: Fisher's exact test, two-sided
/// (*Statistical Methods for Research Workers*, 5th edition, 1934). 1 where one of them is of nothing.
#[must_use]
pub fn apart_by_chance((a, n): (u64, u64), (b, m): (u64, u64)) -> f64 {
    /// Cases as likely as the one that was seen, up to rounding, are as far apart.
    const ROUNDING: f64 = 1.0 + 1e-9;
    if n == 0 || m == 0 || a > n || b > m {
        return 1.0;
    }
    // Given how many there are of both together, the number among the first is hypergeometric.
    let both = a + b;
    let of = |x: u64| (ln_binomial(n, x) + ln_binomial(m, both - x) - ln_binomial(n + m, both)).exp();
    let seen = of(a) * ROUNDING;
    let possible = both.saturating_sub(m)..=both.min(n);
    possible.map(of).filter(|chance| *chance <= seen).sum::<f64>().min(1.0)
}

/// Half of what an interval of 95 % may miss.
const TAIL: f64 = 0.025;

/// Where a monotonic probability crosses [`TAIL`].
fn solve(probability: impl Fn(f64) -> f64, rising: bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    // 60 halvings leave less than the smallest difference of doubles in 0..1.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if (probability(middle) < TAIL) == rising { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// Terms added up: beyond, the sum is taken for a normal distribution's.
const EXACT: u64 = 100_000;

/// Probability of at most `k` successes of `n`, each with probability `p`.
fn at_most(k: u64, n: u64, p: f64) -> f64 {
    if p <= 0.0 {
        return 1.0;
    }
    if p >= 1.0 {
        return if k >= n { 1.0 } else { 0.0 };
    }
    let (size, odds) = (n as f64, p / (1.0 - p));
    if n > EXACT {
        let z = (k as f64 + 0.5 - size * p) / (size * p * (1.0 - p)).sqrt();
        return crate::student::normal_tail(-z);
    }
    // In logarithms, as (1 - p)^n alone may be too small for a double.
    let mut term = size * (1.0 - p).ln();
    let mut sum = term.exp();
    for i in 0..k {
        term += ((n - i) as f64 / (i + 1) as f64 * odds).ln();
        sum += term.exp();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_by_hand() {
        // All of n: the lower end is 0.025^(1/n).
        for n in [1u64, 5, 20, 100] {
            let (low, high) = proportion(n, n).unwrap();
            assert!((low - 0.025f64.powf(1.0 / n as f64)).abs() < 1e-9 && high == 1.0, "{n}");
            let (low, high) = proportion(0, n).unwrap();
            assert!((high - (1.0 - 0.025f64.powf(1.0 / n as f64))).abs() < 1e-9 && low == 0.0, "{n}");
        }
        // The textbook's 4 of 20.
        let (low, high) = proportion(4, 20).unwrap();
        assert!((low - 0.0573).abs() < 5e-4 && (high - 0.4366).abs() < 5e-4, "{low} {high}");
        assert_eq!(proportion(0, 0), None);
    }

    #[test]
    fn two_shares_by_hand() {
        // Fisher's lady and her tea: 3 of 4 and 1 of 4 are 17/35 of all cases.
        for (one, other, expected) in [
            ((3, 4), (1, 4), 17.0 / 35.0),
            ((5, 8), (0, 8), 0.025_641_0),
            ((4, 8), (0, 8), 0.076_923_1),
            ((10, 24), (2, 24), 0.017_336_9),
            ((0, 5), (0, 5), 1.0),
            ((1, 3), (0, 0), 1.0),
        ] {
            assert!((apart_by_chance(one, other) - expected).abs() < 1e-6, "{one:?} {other:?}");
            assert!((apart_by_chance(other, one) - expected).abs() < 1e-6, "{other:?} {one:?}");
        }
    }

    proptest! {
        #[test]
        fn it_holds_what_was_seen_and_mirrors(k in 0u64..300, more in 0u64..300) {
            let n = k + more;
            prop_assume!(n > 0);
            let (low, high) = proportion(k, n).unwrap();
            let seen = k as f64 / n as f64;
            prop_assert!((0.0..=1.0).contains(&low) && low <= seen + 1e-12 && seen <= high + 1e-12 && high <= 1.0);
            let (other_low, other_high) = proportion(more, n).unwrap();
            prop_assert!((1.0 - high - other_low).abs() < 1e-9 && (1.0 - low - other_high).abs() < 1e-9);
        }

        #[test]
        fn huge_counts_take_no_time(k in any::<u64>(), n in any::<u64>()) {
            if let Some((low, high)) = proportion(k, n) {
                prop_assert!(low.is_finite() && high.is_finite() && low <= high + 1e-9);
            }
        }
    }
}
