//! Faults of a node that isn't a protected pair: kill it, stop it, let it go on.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Signal;
use vtax_sys::{PidFd, SysError};

use crate::error::{LabError, Result, While};
use crate::node::{Host, Node};

/// How long what was told to stop may take to. A thread in the middle of a fork, or that waits for a disk, stops when that is over.
const STOP_WITHIN: Duration = Duration::from_secs(2);
/// How often it is looked whether it has.
const PAUSE: Duration = Duration::from_millis(1);

impl Node {
    /// Ends everything in it at once.
    ///
    /// # Errors
    ///
    /// Where a process can't be signalled.
    pub fn kill_all(&self) -> Result<()> {
        self.on_all("kill", |all| all.signal(Signal::KILL, &mut BTreeSet::new()).map(|_| ()))
    }

    /// Stops everything in it. What it forks meanwhile is stopped, too.
    ///
    /// # Errors
    ///
    /// As [`kill_all`](Self::kill_all), or where processes come faster than they can be stopped.
    pub fn stop_all(&self) -> Result<()> {
        self.on_all("stop", Processes::stop)
    }

    /// Lets everything that was stopped go on.
    ///
    /// # Errors
    ///
    /// As [`kill_all`](Self::kill_all).
    pub fn wake_all(&self) -> Result<()> {
        self.on_all("wake", |all| all.signal(Signal::CONT, &mut BTreeSet::new()).map(|_| ()))
    }

    fn on_all(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Processes) -> vtax_sys::Result<()>,
    ) -> Result<()> {
        let refused = match &self.host {
            Some(Host::Pair(_)) | None => Some("it has no processes of its own"),
            Some(Host::Remote(..)) => Some("it is another machine"),
            // Its service would go on.
            _ if self.on_host.is_some() => Some("it shares the host's processes"),
            Some(_) => None,
        };
        if let Some(why) = refused {
            return Err(LabError::Pair { operation, reason: format!("node {}: {why}", self.name()) });
        }
        work(&Processes::of(self.pid())).during(|| format!("{operation} node {}", self.name()))
    }
}

/// The processes of a node: those in the PID namespace of its first one, where that isn't ours, else that one.
#[derive(Debug)]
struct Processes {
    first: i32,
    /// That namespace, where it isn't ours.
    theirs: Option<PathBuf>,
}

impl Processes {
    fn of(first: i32) -> Self {
        let theirs = namespace(&first.to_string());
        Self { first, theirs: theirs.filter(|theirs| Some(theirs) != namespace("self").as_ref()) }
    }

    /// Whether this one is among them.
    fn has(&self, pid: i32) -> bool {
        match &self.theirs {
            Some(theirs) => namespace(&pid.to_string()).as_ref() == Some(theirs),
            None => pid == self.first,
        }
    }

    /// Those that are there now.
    fn ids(&self) -> Vec<i32> {
        if self.theirs.is_none() {
            return vec![self.first];
        }
        let listed = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = listed.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        ids.filter(|pid| self.has(*pid)).collect()
    }

    /// Sends a signal to those that weren't told before; whether there are any. They are `told` then.
    fn signal(&self, signal: Signal, told: &mut BTreeSet<i32>) -> vtax_sys::Result<bool> {
        let before = told.len();
        for pid in self.ids().into_iter().filter(|pid| !told.contains(pid)).collect::<Vec<_>>() {
            let process = match PidFd::open(pid) {
                Err(e) if e.errno() == Some(Errno::SRCH.raw_os_error()) => continue,
                opened => opened?,
            };
            // Before it was held its id may have become another's.
            if self.has(pid) {
                process.signal(signal)?;
                told.insert(pid);
            }
        }
        Ok(told.len() > before)
    }

    /// Stops them. One that forks meanwhile has a child that nobody told, and one that was told may still be in the middle of it.
    fn stop(&self) -> vtax_sys::Result<()> {
        let until = Instant::now() + STOP_WITHIN;
        let mut told = BTreeSet::new();
        loop {
            // Before the others are looked for: what has stopped makes none any more.
            let stopped = told.iter().all(|pid| !self.has(*pid) || has_stopped(*pid));
            let found = self.signal(Signal::STOP, &mut told)?;
            let late = Instant::now() >= until;
            // What still hasn't by then waits for something else than the end of a fork.
            if !found && (stopped || late) {
                return Ok(());
            }
            if late {
                return Err(SysError::TimedOut {
                    operation: "stop all of",
                    object: format!("process {} and what it has started", self.first),
                    seconds: STOP_WITHIN.as_secs_f64(),
                });
            }
            if !found {
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// A process's PID namespace.
fn namespace(pid: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

/// Whether all threads of a process have stopped, or ended (`State`, proc_pid_status(5)).
fn has_stopped(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut states = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    states.all(|status| {
        let state = status.lines().find_map(|line| line.strip_prefix("State:"));
        state.is_some_and(|state| state.trim_start().starts_with(['T', 't', 'Z', 'X']))
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use vtax_sys::require::{Need, installed, need};

    use super::*;

    /// Says which process it is here, and forks for a while.
    const FORKS: &str = "read -r pid rest </proc/self/stat; echo $pid; \
        i=0; while [ $i -lt 300 ]; do sleep 1000 & i=$((i+1)); done; wait";

    #[test]
    fn what_is_forked_while_a_node_is_stopped_is_stopped_too() {
        if !need(&[Need::Ns]) || !installed(&["unshare"]) {
            return;
        }
        let mut unshare = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            unshare.args(["--user", "--map-root-user"]);
        }
        unshare.args(["--pid", "--fork", "--kill-child", "sh", "-c", FORKS]).stdout(Stdio::piped());
        let mut outside = unshare.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(outside.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let all = Processes::of(line.trim().parse().unwrap());
        let ended = all.stop();
        let ids = all.ids();
        let go_on: Vec<i32> = ids.iter().copied().filter(|pid| !has_stopped(*pid)).collect();
        let again = all.ids();
        outside.kill().unwrap();
        outside.wait().unwrap();
        ended.unwrap();
        assert!(all.theirs.is_some() && ids.contains(&all.first), "{all:?}: {ids:?}");
        assert_eq!(go_on, Vec::<i32>::new());
        assert_eq!(again, ids, "some have come since");
    }

    #[test]
    fn a_process_without_a_namespace_of_its_own_is_stopped_alone() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let all = Processes::of(pid);
        let ended = all.stop();
        let stopped = has_stopped(pid);
        child.kill().unwrap();
        let of_dead = all.stop();
        child.wait().unwrap();
        ended.and(of_dead).unwrap();
        assert!(stopped && all.theirs.is_none(), "{all:?}");
        assert_eq!(all.ids(), [pid]);
        assert!(!has_stopped(std::process::id().cast_signed()), "this one runs");
    }
}
