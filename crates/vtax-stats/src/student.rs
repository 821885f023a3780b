//! Student's t and the normal distribution, as far as intervals need them.

/// The `p` quantile (0 < p < 1) of Student's t with `df` > 0 degrees of freedom, fractions included.
#[must_use]
pub fn t_quantile(p: f64, df: f64) -> f64 {
    if p < 0.5 {
        return -t_quantile(1.0 - p, df);
    }
    // Beyond this many the difference to the normal distribution is below 0.1 %.
    let df = df.clamp(0.5, 2000.0);
    let (mut low, mut high) = (0.0, 1.0);
    while t_cdf(high, df) < p && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if high - low < 1e-13 * high {
            break;
        }
        if t_cdf(middle, df) < p { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The upper tail of Student's t at `t` >= 0.
pub(crate) fn t_tail(t: f64, df: f64) -> f64 {
    let df = df.clamp(0.5, 2000.0);
    0.5 * incomplete_beta(df / (df + t * t), df / 2.0, 0.5)
}

fn t_cdf(t: f64, df: f64) -> f64 {
    1.0 - t_tail(t, df)
}

/// The upper tail of the standard normal distribution (Abramowitz and Stegun 7.1.26, error below 2e-7).
pub(crate) fn normal_tail(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429];
    let erfc = series.iter().rev().fold(0.0, |sum, c| (sum + c) * t) * (-x * x).exp();
    if z >= 0.0 { erfc / 2.0 } else { 1.0 - erfc / 2.0 }
}

/// Regularised incomplete beta function by its continued fraction (DLMF 8.17.22), evaluated with
/// Lentz's method.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast only on this side (DLMF 8.17.4 gives the other).
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    let tiny = 1e-300;
    let (mut f, mut c, mut d) = (1.0, 1.0, 0.0);
    for i in 0..500 {
        let m = f64::from(i / 2);
        let numerator = match i {
            0 => 1.0,
            _ if i % 2 == 0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        d = 1.0 + numerator * d;
        d = 1.0 / if d.abs() < tiny { tiny } else { d };
        c = 1.0 + numerator / c;
        c = if c.abs() < tiny { tiny } else { c };
        f *= c * d;
        if (1.0 - c * d).abs() < 1e-14 {
            break;
        }
    }
    (front * (f - 1.0)).clamp(0.0, 1.0)
}

/// Logarithm of the gamma function for x > 0, by Stirling's series (DLMF 5.11.1) shifted above 10.
fn ln_gamma(x: f64) -> f64 {
    let mut shift = 0.0;
    let mut x = x;
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let series =
        inverse / 12.0 - inverse.powi(3) / 360.0 + inverse.powi(5) / 1260.0 - inverse.powi(7) / 1680.0;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
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
            assert!((normal_tail(z) - expected).abs() < 1e-6, "{z}");
        }
    }
}
