//! Carries out a step of requests: sets workers up, waits for them, merges what they found.

use vtax_sys::sched;
use vtax_units::Nanos;

use super::dialogue::Dialogue;
use super::merge::{Course, merge};
use super::recorder::{Recorder, Window};
use super::spec::DRAIN_MAX;
use super::worker::{Job, Worker};
use super::{ConnectionPool, Model, RequestStep};
use crate::{Arrivals, Control, LoadError, LoadResult, drive};

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

/// Carries out one step.
pub(crate) fn run<D: Fn(usize) -> P, P: Dialogue>(
    load: &Requests<'_, D, P>,
    step: &RequestStep,
    control: &Control,
) -> Result<LoadResult, LoadError> {
    step.check()?;
    let pool = load.pool;
    // Where the limit can't be raised and is too low, requests show it: no-descriptors.
    let _ = sched::raise_open_files(u64::from(pool.connections) + 256);
    let cpus = drive::worker_cpus(&pool.cpus, pool.connections as usize)?;
    let workers = cpus.len();
    let job = job(load, step, workers);
    let mut ready = Vec::with_capacity(workers);
    for (number, cpu) in cpus.iter().enumerate() {
        let arrivals = match &step.model {
            Model::Open { arrivals, profile } => {
                Some(Arrivals::new(*arrivals, profile, step.seed, number, workers))
            }
            Model::Closed => None,
        };
        let recorder = Recorder::new(job.window, pool.timeout, step.samples);
        let share = share_of(pool.connections, number, workers);
        let worker = Worker::new(&job, control, (load.dialogue)(number), share, arrivals, recorder)?;
        ready.push((*cpu, worker));
    }
    let findings = drive::launch("load", ready, control, Worker::run)?;
    let course = Course {
        timeout: pool.timeout,
        open: matches!(step.model, Model::Open { .. }),
        window: job.window,
        epoch: job.epoch,
        // Where it was cancelled, workers saw it some milliseconds apart.
        end: findings.iter().map(|finding| finding.end).min().unwrap_or(0),
    };
    merge(&course, findings)
}

fn job<D: Fn(usize) -> P, P: Dialogue>(load: &Requests<'_, D, P>, step: &RequestStep, workers: usize) -> Job {
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
        drain: pool.timeout.min(DRAIN_MAX).0,
        timeout: pool.timeout.0,
        epoch: Nanos(sched::monotonic().0 + LEAD_IN.0),
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
    let first = profile.first().map_or(0.0, |segment| segment.from.0);
    (first * OPEN_AHEAD.as_secs_f64()).min(f64::from(OPEN_AHEAD_MAX)) as u32
}

/// Connections of one worker.
fn share_of(connections: u32, worker: usize, workers: usize) -> u32 {
    let (workers, worker) = (workers as u32, worker as u32);
    connections / workers + u32::from(worker < connections % workers)
}
