//! What one burst of load is.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use vtax_units::{CpuSet, Nanos, Rate};

/// One burst of load: a protocol, an arrival model and how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadSpec {
    /// Where the service listens.
    pub target: SocketAddr,
    /// What is sent.
    pub protocol: Protocol,
    /// When it is sent.
    pub model: Model,
    /// Time at the start that is sent but not recorded.
    pub warmup: Nanos,
    /// Time that is recorded.
    pub duration: Nanos,
    /// A request not answered within this time, counted from its intended start, has failed.
    pub timeout: Nanos,
    /// Connections; in an open loop the most that may be open at once.
    pub connections: u32,
    /// CPUs to pin workers to, one worker each; empty: one worker per CPU this process may use.
    pub cpus: CpuSet,
    /// Seed of the arrival process.
    pub seed: u64,
    /// Keep every request's latency besides histograms.
    pub samples: bool,
    /// Length of the intervals in [`crate::LoadResult::intervals`].
    pub interval: Nanos,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Protocol {
    /// HTTP/1.1 GET.
    Http(HttpLoad),
}

/// HTTP requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpLoad {
    /// Request target in origin form.
    pub target: String,
    /// Value of the Host field.
    pub host: String,
    /// Requests on one connection before it is closed; `None`: no limit.
    pub requests_per_connection: Option<u32>,
}

/// When requests are sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Model {
    /// At times that don't depend on the answers.
    Open {
        /// Gaps between requests.
        arrivals: ArrivalProcess,
        /// Rate over time; the last segment's end rate holds until the load ends.
        profile: Vec<Segment>,
    },
    /// Each connection sends its next request when the last is answered.
    Closed,
}

/// Gaps between requests of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalProcess {
    /// Exponential.
    Poisson,
    /// Equal.
    Constant,
}

/// A stretch of a load profile; the rate goes linearly from `from` to `to`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Rate at its start, all workers together.
    pub from: Rate,
    /// Rate at its end.
    pub to: Rate,
    /// Its length.
    pub duration: Nanos,
}
