//! Steady state over rounds, as tests of solid state storage have it.
//!
//! SNIA, Solid State Storage Performance Test Specification 2.0.2, "Steady State": over a window of five rounds a figure is steady where its
//! range is at most 20 % of its average, and the best linear fit through it rises or falls by at most 10 % of that.

/// The last rounds of a series, and how they lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundsWindow {
    /// Index of its first round.
    pub first: usize,
    /// How many rounds it has.
    pub rounds: usize,
    /// Average of its rounds.
    pub mean: f64,
    /// Largest less smallest round, as a share of the average.
    pub excursion: f64,
    /// How far the best linear fit (least squares) rises or falls from the first round to the last, as a share of the average.
    pub slope: f64,
    /// Value of the fit at the first round and at the last.
    pub fit: (f64, f64),
}

impl RoundsWindow {
    /// The last `rounds` of a series, in any unit; `None` where there are fewer, fewer than two are asked for, or the average isn't a
    /// positive number.
    #[must_use]
    pub fn last(series: &[f64], rounds: usize) -> Option<Self> {
        let first = series.len().checked_sub(rounds).filter(|_| rounds >= 2)?;
        let window = &series[first..];
        let mean = window.iter().sum::<f64>() / rounds as f64;
        if !(mean.is_finite() && mean > 0.0) {
            return None;
        }
        let middle = (rounds - 1) as f64 / 2.0;
        let places = || window.iter().enumerate().map(|(i, value)| (i as f64 - middle, value - mean));
        let rise = places().map(|(x, y)| x * y).sum::<f64>() / places().map(|(x, _)| x * x).sum::<f64>();
        let fit = (mean - rise * middle, mean + rise * middle);
        let (low, high) = window
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
        let (excursion, slope) = ((high - low) / mean, (fit.1 - fit.0).abs() / mean);
        Some(Self { first, rounds, mean, excursion, slope, fit })
    }

    /// Whether it is steady: neither its range nor its fit is beyond these shares of the average.
    #[must_use]
    pub fn is_steady(&self, excursion: f64, slope: f64) -> bool {
        self.excursion <= excursion && self.slope <= slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The round after which a series is steady by the specification's own numbers.
    fn steady_after(series: &[f64]) -> Option<usize> {
        (1..=series.len())
            .find(|n| RoundsWindow::last(&series[..*n], 5).is_some_and(|window| window.is_steady(0.2, 0.1)))
    }

    #[test]
    fn a_level_is_steady_as_soon_as_a_window_is_full() {
        assert_eq!(steady_after(&[100.0; 9]), Some(5));
        assert_eq!(steady_after(&[100.0; 4]), None);
    }

    #[test]
    fn a_decline_is_steady_once_five_rounds_of_the_level_are_alike() {
        // A drive that is fresh for three rounds, then on its level.
        let series = [900.0, 700.0, 500.0, 300.0, 301.0, 299.0, 300.0, 300.0, 300.0];
        assert_eq!(steady_after(&series), Some(8));
        let window = RoundsWindow::last(&series[..8], 5).unwrap();
        assert_eq!((window.first, window.rounds), (3, 5));
        assert!((window.mean - 300.0).abs() < 1e-9, "{window:?}");
    }

    #[test]
    fn the_fit_of_a_line_is_the_line() {
        let series: Vec<f64> = (0..5).map(|i| 100.0 + 2.0 * f64::from(i)).collect();
        let window = RoundsWindow::last(&series, 5).unwrap();
        assert!((window.fit.0 - 100.0).abs() < 1e-9 && (window.fit.1 - 108.0).abs() < 1e-9, "{window:?}");
        assert!(
            (window.slope - 8.0 / 104.0).abs() < 1e-12 && (window.excursion - window.slope).abs() < 1e-12
        );
        assert!(window.is_steady(0.2, 0.1));
        // The same direction twice as steep is a slope of 14.8 %, within the range but not within the slope.
        let steep: Vec<f64> = (0..5).map(|i| 100.0 + 4.0 * f64::from(i)).collect();
        let window = RoundsWindow::last(&steep, 5).unwrap();
        assert!(window.excursion < 0.2 && !window.is_steady(0.2, 0.1), "{window:?}");
    }

    #[test]
    fn what_goes_up_and_down_has_no_slope_but_a_range() {
        let series = [100.0, 125.0, 100.0, 125.0, 100.0];
        let window = RoundsWindow::last(&series, 5).unwrap();
        assert!(window.slope < 1e-9 && window.excursion > 0.2, "{window:?}");
        assert_eq!(steady_after(&[100.0, 125.0, 100.0, 125.0, 100.0, 125.0]), None);
    }

    #[test]
    fn a_series_without_figures_has_no_window() {
        assert_eq!(RoundsWindow::last(&[0.0; 5], 5), None);
        assert_eq!(RoundsWindow::last(&[1.0, f64::NAN, 1.0], 3), None);
        assert_eq!(RoundsWindow::last(&[1.0; 5], 1), None);
        assert_eq!(RoundsWindow::last(&[], 2), None);
    }
}
