//! Journal entries and trial records.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
pub use vtax_probe::layers::{CpuBreakdown, Layer, LayerTime};
use vtax_sys::clock::unix_ms;
use vtax_topology::hops::Hops;
use vtax_units::Nanos;

pub use crate::capacity::{CapacityOutcome, CapacityStep};
use crate::failover::ProtectionRecord;
pub use crate::generators::{GeneratorRecord, spread};
pub use crate::observation::{Finding, Observation};
pub use crate::validity::{InvalidReason, SteadyState, Validity, WarmUp};

/// How a note about a cell begins that the run leaves out, its reason after it.
const LEFT_OUT: &str = "left out: ";

/// The text of a note about a cell that the run leaves out.
#[must_use]
pub fn left_out_note(reason: &str) -> String {
    format!("{LEFT_OUT}{reason}")
}

/// The reason in such a note's text; `None` for the text of any other.
#[must_use]
pub fn left_out_reason(note: &str) -> Option<&str> {
    note.strip_prefix(LEFT_OUT)
}

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
        /// Name of a measure, where the note foretells what the run will be able to tell of it. When the run is complete, its
        /// figures say that better.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forecast_of: Option<String>,
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

    /// The cell that the run leaves out, and why, where that is what this entry says.
    #[must_use]
    pub fn left_out(&self) -> Option<(&str, &str)> {
        let Self::Note { cell: Some(cell), text, .. } = self else { return None };
        Some((cell.as_str(), left_out_reason(text)?))
    }
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
    /// What protection did and cost; `None` where the (first) system under test is no virtual machine that is compared
    /// with protected ones.
    #[serde(default)]
    pub protection: Option<Box<ProtectionRecord>>,
    /// What protection did and cost in each further system that is such a virtual machine, by name (`sut-2`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub further_protection: BTreeMap<String, ProtectionRecord>,
    /// Where packets spent their time on the way through the path's routers, where the plan asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<Box<Hops>>,
    /// What each generator did, where the load came from hosts of their own, in the plan's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<GeneratorRecord>,
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

    /// When it was over, in milliseconds since 1970.
    #[must_use]
    pub fn ended_unix_ms(&self) -> u64 {
        self.started_unix_ms.saturating_add(self.timings.total().0 / 1_000_000)
    }

    /// What protection did and cost each system that has some, by name.
    pub fn protections(&self) -> impl Iterator<Item = (&str, &ProtectionRecord)> {
        let first = self.protection.iter().map(|first| ("sut", &**first));
        first.chain(self.further_protection.iter().map(|(name, of)| (name.as_str(), of)))
    }

    /// The observation of a measure that observes one thing: where there are several systems, of all together.
    #[must_use]
    pub fn whole(&self) -> Option<&Observation> {
        self.observations.iter().find(|o| o.name.is_empty() && o.member.is_none())
    }

    /// The observations of each of several systems, in the order of the testbed; none where there is but one.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Observation)> {
        self.observations.iter().filter_map(|o| Some((o.member.as_deref()?, o)))
    }

    /// What a measure that observes one thing found.
    #[must_use]
    pub fn finding(&self) -> Option<&Finding> {
        self.whole()?.result.as_ref()
    }

    /// As [`finding`](Self::finding).
    pub fn finding_mut(&mut self) -> Option<&mut Finding> {
        self.observations.iter_mut().find(|o| o.name.is_empty() && o.member.is_none())?.result.as_mut()
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

impl Timings {
    /// All parts together.
    #[must_use]
    pub fn total(&self) -> Nanos {
        let parts = [self.testbed, self.service, self.measure, self.teardown];
        Nanos(parts.iter().fold(0, |all: u64, part| all.saturating_add(part.0)))
    }
}
