//! `ganesha`: an NFS server in user space.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

use crate::decode::{Decode, Many, scalar, unknown};
use crate::diagnose::Report;
use crate::model::{Service, ServiceKind};
use crate::resolve::check::check_port;
use crate::resolve::variants::{Variants, service};
use crate::source::Spanned;
use crate::tree::Node;

/// Options of an NFS server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GaneshaOptions {
    /// TCP port.
    pub port: u16,
    /// Where it keeps its files.
    pub backend: GaneshaBackend,
    /// What it speaks; runs of before there was version 3 don't say so.
    #[serde(default, skip_serializing_if = "NfsVersion::is_usual")]
    pub nfs_version: NfsVersion,
    /// TCP port of MOUNT, of version 3.
    #[serde(default = "usual_mount_port", skip_serializing_if = "is_usual_mount_port")]
    pub mount_port: u16,
}

impl GaneshaOptions {
    /// What it is, in a few words.
    pub(crate) const fn title(&self) -> &'static str {
        match self.nfs_version {
            NfsVersion::V41 => "NFS-Ganesha, NFS 4.1",
            NfsVersion::V3 => "NFS-Ganesha, NFS 3",
        }
    }
}

/// A version of NFS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NfsVersion {
    /// Version 4.1: sessions, and files that are open.
    #[default]
    #[serde(rename = "4.1")]
    V41,
    /// Version 3: calls by handle, without state.
    #[serde(rename = "3")]
    V3,
}

impl NfsVersion {
    /// All that are spoken.
    pub const ALL: [Self; 2] = [Self::V41, Self::V3];

    const fn is_usual(&self) -> bool {
        matches!(self, Self::V41)
    }

    /// Its number without that of its minor version.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::V41 => 4,
            Self::V3 => 3,
        }
    }

    /// As it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::V41 => "4.1",
            Self::V3 => "3",
        }
    }
}

const fn usual_mount_port() -> u16 {
    GaneshaOptions::MOUNT_PORT
}

const fn is_usual_mount_port(port: &u16) -> bool {
    *port == GaneshaOptions::MOUNT_PORT
}

impl GaneshaOptions {
    /// The path that clients use.
    pub const EXPORT: &str = "/vtax";
    /// The port of MOUNT unless told otherwise (IANA's `mountd`).
    pub const MOUNT_PORT: u16 = 20048;
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
        /// Version of NFS that is served and spoken: `4.1` or `3`, which isn't mounted. A list makes a cell for each.
        default nfs_version: Many<NfsVersionRaw> = "4.1",
        /// TCP port of MOUNT, with version 3.
        default mount_port: u16 = "20048",
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

/// A version of NFS as written: with or without quotes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NfsVersionRaw(pub(crate) NfsVersion);

impl Decode for NfsVersionRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let known = NfsVersion::ALL.map(NfsVersion::word);
        let text = scalar(node, "a version of NFS such as `3`", report)?;
        let version = NfsVersion::ALL.into_iter().find(|version| version.word() == text);
        if version.is_none() {
            let word = Spanned { value: text.into(), span: node.span };
            unknown(&word, "nfs_version", "versions", &known, report);
        }
        version.map(Self)
    }
}

impl JsonSchema for NfsVersionRaw {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "NfsVersion".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [4.1, 3, "4.1", "3"] })
    }
}

/// The server.
pub(crate) fn resolve(raw: &GaneshaRaw, report: &mut Report) -> Variants<Service> {
    let options = GaneshaOptions {
        port: check_port(&raw.port, report),
        backend: GaneshaBackend::Files,
        nfs_version: NfsVersion::V41,
        mount_port: check_port(&raw.mount_port, report),
    };
    if options.port == options.mount_port {
        report.error(raw.mount_port.span, "`mount_port` is a port of its own, not that of NFS");
    }
    let set = |service: &mut Service, change: &dyn Fn(&mut GaneshaOptions)| {
        if let ServiceKind::Ganesha(options) = &mut service.kind {
            change(options);
        }
    };
    let times = (&raw.ready_timeout, &raw.stop_timeout);
    Variants::of(service(ServiceKind::Ganesha(options), raw.name.as_ref(), times, report))
        .vary("backend", &raw.backend.value, report, |s, backend| set(s, &|o| o.backend = backend.0))
        .vary("nfs_version", &raw.nfs_version.value, report, |s, v| set(s, &|o| o.nfs_version = v.0))
}
