//! The plan as written: every key of the format with its default, before anything is concluded from it.
//!
//! The doc comments here are what editors show and what `vtax schema` prints: they address the writer
//! of a plan.

mod command;
mod ft;
pub(crate) mod load;
mod measures;
mod path;
mod routed;
mod systems;

use vtax_units::{Bytes, Nanos, Share};

pub(crate) use self::command::*;
pub(crate) use self::ft::*;
pub(crate) use self::load::*;
pub(crate) use self::measures::*;
pub(crate) use self::path::*;
pub(crate) use self::routed::*;
pub(crate) use self::systems::*;
use crate::decode::{Many, Trials};
pub(crate) use crate::family::desktop::raw::*;
pub(crate) use crate::family::ftp::raw::*;
pub(crate) use crate::family::http::raw::*;
pub(crate) use crate::family::network::raw::*;
pub(crate) use crate::family::redis::raw::*;
pub(crate) use crate::family::sip::raw::*;
pub(crate) use crate::family::sip::script::raw::*;
pub(crate) use crate::family::storage::ganesha::GaneshaRaw;
pub(crate) use crate::family::storage::lio::LioRaw;
pub(crate) use crate::family::storage::nfsd::NfsdRaw;
pub(crate) use crate::family::storage::raw::*;
pub(crate) use crate::family::storage::samba::SambaRaw;
pub(crate) use crate::family::storage::tgt::TgtRaw;
use crate::model::{self, Protocol};
use crate::source::Spanned;

raw! {
    /// A plan of vtax: the same service under the same load in several environments, compared.
    struct PlanRaw = "the plan" {
        /// Version of the plan format: 1.
        required vtax: u32,
        /// Short name: letters, digits, `-` and `_`.
        required name: String,
        /// The question the plan answers, in a sentence.
        optional description: String,
        /// What the others are compared with: the name of an environment, or a mapping.
        required baseline: BaselineRaw,
        /// How the service is hosted. A list of `native`, `container`, `vm` and `uml`, each with options.
        required environments: Many<EnvironmentRaw>,
        /// The network between client and service: `direct`, `bridge`, `gigabit`, `ovs`, `sdn`,
        /// `bridged`, `vm-vm`, `mininet`, `nic`, `routed`, `nat`, `vxlan`, `macvlan`, `ipvlan`, `pasta`, `slirp4netns` or `wireguard`.
        default paths: Many<PathRaw> = "bridge",
        /// The software under test: `http`, `apache`, `nginx`, `sip`, `uas`, `kamailio`, `redis`, `peer`, `disk`,
        /// `tgt`, `ganesha`, `samba`, `nfsd`, `lio`, `ftp`, `vsftpd`, `proftpd`, `tigervnc`, `x11vnc` or a `command` of your own. Without it, `peer` where the workload is a network test, and `disk` where it is `storage`.
        optional services: Many<ServiceRaw>,
        /// What the load generator does. A list as a value makes one cell for each of its items; with
        /// `tcp`, `udp`, `ping`, `rr` and `voice`, of which there may be a list, it makes one test for each.
        required workload: Many<WorkloadRaw>,
        /// What is measured in each cell, in order: `capacity`, `latency`, `throughput`, `ims`,
        /// `failover`, `network`, `storage`.
        required measure: Many<MeasureRaw>,
        /// What breaks while the load of `failover` is held, and what is mended.
        optional faults: Many<FaultRaw>,
        /// How often each measure is repeated: a number, or bounds and a precision to reach.
        default repeat: RepeatRaw = "",
        /// A cost within 1 ± margin of the baseline's counts as equivalent.
        default margin: Share = "5%",
        /// The comparisons that the plan is about, which are judged first.
        optional primary: PrimaryRaw,
        /// CPUs and memory of each side.
        default budget: BudgetRaw = "",
        /// What several systems under test share, where environments have a `count`, and how they start.
        default consolidation: ConsolidationRaw = "",
        /// Systems that stand beside the service's own, each with a service and a load: one set of them or a
        /// list of sets, each of which makes cells.
        optional systems: Many<SystemsRaw>,
        /// Seed of every random choice: trial order, arrivals, bootstrap.
        default seed: u64 = "1",
        /// The published study that the plan repeats: the report shows its figures beside the run's own.
        optional study: StudyRaw,
    }

    /// What the others are compared with.
    struct BaselineRaw = "`baseline`", short [String; environment] {
        /// Name of the baseline environment.
        required environment: String,
        /// Name of the baseline path. Without it, cells are compared on the same path.
        optional path: String,
        /// Name of the baseline service, such as the version in use. Without it, each service is compared with
        /// itself.
        optional service: String,
        /// Number of systems of the baseline environment. Without it, as many as the cell has that is compared.
        optional count: u32,
        /// Name of the baseline's set of `systems`. Without it, cells are compared beside the same systems.
        optional systems: String,
    }

    /// Options of `native` and `container`.
    struct PlainEnvironmentRaw = "this environment" {
        /// Name in reports; without it, the kind's.
        optional name: String,
        /// How many stand at the same time, each with a service of its own; without it, one.
        optional count: Many<u32>,
    }

    /// Options of `vm`. A list of values makes a cell for each.
    struct VmRaw = "`vm`" {
        /// Name in reports; without it, the kind's.
        optional name: String,
        /// How many stand at the same time, each with a service of its own; without it, one.
        optional count: Many<u32>,
        /// Guest memory; without it, its part of `budget.sut_memory`.
        optional memory: Many<Bytes>,
        /// Virtual CPUs; without it, as many as the service has CPUs.
        optional vcpus: Many<u32>,
        /// How it is protected against the failure of its host: a mode, or a mode with options.
        optional fault_tolerance: FaultToleranceRaw,
        /// Its disk, for the workload `storage`.
        optional disk: VirtualDiskRaw,
        /// Its network card: `virtio`, `e1000e`, `e1000` or `rtl8139`.
        default nic: Many<CardRaw> = "virtio",
        /// Pairs of queues of a `virtio` card, of which a guest uses one for each virtual CPU at most.
        default nic_queues: Many<u32> = "1",
        /// Entries of each receive queue of a `virtio` card: 256, 512 or 1024; without it, QEMU's 256.
        optional nic_ring: Many<u32>,
        /// Who moves the packets of a `virtio` card: `auto`, `on` (the host's kernel) or `off` (QEMU).
        default nic_vhost: Many<VhostRaw> = "auto",
        /// The shortest time between two interrupts of the card, `0us` for no limit; without it, what its driver does.
        optional nic_moderation: Many<Nanos>,
    }

    /// How often each measure is repeated in each cell.
    struct RepeatRaw = "`repeat`", short [u32; min, max] {
        /// At least this many trials per cell and measure.
        default min: Trials = "3",
        /// At most this many; without it, 10 or `min` where that is more.
        optional max: Trials,
        /// Beyond `min`, stop once the interval of the cost ratio (without what a bracket's width hides) is narrower than ± this share.
        default until: Share = "3%",
        /// Start no trial beyond `min` after this much time; without it, no limit.
        optional budget: Nanos,
        /// Order of the cells in a round, which holds each once: `blocks` (drawn anew for each
        /// round) or `abba` (every other round runs the one before backwards).
        default order: OrderRaw = "blocks",
        /// `single` (one environment at a time) or `duet` (the baseline and a candidate at the
        /// same time, so that both meet the same noise; not for capacity).
        default trials: TrialsRaw = "single",
    }

    /// The comparisons that the plan is about: those that all of these lists name.
    struct PrimaryRaw = "`primary`" {
        /// Names of measures, such as `capacity`; of network tests also `network/tcp.window-64K`. Without it, all.
        optional measures: Many<String>,
        /// Names of metrics, such as `latency_p50`, as in `summary.json`. Without it, all of the first table.
        optional metrics: Many<String>,
        /// Names of environments. Without it, all.
        optional environments: Many<String>,
    }

    /// What each side of the testbed gets.
    struct BudgetRaw = "`budget`" {
        /// CPUs of the service, a whole VM included; without it, half of the host's.
        optional sut_cpus: u32,
        /// Memory of the service.
        default sut_memory: Bytes = "512MiB",
        /// CPUs of the load generator; without it, the rest.
        optional client_cpus: u32,
    }
}

kinds! {
    /// How the service is hosted.
    enum EnvironmentRaw = "environment" {
        /// A process in its own network namespace on the service's CPUs.
        native: Native(PlainEnvironmentRaw),
        /// An OCI container: the host's root read-only under a private upper layer.
        container: Container(PlainEnvironmentRaw),
        /// A QEMU virtual machine that runs the host's binaries.
        vm: Vm(VmRaw),
        /// A user-mode Linux that runs the host's binaries: a kernel that is a process of the host's, with one CPU, which takes
        /// each system call by ptrace. It needs neither KVM nor root, and is no virtual machine.
        uml: Uml(PlainEnvironmentRaw),
    }

    /// The network between client and service.
    enum PathRaw = "path" {
        /// One virtual cable.
        direct: Direct(DirectRaw),
        /// Both ends on a software bridge.
        bridge: Bridge(BridgeRaw),
        /// A bridge whose ports are limited so that TCP sees a gigabit Ethernet.
        gigabit: Gigabit(GigabitRaw),
        /// Both ends on Open vSwitch.
        ovs: Ovs(OvsRaw),
        /// Both ends on an Open vSwitch that an OpenFlow controller steers.
        sdn: Sdn(SdnRaw),
        /// The client behind an emulated gigabit switch, the service in a virtual machine on a virtual
        /// switch behind that.
        bridged: Bridged(BridgedRaw),
        /// The client in a virtual machine as well, both on one virtual switch.
        vm_vm = "vm-vm": VmVm(VmVmRaw),
        /// Two hosts and a switch of Mininet's.
        mininet: Mininet(MininetRaw),
        /// A real interface to a remote host, where the agent is started over ssh.
        nic: Nic(NicRaw),
        /// Routers between client and service: FRR's.
        routed: Routed(RoutedRaw),
        /// Behind a host that publishes the service's ports, as container engines do: nftables translates addresses.
        nat: Nat(NatRaw),
        /// Between two hosts' bridges, joined by a VXLAN tunnel, as overlay networks of containers are.
        vxlan: Vxlan(VxlanRaw),
        /// On the host's card itself, by an interface that shares it and has a MAC address of its own.
        macvlan: Macvlan(MacvlanRaw),
        /// On the host's card itself, by an interface that shares it and its MAC address.
        ipvlan: Ipvlan(IpvlanRaw),
        /// Through pasta, a network in user space that containers without root have: the service's port is published.
        pasta: Pasta(PastaRaw),
        /// Through slirp4netns, an older network in user space: the service's port is published.
        slirp4netns: Slirp4netns(Slirp4netnsRaw),
        /// Through a WireGuard tunnel between two hosts.
        wireguard: Wireguard(WireguardRaw),
    }

    /// The software under test.
    enum ServiceRaw = "service" {
        /// The embedded HTTP server: `/bytes/N` is static, `/page/ROWS` is rendered at each request.
        http: Http(WebRaw),
        /// Apache httpd; serves `/100b`, `/10k` and `/1m`, with `php: true` also `/page/ROWS`.
        apache: Apache(ApacheRaw),
        /// nginx; serves `/100b`, `/10k` and `/1m`, with `php: true` also `/page/ROWS`.
        nginx: Nginx(NginxRaw),
        /// The embedded SIP registrar and proxy.
        sip: Sip(SipServiceRaw),
        /// The embedded SIP user agent that answers calls.
        uas: Uas(UasRaw),
        /// Kamailio with its subscribers in MariaDB.
        kamailio: Kamailio(KamailioRaw),
        /// Redis.
        redis: Redis(RedisRaw),
        /// The embedded network server.
        peer: Peer(PeerRaw),
        /// The system under test's own disk: no server.
        disk: Disk(DiskRaw),
        /// tgt: an iSCSI target in user space.
        tgt: Tgt(TgtRaw),
        /// NFS-Ganesha: an NFS server in user space.
        ganesha: Ganesha(GaneshaRaw),
        /// Samba: an SMB server.
        samba: Samba(SambaRaw),
        /// The kernel's own NFS server, in a virtual machine.
        nfsd: Nfsd(NfsdRaw),
        /// LIO: the kernel's own iSCSI target, in a virtual machine.
        lio: Lio(LioRaw),
        /// The embedded FTP server.
        ftp: Ftp(FtpServerRaw),
        /// vsftpd.
        vsftpd: Vsftpd(FtpServerRaw),
        /// ProFTPD with mod_tls.
        proftpd: Proftpd(FtpServerRaw),
        /// TigerVNC: X servers that are servers of RFB themselves.
        tigervnc: Tigervnc(DesktopRaw),
        /// x11vnc on Xvfb.
        x11vnc: X11vnc(DesktopRaw),
        /// A service of your own.
        command: Command(CommandRaw),
    }

    /// What the load generator does.
    enum WorkloadRaw = "workload" {
        /// HTTP requests, of version 1.1 or 2.
        http: Http(HttpWorkloadRaw),
        /// SIP subscribers who register, call and write to each other; with `scenario_file`, calls after a scenario of SIPp's.
        sip: Sip(SipRaw),
        /// Reads and writes of Redis's keys.
        redis: Redis(RedisWorkloadRaw),
        /// Bulk TCP: as many bytes as fit.
        tcp: Tcp(TcpRaw),
        /// UDP at a rate: loss, reordering, duplicates, jitter (RFC 3550).
        udp: Udp(UdpRaw),
        /// Echo at a rate, whatever comes back: round-trip times.
        ping: Ping(PingRaw),
        /// Request/response transactions over TCP.
        rr: Rr(RrRaw),
        /// Streams of voice (G.711 over RTP) in both directions: loss, jitter, late packets, how it sounds.
        voice: Voice(VoiceRaw),
        /// Files that are written and read, every read compared with what was written last.
        storage: Storage(StorageRaw),
        /// Clients who log in over FTP, move files and leave.
        ftp: Ftp(FtpWorkloadRaw),
        /// Users of remote desktops: they type, scroll, drag and watch.
        desktop: Desktop(DesktopWorkloadRaw),
    }

    /// What is measured.
    enum MeasureRaw = "measure" {
        /// The highest open-loop rate within limits.
        capacity: Capacity(CapacityRaw),
        /// Latency at a given open-loop rate.
        latency: Latency(LatencyRaw),
        /// Completed requests per second in a closed loop.
        throughput: Throughput(ThroughputRaw),
        /// The IMS benchmark (ETSI TS 186 008): the design objective capacity of a SIP service.
        ims: Ims(ImsRaw),
        /// A fixed load while things break (`faults`): what clients see of it.
        failover: Failover(FailoverRaw),
        /// The tests of a network workload, one after the other, in an order drawn for each trial.
        network: Network(NetworkRaw),
        /// The tests of a storage workload, one after the other in their order.
        storage: Storage(StorageMeasureRaw),
    }
}

words! {
    /// A published study, whose figures are in `studies/`.
    StudyRaw(model::Study) = "study", "studies" {
        "virtualized-ims": VirtualizedIms, "A SIP proxy with a database natively, in a virtual machine, and in a fault-tolerant one.";
        "virtual-links": VirtualLinks, "TCP transfers over physical, virtual, software-defined and emulated links.";
        "virtual-servers": VirtualServers, "FTP, VNC and storage servers in virtual machines behind an MPLS VPN.";
        "consolidated-servers": ConsolidatedServers, "A web server in one to six virtual machines on one host.";
    }
    /// The network card of a virtual machine.
    CardRaw(model::NicModel) = "network card", "network cards" {
        "virtio": Virtio, "virtio-net, made for guests.";
        "e1000e": E1000e, "An emulated Intel 82574L.";
        "e1000": E1000, "An emulated Intel 82540EM.";
        "rtl8139": Rtl8139, "An emulated Realtek RTL8139C+.";
    }
    /// Who moves the packets of a virtio card.
    VhostRaw(model::Vhost) = "choice", "choices" {
        "auto": Auto, "The host's kernel where it can and the guest isn't emulated, else QEMU.";
        "on": On, "The host's kernel (vhost-net).";
        "off": Off, "QEMU.";
    }
    /// Order of the cells within a round.
    OrderRaw(model::TrialOrder) = "order", "orders" {
        "blocks": Blocks, "Drawn anew for each round.";
        "abba": Abba, "Every other round runs the one before backwards.";
    }
    /// What is measured at one time.
    TrialsRaw(model::TrialKind) = "kind of trial", "kinds" {
        "single": Single, "One environment at a time.";
        "duet": Duet, "The baseline and a candidate at the same time.";
    }
}

impl WorkloadRaw {
    /// What its service must speak. All network tests are one workload; of others a plan has one.
    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Self::Http(_) => Protocol::Http,
            Self::Sip(_) => Protocol::Sip,
            Self::Redis(_) => Protocol::Redis,
            Self::Storage(_) => Protocol::Storage,
            Self::Ftp(_) => Protocol::Ftp,
            Self::Desktop(_) => Protocol::Desktop,
            Self::Tcp(_) | Self::Udp(_) | Self::Ping(_) | Self::Rr(_) | Self::Voice(_) => Protocol::Network,
        }
    }
}
