//! Carries out a load: sets workers up, waits for them, merges what they found.

use std::thread;

use hdrhistogram::Histogram;
use vtax_sys::sched;
use vtax_units::{CpuSet, Nanos};

use crate::family::http::{HttpRequests, HttpSpec};
use crate::limit::{Evidence, judge};
use crate::recorder::{Recorder, Window};
use crate::request::DRAIN_MAX;
use crate::worker::{Finding, Job, Worker};
use crate::{
    Arrivals, ConnectionCounts, ConnectionPool, Control, Counts, GeneratorUse, Interval, LatencyHistogram,
    LoadError, LoadResult, Model, RequestStep,
};

/// From now to the epoch: time for all threads to be there.
const LEAD_IN: Nanos = Nanos::from_millis(20);

/// What an open loop's connections opened ahead are to last for.
const OPEN_AHEAD: Nanos = Nanos::from_millis(5);
/// More are opened when they are needed.
const OPEN_AHEAD_MAX: u32 = 64;

/// Carries out one step.
pub(crate) fn run(spec: &HttpSpec, step: &RequestStep, control: &Control) -> Result<LoadResult, LoadError> {
    step.check()?;
    let pool = &spec.pool;
    // Where the limit can't be raised and is too low, requests show it: no-descriptors.
    let _ = sched::raise_open_files(u64::from(pool.connections) + 256);
    let cpus = worker_cpus(pool)?;
    let workers = cpus.len();
    let job = job(spec, step, workers);
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
        let worker = Worker::new(&job, control, share, arrivals, recorder)
            .map_err(|source| LoadError::System { operation: "create an epoll", source })?;
        ready.push((number, *cpu, worker));
    }
    let findings = launch(ready, control)?;
    merge(pool.timeout, step, &job, findings)
}

/// Runs each worker in a thread on its CPU and waits for all.
fn launch(ready: Vec<(usize, usize, Worker<'_>)>, control: &Control) -> Result<Vec<Finding>, LoadError> {
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(ready.len());
        for (number, cpu, worker) in ready {
            let work = move || {
                sched::bind_this_thread(&CpuSet::of([cpu]))
                    .and_then(|()| worker.run())
                    .map_err(|source| LoadError::Worker { worker: number, source })
            };
            match thread::Builder::new().name(format!("load-{number}")).spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    control.cancel();
                    return Err(LoadError::System { operation: "start a thread", source });
                }
            }
        }
        let join = |(worker, thread): (usize, thread::ScopedJoinHandle<'_, _>)| {
            thread.join().map_err(|payload| LoadError::panicked(worker, &*payload))?
        };
        threads.into_iter().enumerate().map(join).collect()
    })
}

fn job(spec: &HttpSpec, step: &RequestStep, workers: usize) -> Job {
    let (pool, http) = (&spec.pool, &spec.requests);
    let window = Window {
        from: step.warmup.0,
        to: step.warmup.0 + step.duration.0,
        interval: step.interval.0.min(step.duration.0),
    };
    Job {
        target: pool.target,
        request: http.bytes(false),
        last_request: http.bytes(true),
        requests_per_connection: http.requests_per_connection.unwrap_or(u32::MAX),
        open_ahead: open_ahead(step, http) / workers as u32,
        window,
        drain: pool.timeout.min(DRAIN_MAX).0,
        timeout: pool.timeout.0,
        epoch: Nanos(sched::monotonic().0 + LEAD_IN.0),
    }
}

/// Connections to open before the first start: as many as start within [`OPEN_AHEAD`], so that a
/// late start is caught up with on connections that are there. None where every request is to
/// meet its own.
fn open_ahead(step: &RequestStep, http: &HttpRequests) -> u32 {
    let Model::Open { profile, .. } = &step.model else { return 0 };
    if http.requests_per_connection == Some(1) {
        return 0;
    }
    let first = profile.first().map_or(0.0, |segment| segment.from.0);
    (first * OPEN_AHEAD.as_secs_f64()).min(f64::from(OPEN_AHEAD_MAX)) as u32
}

/// One CPU per worker.
fn worker_cpus(pool: &ConnectionPool) -> Result<Vec<usize>, LoadError> {
    let set = if pool.cpus.is_empty() {
        sched::allowed_cpus().map_err(|source| LoadError::Worker { worker: 0, source })?
    } else {
        pool.cpus.clone()
    };
    let most = pool.connections.max(1) as usize;
    Ok(set.iter().take(most).collect())
}

/// Connections of one worker.
fn share_of(connections: u32, worker: usize, workers: usize) -> u32 {
    let (workers, worker) = (workers as u32, worker as u32);
    connections / workers + u32::from(worker < connections % workers)
}

fn merge(
    timeout: Nanos,
    step: &RequestStep,
    job: &Job,
    findings: Vec<Finding>,
) -> Result<LoadResult, LoadError> {
    let end = findings.iter().map(|f| f.end).min().unwrap_or(0);
    if end <= job.window.from {
        return Err(LoadError::Cancelled { after: Nanos(end), warmup: step.warmup });
    }
    let duration = Nanos(end - job.window.from);
    let intervals = merge_intervals(job, duration, &findings);
    let mut counts = Counts::default();
    let mut latency = LatencyHistogram::new();
    for interval in &intervals {
        counts.add(&interval.counts);
        latency.add(&interval.latency);
    }
    let mut lateness = LatencyHistogram::new();
    let mut own_lateness = LatencyHistogram::new();
    let mut generator = GeneratorUse { workers: findings.len() as u32, ..GeneratorUse::default() };
    let mut missed_own = 0;
    for finding in &findings {
        add(&mut lateness, &finding.recorder.lateness);
        add(&mut own_lateness, &finding.recorder.own_lateness);
        missed_own += finding.recorder.missed_own;
        generator.cpu_user.0 += finding.cpu.user.0;
        generator.cpu_system.0 += finding.cpu.system.0;
        generator.busiest = generator.busiest.max(finding.busy);
    }
    generator.limited = judge(&Evidence {
        open: matches!(step.model, Model::Open { .. }),
        busy: findings.iter().map(|f| f.busy).collect(),
        displaced: findings.iter().map(|f| f.displaced).collect(),
        intended: counts.intended,
        missed: counts.missed,
        missed_own,
        no_descriptors: counts.errors.no_descriptors,
        no_addresses: counts.errors.no_addresses,
        latency_p99: p99_with_timeouts(timeout, &counts, &latency),
        lateness_p99: lateness.quantile(0.99),
        own_lateness_p99: own_lateness.quantile(0.99),
    });
    let connections = connections(intervals.len(), &findings);
    let mut samples: Vec<_> =
        findings.into_iter().filter_map(|f| f.recorder.samples).flatten().flatten().collect();
    samples.sort_unstable_by_key(|sample| sample.start_ns);
    let started_unix_ns = unix_of(job.epoch.0 + job.window.from);
    Ok(LoadResult {
        duration,
        started_unix_ns,
        counts,
        latency,
        lateness,
        intervals,
        connections,
        generator,
        samples,
    })
}

/// The time since 1970 of a moment of CLOCK_MONOTONIC, both in nanoseconds.
fn unix_of(monotonic: u64) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let unix = Nanos::from(now).0;
    unix.saturating_sub(sched::monotonic().0.saturating_sub(monotonic))
}

/// Connections of all workers by interval; what came after the last is part of it.
fn connections(length: usize, findings: &[Finding]) -> Vec<ConnectionCounts> {
    let mut all = vec![ConnectionCounts::default(); length];
    for finding in findings {
        let intervals = &finding.recorder.intervals;
        for (i, sum) in all.iter_mut().enumerate() {
            sum.open += intervals.get(i).map_or(0, |interval| interval.connections.open);
        }
        for (i, interval) in intervals.iter().enumerate() {
            if let Some(sum) = all.get_mut(i.min(length.saturating_sub(1))) {
                sum.broken += interval.connections.broken;
            }
        }
    }
    all
}

/// The p99 of latency where requests that timed out or were missed count as their timeout.
fn p99_with_timeouts(timeout: Nanos, counts: &Counts, latency: &LatencyHistogram) -> Nanos {
    let too_late = counts.errors.client_timeout + counts.missed;
    let p99 = latency.quantile(0.99);
    if too_late * 100 > counts.intended { p99.max(timeout) } else { p99 }
}

fn add(to: &mut LatencyHistogram, from: &Histogram<u64>) {
    for value in from.iter_recorded() {
        to.record_n(value.value_iterated_to(), value.count_since_last_iteration());
    }
}

/// The intervals of all workers; where the load was cancelled, up to the one it ended in.
fn merge_intervals(job: &Job, duration: Nanos, findings: &[Finding]) -> Vec<Interval> {
    let length = duration.0.div_ceil(job.window.interval) as usize;
    let mut intervals: Vec<Interval> = (0..length as u64)
        .map(|i| Interval {
            start: Nanos(i * job.window.interval),
            counts: Counts::default(),
            latency: LatencyHistogram::new(),
        })
        .collect();
    for finding in findings {
        for (i, sparse) in finding.recorder.intervals.iter().enumerate() {
            // Workers may see a cancellation some milliseconds apart, across a boundary.
            let Some(interval) = intervals.get_mut(i.min(length - 1)) else { continue };
            interval.counts.add(&sparse.counts);
            for (value, count) in &sparse.latency {
                interval.latency.record_n(*value, *count);
            }
        }
    }
    intervals
}
