//! From values to positions, and where the ticks go.

use std::ops::RangeInclusive;

/// How an axis maps values to 0..1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    /// Equal steps for equal differences.
    Linear {
        /// Value at 0.
        low: f64,
        /// Value at 1.
        high: f64,
    },
    /// Equal steps for equal factors; both ends positive.
    Log {
        /// Value at 0.
        low: f64,
        /// Value at 1.
        high: f64,
    },
    /// Quantiles by their number of nines: 0, 0.9, 0.99 and 0.999 are equal steps apart.
    Nines {
        /// Nines at 1.
        high: f64,
    },
}

/// What a logarithmic scale has room for. A file may hold any number, and ticks are looked for in each decade.
const DRAWN: RangeInclusive<f64> = 1e-100..=1e100;
/// The most ticks of a linear scale, where it has next to no length.
const MOST_TICKS: usize = 100;

impl Scale {
    /// A linear scale from 0 to a round number at or above `high`.
    pub(crate) fn from_zero(high: f64) -> Self {
        let high = if high.is_finite() && high > 0.0 { high } else { 1.0 };
        let step = step(high, 4);
        Self::Linear { low: 0.0, high: (high / step).ceil() * step }
    }

    /// A logarithmic scale that holds every positive value with some room at both ends, but for those that no picture has room for.
    pub(crate) fn log_around(values: impl IntoIterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        for v in values.into_iter().filter(|v| DRAWN.contains(v)) {
            low = low.min(v);
            high = high.max(v);
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        let room = (high / low).powf(0.04).max(1.02);
        Self::Log { low: low / room, high: high * room }
    }

    /// Position of a value, clamped to 0..1.
    pub(crate) fn at(self, value: f64) -> f64 {
        let position = match self {
            Self::Linear { low, high } => (value - low) / (high - low),
            Self::Log { low, high } => (value / low).ln() / (high / low).ln(),
            Self::Nines { high } => -(1.0 - value).log10() / high,
        };
        if position.is_nan() { 0.0 } else { position.clamp(0.0, 1.0) }
    }

    /// Values to label, about `count` of them, ascending.
    pub(crate) fn ticks(self, count: usize) -> Vec<f64> {
        match self {
            Self::Linear { low, high } => {
                let step = step(high - low, count);
                let first = (low / step).ceil() as i64;
                let last = (high / step * (1.0 + 1e-9)).floor() as i64;
                (first..=last).take(MOST_TICKS).map(|i| i as f64 * step).collect()
            }
            Self::Log { low, high } => log_ticks(low, high, count),
            Self::Nines { high } => {
                let nines = [0.0f64, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999];
                nines.into_iter().filter(|q| -(1.0 - q).log10() <= high + 1e-9).collect()
            }
        }
    }
}

/// The round step (1, 2 or 5 times a power of ten) that gives at most about `count` of them.
fn step(span: f64, count: usize) -> f64 {
    let rough = span / count.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let factor = match rough / power {
        f if f <= 1.0 + 1e-9 => 1.0,
        f if f <= 2.0 + 1e-9 => 2.0,
        f if f <= 5.0 + 1e-9 => 5.0,
        _ => 10.0,
    };
    factor * power
}

/// Round values: the densest of these patterns that keeps to `count`.
fn log_ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    // Scales with room at their ends are a little longer than what is drawn.
    let [low, high] = [low, high].map(|end| end.clamp(DRAWN.start() / 1e10, DRAWN.end() * 1e10));
    let patterns: [&[f64]; 6] = [
        &[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0, 2.2, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0],
        &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
        &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
        &[1.0, 2.0, 5.0],
        &[1.0, 3.0],
        &[1.0],
    ];
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let of = |pattern: &[f64], every: usize| -> Vec<f64> {
        decades
            .clone()
            .step_by(every)
            .flat_map(|d| pattern.iter().map(move |f| f * 10f64.powi(d)))
            .filter(|v| *v >= low * (1.0 - 1e-9) && *v <= high * (1.0 + 1e-9))
            .collect()
    };
    let span = (high / low).log10();
    if span < 0.2 {
        // So narrow that even steps look like factors.
        return Scale::Linear { low, high }.ticks(count);
    }
    patterns
        .iter()
        .map(|p| of(p, 1))
        .find(|t| t.len() <= count)
        .unwrap_or_else(|| of(&[1.0], (span / count as f64).ceil() as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn round_ticks() {
        assert_eq!(Scale::Linear { low: 0.0, high: 10.0 }.ticks(5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(Scale::from_zero(871.0), Scale::Linear { low: 0.0, high: 1000.0 });
        assert_eq!(Scale::Log { low: 1.0, high: 100.0 }.ticks(7), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(Scale::Nines { high: 3.2 }.ticks(9), [0.0, 0.5, 0.9, 0.99, 0.999]);
        assert!((Scale::Nines { high: 4.0 }.at(0.99) - 0.5).abs() < 1e-12);
    }

    /// Every number of a file comes here, and from one decade to the next it mustn't be far.
    #[test]
    fn a_scale_of_whatever_numbers_has_few_ticks() {
        let ends = [0.0, 5e-324, 1e-320, 1e-100, 1.0, 1e100, 1e308, f64::MAX, f64::INFINITY, f64::NAN];
        for (low, high) in ends.into_iter().flat_map(|low| ends.map(|high| (low, high))) {
            let linear =
                [Scale::Linear { low, high }, Scale::Linear { low: -low, high }, Scale::from_zero(high)];
            let log = [Scale::log_around([low, 2.0, high]), Scale::Log { low, high }];
            for scale in linear.into_iter().chain(log) {
                let ticks = scale.ticks(5);
                assert!(ticks.len() <= MOST_TICKS, "{scale:?}: {}", ticks.len());
                assert!((0.0..=1.0).contains(&scale.at(low)), "{scale:?}");
            }
        }
        let around = Scale::log_around([5e-324, 1e308, 1.0, 10.0]);
        assert_eq!(around.ticks(5), Scale::log_around([1.0, 10.0]).ticks(5));
        assert_eq!(around.at(5e-324), 0.0);
    }

    proptest! {
        #[test]
        fn ticks_are_few_and_inside(low in 1e-3..1e9f64, factor in 1.01..1e9f64, count in 3usize..9) {
            for scale in [Scale::Log { low, high: low * factor }, Scale::Linear { low, high: low * factor }] {
                let ticks = scale.ticks(count);
                prop_assert!(ticks.len() <= 2 * count + 1, "{:?}", ticks);
                prop_assert!(ticks.windows(2).all(|w| w[0] < w[1]));
                prop_assert!(ticks.iter().all(|t| *t >= low * 0.999 && *t <= low * factor * 1.001));
            }
        }

        #[test]
        fn positions_are_monotonic(a in 1e-6..1e12f64, b in 1e-6..1e12f64) {
            let scale = Scale::log_around([1.0, 1e6]);
            prop_assert!((a <= b) == (scale.at(a) <= scale.at(b)) || scale.at(a) == scale.at(b));
        }
    }
}
