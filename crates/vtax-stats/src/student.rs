//! Student's t and the normal distribution, as far as intervals need them.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The standard t distribution. Beyond 2000 degrees of freedom it differs from the normal distribution by less than
/// 0.1 %, and infinitely many are none that it could be made with.
fn student(df: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, df.clamp(0.5, 2000.0)).ok()
}

/// The `p` quantile (0 < p < 1) of Student's t with `df` > 0 degrees of freedom, fractions included. Not a number
/// where one of them isn't.
#[must_use]
pub fn t_quantile(p: f64, df: f64) -> f64 {
    let known = p > 0.0 && p < 1.0;
    student(df).filter(|_| known).map_or(f64::NAN, |t| t.inverse_cdf(p))
}

/// The upper tail of Student's t at `t` >= 0. Not a number where one of them isn't.
pub(crate) fn t_tail(t: f64, df: f64) -> f64 {
    student(df).filter(|_| !t.is_nan()).map_or(f64::NAN, |student| student.sf(t))
}

/// The `p` quantile (0 < p < 1) of the standard normal distribution. Not a number where `p` isn't one.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    if (0.0..=1.0).contains(&p) { Normal::standard().inverse_cdf(p) } else { f64::NAN }
}

/// The upper tail of the standard normal distribution.
pub(crate) fn normal_tail(z: f64) -> f64 {
    Normal::standard().sf(z)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_t() {
        // Any printed table of the t distribution.
        for (p, df, expected) in [
            (0.975, 1.0, 12.706_205),
            (0.975, 2.0, 4.302_653),
            (0.975, 4.0, 2.776_445),
            (0.95, 10.0, 1.812_461),
            (0.8, 5.0, 0.919_544),
            (0.975, 30.0, 2.042_272),
            (0.995, 8.0, 3.355_387),
        ] {
            assert!((t_quantile(p, df) - expected).abs() < 1e-5, "{p} {df}: {}", t_quantile(p, df));
            assert!((t_quantile(1.0 - p, df) + expected).abs() < 1e-5);
        }
        assert!((t_quantile(0.975, 1e9) - 1.96).abs() < 2e-3);
    }

    #[test]
    fn tail_of_the_normal() {
        for (z, expected) in [(0.0, 0.5), (1.96, 0.024_997_9), (2.5, 0.006_209_7), (-1.0, 0.841_344_7)] {
            assert!((normal_tail(z) - expected).abs() < 1e-7, "{z}");
            assert!((normal_quantile(1.0 - expected) - z).abs() < 1e-5, "{z}");
        }
    }

    #[test]
    fn tail_of_t() {
        // Abramowitz and Stegun, table 26.10, read the other way round.
        for (t, df, expected) in [(12.706_205, 1.0, 0.025), (2.776_445, 4.0, 0.025), (1.812_461, 10.0, 0.05)]
        {
            assert!((t_tail(t, df) - expected).abs() < 1e-7, "{t} {df}: {}", t_tail(t, df));
        }
        assert_eq!(t_tail(0.0, 3.0), 0.5);
    }

    #[test]
    fn what_is_no_number_gives_none() {
        for (p, df) in [(f64::NAN, 3.0), (0.5, f64::NAN), (0.0, 3.0), (1.0, 3.0)] {
            assert!(t_quantile(p, df).is_nan(), "{p} {df}");
        }
        assert!(normal_quantile(f64::NAN).is_nan());
        assert!(t_tail(f64::NAN, 3.0).is_nan() && t_tail(1.0, f64::NAN).is_nan());
        assert!((t_quantile(0.975, f64::INFINITY) - 1.96).abs() < 2e-3);
    }
}
