//! Users of remote desktops: actions and their answers are requests of a kind.

use std::net::SocketAddr;

use vtax_load::LoadSpec;
use vtax_load::desktop::{DesktopSpec, Keep};
use vtax_plan::model::{DesktopOptions, DesktopSecurity, DesktopWorkload, ServiceKind};
use vtax_units::CpuSet;

/// The load of this workload against the desktops whose first is at `target`.
pub(super) fn load(
    workload: &DesktopWorkload,
    service: &ServiceKind,
    target: SocketAddr,
    seed: u64,
) -> LoadSpec {
    let (sessions, security, tunnel) = match service {
        ServiceKind::Tigervnc(options) | ServiceKind::X11vnc(options) => {
            (options.sessions, options.security, options.tunnel)
        }
        // A server of the user's own has one desktop, for anyone.
        _ => (1, DesktopSecurity::None, false),
    };
    LoadSpec::Desktop(DesktopSpec {
        first: target,
        sessions,
        security,
        tunnel,
        password: security.asks_password().then(|| DesktopOptions::PASSWORD.to_owned()),
        users: workload.users.clone(),
        timeout: workload.timeout,
        // The client's agent is bound to its CPUs already: one worker on each.
        cpus: CpuSet::default(),
        seed,
        keep: Keep::First,
    })
}
