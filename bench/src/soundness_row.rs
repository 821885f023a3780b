//! One figure of the soundness suites, and what it must be.

use serde::Serialize;

/// One promise of `target/soundness.json`.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// What was found, in `unit`.
    pub(crate) found: f64,
    pub(crate) unit: &'static str,
    pub(crate) goal: String,
    pub(crate) ok: bool,
}

impl Row {
    /// A figure that must lie between two others, both included.
    pub(crate) fn within(name: String, found: f64, unit: &'static str, (low, high): (f64, f64)) -> Self {
        let goal = match (low.is_finite(), high.is_finite()) {
            (true, true) => format!("{low} to {high}"),
            (false, _) => format!("at most {high}"),
            _ => format!("at least {low}"),
        };
        Self { name, found, unit, goal, ok: (low..=high).contains(&found) }
    }

    /// A share of `experiments`, in percent, that must lie between two others. Where the truth is at a bound, half of
    /// all simulations fall beyond it: a row misses its goal where it is off by more than two of its own standard errors.
    pub(crate) fn share(name: String, found: f64, experiments: u64, (low, high): (f64, f64)) -> Self {
        let of = found.clamp(0.0, 100.0) / 100.0;
        let error = 100.0 * (of * (1.0 - of) / experiments as f64).sqrt();
        let row = Self::within(name, found, "%", (low, high));
        Self { ok: (low - 2.0 * error..=high + 2.0 * error).contains(&found), ..row }
    }

    /// A figure that must not be above `most`.
    pub(crate) fn at_most(name: &str, found: f64, unit: &'static str, most: f64) -> Self {
        Self::within(name.to_owned(), found, unit, (f64::NEG_INFINITY, most))
    }

    /// A figure that must not be below `least`.
    pub(crate) fn at_least(name: &str, found: f64, unit: &'static str, least: f64) -> Self {
        Self::within(name.to_owned(), found, unit, (least, f64::INFINITY))
    }
}
