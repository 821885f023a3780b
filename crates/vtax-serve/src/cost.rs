//! What the server itself costs: CPU time and memory.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use vtax_sys::cpu_clock::process_cpu;
use vtax_sys::sync::lock;
use vtax_units::Nanos;

/// How far back the share of a core reaches.
const WINDOW: Duration = Duration::from_secs(60);
/// Least time between two readings that are kept.
const BETWEEN: Duration = Duration::from_secs(1);

/// What the server costs.
#[derive(Debug)]
pub(crate) struct Cost {
    readings: Mutex<VecDeque<(Instant, Nanos)>>,
}

/// What it cost until now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spent {
    /// CPU time since the start.
    pub(crate) cpu: Nanos,
    /// Share of a core over this time.
    pub(crate) share: f64,
    /// A minute or more, as long as nobody asked; less after the start.
    pub(crate) over: Duration,
    /// Memory that is resident, in bytes.
    pub(crate) resident: u64,
}

impl Cost {
    pub(crate) fn begin() -> Self {
        Self { readings: Mutex::new(VecDeque::from([(Instant::now(), used())])) }
    }

    /// What it cost until now.
    pub(crate) fn spent(&self) -> Spent {
        let (now, cpu) = (Instant::now(), used());
        let mut readings = lock(&self.readings);
        // The oldest stays as long as the next one is older than the window.
        while readings.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
            readings.pop_front();
        }
        let (from, before) = readings.front().copied().unwrap_or((now, cpu));
        if readings.back().is_none_or(|(at, _)| now.duration_since(*at) >= BETWEEN) {
            readings.push_back((now, cpu));
        }
        let time = now.duration_since(from).as_secs_f64().max(0.001);
        let share = cpu.saturating_sub(before).as_secs_f64() / time;
        Spent { cpu, share, over: now.duration_since(from), resident: resident().unwrap_or_default() }
    }
}

fn used() -> Nanos {
    process_cpu(std::process::id()).unwrap_or(Nanos::ZERO)
}

/// `VmRSS` of proc_pid_status(5).
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_memory_are_seen() {
        let cost = Cost::begin();
        let before = cost.spent();
        let mut sum = 0_u64;
        while used().saturating_sub(before.cpu) < Nanos::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let after = cost.spent();
        assert!(after.cpu > before.cpu && after.share > 0.0, "{after:?}");
        assert!(after.resident > 1 << 20);
    }
}
