//! The keeper: removes a run's control groups once the run is over, however it ended.
//!
//! Control groups are the one thing that outlives the controller's namespaces. A small process
//! outside of them waits at a pipe whose other end only the front process and the controller
//! hold. When both have let go of it, even by kill -9, it waits for the controller's end, cleans up and ends.
//!
//! The end of the pipe is not yet the end of the controller: a process that exits closes its files first, and only then does
//! the kernel kill what else is in its PID namespace (`do_exit` of Linux's kernel/exit.c). Until then an OCI runtime there goes
//! on making groups.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use super::{RunGroups, tree};
use crate::clone::{Namespaces, end_process, fork_into};
use crate::controller::{Controller, ControllerOptions, Inside, start_known_controller};
use crate::error::{Context, Result, SysError};
use crate::pidfd::{PidFd, ProcessExit};

/// How long the keeper tries to remove what is busy.
const PATIENCE: Duration = Duration::from_secs(20);
/// Exit code of a keeper that could not become one.
const NEVER_KEPT: u8 = 2;

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

    /// [`start_controller`](crate::controller::start_controller) for the run whose groups these are: none of them is removed
    /// for good while something in the controller's namespaces may still make one.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn start_controller(
        &self,
        options: ControllerOptions,
        main: impl FnOnce(Inside) -> u8,
    ) -> Result<Controller> {
        start_known_controller(options, |controller| self.tell(controller), main)
    }

    /// Tells the keeper which process the controller is. One that was killed can't be told, and is no reason not to start:
    /// the front process then removes the groups.
    fn tell(&self, controller: &PidFd) {
        let identity = Identity::of(controller.pid()).to_bytes();
        let _ = self.life.as_ref().map(|life| rustix::io::write(life, &identity));
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
            ProcessExit::Exited(code) if code != i32::from(NEVER_KEPT) => {}
            // It can't do it any more, or never could.
            ProcessExit::Exited(_) | ProcessExit::Signalled(_) | ProcessExit::Unknown => {
                return groups.remove(PATIENCE);
            }
        }
        Err(SysError::TimedOut {
            operation: "remove control group",
            object: groups.name().to_owned(),
            seconds: PATIENCE.as_secs_f64(),
        })
    }
}

/// A process, named for good: its id alone may be another's by the time that it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    pid: i32,
    /// In clock ticks since boot; 0 where it can't be known.
    started: u64,
}

impl Identity {
    const BYTES: usize = 12;

    fn of(pid: i32) -> Self {
        Self { pid, started: tree::start_time(pid).unwrap_or(0) }
    }

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[4..].copy_from_slice(&self.started.to_ne_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let [a, b, c, d, started @ ..] = bytes;
        Self { pid: i32::from_ne_bytes([a, b, c, d]), started: u64::from_ne_bytes(started) }
    }

    /// The process, where it is still this one.
    fn hold(self) -> Option<PidFd> {
        let held = PidFd::open(self.pid).ok()?;
        (Self::of(self.pid) == self).then_some(held)
    }
}

fn keep(end: &OwnedFd, groups: &RunGroups) -> ! {
    if settle(end).is_err() {
        // The groups are in use. Who started it removes them.
        end_process(NEVER_KEPT);
    }
    let mut controller = None;
    loop {
        let mut told = [0_u8; Identity::BYTES];
        match rustix::io::read(end, &mut told) {
            Ok(Identity::BYTES) => controller = Identity::from_bytes(told).hold(),
            Err(rustix::io::Errno::INTR) => {}
            _ => break,
        }
    }
    if let Some(controller) = controller {
        // One that doesn't end has something in its namespaces that can't be killed: the groups without it can go.
        let _ = controller.ended_within(PATIENCE);
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::spawn::Spawn;

    #[test]
    fn a_keeper_that_never_kept_leaves_the_groups_to_who_started_it() {
        let finished = |code: u8| {
            let script = format!("exit {code}");
            let process = Spawn::new(Path::new("/bin/sh"), ["sh", "-c", &script]).start(|_| Ok(()));
            let keeper = Keeper { life: None, process: process.expect("a shell") };
            // None of them is there.
            keeper.finish(&RunGroups::of_this_process())
        };
        finished(0).expect("it has removed them");
        finished(NEVER_KEPT).expect("they are removed here");
        assert!(finished(1).is_err(), "it could not remove them");
    }

    #[test]
    fn a_process_is_known_by_more_than_its_id() {
        let own = Identity::of(std::process::id().cast_signed());
        assert_eq!(Identity::from_bytes(own.to_bytes()), own);
        assert_eq!(own.hold().map(|held| held.pid()), Some(own.pid));
        assert!(Identity { started: own.started + 1, ..own }.hold().is_none(), "an id given anew");
        assert!(Identity { pid: 0, started: 0 }.hold().is_none());
    }
}
