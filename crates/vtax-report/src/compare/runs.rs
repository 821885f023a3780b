//! The runs of a side. Several of them are sessions, each of which is one draw of what differs from one to the next, as after
//! another build or a reboot: an interval that is made of runs has that in it, one that is made of the trials of a run has not.

use vtax_stats::Group;
use vtax_store::record::Validity;
use vtax_store::summary::MetricSummary;
use vtax_units::metric::DOC;

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

    pub(super) fn all(self) -> impl Iterator<Item = &'a Report> + Clone {
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

    /// What taxes of a metric are made of: what it came to in each trial of a run, or in each of several runs.
    pub(super) fn values(self, cell: &str, measure: &str, info: &Info) -> Vec<Value> {
        if self.more.is_empty() {
            return self.data().metric(cell, measure, info.name);
        }
        self.all().filter_map(|run| for_tax(run, cell, measure, info)).collect()
    }

    /// The figures of a metric as a report has them: of trials, or of what a report says of each of several runs.
    pub(super) fn figures(self, cell: &str, measure: &str, info: &Info) -> Option<MetricSummary> {
        if self.more.is_empty() {
            return figures_of(self.first, cell, measure, info);
        }
        let found = self.all().filter_map(|run| of_run(run, cell, measure, info)).collect();
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

/// What one of several runs found of a metric, as its report has it, with the widest of its trials' resolutions.
fn of_run(run: &Report, cell: &str, measure: &str, info: &Info) -> Option<Value> {
    let found = figures_of(run, cell, measure, info)?;
    let trials = run.context.data.metric(cell, measure, info.name);
    let resolution = trials.iter().map(|value| value.resolution).fold(0.0, f64::max);
    Some(Value { metric: info.name, value: found.center, resolution, censored: found.at_least })
}

/// The same as taxes are made of it. Of a capacity that is told by the lower ends of brackets they take the middles, trial by trial: the
/// widest bracket may be that of another trial than the one with the median.
fn for_tax(run: &Report, cell: &str, measure: &str, info: &Info) -> Option<Value> {
    let found = of_run(run, cell, measure, info)?;
    if info.name != DOC.name {
        return Some(found);
    }
    let trials = run.context.data.metric(cell, measure, info.name);
    let middles: Vec<f64> = trials.iter().map(Value::for_tax).collect();
    let middle = vtax_stats::estimate(&Group::exact(&middles))?.center;
    // Its lower end, of which `Value::for_tax` makes that middle again.
    Some(Value { value: middle / (found.resolution / 2.0).exp(), ..found })
}

fn figures_of(run: &Report, cell: &str, measure: &str, info: &Info) -> Option<MetricSummary> {
    let mut cells = run.context.summary.cells.iter();
    let found = cells.find(|c| c.cell == cell && c.measure == measure)?;
    found.metrics.get(info.name).cloned()
}
