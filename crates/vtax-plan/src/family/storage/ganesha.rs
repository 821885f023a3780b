//! `ganesha`: an NFS server in user space.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

use crate::decode::Many;
use crate::diagnose::Report;
use crate::model::{Service, ServiceKind};
use crate::resolve::check::check_port;
use crate::resolve::variants::{Variants, service};
use crate::source::Spanned;

/// Options of an NFS server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GaneshaOptions {
    /// TCP port.
    pub port: u16,
    /// Where it keeps its files.
    pub backend: GaneshaBackend,
}

impl GaneshaOptions {
    /// The path that clients use.
    pub const EXPORT: &str = "/vtax";
    /// Bytes of a file that [`GaneshaBackend::Memory`] keeps; what is beyond reads as if it had never been written.
    pub const MEMORY_FILE_BYTES: u64 = 2 << 20;
}

/// Where a server of NFS keeps its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GaneshaBackend {
    /// In a directory of the run's scratch space. Needs root outside user namespaces and containers: it opens files by handle.
    Files,
    /// In its own memory, of each file the first 2 MiB.
    Memory,
    /// On the system's own disk. Needs the same as files.
    Disk,
}

services! {
    /// Options of `ganesha`.
    struct GaneshaRaw = "`ganesha`", ready "30s", stop "10s" {
        /// TCP port it listens on.
        default port: u16 = "2049",
        /// Where it keeps its files: `files` (a directory of the run's scratch space; needs root, and no
        /// container), `memory` (its own memory, of each file the first 2 MiB) or `disk` (the system's own disk;
        /// needs the same as `files`).
        default backend: Many<GaneshaBackendRaw> = "files",
    }
}

words! {
    /// Where it keeps its files.
    GaneshaBackendRaw(GaneshaBackend) = "backend", "kinds of backend" {
        "files": Files, "In a directory of the run's scratch space; needs root, and no container.";
        "memory": Memory, "In its own memory, of each file the first 2 MiB.";
        "disk": Disk, "On the system's own disk; needs root, and no container.";
    }
}

/// The server.
pub(crate) fn resolve(raw: &GaneshaRaw, report: &mut Report) -> Variants<Service> {
    let kind = ServiceKind::Ganesha(GaneshaOptions {
        port: check_port(&raw.port, report),
        backend: GaneshaBackend::Files,
    });
    Variants::of(service(kind, raw.name.as_ref(), (&raw.ready_timeout, &raw.stop_timeout), report)).vary(
        "backend",
        &raw.backend.value,
        report,
        |service, backend| {
            if let ServiceKind::Ganesha(options) = &mut service.kind {
                options.backend = backend.0;
            }
        },
    )
}
