//! Descriptive statistics.

/// What a set of values looks like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Description {
    /// How many.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation with n - 1; `None` below two values.
    pub sd: Option<f64>,
    /// Median.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

/// Describes finite values in any order; `None` for an empty set or where a value isn't finite.
#[must_use]
pub fn describe(values: &[f64]) -> Option<Description> {
    let sorted = sorted(values)?;
    let (mean, variance) = moments(&sorted);
    Some(Description {
        n: sorted.len(),
        mean,
        sd: (sorted.len() > 1).then(|| variance.sqrt()),
        median: at(&sorted, 0.5),
        min: sorted[0],
        max: sorted[sorted.len() - 1],
    })
}

/// The `q` quantile, 0 to 1, by linear interpolation (type 7 of Hyndman and Fan, "Sample quantiles
/// in statistical packages", 1996); `None` for an empty set or where a value isn't finite.
#[must_use]
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    Some(at(&sorted(values)?, q))
}

/// Sorting first makes every result independent of the order of trials, to the last bit.
pub(crate) fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(sorted)
}

/// Quantile of sorted, non-empty values.
pub(crate) fn at(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len() - 1;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let fraction = position - below as f64;
    let (low, high) = (sorted[below], sorted[(below + 1).min(last)]);
    // Clamped, for rounding must not break the order of quantiles.
    (low * (1.0 - fraction) + high * fraction).clamp(low, high)
}

/// Median of values in any order; 0 of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.is_empty() { 0.0 } else { at(&sorted, 0.5) }
}

/// Mean and variance (n - 1; 0 for a single value) of non-empty values, in two passes for accuracy.
pub(crate) fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().map(|v| v / n).sum::<f64>();
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, if values.len() > 1 { squares / (n - 1.0) } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        let d = describe(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((d.n, d.mean, d.median, d.min, d.max), (8, 5.0, 4.5, 2.0, 9.0));
        assert!((d.sd.unwrap() - 2.138_089_935).abs() < 1e-9);
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.25), Some(1.75));
        assert_eq!(describe(&[3.0]).unwrap().sd, None);
        assert_eq!(describe(&[]), None);
        assert_eq!(describe(&[1.0, f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn quantiles_never_cross(v in prop::collection::vec(-1e12..1e12f64, 1..40), a in 0.0..1.0f64, b in 0.0..1.0f64) {
            let (a, b) = (a.min(b), a.max(b));
            prop_assert!(quantile(&v, a).unwrap() <= quantile(&v, b).unwrap());
            let d = describe(&v).unwrap();
            prop_assert!(d.min <= d.median && d.median <= d.max);
        }

        #[test]
        fn order_does_not_matter(v in prop::collection::vec(-1e12..1e12f64, 1..40), turn in 0usize..40) {
            let mut w = v.clone();
            w.rotate_left(turn % v.len());
            prop_assert_eq!(describe(&v), describe(&w));
        }
    }
}
