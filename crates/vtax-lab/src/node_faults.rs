//! Faults of a node that isn't a protected pair: kill it, stop it, let it go on.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use vtax_sys::SysError;

use crate::error::{LabError, Result, While};
use crate::node::{Host, Node};

impl Node {
    /// Ends everything in it at once.
    ///
    /// # Errors
    ///
    /// Where a process can't be signalled.
    pub fn kill_all(&self) -> Result<()> {
        self.signal_all(Signal::KILL, "kill")
    }

    /// Stops everything in it.
    ///
    /// # Errors
    ///
    /// As [`kill_all`](Self::kill_all).
    pub fn stop_all(&self) -> Result<()> {
        self.signal_all(Signal::STOP, "stop")
    }

    /// Lets everything that was stopped go on.
    ///
    /// # Errors
    ///
    /// As [`kill_all`](Self::kill_all).
    pub fn wake_all(&self) -> Result<()> {
        self.signal_all(Signal::CONT, "wake")
    }

    fn signal_all(&self, signal: Signal, operation: &'static str) -> Result<()> {
        let what = || format!("{operation} node {}", self.name());
        let refused = match &self.host {
            Some(Host::Pair(_)) | None => Some("it has no processes of its own"),
            Some(Host::Remote(_)) => Some("it is another machine"),
            // Its service would go on.
            _ if self.on_host.is_some() => Some("it shares the host's processes"),
            Some(_) => None,
        };
        if let Some(why) = refused {
            return Err(LabError::Pair { operation, reason: format!("node {}: {why}", self.name()) });
        }
        for pid in self.processes() {
            match kill_process(pid, signal) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(errno) => return Err(SysError::call(operation, pid_text(pid), errno)).during(what),
            }
        }
        Ok(())
    }

    /// Its processes: those in the PID namespace of its first one, where that isn't ours.
    fn processes(&self) -> Vec<Pid> {
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = self.pid();
        let first = Pid::from_raw(own);
        let theirs = namespace(&own.to_string()).filter(|theirs| Some(theirs) != namespace("self").as_ref());
        let Some(theirs) = theirs else { return first.into_iter().collect() };
        let listed = fs::read_dir("/proc").into_iter().flatten().flatten();
        let names = listed.filter_map(|entry| entry.file_name().to_str().map(str::to_owned));
        let inside = names.filter(|name| namespace(name).as_ref() == Some(&theirs));
        inside.filter_map(|name| Pid::from_raw(name.parse().ok()?)).collect()
    }
}

fn pid_text(pid: Pid) -> String {
    format!("process {}", pid.as_raw_nonzero())
}
