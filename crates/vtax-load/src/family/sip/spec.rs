//! What a SIP session is and what it is driven through.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use vtax_plan::model::SipWorkload;
use vtax_units::{CpuSet, Nanos, Rate, Share};

use crate::{ArrivalProcess, Verify};

/// A session: who calls whom through which service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SipSpec {
    /// Where the service listens.
    pub target: SocketAddr,
    /// Subscribers, scenarios and times.
    pub workload: SipWorkload,
    /// Addresses to send from and to be called at; subscribers are spread over them. One that isn't specified (`0.0.0.0`, `::`) stands for
    /// the host's own on the way to the target.
    pub local: Vec<IpAddr>,
    /// CPUs to pin workers to, one worker each; empty: one worker per CPU this process may use.
    pub cpus: CpuSet,
    /// Seed of every random choice.
    pub seed: u64,
    /// Keep everything that happens to attempts by itself, besides counts and seconds.
    #[serde(default)]
    pub moments: bool,
    /// Over TLS, what the service's certificate is checked for.
    #[serde(default)]
    pub verify: Verify,
}

/// PhaseBarrier, one after the other without a gap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SipProfile {
    /// In order of time.
    pub phases: Vec<SipPhase>,
    /// Gaps between attempts.
    pub arrivals: ArrivalProcess,
    /// How long scenarios still under way after the last phase are waited for.
    pub drain: Nanos,
}

/// A stretch of time with one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SipPhase {
    /// `pre-registration`, `stir 1`, `step 3`, `confirmation`.
    pub name: String,
    /// What is attempted.
    pub kind: PhaseKind,
    /// Scenario attempts per second.
    pub rate: Rate,
    /// Time at its start that doesn't count.
    pub transient: Nanos,
    /// Share of its counted attempts, all scenarios together, that may be inadequately handled; above it
    /// the profile ends with this phase. `None`: no limit.
    pub ihs_limit: Option<Share>,
    /// Whether the workload's limits per scenario end the profile too.
    pub scenario_limits: bool,
}

/// What a phase attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PhaseKind {
    /// Registrations until the workload's share of subscribers is registered.
    PreRegistration,
    /// The workload's mix.
    Mix {
        /// Its length, transient included.
        duration: Nanos,
    },
}
