//! The plan as written: every key of the format with its default, before anything is concluded from it.
//!
//! The doc comments here are what editors show and what `vtax schema` prints: they address the writer
//! of a plan.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use vtax_units::{Bytes, Nanos, Rate, Share};

use crate::decode::{Argv, Decode, Many, TextMap, scalar, unknown};
use crate::diagnose::{Report, nearest};
use crate::model;
use crate::source::Spanned;
use crate::tree::Node;

raw! {
    /// A plan of vtax: the same service under the same load in several environments, compared.
    struct PlanRaw = "the plan" {
        /// Version of the plan format: 1.
        required vtax: u32,
        /// Short name: letters, digits, `-` and `_`.
        required name: String,
        /// The question the plan answers, in a sentence.
        optional description: String,
        /// What the others are compared with: the name of an environment.
        required baseline: BaselineRaw,
        /// How the service is hosted. A list of `native`, `container` and `vm`, each with options.
        required environments: Many<EnvironmentRaw>,
        /// The network between client and service: `direct`, `bridge`, `gigabit`, `ovs`, `sdn`,
        /// `bridged`, `vm-vm`, `mininet` or `nic`.
        default paths: Many<PathRaw> = "bridge",
        /// The software under test: `http`, `apache`, `nginx`, `sip`, `kamailio`, `peer` or a `command`
        /// of your own. Without it, `peer` where the workload is a network test.
        optional services: Many<ServiceRaw>,
        /// What the load generator does. A list as a value makes one cell for each of its items; with
        /// `tcp`, `udp`, `ping` and `rr`, of which there may be a list, it makes one test for each.
        required workload: Many<WorkloadRaw>,
        /// What is measured in each cell, in order: `capacity`, `latency`, `throughput`, `ims`,
        /// `failover`, `network`.
        required measure: Many<MeasureRaw>,
        /// What breaks while the load of `failover` is held, and what is mended.
        optional faults: Many<FaultRaw>,
        /// How often each measure is repeated: a number, or bounds and a precision to reach.
        default repeat: RepeatRaw = "",
        /// A cost within 1 ± margin of the baseline's counts as equivalent.
        default margin: Share = "5%",
        /// CPUs and memory of each side.
        default budget: BudgetRaw = "",
        /// Seed of every random choice: trial order, arrivals, bootstrap.
        default seed: u64 = "1",
    }

    /// What the others are compared with.
    struct BaselineRaw = "`baseline`", short [String; environment] {
        /// Name of the baseline environment.
        required environment: String,
        /// Name of the baseline path. Without it, cells are compared on the same path.
        optional path: String,
    }

    /// Options of `native` and `container`.
    struct PlainEnvironmentRaw = "this environment" {
        /// Name in reports; without it, the kind's.
        optional name: String,
    }

    /// Options of `vm`. A list of values makes a cell for each.
    struct VmRaw = "`vm`" {
        /// Name in reports; without it, the kind's.
        optional name: String,
        /// Guest memory; without it, `budget.sut_memory`.
        optional memory: Many<Bytes>,
        /// Virtual CPUs; without it, as many as the service has CPUs.
        optional vcpus: Many<u32>,
        /// How it is protected against the failure of its host: a mode, or a mode with options.
        optional fault_tolerance: FaultToleranceRaw,
    }

    /// Options of `http`, `apache` and `nginx`.
    struct WebRaw = "this web server" {
        /// Name in reports; without it, the kind's.
        optional name: String,
        /// TCP port it listens on.
        default port: u16 = "8080",
        /// Worker threads or processes; without it, one per CPU. A list makes a cell for each.
        optional workers: Many<u32>,
        /// How long it may take to become ready.
        default ready_timeout: Nanos = "30s",
        /// How long it may take to stop before it is killed.
        default stop_timeout: Nanos = "5s",
    }

    /// Options of `command`.
    struct CommandRaw = "`command`" {
        /// Name in reports; without it, the kind's.
        optional name: String,
        /// Program and arguments; no shell is involved. `{address}`, `{port}` and `{dir}` are
        /// replaced by where it must listen and by its private directory.
        required run: Argv,
        /// Port the workload talks to.
        required port: u16,
        /// When it is ready: `port` (accepts a connection), `log: TEXT` (prints a line with this
        /// text) or `run: [PROGRAM, ...]` (this command exits with 0).
        default ready: ReadyRaw = "port",
        /// Environment variables added to a minimal set.
        default env: TextMap = "",
        /// Files written into `{dir}` before the start: relative path to content.
        default files: TextMap = "",
        /// How long it may take to become ready.
        default ready_timeout: Nanos = "30s",
        /// How long it may take to stop before it is killed.
        default stop_timeout: Nanos = "5s",
    }

    /// Options of the `http` workload. A list of values makes a cell for each.
    struct HttpWorkloadRaw = "`http`" {
        /// What is requested: a path such as `/bytes/100`.
        required target: Many<String>,
        /// Connections; in an open loop the most that may be open at once.
        default connections: Many<u32> = "64",
        /// Requests on one connection before it is closed; without it, no limit.
        optional requests_per_connection: Many<u32>,
        /// A request not answered within this time, counted from its intended start, has failed.
        default timeout: Many<Nanos> = "2s",
    }

    /// Options of `capacity`.
    struct CapacityRaw = "`capacity`" {
        /// Name in reports.
        optional name: String,
        /// Rate of the first step.
        default start: Rate = "500/s",
        /// No step goes above this rate.
        default max: Rate = "1000000/s",
        /// The search ends when the bracket is narrower than this share of its lower bound.
        default precision: Share = "5%",
        /// Time of each step that counts.
        default step: Nanos = "1s",
        /// Time at the start of each step that doesn't count.
        default settle: Nanos = "200ms",
        /// Arrival process.
        default arrivals: ArrivalsRaw = "poisson",
        /// What a step must keep to pass.
        default limits: LimitsRaw = "",
    }

    /// What a step must keep to pass.
    struct LimitsRaw = "`limits`" {
        /// Share of requests that may fail or stay unanswered.
        default errors: Share = "0.1%",
        /// The 99th percentile of latency, counted from the intended start.
        default p99: Nanos = "50ms",
    }

    /// Options of `latency`. A list of loads makes a measure for each.
    struct LatencyRaw = "`latency`" {
        /// Name in reports; only for a single load.
        optional name: String,
        /// Offered load: `50% of capacity` (the cell's own), `50% of lowest capacity` (of the
        /// cells compared, so the same rate for all of them) or a rate such as `1000/s`.
        default load: Many<LoadRaw> = "50% of capacity",
        /// Arrival process.
        default arrivals: ArrivalsRaw = "poisson",
        /// Time at the start that never counts.
        default warmup: Nanos = "1s",
        /// Time that counts.
        default duration: Nanos = "10s",
        /// Keep every request's latency besides histograms.
        default samples: bool = "false",
    }

    /// Options of `throughput`.
    struct ThroughputRaw = "`throughput`" {
        /// Name in reports.
        optional name: String,
        /// Time at the start that never counts.
        default warmup: Nanos = "1s",
        /// Time that counts.
        default duration: Nanos = "10s",
    }

    /// How often each measure is repeated in each cell.
    struct RepeatRaw = "`repeat`", short [u32; min, max] {
        /// At least this many trials per cell and measure.
        default min: u32 = "3",
        /// At most this many; without it, 10 or `min` where that is more.
        optional max: u32,
        /// Beyond `min`, stop once the interval of the cost ratio is narrower than ± this share.
        default until: Share = "3%",
        /// Start no trial after this much time; without it, no limit.
        optional budget: Nanos,
        /// Order of the cells in a round, which holds each once: `blocks` (drawn anew for each
        /// round) or `abba` (every other round runs the one before backwards).
        default order: OrderRaw = "blocks",
        /// `single` (one environment at a time) or `duet` (the baseline and a candidate at the
        /// same time, so that both meet the same noise; not for capacity).
        default trials: TrialsRaw = "single",
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
    }

    /// The software under test.
    enum ServiceRaw = "service" {
        /// The embedded HTTP server: `/bytes/N` is static, `/page/ROWS` is rendered at each request.
        http: Http(WebRaw),
        /// Apache httpd with the event MPM; serves `/100b`, `/10k` and `/1m`.
        apache: Apache(WebRaw),
        /// nginx; serves `/100b`, `/10k` and `/1m`.
        nginx: Nginx(WebRaw),
        /// The embedded SIP registrar and proxy.
        sip: Sip(SipServiceRaw),
        /// Kamailio with its subscribers in MariaDB.
        kamailio: Kamailio(KamailioRaw),
        /// vtax's own far end of network tests.
        peer: Peer(PeerRaw),
        /// A service of your own.
        command: Command(CommandRaw),
    }

    /// What the load generator does.
    enum WorkloadRaw = "workload" {
        /// HTTP/1.1 GET requests.
        http: Http(HttpWorkloadRaw),
        /// SIP subscribers who register, call and write to each other.
        sip: Sip(SipWorkloadRaw),
        /// Bulk TCP: as many bytes as fit.
        tcp: Tcp(TcpRaw),
        /// UDP at a rate: loss, reordering, duplicates, jitter (RFC 3550).
        udp: Udp(UdpRaw),
        /// Echo at a rate, whatever comes back: round-trip times.
        ping: Ping(PingRaw),
        /// Request/response transactions over TCP.
        rr: Rr(RrRaw),
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
    }
}

/// When a service of the user's own is ready.
#[derive(Debug, Clone)]
pub(crate) enum ReadyRaw {
    Port,
    Log(Spanned<String>),
    Run(Argv),
}

impl Decode for ReadyRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let known = ["port", "log", "run"];
        let (index, options) = crate::decode::open_kind(node, "ready condition", &known, report)?;
        let options = options.as_ref();
        match index {
            0 => Some(Self::Port),
            1 => {
                String::decode(options, report).map(|value| Self::Log(Spanned { value, span: options.span }))
            }
            _ => Argv::decode(options, report).map(Self::Run),
        }
    }
}

impl JsonSchema for ReadyRaw {
    fn schema_name() -> Cow<'static, str> {
        "Ready".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let argv = generator.subschema_for::<Argv>();
        let keyed = |key: &str, value: serde_json::Value, about: &str| {
            serde_json::json!({ "type": "object", "properties": { key: value }, "required": [key],
                "additionalProperties": false, "description": about })
        };
        json_schema!({ "oneOf": [
            { "const": "port", "description": "The port accepts a TCP connection." },
            keyed("log", serde_json::json!({ "type": "string" }), "A line of its output contains this text."),
            keyed("run", argv.to_value(), "This command exits with 0."),
        ]})
    }
}

/// Arrival process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArrivalsRaw(pub(crate) model::Arrivals);

impl Decode for ArrivalsRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let text = scalar(node, "`poisson` or `constant`", report)?;
        match text {
            "poisson" => Some(Self(model::Arrivals::Poisson)),
            "constant" => Some(Self(model::Arrivals::Constant)),
            _ => {
                let word = Spanned { value: text.into(), span: node.span };
                unknown(&word, "arrival process", "processes", &["poisson", "constant"], report);
                None
            }
        }
    }
}

impl JsonSchema for ArrivalsRaw {
    fn schema_name() -> Cow<'static, str> {
        "Arrivals".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [
            { "const": "poisson", "description": "Exponential gaps, as independent clients make them." },
            { "const": "constant", "description": "Equal gaps." },
        ]})
    }
}

/// Declares a choice of words without options.
macro_rules! words {
    ($( $(#[doc = $doc:literal])* $name:ident($model:ty) = $title:literal, $plural:literal {
        $( $word:literal: $variant:ident, $about:literal; )*
    } )*) => { $(
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub(crate) struct $name(pub(crate) $model);

        impl Decode for $name {
            fn decode(node: &Node, report: &mut Report) -> Option<Self> {
                let known = [$($word),*];
                let choices = known.map(|word| format!("`{word}`")).join(" or ");
                match scalar(node, &choices, report)? {
                    $( $word => Some(Self(<$model>::$variant)), )*
                    text => {
                        let word = Spanned { value: text.into(), span: node.span };
                        unknown(&word, $title, $plural, &known, report);
                        None
                    }
                }
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).trim_end_matches("Raw").into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "oneOf": [$( { "const": $word, "description": $about } ),*] })
            }
        }
    )* };
}

// After the macro, which they use.
mod ft;
mod net;
mod path;
mod sip;

pub(crate) use ft::*;
pub(crate) use net::*;
pub(crate) use path::*;
pub(crate) use sip::*;

words! {
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

/// Offered load of a latency measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadRaw(pub(crate) model::Load);

/// What a load looks like, for messages and the schema.
const LOAD: &str = "a load such as `50% of capacity`, `50% of lowest capacity` or `1000/s`";

impl Decode for LoadRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let text = scalar(node, LOAD, report)?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let (share, of_lowest) = match words.as_slice() {
            [rate] if !rate.ends_with('%') => {
                let parsed = rate.parse().map(model::Load::Rate);
                if let Err(error) = &parsed {
                    let error: &vtax_units::UnitError = error;
                    report.error(node.span, format!("`{rate}` is not {LOAD}: {}", error.reason));
                }
                return parsed.ok().map(Self);
            }
            [share, "of", "capacity"] | [share, "of", "own", "capacity"] => (*share, false),
            [share, "of", "lowest"] | [share, "of", "lowest", "capacity"] => (*share, true),
            words => {
                let near = words.iter().find_map(|w| nearest(w, ["capacity", "lowest"]));
                let entry = report.error(node.span, format!("{} is not {LOAD}", node.describe()));
                match (words, near) {
                    ([share], _) => _ = entry.help(format!("{share} of what? write `{share} of capacity`")),
                    (_, Some(word)) => _ = entry.help(format!("did you mean `{word}`?")),
                    _ => {}
                }
                return None;
            }
        };
        match share.parse() {
            Ok(share) if of_lowest => Some(Self(model::Load::LowestCapacity(share))),
            Ok(share) => Some(Self(model::Load::OwnCapacity(share))),
            Err(error) => {
                report.error(node.span, vtax_units::UnitError::to_string(&error));
                None
            }
        }
    }
}

impl JsonSchema for LoadRaw {
    fn schema_name() -> Cow<'static, str> {
        "Load".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "number"],
            "description": LOAD,
            "examples": ["50% of capacity", "50% of lowest capacity", "1000/s"],
        })
    }
}
