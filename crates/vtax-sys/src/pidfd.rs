//! Processes held by descriptor: no race with a process id that was given to another.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use crate::error::{Context, Result, SysError};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessExit {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// Another has reaped it, so nobody here knows.
    Unknown,
}

impl ProcessExit {
    /// True for exit code 0.
    #[must_use]
    pub const fn success(self) -> bool {
        matches!(self, Self::Exited(0))
    }

    /// The code a shell would give: the exit code, or 128 + signal.
    #[must_use]
    pub fn code(self) -> u8 {
        let code = match self {
            Self::Exited(code) => code,
            Self::Signalled(signal) => 128 + signal,
            Self::Unknown => 255,
        };
        u8::try_from(code & 0xff).unwrap_or(u8::MAX)
    }
}

impl std::fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Signalled(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("an unknown exit status"),
        }
    }
}

/// A process, held by descriptor.
#[derive(Debug)]
pub struct PidFd {
    pid: Pid,
    fd: OwnedFd,
}

impl PidFd {
    pub(crate) const fn new(pid: Pid, fd: OwnedFd) -> Self {
        Self { pid, fd }
    }

    /// Holds the process with this id.
    ///
    /// # Errors
    ///
    /// Where there is no such process.
    pub fn open(pid: i32) -> Result<Self> {
        let raw = Pid::from_raw(pid).ok_or(Errno::SRCH).context("hold process", pid.to_string())?;
        let fd =
            rustix::process::pidfd_open(raw, PidfdFlags::empty()).context("hold process", pid.to_string())?;
        Ok(Self { pid: raw, fd })
    }

    /// The process id, as seen from this PID namespace.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Sends a signal; a process that is gone already is no error.
    ///
    /// # Errors
    ///
    /// Where the signal may not be sent.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        match rustix::process::pidfd_send_signal(&self.fd, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(e) => Err(e).context("signal process", self.pid().to_string()),
        }
    }

    /// Kills the process at once; where it is PID 1 of a namespace, all in there die with it.
    ///
    /// # Errors
    ///
    /// Where the signal may not be sent.
    pub fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL)
    }

    /// Waits for the end of this child and reaps it.
    ///
    /// # Errors
    ///
    /// Where it isn't a child of this process or was reaped already.
    pub fn wait(&self) -> Result<ProcessExit> {
        loop {
            match rustix::process::waitid(WaitId::PidFd(self.fd.as_fd()), WaitIdOptions::EXITED) {
                Ok(Some(status)) => {
                    return Ok(match (status.exit_status(), status.terminating_signal()) {
                        (Some(code), _) => ProcessExit::Exited(code),
                        (None, signal) => signal.map_or(ProcessExit::Unknown, ProcessExit::Signalled),
                    });
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(e) => return Err(e).context("wait for process", self.pid().to_string()),
            }
        }
    }

    /// Waits at most `timeout` for the end, without reaping; true where the process has ended.
    ///
    /// # Errors
    ///
    /// Where poll(2) fails.
    pub fn ended_within(&self, timeout: Duration) -> Result<bool> {
        let until = Instant::now() + timeout;
        loop {
            let left = Timespec::try_from(until.saturating_duration_since(Instant::now()))
                .unwrap_or(Timespec { tv_sec: i64::from(i32::MAX), tv_nsec: 0 });
            match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&left)) {
                Ok(n) => return Ok(n > 0),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e).context("watch process", self.pid().to_string()),
            }
        }
    }

    /// Kills this child, waits and reaps it; one that was reaped elsewhere is no error.
    ///
    /// # Errors
    ///
    /// Where it may not be killed, or is still there after `timeout`.
    pub fn kill_and_reap(&self, timeout: Duration) -> Result<()> {
        self.kill()?;
        if !self.ended_within(timeout)? {
            return Err(SysError::TimedOut {
                operation: "wait for the end of killed process",
                object: self.pid().to_string(),
                seconds: timeout.as_secs_f64(),
            });
        }
        match self.wait() {
            Err(e) if e.errno() == Some(libc::ECHILD) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
