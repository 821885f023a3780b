//! What one trial is asked to do.

use vtax_agent::AgentError;
use vtax_plan::model::{Cell, Measure};
use vtax_units::{Rate, Share};

/// What an [`Executor`](crate::Executor) is asked to do for one trial.
#[derive(Debug)]
pub struct TrialRequest<'a> {
    /// What is built and run.
    pub cell: &'a Cell,
    /// What is measured.
    pub measure: &'a Measure,
    /// Attempt at this cell and measure, from 0.
    pub repetition: u32,
    /// Round it belongs to, from 0.
    pub round: u32,
    /// Seed of everything random in the trial.
    pub seed: u64,
    /// Seed of what is drawn for a whole round, the same for all of its trials.
    pub round_seed: u64,
    /// Offered load, where the measure holds one.
    pub offered: Option<Rate>,
    /// What earlier trials say the capacity is about.
    pub capacity_hint: Option<Rate>,
    /// A change of level within a trial that is smaller doesn't matter: the plan's margin.
    pub tolerance: Share,
}

impl TrialRequest<'_> {
    /// The offered load of a measure that holds one.
    pub(crate) fn rate(&self) -> Result<Rate, AgentError> {
        self.offered.ok_or_else(|| AgentError::Refused {
            node: "client".to_owned(),
            error: format!("`{}` was ordered without a load", self.measure.name),
        })
    }
}
