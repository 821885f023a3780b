//! What is computed from a trial.

use vtax_load::LatencyHistogram;
use vtax_load::network::{NetResult, TcpFlow};
use vtax_plan::model::{Scenario, SipMetric};
use vtax_store::ims::{ImsOutcome, ImsPhaseKind};
use vtax_store::net::NetObservation;
use vtax_store::record::{CapacityOutcome, Layer, Outcome, TrialRecord, Validity};
use vtax_store::summary::Better;

/// Pseudo-measure that collects what every trial tells, whichever measure it was for.
pub(crate) const LIFECYCLE: &str = "lifecycle";

/// What a metric is, apart from its values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Info {
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) label: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    /// Whether a ratio to the baseline means something.
    pub(crate) compared: bool,
    /// Whether it belongs to the first table.
    pub(crate) primary: bool,
}

const fn info(name: &'static str, label: &'static str, unit: &'static str, rank: u8) -> Info {
    Info { name, label, unit, better: Better::Lower, compared: rank > 0, primary: rank > 1 }
}

/// Every metric, in the order of tables.
pub(crate) const METRICS: [Info; 50] = [
    Info { better: Better::Higher, ..info("doc", "design objective capacity", "SAPS", 2) },
    info("ses1_p50", "session setup (SES1), median", "ns", 2),
    info("ses2_p50", "INVITE traversal (SES2), median", "ns", 1),
    info("ses3_p50", "re-INVITE (SES3), median", "ns", 1),
    info("rel1_p50", "call release (REL1), median", "ns", 1),
    info("pmm1_p50", "message (PMM1), median", "ns", 2),
    info("pmm2_p50", "message to nobody (PMM2), median", "ns", 1),
    info("reg1_p50", "first REGISTER (REG1), median", "ns", 1),
    info("reg2_p50", "second REGISTER (REG2), median", "ns", 2),
    info("reg4_p50", "re-registration (REG4), median", "ns", 1),
    info("ihs", "inadequately handled scenarios", "1", 0),
    Info { better: Better::Higher, ..info("capacity", "capacity", "req/s", 2) },
    Info { better: Better::Higher, ..info("throughput", "throughput", "req/s", 2) },
    Info { better: Better::Higher, ..info("tcp_goodput", "TCP goodput", "bit/s", 2) },
    info("rtt_p50", "round trip, median", "ns", 2),
    info("rtt_p99", "round trip, p99", "ns", 1),
    Info { better: Better::Higher, ..info("rr_rate", "transactions", "/s", 2) },
    info("udp_jitter", "UDP jitter", "ns", 1),
    info("udp_loss", "UDP loss", "1", 0),
    Info { better: Better::Higher, ..info("udp_goodput", "UDP goodput", "bit/s", 0) },
    info("cpu_per_byte", "CPU time per byte, SUT's side", "ns/B", 1),
    info("cpu_per_datagram", "CPU time per datagram, SUT's side", "ns", 1),
    info("latency_p50", "latency, median", "ns", 2),
    info("latency_p90", "latency, p90", "ns", 1),
    info("latency_p99", "latency, p99", "ns", 2),
    info("latency_p99.9", "latency, p99.9", "ns", 1),
    info("latency_mean", "latency, mean", "ns", 1),
    info("cpu_per_request", "CPU time per request", "ns/req", 2),
    info("cpu_per_request.service-user", "… service, user mode", "ns/req", 0),
    info("cpu_per_request.service-system", "… service, kernel", "ns/req", 0),
    info("cpu_per_request.service-interrupts", "… interrupts of its kernel", "ns/req", 0),
    info("cpu_per_request.guest-other", "… rest of the guest", "ns/req", 0),
    info("cpu_per_request.vcpu", "… vCPU beyond the guest", "ns/req", 0),
    info("cpu_per_request.hypervisor-io", "… hypervisor's I/O", "ns/req", 0),
    info("cpu_per_request.supervisor", "… runtime and agent", "ns/req", 0),
    info("cpu_per_request.host-interrupts", "… host interrupts", "ns/req", 0),
    Info { better: Better::Higher, ..info("offered", "offered load", "req/s", 0) },
    Info { better: Better::Higher, ..info("goodput", "goodput", "req/s", 0) },
    info("error_share", "failed or missed", "1", 0),
    info("lateness_p99", "generator's lateness, p99", "ns", 0),
    info("generator_busiest", "generator's busiest worker", "1", 0),
    info("startup", "service start to ready", "ns", 1),
    info("build", "environment built in", "ns", 1),
    info("latency_max", "latency, maximum", "ns", 0),
    Info { better: Better::Higher, ..info("survived", "faults survived", "1", 0) },
    info("detection", "fault to its detection", "ns", 0),
    info("takeover", "take-over", "ns", 0),
    info("first_answer", "fault to first answer", "ns", 0),
    info("requests_lost", "requests lost per fault", "", 0),
    info("requests_delayed", "requests delayed per fault", "", 0),
];

/// The metric of that name.
pub(crate) fn named(name: &str) -> Option<&'static Info> {
    METRICS.iter().find(|m| m.name == name)
}

/// Words for a layer.
pub(crate) fn layer_label(layer: Layer) -> &'static str {
    match layer {
        Layer::ServiceUser => "service, user mode",
        Layer::ServiceSystem => "service, kernel",
        Layer::ServiceInterrupts => "interrupts of its kernel",
        Layer::GuestOther => "rest of the guest",
        Layer::Vcpu => "vCPU beyond the guest (emulation, exits)",
        Layer::HypervisorIo => "hypervisor's I/O threads",
        Layer::Supervisor => "runtime and agent",
        Layer::HostInterrupts => "host interrupts",
    }
}

/// Every layer, innermost first.
pub(crate) const LAYERS: [(Layer, &str); 8] = [
    (Layer::ServiceUser, "cpu_per_request.service-user"),
    (Layer::ServiceSystem, "cpu_per_request.service-system"),
    (Layer::ServiceInterrupts, "cpu_per_request.service-interrupts"),
    (Layer::GuestOther, "cpu_per_request.guest-other"),
    (Layer::Vcpu, "cpu_per_request.vcpu"),
    (Layer::HypervisorIo, "cpu_per_request.hypervisor-io"),
    (Layer::Supervisor, "cpu_per_request.supervisor"),
    (Layer::HostInterrupts, "cpu_per_request.host-interrupts"),
];

/// One figure of one trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Value {
    pub(crate) metric: &'static str,
    pub(crate) value: f64,
    /// Relative width within which it could lie ([`vtax_stats::Group::resolution`]).
    pub(crate) resolution: f64,
    /// Only a lower bound.
    pub(crate) censored: bool,
}

/// HDR histograms of three significant digits tell values apart down to this.
const HISTOGRAM_RESOLUTION: f64 = 0.001;

/// The figures of a valid trial under its own measure; none where it doesn't count.
pub(crate) fn of_trial(record: &TrialRecord) -> Vec<Value> {
    let mut values = Vec::new();
    if record.validity != Validity::Valid {
        return values;
    }
    let mut put = |metric, value: f64, resolution| {
        if value.is_finite() {
            values.push(Value { metric, value, resolution, censored: false });
        }
    };
    // Nor does a request's share of a time in which nobody answered.
    let undisturbed = crate::ft::failover(record).is_none();
    if let Some(cpu) = record.cpu.as_ref().filter(|c| c.requests > 0 && undisturbed) {
        let per_request = |ns: u64| ns as f64 / cpu.requests as f64;
        put("cpu_per_request", per_request(cpu.layers.iter().map(|l| l.time.0).sum()), 0.0);
        for (layer, metric) in LAYERS {
            let times = || cpu.layers.iter().filter(|l| l.layer == layer);
            if times().count() > 0 {
                put(metric, per_request(times().map(|l| l.time.0).sum()), 0.0);
            }
        }
    }
    match &record.outcome {
        Some(Outcome::Capacity(c)) => values.extend(capacity(c)),
        Some(Outcome::Latency { load, offered }) => {
            put("offered", offered.0, 0.0);
            of_load(load, "goodput", put);
        }
        Some(Outcome::Throughput { load }) => of_load(load, "throughput", put),
        Some(Outcome::Ims(ims)) => values.extend(doc(ims).into_iter().chain(of_mix(ims))),
        Some(Outcome::Failover(_)) => values.extend(crate::ft::of_trial(record)),
        // Each of its tests is a measure of its own: [`of_observation`].
        Some(Outcome::Net(_)) | None => {}
    }
    values
}

/// The figures of one network test of a valid trial; none where it doesn't count.
pub(crate) fn of_observation(observation: &NetObservation) -> Vec<Value> {
    let mut values = Vec::new();
    if observation.validity != Validity::Valid {
        return values;
    }
    let mut put = |metric, value: f64, resolution| {
        if value.is_finite() {
            values.push(Value { metric, value, resolution, censored: false });
        }
    };
    let spent = observation
        .cpu
        .as_ref()
        .filter(|c| c.requests > 0)
        .map(|c| c.layers.iter().map(|l| l.time.0).sum::<u64>() as f64 / c.requests as f64);
    match &observation.result {
        Some(NetResult::Tcp(tcp)) => {
            let flows = [&tcp.up, &tcp.down].into_iter().flatten();
            put("tcp_goodput", flows.map(TcpFlow::goodput).sum(), 0.0);
            spent.into_iter().for_each(|ns| put("cpu_per_byte", ns, 0.0));
        }
        Some(NetResult::Udp(udp)) => {
            put("udp_jitter", udp.receiver.jitter_mean.0 as f64, 0.0);
            put("udp_loss", udp.loss(), 0.0);
            put("udp_goodput", udp.goodput(), 0.0);
            spent.into_iter().for_each(|ns| put("cpu_per_datagram", ns, 0.0));
        }
        Some(NetResult::Rr(rr)) => {
            put("rr_rate", rr.transactions as f64 / rr.time.as_secs_f64(), 0.0);
            of_round_trips(&rr.latency, put);
        }
        Some(NetResult::Ping(ping)) => of_round_trips(&ping.rtt, put),
        None => {}
    }
    values
}

fn of_round_trips(histogram: &LatencyHistogram, mut put: impl FnMut(&'static str, f64, f64)) {
    for (metric, q) in [("rtt_p50", 0.5), ("rtt_p99", 0.99)] {
        // As for every percentile: at least ten values beyond it.
        if histogram.len() as f64 * (1.0 - q) >= 10.0 {
            put(metric, histogram.quantile(q).0 as f64, HISTOGRAM_RESOLUTION);
        }
    }
}

fn of_load(load: &vtax_load::LoadResult, rate: &'static str, mut put: impl FnMut(&'static str, f64, f64)) {
    let seconds = load.duration.as_secs_f64();
    put(rate, load.counts.ok as f64 / seconds, 0.0);
    // In a closed loop nothing is intended beforehand.
    let asked = load.counts.intended.max(load.counts.sent);
    put("error_share", asked.saturating_sub(load.counts.ok) as f64 / asked as f64, 0.0);
    put("generator_busiest", load.generator.busiest, 0.0);
    if !load.lateness.0.is_empty() {
        put("lateness_p99", load.lateness.0.value_at_quantile(0.99) as f64, HISTOGRAM_RESOLUTION);
    }
    let h = &load.latency.0;
    if h.is_empty() {
        return;
    }
    for (metric, q) in
        [("latency_p50", 0.5), ("latency_p90", 0.9), ("latency_p99", 0.99), ("latency_p99.9", 0.999)]
    {
        // A percentile with fewer than ten requests beyond it is a lottery ticket.
        if h.len() as f64 * (1.0 - q) >= 10.0 {
            put(metric, h.value_at_quantile(q) as f64, HISTOGRAM_RESOLUTION);
        }
    }
    put("latency_mean", h.mean(), HISTOGRAM_RESOLUTION);
    put("latency_max", h.max() as f64, HISTOGRAM_RESOLUTION);
}

/// The geometric middle of the bracket: the error is then the same factor either way, which is
/// what a ratio needs. The bracket's width becomes the value's resolution.
fn capacity(c: &CapacityOutcome) -> Option<Value> {
    let lower = c.lower.0;
    if !(lower.is_finite() && lower > 0.0) {
        return None;
    }
    let metric = "capacity";
    Some(match c.upper.map(|u| u.0).filter(|u| u.is_finite() && *u >= lower) {
        Some(upper) => {
            Value { metric, value: (lower * upper).sqrt(), resolution: (upper / lower).ln(), censored: false }
        }
        None => Value { metric, value: lower, resolution: 0.0, censored: true },
    })
}

/// The effective load of the last step within the limits; the next step's request bounds it from above.
fn doc(ims: &ImsOutcome) -> Option<Value> {
    let doc = ims.doc?;
    let value = doc.effective.0;
    if !(value.is_finite() && value > 0.0) {
        return None;
    }
    let width = ims.failed.map_or(0.0, |failed| (failed.0 / doc.requested.0).max(1.0).ln());
    let resolution = if width.is_finite() { width } else { 0.0 };
    Some(Value { metric: "doc", value, resolution, censored: ims.failed.is_none() })
}

/// Each SIP metric in the scenario that is its usual one.
const SIP_METRICS: [(SipMetric, Scenario, &str); 9] = [
    (SipMetric::Ses1, Scenario::Calling, "ses1_p50"),
    (SipMetric::Ses2, Scenario::Calling, "ses2_p50"),
    (SipMetric::Ses3, Scenario::ReInvite, "ses3_p50"),
    (SipMetric::Rel1, Scenario::Calling, "rel1_p50"),
    (SipMetric::Pmm1, Scenario::Messaging, "pmm1_p50"),
    (SipMetric::Pmm2, Scenario::MessageUnregistered, "pmm2_p50"),
    (SipMetric::Reg1, Scenario::Registration, "reg1_p50"),
    (SipMetric::Reg2, Scenario::Registration, "reg2_p50"),
    (SipMetric::Reg4, Scenario::ReRegistration, "reg4_p50"),
];

/// A mix at a given rate. At the capacity each environment carries another load, where medians
/// compare nothing: the benchmark's own tables have them.
fn of_mix(ims: &ImsOutcome) -> Vec<Value> {
    let Some(phase) = ims.decisive().filter(|p| p.kind == ImsPhaseKind::Fixed) else { return Vec::new() };
    let value = |metric, value, resolution| Value { metric, value, resolution, censored: false };
    let medians = SIP_METRICS.iter().filter_map(|(metric, scenario, name)| {
        let of = phase.metrics.iter().find(|m| m.metric == *metric && m.scenario == *scenario)?;
        // As for every percentile: at least ten values beyond it.
        let median = of.percentiles_ns.get("50").filter(|_| of.count >= 20)?;
        Some(value(*name, *median as f64, HISTOGRAM_RESOLUTION))
    });
    medians.chain([value("ihs", phase.ihs, 0.0)]).collect()
}

/// What a valid trial tells whichever measure it was for.
pub(crate) fn of_lifecycle(record: &TrialRecord) -> Vec<Value> {
    if record.validity != Validity::Valid {
        return Vec::new();
    }
    let value = |metric, ns: u64| Value { metric, value: ns as f64, resolution: 0.0, censored: false };
    [value("startup", record.timings.service.0), value("build", record.timings.testbed.0)]
        .into_iter()
        .filter(|v| v.value > 0.0)
        .collect()
}
