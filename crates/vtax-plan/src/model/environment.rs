//! How the system under test is hosted.

use serde::{Deserialize, Serialize};
use vtax_units::Bytes;

use super::ft::FaultTolerance;
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
}

impl VmOptions {
    /// With so much memory and nothing else that a plan could say.
    #[must_use]
    pub const fn new(memory: Bytes) -> Self {
        Self { vcpus: None, memory, fault_tolerance: None, disk: None, nic: NicModel::Virtio }
    }
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

    /// The card of a virtual machine; `None` where it is none.
    #[must_use]
    pub const fn nic(&self) -> Option<NicModel> {
        match self {
            Self::Vm(vm) => Some(vm.nic),
            Self::Native | Self::Container => None,
        }
    }
}
