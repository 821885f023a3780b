//! CPUs, clocks and limits.

use rustix::process::{Pid, Resource, Rlimit};
use vtax_units::{CpuSet, Nanos};

use crate::error::{Context, Result, SysError};

pub(crate) fn to_kernel_set(cpus: &CpuSet) -> rustix::thread::CpuSet {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus.iter().filter(|c| *c < rustix::thread::CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    set
}

fn from_kernel_set(set: &rustix::thread::CpuSet) -> CpuSet {
    CpuSet::of((0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)))
}

fn pid_of(pid: i32) -> Result<Pid> {
    Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH).context("find process", pid.to_string())
}

/// The CPUs this thread may run on.
///
/// # Errors
///
/// Where the kernel refuses, which it doesn't.
pub fn allowed_cpus() -> Result<CpuSet> {
    rustix::thread::sched_getaffinity(None).map(|s| from_kernel_set(&s)).context("get CPUs of", "this thread")
}

/// How many CPUs this thread may run on, at least one. A quota of CPU time (`cpu.max` of a control group) takes none of them:
/// native nodes see it and guests don't, and all are to have the same number of workers.
#[must_use]
pub fn allowed_cpu_count() -> u32 {
    allowed_cpus().map_or(1, |cpus| cpus.len().max(1) as u32)
}

/// CPUs whose time a quota leaves to this process (`cpu.max` of a control group, in v1 `cpu.cfs_quota_us`), in whole CPUs; `None` where it
/// has the time of all that it may run on.
#[must_use]
pub fn cpu_quota() -> Option<u32> {
    // The smaller of what affinity and a quota leave.
    let time = u32::try_from(std::thread::available_parallelism().ok()?.get()).ok()?;
    (time < allowed_cpu_count()).then_some(time)
}

/// Binds this thread, and those it starts from now on, to `cpus`.
///
/// # Errors
///
/// EINVAL where none of them may be used.
pub fn bind_this_thread(cpus: &CpuSet) -> Result<()> {
    rustix::thread::sched_setaffinity(None, &to_kernel_set(cpus))
        .context("bind this thread to CPUs", cpus.to_string())
}

/// `struct sched_attr` in its first version (sched_setattr(2)).
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Priority asked for: clearly above other programs, not the highest there is.
const NICE: i32 = -15;

/// Has this thread run before every ordinary one as soon as it wakes (SCHED_RR, the lowest real-time
/// priority), or else with a high ordinary priority. For threads that watch others and need microseconds:
/// heartbeats and who listens to them. Threads and processes it starts are ordinary again.
///
/// # Errors
///
/// Where neither is granted.
pub fn react_at_once() -> Result<()> {
    /// `SCHED_FLAG_RESET_ON_FORK` (sched_setattr(2)).
    const RESET_ON_FORK: u64 = 1;
    let ask = |policy: i32, priority: u32, nice: i32| {
        let size = std::mem::size_of::<SchedAttr>() as u32;
        let policy = policy.cast_unsigned();
        let attr = SchedAttr { size, policy, priority, nice, flags: RESET_ON_FORK, ..SchedAttr::default() };
        // SAFETY: 0 is the calling thread; `attr` is a readable sched_attr of the size it says, and
        // the kernel only reads it.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
        if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    ask(libc::SCHED_RR, 1, 0)
        .or_else(|_| ask(libc::SCHED_OTHER, 0, NICE))
        .context("set priority of", "this thread")
}

/// Asks that this thread runs soon after it wakes, before other programs on its CPU: a short time
/// slice (Linux 6.12 and later let it preempt longer ones) and, where this user may, a high
/// priority. It stays an ordinary thread that can't starve the machine, as a real-time one could.
///
/// # Errors
///
/// Where neither is granted.
pub fn prefer_low_latency() -> Result<()> {
    /// The shortest slice the kernel takes, in nanoseconds (kernel document `sched-eevdf`).
    const SLICE_NS: u64 = 100_000;
    let ask = |nice: i32| {
        let size = std::mem::size_of::<SchedAttr>() as u32;
        let attr = SchedAttr { size, nice, runtime: SLICE_NS, ..SchedAttr::default() };
        // SAFETY: 0 is the calling thread; `attr` is a readable sched_attr of the size it says, and
        // the kernel only reads it.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
        if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    ask(NICE).or_else(|_| ask(0)).context("set priority of", "this thread")?;
    // With autogroups, priorities count only within a session, and sessions share a CPU equally
    // (sched(7)). A session of this process's own may have a priority too; that of a user's shell
    // must be left as it is.
    if leads_its_session() {
        // Kernels without autogroups have no such file.
        let _ = std::fs::write("/proc/self/autogroup", NICE.to_string());
    }
    Ok(())
}

/// Whether this process leads its session. The leader may live outside this PID namespace, and then
/// its id is 0 here (`pid_namespaces`(7)), which rustix takes for impossible.
fn leads_its_session() -> bool {
    // SAFETY: getsid takes a number, 0 for the calling process, and touches no memory.
    let leader = unsafe { libc::getsid(0) };
    leader == rustix::process::getpid().as_raw_nonzero().get()
}

/// The CPUs a process's first thread may run on.
///
/// # Errors
///
/// Where there is no such process.
pub fn cpus_of(pid: i32) -> Result<CpuSet> {
    rustix::thread::sched_getaffinity(Some(pid_of(pid)?))
        .map(|s| from_kernel_set(&s))
        .context("get CPUs of process", pid.to_string())
}

/// The CPU on which a process's first thread runs, or ran last.
///
/// # Errors
///
/// Where there is no such process.
pub fn last_cpu_of(pid: i32) -> Result<usize> {
    let stat =
        std::fs::read_to_string(format!("/proc/{pid}/stat")).context("look at process", pid.to_string())?;
    // proc_pid_stat(5): field 39 of all; the second is a name in brackets that may hold anything, and the third follows it.
    let processor = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(39 - 3));
    processor.and_then(|text| text.parse().ok()).ok_or_else(|| SysError::Unexpected {
        operation: "look at a process's CPU",
        what: stat.trim().to_owned(),
    })
}

/// Binds every thread of a process to `cpus`, also those that it starts meanwhile.
///
/// # Errors
///
/// Where the process is gone, isn't ours, or none of the CPUs may be used.
pub fn bind_process(pid: i32, cpus: &CpuSet) -> Result<()> {
    let set = to_kernel_set(cpus);
    let object = || format!("{pid} to {cpus}");
    // A thread started while we go through the list inherits from one we may not have reached;
    // the second pass finds those.
    for _ in 0..2 {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).context("bind process", object())?;
        for thread in threads.flatten() {
            let Some(id) = thread.file_name().to_str().and_then(|n| n.parse().ok()) else { continue };
            match rustix::thread::sched_setaffinity(Some(pid_of(id)?), &set) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(e) => return Err(e).context("bind process", object()),
            }
        }
    }
    Ok(())
}

/// Turns all CPUs of this machine off but the first so many: for a guest, which may have been lent some.
///
/// # Errors
///
/// Where the kernel turns none off.
pub fn keep_first_cpus(count: usize) -> Result<()> {
    for cpu in count.max(1).. {
        match std::fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), "0") {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => break,
            Err(e) => return Err(e).context("turn off CPU", cpu.to_string()),
        }
    }
    Ok(())
}

/// The CPUs that share a core with `cpu`, itself included; only itself where that isn't known.
#[must_use]
pub fn core_siblings(cpu: usize) -> CpuSet {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let list = std::fs::read_to_string(path).ok().and_then(|text| text.parse::<CpuSet>().ok());
    list.filter(|set| set.contains(cpu)).unwrap_or_else(|| CpuSet::of([cpu]))
}

/// CLOCK_MONOTONIC: the clock all intended starts and samples of one host are given in.
#[must_use]
pub fn monotonic() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
}

/// CLOCK_REALTIME: the clock of the stamps that the kernel puts on datagrams.
#[must_use]
pub fn realtime() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Nanos(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
}

/// Raises the limit on open descriptors as far as allowed, at most to `wanted`; returns the limit.
///
/// # Errors
///
/// Where the kernel refuses.
pub fn raise_open_files(wanted: u64) -> Result<u64> {
    let now = rustix::process::getrlimit(Resource::Nofile);
    if now.current.is_none_or(|c| c >= wanted) {
        return Ok(now.current.unwrap_or(u64::MAX));
    }
    let beyond = now.maximum.is_some_and(|m| m < wanted);
    if beyond {
        // Root may raise the hard limit too.
        let both = Rlimit { current: Some(wanted), maximum: Some(wanted) };
        if rustix::process::setrlimit(Resource::Nofile, both).is_ok() {
            return Ok(wanted);
        }
    }
    let reachable = now.maximum.map_or(wanted, |m| m.min(wanted));
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(reachable), maximum: now.maximum })
        .context("raise limit on", "open files")?;
    Ok(reachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_sets_round_trip() {
        let set = CpuSet::of([0, 3, 64, 1023]);
        assert_eq!(from_kernel_set(&to_kernel_set(&set)), set);
    }

    #[test]
    fn this_process_may_run_somewhere() {
        let cpus = allowed_cpus().unwrap();
        assert!(!cpus.is_empty());
        assert_eq!(allowed_cpu_count() as usize, cpus.len());
        assert!(!cpus_of(i32::try_from(std::process::id()).unwrap()).unwrap().is_empty());
    }

    #[test]
    fn a_process_is_seen_on_its_cpu() {
        let cpu = allowed_cpus().unwrap().iter().last().unwrap();
        let busy = ["-c", "while :; do :; done"];
        let mut child = std::process::Command::new("sh").args(busy).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        bind_process(pid, &CpuSet::of([cpu])).unwrap();
        let seen = (0..1_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            last_cpu_of(pid).unwrap() == cpu
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen);
        assert!(last_cpu_of(i32::MAX).is_err());
    }

    #[test]
    fn the_clock_goes_on() {
        let before = monotonic();
        assert!(monotonic() >= before && before > Nanos::ZERO);
    }
}
