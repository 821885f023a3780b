//! HTTP loads of one step, for tests that change them field by field.

use std::net::SocketAddr;

use vtax_load::http::{HttpRequests, HttpSession, HttpSpec};
use vtax_load::{ConnectionPool, Control, LoadError, LoadResult, Model, RequestStep};
use vtax_units::{CpuSet, Nanos};

/// A load and its only step.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) target: SocketAddr,
    pub(crate) path: String,
    pub(crate) requests_per_connection: Option<u32>,
    pub(crate) model: Model,
    pub(crate) warmup: Nanos,
    pub(crate) duration: Nanos,
    pub(crate) timeout: Nanos,
    pub(crate) connections: u32,
    pub(crate) cpus: CpuSet,
    pub(crate) samples: bool,
    pub(crate) interval: Nanos,
}

/// Opens the load and runs its step.
pub(crate) fn run(load: &Load, control: &Control) -> Result<LoadResult, LoadError> {
    let load = load.clone();
    let spec = HttpSpec {
        pool: ConnectionPool {
            target: load.target,
            connections: load.connections,
            timeout: load.timeout,
            cpus: load.cpus,
        },
        requests: HttpRequests {
            requests_per_connection: load.requests_per_connection,
            ..HttpRequests::get(&load.path, "test")
        },
    };
    let step = RequestStep {
        model: load.model,
        warmup: load.warmup,
        duration: load.duration,
        seed: 1,
        samples: load.samples,
        interval: load.interval,
        drain: load.timeout,
    };
    HttpSession::open(&spec)?.run_step(&step, control)
}
