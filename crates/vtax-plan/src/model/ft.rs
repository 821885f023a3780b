//! Fault tolerance: how a virtual machine is protected.

use serde::{Deserialize, Serialize};
use vtax_units::{BitRate, Bytes, Nanos};

/// How a virtual machine is protected (docs/fault-tolerance.md).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultTolerance {
    /// The technique.
    pub mode: FtMode,
    /// Emulated hosts, 2 or 3: the third is spare.
    pub hosts: u32,
    /// Wire rate of the link for checkpoints; `None`: unlimited.
    pub link: Option<BitRate>,
    /// Which cards of a host its kinds of traffic go over.
    #[serde(default)]
    pub cards: HostCards,
    /// Size of the disk that is replicated with the checkpoints; `None`: no such disk.
    pub disk: Option<Bytes>,
    /// Memory of each host but the first; `None`: as much as is needed.
    pub secondary_memory: Option<Bytes>,
    /// Time between two heartbeats of a host.
    pub heartbeat: Nanos,
    /// Silence on a path after which it is believed to be broken; a host silent on both is fenced.
    pub patience: Nanos,
}

impl FaultTolerance {
    /// Beats of 25 ms and patience for four of them: with fencing and take-over that stays below the
    /// 200 ms after which TCP first repeats a packet (RFC 6298 as Linux does it).
    pub const HEARTBEAT: Nanos = Nanos::from_millis(25);
    /// See [`HEARTBEAT`](Self::HEARTBEAT).
    pub const PATIENCE: Nanos = Nanos::from_millis(100);

    /// Two hosts without limits, no disk.
    #[must_use]
    pub const fn new(mode: FtMode) -> Self {
        Self {
            mode,
            hosts: 2,
            link: None,
            cards: HostCards::Own,
            disk: None,
            secondary_memory: None,
            heartbeat: Self::HEARTBEAT,
            patience: Self::PATIENCE,
        }
    }
}

/// Which network cards a host of a protected virtual machine has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostCards {
    /// One for the service's traffic, one for checkpoints.
    #[default]
    Own,
    /// One for both, at the rate of the link.
    Shared,
}

/// The techniques.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "technique", rename_all = "kebab-case")]
pub enum FtMode {
    /// Not protected: the plain virtual machine on the same QEMU with the same devices and the same root,
    /// beside which protected ones are compared.
    None,
    /// A checkpoint whenever the guest is about to say something.
    Kemari,
    /// A checkpoint at intervals; what the guest says waits for it.
    Remus {
        /// Time between two checkpoints.
        interval: Nanos,
    },
    /// Both guests run; a checkpoint where they say different things. Experimental.
    Colo,
    /// The guest is booted again on another host.
    Restart,
    /// The last snapshot goes on on another host.
    Snapshot {
        /// Time from the end of one snapshot to the begin of the next.
        interval: Nanos,
    },
}

impl FtMode {
    /// Its word in plans: `kemari`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Kemari => "kemari",
            Self::Remus { .. } => "remus",
            Self::Colo => "colo",
            Self::Restart => "restart",
            Self::Snapshot { .. } => "snapshot",
        }
    }

    /// Time between checkpoints or snapshots, where the technique has one.
    #[must_use]
    pub const fn interval(self) -> Option<Nanos> {
        match self {
            Self::Remus { interval } | Self::Snapshot { interval } => Some(interval),
            Self::None | Self::Kemari | Self::Colo | Self::Restart => None,
        }
    }

    /// Whether another host keeps a copy of the guest.
    #[must_use]
    pub const fn has_secondary(self) -> bool {
        matches!(self, Self::Kemari | Self::Remus { .. } | Self::Colo | Self::Snapshot { .. })
    }

    /// Whether memory and connections outlive the guest's host.
    #[must_use]
    pub const fn keeps_state(self) -> bool {
        matches!(self, Self::Kemari | Self::Remus { .. } | Self::Colo)
    }
}
