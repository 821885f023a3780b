//! Fault tolerance as written: how a virtual machine is protected, what breaks, and the load meanwhile.

use vtax_topology::frr::Daemon;
use vtax_units::{BitRate, Bytes, Nanos, Share};

use super::load::{ArrivalsRaw, LoadRaw};
use crate::decode::Many;
use crate::model::{FaultTarget, HostCards};
use crate::source::Spanned;

raw! {
    /// How a virtual machine is protected against the failure of its host. Plans with a protected one build
    /// all their virtual machines alike, on the same QEMU, so that they can be compared.
    struct FaultToleranceRaw = "`fault_tolerance`", short [FtModeRaw; mode] {
        /// The technique: `kemari` (checkpoint at each output), `remus` (at intervals), `colo`
        /// (lock-step, experimental), `restart` (boot again elsewhere), `snapshot` (the last snapshot
        /// goes on elsewhere) or `none`.
        required mode: FtModeRaw,
        /// Time between two checkpoints of `remus` (40ms unless given) or two snapshots of `snapshot`
        /// (5s). A list makes a cell for each.
        optional interval: Many<Nanos>,
        /// Emulated hosts, 2 or 3. With a spare third one the guest is protected again right after a
        /// failover; with two, once the failed host is restored.
        default hosts: u32 = "2",
        /// Wire rate of the link for checkpoints; without it, unlimited. A list makes a cell for each.
        optional link: Many<BitRate>,
        /// Whether a host has a card of its own for checkpoints (`own`), or one at the rate of `link` for them and for the service's
        /// traffic (`shared`). A list makes a cell for each.
        default cards: Many<HostCardsRaw> = "own",
        /// Size of a disk that is replicated with the checkpoints; without it, there is none.
        optional disk: Bytes,
        /// Memory of each host but the first; without it, as much as is needed.
        optional secondary_memory: Bytes,
        /// Time between two heartbeats of a host.
        default heartbeat: Nanos = "25ms",
        /// Silence of a host on all paths after which it is fenced.
        default patience: Nanos = "100ms",
    }

    /// Something that is broken, or mended, while the load of `failover` is held. It says when, and one of
    /// `kill`, `hang`, `cut`, `restore`, `failover`, `fail`, `replace`, and of a routed lab `cut_link`, `lossy_link`,
    /// `restore_link`, `kill_router`, `stop_daemon` and `restore_router`.
    struct FaultRaw = "this fault" {
        /// When, from the start of the recorded load.
        required at: Nanos,
        /// Time until it happens again.
        optional every: Nanos,
        /// How often it happens in all; without it, until the load ends.
        optional times: u32,
        /// Ends everything on it at once, as a power failure would: `primary-host`, `secondary-host` or
        /// `sut` (the system under test, in any environment but `uml`).
        optional kill: KillRaw,
        /// Stops everything on it: `primary-host` or `sut`.
        optional hang: HangRaw,
        /// Interrupts it: `ft-link` (the link for checkpoints) or `path` (between client and service).
        optional cut: CutRaw,
        /// Mends it: `hosts` (switches on all that are off), `ft-link`, `path`, or `sut` that hangs.
        optional restore: RestoreRaw,
        /// Moves the guest to another host while it runs: `planned`.
        optional failover: PlannedRaw,
        /// Takes it out of what it is a part of: `disk` (one of the RAID-5 that the virtual machine's disk is).
        optional fail: DiskFaultRaw,
        /// Puts a new one in its place, so that the RAID is rebuilt: `disk`.
        optional replace: DiskFaultRaw,
        /// Pulls the cable of a link of a `routed` path, such as `pe1-p1`.
        optional cut_link: String,
        /// Has a link of a `routed` path lose packets in one direction, without a sign to its ends: its name, or a mapping.
        optional lossy_link: LossyLinkRaw,
        /// Switches a router of a `routed` path off.
        optional kill_router: String,
        /// Ends a routing daemon at once; what the kernel forwards by goes on.
        optional stop_daemon: StopDaemonRaw,
        /// Mends a link: its cable is in, and it loses nothing.
        optional restore_link: String,
        /// Switches a router on again, or starts its daemons again.
        optional restore_router: String,
    }

    /// A link that loses packets.
    struct LossyLinkRaw = "`lossy_link`", short [String; link] {
        /// The link.
        required link: String,
        /// The router whose packets are lost; without it, the link's first.
        optional from: String,
        /// Share of packets that is lost.
        default share: Share = "100%",
    }

    /// A routing daemon of a router's.
    struct StopDaemonRaw = "`stop_daemon`" {
        /// The router.
        required router: String,
        /// The daemon: `ospfd`, `ldpd`, `bgpd`, `bfdd`, `zebra` or `staticd`.
        required daemon: DaemonRaw,
    }

    /// Options of `failover`.
    struct FailoverRaw = "`failover`" {
        /// Name in reports.
        optional name: String,
        /// Offered load, as for `latency`.
        default load: LoadRaw = "50% of lowest capacity",
        /// Arrival process.
        default arrivals: ArrivalsRaw = "poisson",
        /// Time at the start that never counts.
        default warmup: Nanos = "2s",
        /// Time that counts.
        default duration: Nanos = "30s",
        /// An answer that takes longer than this was delayed.
        default delayed: Nanos = "100ms",
        /// What happens; without it, the plan's `faults`.
        optional faults: Many<FaultRaw>,
    }
}

/// A technique of protection, without its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Technique {
    None,
    Kemari,
    Remus,
    Colo,
    Restart,
    Snapshot,
}

words! {
    /// The technique of protection.
    FtModeRaw(Technique) = "mode", "modes" {
        "none": None, "Not protected.";
        "kemari": Kemari, "A checkpoint whenever the guest is about to say something.";
        "remus": Remus, "Checkpoints at intervals; what the guest says waits for the next one.";
        "colo": Colo, "Both guests run; a checkpoint where they say different things. Experimental.";
        "restart": Restart, "The guest is booted again on the other host.";
        "snapshot": Snapshot, "The last snapshot goes on on the other host.";
    }
    /// Which cards a host has.
    HostCardsRaw(HostCards) = "choice", "choices" {
        "own": Own, "One for the service's traffic, one for checkpoints.";
        "shared": Shared, "One for both, at the rate of `link`.";
    }
    /// A routing daemon of FRR's.
    DaemonRaw(Daemon) = "daemon", "daemons" {
        "zebra": Zebra, "Tells the kernel.";
        "staticd": Staticd, "Static routes.";
        "ospfd": Ospfd, "OSPF.";
        "ldpd": Ldpd, "LDP.";
        "bgpd": Bgpd, "BGP.";
        "bfdd": Bfdd, "BFD.";
    }
    /// What can be killed.
    KillRaw(FaultTarget) = "thing to kill", "targets" {
        "primary-host": PrimaryHost, "The host that runs the guest at that moment.";
        "secondary-host": SecondaryHost, "The host that has its copy at that moment.";
        "sut": Sut, "The system under test as a whole.";
    }
    /// What can hang.
    HangRaw(FaultTarget) = "thing to hang", "targets" {
        "primary-host": PrimaryHost, "The host that runs the guest at that moment.";
        "sut": Sut, "The system under test as a whole.";
    }
    /// What can be cut.
    CutRaw(FaultTarget) = "thing to cut", "targets" {
        "ft-link": FtLink, "The link for checkpoints.";
        "path": Path, "The network between client and service.";
    }
    /// What can be mended.
    RestoreRaw(FaultTarget) = "thing to restore", "targets" {
        "hosts": Hosts, "Every host that is off.";
        "ft-link": FtLink, "The link for checkpoints.";
        "path": Path, "The network between client and service.";
        "sut": Sut, "A system under test that hangs.";
    }
    /// What fails and is replaced.
    DiskFaultRaw(FaultTarget) = "thing to fail or replace", "targets" {
        "disk": Disk, "One disk of a RAID-5.";
    }
    /// How a guest moves.
    PlannedRaw(FaultTarget) = "kind of failover", "kinds" {
        "planned": Planned, "Live migration.";
    }
}
