//! What a pair is built from, and what happens to it.

use serde::{Deserialize, Serialize};
use vtax_plan::model::{HostCards, NicModel};
use vtax_units::{BitRate, Bytes, CpuSet, Nanos};
use vtax_vm::ft::Mode;
use vtax_vm::ft::heartbeat::DetectorSettings;

use crate::budget::QEMU_OVERHEAD;
use crate::link::LinkProperties;

/// How a virtual machine is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairMode {
    /// Not at all. It still runs on the same kind of QEMU with the same devices, for comparison.
    None,
    /// A second QEMU is kept in the same state.
    Checkpoints(Mode),
    /// It is booted again on another host. Memory and connections are lost.
    Restart,
    /// The last snapshot of its whole state goes on on another host: what happened since is lost, and with
    /// it every connection.
    Snapshot {
        /// Time from the end of one snapshot to the begin of the next.
        interval: Nanos,
    },
}

impl PairMode {
    /// Whether a second QEMU waits on another host.
    #[must_use]
    pub const fn has_secondary(self) -> bool {
        matches!(self, Self::Checkpoints(_) | Self::Snapshot { .. })
    }
}

/// What the guest does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairTask {
    /// It is a node with an agent.
    Agent,
    /// It serves a counter kept in memory (`vtax_vm::contract::ROLE_WITNESS`).
    Witness,
}

/// A protected virtual machine to be built.
#[derive(Debug, Clone)]
pub struct PairSpec {
    /// Its name: also the guest's host name.
    pub name: String,
    /// The guest's memory; each of the two QEMUs needs as much.
    pub memory: Bytes,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// What the guest does.
    pub task: PairTask,
    /// How it is protected.
    pub mode: PairMode,
    /// CPUs of the hosts, two or three; the first runs the guest, the third is spare.
    pub hosts: Vec<CpuSet>,
    /// Memory of each host; where it says nothing, as much as is needed
    /// ([`memory_needed`](Self::memory_needed)).
    pub host_memory: Vec<Bytes>,
    /// The link for checkpoints. Its rate counts for each host's cable.
    pub link: LinkProperties,
    /// Whether that is a card of its own on each host, or the one that the guest's traffic goes over too.
    pub cards: HostCards,
    /// The service network's MTU in bytes.
    pub mtu: u32,
    /// Rate of the guest's cable towards the guest, as of any virtual machine's port; `None`: no limit.
    pub service_rate: Option<BitRate>,
    /// Size of the disk whose content survives; `None`: no such disk.
    pub disk: Option<Bytes>,
    /// The guest's network card.
    pub nic: NicModel,
    /// When a host is believed to be dead.
    pub detector: DetectorSettings,
}

impl PairSpec {
    /// Two hosts without limits, a guest of 256 MiB, no disk.
    pub fn new(name: impl Into<String>, mode: PairMode, task: PairTask) -> Self {
        Self {
            name: name.into(),
            memory: Bytes::from_mib(256),
            vcpus: 1,
            task,
            mode,
            hosts: vec![CpuSet::default(); 2],
            host_memory: Vec::new(),
            link: LinkProperties::default(),
            cards: HostCards::Own,
            mtu: 1500,
            service_rate: None,
            disk: None,
            nic: NicModel::Virtio,
            detector: DetectorSettings::default(),
        }
    }

    /// Memory a host needs to run or to await the guest. Checkpoints are kept whole before they count, so
    /// the guest is there twice; a disk's content and what is not yet committed of it is memory as well.
    #[must_use]
    pub fn memory_needed(&self) -> Bytes {
        let guests = if self.mode.has_secondary() { 2 } else { 1 };
        let disk = self.disk.map_or(0, |disk| disk.0.saturating_mul(3));
        Bytes(self.memory.0.saturating_mul(guests).saturating_add(disk).saturating_add(QEMU_OVERHEAD.0))
    }
}

/// Which of the hosts, by what it does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The one that runs the guest.
    Primary,
    /// The one that could.
    Secondary,
}

/// Something that happened to a pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairEvent {
    /// Time since the pair was built.
    pub at: Nanos,
    /// By the clock of the host, time since 1970: to be laid beside a load's samples.
    pub wall: Nanos,
    /// The host it is about, where it is about one.
    pub host: Option<String>,
    /// What happened.
    pub kind: PairEventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum PairEventKind {
    /// The guest is protected.
    Armed {
        /// From the decision to the first committed checkpoint; QEMU's start included.
        took: Nanos,
    },
    /// A fault was injected.
    Fault {
        /// Which: `kill`, `hang`, `wake`, `cut`, `restore`.
        fault: String,
    },
    /// A host fell silent on all paths, or its QEMU ended.
    Detected {
        /// Since its last sign of life; zero where its end was seen.
        silence: Nanos,
    },
    /// It can do no more harm: its port is cut and the kernel has confirmed the end of its processes.
    Fenced {
        /// From the decision to the confirmation.
        took: Nanos,
    },
    /// The other host's copy runs and is plugged in. The event's time is when that began.
    Promoted {
        /// From the confirmation of the fence to that moment.
        took: Nanos,
    },
    /// The guest was booted again on another host.
    Restarted,
    /// The last snapshot goes on on another host. The event's time is when the guest ran.
    Restored {
        /// From the confirmation of the fence to the running guest.
        took: Nanos,
        /// How long before the failure the snapshot was complete: what happened since is lost.
        age: Nanos,
    },
    /// A planned move begins: it can't use the copy, which is given up.
    Moving,
    /// The guest moved while it ran. The event's time is when it ran again.
    HandedOver {
        /// How long it ran nowhere.
        stopped: Nanos,
    },
    /// The guest goes on alone.
    Unprotected {
        /// What led to it, in words.
        reason: String,
    },
    /// Protecting it did not succeed.
    ArmFailed {
        /// What led to it, in words.
        reason: String,
    },
    /// A path that was silent brings beats again, or a host that was off is back.
    Back,
    /// No host runs the guest any more.
    ServiceLost {
        /// What led to it, in words.
        reason: String,
    },
}

/// A fault that was injected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Struck {
    /// The host it happened to.
    pub host: String,
    /// When it took hold, time since 1970.
    pub at: Nanos,
}

/// A planned move that came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handed {
    /// The host that ran the guest before.
    pub from: String,
    /// When it began, time since 1970: what the pair was busy with before is over by then.
    pub began: Nanos,
    /// How long the guest ran nowhere.
    pub stopped: Nanos,
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The guest runs, protected or not.
    Running,
    /// No host runs the guest any more.
    Lost,
}
