//! The keeper: removes a run's control groups once the run is over, however it ended.
//!
//! Control groups are the one thing that outlives the controller's namespaces. A small process
//! outside of them waits at a pipe whose other end only the front process and the controller
//! hold; when both are gone, even by kill -9, it cleans up and ends.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use super::RunGroups;
use crate::clone::{Namespaces, end_process, fork_into};
use crate::error::{Context, Result, SysError};
use crate::pidfd::{PidFd, ProcessExit};

/// How long the keeper tries to remove what is busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// The keeper, held by the front process and (as a copy) by the controller.
#[derive(Debug)]
pub struct Keeper {
    life: Option<OwnedFd>,
    process: PidFd,
}

impl Keeper {
    /// Forks the keeper of these groups, which needn't be there yet. Call it before the controller is started.
    ///
    /// # Errors
    ///
    /// Where this process has threads or can't fork.
    pub(super) fn start(groups: &RunGroups) -> Result<Self> {
        let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        if threads != 1 {
            return Err(SysError::HasThreads { threads });
        }
        let (end, life) = pipe_with(PipeFlags::CLOEXEC).context("open", "pipe")?;
        // SAFETY: this process has one thread, as checked above, so the child may do everything.
        let forked = unsafe { fork_into(Namespaces::NONE) }.context("fork", "keeper of control groups")?;
        let Some(child) = forked else {
            drop(life);
            keep(&end, groups)
        };
        Ok(Self { life: Some(life), process: PidFd::new(child.pid, child.pidfd) })
    }

    /// Its process id.
    pub(super) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Waits until the keeper has removed the groups. The controller must have ended.
    ///
    /// # Errors
    ///
    /// Where something could not be removed.
    pub(super) fn finish(mut self, groups: &RunGroups) -> Result<()> {
        self.life = None;
        match self.process.wait()? {
            ended if ended.success() => return Ok(()),
            ProcessExit::Exited(_) => {}
            // It can't do it any more.
            ProcessExit::Signalled(_) | ProcessExit::Unknown => return groups.remove(PATIENCE),
        }
        Err(SysError::TimedOut {
            operation: "remove control group",
            object: groups.name().to_owned(),
            seconds: PATIENCE.as_secs_f64(),
        })
    }
}

fn keep(end: &OwnedFd, groups: &RunGroups) -> ! {
    let settled = settle(end);
    // Reads nothing but the end of file.
    while settled.is_ok() {
        match rustix::io::read(end, &mut [0_u8; 1]) {
            Ok(0) => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    end_process(u8::from(groups.remove(PATIENCE).is_err()))
}

/// Lets go of everything that belongs to the user: terminal, pipes, directory, signals.
fn settle(end: &OwnedFd) -> Result<()> {
    rustix::process::setsid().context("make", "session")?;
    let _ = rustix::thread::set_name(c"rungroup-keep");
    crate::signals::block_all().context("block", "signals")?;
    let null = rustix::fs::open(c"/dev/null", OFlags::RDWR, Mode::empty()).context("open", "/dev/null")?;
    for stream in 0..3 {
        crate::fds::replace(&null, stream).context("close", "standard streams")?;
    }
    drop(null);
    crate::fds::close_all_but(&[end]).context("close", "descriptors")?;
    rustix::process::chdir(c"/").context("go to", "/")
}
