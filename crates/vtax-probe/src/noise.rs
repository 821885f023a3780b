//! What disturbed the host while something was measured.
//!
//! The thresholds say from when on a reader is told; they don't make a trial invalid.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vtax_units::{CpuSet, Nanos, counted};

use crate::delta::{self, Interval};
use crate::error::ProbeError;
use crate::frequency::drop_over_time;
use crate::parse;
use crate::probe::{Probe, Scope};
use crate::tasks::{optional, read_file};
use crate::types::Snapshot;

/// Stolen time worth telling: 1 % of the time in which the SUT's CPUs were wanted, of a closed loop 1 % of the time that passed. A
/// hypervisor that takes more shifts medians by as much as the taxes of interest.
pub const STEAL_SHARE: f64 = 0.01;
/// Others' CPU time worth telling: 3 % of the SUT's CPUs, above what tick-based accounting errs by.
pub const FOREIGN_SHARE: f64 = 0.03;
/// A drop of clock frequency worth telling: 5 %.
const FREQUENCY_DROP: f64 = 0.05;
/// Share of the time that tasks waited for memory worth telling: 1 %.
const MEMORY_WAIT_SHARE: f64 = 0.01;
/// With less than this share of its memory available, a host is short of it; above, tasks that wait for
/// memory have met a limit of their own.
const SHORT_OF_MEMORY: f64 = 0.10;

/// The host at one moment, for [`disturbance`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostState {
    /// CPU times; no tasks.
    pub snapshot: Snapshot,
    /// Pages read from swap since boot.
    pub swapped_in_pages: u64,
    /// Pages written to swap since boot.
    pub swapped_out_pages: u64,
    /// Times the SUT's CPUs were throttled for heat, since boot; `None` where the host doesn't say.
    pub throttles: Option<u64>,
    /// Mean clock frequency of the SUT's CPUs in kHz; `None` where the host doesn't say.
    pub frequency_khz: Option<u64>,
    /// Time in which some task waited for memory, since boot (pressure stall information); `None` where
    /// the kernel has none.
    pub memory_waits: Option<Nanos>,
    /// Time in which some task waited for a disk, likewise.
    pub disk_waits: Option<Nanos>,
}

/// Reads [`HostState`].
#[derive(Debug)]
pub struct HostProbe {
    probe: Probe,
    vmstat: Option<File>,
    memory_pressure: Option<File>,
    disk_pressure: Option<File>,
    cpu_dir: PathBuf,
    sut_cpus: CpuSet,
    buffer: Vec<u8>,
}

impl HostProbe {
    /// A probe of this host and the CPUs of the system under test.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Read`] where `/proc/stat` can't be opened.
    pub fn new(sut_cpus: CpuSet) -> Result<Self, ProbeError> {
        Self::with_roots(sut_cpus, Path::new("/proc"), Path::new("/sys"))
    }

    /// Watches as [`new`](Self::new) does, from recorded copies of `/proc` and `/sys`.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Read`] where `stat` in `proc` can't be opened.
    pub fn with_roots(sut_cpus: CpuSet, proc: &Path, sys: &Path) -> Result<Self, ProbeError> {
        Ok(Self {
            probe: Probe::with_proc(Scope::Processes(Vec::new()), proc)?,
            vmstat: optional(proc, "vmstat"),
            memory_pressure: optional(proc, "pressure/memory"),
            disk_pressure: optional(proc, "pressure/io"),
            cpu_dir: sys.join("devices/system/cpu"),
            sut_cpus,
            buffer: Vec::new(),
        })
    }

    /// Reads the host's state.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Read`] where `/proc/stat` can't be read.
    pub fn read(&mut self) -> Result<HostState, ProbeError> {
        let snapshot = self.probe.snapshot()?;
        let pages = match self.vmstat.as_ref().map(|f| read_file(f, &mut self.buffer)) {
            Some(Ok(text)) => parse::swapped_pages(text),
            _ => (0, 0),
        };
        let frequencies = self.of_each_cpu("cpufreq/scaling_cur_freq");
        Ok(HostState {
            snapshot,
            swapped_in_pages: pages.0,
            swapped_out_pages: pages.1,
            memory_waits: waits(self.memory_pressure.as_ref(), &mut self.buffer),
            disk_waits: waits(self.disk_pressure.as_ref(), &mut self.buffer),
            throttles: sum(&self.of_each_cpu("thermal_throttle/core_throttle_count"))
                .into_iter()
                // One package's counter stands at each of its CPUs.
                .chain(self.of_each_cpu("thermal_throttle/package_throttle_count").into_iter().max())
                .reduce(u64::saturating_add),
            frequency_khz: sum(&frequencies).map(|s| s / frequencies.len() as u64),
        })
    }

    /// What this host tells of its noise, and what it doesn't, in words.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn coverage(&mut self) -> Result<Coverage, ProbeError> {
        let state = self.read()?;
        let signs = [
            ("stolen time", true),
            ("other load", true),
            ("swapping", self.vmstat.is_some()),
            ("memory pressure", state.memory_waits.is_some()),
            ("clock frequency", state.frequency_khz.is_some()),
            ("thermal throttling", state.throttles.is_some()),
        ];
        let of = |told: bool| signs.iter().filter(|s| s.1 == told).map(|s| s.0.to_owned()).collect();
        Ok(Coverage { told: of(true), untold: of(false) })
    }

    fn of_each_cpu(&self, file: &str) -> Vec<u64> {
        let read = |cpu: usize| {
            let text = std::fs::read_to_string(self.cpu_dir.join(format!("cpu{cpu}")).join(file)).ok()?;
            text.trim().parse().ok()
        };
        self.sut_cpus.iter().filter_map(read).collect()
    }
}

/// Which signs of noise a host shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Those that are watched.
    pub told: Vec<String>,
    /// Those that this host has no files for; what they would show goes unseen.
    pub untold: Vec<String>,
}

/// What a file of pressure stall information says; `None` where the kernel has none.
fn waits(file: Option<&File>, buffer: &mut Vec<u8>) -> Option<Nanos> {
    let text = read_file(file?, buffer).ok()?;
    parse::pressure(text)
}

fn sum(values: &[u64]) -> Option<u64> {
    (!values.is_empty()).then(|| values.iter().fold(0u64, |a, b| a.saturating_add(*b)))
}

/// What disturbed the host between two states.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Time of all the SUT's CPUs together that the shares are of.
    pub time: Nanos,
    /// Share of the time in which the SUT's CPUs were wanted, by whomever, that the hypervisor above the host took.
    ///
    /// A CPU that nobody wants has nothing stolen. As a share of all time, what a hypervisor takes would seem to grow with what a
    /// system needs, and the more a system costs, the more of its trials would not count. Of a closed loop it is another share:
    /// [`of_closed_loop`](Self::of_closed_loop).
    pub steal: f64,
    /// Time that it took.
    #[serde(default)]
    pub stolen: Nanos,
    /// Time that passed.
    #[serde(default)]
    pub elapsed: Nanos,
    /// True where `steal` is the share of a closed loop.
    #[serde(default)]
    pub closed_loop: bool,
    /// Share of the SUT's CPU time that went to tasks that are not ours.
    pub foreign: f64,
    /// Pages that went to or came from swap.
    pub swapped_pages: u64,
    /// Times the SUT's CPUs were throttled for heat.
    pub throttles: u64,
    /// Drop of the SUT's CPUs' clock frequency; negative for a rise, 0 where unknown.
    pub frequency_drop: f64,
    /// Share of the time in which some task of the host waited for memory; 0 where unknown.
    pub memory_wait: f64,
    /// Share of the time in which some task of the host waited for a disk; 0 where unknown.
    #[serde(default)]
    pub disk_wait: f64,
    /// True where the host as a whole had little memory left.
    pub short_of_memory: bool,
    /// What of this is worth telling, for people; empty on a quiet host.
    pub reasons: Vec<String>,
}

/// Compares two states of the host. `ours` is the CPU time that the SUT's side is known to have
/// used on these CPUs, [`crate::layers::CpuBreakdown::total`].
///
/// A kernel that samples its CPUs at each timer tick (`CONFIG_TICK_CPU_ACCOUNTING`) may take periodic work, such as voice
/// sent every 20 ms, for more than it is. The time that a CPU is idle it measures (`CONFIG_NO_HZ_IDLE`), so a CPU was busy no longer
/// than it was neither idle nor taken by a hypervisor.
#[must_use]
pub fn disturbance(start: &HostState, end: &HostState, sut_cpus: &CpuSet, ours: Nanos) -> Disturbance {
    let (mut all, mut steal, mut busy) = (0u64, 0u64, 0u64);
    let elapsed = end.snapshot.at.0.saturating_sub(start.snapshot.at.0);
    let interval = Interval { start: &start.snapshot, end: &end.snapshot };
    for cpu in delta::cpu_times(interval).filter(|c| sut_cpus.contains(c.cpu as usize)) {
        let parts = [cpu.user, cpu.system, cpu.irq, cpu.softirq, cpu.guest];
        let ticks = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.0));
        let this = ticks.min(elapsed.saturating_sub(cpu.idle.0.saturating_add(cpu.steal.0)));
        busy = busy.saturating_add(this);
        steal = steal.saturating_add(cpu.steal.0);
        all = all.saturating_add(this).saturating_add(cpu.steal.0).saturating_add(cpu.idle.0);
    }
    let share = |part: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
    let swapped = delta::counter(start.swapped_in_pages, end.swapped_in_pages)
        .saturating_add(delta::counter(start.swapped_out_pages, end.swapped_out_pages));
    let throttles = match (start.throttles, end.throttles) {
        (Some(start), Some(end)) => delta::counter(start, end),
        _ => 0,
    };
    let frequency_drop = match (start.frequency_khz, end.frequency_khz) {
        (Some(start), Some(end)) if start > 0 => 1.0 - end as f64 / start as f64,
        _ => 0.0,
    };
    let waited = |start: Option<Nanos>, end: Option<Nanos>| match (start, end) {
        (Some(start), Some(end)) if elapsed > 0 => delta::counter(start.0, end.0) as f64 / elapsed as f64,
        _ => 0.0,
    };
    let memory = end.snapshot.memory;
    let mut found = Disturbance {
        time: Nanos(all),
        memory_wait: waited(start.memory_waits, end.memory_waits),
        disk_wait: waited(start.disk_waits, end.disk_waits),
        short_of_memory: (memory.available_bytes as f64) < memory.total_bytes as f64 * SHORT_OF_MEMORY,
        steal: if steal == 0 { 0.0 } else { steal as f64 / busy.saturating_add(steal) as f64 },
        stolen: Nanos(steal),
        elapsed: Nanos(elapsed),
        closed_loop: false,
        foreign: share(busy.saturating_sub(ours.0)),
        swapped_pages: swapped,
        throttles,
        frequency_drop,
        reasons: Vec::new(),
    };
    found.reasons = reasons(&found);
    found
}

impl Disturbance {
    /// The disturbance with the frequency of the CPUs as it was sampled on the way, where it was.
    #[must_use]
    pub fn with_frequencies(mut self, samples: &[u64]) -> Self {
        if samples.len() >= 3 {
            self.frequency_drop = drop_over_time(samples);
            self.reasons = reasons(&self);
        }
        self
    }

    /// The disturbance of a closed loop, in which the next operation begins once one before it is over: all of them together take
    /// longer by no more than what was stolen, however little the CPUs were wanted. So it is told as a share of the time that
    /// passed, and of the wanted time where several CPUs were wanted for longer than that.
    #[must_use]
    pub fn of_closed_loop(mut self) -> Self {
        if !self.closed_loop && self.elapsed > Nanos::ZERO {
            let of_elapsed = self.stolen.0 as f64 / self.elapsed.0 as f64;
            self.steal = self.steal.min(of_elapsed);
            self.closed_loop = true;
            self.reasons = reasons(&self);
        }
        self
    }

    /// The disturbance of CPUs whose load changes by itself: their clock follows it, and says nothing of anybody else.
    #[must_use]
    pub fn without_frequency(mut self) -> Self {
        self.frequency_drop = 0.0;
        self.reasons = reasons(&self);
        self
    }
}

/// What disturbed CPUs of which it is not known whose time was spent on them: none of it counts as others'.
#[must_use]
pub fn disturbance_by_the_machine(start: &HostState, end: &HostState, cpus: &CpuSet) -> Disturbance {
    disturbance(start, end, cpus, Nanos(u64::MAX))
}

/// What a hypervisor takes of some CPUs from its start on.
#[derive(Debug)]
pub struct StealWatch {
    probe: HostProbe,
    start: HostState,
    cpus: CpuSet,
}

impl StealWatch {
    /// Begins.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Read`] where `/proc/stat` can't be read.
    pub fn start(cpus: CpuSet) -> Result<Self, ProbeError> {
        let mut probe = HostProbe::new(cpus.clone())?;
        let start = probe.read()?;
        Ok(Self { probe, start, cpus })
    }

    /// What happened until now, as [`disturbance_by_the_machine`].
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn so_far(&mut self) -> Result<Disturbance, ProbeError> {
        let end = self.probe.read()?;
        Ok(disturbance_by_the_machine(&self.start, &end, &self.cpus))
    }
}

fn reasons(found: &Disturbance) -> Vec<String> {
    let mut reasons = Vec::new();
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    if found.steal > STEAL_SHARE {
        let share = percent(found.steal);
        reasons.push(match found.closed_loop {
            true => format!("a hypervisor took the SUT's CPUs away for {share} of the time"),
            false => format!("a hypervisor took {share} of the time in which the SUT's CPUs were wanted"),
        });
    }
    if found.foreign > FOREIGN_SHARE {
        reasons.push(format!("other processes used {} of the SUT's CPUs", percent(found.foreign)));
    }
    if found.swapped_pages > 0 {
        reasons.push(format!("the host swapped {}", counted(found.swapped_pages, "page")));
    }
    if found.throttles > 0 {
        let times = counted(found.throttles, "time");
        reasons.push(format!("the SUT's CPUs were throttled {times} for heat"));
    }
    if found.frequency_drop > FREQUENCY_DROP {
        reasons.push(format!("the clock of the SUT's CPUs fell by {}", percent(found.frequency_drop)));
    }
    if found.memory_wait > MEMORY_WAIT_SHARE {
        let whose = if found.short_of_memory { "the host had little memory left" } else { "at a limit" };
        reasons.push(format!("tasks waited {} of the time for memory ({whose})", percent(found.memory_wait)));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_alone_has_no_plural() {
        let found = Disturbance { swapped_pages: 1, throttles: 1, ..Disturbance::default() };
        let told = ["the host swapped 1 page", "the SUT's CPUs were throttled 1 time for heat"];
        assert_eq!(reasons(&found), told);
        let found = Disturbance { swapped_pages: 2, ..Disturbance::default() };
        assert_eq!(reasons(&found), ["the host swapped 2 pages"]);
    }
}
