//! FTP: clients who log in, move files and leave.

use std::net::{IpAddr, SocketAddr};

use vtax_load::ftp::{FtpSpec, FtpVerify};
use vtax_load::{ConnectionPool, LoadSpec, Part};
use vtax_plan::model::{FtpServerOptions, FtpWorkload};
use vtax_units::CpuSet;

/// The load of this workload against the service at `target`.
pub(super) fn load(workload: &FtpWorkload, target: SocketAddr, sources: &[IpAddr], seed: u64) -> LoadSpec {
    LoadSpec::Ftp(Box::new(FtpSpec {
        pool: ConnectionPool {
            target,
            connections: workload.clients,
            timeout: workload.timeout,
            // The client's agent is bound to its CPUs already: one worker on each.
            cpus: CpuSet::default(),
        },
        requests: workload.requests.clone(),
        sources: sources.to_vec(),
        user: FtpServerOptions::USER.to_owned(),
        password: FtpServerOptions::PASSWORD.to_owned(),
        // Each start of a service makes its own; nobody else can be there.
        verify: FtpVerify::Nothing,
        seed,
        part: Part::default(),
    }))
}
