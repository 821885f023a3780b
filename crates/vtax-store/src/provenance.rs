//! `provenance.json`: everything needed to repeat the run or to doubt it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of `provenance.json`.
pub const PROVENANCE_VERSION: u32 = 1;

/// `provenance.json`. Every field but the version may be missing: what could not be found out is left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// Format version, [`PROVENANCE_VERSION`].
    pub version: u32,
    /// Identity of the run: 32 hexadecimal digits, drawn when it is created.
    pub run_id: String,
    /// Version of vtax.
    pub vtax_version: String,
    /// Commit vtax was built from.
    pub vtax_commit: Option<String>,
    /// Command line of the run, program name first.
    pub command_line: Vec<String>,
    /// File the plan was read from, as given.
    pub plan_file: Option<String>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Start, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// End, milliseconds since 1970; `None` while it runs or where it was cut short.
    pub ended_unix_ms: Option<u64>,
    /// The machine.
    pub host: HostFacts,
    /// How VMs are executed; `None` without VMs.
    pub accelerator: Option<AcceleratorFacts>,
    /// QEMU, with the command line of one VM.
    pub qemu: Option<ProgramFacts>,
    /// The OCI runtime.
    pub container_runtime: Option<ProgramFacts>,
    /// Service by cell id.
    pub services: BTreeMap<String, ProgramFacts>,
    /// Node name to its kernel, CPUs and memory, as the node itself sees them.
    pub nodes: BTreeMap<String, NodeFacts>,
    /// Distribution package to version.
    pub packages: BTreeMap<String, String>,
    /// How budgets were enforced: `cpus` -> `cgroup v2 cpuset`, `memory` -> `none`.
    pub limits: BTreeMap<String, String>,
    /// Environment variables that change what programs do.
    pub environment: BTreeMap<String, String>,
    /// Anything else worth knowing.
    pub facts: BTreeMap<String, String>,
}

/// The machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// Stable name of the machine: its host name and the start of a hash of its machine id.
    pub name: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub architecture: String,
    /// `PRETTY_NAME` of os-release.
    pub distribution: String,
    /// Model name of the CPU.
    pub cpu_model: String,
    /// CPUs this process may use.
    pub cpus: u32,
    /// CPUs whose time a quota leaves, where these are fewer than may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<u32>,
    /// Threads per core, where known; above 1 neighbours share a core.
    pub threads_per_core: Option<u32>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Load averages over 1, 5 and 15 minutes at the start.
    pub load_average: Option<[f64; 3]>,
    /// Whether vtax runs inside a VM or container itself, as `systemd-detect-virt` words it.
    pub virtualization: Option<String>,
    /// CPU frequency governor, where there is one.
    pub governor: Option<String>,
}

/// How VMs are executed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AcceleratorFacts {
    /// `kvm` or `tcg`.
    pub kind: String,
    /// Why this one.
    pub reason: String,
}

/// A program that took part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramFacts {
    /// Its own version line.
    pub version: String,
    /// Command line, program first.
    pub command: Vec<String>,
    /// Files of a service of the user's own, to their SHA-256.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

/// A node as it sees itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeFacts {
    /// `uname -r`.
    pub kernel: String,
    /// CPUs it may use.
    pub cpus: u32,
    /// Memory of its kernel in bytes.
    pub memory_bytes: u64,
    /// What sockets begin with: values of settings by their names below `/proc/sys/net`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sockets: BTreeMap<String, String>,
}
