//! What a comparison of two runs is, and why there is none.

use serde::{Deserialize, Serialize};
use vtax_store::StoreError;
use vtax_store::summary::{Comparison, MetricSummary};
use vtax_units::Share;

use crate::text::printable;

/// Version of the comparison as JSON.
pub(crate) const COMPARISON_VERSION: u32 = 1;

/// What is compared and what it is held to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// The highest tax of B over A that passes: 0.1 lets B cost up to 1.1 times as much.
    pub max_tax: Option<Share>,
    /// A comparison that can't tell fails the gate, too, as does one of which some of several runs have no figure, or of which B lost
    /// many trials to what became of the service in them, and a larger share than A.
    pub strict: bool,
    /// Names of metrics; empty: those of a report's first table; `all`: every compared one.
    pub metrics: Vec<String>,
    /// Refuse runs of different machines instead of warning.
    pub same_machine: bool,
}

/// Name that stands for every compared metric in [`Options::metrics`].
pub(crate) const ALL_METRICS: &str = "all";

/// Two runs side by side, or several of each side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunComparison {
    /// Format version.
    pub version: u32,
    /// Name of the plan.
    pub plan: String,
    /// The baseline.
    pub a: Side,
    /// The candidate. It has several runs where A has.
    pub b: Side,
    /// The outcome in one sentence.
    pub headline: String,
    /// What makes the figures doubtful: another machine, an incomplete run.
    pub warnings: Vec<String>,
    /// What differs and may explain a difference: versions of programs.
    pub changes: Vec<String>,
    /// One per cell, measure and metric that both runs were to measure.
    pub rows: Vec<Row>,
    /// What the gate can't tell as neither run has a figure, each with the reason: metrics that were asked for by name, and what no trial
    /// counts of in an environment or at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// What only one of the two plans has.
    pub only: Vec<OnlyIn>,
    /// What the rows were held to; `None` without a limit.
    pub gate: Option<Gate>,
}

/// Where a side's figures come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// The run directory as given, the first of several.
    pub path: String,
    /// The other run directories of the side, where it has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<String>,
    /// Start of the first, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Version of vtax, with its commit where known.
    pub vtax: String,
    /// CPU model, number of CPUs and kernel of the machine.
    pub machine: String,
    /// Whether no trial is missing.
    pub complete: bool,
    /// Trials that count, of all its runs.
    pub valid_trials: usize,
    /// All trials.
    pub trials: usize,
}

impl Side {
    /// Its runs.
    pub(super) fn runs(&self) -> usize {
        1 + self.more.len()
    }
}

impl RunComparison {
    /// Whether intervals are made of runs, not of trials.
    pub(super) fn is_of_runs(&self) -> bool {
        self.a.runs() > 1
    }

    /// How many runs A and B have.
    pub(super) fn counts(&self) -> [usize; 2] {
        [self.a.runs(), self.b.runs()]
    }
}

/// One metric of one cell and measure in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What tells its group of cells from others; empty where there is one only.
    pub group: String,
    /// Name of the environment, with the accelerator for a VM.
    pub environment: String,
    /// Name of the metric for people.
    pub label: String,
    /// Figures in A; `None` where no valid trial has it.
    pub a: Option<MetricSummary>,
    /// Figures in B.
    pub b: Option<MetricSummary>,
    /// False where the two were measured under different conditions; `reason` says which.
    pub comparable: bool,
    /// B against A; `cell` and `baseline` are the same id, once in B and once in A.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// What the gate says; `None` without a limit.
    pub gate: Option<GateVerdict>,
}

impl Row {
    /// Sides of which some runs have a figure and others have none: which side, how many have one, and how many there are. `counts` are
    /// the runs of A and of B; a side with a single run has figures of its trials.
    pub(super) fn incomplete(&self, counts: [usize; 2]) -> Vec<(&'static str, usize, usize)> {
        let sides = [("A", self.a.as_ref(), counts[0]), ("B", self.b.as_ref(), counts[1])];
        let found = sides.into_iter().filter_map(|(side, figures, count)| {
            let with = figures?.n as usize;
            (count > 1 && with < count).then_some((side, with, count))
        });
        found.collect()
    }
}

/// What the gate says of one comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateVerdict {
    /// The whole interval of the tax is within the limit.
    Pass,
    /// The whole interval is beyond the limit.
    Fail,
    /// The interval holds the limit, or there is none; with strictness also where some of several runs have no figure, or many trials
    /// of B don't count for what became of the service in them, and a larger share than of A's.
    CantTell,
}

/// The gate as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// The highest tax that passes, as a share: `"10%"` lets B cost up to 1.1 times as much.
    pub max_tax: Share,
    /// Whether what can't be told fails.
    pub strict: bool,
    /// Comparisons within the limit.
    pub passed: usize,
    /// Comparisons beyond it.
    pub failed: usize,
    /// Comparisons that can't tell.
    pub cant_tell: usize,
    /// What it comes to.
    pub pass: bool,
}

/// Something that only one of the two plans has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnlyIn {
    /// `A` or `B`.
    pub run: String,
    /// Cell id; `None` for a measure.
    pub cell: Option<String>,
    /// Measure name; `None` for a cell.
    pub measure: Option<String>,
}

/// Why two runs aren't compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// They can't be.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A metric of [`Options::metrics`] doesn't exist.
    #[error(
        "there is no metric `{name}` to compare; {near}docs/words.md lists them, as does `vtax explain`, and `{ALL_METRICS}` is every one"
    )]
    UnknownMetric {
        /// As given.
        name: String,
        /// A question that names those that are like it; empty where none is.
        near: String,
    },
    /// A run can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl CompareError {
    /// True where the input is at fault, not the host.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Refused(_) | Self::UnknownMetric { .. } => true,
            Self::Store(e) => e.is_bad_input(),
        }
    }
}

/// Every reason why runs can't be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// All of them, in no order of weight.
    pub reasons: Vec<Reason>,
}

impl std::error::Error for Refusal {}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "these runs can't be compared:")?;
        for reason in &self.reasons {
            write!(f, "\n  - {}", printable(&reason.text))?;
        }
        let mut said = Vec::new();
        for cause in self.reasons.iter().map(|r| r.cause) {
            if !said.contains(&cause) {
                said.push(cause);
                write!(f, "\n  to compare them: {}", cause.remedy())?;
            }
        }
        Ok(())
    }
}

/// One reason why two runs can't be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// What kind of reason.
    pub cause: Cause,
    /// Exactly what differs.
    pub text: String,
}

/// Kinds of reasons why two runs can't be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// What was built or measured differs.
    Plan,
    /// One is an open loop, the other a closed one.
    Loop,
    /// A guest ran under another accelerator.
    Accelerator,
    /// The runs were stored in different formats.
    Format,
    /// The machines differ, and that was not to be accepted.
    Machine,
    /// A side has too few runs, where the other has several.
    Sessions,
    /// Nothing was measured in both.
    Nothing,
}

impl Cause {
    /// What would make the runs comparable.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Plan => {
                "run the same plan with the same --set for both; what is to differ goes outside the plan"
            }
            Self::Loop => "measure both in an open loop, or both in a closed one",
            Self::Accelerator => {
                "repeat one of them on a host that offers VMs the same accelerator (`vtax doctor`)"
            }
            Self::Format => "repeat the older run with the newer vtax",
            Self::Machine => "repeat both on one machine, or leave --same-machine out and take the warning",
            Self::Sessions => {
                "make at least three runs of each side, each a session of its own, or compare one run with one"
            }
            Self::Nothing => {
                "`vtax report` shows what each run measured; repeat the one that lacks it, or name other metrics"
            }
        }
    }
}
