//! How long network tests take.

use vtax_units::Nanos;

use crate::model::{NetworkMeasure, NetworkWorkload};

/// What comes on top of each test's own time: connecting, what is under way at its end, counters.
const AROUND: Nanos = Nanos::from_millis(100);

/// Time of all tests of a trial, one after the other.
pub(super) fn measuring(measure: &NetworkMeasure, workload: &NetworkWorkload) -> Nanos {
    workload.tests.iter().fold(Nanos::ZERO, |sum, test| {
        let time = measure.of(test).test_time().0.saturating_add(AROUND.0);
        Nanos(sum.0.saturating_add(time))
    })
}
