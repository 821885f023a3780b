//! Descriptors by number, for a child that lets go of what it inherited.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

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
