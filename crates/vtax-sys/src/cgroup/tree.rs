//! Removing whole trees of groups, and telling which are left over.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::hierarchy;
use crate::error::{Context, Result, SysError};
use crate::pidfd::PidFd;

const PREFIX: &str = "vtax-";
/// Groups of containers in user sessions of containers are hardly deeper.
const DEEPEST: usize = 8;
/// Processes of a group that are held at a time to be killed.
const HELD: usize = 64;

/// When a process was started, in clock ticks since boot; with its id this names a process for good.
#[must_use]
pub fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything; the 20th field after it is the 22nd of all.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn pid_namespace() -> u64 {
    rustix::fs::stat("/proc/self/ns/pid").map_or(0, |s| s.st_ino)
}

/// The name of the groups of the run that this process owns.
pub(super) fn run_name() -> String {
    let pid = std::process::id().cast_signed();
    format!("{PREFIX}{pid}-{}-{}", start_time(pid).unwrap_or(0), pid_namespace())
}

/// Inode of the initial PID namespace (PROC_PID_INIT_INO of `include/linux/proc_ns.h`), from which
/// every process of the host is seen.
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Tells runs whose owner is gone from those that go on.
struct Living {
    /// This process's PID namespace.
    own: u64,
    /// All that have a process in them, where this can be known.
    all: Option<BTreeSet<u64>>,
}

impl Living {
    fn find() -> Self {
        let own = pid_namespace();
        let all = || -> BTreeSet<u64> {
            let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
            let namespace = |p: fs::DirEntry| rustix::fs::stat(p.path().join("ns/pid")).ok();
            processes.filter_map(namespace).map(|s| s.st_ino).collect()
        };
        Self { own, all: (own == INITIAL_PID_NAMESPACE).then(all) }
    }

    /// Whether a directory name is that of a run whose owner is gone.
    fn lacks(&self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(PREFIX) else { return false };
        let numbers: Vec<u64> = rest.split('-').filter_map(|n| n.parse().ok()).collect();
        match numbers[..] {
            _ if rest.split('-').count() != 3 => false,
            [pid, started, home] if home == self.own => {
                i32::try_from(pid).is_ok_and(|pid| start_time(pid) != Some(started))
            }
            // Of a namespace that ended with everything in it, as when a container is killed.
            [_, _, home] => self.all.as_ref().is_some_and(|all| !all.contains(&home)),
            _ => false,
        }
    }
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect()
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|n| n.to_str()).unwrap_or_default()
}

/// Every group that is named as those of runs are, an outer one before those in it.
fn find_groups(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for path in subdirectories(dir) {
        let deeper = (depth < DEEPEST).then(|| path.clone());
        if name_of(&path).starts_with(PREFIX) {
            found.push(path);
        }
        if let Some(path) = deeper {
            find_groups(&path, depth + 1, found);
        }
    }
}

/// The groups whose run's owner is gone, without what is in one of them.
fn left_over(groups: Vec<PathBuf>, living: &Living) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for group in groups {
        if living.lacks(name_of(&group)) && !found.iter().any(|outer| group.starts_with(outer)) {
            found.push(group);
        }
    }
    found
}

/// Removes the groups of runs whose owner is gone; returns how many trees were removed.
///
/// # Errors
///
/// The first tree that could not be removed; the others are removed all the same.
pub fn sweep() -> Result<usize> {
    let mut groups = Vec::new();
    for hierarchy in hierarchy::find() {
        find_groups(&hierarchy.mount, 0, &mut groups);
    }
    // Only now: the owner of each group was there before it, so those that go on are among the living.
    let living = Living::find();
    let mut first_error = None;
    let mut removed = 0;
    for tree in left_over(groups, &living) {
        match remove(&tree, Duration::from_secs(5)) {
            Ok(()) => removed += 1,
            Err(e) => first_error = first_error.or(Some(e)),
        }
    }
    first_error.map_or(Ok(removed), Err)
}

/// The processes in a group.
fn members(dir: &Path) -> io::Result<BTreeSet<i32>> {
    let procs = fs::read_to_string(dir.join("cgroup.procs"))?;
    Ok(procs.lines().filter_map(|l| l.parse().ok()).collect())
}

/// Kills what is in a group, except this process.
///
/// By the time that it is used, a process id may be another's. So processes are held first, and the group is read again:
/// an id that is still in it, or in it anew, is that of the process held, or the one held has ended.
fn kill_members(dir: &Path, own: Pid) {
    let own = own.as_raw_nonzero().get();
    let listed: Vec<i32> = members(dir).unwrap_or_default().into_iter().filter(|pid| *pid != own).collect();
    for some in listed.chunks(HELD) {
        let mut held: Vec<PidFd> = some.iter().filter_map(|pid| PidFd::open(*pid).ok()).collect();
        let again = members(dir).or_else(|_| {
            // Descriptors may have run out: one less is held.
            held.pop();
            members(dir)
        });
        let again = again.unwrap_or_default();
        for process in held.iter().filter(|process| again.contains(&process.pid())) {
            // What may not be killed is told of when the group can't be removed.
            let _ = process.kill();
        }
    }
}

/// Kills what is left in a tree and removes what can be removed; says what stood in the way.
fn remove_once(dir: &Path, own: Pid) -> io::Result<()> {
    let mut result = Ok(());
    for child in subdirectories(dir) {
        result = result.and(remove_once(&child, own));
    }
    kill_members(dir, own);
    match fs::remove_dir(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => result.and(Err(e)),
        _ => result,
    }
}

/// Removes a tree of groups, killing what is still in it except this process.
///
/// # Errors
///
/// Where something is still there after `timeout`.
pub(super) fn remove(tree: &Path, timeout: Duration) -> Result<()> {
    let until = Instant::now() + timeout;
    let own = rustix::process::getpid();
    let mut pause = Duration::from_millis(1);
    loop {
        match remove_once(tree, own) {
            Ok(()) => return Ok(()),
            // A group is busy until the last process in it is reaped.
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {}
            Err(e) => return Err(e).context("remove control group", tree.display().to_string()),
        }
        if Instant::now() > until {
            return Err(SysError::TimedOut {
                operation: "remove control group",
                object: tree.display().to_string(),
                seconds: timeout.as_secs_f64(),
            });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_runs_of_the_dead_are_left_over() {
        let here = pid_namespace();
        let own = std::process::id().cast_signed();
        let started = start_time(own).unwrap();
        let blind = Living { own: here, all: None };
        let seeing = Living { own: here, all: Some(BTreeSet::from([here, 77])) };
        for living in [&blind, &seeing] {
            assert!(!living.lacks(&format!("vtax-{own}-{started}-{here}")), "alive");
            assert!(living.lacks(&format!("vtax-{own}-{}-{here}", started + 1)), "id given anew");
            assert!(living.lacks(&format!("vtax-{}-5-{here}", i32::MAX)), "gone");
            assert!(!living.lacks("vtax-1-5-77"), "alive elsewhere");
            for other in ["vtax-", "vtax-a-b-c", "vtax-1-2", "user.slice", "vtax-5--1", "vtax-5-5-5-x"] {
                assert!(!living.lacks(other), "{other}");
            }
        }
        assert!(!blind.lacks("vtax-1-5-78") && seeing.lacks("vtax-1-5-78"));
    }

    #[test]
    fn a_group_is_left_over_once_and_with_all_in_it() {
        let living = Living { own: pid_namespace(), all: Some(BTreeSet::from([77])) };
        let groups = ["vtax-1-5-78", "vtax-1-5-78/a/vtax-2-5-78", "vtax-1-5-77", "vtax-1-5-77/vtax-3-5-78"];
        let found = left_over(groups.map(|name| Path::new("/g").join(name)).into(), &living);
        assert_eq!(found, ["/g/vtax-1-5-78", "/g/vtax-1-5-77/vtax-3-5-78"].map(PathBuf::from));
    }
}
