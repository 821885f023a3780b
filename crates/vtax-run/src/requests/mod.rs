//! What all families of requests and answers do: capacity, latency, throughput, and a load while things break.
//!
//! A family says what its load is opened with; everything after that is the same.

mod capacity;
mod generator;
mod members;
mod step;
#[cfg(test)]
mod tests;
mod worth;

use vtax_agent::AgentError;
use vtax_load::{LoadResult, LoadSpec};
use vtax_plan::model::{Beside, Cell, FailoverMeasure, MeasureKind, Workload};
use vtax_store::failover::FailoverLoad;
use vtax_store::record::{Finding, Validity, WarmUp};
use vtax_units::{Nanos, Share};

use crate::barrier::Party;
use crate::failover::{self, Course, HeldLoad};
use crate::family;
use crate::instrument::{Ends, Instrument, Measured, Site, not_made};
use crate::trial_request::TrialRequest;
use crate::warm_up::{Series, cut_warm_up};
use capacity::Capacity;
use generator::{Generator, OnClient, OnHosts};
use members::with_members;
use step::{LoadStep, Pace};
use worth::{kept_up, undisturbed, validity_under_faults};

pub(crate) use capacity::percent_above;
pub(crate) use worth::validity;

/// Length of the intervals of a load while things break: a failover is over in three of them.
const FAILOVER_INTERVAL: Nanos = Nanos::from_millis(100);
/// Intervals that one result of it may have.
const MOST_INTERVALS: u64 = 5_000;

/// The instrument of a family of requests. `F` makes the load from the two ends and the trial's seed.
pub(crate) struct Requests<F> {
    load: F,
    /// How long requests under way are waited for at the end of a step, beyond what all steps wait.
    drain: Nanos,
    /// Whether there is a closed loop, from which a search learns where to begin.
    closed_loop: bool,
}

impl<F: Fn(&Ends<'_>, u64) -> LoadSpec> Requests<F> {
    /// Of the family with this load.
    pub(crate) fn new(load: F) -> Self {
        Self { load, drain: Nanos::ZERO, closed_loop: true }
    }

    /// A load of requests that are calls: they begin in an open loop alone, and are waited for.
    pub(crate) fn of_calls(self, drain: Nanos) -> Self {
        Self { drain, closed_loop: false, ..self }
    }
}

impl<F: Fn(&Ends<'_>, u64) -> LoadSpec> Instrument for Requests<F> {
    fn load(&self, ends: &Ends<'_>, request: &TrialRequest<'_>) -> LoadSpec {
        (self.load)(ends, request.seed)
    }

    fn measure(&mut self, site: &mut Site<'_>, request: &TrialRequest<'_>) -> Result<Measured, AgentError> {
        let (observer, started) = (site.observer, site.started_unix_ms);
        let drain = self.drain.max(drain_beside(request.cell));
        let mut on_client = OnClient { client: site.client, observer, drain };
        let mut on_hosts = site.team.map(|team| OnHosts { team, observer, drain });
        let generator: &mut dyn Generator = match &mut on_hosts {
            Some(on_hosts) => on_hosts,
            None => &mut on_client,
        };
        match &request.measure.kind {
            MeasureKind::Capacity(measure) => {
                let capacity = Capacity { measure, request, observer, closed_loop: self.closed_loop };
                let (found, validity, answered) = capacity.find(generator)?;
                Ok(Measured::whole(started, found, validity).with(None, answered))
            }
            MeasureKind::Latency(latency) => {
                let offered = request.rate()?;
                let step = LoadStep {
                    pace: Pace::Open(offered, latency.arrivals),
                    warmup: latency.warmup,
                    duration: latency.duration,
                    seed: request.seed,
                    samples: latency.samples,
                    drain: patience(request.cell),
                };
                let mut answer = generator.run(step.for_engine())?;
                let (validity, warm_up) =
                    judge(&mut answer.result, Series::Latency, request.tolerance, site.partner);
                let found = Finding::Latency { offered, load: answer.result };
                let whole = Measured::whole(started, found, validity).with(warm_up, answer.answered);
                Ok(with_members(whole, request.cell, answer.members, Some(offered)))
            }
            MeasureKind::Throughput(throughput) => {
                let step = LoadStep {
                    pace: Pace::Closed,
                    warmup: throughput.warmup,
                    duration: throughput.duration,
                    seed: request.seed,
                    samples: false,
                    drain: patience(request.cell),
                };
                let mut answer = generator.run(step.for_engine())?;
                let (validity, warm_up) =
                    judge(&mut answer.result, Series::Sent, request.tolerance, site.partner);
                let found = Finding::Throughput { load: answer.result };
                let whole = Measured::whole(started, found, validity).with(warm_up, answer.answered);
                Ok(with_members(whole, request.cell, answer.members, None))
            }
            MeasureKind::Failover(measure) => {
                failover::measure(site, request, measure, || held(generator, request, measure))
            }
            MeasureKind::Ims(_) | MeasureKind::Network(_) | MeasureKind::Storage(_) => {
                Err(not_made(request, "a workload of requests"))
            }
        }
    }
}

/// How long a request may take to any of a cell's systems: that long a load waits for those under way at its end.
fn patience(cell: &Cell) -> Nanos {
    let beside = cell.systems.beside.iter().map(|beside| &beside.workload);
    beside.chain([&cell.workload]).map(family::timeout).max().unwrap_or_default()
}

/// How long calls to systems beside those that are measured are waited for at the end of a step.
fn drain_beside(cell: &Cell) -> Nanos {
    let of = |beside: &Beside| match &beside.workload {
        Workload::Script(calls) => calls.drain,
        _ => Nanos::ZERO,
    };
    cell.systems.beside.iter().map(of).max().unwrap_or_default()
}

/// Holds a load of requests for as long as things break.
fn held(
    generator: &mut dyn Generator,
    request: &TrialRequest<'_>,
    measure: &FailoverMeasure,
) -> Result<HeldLoad, AgentError> {
    let step = LoadStep {
        pace: Pace::Open(request.rate()?, measure.arrivals),
        warmup: measure.warmup,
        duration: measure.duration,
        seed: request.seed,
        samples: true,
        drain: patience(request.cell),
    };
    let load = generator.run(step.in_intervals(interval(measure)))?.result;
    Ok(HeldLoad {
        started_unix_ns: load.started_unix_ns,
        duration: load.duration,
        course: course(&load),
        validity: validity_under_faults(&load, measure.delayed),
        load: FailoverLoad::Requests(Box::new(load)),
        phases: Vec::new(),
    })
}

/// Length of the intervals of a load while things break.
pub(crate) fn interval(measure: &FailoverMeasure) -> Nanos {
    FAILOVER_INTERVAL.max(Nanos(measure.duration.0 / MOST_INTERVALS))
}

/// What clients saw of a load.
pub(crate) fn course(load: &LoadResult) -> Course {
    let mut course = Course::new(load.duration);
    for sample in &load.samples {
        let started = Nanos(sample.start_ns);
        let ended = Nanos(sample.start_ns.saturating_add(sample.latency_ns));
        let failed = sample.outcome != 0;
        course.ended(started, ended, failed);
        if !failed {
            course.answered(started, ended);
        }
    }
    let ends = load.intervals.iter().skip(1).map(|i| i.start).chain([load.duration]);
    for (i, (end, interval)) in ends.zip(&load.intervals).enumerate() {
        course.interval(end, interval.counts.missed, load.connections.get(i).copied());
    }
    course
}

/// What a step is worth, its warm-up cut off; how it went along tells nothing where it doesn't count
/// anyway. Of two trials at the same time, both lose what either has to.
fn judge(
    load: &mut LoadResult,
    series: Series,
    tolerance: Share,
    partner: Option<&Party>,
) -> (Validity, Option<WarmUp>) {
    let agree =
        |own: Nanos| partner.and_then(|partner| partner.exchange(own)).map_or(own, |other| own.max(other));
    let worth = match (undisturbed(load), series) {
        (Validity::Valid, Series::Latency) => kept_up(load),
        (worth, _) => worth,
    };
    match worth {
        Validity::Valid => {
            let (warm_up, validity) = cut_warm_up(load, series, tolerance, agree);
            (validity, Some(warm_up))
        }
        invalid => {
            agree(Nanos::ZERO);
            (invalid, None)
        }
    }
}
