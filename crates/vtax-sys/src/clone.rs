//! A fork into new namespaces.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::process::Pid;

/// Kinds of namespace, to be combined with `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Namespaces(libc::c_int);

impl Namespaces {
    /// None: a plain fork.
    pub const NONE: Self = Self(0);
    /// Network.
    pub const NET: Self = Self(libc::CLONE_NEWNET);
    /// Process ids; the child is PID 1.
    pub const PID: Self = Self(libc::CLONE_NEWPID);
    /// Mounts.
    pub const MOUNT: Self = Self(libc::CLONE_NEWNS);
    /// System V IPC and POSIX message queues.
    pub const IPC: Self = Self(libc::CLONE_NEWIPC);
    /// Host name.
    pub const UTS: Self = Self(libc::CLONE_NEWUTS);
    /// Users.
    pub const USER: Self = Self(libc::CLONE_NEWUSER);
    /// What a node has: all but users.
    pub const NODE: Self = Self(Self::NET.0 | Self::PID.0 | Self::MOUNT.0 | Self::IPC.0 | Self::UTS.0);

    /// True where every kind of `other` is among these.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Namespaces {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A child as its parent holds it.
#[derive(Debug)]
pub(crate) struct Forked {
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
}

/// Forks into `namespaces`; `None` in the child.
///
/// clone(2) rather than clone3(2): it has all that is needed here, and the seccomp filters of
/// container runtimes answer clone3 with ENOSYS even for a plain fork.
///
/// # Safety
///
/// As after fork(2): where the process has other threads, the child may only make system calls
/// that are async-signal-safe, and must not allocate, until it executes a program.
pub(crate) unsafe fn fork_into(namespaces: Namespaces) -> io::Result<Option<Forked>> {
    let mut pidfd: libc::c_int = -1;
    let flags = libc::c_long::from(namespaces.0 | libc::CLONE_PIDFD | libc::SIGCHLD);
    // SAFETY: no CLONE_VM and no new stack, so the child runs on a copy of this memory; the
    // kernel writes the descriptor to `pidfd`, which outlives the call. The rest is the caller's.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, &raw mut pidfd, 0_usize, 0_usize) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let pid = pid.ok_or_else(|| io::Error::other("clone returned no process id"))?;
            // SAFETY: the kernel has just made this descriptor and nothing else owns it.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Some(Forked { pid, pidfd }))
        }
    }
}

/// Ends this process without running destructors or exit handlers, as a forked child must.
pub(crate) fn end_process(code: u8) -> ! {
    // SAFETY: _exit takes no pointer and does not return.
    unsafe { libc::_exit(code.into()) }
}
