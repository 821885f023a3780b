//! Where a series of results changed its level.

use crate::describe::median;
use crate::rng::Rng;

/// Fewest results on each side of a change: one that is alone is an outlier.
pub const MIN_SEGMENT: usize = 3;

/// Longest series looked at; of a longer one its end.
pub const LONGEST_SERIES: usize = 400;

/// A change is believed at one in a hundred: histories are looked at often, and many at a time.
const LEVEL: f64 = 0.01;

/// Random orders that a split is compared with.
const ORDERS: usize = 999;

/// A place at which a series changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Index of the first result after it.
    pub at: usize,
    /// How often results in random order have a split as clear as this one.
    pub chance: f64,
    /// Median of the results since the change before, or the start.
    pub before: f64,
    /// Median of those until the next, or the end.
    pub after: f64,
}

/// The places at which `values`, in the order of time, changed; ascending.
///
/// The series is split where both sides differ most by the energy statistic, the split is believed where at most one
/// of a hundred random orders of the same values has one as clear, and both parts are looked at in the same way:
/// E-divisive (Matteson and James, "A nonparametric approach for multiple change point analysis of multivariate
/// data", JASA 109, 2014), as it is used for histories of benchmarks (Daly et al., "The use of change point
/// detection to identify software performance regressions in a continuous integration system", ICPE 2020). As there,
/// a second segment reaches to the end of what is split, which is faster than to try all its ends. A series that
/// never changed shows a change once in a hundred times. Fewer than ten values can't show one.
///
/// The same seed gives the same result. Values that aren't finite make a series without changes.
#[must_use]
pub fn changes(values: &[f64], seed: u64) -> Vec<Change> {
    let skipped = values.len().saturating_sub(LONGEST_SERIES);
    let values = &values[skipped..];
    if values.iter().any(|v| !v.is_finite()) {
        return Vec::new();
    }
    let mut rng = Rng::new(seed);
    let mut open = vec![(0, values.len())];
    let mut found: Vec<(usize, f64)> = Vec::new();
    while let Some((from, to)) = open.pop() {
        let part = &values[from..to];
        let Some((at, clear)) = split(part) else { continue };
        let chance = chance(part, clear, &mut rng);
        if chance <= LEVEL {
            found.push((from + at, chance));
            open.extend([(from, from + at), (from + at, to)]);
        }
    }
    found.sort_by_key(|(at, _)| *at);
    let ends: Vec<usize> = [0].into_iter().chain(found.iter().map(|f| f.0)).chain([values.len()]).collect();
    let level = |i: usize| median(&values[ends[i]..ends[i + 1]]);
    let change = |(i, (at, chance)): (usize, &(usize, f64))| Change {
        at: skipped + at,
        chance: *chance,
        before: level(i),
        after: level(i + 1),
    };
    found.iter().enumerate().map(change).collect()
}

/// Where the values differ most before and after, as an index and how much; `None` below two segments.
fn split(values: &[f64]) -> Option<(usize, f64)> {
    let n = values.len();
    if n < 2 * MIN_SEGMENT {
        return None;
    }
    // Sums of the distances from each value to those before it, and to those behind it.
    let distances = |value: f64, others: &[f64]| -> f64 { others.iter().map(|o| (o - value).abs()).sum() };
    let before: Vec<f64> = (0..n).map(|i| distances(values[i], &values[..i])).collect();
    let behind: Vec<f64> = (0..n).map(|i| distances(values[i], &values[i + 1..])).collect();
    let total: f64 = before.iter().sum();
    let (mut left, mut right) = (0.0, total);
    let mut best: Option<(usize, f64)> = None;
    for i in 0..n {
        // The value moves from the right side to the left one.
        left += before[i];
        right -= behind[i];
        let (a, b) = ((i + 1) as f64, (n - i - 1) as f64);
        if i + 1 < MIN_SEGMENT || n - i - 1 < MIN_SEGMENT {
            continue;
        }
        let between = total - left - right;
        let pairs = |n: f64| n * (n - 1.0) / 2.0;
        let energy = 2.0 * between / (a * b) - left / pairs(a) - right / pairs(b);
        let clear = a * b / (a + b) * energy;
        if best.is_none_or(|(_, most)| clear > most) {
            best = Some((i + 1, clear));
        }
    }
    best
}

/// How often these values in random order have a split as clear; any number above the level where that is beyond it.
fn chance(values: &[f64], clear: f64, rng: &mut Rng) -> f64 {
    let most = (LEVEL * (ORDERS + 1) as f64) as usize;
    let mut order = values.to_vec();
    // Sums in another order differ in their last digits.
    let clear = clear - 1e-9 * clear.abs();
    let mut as_clear = 0;
    for _ in 0..ORDERS {
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i + 1));
        }
        as_clear += usize::from(split(&order).is_some_and(|(_, other)| other >= clear));
        if as_clear >= most {
            return 1.0;
        }
    }
    (as_clear + 1) as f64 / (ORDERS + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    fn scatter(rng: &mut Rng, level: f64, n: usize) -> Vec<f64> {
        (0..n).map(|_| level + (0..4).map(|_| rng.unit() - 0.5).sum::<f64>()).collect()
    }

    #[test]
    fn the_statistic_is_the_one_of_its_definition() {
        let values = [1.0, 4.0, 2.0, 9.0, 7.0, 8.0];
        let (at, clear) = split(&values).unwrap();
        assert_eq!(at, 3);
        let mean = |pairs: Vec<f64>| pairs.iter().sum::<f64>() / pairs.len() as f64;
        let within = |v: &[f64]| {
            let pairs = v.iter().enumerate().flat_map(|(i, a)| v[i + 1..].iter().map(move |b| (a - b).abs()));
            mean(pairs.collect())
        };
        let between =
            mean(values[..3].iter().flat_map(|a| values[3..].iter().map(move |b| (a - b).abs())).collect());
        let expected = 9.0 / 6.0 * (2.0 * between - within(&values[..3]) - within(&values[3..]));
        assert!((clear - expected).abs() < 1e-12, "{clear} {expected}");
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let mut rng = Rng::new(7);
        let values: Vec<f64> = [(10.0, 20), (14.0, 15), (11.0, 12)]
            .into_iter()
            .flat_map(|(l, n)| scatter(&mut rng, l, n))
            .collect();
        let found = changes(&values, 1);
        assert_eq!(found.iter().map(|c| c.at).collect::<Vec<_>>(), [20, 35], "{found:?}");
        assert!((found[0].before - 10.0).abs() < 0.5 && (found[0].after - 14.0).abs() < 0.5);
        assert!((found[1].before - 14.0).abs() < 0.5 && (found[1].after - 11.0).abs() < 0.5);
        assert_eq!(changes(&values, 1), found, "the same seed");
    }

    #[test]
    fn neither_an_outlier_nor_too_few_values_are_a_change() {
        let mut rng = Rng::new(3);
        let mut values = scatter(&mut rng, 5.0, 30);
        values[17] = 500.0;
        assert!(changes(&values, 1).is_empty());
        assert!(changes(&[1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0], 1).is_empty());
        assert_eq!(changes(&[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 9.0, 9.1, 9.2, 9.3, 9.4, 9.5], 1).len(), 1);
        assert!(changes(&[4.0; 40], 1).is_empty() && changes(&[], 1).is_empty());
        assert!(changes(&[1.0, f64::NAN, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0], 1).is_empty());
    }

    #[test]
    fn chance_rarely_looks_like_a_change() {
        let mut rng = Rng::new(11);
        let found = (0..300).filter(|i| !changes(&scatter(&mut rng, 1.0, 20), *i).is_empty()).count();
        // 1 % of 300 and four standard errors.
        assert!(found <= 10, "{found} of 300");
    }

    #[test]
    fn of_a_long_series_the_end_is_looked_at() {
        let mut rng = Rng::new(5);
        let mut values = scatter(&mut rng, 50.0, 300);
        values.extend(scatter(&mut rng, 1.0, LONGEST_SERIES - 20));
        values.extend(scatter(&mut rng, 9.0, 20));
        let found = changes(&values, 1);
        assert_eq!(found.iter().map(|c| c.at).collect::<Vec<_>>(), [300 + LONGEST_SERIES - 20]);
    }

    proptest! {
        #[test]
        fn units_and_origin_do_not_matter(v in prop::collection::vec(0.0..9.0f64, 0..24), by in 1.0..100.0f64, to in -50.0..50.0f64) {
            let moved: Vec<f64> = v.iter().map(|x| x * by + to).collect();
            let places = |values: &[f64]| changes(values, 4).iter().map(|c| c.at).collect::<Vec<_>>();
            prop_assert_eq!(places(&v), places(&moved));
        }
    }
}
