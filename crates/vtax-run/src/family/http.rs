//! HTTP: requests and answers.

use std::net::SocketAddr;

use vtax_load::http::{HttpRequests, HttpSpec};
use vtax_load::{ConnectionPool, LoadSpec, Verify};
use vtax_plan::model::HttpWorkload;
use vtax_units::CpuSet;

/// The load of this workload against the service at `target`.
pub(super) fn load(workload: &HttpWorkload, target: SocketAddr) -> LoadSpec {
    LoadSpec::Http(HttpSpec {
        pool: ConnectionPool {
            target,
            connections: workload.connections,
            timeout: workload.timeout,
            // The client's agent is bound to its CPUs already: one worker on each.
            cpus: CpuSet::default(),
        },
        requests: HttpRequests {
            target: workload.target.clone(),
            host: target.to_string(),
            requests_per_connection: workload.requests_per_connection,
            http2_streams: workload.http2_streams,
            tls: workload.tls.clone(),
            // Certificates are made for the run, and nobody else can be there.
            verify: Verify::Nothing,
            script: workload.script.clone(),
        },
    })
}
