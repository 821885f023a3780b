//! Descriptors by number: what a child is given, and what it lets go of.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::error::{Context, Result};

/// A descriptor that this process was started with under an agreed number.
///
/// What is returned is a duplicate; the original stays open under its number as long as the
/// process lives, but is passed on to no child.
///
/// # Errors
///
/// EBADF where nothing is open under this number.
pub fn inherited(number: RawFd) -> Result<OwnedFd> {
    let object = || format!("descriptor {number}");
    if number < 0 {
        return Err(rustix::io::Errno::BADF).context("take over", object());
    }
    // SAFETY: the number is not negative; it is only given to calls that refuse a number under
    // which nothing is open, and nothing is closed.
    let original = unsafe { BorrowedFd::borrow_raw(number) };
    let copy = rustix::io::fcntl_dupfd_cloexec(original, 3).context("take over", object())?;
    rustix::io::fcntl_setfd(original, rustix::io::FdFlags::CLOEXEC).context("take over", object())?;
    Ok(copy)
}

/// Makes descriptor `number` a copy of `with`.
pub(crate) fn replace(with: &OwnedFd, number: i32) -> io::Result<()> {
    // SAFETY: dup2 takes two numbers; the callers name standard streams only, which no `OwnedFd`
    // of this process owns.
    if unsafe { libc::dup2(with.as_raw_fd(), number) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Closes every descriptor from 3 on except `kept`, for a process that ends by `_exit` and so
/// never drops the owners of the others.
pub(crate) fn close_all_but(kept: &[&OwnedFd]) -> io::Result<()> {
    let kept: Vec<i32> = kept.iter().map(|fd| fd.as_raw_fd()).collect();
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|n| *n > 2 && !kept.contains(n))
        .collect();
    for number in open {
        // SAFETY: takes a number; see above for why no owner is left to use it.
        unsafe { libc::close(number) };
    }
    Ok(())
}
