//! Redis: requests and answers.

use std::net::SocketAddr;

use vtax_load::redis::RedisSpec;
use vtax_load::{ConnectionPool, LoadSpec, Part};
use vtax_plan::model::RedisWorkload;
use vtax_units::CpuSet;

/// The load of this workload against the service at `target`.
pub(super) fn load(workload: &RedisWorkload, target: SocketAddr, seed: u64) -> LoadSpec {
    LoadSpec::Redis(RedisSpec {
        pool: ConnectionPool {
            target,
            connections: workload.connections,
            timeout: workload.timeout,
            // The client's agent is bound to its CPUs already: one worker on each.
            cpus: CpuSet::default(),
        },
        requests: workload.requests.clone(),
        seed,
        part: Part::default(),
    })
}
