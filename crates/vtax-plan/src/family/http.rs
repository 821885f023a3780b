//! HTTP workloads.

pub(crate) mod estimate;
pub(crate) mod model;
pub(crate) mod raw;
pub(crate) mod resolve;
pub(crate) mod script;
pub(crate) mod web;

use vtax_units::Nanos;

use super::{Misfit, WorkloadModel};
use crate::assumptions::Assumptions;
use crate::model::{EnvironmentKind, HttpWorkload, MeasureKind, Protocol};

impl WorkloadModel for HttpWorkload {
    fn protocol(&self) -> Protocol {
        Protocol::Http
    }

    fn accepts(&self, measure: &MeasureKind) -> Result<(), Misfit> {
        Misfit::unless_of_requests(measure)
    }

    fn measuring(&self, measure: &MeasureKind, host: &Assumptions, environment: &EnvironmentKind) -> Nanos {
        estimate::measuring(measure, host.capacity(environment))
    }
}
