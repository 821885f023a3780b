//! HTTP: web servers and workloads.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

/// Options of the web servers of the catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WebOptions {
    /// TCP port.
    pub port: u16,
    /// Worker threads or processes; `None`: one per CPU of the environment.
    pub workers: Option<u32>,
}

/// Most connections of one load: they go from one address to one other, and of the 65,535 ports some are
/// taken or kept.
pub const MOST_CONNECTIONS: u32 = 60_000;

/// An HTTP workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpWorkload {
    /// Request target in origin form, `/bytes/100` (RFC 9112 section 3.2.1).
    pub target: String,
    /// Connections; in an open loop the most that may be open at once.
    pub connections: u32,
    /// Requests on one connection before it is closed; `None`: no limit.
    pub requests_per_connection: Option<u32>,
    /// A request not answered within this time, counted from its intended start, has failed.
    pub timeout: Nanos,
}
