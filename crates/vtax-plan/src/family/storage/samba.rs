//! `samba`: an SMB server.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

use super::volume::{Backend, BackendRaw};
use crate::decode::Many;
use crate::diagnose::Report;
use crate::model::{Service, ServiceKind};
use crate::resolve::check::check_port;
use crate::resolve::variants::{Variants, service};
use crate::source::Spanned;

/// Options of an SMB server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SambaOptions {
    /// TCP port.
    pub port: u16,
    /// Where it keeps its files.
    pub backend: Backend,
}

impl SambaOptions {
    /// Name of the share.
    pub const SHARE: &str = "vtax";
}

services! {
    /// Options of `samba`. It needs root, and is reached mounted.
    struct SambaRaw = "`samba`", ready "30s", stop "10s" {
        /// TCP port it listens on.
        default port: u16 = "445",
        /// Where it keeps its files: `files` (the run's scratch space) or `disk` (the system's own disk).
        default backend: Many<BackendRaw> = "files",
    }
}

/// The server.
pub(crate) fn resolve(raw: &SambaRaw, report: &mut Report) -> Variants<Service> {
    let options = SambaOptions { port: check_port(&raw.port, report), backend: Backend::Files };
    let times = (&raw.ready_timeout, &raw.stop_timeout);
    Variants::of(service(ServiceKind::Samba(options), raw.name.as_ref(), times, report)).vary(
        "backend",
        &raw.backend.value,
        report,
        |service, backend| {
            if let ServiceKind::Samba(options) = &mut service.kind {
                options.backend = backend.0;
            }
        },
    )
}
