//! A real server of a test's own.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use vtax_plan::model::{Service, ServiceKind};
use vtax_service::{RunningService, StartContext, missing};
use vtax_units::Nanos;

/// Starts it on the loopback, with its files in this directory.
#[allow(dead_code, reason = "not every test needs it")]
pub(crate) fn start(kind: ServiceKind, stop_timeout: Nanos, directory: PathBuf) -> RunningService {
    start_with(kind, stop_timeout, directory, PathBuf::from("/proc/self/exe"))
}

/// The same, where its own processes are started by this program.
pub(crate) fn start_with(
    kind: ServiceKind,
    stop_timeout: Nanos,
    directory: PathBuf,
    vtax: PathBuf,
) -> RunningService {
    let name = kind.facts().word.to_owned();
    let service = Service { name, kind, ready_timeout: Nanos::from_secs(30), stop_timeout };
    assert_eq!(missing(&service), None, "`vtax setup --tests` installs it");
    let context = StartContext {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        directory,
        cpus: 1,
        vtax,
        die_with_starter: false,
        prepared: None,
        disk: None,
        call_off: None,
    };
    RunningService::start(&service, None, &context, |_| {}).unwrap()
}
