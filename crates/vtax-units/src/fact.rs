//! Names of facts, which are text by name: what a trial, an observation or a run tells beside its figures. One crate writes a
//! fact and another reads it, in runs of former versions too, so no name ever changes. Facts that are only shown, such as most
//! of a path's, have their names where they are written.
//!
//! Sizes are in bytes, times in nanoseconds and shares from 0 to 1, each as a plain number, unless said otherwise.

/// By which algorithm TCP sends, among the settings of sockets that a node tells: a file below `/proc/sys/net`.
pub const CONGESTION_CONTROL: &str = "ipv4/tcp_congestion_control";
/// Where the load goes: address and port of the (first) service. Of a trial; written by vtax-run.
pub const ADDRESS: &str = "address";
/// Where the load comes from: an address, or the first and the last one. Of a trial; written by vtax-run.
pub const CLIENT_ADDRESSES: &str = "client_addresses";
/// What could not be taken down, in words. Of a trial; written by vtax-run.
pub const TEARDOWN: &str = "teardown";
/// Who else used the host, in words. Of a trial; written by vtax-run.
pub const NOISE: &str = "noise";
/// Why samples are missing, in words. Of a trial; written by vtax-run.
pub const PROBES: &str = "probes";

/// The service's own words for its version; further systems' with their node's name before it. Of a trial; written by vtax-run.
pub const SERVICE_VERSION: &str = "service.version";
/// From its start until it was ready; named as [`SERVICE_VERSION`]. Of a trial; written by vtax-run.
pub const SERVICE_STARTUP: &str = "service.startup_ns";
/// Lines of its log that tell of errors, in words. Of a trial; written by vtax-run.
pub const SERVICE_ERRORS: &str = "service.errors";

/// How many systems there are. Of a trial on several, as all of this group; written by vtax-run.
pub const SYSTEMS_COUNT: &str = "systems.count";
/// What they were promised together, in words.
pub const SYSTEMS_PROMISED: &str = "systems.promised";
/// Memory that they were promised, as a multiple of the budget's.
pub const SYSTEMS_MEMORY_RATIO: &str = "systems.memory_ratio";
/// Memory that they may have together.
pub const SYSTEMS_MEMORY_LIMIT: &str = "systems.memory_limit";
/// What of it QEMU's processes have for themselves.
pub const SYSTEMS_MEMORY_OF_QEMUS: &str = "systems.memory_of_qemus";
/// How often they met that limit during the measurement.
pub const SYSTEMS_MEMORY_AT_LIMIT: &str = "systems.memory_at_limit";
/// What of it they used at the measurement's end.
pub const SYSTEMS_MEMORY_USED: &str = "systems.memory_used";

/// What facts of the host begin with: of provenance what doesn't change, of a trial what happened meanwhile.
pub const HOST: &str = "host.";
/// Share of the systems' CPUs that was busy with anything. Of a trial, as all of the host's here; written by vtax-run.
pub const HOST_SUT_CPUS_BUSY: &str = "host.sut_cpus_busy";
/// Share of the systems' CPUs that they used themselves.
pub const HOST_SUT_CPUS_USED: &str = "host.sut_cpus_used";
/// Share of the systems' CPUs that a hypervisor above the host took.
pub const HOST_STEAL: &str = "host.steal";
/// Pages that went to swap or came from there.
pub const HOST_SWAPPED_PAGES: &str = "host.swapped_pages";
/// Share of the time in which some task waited for memory; none where the kernel doesn't tell.
pub const HOST_MEMORY_WAIT: &str = "host.memory_wait";
/// Share of the time in which some task waited for a disk; none where the kernel doesn't tell.
pub const HOST_DISK_WAIT: &str = "host.disk_wait";
/// By how many seconds the host's clock was set.
pub const HOST_CLOCK_SET: &str = "host.clock_set";
/// Whether the host merges equal pages: the kernel's number for it, not 0 where it does.
pub const HOST_KSM: &str = "host.ksm";
/// Pages of the host that are one with others.
pub const HOST_KSM_PAGES_SHARING: &str = "host.ksm_pages_sharing";

/// The limits that a node was held to, in words; its CPUs come first. By [`of_node`], as all of this group, of a trial;
/// written by vtax-run.
pub const LIMITS: &str = "limits";
/// Its network cards, in words.
pub const CARD: &str = "card";
/// What each of several cards carried, in words.
pub const CARDS: &str = "cards";
/// The machine that it is on, where that isn't the controller's.
pub const MACHINE: &str = "machine";
/// The host's CPUs that it has.
pub const CPUS: &str = "cpus";
/// Its own boot, without its wait for others.
pub const BOOT: &str = "boot_ns";
/// From the first system's start until it was up.
pub const UP: &str = "up_ns";
/// CPU time that its QEMU had used when all systems were up.
pub const BOOT_CPU: &str = "boot_cpu_ns";
/// What a DHCP server gave it, in words.
pub const LEASE: &str = "lease";
/// From its first DHCP message until it had its address.
pub const LEASE_TIME: &str = "lease_ns";
/// Memory that its balloon leaves it.
pub const BALLOON_LEFT: &str = "balloon_left";
/// Memory that its balloon leaves it after the measurement.
pub const BALLOON_LEFT_AT_END: &str = "balloon_left_at_end";
/// How long its balloon took.
pub const BALLOON_TIME: &str = "balloon_ns";

/// What a system is there for, one of these words. Of an observation, as all of this group; written by vtax-run.
pub const ROLE: &str = "role";
/// One of those that the cell measures.
pub const ROLE_SYSTEM: &str = "system";
/// Beside them, and of interest.
pub const ROLE_MEASURED: &str = "measured";
/// Beside them, to disturb.
pub const ROLE_NEIGHBOUR: &str = "neighbour";
/// What the plan calls a system that is beside those measured.
pub const NAME: &str = "name";
/// Memory at its most.
pub const MEMORY: &str = "memory_bytes";
/// Share of its CPUs' time that was taken from a virtual machine.
pub const STEAL_SHARE: &str = "steal_share";
/// What a virtual machine had swapped out, at its most.
pub const SWAP_USED: &str = "swap_used_bytes";

/// What facts of guests begin with. Of trials, and of provenance.
pub const VM: &str = "vm.";
/// `tcg` or `kvm`; written by vtax-vm.
pub const VM_ACCELERATOR: &str = "vm.accelerator";
/// QEMU's version; written by vtax-vm.
pub const VM_QEMU: &str = "vm.qemu";
/// Whether the host's kernel carries packets: `true` or `false`; written by vtax-vm, and by vtax-lab of a card.
pub const VM_VHOST_NET: &str = "vm.vhost_net";
/// QEMU's command line; written by vtax-lab, as what follows.
pub const VM_COMMAND: &str = "vm.command";
/// The card's word in plans.
pub const VM_NIC: &str = "vm.nic";
/// What is unusual about the card, in words.
pub const VM_NIC_TUNING: &str = "vm.nic.tuning";
/// The disk's words in plans.
pub const VM_DISK: &str = "vm.disk";
/// Memory that QEMU may have for itself, with its unit.
pub const VM_MEMORY_OVERHEAD_ALLOWED: &str = "vm.memory_overhead_allowed";

/// What facts of containers begin with. Of trials, and of provenance.
pub const CONTAINER: &str = "container.";
/// The runtime's name and version; written by vtax-lab.
pub const CONTAINER_RUNTIME: &str = "container.runtime";

/// What facts of paths begin with. Of trials.
pub const PATH: &str = "path.";
/// Whether interfaces may leave segmentation to others: `true` or `false`; written by vtax-lab.
pub const PATH_OFFLOADS: &str = "path.offloads";
/// Where routers are: `host` or `guest`; written by vtax-lab.
pub const PATH_PLACE: &str = "path.place";
/// The time to live that was left behind the routers; written by vtax-run.
pub const PATH_LAB_TTL: &str = "path.lab.ttl";
/// The stack of labels that was captured; written by vtax-run.
pub const PATH_LAB_LABELS: &str = "path.lab.labels";
/// FRR's words for its version; written by vtax-run.
pub const PATH_LAB_VERSION: &str = "path.lab.version";
/// How often routers changed routes by themselves while something was measured; written by vtax-run.
pub const PATH_LAB_ROUTE_CHANGES: &str = "path.lab.route_changes";
/// What proofs of paths begin with: what was measured of an emulated link, and what its middle passed on.
pub const PATH_PROOF: &str = "path.proof.";
/// TCP's payload, in bit/s. By [`proved`] and [`asked`], as what follows; written by vtax-lab.
pub const PROOF_GOODPUT: &str = "goodput_bits";
/// Delay each way.
pub const PROOF_DELAY: &str = "delay_ns";
/// Share of packets lost.
pub const PROOF_LOSS: &str = "loss";

/// The fact `key` of a node, such as `sut-2.boot_ns`.
#[must_use]
pub fn of_node(node: &str, key: &str) -> String {
    format!("{node}.{key}")
}

/// The node whose fact `key` this name is.
#[must_use]
pub fn node_of<'a>(name: &'a str, key: &str) -> Option<&'a str> {
    name.strip_suffix(key)?.strip_suffix('.')
}

/// The host's CPUs that `sut` or `client` has. Of a trial; written by vtax-run.
#[must_use]
pub fn cpus_of(node: &str) -> String {
    format!("{node}_cpus")
}

/// When this stage of the routers' bring-up was reached, from its start. Of a trial; written by vtax-run.
#[must_use]
pub fn of_stage(stage: &str) -> String {
    format!("path.lab.{}_ns", stage.replace('-', "_"))
}

/// What was measured of an emulated link.
#[must_use]
pub fn proved(what: &str) -> String {
    format!("{PATH_PROOF}{what}")
}

/// What an emulated link should be.
#[must_use]
pub fn asked(what: &str) -> String {
    format!("{PATH_PROOF}{what}_asked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_found_in_a_name() {
        assert_eq!(of_node("sut-2", BOOT), "sut-2.boot_ns");
        assert_eq!(node_of("sut-2.boot_ns", BOOT), Some("sut-2"));
        assert_eq!(node_of("sut-2.boot_cpu_ns", BOOT), None);
        assert_eq!(node_of("boot_ns", BOOT), None);
    }

    #[test]
    fn names_that_are_put_together_stay() {
        assert_eq!(cpus_of("sut"), "sut_cpus");
        assert_eq!(of_stage("label-sessions"), "path.lab.label_sessions_ns");
        assert_eq!(proved(PROOF_DELAY), "path.proof.delay_ns");
        assert_eq!(asked(PROOF_LOSS), "path.proof.loss_asked");
    }
}
