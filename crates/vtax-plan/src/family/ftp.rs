//! FTP workloads.

pub mod limits;
pub(crate) mod model;
pub(crate) mod raw;
pub(crate) mod resolve;

use vtax_units::{Nanos, Rate};

use super::{Misfit, WorkloadModel};
use crate::assumptions::{Assumptions, search_steps};
use crate::model::{EnvironmentKind, FtpWorkload, MeasureKind, Protocol};

/// A transfer takes about as much of a CPU as this many requests to a small web service: a server of FTP starts a process for each
/// session, and a connection for each transfer.
const TRANSFER: f64 = 10.0;

impl WorkloadModel for FtpWorkload {
    fn protocol(&self) -> Protocol {
        Protocol::Ftp
    }

    fn accepts(&self, measure: &MeasureKind) -> Result<(), Misfit> {
        Misfit::unless_of_requests(measure)
    }

    fn measuring(&self, measure: &MeasureKind, host: &Assumptions, environment: &EnvironmentKind) -> Nanos {
        match measure {
            MeasureKind::Capacity(search) => {
                let capacity = Rate(host.capacity(environment).0 / TRANSFER);
                let step = search.settle.0.saturating_add(search.step.0);
                let steps = search_steps(search.start, search.max, search.precision, capacity);
                Nanos(step.saturating_mul(steps))
            }
            other => other.timing().least(),
        }
    }

    fn client_addresses(&self) -> Option<u32> {
        (self.addresses > 1).then_some(self.addresses)
    }
}
