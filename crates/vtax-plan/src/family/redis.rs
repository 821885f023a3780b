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
/// Keys that the generator tries for a write; where all of them are being written, it reads instead.
const WRITE_TRIES: u64 = 16;
/// The share of the keys that may be written at the same time until such writes are many.
const BUSY_KEYS: f64 = 0.25;

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
        self.too_few_keys().or_else(|| {
            batches.then(|| {
                format!(
                    "`{}` offers a rate: `pipeline` is only how many requests a connection may have under way",
                    measure.name
                )
            })
        })
    }
}

impl RedisWorkload {
    /// Where so many writes may be under way that others find no free key, and read instead.
    fn too_few_keys(&self) -> Option<String> {
        let requests = &self.requests;
        let under_way = u64::from(self.connections) * u64::from(requests.pipeline);
        let writes = under_way as f64 * (1.0 - requests.reads.0);
        let is_crowded = writes > requests.keys as f64 * BUSY_KEYS;
        // Fewer never hold all keys that are tried.
        let may_hold_all = under_way > requests.keys.min(WRITE_TRIES);
        (is_crowded && may_hold_all).then(|| {
            format!(
                "about {writes:.0} writes may be under way at a time (`connections` x `pipeline`, less `reads`), among only {}: a \
                 request to write reads instead where its key and the fifteen after it are being written: more `keys`, or fewer \
                 `connections`",
                counted(requests.keys, "key")
            )
        })
    }
}
