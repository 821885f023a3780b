//! What controller and agent say to each other.
//!
//! Both ends are the same binary, but a guest may still run an older one after an upgrade, so
//! [`Hello`](Request::Hello) comes first and carries [`PROTOCOL_VERSION`].

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use vtax_load::{LoadSpec, Progress, Step};
use vtax_plan::model::{Service, Subscribers};
use vtax_probe::Snapshot;
use vtax_router::{CommandOutcome, ProbeStreamResult, Raised};
use vtax_sys::sysctl::Sockets;
use vtax_topology::Blueprint;
use vtax_topology::event::Event as TopologyEvent;
use vtax_topology::hops::Hops;
use vtax_topology::timeline::Entry;
use vtax_units::Nanos;

/// Version of the protocol; both ends must have the same.
pub const PROTOCOL_VERSION: u32 = 21;

/// A request from the controller; each is answered by exactly one [`Reply`] with its id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    /// Who are you?
    Hello {
        /// The controller's [`PROTOCOL_VERSION`].
        version: u32,
    },
    /// What time is it? It also renews an agent's lease, as any request does.
    Clock,
    /// Bring interfaces up with their addresses and routes.
    ConfigureNetwork {
        /// The interfaces; loopback is always brought up.
        interfaces: Vec<InterfaceSetup>,
        /// What sockets begin with on the controller's host, which a guest takes over.
        sockets: Sockets,
    },
    /// Start a service; answered once it is ready.
    StartService {
        /// What it is called from here on; no service that runs has this id.
        id: ServiceId,
        /// What to start.
        service: Service,
        /// Address it must listen on.
        address: IpAddr,
        /// Whom it knows.
        provisioning: Provisioning,
    },
    /// Stop a service; done too where it doesn't run.
    StopService {
        /// The service.
        id: ServiceId,
    },
    /// Start sampling.
    StartProbes {
        /// Time between two samples.
        interval: Nanos,
    },
    /// Stop sampling and hand over the samples.
    StopProbes,
    /// One snapshot now.
    Snapshot,
    /// Open a load in place of the one before.
    OpenLoad {
        /// What all its steps have in common.
        spec: LoadSpec,
    },
    /// Run a step of the load that is open; progress comes as [`Event::Progress`] with the id of this
    /// request.
    RunStep {
        /// The step.
        step: Step,
        /// Not before this, in nanoseconds since 1970 on the node's clock; `None`: at once.
        #[serde(default)]
        at: Option<Nanos>,
    },
    /// Close the load.
    CloseLoad,
    /// Have the node's page cache forget the files below a directory.
    DropFiles {
        /// The directory.
        directory: PathBuf,
    },
    /// Have one disk of the RAID that is the node's own disk fail.
    FailDisk,
    /// Put a new one in its place.
    ReplaceDisk,
    /// How long its rebuilds took.
    Rebuilds,
    /// Bring routers up inside the node and wait until they agree.
    RaiseTopology {
        /// What is built.
        blueprint: Blueprint,
        /// The interfaces that lead to it from outside.
        doors: Vec<DoorSetup>,
        /// How long the routers have to agree.
        patience: Nanos,
        /// So many CPUs the guest keeps when they do, and turns the others off.
        cpus: Option<u32>,
    },
    /// Do something to the topology.
    InjectEvent {
        /// What is done.
        event: TopologyEvent,
    },
    /// What happened at the routers in a time, in nanoseconds since 1970 on the node's clock.
    Timeline {
        /// From.
        from: Nanos,
        /// To.
        to: Nanos,
    },
    /// Begin to send probes between the edges of the topology.
    StartStreams {
        /// Time between two probes each way.
        interval: Nanos,
    },
    /// End them.
    StopStreams {
        /// Times that are asked about, in nanoseconds since 1970 on the node's clock.
        times: Vec<(Nanos, Nanos)>,
    },
    /// Begin to capture packets at both ends of every hop of the topology.
    WatchHops,
    /// End it.
    Hops,
    /// Capture packets at an interface of a node of the topology, or of this node itself.
    Capture {
        /// The node; empty: this one.
        node: String,
        /// Its interface.
        interface: String,
        /// For how long.
        duration: Nanos,
    },
    /// Run a command in a node of the topology, or in this node itself.
    Execute {
        /// The node; empty: this one.
        node: String,
        /// Program and arguments.
        command: Vec<String>,
    },
    /// Stop everything and exit.
    Shutdown,
}

impl Request {
    /// Its name, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::Clock => "clock",
            Self::ConfigureNetwork { .. } => "configure-network",
            Self::StartService { .. } => "start-service",
            Self::StopService { .. } => "stop-service",
            Self::StartProbes { .. } => "start-probes",
            Self::StopProbes => "stop-probes",
            Self::Snapshot => "snapshot",
            Self::OpenLoad { .. } => "open-load",
            Self::RunStep { .. } => "run-step",
            Self::CloseLoad => "close-load",
            Self::DropFiles { .. } => "drop-files",
            Self::FailDisk => "fail-disk",
            Self::ReplaceDisk => "replace-disk",
            Self::Rebuilds => "rebuilds",
            Self::RaiseTopology { .. } => "raise-topology",
            Self::InjectEvent { .. } => "inject-event",
            Self::Timeline { .. } => "timeline",
            Self::StartStreams { .. } => "start-streams",
            Self::StopStreams { .. } => "stop-streams",
            Self::WatchHops => "watch-hops",
            Self::Hops => "hops",
            Self::Capture { .. } => "capture",
            Self::Execute { .. } => "execute",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Names one of a node's services; the controller chooses it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServiceId(pub u32);

impl ServiceId {
    /// Of the service of a node that has only one.
    pub const ONLY: Self = Self(0);
}

impl std::fmt::Display for ServiceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The subscribers a service is to know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provisioning {
    /// Its subscribers.
    pub subscribers: Option<Subscribers>,
    /// Where `vtax_service::prepare` put what was made of them, under the path it has in the node.
    pub prepared: Option<PathBuf>,
    /// Where the node has its disk, for a service that keeps there what it serves.
    #[serde(default)]
    pub disk: Option<PathBuf>,
}

/// One interface of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceSetup {
    /// How the interface is found: its present name or, in a guest, its MAC address (`52:54:00:..`).
    pub find: FindInterface,
    /// Name it gets.
    pub name: String,
    /// Addresses with prefix length.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Whether a DHCP server gives it these addresses: one of IPv4, which must be the one that is expected.
    #[serde(default)]
    pub dhcp: bool,
    /// MTU.
    pub mtu: u32,
    /// Whether it may leave segmentation and checksums to others.
    #[serde(default = "usual")]
    pub offloads: bool,
    /// The shortest time between two interrupts of its card, none for no limit; `None`: what its driver does.
    #[serde(default)]
    pub moderation: Option<Nanos>,
    /// Routes by way of this interface; added once all interfaces are up.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Whether what comes in by it is forwarded: the node is a router.
    #[serde(default)]
    pub forwarding: bool,
    /// Whether it speaks ARP for its own addresses alone: several of a node's cards are on one link.
    #[serde(default)]
    pub own_arp: bool,
}

impl InterfaceSetup {
    /// An interface of an MTU of 1,500 bytes with neither addresses nor routes.
    #[must_use]
    pub const fn new(find: FindInterface, name: String) -> Self {
        Self {
            find,
            name,
            addresses: Vec::new(),
            dhcp: false,
            mtu: 1500,
            offloads: true,
            moderation: None,
            routes: Vec::new(),
            forwarding: false,
            own_arp: false,
        }
    }
}

const fn usual() -> bool {
    true
}

/// A route by way of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Network that is reached; the unspecified address with prefix length 0: everything.
    pub destination: IpAddr,
    /// Prefix length of the network.
    pub prefix: u8,
    /// The router on the interface's link; `None`: the network is on the link itself.
    pub gateway: Option<IpAddr>,
    /// Other ways there: each connection takes one of all of them. Empty: there is this one.
    #[serde(default)]
    pub others: Vec<Hop>,
}

impl Route {
    /// By one way.
    #[must_use]
    pub const fn new(destination: IpAddr, prefix: u8, gateway: Option<IpAddr>) -> Self {
        Self { destination, prefix, gateway, others: Vec::new() }
    }
}

/// One of several ways of a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Name of the interface.
    pub interface: String,
    /// As [`Route::gateway`].
    pub gateway: Option<IpAddr>,
}

/// How an interface is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindInterface {
    /// By its present name.
    Name(String),
    /// By its MAC address.
    Mac([u8; 6]),
}

/// An interface through which a topology is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoorSetup {
    /// The door's name in the blueprint.
    pub door: String,
    /// How the interface is found.
    pub find: FindInterface,
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// To [`Request::Hello`].
    Hello(NodeFacts),
    /// To [`Request::Clock`].
    Clock {
        /// Nanoseconds since 1970 on the node's clock.
        unix: Nanos,
    },
    /// Done, nothing to say.
    Done,
    /// To [`Request::ConfigureNetwork`].
    Configured(Configured),
    /// To [`Request::StartService`].
    ServiceReady(ServiceReady),
    /// To [`Request::StopProbes`] and [`Request::Snapshot`].
    Snapshots {
        /// In order of time.
        snapshots: Vec<Snapshot>,
    },
    /// To [`Request::RunStep`]. What the step found, which may have many megabytes, came before as data: the
    /// bytes of a [`vtax_load::StepResult`].
    Ran,
    /// To [`Request::DropFiles`].
    Held {
        /// Bytes that the page cache still holds.
        bytes: u64,
        /// Bytes of all files.
        of: u64,
    },
    /// To [`Request::Rebuilds`].
    Rebuilds {
        /// In the order in which disks were replaced; `None`: it isn't over.
        took: Vec<Option<Nanos>>,
    },
    /// To [`Request::RaiseTopology`].
    Raised(Raised),
    /// To [`Request::InjectEvent`].
    Injected {
        /// When, in nanoseconds since 1970 on the node's clock.
        at: Nanos,
    },
    /// To [`Request::Timeline`].
    Timeline {
        /// In order of time.
        entries: Vec<Entry>,
    },
    /// To [`Request::StopStreams`].
    Streamed(ProbeStreamResult),
    /// To [`Request::Hops`].
    Hops(Hops),
    /// To [`Request::Execute`].
    Executed(CommandOutcome),
    /// It could not be done.
    Failed {
        /// The whole chain of causes.
        error: String,
    },
}

/// Facts about the node, for provenance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// [`PROTOCOL_VERSION`] of the agent.
    pub version: u32,
    /// `uname -r`.
    pub kernel: String,
    /// CPUs the agent may use.
    pub cpus: u32,
    /// Memory of the node's kernel in bytes.
    pub memory_bytes: u64,
    /// The machine by its own words: host name, processor, microcode, clock source. Hosts that are compared differ in these.
    #[serde(default)]
    pub machine: String,
    /// What sockets begin with.
    #[serde(default)]
    pub sockets: Sockets,
}

/// A node's network as it was configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configured {
    /// The interfaces asked for, in their order.
    pub cards: Vec<CardFacts>,
    /// What sockets begin with now.
    pub sockets: Sockets,
}

/// What a node's kernel says of an interface once it is up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardFacts {
    /// Its name.
    pub interface: String,
    /// Its driver, such as `virtio_net`; empty where that doesn't say.
    pub driver: String,
    /// The offloads that are on ([`vtax_sys::ethtool::Offload::word`]).
    pub offloads: Vec<String>,
    /// Queues by which it receives; none where that isn't known.
    #[serde(default)]
    pub queues: u32,
    /// Who keeps its interrupts apart, and by how much, where that was asked for.
    #[serde(default)]
    pub moderation: Option<String>,
    /// What a DHCP server gave it, where it asked one.
    #[serde(default)]
    pub lease: Option<Lease>,
}

/// An address from a DHCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The address.
    pub address: Ipv4Addr,
    /// Prefix length of its network.
    pub prefix: u8,
    /// The server.
    pub server: Ipv4Addr,
    /// For how long, in seconds; `None` where the server doesn't say.
    pub seconds: Option<u32>,
    /// Messages that the client sent for it; two where none was lost or refused.
    pub messages: u32,
    /// From the first DISCOVER until the interface had the address.
    pub took: Nanos,
}

impl Lease {
    /// `10.97.0.2/16 of 10.97.0.3 for 86400 s, 2 messages`.
    #[must_use]
    pub fn words(&self) -> String {
        let seconds = self.seconds.map(|seconds| format!(" for {seconds} s")).unwrap_or_default();
        format!("{}/{} of {}{seconds}, {} messages", self.address, self.prefix, self.server, self.messages)
    }
}

impl CardFacts {
    /// `e1000e, offloads: tx-checksum tso gso gro`, and what is unusual about it.
    #[must_use]
    pub fn words(&self) -> String {
        let driver = if self.driver.is_empty() { "unknown driver" } else { &self.driver };
        let offloads = if self.offloads.is_empty() { "none".to_owned() } else { self.offloads.join(" ") };
        let queues = if self.queues > 1 { format!(", {} queues", self.queues) } else { String::new() };
        let moderation = self.moderation.iter().map(|words| format!(", interrupts {words}"));
        format!("{driver}, offloads: {offloads}{queues}{}", moderation.collect::<String>())
    }
}

/// A service that got ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceReady {
    /// From start to readiness.
    pub startup: Nanos,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its own version line, such as `nginx/1.22.1`.
    pub version: String,
    /// The command line that was run.
    pub command: Vec<String>,
}

/// Something an agent says unasked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A line of the service's output.
    ServiceOutput {
        /// Which service.
        id: ServiceId,
        /// The service's name.
        service: String,
        /// `stdout`, `stderr` or a log file's name.
        stream: String,
        /// The line, invalid UTF-8 replaced, at most 4 KiB.
        line: String,
    },
    /// The service ended without being asked to.
    ServiceDied {
        /// Which service.
        id: ServiceId,
        /// The service's name.
        service: String,
        /// `exit code 1` or `signal 11`.
        status: String,
    },
    /// A step of load goes on. The frame has the id of its request.
    Progress {
        /// Since the step's start.
        progress: Progress,
    },
}
