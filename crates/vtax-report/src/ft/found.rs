//! Where what happened to clients is put: the courses around each fault of a trial.

use std::collections::BTreeMap;

use super::course::{Course, Kind, Window};
use super::failovers::What;

/// Courses by what they are of, in the order of the page.
pub(super) type Found = BTreeMap<usize, (What, Vec<Course>)>;

/// Where the faults of a trial are, and what is looked at around them.
#[derive(Debug)]
pub(super) struct Recorder {
    /// For counts and for means.
    windows: [Window; 2],
    /// Seconds since the load began, ascending.
    at: Vec<f64>,
    length: f64,
}

impl Recorder {
    /// `windows` for counts and for means, `at` where faults are and `length` of the load, in seconds.
    pub(super) fn new(windows: [Window; 2], at: Vec<f64>, length: f64) -> Self {
        Self { windows, at, length }
    }

    /// An empty course for each fault of the trial.
    pub(super) fn courses(&self, kind: Kind) -> Vec<Course> {
        let window = self.windows[usize::from(kind == Kind::Mean)];
        self.at.iter().map(|at| Course::new(window, kind, (-at, self.length - at))).collect()
    }

    /// Where an attempt that failed belongs: to the first fault that it lived through, else to its start.
    pub(super) fn place(&self, started: f64, ended: f64) -> f64 {
        let after = self.at.partition_point(|at| *at < started);
        self.at.get(after).copied().filter(|at| *at <= ended).unwrap_or(started)
    }

    /// Adds what happened at a time of the load to the course of each fault that it is near to.
    pub(super) fn add(&self, courses: &mut [Course], seconds: f64, value: f64, weight: f64) {
        let from = self.at.partition_point(|at| seconds - at >= self.windows[0].to.max(self.windows[1].to));
        for (course, at) in courses.iter_mut().zip(&self.at).skip(from) {
            if seconds - at < self.windows[0].from.min(self.windows[1].from) {
                break;
            }
            course.add(seconds - at, value, weight);
        }
    }
}

/// Puts a trial's courses to those of other trials.
pub(super) fn put(found: &mut Found, order: usize, what: What, courses: Vec<Course>) {
    found.entry(order).or_insert_with(|| (what, Vec::new())).1.extend(courses);
}
