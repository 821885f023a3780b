//! Tests of storage, and loads of requests against other systems for as long as each of them takes: neighbours that disturb.
//!
//! The others' load begins a moment before each test and ends with it. It shares the client's CPUs with the test's.

use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

use crate::spread::{SpreadPart, SpreadSession, check_parts};
use crate::storage::{StorageResult, StorageSession, StorageSpec, StorageStep};
use crate::{Control, LoadError, Model, PartPace, RequestStep};

/// The others' load stands before a test begins.
const LEAD: Duration = Duration::from_millis(500);
/// Length of the intervals in what the others found, of which nobody looks at more than the sum.
const INTERVAL: Nanos = Nanos::from_secs(60);

/// A load of storage, and what disturbs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BesideSpec {
    /// What is measured.
    pub storage: StorageSpec,
    /// The loads of the other systems, none of which is a share of the steps.
    pub others: Vec<SpreadPart>,
}

impl BesideSpec {
    /// Checks that the others can be run beside the tests.
    ///
    /// # Errors
    /// [`LoadError::Spec`] naming what makes no sense.
    pub fn check(&self) -> Result<(), LoadError> {
        check_parts(&self.others)?;
        match self.others.iter().find(|other| matches!(other.pace, PartPace::Share(_))) {
            Some(other) => {
                let reason = format!("that of {} is a share of a test of storage", other.member);
                Err(LoadError::Spec { field: "parts", reason })
            }
            None => Ok(()),
        }
    }
}

/// Such loads that are open.
pub struct BesideSession {
    storage: StorageSession,
    others: SpreadSession,
}

/// Ends a load, whatever becomes of what holds this.
struct Ends<'c>(&'c Control);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl BesideSession {
    /// Opens the loads.
    ///
    /// # Errors
    /// The specification makes no sense, or a load can't be opened.
    pub fn open(spec: &BesideSpec) -> Result<Self, LoadError> {
        spec.check()?;
        // A mount may take long, and idle connections are closed.
        let storage = StorageSession::open(&spec.storage)?;
        Ok(Self { storage, others: SpreadSession::of(&spec.others)? })
    }

    /// Carries out a step, while the others are loaded.
    ///
    /// # Errors
    /// As [`StorageSession::run_step`], and where another's load can't be run.
    pub fn run_step(&mut self, step: &StorageStep, control: &Control) -> Result<StorageResult, LoadError> {
        let Self { storage, others } = self;
        // It is cancelled with the step.
        let longest = Nanos::from(step.longest() + LEAD);
        let held = RequestStep {
            model: Model::Closed,
            warmup: Nanos::ZERO,
            duration: longest,
            seed: step.seed,
            samples: false,
            interval: INTERVAL.min(longest),
            drain: Nanos::ZERO,
        };
        let disturbing = Control::new();
        let (found, beside) = thread::scope(|scope| {
            let thread = scope.spawn(|| others.run_parts(&held, &disturbing));
            thread::sleep(LEAD);
            let found = {
                let _ends = Ends(&disturbing);
                storage.run_step(step, control)
            };
            (found, thread.join())
        });
        let mut found = found?;
        let beside = beside.map_err(|payload| LoadError::panicked(0, &*payload))??;
        found.beside = beside.into_iter().map(|(member, _)| member).collect();
        Ok(found)
    }
}
