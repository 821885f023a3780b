//! Desktop workloads.

pub mod limits;
pub(crate) mod model;
pub(crate) mod raw;
pub(crate) mod resolve;

use vtax_units::{Nanos, Rate};

use super::{Misfit, WorkloadModel};
use crate::assumptions::{Assumptions, search_steps};
use crate::model::{DesktopWorkload, EnvironmentKind, MeasureKind, Protocol};

/// An answer on a screen takes about as much of a CPU as this many requests to a small web service.
const REQUESTS_OF_ONE: f64 = 25.0;

impl WorkloadModel for DesktopWorkload {
    fn protocol(&self) -> Protocol {
        Protocol::Desktop
    }

    fn accepts(&self, measure: &MeasureKind) -> Result<(), Misfit> {
        Misfit::unless_of_requests(measure)
    }

    fn measuring(&self, measure: &MeasureKind, host: &Assumptions, environment: &EnvironmentKind) -> Nanos {
        match measure {
            MeasureKind::Capacity(search) => {
                let capacity = Rate(host.capacity(environment).0 / REQUESTS_OF_ONE);
                let step = search.settle.0.saturating_add(search.step.0);
                let steps = search_steps(search.start, search.max, search.precision, capacity);
                Nanos(step.saturating_mul(steps))
            }
            other => other.timing().least(),
        }
    }
}
