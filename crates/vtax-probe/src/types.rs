//! What a probe sees. All counters are cumulative since boot or start; take differences.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

/// Everything a probe sees at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// CLOCK_MONOTONIC of the probed kernel.
    pub at: Nanos,
    /// Per CPU, in order of CPU number (`/proc/stat`).
    pub cpus: Vec<CpuTimes>,
    /// Processes or threads in the probe's scope.
    pub tasks: Vec<TaskTimes>,
    /// Processes left out of the scope by name: the agent. Their own time is not the service's;
    /// the time of the children they waited for is, because orphans of the service end as theirs.
    #[serde(default)]
    pub supervisors: Vec<TaskTimes>,
    /// Memory of the probed kernel.
    pub memory: Memory,
    /// Interfaces of the probe's network namespace (`/proc/net/dev`).
    pub interfaces: Vec<InterfaceCounters>,
    /// Block devices (`/proc/diskstats`).
    pub disks: Vec<DiskCounters>,
}

/// CPU time of one CPU by what it was spent on (`proc_stat(5)`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTimes {
    /// CPU number.
    pub cpu: u32,
    /// User mode, nice included, guest excluded.
    pub user: Nanos,
    /// Kernel.
    pub system: Nanos,
    /// Hard interrupts.
    pub irq: Nanos,
    /// Soft interrupts.
    pub softirq: Nanos,
    /// Taken by the hypervisor.
    pub steal: Nanos,
    /// Running a guest (KVM).
    pub guest: Nanos,
    /// Idle, waiting for disk included.
    pub idle: Nanos,
}

/// CPU time and memory of one process or thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTimes {
    /// Process id, or thread id for threads.
    pub id: u32,
    /// Name (`comm`), as QEMU's `CPU 0/TCG`.
    pub name: String,
    /// User mode, guest time excluded.
    pub user: Nanos,
    /// Kernel.
    pub system: Nanos,
    /// Running a guest (KVM vCPU threads).
    pub guest: Nanos,
    /// User mode of all its children that ended and were waited for, and of theirs; zero for threads.
    #[serde(default)]
    pub reaped_user: Nanos,
    /// Kernel time of the same.
    #[serde(default)]
    pub reaped_system: Nanos,
    /// Resident memory in bytes; 0 for threads.
    pub resident_bytes: u64,
    /// How much of that others may hold as well, in bytes: files, and memory that processes share
    /// (`/proc/<pid>/statm`); 0 for threads.
    #[serde(default)]
    pub shared_bytes: u64,
}

/// Memory of the probed kernel, bytes (`/proc/meminfo`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// All.
    pub total_bytes: u64,
    /// Available without swapping.
    pub available_bytes: u64,
    /// Swap in use.
    pub swap_used_bytes: u64,
}

/// Counters of one network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceCounters {
    /// Name.
    pub name: String,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets dropped on receipt.
    pub rx_dropped: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets dropped on sending.
    pub tx_dropped: u64,
}

/// Counters of one block device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCounters {
    /// Name.
    pub name: String,
    /// Bytes read.
    pub read_bytes: u64,
    /// Reads completed.
    pub reads: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Writes completed.
    pub writes: u64,
}

impl DiskCounters {
    /// Whether it is made of other disks, a file or memory: the disks below it, where there are any, count the same bytes.
    #[must_use]
    pub fn is_stacked(&self) -> bool {
        STACKED.iter().any(|kind| self.name.starts_with(kind))
    }
}

/// What the kernel calls such disks: RAIDs, the device mapper's (LVM, LUKS, multipath), caches, replicated ones, volumes of ZFS,
/// files, compressed memory. No other disk's name begins so.
const STACKED: [&str; 7] = ["md", "dm-", "bcache", "drbd", "zd", "loop", "zram"];
