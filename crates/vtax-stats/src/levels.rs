//! Trials that come out on two levels.
//!
//! Where three of ten trials are slower, a side of five or eight trials may show none of them, agree with itself, and seem
//! to differ from the other for certain. Nothing in its own values can show that. But other sides of the same metric, measured on
//! the same machine at the same time, do show both levels: then no side is believed to have only one.

use crate::describe::moments;
use crate::ratio::Ratio;
use crate::uncertainty::Uncertainty;

/// Two levels are told in no fewer trials.
const FEWEST: usize = 5;

/// Trials of a level: one that stands alone may be any kind of outlier.
const OF_A_LEVEL: usize = 2;

/// Levels are apart by this many standard deviations of the values within them. Of five normal values the best split has so much
/// in 4 of 100.
const CLEAR: f64 = 6.0;

/// The share of sides that show two levels, from which on all may have them.
const COMMON: f64 = 0.2;

/// How far apart the levels of a metric are at most, as a logarithm, where a fifth of its sides show two; `None` where fewer do. Of
/// each side the trials' values; those with fewer than five, or with one that isn't positive, have no say.
#[must_use]
pub fn levels(sides: &[&[f64]]) -> Option<f64> {
    let usable = |side: &&&[f64]| side.len() >= FEWEST && side.iter().all(|v| *v > 0.0 && v.is_finite());
    let apart: Vec<Option<f64>> = sides.iter().filter(usable).map(|side| two_levels(side)).collect();
    let clear: Vec<f64> = apart.iter().copied().flatten().collect();
    let common = !clear.is_empty() && clear.len() as f64 >= COMMON * apart.len() as f64;
    common.then(|| clear.into_iter().fold(0.0, f64::max))
}

/// The distance of the levels of one side's logarithms, where it has two.
fn two_levels(side: &[f64]) -> Option<f64> {
    let mut logs: Vec<f64> = side.iter().map(|v| v.ln()).collect();
    logs.sort_by(f64::total_cmp);
    let n = logs.len();
    let split = |k: usize| {
        let (below, above) = logs.split_at(k);
        let ((low, a), (high, b)) = (moments(below), moments(above));
        let squares = a * (k - 1) as f64 + b * (n - k - 1) as f64;
        let within = (squares / (n - 2) as f64).sqrt();
        // Values that agree to the digit were counted in steps, and two steps are no two levels.
        (within > 0.0).then(|| (high - low, (high - low) / within))
    };
    let best = (OF_A_LEVEL..=n - OF_A_LEVEL).filter_map(split).max_by(|a, b| a.1.total_cmp(&b.1));
    best.filter(|(_, score)| *score > CLEAR).map(|(apart, _)| apart)
}

/// A comparison with its interval where each side may have missed one of two levels that are so far apart: half of it wider on
/// both sides.
#[must_use]
pub fn allowing(ratio: &Ratio, apart: f64) -> Ratio {
    ratio.with(ratio.uncertainty.map(|u| Uncertainty { levels: apart / 2.0, ..u }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Group;
    use crate::ratio::{Direction, tax};

    const TWO: [f64; 6] = [1.0, 1.01, 1.2, 0.99, 1.0, 1.21];
    const ONE: [f64; 6] = [1.0, 1.03, 0.97, 1.01, 0.98, 1.0];

    #[test]
    fn two_levels_are_seen_and_one_isnt_taken_for_two() {
        let apart = two_levels(&TWO).unwrap();
        assert!((apart - 1.205f64.ln()).abs() < 0.01, "{apart}");
        for one in [
            &ONE[..],
            &[1.0, 1.01, 0.99, 1.0, 1.02, 5.0],
            &[1.0, 1.0, 1.0, 2.0, 2.0],
            &[1.0, 1.1, 1.2, 1.3, 1.4],
        ] {
            assert_eq!(two_levels(one), None, "{one:?}");
        }
    }

    #[test]
    fn a_fifth_of_the_sides_speaks_for_all() {
        let one = ONE.as_slice();
        assert!(levels(&[TWO.as_slice(), one, one, one, one]).is_some());
        assert_eq!(levels(&[TWO.as_slice(), one, one, one, one, one]), None);
        // Too few trials to show anything, and what has no logarithm.
        assert!(levels(&[TWO.as_slice(), one, one, one, one, &TWO[..4], &[0.0; 6]]).is_some());
        assert_eq!(levels(&[]), None);
    }

    #[test]
    fn an_interval_allows_for_a_level_that_was_missed() {
        let rounds = [0, 1, 2, 3, 4, 5];
        let (c, b) = (Group::in_rounds(&ONE, &rounds), Group::in_rounds(&[0.9; 6], &rounds));
        let ratio = tax(&c, &b, Direction::Lower, 1).unwrap();
        let wider = allowing(&ratio, 0.2);
        let ((a, b), (low, high)) = (ratio.interval.unwrap(), wider.interval.unwrap());
        assert!(((a / low).ln() - 0.1).abs() < 1e-12 && ((high / b).ln() - 0.1).abs() < 1e-12);
        assert!(wider.tax == ratio.tax && wider.detectable > ratio.detectable);
    }
}
