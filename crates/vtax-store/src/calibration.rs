//! `calibration.json`: what this testbed tells apart, found out by measuring a baseline against itself.
//!
//! `vtax calibrate` writes it into the cache; a run takes a matching one along, so that its report reads
//! nothing but the run directory.

use serde::{Deserialize, Serialize};

/// Version of `calibration.json`.
pub const CALIBRATION_VERSION: u32 = 1;

/// `calibration.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Format version, [`CALIBRATION_VERSION`].
    pub version: u32,
    /// What has to be equal for the calibration to mean anything elsewhere, as one word: host identity,
    /// baselines, measures, budget. Equal words match.
    pub key: String,
    /// What has to be equal, in words for people, one fact each.
    pub conditions: Vec<String>,
    /// When it was made, milliseconds since 1970.
    pub made_unix_ms: u64,
    /// Version of vtax that made it.
    pub vtax_version: String,
    /// Name of the plan it was made from.
    pub plan: String,
    /// Run directory of the measurement, as it was given; it may be gone.
    pub run: String,
    /// One for each baseline, measure and metric that was compared with itself.
    pub effects: Vec<CalibratedEffect>,
}

/// What a baseline against itself came to in one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibratedEffect {
    /// Cell id of the baseline in the plan.
    pub cell: String,
    /// Measure name.
    pub measure: String,
    /// Metric name.
    pub metric: String,
    /// Valid trials of each side, the smaller number.
    pub trials: u32,
    /// What one side seemed to cost in units of the other, above 1 or below; the truth is 1. `None`
    /// where no ratio could be made.
    pub tax: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// The smallest true tax (above 1) that a comparison of as many trials tells from 1 in four runs of
    /// five: at least what scatter allows, and at least what these equals were apart. `None` where
    /// there were too few trials to tell.
    pub detectable: Option<f64>,
    /// True where the two equals were told apart, which should happen once in twenty times at most.
    pub told_apart: bool,
}

impl Calibration {
    /// What was found for this baseline, measure and metric.
    #[must_use]
    pub fn effect(&self, baseline: &str, measure: &str, metric: &str) -> Option<&CalibratedEffect> {
        self.effects.iter().find(|e| e.cell == baseline && e.measure == measure && e.metric == metric)
    }
}
