//! The runs of a side. Several of them are sessions, each of which is one draw of what differs from one to the next, as after
//! another build or a reboot: an interval that is made of runs has that in it, one that is made of the trials of a run has not.

use vtax_store::record::Validity;
use vtax_store::summary::MetricSummary;

use super::{Side, path};
use crate::Report;
use crate::data::{OneSide, RunData};
use crate::metric::{Info, Value};
use crate::summarise;

/// The runs of one side, of which there is at least one.
#[derive(Clone, Copy)]
pub struct Runs<'a> {
    first: &'a Report,
    more: &'a [Report],
}

impl<'a> Runs<'a> {
    /// A side of one run.
    #[must_use]
    pub const fn one(run: &'a Report) -> Self {
        Self { first: run, more: &[] }
    }

    /// A side of these runs; `None` without any.
    #[must_use]
    pub fn new(runs: &'a [Report]) -> Option<Self> {
        runs.split_first().map(|(first, more)| Self { first, more })
    }

    pub(super) fn all(self) -> impl Iterator<Item = &'a Report> {
        std::iter::once(self.first).chain(self.more)
    }

    /// At least one.
    pub(super) const fn count(self) -> usize {
        1 + self.more.len()
    }

    /// The first run, which stands for the others where all of them have to be the same.
    pub(super) const fn first(self) -> &'a Report {
        self.first
    }

    /// The first run's.
    pub(super) const fn data(self) -> &'a RunData {
        &self.first.context.data
    }

    /// What a metric came to: in each trial of a run, or in each of several runs.
    pub(super) fn values(self, cell: &str, measure: &str, info: &Info) -> Vec<Value> {
        let of_trials = |run: &Report| run.context.data.metric(cell, measure, info.name);
        if self.more.is_empty() {
            return of_trials(self.first);
        }
        let of_run = |run| {
            let found: MetricSummary = figures_of(run, cell, measure, info)?;
            let resolution = of_trials(run).iter().map(|value| value.resolution).fold(0.0, f64::max);
            Some(Value { metric: info.name, value: found.center, resolution, censored: found.at_least })
        };
        self.all().filter_map(of_run).collect()
    }

    /// The figures of a metric as a report has them, made of the same values.
    pub(super) fn figures(self, cell: &str, measure: &str, info: &Info) -> Option<MetricSummary> {
        if self.more.is_empty() {
            return figures_of(self.first, cell, measure, info);
        }
        let found = self.values(cell, measure, info);
        summarise::figures(info, OneSide { found, ..OneSide::default() })
    }

    /// Where they come from.
    pub(super) fn side(self) -> Side {
        let facts = &self.data().provenance;
        let host = &facts.host;
        let commit = facts.vtax_commit.as_ref().map(|c| format!(" ({c})")).unwrap_or_default();
        let trials = || self.all().flat_map(|run| &run.context.data.trials);
        Side {
            path: path(self.first),
            more: self.more.iter().map(path).collect(),
            started_unix_ms: facts.started_unix_ms,
            vtax: format!("{}{commit}", facts.vtax_version),
            machine: format!("{}, {} CPUs, Linux {}", host.cpu_model, host.cpus, host.kernel),
            complete: self.all().all(|run| run.context.data.complete),
            valid_trials: trials().filter(|t| t.validity == Validity::Valid).count(),
            trials: trials().count(),
        }
    }
}

fn figures_of(run: &Report, cell: &str, measure: &str, info: &Info) -> Option<MetricSummary> {
    let mut cells = run.context.summary.cells.iter();
    let found = cells.find(|c| c.cell == cell && c.measure == measure)?;
    found.metrics.get(info.name).cloned()
}
