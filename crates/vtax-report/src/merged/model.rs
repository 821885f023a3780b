//! What several hosts found together, and why they aren't taken together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vtax_load::LatencyHistogram;
use vtax_store::StoreError;
use vtax_store::summary::Verdict;

use crate::compare::Cause;
use crate::text::printable;

/// Version of `merged.json`.
pub(crate) const MERGED_VERSION: u32 = 1;

/// The same plan on several hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Merged {
    /// Format version.
    pub version: u32,
    /// Name of the plan.
    pub plan: String,
    /// The outcome in one sentence.
    pub headline: String,
    /// What makes the figures doubtful: too few hosts, a run that isn't complete, a cell without figures.
    pub warnings: Vec<String>,
    /// Each host, in the order of its first run.
    pub hosts: Vec<MergedHost>,
    /// What isn't the same on all hosts and may be why they differ.
    pub differences: Vec<HostDifference>,
    /// One per candidate, measure and metric.
    pub rows: Vec<MergedRow>,
    /// Latency of all hosts together, one per cell and measure.
    pub latency: Vec<MergedLatency>,
    /// The zone around 1 that counts as equal, as a share.
    pub margin: f64,
}

/// One host with its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MergedHost {
    /// Stable name of the machine; of a run that has none the directory of that.
    pub name: String,
    /// CPU model, number of CPUs and kernel.
    pub machine: String,
    /// Its runs.
    pub runs: Vec<MergedRun>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MergedRun {
    /// The run directory as given.
    pub path: String,
    /// Identity of the run; empty in old runs.
    pub run_id: String,
    /// Start, milliseconds since 1970 by the host's own clock.
    pub started_unix_ms: u64,
    /// Whether no trial is missing.
    pub complete: bool,
    /// Trials that count.
    pub valid_trials: usize,
    /// All trials.
    pub trials: usize,
}

/// Something that isn't the same on all hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostDifference {
    /// What it is.
    pub what: String,
    /// What is found, with the hosts where it is.
    pub found: BTreeMap<String, Vec<String>>,
}

/// A candidate against its baseline in one metric, over all hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MergedRow {
    /// What tells its group of cells from others; empty where there is one only.
    pub group: String,
    /// Name of the environment, with the accelerator for a VM.
    pub environment: String,
    /// Name of the metric for people.
    pub label: String,
    /// Candidate's cell id.
    pub cell: String,
    /// Baseline's cell id.
    pub baseline: String,
    /// Measure name.
    pub measure: String,
    /// Metric name.
    pub metric: String,
    /// Unit of the values on hosts.
    pub unit: String,
    /// Each host that made rounds with both sides.
    pub hosts: Vec<TaxOnHost>,
    /// The overall tax: the geometric mean over hosts; `None` where only a bound is known.
    pub tax: Option<f64>,
    /// 95 % interval of the mean tax of all hosts like these; `None` with fewer than three, or fewer than six that agree to the digit.
    pub interval: Option<(f64, f64)>,
    /// The tax is at least this: of a baseline's capacity, or a candidate's latency, only a lower bound is known.
    pub at_least: Option<f64>,
    /// The tax is at most this: of a candidate's capacity, or a baseline's latency, only a lower bound is known.
    pub at_most: Option<f64>,
    /// The interval that the verdict was read off, widened as several comparisons are read together; of a bound only that end.
    pub corrected: Option<(f64, f64)>,
    /// The smallest tax that as many hosts like these would tell from 1 in 4 of 5 cases.
    pub detectable: Option<f64>,
    /// What it comes to.
    pub verdict: Verdict,
    /// Why, in words for people.
    pub reason: String,
    /// How far hosts' own taxes typically lie from the mean, as a factor of 1 or more, what rounds explain taken off; `None`
    /// where only a bound is known, as of `another` and `same`.
    pub spread: Option<f64>,
    /// Where the tax of one more host like these would be found 95 times of 100.
    pub another: Option<(f64, f64)>,
    /// How often rounds alone would let hosts come out at least as different.
    pub same: Option<f64>,
    /// Hosts whose tax differs from that of the others by more than rounds explain; none where only a bound is known.
    pub odd: Vec<String>,
}

/// The tax on one host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaxOnHost {
    /// Name of the host.
    pub host: String,
    /// The tax from its own rounds; `None` where only a bound is known there.
    pub tax: Option<f64>,
    /// Its 95 % interval from its own rounds, as its own report has it; of several runs over the rounds of all. `None` with
    /// fewer than three, or where only a bound is known.
    pub interval: Option<(f64, f64)>,
    /// The tax there is at least this, as in the row; `None` with fewer than three rounds.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// The tax there is at most this, likewise.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// Rounds with both sides.
    pub rounds: usize,
    /// Median of the baseline's values there.
    pub baseline: f64,
    /// True where that is only a lower bound.
    #[serde(default)]
    pub baseline_at_least: bool,
    /// Median of the candidate's.
    pub candidate: f64,
    /// True where that is only a lower bound.
    #[serde(default)]
    pub candidate_at_least: bool,
}

/// Latency of one cell and measure over all hosts: every answer of every host counts the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MergedLatency {
    /// Cell id.
    pub cell: String,
    /// Name of the environment.
    pub environment: String,
    /// Measure name.
    pub measure: String,
    /// How many hosts it is of.
    pub hosts: usize,
    /// How many answers.
    pub answers: u64,
    /// Percentile to nanoseconds: of all answers together, the lowest host's own and the highest host's own.
    pub percentiles: BTreeMap<String, (f64, f64, f64)>,
    /// All answers, for other tools.
    pub histogram: LatencyHistogram,
}

/// Which metrics are merged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MergeOptions {
    /// Names of metrics; empty: those of a report's first table; `all`: every compared one.
    pub metrics: Vec<String>,
}

/// Why runs aren't taken together.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// There is only one.
    #[error("to merge takes at least two runs")]
    Alone,
    /// They can't be.
    #[error(transparent)]
    Refused(#[from] MergeRefusal),
    /// A metric of [`MergeOptions::metrics`] doesn't exist.
    #[error(transparent)]
    Metric(#[from] crate::compare::CompareError),
    /// A run can't be read, or a file not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl MergeError {
    /// True where the input is at fault, not the host.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Alone | Self::Refused(_) => true,
            Self::Metric(e) => e.is_bad_input(),
            Self::Store(e) => e.is_bad_input(),
        }
    }
}

/// Every reason why runs can't be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeRefusal {
    /// Each reason; the cause is known where two runs couldn't be compared for it either.
    pub reasons: Vec<(Option<Cause>, String)>,
}

impl std::error::Error for MergeRefusal {}

impl std::fmt::Display for MergeRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "these runs can't be merged:")?;
        for (_, reason) in &self.reasons {
            write!(f, "\n  - {}", printable(reason))?;
        }
        let mut said = Vec::new();
        for cause in self.reasons.iter().filter_map(|(cause, _)| *cause) {
            if !said.contains(&cause) {
                said.push(cause);
                write!(f, "\n  to merge them: {}", cause.remedy())?;
            }
        }
        Ok(())
    }
}
