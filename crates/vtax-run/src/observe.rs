//! What a run tells its observers.

use std::time::Duration;

use vtax_store::LiveComparison;
use vtax_store::record::{CapacityStep, TrialRecord};
use vtax_units::Rate;

/// Something happened. Times are wall-clock.
#[derive(Debug, Clone)]
pub enum RunEvent<'a> {
    /// The run is about to start or go on.
    Started {
        /// Trials already in the journal.
        finished: u32,
        /// Trials at least still to make.
        owed: u32,
        /// Estimate of the time they take.
        remaining: Duration,
    },
    /// A trial begins.
    TrialStarted {
        /// Index of the trial in the run.
        index: u32,
        /// Cell id.
        cell: &'a str,
        /// Measure name.
        measure: &'a str,
        /// Attempt at this cell and measure, from 0.
        repetition: u32,
        /// Trials at least still to make, this one included.
        owed: u32,
        /// Estimate of the time they take.
        remaining: Duration,
    },
    /// A trial's next part begins.
    Phase {
        /// What is being done.
        what: &'a str,
    },
    /// A step of a capacity search ended.
    Step {
        /// The step.
        step: &'a CapacityStep,
    },
    /// How many requests per second succeed at the moment; about once a second.
    Rate {
        /// Successful answers per second.
        rate: Rate,
    },
    /// A phase of a benchmark ended.
    PhaseEnded {
        /// What succeeded per second.
        rate: Rate,
        /// What it came to, in short.
        text: &'a str,
    },
    /// A trial ended and is in the journal.
    TrialEnded {
        /// The trial.
        record: &'a TrialRecord,
    },
    /// How far the comparisons are, after a trial.
    Comparisons {
        /// One for each comparison that has figures of both sides.
        comparisons: &'a [LiveComparison],
    },
    /// Something the user must know; it is in the journal too.
    Note {
        /// What they must know.
        text: &'a str,
    },
}

/// Watches a run.
pub trait Observer: Send + Sync {
    /// Called in order, between the run's own steps: must be quick.
    fn observe(&self, event: &RunEvent<'_>);
}

/// Watches nothing: for a caller who only wants what comes of a run.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Observer for Silent {
    fn observe(&self, _: &RunEvent<'_>) {}
}
