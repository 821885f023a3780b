//! HTTP as written: web servers and workloads.

use vtax_units::Nanos;

use crate::decode::Many;
use crate::source::Spanned;

services! {
    /// Options of `http`, `apache` and `nginx`.
    struct WebRaw = "this web server", ready "30s", stop "5s" {
        /// TCP port it listens on.
        default port: u16 = "8080",
        /// Worker threads or processes; without it, one per CPU. A list makes a cell for each.
        optional workers: Many<u32>,
    }
}

raw! {
    /// Options of the `http` workload. A list of values makes a cell for each.
    struct HttpWorkloadRaw = "`http`" {
        /// What is requested: a path such as `/bytes/100`.
        required target: Many<String>,
        /// Connections; in an open loop the most that may be open at once.
        default connections: Many<u32> = "64",
        /// Requests on one connection before it is closed; without it, no limit.
        optional requests_per_connection: Many<u32>,
        /// A request not answered within this time, counted from its intended start, has failed.
        default timeout: Many<Nanos> = "2s",
    }
}
