//! `summary.json`: the contract for scripts (docs/formats.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of `summary.json`.
pub const SUMMARY_VERSION: u32 = 1;

/// `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Format version, [`SUMMARY_VERSION`].
    pub version: u32,
    /// Name of the plan.
    pub plan: String,
    /// True once no trial is missing.
    pub complete: bool,
    /// The verdict in one sentence.
    pub headline: String,
    /// Per cell and measure.
    pub cells: Vec<CellSummary>,
    /// Candidates against baselines, one per cell, measure and metric.
    pub comparisons: Vec<Comparison>,
    /// Every trial with its validity.
    pub trials: Vec<TrialSummary>,
    /// What a reader must know: what was left out, degraded or emulated.
    pub notes: Vec<String>,
}

/// One cell and measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    /// Cell id.
    pub cell: String,
    /// Environment name.
    pub environment: String,
    /// `tcg` or `kvm` for VM cells.
    pub accelerator: Option<String>,
    /// Parameters that vary.
    pub parameters: BTreeMap<String, String>,
    /// Measure name.
    pub measure: String,
    /// Metric name to its figures.
    pub metrics: BTreeMap<String, MetricSummary>,
}

/// One metric over the valid trials of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricSummary {
    /// Unit, `req/s`, `ns`, `ns/req`, `1`.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// Valid trials.
    pub n: u32,
    /// The typical value: the median over trials.
    pub center: f64,
    /// Mean over trials.
    pub mean: f64,
    /// Standard deviation over trials (n - 1); `None` below two trials.
    pub sd: Option<f64>,
    /// Median over trials.
    pub median: f64,
    /// 95 % interval of `center`; `None` where there are too few trials for one.
    pub interval: Option<(f64, f64)>,
    /// True where `center` is only a lower bound: the system was never driven to its limit, or too much of it had no answer.
    #[serde(default)]
    pub at_least: bool,
    /// The value of each trial, in trial order.
    pub values: Vec<f64>,
    /// The number of the trial of each value; empty in older summaries.
    #[serde(default)]
    pub trials: Vec<u32>,
    /// Percentiles of the merged histogram, `"50"`, `"99.9"`; latency only.
    pub percentiles: BTreeMap<String, f64>,
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// A candidate against its baseline in one metric.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Candidate's cell id.
    pub cell: String,
    /// Baseline's cell id.
    pub baseline: String,
    /// Measure name.
    pub measure: String,
    /// Metric name.
    pub metric: String,
    /// The tax: cost ratio, above 1 where the candidate is worse whichever way the metric runs;
    /// `None` where only a bound is known or no ratio exists.
    pub tax: Option<f64>,
    /// 95 % interval of the tax.
    pub interval: Option<(f64, f64)>,
    /// The tax is at least this (97.5 % confidence): of the baseline's capacity, or the candidate's latency, only a lower bound
    /// is known.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// The tax is at most this (97.5 % confidence): of the candidate's capacity, or the baseline's latency, only a lower bound
    /// is known.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// The smallest tax that as many trials with this much scatter would show in 4 of 5 runs.
    #[serde(default)]
    pub detectable: Option<f64>,
    /// What it comes to.
    pub verdict: Verdict,
    /// Why, in words for people.
    pub reason: String,
    /// The kind of reason why it can't be told; `None` where it can.
    #[serde(default)]
    pub doubt: Option<Doubt>,
    /// Rounds that both sides were measured in, where the tax was taken within rounds; else `None`.
    #[serde(default)]
    pub rounds: Option<u32>,
    /// Comparisons that were judged together with this one, this one included; `None` in older runs.
    #[serde(default)]
    pub family: Option<u32>,
    /// True where the plan asks this first; the others of the first table are judged after it.
    #[serde(default)]
    pub asked_first: bool,
    /// What the other comparisons said about this one's scatter; `None` where nothing was borrowed, and in older runs.
    #[serde(default)]
    pub borrowed: Option<Borrowed>,
    /// How far apart two levels of this metric's trials are at most, as a ratio above 1, where so many sides show two that each may have
    /// missed one; the interval allows for it. `None` where they show one, and in older runs.
    #[serde(default)]
    pub levels: Option<f64>,
    /// The interval that the verdict was read off: `interval`, widened for the family. Where only a bound is known, of this too only
    /// that end.
    #[serde(default)]
    pub corrected: Option<(f64, f64)>,
    /// How often `corrected` misses the truth: 0.05 where the family is one comparison.
    #[serde(default)]
    pub level: Option<f64>,
    /// The smallest tax that this testbed was shown to tell from 1, from its calibration.
    #[serde(default)]
    pub minimum_detectable: Option<f64>,
    /// What was compared, seen and concluded, for people who know no statistics.
    #[serde(default)]
    pub explanation: String,
}

/// What comparisons of the same metric say about a scatter, as it was used for each of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Borrowed {
    /// Its weight beside a comparison's own rounds, in degrees of freedom; 0 where it only showed what is usual.
    pub weight: f64,
    /// Degrees of freedom that it adds.
    pub df: f64,
    /// The usual standard deviation between rounds of the logarithm of a ratio.
    pub sd: f64,
}

/// Kinds of reasons why a comparison can't be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// Too few valid trials for an interval.
    TooFew,
    /// The interval holds both equality and a difference that matters.
    TooWide,
    /// It would count alone, but not among the comparisons it is read with.
    ManyComparisons,
    /// Trials are missing because the generator could not carry the load.
    GeneratorLimited,
    /// Trials are missing because they never became steady.
    NoSteadyState,
    /// Trials are missing because a system could not answer what it was asked for.
    Overloaded,
    /// Trials are missing because they were disturbed.
    Disturbed,
    /// The order of trials explains their values: the machine changed on the way.
    Drifted,
    /// The testbed can't show an effect of this size, by its own calibration.
    BelowDetectable,
    /// Of a side only a lower bound is known: it was never driven to its limit, or too much of it had no answer.
    NotAtLimit,
    /// There is no ratio: a side has no figure, or one that is zero.
    NoRatio,
}

/// What a comparison comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The candidate costs less.
    Better,
    /// The candidate costs more.
    Worse,
    /// The difference is within the margin.
    Equivalent,
    /// The data can't tell.
    #[default]
    Inconclusive,
}

/// One trial in the summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialSummary {
    /// Index.
    pub index: u32,
    /// Cell id.
    pub cell: String,
    /// Measure name.
    pub measure: String,
    /// Repetition.
    pub repetition: u32,
    /// Whether it counts.
    pub valid: bool,
    /// Why not.
    pub reason: Option<String>,
}
