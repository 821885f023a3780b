//! Clock frequency over a measurement.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use vtax_units::CpuSet;

/// Reading one frequency takes some microseconds; four a second are no load.
const EVERY: Duration = Duration::from_millis(250);

/// Samples the clock of some CPUs on a thread of its own until it is stopped or dropped.
#[derive(Debug)]
pub struct FrequencyWatch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Vec<u64>>>,
}

impl FrequencyWatch {
    /// Starts; `None` where the host doesn't tell frequencies, or has no thread to spare.
    #[must_use]
    pub fn start(cpus: &CpuSet) -> Option<Self> {
        Self::with_root(cpus, Path::new("/sys"))
    }

    /// Begins to sample as [`start`](Self::start) does, from a recorded copy of `/sys`.
    #[must_use]
    pub fn with_root(cpus: &CpuSet, sys: &Path) -> Option<Self> {
        let files = files(cpus, sys);
        mean(&files)?;
        let (stop, stopped) = channel();
        let sample = move || {
            let mut found = Vec::new();
            loop {
                found.extend(mean(&files));
                match stopped.recv_timeout(EVERY) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return found,
                }
            }
        };
        let thread = std::thread::Builder::new().name("frequency".into()).spawn(sample).ok()?;
        Some(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Mean frequencies of the CPUs in kHz, in the order of time.
    #[must_use]
    pub fn stop(mut self) -> Vec<u64> {
        self.stop = None;
        self.thread.take().and_then(|t| t.join().ok()).unwrap_or_default()
    }
}

impl Drop for FrequencyWatch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // What it collected is not wanted.
            let _ = thread.join();
        }
    }
}

fn files(cpus: &CpuSet, sys: &Path) -> Vec<PathBuf> {
    let cpu = |n: usize| sys.join(format!("devices/system/cpu/cpu{n}/cpufreq/scaling_cur_freq"));
    cpus.iter().map(cpu).collect()
}

fn mean(files: &[PathBuf]) -> Option<u64> {
    let read = |path: &PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let all: Vec<u64> = files.iter().filter_map(read).collect();
    (!all.is_empty()).then(|| all.iter().sum::<u64>() / all.len() as u64)
}

/// How much slower the last third was than the first, as a share; negative for a rise, 0 below three
/// samples.
#[must_use]
pub(crate) fn drop_over_time(samples: &[u64]) -> f64 {
    let third = samples.len() / 3;
    let mean = |part: &[u64]| part.iter().map(|f| *f as f64).sum::<f64>() / part.len() as f64;
    match third {
        0 => 0.0,
        _ => {
            let (first, last) = (mean(&samples[..third]), mean(&samples[samples.len() - third..]));
            if first > 0.0 { 1.0 - last / first } else { 0.0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_falling_clock_shows() {
        assert_eq!(drop_over_time(&[]), 0.0);
        assert_eq!(drop_over_time(&[5, 1]), 0.0);
        assert_eq!(drop_over_time(&[0, 0, 0]), 0.0);
        assert!((drop_over_time(&[3_000, 3_000, 2_900, 2_500, 2_400, 2_400]) - 0.2).abs() < 1e-9);
        assert!(drop_over_time(&[1_000, 2_000, 3_000]) < 0.0);
    }

    #[test]
    fn a_host_that_does_not_tell_is_not_watched() {
        let dir = tempfile::tempdir().unwrap();
        assert!(FrequencyWatch::with_root(&CpuSet::of([0]), dir.path()).is_none());
        let cpu = dir.path().join("devices/system/cpu/cpu1/cpufreq");
        std::fs::create_dir_all(&cpu).unwrap();
        std::fs::write(cpu.join("scaling_cur_freq"), "2400000\n").unwrap();
        let watch = FrequencyWatch::with_root(&CpuSet::of([0, 1]), dir.path()).unwrap();
        let found = watch.stop();
        assert!(!found.is_empty() && found.iter().all(|f| *f == 2_400_000), "{found:?}");
    }
}
