//! What is broken on purpose, and the measure during which it is.

use serde::{Deserialize, Serialize};
use vtax_topology::builtin::topology;
use vtax_topology::event::{Event, Misfit};
use vtax_topology::frr::Daemon;
use vtax_topology::{Blueprint, Name};
use vtax_units::Nanos;

use super::cell::Cell;
use super::environment::EnvironmentKind;
use super::ft::FtMode;
use super::load::{ArrivalProcess, Load};

/// Something that is broken, or mended, while a load is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// When, from the start of the recorded load.
    pub at: Nanos,
    /// What happens.
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
    /// It fails, and what it is a part of goes on without it.
    Fail(FaultTarget),
    /// A new one takes the place of what has failed. That has to be filled, beside the load.
    Replace(FaultTarget),
    /// Something is done to the routers of a path of kind `routed`.
    Topology(TopologyFault),
}

/// What is done to a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyFault {
    /// A link's cable is pulled.
    CutLink(Name),
    /// A link loses packets in one direction.
    LossyLink(LossyLink),
    /// A router is switched off.
    KillRouter(Name),
    /// A routing daemon ends.
    StopDaemon(StopDaemon),
    /// A link is whole again.
    RestoreLink(Name),
    /// A router, or what was stopped at it, runs again.
    RestoreRouter(Name),
}

/// A link that loses packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossyLink {
    /// The link.
    pub link: Name,
    /// The router whose packets are lost; `None`: the link's first.
    pub from: Option<Name>,
    /// How many of a million are lost.
    pub of_a_million: u32,
}

/// A daemon of a router's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopDaemon {
    /// The router.
    pub router: Name,
    /// The daemon.
    pub daemon: Daemon,
}

impl TopologyFault {
    /// As whoever does it is told.
    #[must_use]
    pub fn event(self) -> Event {
        match self {
            Self::CutLink(link) => Event::Cut { link: link.to_string() },
            Self::LossyLink(LossyLink { link, from, of_a_million }) => {
                Event::Lossy { link: link.to_string(), from: from.map(|from| from.to_string()), of_a_million }
            }
            Self::KillRouter(router) => Event::Kill { router: router.to_string() },
            Self::StopDaemon(StopDaemon { router, daemon }) => {
                Event::Stop { router: router.to_string(), daemon }
            }
            Self::RestoreLink(link) => Event::RestoreLink { link: link.to_string() },
            Self::RestoreRouter(router) => Event::RestoreRouter { router: router.to_string() },
        }
    }

    /// Whether it mends what another broke.
    #[must_use]
    pub const fn mends(self) -> bool {
        matches!(self, Self::RestoreLink(_) | Self::RestoreRouter(_))
    }
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
    /// One disk of the RAID that the guest's own disk is.
    Disk,
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
            Self::Disk => "disk",
        }
    }
}

impl FaultKind {
    /// As in a plan: `kill: primary-host`.
    #[must_use]
    pub fn words(self) -> String {
        if let Self::Topology(fault) = self {
            return fault.event().to_string();
        }
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
            Self::Fail(target) => ("fail", target),
            Self::Replace(target) => ("replace", target),
            // Of what its name says more than a word could, the path is what it happens to.
            Self::Topology(_) => ("topology", FaultTarget::Path),
        }
    }

    /// Whether it mends what another broke.
    #[must_use]
    pub const fn mends(self) -> bool {
        match self {
            Self::Restore(_) => true,
            Self::Topology(fault) => fault.mends(),
            Self::Kill(_)
            | Self::Hang(_)
            | Self::Cut(_)
            | Self::Failover(_)
            | Self::Fail(_)
            | Self::Replace(_) => false,
        }
    }

    /// Whether it goes on while other things may break.
    #[must_use]
    pub const fn takes_long(self) -> bool {
        matches!(self, Self::Failover(_))
    }

    /// Whether it stops what answers: nothing does until something takes over or goes on.
    #[must_use]
    pub const fn stops_the_service(self) -> bool {
        matches!(self, Self::Kill(target) | Self::Hang(target)
            if matches!(target, FaultTarget::PrimaryHost | FaultTarget::Sut))
    }

    /// Why this can't happen in an environment; `None` where it can.
    #[must_use]
    pub fn misfit(self, environment: &EnvironmentKind) -> Option<&'static str> {
        let mode = match environment {
            EnvironmentKind::Vm(vm) => vm.fault_tolerance.as_ref().map_or(FtMode::None, |ft| ft.mode),
            EnvironmentKind::Native | EnvironmentKind::Container | EnvironmentKind::Uml => FtMode::None,
        };
        if *environment == EnvironmentKind::Uml {
            return Some("faults of user-mode Linux aren't made yet");
        }
        let protected = mode != FtMode::None;
        match self.parts().1 {
            FaultTarget::Sut | FaultTarget::Path => None,
            FaultTarget::Disk => {
                let whole = environment.raid5().is_some_and(|raid| !raid.degraded);
                (!whole || protected).then_some("its disk is no whole RAID-5 (`disk: {raid5: {}}`)")
            }
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

impl FaultKind {
    /// Why this can't happen in a cell; `None` where it can.
    #[must_use]
    pub fn misfit_of(self, cell: &Cell) -> Option<Misfit> {
        match (self, cell.path.kind.routed()) {
            (Self::Topology(fault), Some(routed)) => {
                fault.event().misfit(&Blueprint::outline(&topology(&routed.topology)))
            }
            (Self::Topology(_), None) => Some("only a path of kind `routed` has routers".to_owned().into()),
            (kind, _) => kind.misfit(&cell.environment.kind).map(|why| why.to_owned().into()),
        }
    }
}

/// A fixed load during which faults happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailoverMeasure {
    /// Offered load.
    pub load: Load,
    /// Arrival process.
    pub arrivals: ArrivalProcess,
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
        self.faults.iter().filter(|fault| fault.kind.misfit_of(cell).is_none())
    }

    /// Whether anything is broken in this cell.
    #[must_use]
    pub fn applies_to(&self, cell: &Cell) -> bool {
        self.faults_of(cell).any(|fault| !fault.kind.mends())
    }
}
