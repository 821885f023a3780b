//! What a plan means once every default is filled in and every list has become cells.
//!
//! The resolved plan is stored in the run directory, so these types are part of the format
//! described in docs/formats.md: a change that old readers can't take raises [`PLAN_VERSION`].

mod ft;
mod identity;
mod load;
mod measure;
mod net;
mod path;
mod service;
mod sip;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vtax_units::{Bytes, Nanos, Share};

pub use ft::*;
pub use identity::*;
pub use load::*;
pub use measure::*;
pub use net::*;
pub use path::*;
pub use service::*;
pub use sip::*;

/// The version a plan names in its first key, `vtax: 1`.
pub const PLAN_VERSION: u32 = 1;

/// A resolved plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Format version, [`PLAN_VERSION`].
    pub version: u32,
    /// Short name; letters, digits, `-` and `_`.
    pub name: String,
    /// What question the plan answers, in a sentence.
    pub description: String,
    /// Seed of every random choice: trial order, arrivals, bootstrap.
    pub seed: u64,
    /// Every combination of environment, path, service and parameters, in plan order.
    pub cells: Vec<Cell>,
    /// What is measured in each cell, in order.
    pub measures: Vec<Measure>,
    /// How often.
    pub repeat: Repeat,
    /// What each side of the testbed gets.
    pub budget: Budget,
    /// A tax within 1 ± margin counts as equivalent.
    pub margin: Share,
}

impl Plan {
    /// True where trials of this measure are pairs made at the same time.
    #[must_use]
    pub fn is_duet(&self, measure: &Measure) -> bool {
        self.repeat.trials == TrialKind::Duet && measure.kind.may_be_duet()
    }

    /// Whether a cell has trials of a measure: none of one whose faults all don't fit its environment.
    #[must_use]
    pub fn is_measured(&self, cell: &Cell, measure: &Measure) -> bool {
        measure.kind.failover().is_none_or(|failover| failover.applies_to(cell))
    }

    /// The cell that this one is compared with.
    #[must_use]
    pub fn baseline_of(&self, cell: &Cell) -> Option<&Cell> {
        let id = cell.baseline.as_ref()?;
        self.cells.iter().find(|c| c.id == *id)
    }

    /// True for a cell that others are compared with.
    #[must_use]
    pub fn accompanies(&self, cell: &Cell) -> bool {
        self.cells.iter().any(|c| c.baseline.as_ref() == Some(&cell.id))
    }
}

/// One combination of environment, path, service and parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Unique in the plan, stable across runs, safe in file names: `vm.bridge.nginx.target-100`.
    pub id: String,
    /// How the system under test is hosted.
    pub environment: Environment,
    /// The network between client and system under test.
    pub path: NetPath,
    /// The software under test.
    pub service: Service,
    /// What the generator does.
    pub workload: Workload,
    /// The parameters that vary in this plan, for labels: name to value as written.
    pub parameters: BTreeMap<String, String>,
    /// Id of the cell this one is compared with; `None` for a baseline cell.
    pub baseline: Option<String>,
}

/// How the system under test is hosted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Name in the plan; the kind's name unless the plan gives another.
    pub name: String,
    /// The kind with its options.
    pub kind: EnvironmentKind,
}

/// The kinds of environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EnvironmentKind {
    /// A process in its own network namespace on the SUT's CPUs.
    Native,
    /// An OCI container: host root read-only under a private upper layer.
    Container,
    /// A QEMU guest that runs the host's binaries.
    Vm(VmOptions),
}

/// Options of a virtual machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VmOptions {
    /// Virtual CPUs; they share the SUT's CPU set with QEMU's other threads. `None`: as many as the
    /// SUT has CPUs.
    pub vcpus: Option<u32>,
    /// Guest memory.
    pub memory: Bytes,
    /// How it is protected; `None`: it is none of those compared with protected ones.
    #[serde(default)]
    pub fault_tolerance: Option<FaultTolerance>,
}

/// What the generator does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// HTTP/1.1 requests.
    Http(HttpWorkload),
    /// SIP subscribers who register, call and write to each other.
    Sip(Box<SipWorkload>),
    /// Network tests between the two ends of the path.
    Net(NetWorkload),
}

/// An HTTP workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpWorkload {
    /// Request target in origin form, `/bytes/100` (RFC 9112 section 3.2.1).
    pub target: String,
    /// Connections; in an open loop the most that may be open at once.
    pub connections: u32,
    /// Requests on one connection before it is closed; `None`: no limit.
    pub requests_per_connection: Option<u32>,
    /// A request not answered within this time, counted from its intended start, has failed.
    pub timeout: Nanos,
}

/// How often each cell is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// At least this many trials per cell and measure.
    pub min: u32,
    /// At most this many.
    pub max: u32,
    /// Beyond `min`, stop once the tax's interval is narrower than ± this share.
    pub until: Share,
    /// Start no trial after this much time; `None`: no limit.
    pub budget: Option<Nanos>,
    /// Order of the cells within a round.
    #[serde(default)]
    pub order: TrialOrder,
    /// Whether environments are measured one after the other or at the same time.
    #[serde(default)]
    pub trials: TrialKind,
}

/// Order of the cells within a round; a round holds each cell once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialOrder {
    /// Drawn anew for each round (randomised complete blocks).
    #[default]
    Blocks,
    /// Drawn for every other round; the round after it runs backwards, which cancels a linear drift.
    Abba,
}

/// What is measured at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialKind {
    /// One environment.
    #[default]
    Single,
    /// The baseline and one candidate, so that both meet the same noise (Bulej et al., "Duet
    /// benchmarking", ICPE 2020). Capacity searches are single even so.
    Duet,
}

/// What each side of the testbed gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// CPUs of the system under test, whole VM included; `None`: half of the host's, at least one.
    pub sut_cpus: Option<u32>,
    /// Memory of the system under test.
    pub sut_memory: Bytes,
    /// CPUs of the generator; `None`: the rest.
    pub client_cpus: Option<u32>,
}
