//! The CPU clock of another process.

use std::mem::MaybeUninit;

use vtax_units::Nanos;

/// CPU time of a process, all its threads and those that ended included, to the nanosecond
/// (clock_getcpuclockid(3)); `None` where there is no such process.
///
/// `/proc/<pid>/stat` has the same figure in ticks of 10 ms, user and kernel rounded down each.
#[must_use]
pub fn process_cpu(pid: u32) -> Option<Nanos> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0)?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a valid place for one clockid_t.
    if unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } != 0 {
        return None;
    }
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel writes one timespec to the pointer, which is valid for that.
    if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: filled by the successful call above.
    let time = unsafe { time.assume_init() };
    Some(Nanos(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_passes_and_nobodys_does_not_exist() {
        let before = process_cpu(std::process::id()).expect("this process exists");
        while process_cpu(std::process::id()).expect("this process exists") == before {}
        assert_eq!(process_cpu(0), None);
        assert_eq!(process_cpu(u32::MAX), None);
    }
}
