//! Journal entries and trial records.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
pub use vtax_probe::layers::{CpuBreakdown, Layer, LayerTime};
use vtax_sys::clock::unix_ms;
use vtax_units::{Nanos, Rate};

use crate::failover::ProtectionRecord;
pub use crate::observation::{Finding, Observation};

/// One line of `journal.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum JournalEntry {
    /// The first line: which format this is.
    Opened {
        /// Journal format version, [`JOURNAL_VERSION`](crate::JOURNAL_VERSION).
        version: u32,
        /// Minor version, [`JOURNAL_MINOR`](crate::JOURNAL_MINOR); 0 where there was none yet.
        #[serde(default)]
        minor: u32,
        /// Identity of the run: 32 hexadecimal digits. Empty in runs before journal version 3.
        #[serde(default)]
        run_id: String,
        /// Milliseconds since 1970.
        at_unix_ms: u64,
    },
    /// A trial is about to be built.
    TrialStarted {
        /// Index of the trial in this run, from 0; names its directory.
        index: u32,
        /// Cell id.
        cell: String,
        /// Measure name.
        measure: String,
        /// Repetition of this cell and measure, from 0.
        repetition: u32,
        /// Milliseconds since 1970.
        at_unix_ms: u64,
    },
    /// A trial ended, for better or worse; once this line is on disk the trial is never lost.
    TrialEnded(Box<TrialRecord>),
    /// Something the report must mention: a budget that could not be kept, an environment left out.
    Note {
        /// Milliseconds since 1970.
        at_unix_ms: u64,
        /// Cell id it concerns, if one.
        cell: Option<String>,
        /// What a reader must know.
        text: String,
    },
    /// A later `--resume` went on from here.
    Resumed {
        /// Milliseconds since 1970.
        at_unix_ms: u64,
    },
    /// Nothing is missing any more.
    Completed {
        /// Milliseconds since 1970.
        at_unix_ms: u64,
    },
}

impl JournalEntry {
    /// Every value of `event`: an entry with another one was written by a newer vtax.
    pub(crate) const EVENTS: [&str; 6] =
        ["opened", "trial-started", "trial-ended", "note", "resumed", "completed"];
}

/// One finished trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Index of the trial in this run, from 0; names its directory `trials/NNN`.
    pub index: u32,
    /// Identity of the run that it was made in. Empty in runs before journal version 3.
    #[serde(default)]
    pub run_id: String,
    /// Stable name of the machine that it was made on. Empty in runs before journal version 3.
    #[serde(default)]
    pub host: String,
    /// Cell id.
    pub cell: String,
    /// Measure name.
    pub measure: String,
    /// Repetition of this cell and measure, from 0.
    pub repetition: u32,
    /// Round of this measure it belongs to, from 0: a round holds each cell once, close in time, and a
    /// trial that is made again because one didn't count stays in its round. `None` in older runs.
    #[serde(default)]
    pub round: Option<u32>,
    /// The trial that was made at the same time, where trials are pairs.
    #[serde(default)]
    pub partner: Option<Partner>,
    /// Milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Whether it counts.
    pub validity: Validity,
    /// What it observed, in the order of time; empty where it never got to measuring. Most measures observe one
    /// thing. A suite has one observation for each of its tests, and for each member that it was made on.
    #[serde(default)]
    pub observations: Vec<Observation>,
    /// How long its parts took.
    pub timings: Timings,
    /// `tcg` or `kvm` for VM cells.
    pub accelerator: Option<String>,
    /// What protection did and cost; `None` where the system under test is no virtual machine that is compared
    /// with protected ones.
    #[serde(default)]
    pub protection: Option<Box<ProtectionRecord>>,
    /// Facts about this trial that a reader may want: address, CPU sets, limits really set.
    pub facts: BTreeMap<String, String>,
}

impl TrialRecord {
    /// The record of a trial that begins now, valid so far; `repetition` counts from 0.
    #[must_use]
    pub fn begin(cell: &str, measure: &str, repetition: u32) -> Self {
        Self {
            cell: cell.to_owned(),
            measure: measure.to_owned(),
            repetition,
            started_unix_ms: unix_ms(),
            ..Self::default()
        }
    }

    /// The observation of a measure that observes one thing.
    #[must_use]
    pub fn whole(&self) -> Option<&Observation> {
        self.observations.iter().find(|o| o.name.is_empty())
    }

    /// What a measure that observes one thing found.
    #[must_use]
    pub fn finding(&self) -> Option<&Finding> {
        self.whole()?.result.as_ref()
    }

    /// As [`finding`](Self::finding).
    pub fn finding_mut(&mut self) -> Option<&mut Finding> {
        self.observations.iter_mut().find(|o| o.name.is_empty())?.result.as_mut()
    }

    /// CPU time of the one thing that it observed.
    #[must_use]
    pub fn cpu(&self) -> Option<&CpuBreakdown> {
        self.whole()?.cpu.as_ref()
    }

    /// What became of the warm-up of the one thing that it observed.
    #[must_use]
    pub fn warm_up(&self) -> Option<&WarmUp> {
        self.whole()?.warm_up.as_ref()
    }

    /// Time that was cut from the start of the recorded time as warm-up.
    #[must_use]
    pub fn cut(&self) -> Nanos {
        self.warm_up().map_or(Nanos::ZERO, |w| w.cut)
    }
}

/// The other half of a pair of trials made at the same time (Bulej et al., "Duet benchmarking", ICPE 2020).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partner {
    /// Its index.
    pub index: u32,
    /// Its cell.
    pub cell: String,
}

/// What became of a trial's warm-up beyond the time that the plan gives it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// What was found.
    pub state: SteadyState,
    /// Time cut from the start of the recorded time; the finding's load is of what was kept, the
    /// trial's files hold everything.
    pub cut: Nanos,
    /// The series it was judged by: `median latency`, `requests answered`.
    pub series: String,
    /// Length of one value of the series.
    pub interval: Nanos,
    /// Values of the series, those cut included.
    pub values: u32,
    /// What was found, in words.
    pub detail: String,
}

/// Whether a trial became steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SteadyState {
    /// It did, after what was cut.
    Steady,
    /// It never did; the trial doesn't count.
    Never,
    /// Too short, or too few requests, to tell; everything recorded counts.
    NotJudged,
}

/// Whether a trial counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "validity", rename_all = "kebab-case")]
pub enum Validity {
    /// It counts.
    #[default]
    Valid,
    /// It doesn't, and why.
    Invalid {
        /// The kind of reason.
        reason: InvalidReason,
        /// The details, for people.
        detail: String,
    },
}

/// Why a trial doesn't count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InvalidReason {
    /// The generator could not carry the load.
    GeneratorLimited,
    /// Something that is not part of the testbed took the SUT's CPUs, or the host swapped.
    Disturbed,
    /// The testbed could not be built.
    TestbedFailed,
    /// The service did not start, died or never became ready.
    ServiceFailed,
    /// The measurement itself failed.
    MeasureFailed,
    /// No request succeeded.
    NothingSucceeded,
    /// It needed another measure's result that is missing.
    PrerequisiteMissing,
    /// It warmed up, drifted or changed until its end.
    NoSteadyState,
    /// The trial made at the same time doesn't count, and a pair counts as a whole.
    PartnerInvalid,
    /// What the ends of a network test counted and what a kernel or a capture counted differ by too much.
    CountsDisagree,
    /// The other end of a network test went away in the middle, or stopped answering.
    PeerLost,
    /// The path was cut and did not carry the test to its end.
    PathCut,
    /// Connections stand, but full-sized packets don't get through: an MTU on the path is smaller than
    /// its ends believe.
    MtuMismatch,
    /// A reason that this vtax doesn't know: a newer one wrote it.
    #[serde(other)]
    Unknown,
}

/// How long the parts of a trial took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timings {
    /// Nodes and links, until every agent answered.
    pub testbed: Nanos,
    /// From the service's start to its readiness.
    pub service: Nanos,
    /// The measurement.
    pub measure: Nanos,
    /// Tear-down.
    pub teardown: Nanos,
}

/// The bracket a capacity search ended with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityOutcome {
    /// Highest rate that passed; zero where none did.
    pub lower: Rate,
    /// Lowest rate that failed; `None` where none did (the search met its maximum or the generator's limit).
    pub upper: Option<Rate>,
    /// Every step, in order.
    pub steps: Vec<CapacityStep>,
}

/// One step of a capacity search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityStep {
    /// Offered rate.
    pub offered: Rate,
    /// Successful answers per second.
    pub goodput: Rate,
    /// Share of intended requests that failed or stayed unanswered.
    pub loss: f64,
    /// 99th percentile of latency from the intended start.
    pub p99: Nanos,
    /// Whether it kept to the limits.
    pub passed: bool,
    /// Why not, or why it doesn't count.
    pub reason: Option<String>,
}
