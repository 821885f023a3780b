//! Network namespaces, held by descriptor.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::error::{Context, Result, SysError};

/// A network namespace that lives as long as this descriptor, or a process in it, does.
#[derive(Debug)]
pub struct NetNs(OwnedFd);

/// Moves the calling thread into a network namespace.
pub(crate) fn enter(namespace: &impl AsFd) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

impl NetNs {
    /// The namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// Where `/proc` isn't mounted.
    pub fn current() -> Result<Self> {
        let path = "/proc/thread-self/ns/net";
        Ok(Self(File::open(path).context("open", path)?.into()))
    }

    /// The namespace of a process.
    ///
    /// # Errors
    ///
    /// Where the process is gone or isn't ours.
    pub fn of_process(pid: i32) -> Result<Self> {
        let path = format!("/proc/{pid}/ns/net");
        Ok(Self(File::open(&path).context("open", path)?.into()))
    }

    /// A new, empty one.
    ///
    /// # Errors
    ///
    /// Where the host refuses.
    pub fn create() -> Result<Self> {
        on_own_thread(|| {
            // SAFETY: only the network namespace of this thread changes; the thread ends with
            // this closure, so no other code is ever run in the wrong namespace, and descriptors
            // stay shared as they are.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
                .map_err(|e| crate::refusal::explain("a new network namespace", e.into()))?;
            Self::current()
        })
    }

    /// Calls `work` in this namespace, on a thread of its own, and waits for it.
    ///
    /// # Errors
    ///
    /// Where the namespace can't be entered or `work` fails.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        on_own_thread(|| {
            enter(&self.0).context("enter", "network namespace")?;
            work()
        })
    }

    /// Another descriptor of the same namespace.
    ///
    /// # Errors
    ///
    /// Where no descriptor is left.
    pub fn try_clone(&self) -> Result<Self> {
        Ok(Self(self.0.try_clone().context("duplicate", "network namespace")?))
    }

    /// The inode number, which tells namespaces apart.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses, which it doesn't.
    pub fn inode(&self) -> Result<u64> {
        Ok(rustix::fs::fstat(&self.0).context("stat", "network namespace")?.st_ino)
    }
}

/// Calls `work` in each of these namespaces in turn, on one thread of its own.
///
/// # Errors
///
/// The first namespace that can't be entered, or the first error of `work`; the rest is not visited.
pub fn visit<'a>(
    namespaces: impl IntoIterator<Item = &'a NetNs> + Send,
    mut work: impl FnMut(usize) -> Result<()> + Send,
) -> Result<()> {
    on_own_thread(|| {
        for (position, namespace) in namespaces.into_iter().enumerate() {
            enter(&namespace.0).context("enter", "network namespace")?;
            work(position)?;
        }
        Ok(())
    })
}

fn on_own_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("netns".into()).stack_size(128 << 10);
        let running = thread.spawn_scoped(scope, work).context("start", "thread")?;
        running.join().unwrap_or_else(|_| {
            Err(SysError::Unexpected { operation: "work in a network namespace", what: "it panicked".into() })
        })
    })
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for NetNs {
    /// A descriptor of another kind is refused where it is used.
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl From<NetNs> for OwnedFd {
    fn from(namespace: NetNs) -> Self {
        namespace.0
    }
}
