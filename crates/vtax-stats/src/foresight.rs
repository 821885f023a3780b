//! What a run can tell before it is over, and when it has told enough.

use crate::interval::MIN_TRIALS;
use crate::multiple::widened;
use crate::ratio::{Bound, Ratio};
use crate::student::t_quantile;
use crate::verdict::ALPHA;

/// Of the chance of a false claim, the share that may be spent on ending a comparison early.
const EARLY: f64 = 0.2;

/// The smallest tax that so many rounds tell from 1 in four runs of five, where ratios scatter with this standard deviation
/// of their logarithm and so many comparisons are read together; `None` below three rounds, or beyond all numbers.
///
/// exp((t₁₋ₐ + t₀.₈) · sd / √n) with a = 5 % / (2 · comparisons): the first step of Holm's and of Hommel's procedure. Nothing that
/// comparisons lend each other is counted on.
#[must_use]
pub fn tellable(sd: f64, rounds: usize, comparisons: usize) -> Option<f64> {
    if rounds < MIN_TRIALS || !(sd.is_finite() && sd >= 0.0) {
        return None;
    }
    let df = (rounds - 1) as f64;
    let level = ALPHA / comparisons.max(1) as f64;
    let errors = t_quantile(1.0 - level / 2.0, df) + t_quantile(0.8, df);
    Some((errors * sd / (rounds as f64).sqrt()).exp()).filter(|t| t.is_finite())
}

/// True where a comparison needs no more rounds, as it lies beyond the margin for certain: even at a fifth of the
/// level that the strongest of so many comparisons is judged at.
///
/// Ending where a verdict seems clear is looking more than once. A fifth of what may be wrong is spent on it, and what the
/// rest may err is more than made up for by the width that [`after_looking`](crate::after_looking) adds to
/// comparisons that went on (`make soundness`: families whose rounds end early).
#[must_use]
pub fn plain(ratio: &Ratio, margin: f64, comparisons: usize) -> bool {
    let level = EARLY * ALPHA / comparisons.max(1) as f64;
    let edge = 1.0 + margin.max(0.0);
    let beyond = |(low, high): (f64, f64)| low > edge || high < 1.0 / edge;
    ratio.bound == Bound::Exact && widened(ratio, level).interval.is_some_and(beyond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Group;
    use crate::ratio::{Direction, tax};

    #[test]
    fn what_rounds_can_tell_by_hand() {
        // t(0.975, 4) = 2.776445, t(0.8, 4) = 0.940965; 0.1 / sqrt(5) = 0.0447214.
        let alone = tellable(0.1, 5, 1).unwrap();
        assert!((alone.ln() - 3.717_410 * 0.044_721_4).abs() < 1e-5, "{alone}");
        assert!(tellable(0.1, 5, 20) > Some(alone) && tellable(0.1, 10, 1) < Some(alone));
        assert_eq!(tellable(0.1, 2, 1), None);
        assert_eq!(tellable(f64::NAN, 5, 1), None);
        assert_eq!(tellable(1e9, 3, 60), None);
    }

    #[test]
    fn a_large_tax_is_plain_and_a_small_one_is_not() {
        let rounds = [0, 1, 2];
        let found = |candidate: &[f64; 3]| {
            let base = Group::in_rounds(&[1.0, 1.02, 0.98], &rounds);
            tax(&Group::in_rounds(candidate, &rounds), &base, Direction::Lower, 1).unwrap()
        };
        let large = found(&[9.0, 9.3, 8.7]);
        assert!(plain(&large, 0.05, 6) && !plain(&large, 0.05, 1_000_000));
        assert!(!plain(&found(&[1.04, 1.02, 1.03]), 0.05, 1), "within the margin");
        assert!(!plain(&Ratio { bound: Bound::AtLeast, ..large }, 0.05, 1));
        assert!(!plain(&Ratio { interval: None, ..large }, 0.05, 1));
    }
}
