//! What a child used, known once it has ended.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

use vtax_units::Nanos;

use crate::error::{Context, Result};
use crate::usage::CpuTime;

/// How a child ended and what it used, its own waited-for children included.
#[derive(Debug, Clone, Copy)]
pub struct Reaped {
    /// How it ended.
    pub status: ExitStatus,
    /// CPU time.
    pub cpu: CpuTime,
    /// Largest resident memory of it or one of its children, in bytes.
    pub resident_bytes_max: u64,
}

/// Waits for a child that has not been waited for yet (wait4(2)).
///
/// # Errors
///
/// Where the child has been waited for already.
pub fn wait(child: Child) -> Result<Reaped> {
    let pid = child.id();
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    loop {
        // SAFETY: the kernel writes one int and one rusage to the two pointers, which are valid for that.
        let ended = unsafe { libc::wait4(pid.cast_signed(), &raw mut status, 0, usage.as_mut_ptr()) };
        if ended >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error).context("wait for", format!("process {pid}"));
        }
    }
    // SAFETY: filled by the successful call above.
    let usage = unsafe { usage.assume_init() };
    let time =
        |t: libc::timeval| Nanos(t.tv_sec.unsigned_abs() * 1_000_000_000 + t.tv_usec.unsigned_abs() * 1_000);
    Ok(Reaped {
        status: ExitStatus::from_raw(status),
        cpu: CpuTime { user: time(usage.ru_utime), system: time(usage.ru_stime) },
        // Linux counts it in KiB (getrusage(2)).
        resident_bytes_max: usage.ru_maxrss.unsigned_abs() * 1024,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_is_accounted() {
        let child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        let reaped = wait(child).unwrap();
        assert_eq!(reaped.status.code(), Some(3));
        assert!(reaped.resident_bytes_max > 4096);
    }
}
