//! What a plan means once every default is filled in and every list has become cells.
//!
//! The resolved plan is stored in the run directory, so these types are part of the format
//! described in docs/formats.md: a change that old readers can't take raises [`PLAN_VERSION`].

mod cell;
mod environment;
mod families;
mod faults;
mod ft;
pub(crate) mod load;
mod measure;
mod path;
mod systems;

use serde::{Deserialize, Serialize};
use vtax_units::{Bytes, Nanos, Share};

pub use self::cell::*;
pub use self::environment::*;
pub use self::families::*;
pub use self::faults::*;
pub use self::ft::*;
pub use self::load::*;
pub use self::measure::*;
pub use self::path::*;
pub use self::systems::*;

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
    /// The published study that the plan repeats; plans of before there was this key name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<Study>,
    /// The comparisons that the plan is about; plans of before there was this key name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<Primary>,
}

/// Which comparisons the plan is about: those that each of the lists names, where an empty one names all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Primary {
    /// Names of measures, of network tests `measure/test`.
    pub measures: Vec<String>,
    /// Names of metrics, as in `summary.json`.
    pub metrics: Vec<String>,
    /// Names of environments.
    pub environments: Vec<String>,
}

impl Primary {
    /// Whether a comparison of this environment in this metric of this measure is one of them.
    #[must_use]
    pub fn names(&self, environment: &str, measure: &str, metric: &str) -> bool {
        let named = |list: &[String], name: &str| list.is_empty() || list.iter().any(|n| n == name);
        // A measure of tests stands for all of them.
        let whole = measure.split('/').next().unwrap_or(measure);
        (named(&self.measures, measure) || named(&self.measures, whole))
            && named(&self.metrics, metric)
            && named(&self.environments, environment)
    }
}

/// A published study whose figures a report shows beside the run's own; they are in `studies/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Study {
    /// A SIP proxy with a database natively, in a virtual machine, and in a fault-tolerant one.
    VirtualizedIms,
    /// TCP transfers over physical, virtual, software-defined and emulated links.
    VirtualLinks,
    /// FTP, VNC and storage servers in virtual machines behind an MPLS VPN.
    VirtualServers,
    /// A web server in one to six virtual machines on one host.
    ConsolidatedServers,
}

impl Plan {
    /// True where trials of this measure are pairs made at the same time.
    #[must_use]
    pub fn is_duet(&self, measure: &Measure) -> bool {
        self.repeat.trials == TrialKind::Duet && measure.kind.may_be_duet()
    }

    /// How many hosts `vtax run --on` has to give; 0 where the plan names its own, or needs none.
    #[must_use]
    pub fn hosts_asked(&self) -> usize {
        self.cells.iter().map(|cell| cell.path.kind.hosts_asked()).max().unwrap_or_default()
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

/// How often each cell is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// At least this many trials per cell and measure.
    pub min: u32,
    /// At most this many.
    pub max: u32,
    /// Beyond `min`, stop once the tax's interval is narrower than ± this share.
    pub until: Share,
    /// Start no trial beyond `min` after this much time; `None`: no limit.
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
