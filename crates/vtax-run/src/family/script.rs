//! Calls after SIPp's scenarios: each is a request of a kind.

use std::net::{IpAddr, SocketAddr};

use vtax_load::sip::{ScriptSettings, ScriptSpec};
use vtax_load::{ConnectionPool, LoadSpec, Part, Verify};
use vtax_plan::model::ScriptWorkload;
use vtax_units::CpuSet;

/// The load of this workload against the service at `target`.
pub(super) fn load(workload: &ScriptWorkload, target: SocketAddr, sources: &[IpAddr], seed: u64) -> LoadSpec {
    let injections = workload.injections.iter().map(|file| (file.base().to_owned(), file.text.clone()));
    LoadSpec::Script(Box::new(ScriptSpec {
        pool: ConnectionPool {
            target,
            connections: workload.calls,
            timeout: workload.recv_timeout,
            // The client's agent is bound to its CPUs already: one worker on each.
            cpus: CpuSet::default(),
        },
        settings: ScriptSettings {
            file: workload.scenario.name.clone(),
            service: workload.service.clone(),
            pause: workload.pause,
            drain: workload.drain,
            user: workload.auth_user.clone(),
            keys: workload.keys.clone(),
            media_port: workload.media_port,
            media: workload.media,
            callees: workload.callees,
        },
        scenario: workload.scenario.text.clone(),
        password: workload.auth_password.clone(),
        injections: injections.collect(),
        local: sources.to_vec(),
        transport: workload.transport,
        tls: workload.tls.clone(),
        // Certificates are made for the run, and nobody else can be there.
        verify: Verify::Nothing,
        connection_per_call: workload.connection_per_call,
        seed,
        part: Part::default(),
    }))
}
