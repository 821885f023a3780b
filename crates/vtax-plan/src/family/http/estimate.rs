//! How long measurements with HTTP requests take.

use vtax_units::{Nanos, Rate};

use crate::assumptions::search_steps;
use crate::model::MeasureKind;

/// Time of a measurement on a service of this capacity.
pub(super) fn measuring(measure: &MeasureKind, capacity: Rate) -> Nanos {
    match measure {
        MeasureKind::Capacity(search) => {
            let step = search.settle.0.saturating_add(search.step.0);
            Nanos(step.saturating_mul(search_steps(search.start, search.max, search.precision, capacity)))
        }
        other => other.timing().least(),
    }
}
