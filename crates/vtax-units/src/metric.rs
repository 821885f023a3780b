//! Metrics that measures are named after: vtax-run judges by them how many rounds a comparison needs, and vtax-report reads them
//! first. Those that only a report knows have their names there.

/// How a metric is called. Stored summaries have its name, so no name ever changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// In files.
    pub name: &'static str,
    /// For people.
    pub label: &'static str,
}

const fn metric(name: &'static str, label: &'static str) -> Metric {
    Metric { name, label }
}

/// The rate up to which a service keeps its objective, in requests per second.
pub const CAPACITY: Metric = metric("capacity", "capacity");
/// Good answers to a closed loop, in requests per second.
pub const THROUGHPUT: Metric = metric("throughput", "throughput");
/// Of requests, from the intended start, in nanoseconds.
pub const LATENCY_P50: Metric = metric("latency_p50", "latency, median");
/// Of the IMS benchmark, in scenario attempts per second.
pub const DOC: Metric = metric("doc", "design objective capacity");
/// Of calls at a given rate, from INVITE to ringing, in nanoseconds (ETSI TS 186 008-1).
pub const SES1_P50: Metric = metric("ses1_p50", "session setup (SES1), median");
/// Of messages at a given rate, in nanoseconds.
pub const PMM1_P50: Metric = metric("pmm1_p50", "message (PMM1), median");
/// Of registrations at a given rate, in nanoseconds.
pub const REG2_P50: Metric = metric("reg2_p50", "second REGISTER (REG2), median");
/// Of TCP streams, both directions together, in bits per second.
pub const TCP_GOODPUT: Metric = metric("tcp_goodput", "TCP goodput");
/// Of datagrams, in bits per second. It is shown and not compared: what arrives depends on the rate that was offered.
pub const UDP_GOODPUT: Metric = metric("udp_goodput", "UDP goodput");
/// Of pings, in nanoseconds.
pub const RTT_P50: Metric = metric("rtt_p50", "round trip, median");
/// Requests and responses over one connection, per second.
pub const RR_RATE: Metric = metric("rr_rate", "transactions");
/// Of voice, from 1 to about 4.5 (ITU-T G.107).
pub const VOICE_MOS: Metric = metric("voice_mos", "voice, estimated MOS");
/// Of tests that go over all records once, in bytes per second.
pub const STORAGE_THROUGHPUT: Metric = metric("storage_throughput", "throughput until durable");
/// Of all other tests of storage, in operations per second.
pub const STORAGE_RATE: Metric = metric("storage_rate", "operations");

/// Those of them that runs are compared by while they go on: all but that of datagrams.
pub const NAMED_AFTER: [Metric; 13] = [
    CAPACITY,
    THROUGHPUT,
    LATENCY_P50,
    DOC,
    SES1_P50,
    PMM1_P50,
    REG2_P50,
    TCP_GOODPUT,
    RTT_P50,
    RR_RATE,
    VOICE_MOS,
    STORAGE_THROUGHPUT,
    STORAGE_RATE,
];

/// What people call the metric of this name; the name itself where it is none of these.
#[must_use]
pub fn label_of(name: &str) -> &str {
    NAMED_AFTER.iter().find(|metric| metric.name == name).map_or(name, |metric| metric.label)
}
