//! What one burst of load found.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

/// What one burst of load found, all workers merged; warm-up excluded everywhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// Length of the recorded time.
    pub duration: Nanos,
    /// Requests and outcomes over the recorded time.
    pub counts: Counts,
    /// Latency from the intended start (open loop) or from the send (closed loop), successful requests.
    pub latency: LatencyHistogram,
    /// Actual send minus intended start (open loop only): how late the generator itself was.
    pub lateness: LatencyHistogram,
    /// The same over time.
    pub intervals: Vec<Interval>,
    /// What the generator itself used.
    pub generator: GeneratorUse,
    /// Every recorded request, where asked for.
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

/// Requests and outcomes. `intended = sent + missed`, `sent = ok + errors + unfinished`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Starts the arrival process asked for.
    pub intended: u64,
    /// Requests sent.
    pub sent: u64,
    /// Starts that found no free connection until their timeout had passed.
    pub missed: u64,
    /// Answers with a 2xx or 3xx status.
    pub ok: u64,
    /// Failed requests by class.
    pub errors: Errors,
    /// Sent but neither answered nor timed out when the load ended.
    pub unfinished: u64,
    /// Answers by first digit of the status: index 0 is 1xx.
    pub status: [u64; 5],
    /// Connections opened.
    pub connects: u64,
    /// Bytes received, protocol headers included.
    pub bytes_received: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
}

/// Failures by class, as httperf names them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// No answer in time.
    pub client_timeout: u64,
    /// ECONNREFUSED.
    pub refused: u64,
    /// ECONNRESET, EPIPE, or the peer closed in the middle of an answer.
    pub reset: u64,
    /// EMFILE, ENFILE.
    pub no_descriptors: u64,
    /// EADDRNOTAVAIL: no free local port.
    pub no_addresses: u64,
    /// The answer was not valid in the protocol.
    pub protocol: u64,
    /// Answers with a 4xx or 5xx status.
    pub status: u64,
    /// Anything else.
    pub other: u64,
}

/// A mergeable latency histogram in nanoseconds with 3 significant digits.
///
/// Serialises as the base64 text of HdrHistogram's V2 compressed format, the same text a
/// `.hlog` file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyHistogram(pub hdrhistogram::Histogram<u64>);

/// One interval of the recorded time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Start, from the start of the recorded time.
    pub start: Nanos,
    /// Counts of requests whose outcome fell into it.
    pub counts: Counts,
    /// Latency of those that succeeded.
    pub latency: LatencyHistogram,
}

/// What the generator itself used, over the recorded time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorUse {
    /// Workers.
    pub workers: u32,
    /// CPU time in user mode, all workers.
    pub cpu_user: Nanos,
    /// CPU time in the kernel, all workers.
    pub cpu_system: Nanos,
    /// The busiest worker's share of its CPU, 0 to 1.
    pub busiest: f64,
    /// Why the generator could not carry the load, where it could not.
    pub limited: Option<String>,
}

/// One recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Intended start, from the start of the recorded time, in nanoseconds.
    pub start_ns: u64,
    /// Latency in nanoseconds, saturated at about 4.29 s... `u32::MAX` means 4.29 s or more.
    pub latency_ns: u32,
    /// 0 for success, else the class of failure in the order of [`Errors`], from 1.
    pub outcome: u8,
}

impl Serialize for LatencyHistogram {
    fn serialize<S: serde::Serializer>(&self, _s: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("not yet"))
    }
}

impl<'de> Deserialize<'de> for LatencyHistogram {
    fn deserialize<D: serde::Deserializer<'de>>(_d: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("not yet"))
    }
}
