//! CPU time of the calling thread.

use std::io;
use std::mem::MaybeUninit;

use vtax_units::Nanos;

use crate::error::{Context, Result};

/// CPU time used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode.
    pub user: Nanos,
    /// In the kernel.
    pub system: Nanos,
}

impl CpuTime {
    /// Both together.
    #[must_use]
    pub fn total(self) -> Nanos {
        Nanos(self.user.0 + self.system.0)
    }

    /// What was used since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// CPU time this thread has used (getrusage(2), RUSAGE_THREAD).
///
/// # Errors
///
/// Where the kernel refuses, which it doesn't.
pub fn thread_cpu() -> Result<CpuTime> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel writes one rusage to the pointer, which is valid for that.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error()).context("get CPU time of", "this thread");
    }
    // SAFETY: filled by the successful call above.
    let usage = unsafe { usage.assume_init() };
    let time =
        |t: libc::timeval| Nanos(t.tv_sec.unsigned_abs() * 1_000_000_000 + t.tv_usec.unsigned_abs() * 1_000);
    Ok(CpuTime { user: time(usage.ru_utime), system: time(usage.ru_stime) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_cpu_time() {
        let before = thread_cpu().unwrap();
        let mut sum = 0_u64;
        while thread_cpu().unwrap().since(before).total() < Nanos::from_millis(5) {
            sum = sum.wrapping_mul(3).wrapping_add(1);
        }
        assert_ne!(std::hint::black_box(sum), 0);
    }
}
