//! Signals as something to read, and what PID 1 owes to orphans.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::{Signal, WaitOptions};

use crate::error::{Context, Result};
use crate::pidfd::ProcessExit;

/// Signals that are read from a descriptor instead of interrupting the process.
///
/// They stay blocked in every thread started after [`SignalFd::new`], so make it before the
/// first thread. As they are blocked, they reach PID 1 of a namespace too, which the kernel
/// otherwise shields from signals without a handler.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

fn set_of(signals: &[Signal]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set it is given.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: initialised just above.
    let mut set = unsafe { set.assume_init() };
    for signal in signals {
        // SAFETY: the set is initialised and the number is a signal's.
        unsafe { libc::sigaddset(&raw mut set, signal.as_raw()) };
    }
    set
}

fn change_mask(how: libc::c_int, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: `set` is initialised; no old mask is asked for.
    match unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) } {
        0 => Ok(()),
        e => Err(io::Error::from_raw_os_error(e)),
    }
}

/// Unblocks every signal of this thread: a forked child that executes a program calls it, as
/// the mask survives execve(2).
pub(crate) fn unblock_all() -> io::Result<()> {
    change_mask(libc::SIG_SETMASK, &set_of(&[]))
}

/// Blocks every signal that can be blocked, in this thread.
pub(crate) fn block_all() -> io::Result<()> {
    let mut set = set_of(&[]);
    // SAFETY: the set is initialised.
    unsafe { libc::sigfillset(&raw mut set) };
    change_mask(libc::SIG_SETMASK, &set)
}

/// Gives SIGPIPE its default back, which Rust's runtime ignores and execve(2) would pass on.
pub(crate) fn default_sigpipe() {
    // SAFETY: SIG_DFL is a valid disposition and no handler is installed.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

impl SignalFd {
    /// Blocks `signals` in this thread and returns a descriptor to read them from.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses a descriptor.
    pub fn new(signals: &[Signal]) -> Result<Self> {
        let set = set_of(signals);
        change_mask(libc::SIG_BLOCK, &set).context("block", "signals")?;
        // SAFETY: `set` is initialised and outlives the call; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error()).context("open", "signalfd");
        }
        // SAFETY: the kernel has just made this descriptor and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next signal that has come; `None` where there is none yet (poll the descriptor).
    ///
    /// # Errors
    ///
    /// Where reading fails.
    pub fn next(&self) -> Result<Option<Signal>> {
        let mut buffer = [0_u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.0, &mut buffer) {
            // The number is the first field, ssi_signo.
            Ok(n) if n >= 4 => {
                let number = i32::from_ne_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
                Ok(Signal::from_named_raw(number))
            }
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(e) => Err(e).context("read", "signalfd"),
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes this process the parent of orphaned descendants, as PID 1 is anyway.
///
/// # Errors
///
/// Where the kernel refuses.
pub fn become_subreaper() -> Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).context("become", "child subreaper")
}

/// Reaps every child that has ended, without waiting; returns process ids and ends.
///
/// Only for a process that waits for no child elsewhere: a child reaped here is lost to
/// [`PidFd::wait`](crate::pidfd::PidFd::wait).
#[must_use]
pub fn reap_all() -> Vec<(i32, ProcessExit)> {
    let mut ended = Vec::new();
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        let how = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => ProcessExit::Exited(code),
            (None, signal) => signal.map_or(ProcessExit::Unknown, ProcessExit::Signalled),
        };
        ended.push((pid.as_raw_nonzero().get(), how));
    }
    ended
}
