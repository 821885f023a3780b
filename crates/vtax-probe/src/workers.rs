//! Threads of the host's kernel that work for a process of the run.
//!
//! Before Linux 6.4, vhost-net moves a guest's packets in kernel threads that are named after its QEMU (`vhost-1234`). Since then they
//! are threads of QEMU itself.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vtax_units::Nanos;

use crate::parse;
use crate::tasks::{TaskReader, read_file};
use crate::types::TaskTimes;

/// What such a thread's name begins with; the host's number of the process that it works for follows.
const NAME: &str = "vhost-";
/// More processes are not looked at.
const MOST_PROCESSES: usize = 65_536;
/// No process of a run is further below it.
const MOST_GENERATIONS: usize = 64;

/// The process that a thread of the kernel with this name works for, by the host's number.
pub(crate) fn works_for(name: &str) -> Option<u32> {
    name.strip_prefix(NAME)?.parse().ok()
}

/// Threads of the kernel that work for processes of a run.
#[derive(Debug, Clone, Default)]
pub struct Workers {
    /// The host's `/proc`: a PID namespace's own shows no kernel threads.
    proc: PathBuf,
    /// Keeps it open, where it has no name in this mount namespace.
    _held: Option<Arc<OwnedFd>>,
    found: Vec<Worker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Worker {
    /// The process, by its number as this process sees it.
    of: u32,
    /// Its own number in the host's `/proc`; with its start it names it for good.
    id: u32,
    start: u64,
}

impl Workers {
    /// Those that work for what descends from the process `run` of this `/proc`.
    pub(crate) fn find((proc, held): (&Path, Option<&Arc<OwnedFd>>), run: u32) -> Self {
        let mut this = Self { proc: proc.to_owned(), _held: held.cloned(), found: Vec::new() };
        // How deep this process's own PID namespace is below the host's.
        let Some(depth) = this.namespace_ids("self").len().checked_sub(1) else { return this };
        let ids = fs::read_dir(proc).into_iter().flatten().flatten();
        let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let workers = ids.take(MOST_PROCESSES).filter_map(|id| this.worker(id, depth, run));
        this.found = workers.collect();
        this
    }

    /// Those that work for one process, by its number as this process sees it.
    #[must_use]
    pub fn of(&self, process: u32) -> Self {
        let found = self.found.iter().copied().filter(|worker| worker.of == process);
        Self { found: found.collect(), ..self.clone() }
    }

    /// Reads their time; `None` where there are none.
    pub(crate) fn reader(&self) -> Option<WorkerReader> {
        let tasks = || TaskReader::kernel_threads(&self.proc);
        (!self.found.is_empty()).then(|| WorkerReader { workers: self.clone(), tasks: tasks() })
    }

    fn worker(&self, id: u32, depth: usize, run: u32) -> Option<Worker> {
        let (owner, start) = self.with_task(id, |task| {
            let owner = works_for(std::str::from_utf8(task.name).ok()?)?;
            task.kernel_thread.then_some((owner, task.start))
        })?;
        let of = *self.namespace_ids(&owner.to_string()).get(depth)?;
        self.descends(owner, run).then_some(Worker { of, id, start })
    }

    /// Other runs on this host have processes of the same number in namespaces of their own.
    fn descends(&self, mut id: u32, run: u32) -> bool {
        for _ in 0..MOST_GENERATIONS {
            if id == run {
                return true;
            }
            match self.with_task(id, |task| Some(task.parent)) {
                Some(parent) => id = parent,
                None => return false,
            }
        }
        false
    }

    fn with_task<T>(&self, id: u32, found: impl FnOnce(parse::TaskStat<'_>) -> Option<T>) -> Option<T> {
        let file = File::open(self.proc.join(id.to_string()).join("stat")).ok()?;
        let mut buffer = Vec::new();
        found(parse::task(read_file(&file, &mut buffer).ok()?)?)
    }

    fn namespace_ids(&self, process: &str) -> Vec<u32> {
        let text = fs::read(self.proc.join(process).join("status")).unwrap_or_default();
        parse::namespace_ids(&text)
    }
}

/// Reads the CPU time of workers.
#[derive(Debug)]
pub(crate) struct WorkerReader {
    workers: Workers,
    tasks: TaskReader,
}

impl WorkerReader {
    /// All of them as one task, without a number: theirs are the host's, which in this PID namespace may be others'.
    pub(crate) fn read(&mut self) -> TaskTimes {
        let mut all = TaskTimes { name: "vhost workers".to_owned(), ..TaskTimes::default() };
        for Worker { id, start, .. } in &self.workers.found {
            if let Some(seen) = self.tasks.read(*id).filter(|seen| seen.start == *start) {
                all.user = Nanos(all.user.0.saturating_add(seen.times.user.0));
                all.system = Nanos(all.system.0.saturating_add(seen.times.system.0));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::delta::Interval;
    use crate::layers::{Hosting, Layer, break_down};
    use crate::{Probe, Scope};

    /// A process of the recorded host: its parent, the ticks that it used in the kernel, and its numbers in its namespaces.
    fn put(proc: &Path, id: u32, name: &str, (parent, flags): (u32, u32), ticks: u64, inner: &str) {
        let directory = proc.join(id.to_string());
        fs::create_dir_all(&directory).unwrap();
        let rest = "0 0 20 0 1 0 70 0 0 0 0 0 0 0 0 0 0 0 0\n";
        let stat = format!("{id} ({name}) S {parent} 0 0 0 0 {flags} 0 0 0 0 0 {ticks} {rest}");
        fs::write(directory.join("stat"), stat).unwrap();
        fs::write(directory.join("status"), format!("Name:\t{name}\nNSpid:\t{id}\t{inner}\n")).unwrap();
    }

    const PROGRAM: u32 = 0x40_0000;
    const KERNEL: u32 = 0x20_8040;

    /// A host with two runs, whose QEMUs have the same number in the PID namespaces of their runs.
    fn host(proc: &Path, ticks: u64) {
        put(proc, 2, "kthreadd", (0, KERNEL), 0, "");
        put(proc, 100, "vtax", (1, PROGRAM), 0, "");
        put(proc, 101, "vtax", (100, PROGRAM), 0, "1");
        put(proc, 140, "qemu-system-x86", (101, PROGRAM), 0, "7");
        put(proc, 141, "vhost-140", (2, KERNEL), ticks, "");
        put(proc, 142, "vhost-140", (2, KERNEL), ticks, "");
        put(proc, 150, "qemu-system-x86", (101, PROGRAM), 0, "9");
        put(proc, 151, "vhost-150", (2, KERNEL), 40 * ticks, "");
        put(proc, 200, "vtax", (1, PROGRAM), 0, "");
        put(proc, 201, "vtax", (200, PROGRAM), 0, "1");
        put(proc, 240, "qemu-system-x86", (201, PROGRAM), 0, "7");
        put(proc, 241, "vhost-240", (2, KERNEL), 90 * ticks, "");
        // A program calls itself as it likes.
        put(proc, 160, "vhost-140", (101, PROGRAM), 70 * ticks, "11");
        fs::write(proc.join("stat"), "cpu0 0 0 0 0 0 0 0 0 0 0\n").unwrap();
    }

    #[test]
    fn kernel_threads_that_move_a_guests_packets_are_its_hypervisors_io() {
        let directory = tempfile::tempdir().unwrap();
        let proc = directory.path();
        host(proc, 0);
        symlink("101", proc.join("self")).unwrap();
        let workers = Workers::find((proc, None), 100);
        assert_eq!(workers.found.len(), 3, "{workers:?}");
        assert!(workers.of(8).reader().is_none());
        // QEMU's own threads, as they are seen in the run's namespace.
        let own = tempfile::tempdir().unwrap();
        put(&own.path().join("7/task"), 7, "CPU 0/KVM", (1, PROGRAM), 0, "");
        put(own.path(), 7, "qemu-system-x86", (1, PROGRAM), 0, "");
        fs::write(own.path().join("stat"), "cpu0 0 0 0 0 0 0 0 0 0 0\n").unwrap();
        let probe = Probe::with_proc(Scope::Threads(7), own.path()).unwrap();
        let mut probe = probe.with_workers(&workers.of(7));
        let start = probe.snapshot().unwrap();
        host(proc, 3);
        let end = probe.snapshot().unwrap();
        let (guest, hypervisor) =
            (Interval { start: &start, end: &start }, Interval { start: &start, end: &end });
        let hosting = Hosting::Guest { guest, hypervisor, vcpus: &[7] };
        let found = break_down(&hosting, &vtax_units::CpuSet::default(), 1);
        assert_eq!(found.time(Layer::HypervisorIo), Nanos(6 * crate::tasks::tick().0), "{found:?}");
        assert_eq!(found.total(), found.time(Layer::HypervisorIo));
    }
}
