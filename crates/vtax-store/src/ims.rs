//! What an IMS benchmark found, and `phases.jsonl`: its course second by second.
//!
//! The journal holds one row per phase; histograms and seconds, which are large, are in the
//! trial's own file. Its first line is `{"version": 1}`, then one phase per line in order of time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use vtax_load::sip::{MetricResult, PhaseResult, Pools, ScenarioResult, SipConnections};
use vtax_plan::model::{Scenario, SipMetric};
use vtax_units::{Nanos, Rate};

use crate::StoreError;

/// Version of `phases.jsonl`.
pub const PHASES_VERSION: u32 = 1;

/// Longest line read: a day second by second, with the study's scenarios and metrics, stays below it.
const LINE_LIMIT: u64 = 64 << 20;
/// Most phases read of one trial.
const MOST_PHASES: usize = 100_000;

/// What an IMS benchmark found, or the same mix at a given rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImsOutcome {
    /// The design objective capacity; `None` where no step kept to the limits, and where the rate was given.
    pub doc: Option<Doc>,
    /// Lowest rate asked for that broke a limit; `None` where none did: the capacity is at least `doc`.
    pub failed: Option<Rate>,
    /// Every phase, in order of time.
    pub phases: Vec<ImsPhase>,
    /// Messages that belonged to nothing or could not be used, by kind.
    pub stray: BTreeMap<String, u64>,
    /// Subscribers by pool at the end.
    pub pools: Pools,
    /// Its connections; `None` over UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<SipConnections>,
    /// By node: nanoseconds to add to `at_ns` of `probes.parquet` to have the time since 1970.
    pub probe_clocks: BTreeMap<String, i64>,
}

impl ImsOutcome {
    /// The phase whose load is the capacity, or the measured one where the rate was given.
    #[must_use]
    pub fn decisive(&self) -> Option<&ImsPhase> {
        match self.doc {
            Some(doc) => self.phases.get(doc.phase as usize),
            None => self.phases.iter().rev().find(|p| p.kind == ImsPhaseKind::Fixed),
        }
    }

    /// The median of a metric over all attempts of a scenario, where the rate was given: at a capacity each environment carries a load of
    /// its own, and medians compare nothing. `None` with fewer than twenty values.
    #[must_use]
    pub fn median_at_given_rate(&self, metric: SipMetric, scenario: Scenario) -> Option<MedianOfAttempts> {
        let phase = self.decisive().filter(|phase| phase.kind == ImsPhaseKind::Fixed)?;
        let of = phase.metrics.iter().find(|of| of.metric == metric && of.scenario == scenario)?;
        let answered = answered(&phase.scenarios, scenario, of.count);
        let known = of.count >= LEAST_FOR_A_MEDIAN;
        let ns = of.median_of_attempts_ns.or_else(|| of.median_of_older(answered)).filter(|_| known)?;
        Some(MedianOfAttempts { ns, at_least: answered < MEDIAN })
    }
}

/// A median over all attempts of a scenario: what had no answer counts as slower than every answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MedianOfAttempts {
    /// In nanoseconds.
    pub ns: u64,
    /// More than half had no answer: it is this at least.
    pub at_least: bool,
}

/// As for every percentile: at least ten values beyond it.
const LEAST_FOR_A_MEDIAN: u64 = 20;
/// The median as a quantile.
const MEDIAN: f64 = 0.5;
/// How the cause of an attempt begins that was answered, and too late for a limit.
const OVER_LIMIT: &str = "over-limit ";

/// Share of a scenario's attempts that were answered, of a metric with so many values. An attempt that went through was answered also
/// without a value: a registration that isn't challenged has no REG1.
fn answered(scenarios: &[ScenarioResult], scenario: Scenario, values: u64) -> f64 {
    let Some(of) = scenarios.iter().find(|of| of.scenario == scenario && of.attempts > 0) else { return 1.0 };
    let late = of.inadequate.iter().filter(|(cause, _)| cause.starts_with(OVER_LIMIT));
    let late: f64 = late.map(|(_, times)| *times as f64).sum();
    let through = of.succeeded as f64 + late;
    ((values as f64).max(through) / of.attempts as f64).min(1.0)
}

/// A design objective capacity: the load of the last step within the limits (ETSI TS 186 008-1).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Doc {
    /// Scenario attempts per second asked for.
    pub requested: Rate,
    /// Attempts per second really made: the figure that counts.
    pub effective: Rate,
    /// Its phase, as an index of [`ImsOutcome::phases`].
    pub phase: u32,
}

/// What a phase was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImsPhaseKind {
    /// Registers the plan's share of subscribers.
    PreRegistration,
    /// Brings the load up to that of the first step.
    Stir,
    /// A step of the standard's staircase.
    Step,
    /// A step of a search.
    Search,
    /// Repeats the rate that a search found.
    Confirmation,
    /// A rate that the plan gives.
    Fixed,
}

/// One phase in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImsPhase {
    /// Its name: `pre-registration`, `step 3`.
    pub name: String,
    /// What it was for.
    pub kind: ImsPhaseKind,
    /// Scenario attempts per second asked for.
    pub requested: Rate,
    /// Attempts per second really made.
    pub effective: Rate,
    /// Start, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Its length, transient included.
    pub duration: Nanos,
    /// Time at its start that doesn't count.
    pub transient: Nanos,
    /// Share of its attempts that was inadequately handled, all scenarios together.
    pub ihs: f64,
    /// Whether it kept to its limits.
    pub passed: bool,
    /// Which limit it broke, where it broke one.
    pub reason: Option<String>,
    /// By scenario, in the order of [`Scenario::ALL`].
    pub scenarios: Vec<ScenarioResult>,
    /// By metric and scenario.
    pub metrics: Vec<ImsMetric>,
}

/// One metric in one scenario of one phase. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImsMetric {
    /// The metric.
    pub metric: SipMetric,
    /// In which scenario it was taken.
    pub scenario: Scenario,
    /// Values.
    pub count: u64,
    /// Exact mean.
    pub mean_ns: f64,
    /// Exact standard deviation of the sample.
    pub sd_ns: f64,
    /// Exact smallest value.
    pub min_ns: u64,
    /// Exact largest value.
    pub max_ns: u64,
    /// By percentile of what was answered: `"50"`, `"90"`, `"95"`, `"99"`, `"99.9"`.
    pub percentiles_ns: BTreeMap<String, u64>,
    /// Median over all attempts of the scenario, of which what had no answer counts as slower than every answer. Where that is more than
    /// half, the longest time that was waited for one. `None` in older journals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_of_attempts_ns: Option<u64>,
}

/// Percentiles kept in the journal.
const PERCENTILES: [(&str, f64); 5] = [("50", 0.5), ("90", 0.9), ("95", 0.95), ("99", 0.99), ("99.9", 0.999)];

impl From<&MetricResult> for ImsMetric {
    fn from(m: &MetricResult) -> Self {
        let h = &m.histogram.0;
        let percentiles = PERCENTILES.iter().filter(|_| !h.is_empty());
        Self {
            metric: m.metric,
            scenario: m.scenario,
            count: h.len(),
            mean_ns: m.mean_ns,
            sd_ns: m.variance_ns2.max(0.0).sqrt(),
            min_ns: m.min.0,
            max_ns: m.max.0,
            percentiles_ns: percentiles.map(|(name, q)| ((*name).to_owned(), value_at(m, *q))).collect(),
            median_of_attempts_ns: None,
        }
    }
}

/// A quantile of what was answered, in nanoseconds.
fn value_at(m: &MetricResult, quantile: f64) -> u64 {
    // A histogram knows values to three digits; what it rounds up must not pass the largest.
    m.histogram.0.value_at_quantile(quantile).clamp(m.min.0, m.max.0.max(m.min.0))
}

impl ImsMetric {
    /// Of a phase with these scenarios, in which an answer was `waited` for at least so long.
    #[must_use]
    pub fn of(found: &MetricResult, scenarios: &[ScenarioResult], waited: Nanos) -> Self {
        let metric = Self::from(found);
        let answered = answered(scenarios, found.scenario, metric.count);
        let median = match answered < MEDIAN {
            true => waited.0.max(metric.max_ns),
            false => value_at(found, MEDIAN / answered),
        };
        Self { median_of_attempts_ns: (metric.count > 0).then_some(median), ..metric }
    }

    /// The same as far as an older journal tells: between the percentiles on both sides of the median of all attempts, the largest
    /// value being the last of them.
    fn median_of_older(&self, answered: f64) -> Option<u64> {
        if answered < MEDIAN {
            return Some(self.max_ns);
        }
        let wanted = MEDIAN / answered;
        let known = PERCENTILES.iter().filter_map(|(name, q)| Some((*q, *self.percentiles_ns.get(*name)?)));
        let (mut below, mut above) = (None, (1.0, self.max_ns));
        for (q, ns) in known {
            if q > wanted {
                above = (q, ns);
                break;
            }
            below = Some((q, ns));
        }
        let (from, low) = below?;
        // No percentile is the largest value: the two are never the same.
        let part = (wanted - from) / (above.0 - from);
        Some(low + (above.1.saturating_sub(low) as f64 * part) as u64)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    version: u32,
}

/// Writes the head of `phases.jsonl`.
pub(crate) fn write_head(out: &mut impl Write, path: &Path) -> Result<(), StoreError> {
    write_line(out, &Head { version: PHASES_VERSION }, path)
}

/// Writes one phase.
pub(crate) fn write_phase(out: &mut impl Write, phase: &PhaseResult, path: &Path) -> Result<(), StoreError> {
    if let Err(reason) = check(phase) {
        return Err(StoreError::Unwritable { path: path.to_owned(), reason });
    }
    write_line(out, phase, path)
}

fn write_line(out: &mut impl Write, value: &impl Serialize, path: &Path) -> Result<(), StoreError> {
    serde_json::to_writer(&mut *out, value).map_err(|e| StoreError::io("write", path, e.into()))?;
    out.write_all(b"\n").map_err(|e| StoreError::io("write", path, e))
}

/// Streams the phases in order of time, one in memory at a time.
pub(crate) fn read_phases(
    file: File,
    path: &Path,
    mut each: impl FnMut(PhaseResult),
) -> Result<(), StoreError> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    for number in 0..=MOST_PHASES {
        line.clear();
        (&mut reader)
            .take(LINE_LIMIT)
            .read_until(b'\n', &mut line)
            .map_err(|e| StoreError::io("read", path, e))?;
        match line.last() {
            None if number == 0 => return Err(StoreError::damaged_trial(path, "it has no first line")),
            None => return Ok(()),
            Some(b'\n') => {}
            Some(_) => return Err(StoreError::damaged_trial(path, "its last line is cut off or too long")),
        }
        if number == 0 {
            let head: Head = serde_json::from_slice(&line).map_err(|e| StoreError::damaged_trial(path, e))?;
            if head.version > PHASES_VERSION {
                let (path, found) = (path.to_owned(), head.version);
                return Err(StoreError::Newer { path, found, known: PHASES_VERSION });
            }
            continue;
        }
        let phase: PhaseResult =
            serde_json::from_slice(&line).map_err(|e| StoreError::damaged_trial(path, e))?;
        check(&phase).map_err(|e| StoreError::damaged_trial(path, e))?;
        each(phase);
    }
    Err(StoreError::damaged_trial(path, format!("it has more than {MOST_PHASES} phases")))
}

/// Whether a phase's parts fit each other, so that no reader need look twice.
fn check(phase: &PhaseResult) -> Result<(), String> {
    let (scenarios, metrics) = (phase.scenarios.len(), phase.metrics.len());
    for (i, second) in phase.seconds.iter().enumerate() {
        let by_scenario = [&second.attempts, &second.inadequate, &second.retransmissions];
        if by_scenario.iter().any(|counts| counts.len() != scenarios) || second.metrics.len() != metrics {
            return Err(format!(
                "second {i} of phase {} has other scenarios or metrics than the phase",
                phase.name
            ));
        }
        if second.metrics.iter().any(|m| !(m.mean_us.is_finite() && m.max_us.is_finite())) {
            return Err(format!("second {i} of phase {} has a number that isn't finite", phase.name));
        }
    }
    let finite = |m: &MetricResult| m.mean_ns.is_finite() && m.variance_ns2.is_finite();
    if !(phase.metrics.iter().all(finite) && phase.requested.0.is_finite() && phase.effective.0.is_finite()) {
        return Err(format!("phase {} has a number that isn't finite", phase.name));
    }
    Ok(())
}
