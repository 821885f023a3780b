//! How the system under test is hosted.

use serde::{Deserialize, Serialize};
use vtax_units::{Bytes, Nanos};

use super::ft::{FaultTolerance, FtMode};
use crate::family::storage::model::VirtualDisk;

/// How the system under test is hosted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Name in the plan; the kind's name unless the plan gives another.
    pub name: String,
    /// The kind with its options.
    pub kind: EnvironmentKind,
    /// How many of them stand at the same time, each with a service of its own.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
}

impl Environment {
    /// One of this kind.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: EnvironmentKind) -> Self {
        Self { name: name.into(), kind, count: 1 }
    }
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_one(count: &u32) -> bool {
    *count == 1
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
    /// A user-mode Linux that runs the host's binaries: a kernel that is a process of the host's.
    Uml,
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
    /// Its disk for tests of storage; `None`: the usual one where there are such tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<VirtualDisk>,
    /// Its network card.
    #[serde(default, skip_serializing_if = "NicModel::is_usual")]
    pub nic: NicModel,
    /// How that is tuned.
    #[serde(default, skip_serializing_if = "NicTuning::is_usual")]
    pub tuning: NicTuning,
}

impl VmOptions {
    /// With so much memory and nothing else that a plan could say.
    #[must_use]
    pub const fn new(memory: Bytes) -> Self {
        Self {
            vcpus: None,
            memory,
            fault_tolerance: None,
            disk: None,
            nic: NicModel::Virtio,
            tuning: NicTuning::USUAL,
        }
    }
}

/// How a guest's network card is tuned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicTuning {
    /// Pairs of queues, of which a guest uses one for each of its CPUs at most.
    pub queues: u32,
    /// Entries of each queue of received packets; `None`: QEMU's usual 256.
    pub ring: Option<u32>,
    /// Who moves its packets.
    pub vhost: Vhost,
    /// The shortest time between two of its interrupts, none for no limit; `None`: what its driver does.
    pub moderation: Option<Nanos>,
}

impl NicTuning {
    /// What a plan that says nothing of it gets.
    pub const USUAL: Self = Self { queues: 1, ring: None, vhost: Vhost::Auto, moderation: None };

    /// Whether it is [`USUAL`](Self::USUAL).
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::USUAL
    }

    /// Only what isn't usual: `2 queues, rings of 1024, no vhost, interrupts 50us apart`.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = Vec::new();
        words.extend((self.queues != 1).then(|| format!("{} queues", self.queues)));
        words.extend(self.ring.map(|ring| format!("rings of {ring}")));
        match self.vhost {
            Vhost::Auto => {}
            Vhost::On => words.push("vhost".to_owned()),
            Vhost::Off => words.push("no vhost".to_owned()),
        }
        words.extend(self.moderation.map(|apart| match apart {
            Nanos::ZERO => "interrupts not moderated".to_owned(),
            _ => format!("interrupts {apart} apart"),
        }));
        words.join(", ")
    }
}

impl Default for NicTuning {
    fn default() -> Self {
        Self::USUAL
    }
}

/// Who moves the packets of a virtio card between its queues and the host's network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vhost {
    /// The host's kernel where it can and the guest isn't emulated, else QEMU.
    #[default]
    Auto,
    /// The host's kernel.
    On,
    /// QEMU.
    Off,
}

/// The network card that a guest sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NicModel {
    /// virtio-net: made for guests.
    #[default]
    Virtio,
    /// An emulated Intel 82574L, PCI Express.
    E1000e,
    /// An emulated Intel 82540EM.
    E1000,
    /// An emulated Realtek RTL8139C+.
    Rtl8139,
}

impl NicModel {
    /// The word in plans and reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Virtio => "virtio",
            Self::E1000e => "e1000e",
            Self::E1000 => "e1000",
            Self::Rtl8139 => "rtl8139",
        }
    }

    /// What a plan that says nothing of it gets.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Linux's module that drives it, where not every guest loads it anyway.
    #[must_use]
    pub const fn module(self) -> Option<&'static str> {
        match self {
            Self::Virtio => None,
            Self::E1000e => Some("e1000e"),
            Self::E1000 => Some("e1000"),
            Self::Rtl8139 => Some("8139cp"),
        }
    }

    /// The largest MTU that Linux's driver sets, in bytes (`max_mtu` in `drivers/net/`).
    #[must_use]
    pub const fn most_mtu(self) -> u32 {
        match self {
            Self::Virtio => 65_535,
            Self::E1000e => 9_212,
            Self::E1000 => 16_110,
            Self::Rtl8139 => 4_096,
        }
    }
}

impl EnvironmentKind {
    /// Whether it is a virtual machine that is protected, or compared with such.
    #[must_use]
    pub const fn is_pair(&self) -> bool {
        matches!(self, Self::Vm(vm) if vm.fault_tolerance.is_some())
    }

    /// Whether it is a virtual machine that is protected.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        matches!(self, Self::Vm(vm) if vm.fault_tolerance.as_ref().is_some_and(|ft| ft.mode != FtMode::None))
    }

    /// How the card of a virtual machine is tuned.
    #[must_use]
    pub const fn tuning(&self) -> NicTuning {
        match self {
            Self::Vm(vm) => vm.tuning,
            Self::Native | Self::Container | Self::Uml => NicTuning::USUAL,
        }
    }

    /// The card of a virtual machine; `None` where it is none.
    #[must_use]
    pub const fn nic(&self) -> Option<NicModel> {
        match self {
            Self::Vm(vm) => Some(vm.nic),
            Self::Native | Self::Container | Self::Uml => None,
        }
    }
}
