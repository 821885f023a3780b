//! Processes of the host that aren't a run's, threads of its kernel among them, and which of them was the busiest.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use vtax_units::Nanos;

use crate::error::ProbeError;
use crate::parse;
use crate::tasks::{read_file, tick};
use crate::workers::{Workers, works_for};

/// More processes are not looked at.
const MOST_PROCESSES: usize = 65_536;
/// The least of a CPU that is worth telling.
const LEAST: f64 = 0.01;
/// Bytes of a name that are kept; the kernel has 15.
const NAME: usize = 64;

/// Looks at the processes of the host outside of a run.
#[derive(Debug)]
pub struct Others {
    /// The host's `/proc`.
    proc: PathBuf,
    /// Keeps it open, where it has no name in this mount namespace.
    held: Option<Arc<OwnedFd>>,
    /// The process that all of the run's descend from, by its number in that `/proc`.
    run: u32,
}

/// What CPU time the processes outside of a run had used at one moment.
#[derive(Debug, Clone)]
pub struct Census {
    at: Instant,
    /// By id and start time, which name a process for good.
    processes: BTreeMap<(u32, u64), Process>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    parent: u32,
    name: String,
    /// It is a thread of the kernel.
    of_kernel: bool,
    /// Ticks of its own.
    used: u64,
    /// Ticks of its children that have ended.
    reaped: u64,
}

/// The process that used the most CPU time.
#[derive(Debug, Clone, PartialEq)]
pub struct Busiest {
    /// Its name, as the kernel has it.
    pub name: String,
    /// It didn't use the time itself: children of it that have ended did.
    pub children: bool,
    /// It is a thread of the kernel, which works for whoever asked it to.
    pub of_kernel: bool,
    /// CPUs' worth of time, on average: 1 is the whole of one CPU.
    pub cpus: f64,
}

impl fmt::Display for Busiest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match (self.children, self.of_kernel) {
            (true, _) => "children of ",
            (false, true) => "kernel thread ",
            (false, false) => "",
        };
        write!(f, "{whose}`{}` ({:.0} % of a CPU)", self.name, 100.0 * self.cpus)
    }
}

impl Others {
    /// Processes outside of the run whose controller this process is; `proc` is the host's `/proc`, which shows more than
    /// this PID namespace.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Read`] where that `/proc` doesn't show this process.
    pub fn of_host(proc: &OwnedFd) -> Result<Self, ProbeError> {
        let failed = |source| ProbeError::Read { path: "self in the host's /proc".into(), source };
        let held = proc.as_fd().try_clone_to_owned().map_err(failed)?;
        let proc = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
        let own = fs::read_link(proc.join("self")).map_err(failed)?;
        let own = own.to_str().and_then(|text| text.parse().ok());
        let own: u32 = own.ok_or_else(|| failed(std::io::ErrorKind::InvalidData.into()))?;
        // The front process is above it.
        let front = read(&proc, own, &mut Vec::new()).map(|(_, process)| process.parent);
        Ok(Self { proc, held: Some(Arc::new(held)), run: front.filter(|pid| *pid > 0).unwrap_or(own) })
    }

    /// Processes outside of a run that this process makes itself, without a PID namespace.
    #[must_use]
    pub fn here() -> Self {
        Self::with_proc(Path::new("/proc"), std::process::id())
    }

    /// Reads from a recorded copy of `/proc`, in which `run` is the run's first process.
    #[must_use]
    pub fn with_proc(proc: &Path, run: u32) -> Self {
        Self { proc: proc.to_owned(), held: None, run }
    }

    /// Threads of the kernel that work for the run's processes at the moment.
    #[must_use]
    pub fn workers(&self) -> Workers {
        Workers::find((self.proc.as_path(), self.held.as_ref()), self.run)
    }

    /// Looks at all of them: some 20 µs for each.
    #[must_use]
    pub fn look(&self) -> Census {
        let at = Instant::now();
        let mut buffer = Vec::new();
        let ids = fs::read_dir(&self.proc).into_iter().flatten().flatten();
        let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let mut processes: BTreeMap<(u32, u64), Process> =
            ids.take(MOST_PROCESSES).filter_map(|id| read(&self.proc, id, &mut buffer)).collect();
        let parents: BTreeMap<u32, u32> = processes.iter().map(|((id, _), p)| (*id, p.parent)).collect();
        let of_run = |id: u32| descends(id, self.run, &parents);
        // What a thread of the kernel does for a process of the run is on that one's account.
        processes.retain(|(id, _), process| !of_run(*id) && !process.works_for().is_some_and(of_run));
        Census { at, processes }
    }
}

impl Process {
    /// The process that it works for, where it is a thread of the kernel that says so.
    fn works_for(&self) -> Option<u32> {
        works_for(&self.name).filter(|_| self.of_kernel)
    }
}

/// A process; `None` for what has gone.
fn read(proc: &Path, id: u32, buffer: &mut Vec<u8>) -> Option<((u32, u64), Process)> {
    let file = File::open(proc.join(id.to_string()).join("stat")).ok()?;
    let task = parse::task(read_file(&file, buffer).ok()?)?;
    let name = String::from_utf8_lossy(&task.name[..task.name.len().min(NAME)]);
    let process = Process {
        parent: task.parent,
        // A program names itself; a terminal must not act on it.
        name: name.chars().map(|c| if c.is_control() { '?' } else { c }).collect(),
        of_kernel: task.kernel_thread,
        used: task.user.saturating_add(task.system),
        reaped: task.reaped_user.saturating_add(task.reaped_system),
    };
    Some(((id, task.start), process))
}

/// Whether a process is the run's first or below it.
fn descends(id: u32, run: u32, parents: &BTreeMap<u32, u32>) -> bool {
    let mut id = id;
    // Read one after the other, parents may form a ring.
    for _ in 0..=parents.len() {
        if id == run {
            return true;
        }
        match parents.get(&id) {
            Some(parent) if *parent != id => id = *parent,
            _ => return false,
        }
    }
    false
}

impl Census {
    /// What processes that have ended since `start` had used before it, by who has waited for them by now: the closest of
    /// their ancestors that is still there.
    fn ended_since(&self, start: &Self) -> BTreeMap<u32, u64> {
        let ended = || start.processes.iter().filter(|(key, _)| !self.processes.contains_key(key));
        let parents: BTreeMap<u32, u32> = ended().map(|((id, _), process)| (*id, process.parent)).collect();
        let mut before: BTreeMap<u32, u64> = BTreeMap::new();
        for (_, process) in ended() {
            let mut heir = process.parent;
            // Read one after the other, parents may form a ring.
            for _ in 0..parents.len() {
                match parents.get(&heir) {
                    Some(parent) => heir = *parent,
                    None => break,
                }
            }
            let sum = before.entry(heir).or_default();
            *sum = sum.saturating_add(process.used).saturating_add(process.reaped);
        }
        before
    }

    /// The process outside of the run that used the most CPU time since `start`; `None` where none used much.
    #[must_use]
    pub fn busiest_since(&self, start: &Self) -> Option<Busiest> {
        let elapsed = self.at.saturating_duration_since(start.at).as_nanos() as f64;
        let before = self.ended_since(start);
        let own = self.processes.iter().map(|(key, process)| {
            let then = start.processes.get(key).map_or(0, |p| p.used);
            (process.used.saturating_sub(then), false, process)
        });
        let children = self.processes.iter().map(|(key, process)| {
            let then = start.processes.get(key).map_or(0, |p| p.reaped);
            let then = then.saturating_add(before.get(&key.0).copied().unwrap_or(0));
            (process.reaped.saturating_sub(then), true, process)
        });
        let (ticks, children, process) = own.chain(children).max_by_key(|(ticks, ..)| *ticks)?;
        let cpus = ticks as f64 * tick().0 as f64 / elapsed.max(1.0);
        let Process { name, of_kernel, .. } = process;
        (cpus >= LEAST).then(|| Busiest { name: name.clone(), children, of_kernel: *of_kernel, cpus })
    }

    /// CPU time, on whatever CPUs, that threads of the kernel have used since `start`; `None` where none can be seen, as in a container.
    #[must_use]
    pub fn kernel_time_since(&self, start: &Self) -> Option<Nanos> {
        let mut threads = self.processes.iter().filter(|(_, process)| process.of_kernel).peekable();
        threads.peek()?;
        let used = threads.map(|(key, process)| {
            process.used.saturating_sub(start.processes.get(key).map_or(0, |before| before.used))
        });
        let ticks = used.fold(0u64, u64::saturating_add);
        Some(Nanos(ticks.saturating_mul(tick().0)))
    }

    /// The census without threads of the kernel.
    #[must_use]
    pub fn without_kernel(mut self) -> Self {
        self.processes.retain(|_, process| !process.of_kernel);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes `/proc/ID/stat` with the fields that matter: parent, ticks, children's ticks, start.
    fn put(proc: &Path, id: u32, name: &str, times: [u64; 4]) {
        put_with(proc, id, (name, 0), times);
    }

    /// A thread of the kernel, a child of `kthreadd`, with its ticks.
    fn put_thread(proc: &Path, id: u32, name: &str, used: u64) {
        put_with(proc, id, (name, 0x20_8040), [2, used, 0, 3]);
    }

    fn put_with(proc: &Path, id: u32, (name, flags): (&str, u32), [parent, used, reaped, start]: [u64; 4]) {
        let directory = proc.join(id.to_string());
        fs::create_dir_all(&directory).unwrap();
        let text = format!(
            "{id} ({name}) S {parent} 0 0 0 0 {flags} 0 0 0 0 {used} 0 {reaped} 0 20 0 1 0 {start} 0 0 0 0 0 0 0 0 0 0 0 0\n"
        );
        fs::write(directory.join("stat"), text).unwrap();
    }

    fn census(proc: &Path, seconds: u64) -> Census {
        let mut census = Others::with_proc(proc, 20).look();
        census.at += std::time::Duration::from_secs(seconds);
        census
    }

    #[test]
    fn the_busiest_process_is_not_one_of_the_runs() {
        let directory = tempfile::tempdir().unwrap();
        let proc = directory.path();
        put(proc, 1, "init", [0, 5_000, 9_000, 0]);
        put(proc, 10, "make", [1, 3, 100, 50]);
        put(proc, 11, "cc1", [10, 40, 0, 60]);
        put(proc, 20, "vtax", [1, 0, 0, 70]);
        put(proc, 21, "nginx", [20, 0, 0, 71]);
        let start = census(proc, 0);
        assert_eq!(start.processes.len(), 3);
        put(proc, 21, "nginx", [20, 900, 0, 71]);
        assert_eq!(census(proc, 10).busiest_since(&start), None);
        put(proc, 12, "evil\u{1b}[31m", [1, 250, 0, 80]);
        let busiest = census(proc, 10).busiest_since(&start).unwrap();
        assert_eq!(busiest.to_string(), "`evil?[31m` (25 % of a CPU)");
        // A compiler that has ended counts for who waited for it, from the start of the measurement on.
        fs::remove_dir_all(proc.join("11")).unwrap();
        put(proc, 10, "make", [1, 3, 100 + 40 + 700, 50]);
        let busiest = census(proc, 10).busiest_since(&start).unwrap();
        assert_eq!(busiest.to_string(), "children of `make` (70 % of a CPU)");
        // Who started `make` waited for it, and so for all that it had waited for.
        put(proc, 5, "bash", [1, 0, 0, 40]);
        put(proc, 6, "time", [5, 0, 0, 45]);
        put(proc, 10, "make", [6, 3, 100, 50]);
        let start = census(proc, 0);
        fs::remove_dir_all(proc.join("6")).unwrap();
        fs::remove_dir_all(proc.join("10")).unwrap();
        put(proc, 5, "bash", [1, 0, 3 + 100 + 600, 40]);
        let busiest = census(proc, 10).busiest_since(&start).unwrap();
        assert_eq!(busiest.to_string(), "children of `bash` (60 % of a CPU)");
        // Another process of the same number is another process.
        put(proc, 12, "again", [1, 300, 0, 90]);
        put(proc, 5, "bash", [1, 0, 0, 40]);
        assert_eq!(census(proc, 10).busiest_since(&start).unwrap().name, "again");
    }

    #[test]
    fn a_busy_thread_of_the_kernel_is_named_and_no_innocent_process() {
        let directory = tempfile::tempdir().unwrap();
        let proc = directory.path();
        put(proc, 1, "init", [0, 0, 0, 0]);
        put(proc, 10, "sshd", [1, 0, 0, 50]);
        put(proc, 20, "vtax", [1, 0, 0, 70]);
        put(proc, 21, "qemu-system-x86", [20, 0, 0, 71]);
        put_thread(proc, 30, "kcryptd", 100);
        put_thread(proc, 31, "vhost-21", 0);
        put_thread(proc, 32, "vhost-10", 0);
        let start = census(proc, 0);
        assert!(!start.processes.contains_key(&(31, 3)), "it is on the account of the run's QEMU");
        assert_eq!(start.processes.len(), 4);
        put(proc, 10, "sshd", [1, 30, 0, 50]);
        put_thread(proc, 30, "kcryptd", 350);
        put_thread(proc, 31, "vhost-21", 900);
        put_thread(proc, 32, "vhost-10", 10);
        let end = census(proc, 10);
        assert_eq!(end.busiest_since(&start).unwrap().to_string(), "kernel thread `kcryptd` (25 % of a CPU)");
        assert_eq!(end.kernel_time_since(&start), Some(Nanos(260 * tick().0)));
        // Where the kernel's threads work for the system under test, one of the others is the busiest.
        let end = end.without_kernel();
        assert_eq!(end.busiest_since(&start).unwrap().to_string(), "`sshd` (3 % of a CPU)");
        assert_eq!(end.kernel_time_since(&start), None, "as where they can't be seen");
    }

    #[test]
    fn this_process_is_its_own_run() {
        let others = Others::here();
        let census = others.look();
        assert!(census.processes.keys().all(|(id, _)| *id != std::process::id()));
        let proc = File::open("/proc").unwrap();
        let of_host = Others::of_host(&proc.into()).unwrap();
        assert_ne!(of_host.run, std::process::id(), "its parent is the front process");
        assert!(of_host.look().processes.keys().all(|(id, _)| *id != std::process::id()));
    }
}
