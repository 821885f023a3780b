//! Courses of repeated failovers laid over each other at the fault.

use super::plot::around::Column;

/// Most columns of a picture: what is finer can't be seen.
const MOST_COLUMNS: usize = 400;

/// What a column's value is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Events in a second: a column without any is zero.
    Rate,
    /// The mean of values, each with its weight: a column without any is empty.
    Mean,
}

/// The time around a fault that is looked at, in columns of equal width. Seconds, the fault is at 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Window {
    pub(crate) from: f64,
    pub(crate) to: f64,
    columns: usize,
}

impl Window {
    /// Columns of about `bin` seconds, fewer where that would be too many. The fault is where two of them
    /// meet, so that none mixes what was before with what was after.
    pub(crate) fn new(before: f64, after: f64, bin: f64) -> Self {
        // A millisecond to a day: what is beyond is no failover's.
        let sane = |v: f64, otherwise: f64| if v.is_finite() { v.clamp(1e-3, 86_400.0) } else { otherwise };
        let (before, after) = (sane(before, 1.0), sane(after, 1.0));
        let bin = sane(bin, 0.1).max((before + after) / (MOST_COLUMNS - 2) as f64);
        let (left, right) = ((before / bin).ceil(), (after / bin).ceil());
        Self { from: -left * bin, to: right * bin, columns: (left + right) as usize }
    }

    fn width(self) -> f64 {
        (self.to - self.from) / self.columns as f64
    }

    fn column(self, at: f64) -> Option<usize> {
        let inside = at >= self.from && at < self.to;
        inside.then(|| (((at - self.from) / self.width()) as usize).min(self.columns - 1))
    }
}

/// One failover's course of one quantity.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    window: Window,
    kind: Kind,
    sum: Vec<f64>,
    weight: Vec<f64>,
    /// Where the load began and ended, as the time beyond was not looked at.
    seen: (f64, f64),
}

impl Course {
    /// `seen` is the part of the time, in seconds since the fault, that was recorded.
    pub(crate) fn new(window: Window, kind: Kind, seen: (f64, f64)) -> Self {
        let empty = vec![0.0; window.columns];
        Self { window, kind, sum: empty.clone(), weight: empty, seen }
    }

    /// Adds a value at a time since the fault: a number of events, or a mean with its weight.
    pub(crate) fn add(&mut self, at: f64, value: f64, weight: f64) {
        let usable = value.is_finite() && weight.is_finite() && weight > 0.0;
        if let Some(column) = self.window.column(at).filter(|_| usable) {
            self.sum[column] += value * weight;
            self.weight[column] += weight;
        }
    }

    /// The value of each column; NaN where there is none.
    fn values(&self) -> impl Iterator<Item = f64> {
        let width = self.window.width();
        (0..self.window.columns).map(move |i| {
            let from = self.window.from + i as f64 * width;
            // Half a column may be missing at either end.
            let seen = from >= self.seen.0 - width / 2.0 && from + width <= self.seen.1 + width / 2.0;
            match self.kind {
                _ if !seen => f64::NAN,
                Kind::Rate => self.sum[i] / width,
                Kind::Mean if self.weight[i] > 0.0 => self.sum[i] / self.weight[i],
                Kind::Mean => f64::NAN,
            }
        })
    }
}

/// Median and range of courses, column by column. A column that fewer than half of them have is empty: its median
/// would jump with who is in it.
pub(crate) fn overlay(window: Window, courses: &[Course]) -> Vec<Column> {
    let mut columns: Vec<Vec<f64>> = vec![Vec::with_capacity(courses.len()); window.columns];
    for course in courses.iter().filter(|c| c.window == window) {
        for (column, value) in columns.iter_mut().zip(course.values()) {
            if value.is_finite() {
                column.push(value);
            }
        }
    }
    let width = window.width();
    let of = |(i, mut values): (usize, Vec<f64>)| {
        values.sort_by(f64::total_cmp);
        let enough = !values.is_empty() && values.len() * 2 >= courses.len();
        let end = |v: Option<&f64>| v.copied().filter(|_| enough).unwrap_or(f64::NAN);
        let median = vtax_stats::quantile(&values, 0.5).filter(|_| enough).unwrap_or(f64::NAN);
        let at = window.from + (i as f64 + 0.5) * width;
        Column { at, low: end(values.first()), median, high: end(values.last()) }
    };
    columns.into_iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn course(window: Window, kind: Kind, values: &[(f64, f64, f64)]) -> Course {
        let mut course = Course::new(window, kind, (-10.0, 10.0));
        values.iter().for_each(|(at, value, weight)| course.add(*at, *value, *weight));
        course
    }

    #[test]
    fn the_fault_is_between_two_columns() {
        let window = Window::new(0.25, 0.5, 0.1);
        assert!((window.from + 0.3).abs() < 1e-12 && (window.to - 0.5).abs() < 1e-12);
        let before = window.column(-1e-9).unwrap();
        assert_eq!(window.column(0.0), Some(before + 1));
        assert_eq!((window.column(-0.31), window.column(0.5)), (None, None));
    }

    #[test]
    fn rates_and_means() {
        let window = Window::new(0.1, 0.1, 0.1);
        let rates = course(window, Kind::Rate, &[(-0.05, 3.0, 1.0), (-0.01, 1.0, 1.0)]);
        assert_eq!(rates.values().collect::<Vec<_>>(), [40.0, 0.0]);
        let means = course(window, Kind::Mean, &[(0.0, 10.0, 3.0), (0.05, 50.0, 1.0), (0.05, f64::NAN, 1.0)]);
        let values: Vec<f64> = means.values().collect();
        assert!(values[0].is_nan() && (values[1] - 20.0).abs() < 1e-12);
    }

    #[test]
    fn what_was_not_recorded_is_not_zero() {
        let window = Window::new(1.0, 1.0, 0.5);
        let short = Course::new(window, Kind::Rate, (-0.5, 0.5));
        let values: Vec<f64> = short.values().collect();
        assert!(values[0].is_nan() && values[1] == 0.0 && values[2] == 0.0 && values[3].is_nan());
        let full = Course::new(window, Kind::Rate, (-5.0, 5.0));
        // One of three isn't half.
        let columns = overlay(window, &[short.clone(), short, full]);
        assert!(columns[0].median.is_nan() && columns[1].median == 0.0);
    }

    #[test]
    fn median_and_range() {
        let window = Window::new(0.1, 0.1, 0.1);
        let courses: Vec<Course> =
            [1.0, 2.0, 9.0].iter().map(|v| course(window, Kind::Mean, &[(0.0, *v, 1.0)])).collect();
        let last = overlay(window, &courses)[1];
        assert_eq!((last.low, last.median, last.high), (1.0, 2.0, 9.0));
    }

    proptest! {
        #[test]
        fn hostile_windows_are_bounded(before in any::<f64>(), after in any::<f64>(), bin in any::<f64>(), at in any::<f64>()) {
            let window = Window::new(before, after, bin);
            prop_assert!(window.columns <= MOST_COLUMNS && window.columns >= 2);
            let course = course(window, Kind::Rate, &[(at, 1.0, 1.0)]);
            prop_assert_eq!(overlay(window, &[course]).len(), window.columns);
        }
    }
}
