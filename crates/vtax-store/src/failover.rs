//! What faults did to a service, and what protection costs.
//!
//! All times are from the start of the recorded load of the trial, warm-up over, unless they are lengths.
//! The course of an HTTP trial is in `samples.parquet`, of which a failover trial keeps every request that ended; that of
//! a SIP trial in the moments of `phases.jsonl`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vtax_load::storage::StorageResult;
use vtax_load::{LatencyHistogram, LoadResult};
use vtax_plan::model::{Fault, TopologyFault};
use vtax_topology::convergence::Convergence;
use vtax_topology::timeline::Entry;
use vtax_units::{Nanos, Rate};

use crate::ims::ImsOutcome;

/// What a trial with faults found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailoverOutcome {
    /// Offered load.
    pub offered: Rate,
    /// Start of the recorded load, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// Length of the recorded load.
    pub duration: Nanos,
    /// An answer that took longer than this counts as delayed.
    pub delayed_beyond: Nanos,
    /// What the generator recorded.
    pub load: FailoverLoad,
    /// What was done, in the order of the plan, mending included.
    pub faults: Vec<FaultRecord>,
    /// What failed without being asked to, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unplanned: Vec<Unplanned>,
    /// When a guest that is to be protected wasn't.
    pub unprotected: Vec<Spell>,
    /// When nobody ran the system under test: from what ended it until clients were answered again.
    pub down: Vec<Spell>,
    /// What probes between the edges of the path's routers found, where it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Box<TopologyOutcome>>,
}

/// How a topology's data plane took what was done to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyOutcome {
    /// Time between two probes each way.
    pub interval: Nanos,
    /// How late a probe was sent at most.
    pub late: Nanos,
    /// What became of probes from the start of the recorded load to the first event, each way as in [`TopologyEvent`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<[Convergence; 2]>,
    /// What was done, in order of time.
    pub events: Vec<TopologyEvent>,
    /// What routers said and did, in order of time from the start of the recorded load; what was before is at 0.
    pub timeline: Vec<Entry>,
    /// Why there is none of this, where probes could not be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// One thing that was done to a topology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyEvent {
    /// What was done.
    pub fault: TopologyFault,
    /// When, from the start of the recorded load.
    pub at: Nanos,
    /// What became of probes from the client's edge to the service's, until the next event.
    pub up: Convergence,
    /// What became of probes from the service's edge to the client's, until the next event.
    pub down: Convergence,
}

/// A failure that the plan did not ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unplanned {
    /// When it happened.
    pub at: Nanos,
    /// The host.
    pub host: Option<String>,
    /// What, in words: `QEMU on host-a ended by itself`.
    pub what: String,
    /// Whether it hit the guest, and not its copy.
    pub guest: bool,
    /// From the confirmed end of the old side until the guest ran again, where it did.
    pub dead: Option<(Nanos, Nanos)>,
    /// The first successful answer after it.
    pub first_answer: Option<Nanos>,
    /// Why nobody runs the guest any more, where that is what came of it.
    pub lost: Option<String>,
    /// When the guest was protected again.
    pub armed: Option<Nanos>,
}

/// What the generator recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "kebab-case")]
pub enum FailoverLoad {
    /// HTTP requests.
    Requests(Box<LoadResult>),
    /// SIP scenarios.
    Scenarios(Box<ImsOutcome>),
    /// Reads and writes of storage, and what was read back of them.
    Storage(Box<StorageResult>),
}

/// A stretch of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spell {
    /// Begin.
    pub from: Nanos,
    /// End; `None`: it lasted to the end of the trial.
    pub to: Option<Nanos>,
    /// What led to it, in words.
    pub reason: String,
}

/// One fault and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultRecord {
    /// What was asked for.
    pub fault: Fault,
    /// When it happened; `None`: it could not be done.
    pub injected: Option<Nanos>,
    /// The host it happened to, where it was one of a pair's.
    pub host: Option<String>,
    /// Whether the guest was protected at that moment in fact: its copy, and the link to it, were whole.
    pub protected: bool,
    /// Why this one tells nothing about the mode, such as a guest that wasn't protected; of what mends, what of it could not
    /// be done. `None`: it counts.
    pub discounted: Option<String>,
    /// When the failure was noticed.
    pub detected: Option<Nanos>,
    /// When the end of the old side was confirmed.
    pub fenced: Option<Nanos>,
    /// When the guest ran again.
    pub recovered: Option<Recovered>,
    /// Why nobody runs the guest any more, where that is what came of it.
    pub lost: Option<String>,
    /// When the guest was protected again.
    pub armed: Option<Nanos>,
    /// What clients saw; `None` for what mends, and for faults that hit nothing.
    pub seen: Option<Seen>,
    /// How long it took until a RAID was whole again once this had replaced a disk; `None`: it was not before the load was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<Nanos>,
}

/// How the guest came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovered {
    /// When it ran.
    pub at: Nanos,
    /// In which way.
    pub how: Recovery,
    /// How old its state was: what happened in that time before the fault is forgotten. Zero where nothing
    /// is that anybody was told of; `None` where all of it is.
    pub age: Option<Nanos>,
    /// How long a planned move stopped it.
    pub stopped: Option<Nanos>,
}

/// The ways back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// The copy on another host went live.
    Promoted,
    /// It was booted again.
    Restarted,
    /// A snapshot went on.
    Restored,
    /// It moved while it ran.
    HandedOver,
}

/// What clients saw of a fault. Attempts are requests, or SIP's scenarios.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The last successful answer before nobody ran the guest. Where that time isn't known (a killed secondary,
    /// a broken link, an environment without hosts): before the longest silence that began within a second
    /// of the fault, where that clearly differs from those before, else before the fault.
    pub last_before: Option<Nanos>,
    /// The first successful answer after that, to whichever request, sent before the fault or after it; `None` where
    /// the next fault, or the end of the trial, came first.
    pub first_answer: Option<Nanos>,
    /// Whether there was an outage: nobody ran the guest, or a silence clearly differed from those before. Where there was none, the
    /// first answer only says how often somebody asked. `None`: it was not noted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<bool>,
    /// End of the time that `attempts` and what follows count: back to normal, or the next fault.
    pub until: Nanos,
    /// Attempts under way at some moment from the fault until then. What lived through two faults is counted with the
    /// first in whose outage it was meant to start.
    pub attempts: u64,
    /// Of those, failed: never answered in time, refused, cut off.
    pub failed: u64,
    /// Of those, answered but later than [`FailoverOutcome::delayed_beyond`].
    pub delayed: u64,
    /// Messages the generator sent again in that time (SIP over UDP; TCP's are the kernel's).
    pub retransmissions: u64,
    /// Connections; `None` over UDP, and where those lost in two faults can't be told apart.
    pub connections: Option<Connections>,
    /// What counts as normal; `None` where too little came before the fault to say.
    pub normal: Option<Normal>,
    /// When latency was back to normal: from then on, for a second, at most a tenth of attempts left the
    /// band, and none failed.
    pub normal_again: Option<Nanos>,
    /// The longest time between two answers that began after the first of them and before the guest was protected
    /// again: the end of the copy of its memory stops it once more. `None` where it wasn't protected again.
    #[serde(default)]
    pub silence_arming: Option<Nanos>,
}

/// The latency before a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Normal {
    /// Start of the time it was taken from, which ends at the fault.
    pub from: Nanos,
    /// Answers in that time.
    pub answers: u64,
    /// Their 95th percentile: the upper edge of the band.
    pub p95: Nanos,
}

/// Connections around a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// In use when it happened.
    pub open: u64,
    /// Of those, still there when everything sent before the first answer had ended.
    pub kept: u64,
    /// Of those, reset, closed by the other side, or given up because an answer didn't come; all where none ever came.
    pub lost: u64,
}

/// What protection did and cost while a trial was measured, whatever it measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProtectionRecord {
    /// The technique's word: `kemari`.
    pub mode: String,
    /// Time over which all of this was counted: the measurement.
    pub time: Nanos,
    /// From the decision to protect to the first committed checkpoint, each time.
    pub armed_in: Vec<Nanos>,
    /// Checkpoints by armed time. The first may have begun before the measurement.
    pub checkpoints: Vec<CheckpointRecord>,
    /// How long the guest stood still for each checkpoint, all armed times together.
    pub pauses: LatencyHistogram,
    /// Bytes over the link for checkpoints.
    pub link_bytes: u64,
    /// CPU time of supervisor, relay and heartbeats.
    pub supervision_cpu: Nanos,
    /// CPU time of each host's QEMUs, by host; those that have ended are part of it.
    pub host_cpu: BTreeMap<String, Nanos>,
    /// What each host was held to, in words.
    pub limits: BTreeMap<String, String>,
    /// What could not be done, such as protecting the guest; each with its reason.
    pub problems: Vec<String>,
}

/// Checkpoints of one armed time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    /// How many.
    pub count: u64,
    /// From the first to the last.
    pub time: Nanos,
    /// How many a second.
    pub per_second: f64,
    /// Share of the time in which the guest stood still, 0 to 1.
    pub stopped_share: f64,
    /// Bytes over the link for each, mean.
    pub bytes_mean: f64,
    /// Dirty pages of 4 KiB in each, mean, at most.
    pub pages_mean_at_most: f64,
}
