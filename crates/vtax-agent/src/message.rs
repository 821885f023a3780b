//! What controller and agent say to each other.
//!
//! Both ends are the same binary, but a guest may still run an older one after an upgrade, so
//! [`Hello`](Request::Hello) comes first and carries [`PROTOCOL_VERSION`].

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use vtax_load::net::{Live, NetSpec};
use vtax_load::sip::{SipProfile, SipSpec};
use vtax_load::{LoadResult, LoadSpec, Sample};
use vtax_plan::model::{Service, Subscribers};
use vtax_probe::Snapshot;
use vtax_units::Nanos;

/// Version of the protocol; both ends must have the same.
pub const PROTOCOL_VERSION: u32 = 3;

/// A request from the controller; each is answered by exactly one [`Reply`] with its id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    /// Who are you?
    Hello {
        /// The controller's [`PROTOCOL_VERSION`].
        version: u32,
    },
    /// Bring interfaces up with their addresses and routes.
    ConfigureNetwork {
        /// The interfaces; loopback is always brought up.
        interfaces: Vec<InterfaceSetup>,
    },
    /// Start a service; answered once it is ready.
    StartService {
        /// What to start.
        service: Service,
        /// Address it must listen on.
        address: IpAddr,
        /// Whom it knows.
        provisioning: Provisioning,
    },
    /// Stop the service that runs.
    StopService,
    /// Start sampling.
    StartProbes {
        /// Time between two samples.
        interval: Nanos,
    },
    /// Stop sampling and hand over the samples.
    StopProbes,
    /// One snapshot now.
    Snapshot,
    /// Run a load; progress comes as [`Event::LoadProgress`].
    RunLoad {
        /// The load.
        spec: LoadSpec,
    },
    /// Make a network test towards its far end; progress comes as [`Event::NetProgress`].
    RunNet {
        /// The test.
        spec: NetSpec,
    },
    /// Open a SIP session in place of the one before.
    OpenSip {
        /// Who calls whom.
        spec: Box<SipSpec>,
    },
    /// Drive the SIP session through a profile; progress comes as [`Event::SipProgress`].
    RunSip {
        /// The profile.
        profile: SipProfile,
    },
    /// Close the SIP session.
    CloseSip,
    /// Stop everything and exit.
    Shutdown,
}

impl Request {
    /// Its name, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::ConfigureNetwork { .. } => "configure-network",
            Self::StartService { .. } => "start-service",
            Self::StopService => "stop-service",
            Self::StartProbes { .. } => "start-probes",
            Self::StopProbes => "stop-probes",
            Self::Snapshot => "snapshot",
            Self::RunLoad { .. } => "run-load",
            Self::RunNet { .. } => "run-net",
            Self::OpenSip { .. } => "open-sip",
            Self::RunSip { .. } => "run-sip",
            Self::CloseSip => "close-sip",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Whom a service knows, where it knows anybody.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provisioning {
    /// Its subscribers.
    pub subscribers: Option<Subscribers>,
    /// Where `vtax_service::prepare` put what was made of them, under the path it has in the node.
    pub prepared: Option<PathBuf>,
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
    /// MTU.
    pub mtu: u32,
    /// Whether it may leave segmentation and checksums to others.
    #[serde(default = "usual")]
    pub offloads: bool,
    /// Routes by way of this interface; added once all interfaces are up.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Whether what comes in by it is forwarded: the node is a router.
    #[serde(default)]
    pub forwarding: bool,
}

impl InterfaceSetup {
    /// An interface of an MTU of 1,500 bytes with neither addresses nor routes.
    #[must_use]
    pub const fn new(find: FindInterface, name: String) -> Self {
        Self {
            find,
            name,
            addresses: Vec::new(),
            mtu: 1500,
            offloads: true,
            routes: Vec::new(),
            forwarding: false,
        }
    }
}

const fn usual() -> bool {
    true
}

/// A route by way of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Network that is reached; the unspecified address with prefix length 0: everything.
    pub destination: IpAddr,
    /// Prefix length of the network.
    pub prefix: u8,
    /// The router on the interface's link; `None`: the network is on the link itself.
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

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// To [`Request::Hello`].
    Hello(NodeFacts),
    /// Done, nothing to say.
    Done,
    /// To [`Request::StartService`].
    ServiceReady(ServiceReady),
    /// To [`Request::StopProbes`] and [`Request::Snapshot`].
    Snapshots {
        /// In order of time.
        snapshots: Vec<Snapshot>,
    },
    /// To [`Request::RunLoad`]; samples follow as data frames.
    Load {
        /// What the generator recorded.
        result: Box<LoadResult>,
        /// Successful answers since the load's start, warm-up included: what the CPU time between
        /// two snapshots around the load was spent on.
        answered: u64,
    },
    /// To [`Request::RunSip`]; the result, which may have many megabytes, came before as data: the
    /// JSON of a [`vtax_load::sip::SipResult`].
    SipRan,
    /// To [`Request::RunNet`]; the result came before as data: the JSON of a
    /// `Result<NetResult, NetFailure>` of [`vtax_load::net`].
    NetRan,
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
        /// The service's name.
        service: String,
        /// `stdout`, `stderr` or a log file's name.
        stream: String,
        /// The line, invalid UTF-8 replaced, at most 4 KiB.
        line: String,
    },
    /// The service ended without being asked to.
    ServiceDied {
        /// The service's name.
        service: String,
        /// `exit code 1` or `signal 11`.
        status: String,
    },
    /// A load goes on.
    LoadProgress {
        /// Time since its start.
        elapsed: Nanos,
        /// Requests answered.
        answered: u64,
    },
    /// A network test goes on: an interval of it is over.
    NetProgress {
        /// The interval.
        live: Live,
    },
    /// A SIP profile goes on.
    SipProgress {
        /// Time since its start.
        elapsed: Nanos,
        /// Scenarios that succeeded since the last report.
        succeeded: u64,
        /// Scenarios that were inadequately handled since then.
        inadequate: u64,
    },
}

/// Bytes of one sample in a data frame: start, latency, outcome, little-endian.
const SAMPLE_BYTES: usize = 13;

/// Samples as the bytes of data frames.
#[must_use]
pub fn samples_to_bytes(samples: &[Sample]) -> Vec<u8> {
    let mut out = Vec::with_capacity(samples.len() * SAMPLE_BYTES);
    for sample in samples {
        out.extend_from_slice(&sample.start_ns.to_le_bytes());
        out.extend_from_slice(&sample.latency_ns.to_le_bytes());
        out.push(sample.outcome);
    }
    out
}

/// The inverse of [`samples_to_bytes`]; a torn last sample is dropped.
#[must_use]
pub fn samples_from_bytes(bytes: &[u8]) -> Vec<Sample> {
    let (samples, _) = bytes.as_chunks::<SAMPLE_BYTES>();
    samples
        .iter()
        .map(|b| Sample {
            start_ns: u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            latency_ns: u32::from_le_bytes([b[8], b[9], b[10], b[11]]),
            outcome: b[12],
        })
        .collect()
}
