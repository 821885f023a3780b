//! Carries out a step of requests: sets workers up, waits for them, merges what they found.

use vtax_sys::sched;
use vtax_units::Nanos;

use super::dialogue::Dialogue;
use super::merge::{Course, merge};
use super::recorder::{Recorder, Window};
use super::timetable::Finding;
use super::worker::{Job, Worker, WorkerGroup};
use super::{ConnectionPool, Model, RequestStep, Segment};
use crate::drive::{self, EventLoop};
use crate::{Control, LoadError, LoadResult, StartTimes};

/// From now to the epoch: time for all threads to be there.
const LEAD_IN: Nanos = Nanos::from_millis(20);

/// What an open loop's connections opened ahead are to last for.
const OPEN_AHEAD: Nanos = Nanos::from_millis(5);
/// More are opened when they are needed.
const OPEN_AHEAD_MAX: u32 = 64;

/// A load of requests in one protocol.
pub(crate) struct Requests<'a, D: Fn(usize) -> P, P: Dialogue> {
    pub(crate) pool: &'a ConnectionPool,
    /// Requests on one connection before it is closed; `None`: no limit.
    pub(crate) per_connection: Option<u32>,
    /// Makes the dialogue of the worker with this number.
    pub(crate) dialogue: D,
}

/// A step of one load.
pub(crate) struct Part<'a, D: Fn(usize) -> P, P: Dialogue> {
    pub(crate) load: &'a Requests<'a, D, P>,
    pub(crate) step: &'a RequestStep,
    pub(crate) control: &'a Control,
}

/// Carries out one step.
pub(crate) fn run<D: Fn(usize) -> P, P: Dialogue>(
    load: &Requests<'_, D, P>,
    step: &RequestStep,
    control: &Control,
) -> Result<LoadResult, LoadError> {
    // There is a result for each part.
    run_together(&[Part { load, step, control }]).map(|mut results| results.remove(0))
}

/// Carries out a step of each of several loads at the same time, by the same threads; what each found, in their order.
/// All have the first one's CPUs.
pub(crate) fn run_together<D: Fn(usize) -> P, P: Dialogue>(
    parts: &[Part<'_, D, P>],
) -> Result<Vec<LoadResult>, LoadError> {
    let Some(first) = parts.first() else { return Ok(Vec::new()) };
    parts.iter().try_for_each(|part| part.step.check())?;
    let connections = || parts.iter().map(|part| part.load.pool.connections);
    // Where the limit can't be raised and is too low, requests show it: no-descriptors.
    let _ = sched::raise_open_files(connections().map(u64::from).sum::<u64>() + 256);
    // Each worker of each load has a connection.
    let most = connections().min().unwrap_or(1) as usize;
    let cpus = drive::worker_cpus(&first.load.pool.cpus, most)?;
    let epoch = Nanos(sched::monotonic().0 + LEAD_IN.0);
    let jobs: Vec<Job> = parts.iter().map(|part| job(part, cpus.len(), epoch)).collect();
    let mut ready = Vec::with_capacity(cpus.len());
    for (number, cpu) in cpus.iter().enumerate() {
        let events = EventLoop::new()?;
        let mut workers = Vec::with_capacity(parts.len());
        for (index, (part, job)) in (0..).zip(parts.iter().zip(&jobs)) {
            workers.push(worker(part, job, (number, cpus.len()), (index, events.sharing()?)));
        }
        ready.push((*cpu, WorkerGroup::new(workers)));
    }
    let controls: Vec<&Control> = parts.iter().map(|part| part.control).collect();
    // A thread that fails ends all parts, as all of them wait for it.
    let run = |group: WorkerGroup<'_, P>| {
        group.run().inspect_err(|_| controls.iter().for_each(|each| each.cancel()))
    };
    let found = drive::launch("load", ready, first.control, run)?;
    let mut of_parts: Vec<Vec<Finding>> = parts.iter().map(|_| Vec::with_capacity(cpus.len())).collect();
    for group in found {
        of_parts.iter_mut().zip(group).for_each(|(own, finding)| own.push(finding));
    }
    let results = parts.iter().zip(&jobs).zip(of_parts);
    results.map(|((part, job), findings)| merge(&course(part, job, &findings), findings)).collect()
}

/// The worker with this number among so many, of one load.
fn worker<'a, D: Fn(usize) -> P, P: Dialogue>(
    part: &Part<'a, D, P>,
    job: &'a Job,
    (number, workers): (usize, usize),
    place: (u32, EventLoop),
) -> Worker<'a, P> {
    let Part { load, step, control } = *part;
    let arrivals = match &step.model {
        Model::Open { arrivals, profile } => {
            Some(StartTimes::new(*arrivals, profile, step.seed, number, workers))
        }
        Model::Closed => None,
    };
    let recorder = Recorder::new(job.window, load.pool.timeout, step.samples);
    let share = share_of(load.pool.connections, number, workers);
    Worker::new(job, control, (load.dialogue)(number), share, arrivals, recorder, place)
}

/// How a part's step went along.
fn course<D: Fn(usize) -> P, P: Dialogue>(part: &Part<'_, D, P>, job: &Job, findings: &[Finding]) -> Course {
    Course {
        timeout: part.load.pool.timeout,
        open: matches!(part.step.model, Model::Open { .. }),
        window: job.window,
        epoch: job.epoch,
        // Where it was cancelled, workers saw it some milliseconds apart.
        end: findings.iter().map(|finding| finding.end).min().unwrap_or(0),
    }
}

fn job<D: Fn(usize) -> P, P: Dialogue>(part: &Part<'_, D, P>, workers: usize, epoch: Nanos) -> Job {
    let Part { load, step, .. } = *part;
    let window = Window {
        from: step.warmup.0,
        to: step.warmup.0 + step.duration.0,
        interval: step.interval.0.min(step.duration.0),
    };
    let pool = load.pool;
    Job {
        target: pool.target,
        per_connection: load.per_connection.unwrap_or(u32::MAX),
        open_ahead: open_ahead(step, load.per_connection) / workers as u32,
        window,
        drain: step.drain.min(pool.timeout).0,
        timeout: pool.timeout.0,
        epoch,
    }
}

/// Connections to open before the first start: as many as start within [`OPEN_AHEAD`], so that a
/// late start is caught up with on connections that are there. None where every request is to
/// meet its own.
fn open_ahead(step: &RequestStep, per_connection: Option<u32>) -> u32 {
    let Model::Open { profile, .. } = &step.model else { return 0 };
    if per_connection == Some(1) {
        return 0;
    }
    // A load may wait a part of a gap for its first start.
    let begins = |segment: &&Segment| segment.from.0 > 0.0 || segment.to.0 > 0.0;
    let first = profile.iter().find(begins).map_or(0.0, |segment| segment.from.0);
    (first * OPEN_AHEAD.as_secs_f64()).min(f64::from(OPEN_AHEAD_MAX)) as u32
}

/// Connections of one worker.
fn share_of(connections: u32, worker: usize, workers: usize) -> u32 {
    let (workers, worker) = (workers as u32, worker as u32);
    connections / workers + u32::from(worker < connections % workers)
}
