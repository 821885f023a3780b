//! `nfsd`: the kernel's own NFS server.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

use super::volume::{Backend, BackendRaw};
use crate::decode::Many;
use crate::diagnose::Report;
use crate::model::{Service, ServiceKind};
use crate::resolve::check::{check_port, counts_in};
use crate::resolve::variants::{Variants, service};
use crate::source::Spanned;

/// Threads of the kernel's server.
const MOST_THREADS: u32 = 256;

/// Options of the kernel's NFS server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NfsdOptions {
    /// TCP port.
    pub port: u16,
    /// Its threads.
    pub threads: u32,
    /// Where it keeps its files.
    pub backend: Backend,
}

impl NfsdOptions {
    /// The path that clients use.
    pub const EXPORT: &str = "/vtax";
}

services! {
    /// Options of `nfsd`. It is part of the kernel, so it takes a virtual machine.
    struct NfsdRaw = "`nfsd`", ready "30s", stop "5s" {
        /// TCP port it listens on.
        default port: u16 = "2049",
        /// Threads of the server.
        default threads: Many<u32> = "8",
        /// Where it keeps its files: `files` (the virtual machine's memory) or `disk` (its disk).
        default backend: Many<BackendRaw> = "files",
    }
}

/// The server.
pub(crate) fn resolve(raw: &NfsdRaw, report: &mut Report) -> Variants<Service> {
    counts_in(&raw.threads.value, "a server without a thread answers nobody", MOST_THREADS, report);
    let options = NfsdOptions { port: check_port(&raw.port, report), threads: 1, backend: Backend::Files };
    let set = |service: &mut Service, change: &dyn Fn(&mut NfsdOptions)| {
        if let ServiceKind::Nfsd(options) = &mut service.kind {
            change(options);
        }
    };
    let times = (&raw.ready_timeout, &raw.stop_timeout);
    Variants::of(service(ServiceKind::Nfsd(options), raw.name.as_ref(), times, report))
        .vary("threads", &raw.threads.value, report, |s, threads| set(s, &|o| o.threads = threads))
        .vary("backend", &raw.backend.value, report, |s, backend| set(s, &|o| o.backend = backend.0))
}
