//! Reading the CPU time of tasks, with descriptors kept open between snapshots.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use vtax_sys::cpu_clock::process_cpu;
use vtax_units::Nanos;

use crate::parse;
use crate::types::TaskTimes;

/// Descriptors are kept open for at most this many tasks (two each), so that a probe never uses
/// up its process's limit.
const MOST_KEPT: usize = 200;
/// No `/proc` file that is read here is larger, whatever it claims.
const LARGEST_FILE: usize = 4 << 20;
/// More processes or threads are not looked at.
const MOST_IDS: usize = 65_536;

/// One task as it was found.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) times: TaskTimes,
    /// When it started, in ticks since boot; with the id it names a task for good.
    pub(crate) start: u64,
    pub(crate) kernel_thread: bool,
}

/// Where a task's exact run time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunTime {
    /// The CPU clock of the process: all its threads, those that ended included.
    Clock,
    /// `schedstat`: of one thread only, in any PID namespace's `/proc`.
    Schedstat,
    /// Nowhere: `/proc` is another PID namespace's, or made of plain files.
    Nowhere,
}

/// Reads `<dir>/<id>/stat`, and the exact run time beside it.
#[derive(Debug)]
pub(crate) struct TaskReader {
    dir: PathBuf,
    run_time: RunTime,
    kept: BTreeMap<u32, Files>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Files {
    stat: File,
    /// Of a process.
    statm: Option<File>,
    /// Of a thread.
    schedstat: Option<File>,
}

impl TaskReader {
    /// Of the processes below `proc`.
    pub(crate) fn processes(proc: &Path) -> Self {
        let run_time = if proc == Path::new("/proc") { RunTime::Clock } else { RunTime::Nowhere };
        Self { dir: proc.to_owned(), run_time, kept: BTreeMap::new(), buffer: vec![0; 4 << 10] }
    }

    /// Of the threads of one process below `proc`.
    pub(crate) fn threads(proc: &Path, pid: u32) -> Self {
        let dir = proc.join(pid.to_string()).join("task");
        Self { dir, run_time: RunTime::Schedstat, ..Self::processes(proc) }
    }

    /// Of kernel threads below another PID namespace's `proc`: each is a process of its own.
    pub(crate) fn kernel_threads(proc: &Path) -> Self {
        Self { run_time: RunTime::Schedstat, ..Self::processes(proc) }
    }

    /// The ids below the directory, ascending. Descriptors of tasks that went are closed.
    pub(crate) fn ids(&mut self) -> Vec<u32> {
        let mut ids: Vec<u32> = std::fs::read_dir(&self.dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .take(MOST_IDS)
            .collect();
        ids.sort_unstable();
        self.kept.retain(|id, _| ids.binary_search(id).is_ok());
        ids
    }

    /// Reads a task; `None` where there is none any more.
    pub(crate) fn read(&mut self, id: u32) -> Option<Seen> {
        if let Some(files) = self.kept.get(&id) {
            // A descriptor refers to the task it was opened for: once that is gone it reads
            // ESRCH, even where the id was given away again.
            if let Some(seen) = read_task(files, id, self.run_time, &mut self.buffer) {
                return Some(seen);
            }
            self.kept.remove(&id);
        }
        let base = self.dir.join(id.to_string());
        let stat = File::open(base.join("stat")).ok()?;
        let beside = |name: &str| File::open(base.join(name)).ok();
        let (statm, schedstat) = match self.run_time {
            RunTime::Schedstat => (None, beside("schedstat")),
            RunTime::Clock | RunTime::Nowhere => (beside("statm"), None),
        };
        let files = Files { stat, statm, schedstat };
        let seen = read_task(&files, id, self.run_time, &mut self.buffer)?;
        if self.kept.len() < MOST_KEPT {
            self.kept.insert(id, files);
        }
        Some(seen)
    }

    /// The exact run time of a whole process, where it can be had.
    pub(crate) fn process_run_time(&self, pid: u32) -> Option<Nanos> {
        (self.dir.starts_with("/proc")).then(|| process_cpu(pid)).flatten()
    }

    /// Parent and start time of a task, without keeping descriptors.
    pub(crate) fn glance(&mut self, id: u32) -> Option<(u32, u64)> {
        let file = File::open(self.dir.join(id.to_string()).join("stat")).ok()?;
        let task = parse::task(read_file(&file, &mut self.buffer).ok()?)?;
        Some((task.parent, task.start))
    }

    /// Closes the descriptors of a task.
    pub(crate) fn forget(&mut self, id: u32) {
        self.kept.remove(&id);
    }
}

/// Length of the clock tick that `/proc` counts in.
pub(crate) fn tick() -> Nanos {
    Nanos(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

fn read_task(files: &Files, id: u32, source: RunTime, buffer: &mut Vec<u8>) -> Option<Seen> {
    let (tick, page_bytes) = (tick(), rustix::param::page_size() as u64);
    let task = parse::task(read_file(&files.stat, buffer).ok()?)?;
    let time = |ticks: u64| Nanos(ticks.saturating_mul(tick.0));
    let mut seen = Seen {
        times: TaskTimes {
            id,
            name: String::from_utf8_lossy(&task.name[..task.name.len().min(64)]).into_owned(),
            user: time(task.user.saturating_sub(task.guest)),
            system: time(task.system),
            guest: time(task.guest.min(task.user)),
            reaped_user: time(task.reaped_user),
            reaped_system: time(task.reaped_system),
            resident_bytes: task.resident_pages.saturating_mul(page_bytes),
            shared_bytes: 0,
        },
        start: task.start,
        kernel_thread: task.kernel_thread,
    };
    let shared = files.statm.as_ref().and_then(|f| Some(parse::shared_pages(read_file(f, buffer).ok()?)));
    seen.times.shared_bytes = shared.map_or(0, |pages| pages.saturating_mul(page_bytes));
    let run_time = match source {
        RunTime::Clock => process_cpu(id),
        RunTime::Schedstat => {
            files.schedstat.as_ref().and_then(|f| parse::run_time(read_file(f, buffer).ok()?))
        }
        RunTime::Nowhere => None,
    };
    refine(&mut seen.times, run_time);
    Some(seen)
}

/// Makes the total exact.
///
/// The kernel rounds user and system time down to ticks of 10 ms each; their sum before that is
/// the run time. It divides here as the ticks do. One that is smaller was not up to date.
fn refine(times: &mut TaskTimes, run_time: Option<Nanos>) {
    let counted = times.user.0.saturating_add(times.system.0).saturating_add(times.guest.0);
    let Some(extra) = run_time.and_then(|exact| exact.0.checked_sub(counted)) else { return };
    let system = match counted {
        0 => 0,
        _ => u64::try_from(u128::from(extra) * u128::from(times.system.0) / u128::from(counted)).unwrap_or(0),
    };
    times.system.0 = times.system.0.saturating_add(system);
    // A vCPU thread spends its time in the guest; anything else, in user mode.
    let place = if times.guest > times.user { &mut times.guest } else { &mut times.user };
    place.0 = place.0.saturating_add(extra - system);
}

/// Reads a `/proc` file from its start into `buffer`, which grows as needed up to a limit; what
/// lies beyond is left out.
pub(crate) fn read_file<'b>(file: &File, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
    let mut len = 0;
    loop {
        if len == buffer.len() {
            if len >= LARGEST_FILE {
                break;
            }
            buffer.resize((len * 2).max(4 << 10), 0);
        }
        match file.read_at(&mut buffer[len..], len as u64) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(&buffer[..len])
}

/// Opens a file below `dir` that some kernels lack.
pub(crate) fn optional(dir: &Path, name: &str) -> Option<File> {
    File::open(dir.join(name)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(user: u64, system: u64) -> TaskTimes {
        TaskTimes { user: Nanos(user), system: Nanos(system), ..TaskTimes::default() }
    }

    #[test]
    fn the_run_time_is_the_total() {
        let refined = |mut t: TaskTimes, run: Option<u64>| {
            refine(&mut t, run.map(Nanos));
            (t.user.0, t.system.0)
        };
        assert_eq!(refined(times(30, 10), Some(60)), (45, 15));
        assert_eq!(refined(times(30, 10), Some(39)), (30, 10));
        assert_eq!(refined(times(30, 10), None), (30, 10));
        assert_eq!(refined(times(0, 0), Some(7)), (7, 0));
        let max = u64::MAX;
        assert_eq!(refined(times(max, max), Some(max)), (max, max));
    }
}
