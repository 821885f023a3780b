//! Fault tolerance: how a virtual machine is protected, and what is broken on purpose.

use serde::{Deserialize, Serialize};
use vtax_units::{BitRate, Bytes, Nanos};

use super::{Arrivals, Cell, EnvironmentKind, Load};

/// How a virtual machine is protected (docs/fault-tolerance.md).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultTolerance {
    /// The technique.
    pub mode: FtMode,
    /// Emulated hosts, 2 or 3: the third is spare.
    pub hosts: u32,
    /// Wire rate of the link for checkpoints; `None`: unlimited.
    pub link: Option<BitRate>,
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
    /// Beats of 20 ms and patience for five of them: with fencing and take-over that stays below the
    /// 200 ms after which TCP first repeats a packet (RFC 6298 as Linux does it).
    pub const HEARTBEAT: Nanos = Nanos::from_millis(20);
    /// See [`HEARTBEAT`](Self::HEARTBEAT).
    pub const PATIENCE: Nanos = Nanos::from_millis(100);

    /// Two hosts without limits, no disk.
    #[must_use]
    pub const fn new(mode: FtMode) -> Self {
        Self {
            mode,
            hosts: 2,
            link: None,
            disk: None,
            secondary_memory: None,
            heartbeat: Self::HEARTBEAT,
            patience: Self::PATIENCE,
        }
    }
}

impl EnvironmentKind {
    /// Whether it is a virtual machine that is protected, or compared with such.
    #[must_use]
    pub const fn is_pair(&self) -> bool {
        matches!(self, Self::Vm(vm) if vm.fault_tolerance.is_some())
    }
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

/// Something that is broken, or mended, while a load is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// When, from the start of the recorded load.
    pub at: Nanos,
    /// What.
    pub kind: FaultKind,
}

/// What is broken or mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", content = "target", rename_all = "kebab-case")]
pub enum FaultKind {
    /// SIGKILL of everything on it; a host's cables go dead too.
    Kill(FaultTarget),
    /// SIGSTOP of everything on it.
    Hang(FaultTarget),
    /// It carries nothing any more.
    Cut(FaultTarget),
    /// It works again: hosts are switched on, cables plugged in, what was stopped goes on.
    Restore(FaultTarget),
    /// The guest moves to another host while it runs.
    Failover(FaultTarget),
}

/// What a fault happens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultTarget {
    /// The host that runs the guest at that moment.
    PrimaryHost,
    /// The host that has its copy at that moment.
    SecondaryHost,
    /// Every host that is off or cut off.
    Hosts,
    /// The link for checkpoints.
    FtLink,
    /// The system under test as a whole, in any environment.
    Sut,
    /// The network between client and service.
    Path,
    /// A planned move.
    Planned,
}

impl FaultTarget {
    /// Its word in plans: `primary-host`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::PrimaryHost => "primary-host",
            Self::SecondaryHost => "secondary-host",
            Self::Hosts => "hosts",
            Self::FtLink => "ft-link",
            Self::Sut => "sut",
            Self::Path => "path",
            Self::Planned => "planned",
        }
    }
}

impl FaultKind {
    /// As in a plan: `kill: primary-host`.
    #[must_use]
    pub fn words(self) -> String {
        let (action, target) = self.parts();
        format!("{action}: {}", target.word())
    }

    /// Action and target.
    #[must_use]
    pub const fn parts(self) -> (&'static str, FaultTarget) {
        match self {
            Self::Kill(target) => ("kill", target),
            Self::Hang(target) => ("hang", target),
            Self::Cut(target) => ("cut", target),
            Self::Restore(target) => ("restore", target),
            Self::Failover(target) => ("failover", target),
        }
    }

    /// Whether it mends what another broke.
    #[must_use]
    pub const fn mends(self) -> bool {
        matches!(self, Self::Restore(_))
    }

    /// Why this can't happen in an environment; `None` where it can.
    #[must_use]
    pub fn misfit(self, environment: &EnvironmentKind) -> Option<&'static str> {
        let mode = match environment {
            EnvironmentKind::Vm(vm) => vm.fault_tolerance.as_ref().map_or(FtMode::None, |ft| ft.mode),
            EnvironmentKind::Native | EnvironmentKind::Container => FtMode::None,
        };
        let protected = mode != FtMode::None;
        match self.parts().1 {
            FaultTarget::Sut | FaultTarget::Path => None,
            FaultTarget::PrimaryHost | FaultTarget::Hosts | FaultTarget::Planned if !protected => {
                Some("only protected virtual machines run on hosts of their own")
            }
            FaultTarget::SecondaryHost | FaultTarget::FtLink if !mode.has_secondary() => {
                Some("no other host keeps a copy of it")
            }
            FaultTarget::PrimaryHost
            | FaultTarget::SecondaryHost
            | FaultTarget::Hosts
            | FaultTarget::FtLink
            | FaultTarget::Planned => None,
        }
    }
}

/// A fixed load during which faults happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailoverMeasure {
    /// Offered load.
    pub load: Load,
    /// Arrival process.
    pub arrivals: Arrivals,
    /// Time at the start that never counts.
    pub warmup: Nanos,
    /// Time that counts.
    pub duration: Nanos,
    /// An answer that takes longer than this was delayed.
    pub delayed: Nanos,
    /// What happens, in order of time.
    pub faults: Vec<Fault>,
}

impl FailoverMeasure {
    /// The faults that can happen in a cell. Without any that breaks something, the cell isn't measured.
    pub fn faults_of<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a Fault> {
        self.faults.iter().filter(|fault| fault.kind.misfit(&cell.environment.kind).is_none())
    }

    /// Whether anything is broken in this cell.
    #[must_use]
    pub fn applies_to(&self, cell: &Cell) -> bool {
        self.faults_of(cell).any(|fault| !fault.kind.mends())
    }
}
