//! Taking snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use vtax_sys::sched::monotonic;
use vtax_units::Nanos;

use crate::error::ProbeError;
use crate::parse;
use crate::tasks::{TaskReader, optional, read_file, tick};
use crate::types::{Snapshot, TaskTimes};
use crate::workers::{WorkerReader, Workers};

/// Which processes or threads a probe watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Every process visible in `/proc`, kernel threads left out. For a node, whose PID namespace
    /// holds the service and the agent only.
    Node {
        /// Processes that are not the service: the agent. See [`Snapshot::supervisors`].
        except: Vec<u32>,
    },
    /// These processes with all descendants they have or had since the probe began.
    Processes(Vec<u32>),
    /// What an agent without a PID namespace of its own has started, as [`Processes`](Self::Processes).
    Started {
        /// Its services.
        roots: Vec<u32>,
        /// The agent itself, without what descends from it. See [`Snapshot::supervisors`].
        by: u32,
    },
    /// The threads of one process; the time of threads that ended stands as one task with id 0.
    Threads(u32),
}

/// More tasks than this are left out of a snapshot.
const MOST_TASKS: usize = 4096;
/// Share of time a probe may spend looking for new descendants: 1 in this many.
const SEARCH_SHARE: u32 = 200;
/// New descendants are looked for at least this often.
const SEARCH_AT_LEAST: Duration = Duration::from_secs(60);
/// Name of the task that stands for a process's ended threads.
const ENDED_THREADS: &str = "ended threads";

/// Takes snapshots of one scope.
///
/// It keeps descriptors and buffers, so a snapshot costs little more than what the kernel needs to
/// print its figures.
#[derive(Debug)]
pub struct Probe {
    scope: Scope,
    proc: PathBuf,
    stat: File,
    meminfo: Option<File>,
    net: Option<File>,
    disks: Option<File>,
    tasks: TaskReader,
    workers: Option<WorkerReader>,
    kernel_threads: BTreeSet<u32>,
    family: Family,
    buffer: Vec<u8>,
}

/// The descendants that have been found of a scope's processes.
#[derive(Debug, Default)]
struct Family {
    /// Process id to start time, which together name a process for good.
    members: BTreeMap<u32, u64>,
    /// No search before this moment; `None` before the first.
    next_search: Option<Instant>,
}

impl Probe {
    /// Opens a probe of the kernel and the namespaces that this process is in.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Read`] where `/proc/stat` can't be opened.
    pub fn new(scope: Scope) -> Result<Self, ProbeError> {
        Self::with_proc(scope, Path::new("/proc"))
    }

    /// Opens a probe that reads from another directory than `/proc`: a recorded one, or that of
    /// another PID namespace.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Read`] where its `stat` can't be opened.
    pub fn with_proc(scope: Scope, proc: &Path) -> Result<Self, ProbeError> {
        let path = proc.join("stat");
        let stat = File::open(&path).map_err(|source| ProbeError::Read { path, source })?;
        let tasks = match scope {
            Scope::Threads(pid) => TaskReader::threads(proc, pid),
            Scope::Node { .. } | Scope::Processes(_) | Scope::Started { .. } => TaskReader::processes(proc),
        };
        Ok(Self {
            scope,
            stat,
            meminfo: optional(proc, "meminfo"),
            net: optional(proc, "net/dev"),
            disks: optional(proc, "diskstats"),
            tasks,
            workers: None,
            proc: proc.to_owned(),
            kernel_threads: BTreeSet::new(),
            family: Family::default(),
            buffer: vec![0; 16 << 10],
        })
    }

    /// The probe with threads of the kernel that work for the scope's processes, as one more task.
    #[must_use]
    pub fn with_workers(self, workers: &Workers) -> Self {
        Self { workers: workers.reader(), ..self }
    }

    /// Takes a snapshot.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Read`] where `/proc/stat` can't be read, [`ProbeError::Gone`] where the scope
    /// is a process's threads and it has ended. Anything else that is missing is left out.
    pub fn snapshot(&mut self) -> Result<Snapshot, ProbeError> {
        let mut snapshot = Snapshot { at: monotonic(), ..Snapshot::default() };
        let text = read_file(&self.stat, &mut self.buffer)
            .map_err(|source| ProbeError::Read { path: self.proc.join("stat"), source })?;
        parse::cpus(text, tick(), &mut snapshot.cpus);
        match self.scope.clone() {
            Scope::Node { except } => self.node(&except, &mut snapshot),
            Scope::Processes(roots) => self.processes(&roots, &mut snapshot),
            Scope::Started { roots, by } => {
                snapshot.supervisors.extend(self.tasks.read(by).map(|seen| seen.times));
                self.processes(&roots, &mut snapshot);
            }
            Scope::Threads(pid) => self.threads(pid, &mut snapshot)?,
        }
        snapshot.tasks.extend(self.workers.as_mut().map(WorkerReader::read));
        if let Some(Ok(text)) = self.meminfo.as_ref().map(|f| read_file(f, &mut self.buffer)) {
            snapshot.memory = parse::memory(text);
        }
        if let Some(Ok(text)) = self.net.as_ref().map(|f| read_file(f, &mut self.buffer)) {
            parse::interfaces(text, &mut snapshot.interfaces);
        }
        if let Some(Ok(text)) = self.disks.as_ref().map(|f| read_file(f, &mut self.buffer)) {
            parse::disks(text, &mut snapshot.disks);
        }
        Ok(snapshot)
    }

    fn node(&mut self, except: &[u32], snapshot: &mut Snapshot) {
        for pid in self.tasks.ids() {
            if self.kernel_threads.contains(&pid) {
                continue;
            }
            let Some(seen) = self.tasks.read(pid) else { continue };
            if seen.kernel_thread {
                // It stays one for as long as it lives; not reading it again keeps a probe inside
                // a guest cheap. Few kernel threads end, and their ids are not soon given away.
                self.kernel_threads.insert(pid);
                self.tasks.forget(pid);
            } else if except.contains(&pid) {
                snapshot.supervisors.push(seen.times);
            } else if snapshot.tasks.len() < MOST_TASKS {
                snapshot.tasks.push(seen.times);
            }
        }
    }

    fn processes(&mut self, roots: &[u32], snapshot: &mut Snapshot) {
        self.search_family(roots);
        let members: Vec<(u32, u64)> = self.family.members.iter().map(|(p, s)| (*p, *s)).collect();
        for (pid, start) in members {
            if let Some(seen) = self.tasks.read(pid).filter(|seen| seen.start == start) {
                snapshot.tasks.push(seen.times);
            } else {
                self.family.members.remove(&pid);
                self.tasks.forget(pid);
            }
        }
    }

    /// Finds descendants that came since the last search.
    ///
    /// It has to look at every process there is, so on a host with thousands of them it searches
    /// less often than it samples. A descendant stays a member when its parent ends.
    fn search_family(&mut self, roots: &[u32]) {
        let begun = Instant::now();
        let first = match self.family.next_search {
            None => true,
            Some(next) if begun < next => return,
            Some(_) => false,
        };
        let mut all = BTreeMap::new();
        for pid in self.tasks.ids() {
            if let Some(seen) = self.tasks.glance(pid) {
                all.insert(pid, seen);
            }
        }
        let members = &mut self.family.members;
        if first {
            // Only now: later a root's id may be another process's.
            members.extend(roots.iter().filter_map(|pid| Some((*pid, all.get(pid)?.1))));
        }
        // Children mostly have higher ids than their parents, so one turn finds nearly all.
        let mut before = usize::MAX;
        while members.len() != before && members.len() < MOST_TASKS {
            before = members.len();
            for (&pid, &(parent, start)) in &all {
                if members.contains_key(&parent) {
                    members.entry(pid).or_insert(start);
                }
            }
        }
        let pause = begun.elapsed().saturating_mul(SEARCH_SHARE).min(SEARCH_AT_LEAST);
        self.family.next_search = Some(begun + pause);
    }

    fn threads(&mut self, pid: u32, snapshot: &mut Snapshot) -> Result<(), ProbeError> {
        for id in self.tasks.ids().into_iter().take(MOST_TASKS) {
            // Of a thread, its `stat` holds the process's memory and children.
            let Some(TaskTimes { id, name, user, system, guest, .. }) = self.tasks.read(id).map(|s| s.times)
            else {
                continue;
            };
            snapshot.tasks.push(TaskTimes { id, name, user, system, guest, ..TaskTimes::default() });
        }
        // The process comes last: what its threads do meanwhile may only make its total larger,
        // and a total smaller than the threads' sum would hide ended threads.
        let path = self.proc.join(pid.to_string()).join("stat");
        let stat = File::open(path).map_err(|_| ProbeError::Gone { pid })?;
        let text = read_file(&stat, &mut self.buffer).map_err(|_| ProbeError::Gone { pid })?;
        let process = parse::task(text).ok_or(ProbeError::Gone { pid })?;
        let ticks = |n: u64| Nanos(n.saturating_mul(tick().0));
        let (all, system) = (ticks(process.user.saturating_add(process.system)), ticks(process.system));
        let all = self.tasks.process_run_time(pid).map_or(all, |exact| exact.max(all));
        snapshot.tasks.extend(ended_threads(&snapshot.tasks, all, system));
        Ok(())
    }
}

/// What a process used beyond its living threads, as a task of its own.
fn ended_threads(living: &[TaskTimes], all: Nanos, system: Nanos) -> Option<TaskTimes> {
    let sum = |times: &mut dyn Iterator<Item = Nanos>| times.fold(0u64, |sum, t| sum.saturating_add(t.0));
    let used = sum(&mut living.iter().flat_map(|t| [t.user, t.guest, t.system]));
    let used_system = sum(&mut living.iter().map(|t| t.system));
    let ended = all.0.checked_sub(used).filter(|ended| *ended > 0)?;
    let system = system.0.saturating_sub(used_system).min(ended);
    Some(TaskTimes {
        name: ENDED_THREADS.to_owned(),
        user: Nanos(ended - system),
        system: Nanos(system),
        ..TaskTimes::default()
    })
}
