//! Redis workloads.

pub mod limits;
pub(crate) mod model;
pub(crate) mod raw;
pub(crate) mod resolve;

use vtax_units::{Nanos, Rate, counted};

use super::{Misfit, WorkloadModel};
use crate::assumptions::{Assumptions, searching};
use crate::model::{EnvironmentKind, KeyAccess, Measure, MeasureKind, Protocol, RedisWorkload};

/// Requests to a small web service take about as much of a CPU as this many of Redis's.
const REQUESTS_OF_ONE: f64 = 3.0;

impl WorkloadModel for RedisWorkload {
    fn protocol(&self) -> Protocol {
        Protocol::Redis
    }

    fn accepts(&self, measure: &MeasureKind) -> Result<(), Misfit> {
        Misfit::unless_of_requests(measure)
    }

    fn measuring(&self, measure: &MeasureKind, host: &Assumptions, environment: &EnvironmentKind) -> Nanos {
        match measure {
            MeasureKind::Capacity(search) => {
                searching(search, Rate(host.capacity(environment).0 * REQUESTS_OF_ONE))
            }
            other => other.timing().least(),
        }
    }

    fn is_of_requests(&self) -> bool {
        true
    }

    fn asked(&self) -> Option<String> {
        let requests = &self.requests;
        let (keys, value, reads) = (counted(requests.keys, "key"), requests.value, requests.reads);
        let mut text = format!("{keys} of {value}, {reads} reads");
        if requests.access == KeyAccess::Zipf {
            text += " by Zipf's law";
        }
        text += &format!(", {}", counted(self.connections, "connection"));
        if requests.pipeline > 1 {
            text += &format!(" with {} under way", requests.pipeline);
        }
        Some(text)
    }

    fn caution(&self, measure: &Measure) -> Option<String> {
        let batches = self.requests.pipeline > 1 && measure.kind.load().is_some();
        batches.then(|| {
            format!(
                "`{}` offers a rate: `pipeline` is only how many requests a connection may have under way",
                measure.name
            )
        })
    }
}
