//! Sampling on a thread of its own.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use vtax_sys::sync::{lock, wait_timeout};
use vtax_units::Nanos;

use crate::error::ProbeError;
use crate::probe::Probe;
use crate::types::Snapshot;

/// Snapshots are thinned out once they take this much memory.
const MOST_BYTES: usize = 32 << 20;
/// No sampler samples more often.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// What a sampler collected.
#[derive(Debug, Default)]
pub struct Samples {
    /// In order of time; the first was taken at the start and the last at the stop.
    pub snapshots: Vec<Snapshot>,
    /// CPU time the sampling itself took.
    pub own_cpu: Nanos,
    /// Why it ended early, where it did: the watched process went away.
    pub ended: Option<ProbeError>,
}

/// Takes snapshots at an interval until it is stopped or dropped.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<Samples>>,
}

#[derive(Debug, Default)]
struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn ask(&self) {
        *lock(&self.asked) = true;
        self.changed.notify_all();
    }

    /// Waits until `deadline`; true where a stop was asked for.
    fn wait_until(&self, deadline: Instant) -> bool {
        let mut asked = lock(&self.asked);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if *asked || left.is_zero() {
                return *asked;
            }
            asked = wait_timeout(&self.changed, asked, left);
        }
    }
}

impl Sampler {
    /// Starts sampling; the first snapshot is taken at once.
    ///
    /// `interval` is at least 10 ms. Memory is bounded: where snapshots take more than 32 MiB,
    /// every other one is dropped and the interval doubles.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Thread`] where no thread could be started.
    pub fn start(probe: Probe, interval: Nanos) -> Result<Self, ProbeError> {
        let stop = Arc::new(Stop::default());
        let theirs = Arc::clone(&stop);
        let interval = Duration::from(interval).max(SHORTEST_INTERVAL);
        let thread = std::thread::Builder::new()
            .name("sampler".into())
            .spawn(move || sample(probe, interval, &theirs, MOST_BYTES))
            .map_err(ProbeError::Thread)?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Takes a last snapshot and hands over what was collected.
    #[must_use]
    pub fn stop(mut self) -> Samples {
        self.stop.ask();
        self.thread.take().and_then(|t| t.join().ok()).unwrap_or_default()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            // What it collected is not wanted.
            let _ = thread.join();
        }
    }
}

fn sample(mut probe: Probe, mut interval: Duration, stop: &Stop, most_bytes: usize) -> Samples {
    let mut samples = Samples::default();
    let mut bytes = 0;
    let mut next = Instant::now();
    loop {
        let stopped = stop.wait_until(next);
        match probe.snapshot() {
            Ok(snapshot) => {
                bytes += size(&snapshot);
                samples.snapshots.push(snapshot);
            }
            Err(e) => {
                samples.ended = Some(e);
                break;
            }
        }
        if stopped {
            break;
        }
        if bytes > most_bytes && samples.snapshots.len() > 2 {
            thin(&mut samples.snapshots);
            bytes = samples.snapshots.iter().map(size).sum();
            interval *= 2;
        }
        next += interval;
        // A machine that slept has no use for the samples it missed.
        next = next.max(Instant::now());
    }
    samples.own_cpu = own_cpu();
    samples
}

/// Drops every other snapshot; the first stays.
fn thin(snapshots: &mut Vec<Snapshot>) {
    let mut index = 0;
    snapshots.retain(|_| {
        index += 1;
        index % 2 == 1
    });
}

/// Memory of a snapshot in bytes, roughly.
fn size(snapshot: &Snapshot) -> usize {
    let Snapshot { at: _, cpus, tasks, supervisors, memory: _, interfaces, disks } = snapshot;
    256 + cpus.len() * 64 + (tasks.len() + supervisors.len()) * 96 + (interfaces.len() + disks.len()) * 88
}

fn own_cpu() -> Nanos {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Scope;

    /// What `run` collects in so long, or longer where the machine left its thread too little time for three snapshots, and how
    /// long it took.
    fn collected(mut wait: Duration, run: impl Fn(Duration) -> Samples) -> (Samples, Duration) {
        loop {
            let began = Instant::now();
            let samples = run(wait);
            if samples.snapshots.len() >= 3 || wait > Duration::from_secs(10) {
                return (samples, began.elapsed());
            }
            wait *= 2;
        }
    }

    #[test]
    fn samples_from_start_to_stop() {
        const INTERVAL: Nanos = Nanos::from_millis(20);
        let (samples, took) = collected(Duration::from_millis(110), |wait| {
            let probe = Probe::new(Scope::Processes(vec![std::process::id()])).expect("/proc");
            let sampler = Sampler::start(probe, INTERVAL).expect("a thread");
            std::thread::sleep(wait);
            sampler.stop()
        });
        assert!(samples.ended.is_none());
        // One at the start, one for each interval, one at the stop.
        let most = took.as_nanos() / u128::from(INTERVAL.0) + 2;
        let taken = samples.snapshots.len();
        assert!(taken >= 3 && taken as u128 <= most, "{taken} in {took:?}");
        assert!(samples.snapshots.is_sorted_by_key(|s| s.at));
        assert!(samples.own_cpu > Nanos::ZERO);
    }

    #[test]
    fn memory_stays_bounded() {
        let one = size(&Probe::new(Scope::Processes(vec![])).expect("/proc").snapshot().expect("readable"));
        let (samples, _) = collected(Duration::from_millis(300), |wait| {
            let stop = Arc::new(Stop::default());
            let theirs = Arc::clone(&stop);
            let probe = Probe::new(Scope::Processes(vec![std::process::id()])).expect("/proc");
            let every = Duration::from_millis(1);
            let thread = std::thread::spawn(move || sample(probe, every, &theirs, one * 8));
            std::thread::sleep(wait);
            stop.ask();
            thread.join().expect("no panic")
        });
        assert!((3..=20).contains(&samples.snapshots.len()), "{}", samples.snapshots.len());
    }
}
