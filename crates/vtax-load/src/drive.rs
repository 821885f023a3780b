//! What the generators of all families share: threads on CPUs of their own, what these used, and the wait
//! between two looks at events and starts.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use vtax_sys::usage::{CpuTime, thread_cpu};
use vtax_sys::{SysError, sched};
use vtax_units::CpuSet;

use crate::pacing::Pacer;
use crate::{Control, LoadError, timely};

/// The CPUs to run workers on, one each: those asked for, or all that this process may use; at most `most`.
pub(crate) fn worker_cpus(asked: &CpuSet, most: usize) -> Result<Vec<usize>, LoadError> {
    let set = if asked.is_empty() {
        sched::allowed_cpus().map_err(|source| LoadError::Worker { worker: 0, source })?
    } else {
        asked.clone()
    };
    Ok(set.iter().take(most.max(1)).collect())
}

/// Cancels the load for all workers where one fails: others may wait for it.
struct Alarm<'a> {
    control: &'a Control,
    armed: bool,
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.control.cancel();
        }
    }
}

/// Runs each worker in a thread on its CPU and waits for all. What they found comes in their order.
pub(crate) fn launch<W: Send, T: Send>(
    name: &str,
    workers: Vec<(usize, W)>,
    control: &Control,
    run: impl Fn(W) -> Result<T, SysError> + Copy + Send,
) -> Result<Vec<T>, LoadError> {
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(workers.len());
        for (number, (cpu, worker)) in workers.into_iter().enumerate() {
            let work = move || {
                let mut alarm = Alarm { control, armed: true };
                let found = on_cpu(cpu, || run(worker));
                alarm.armed = found.is_err();
                found.map_err(|source| LoadError::Worker { worker: number, source })
            };
            match thread::Builder::new().name(format!("{name}-{number}")).spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    control.cancel();
                    return Err(LoadError::System { operation: "start a thread", source });
                }
            }
        }
        // All of them, before the first error is told.
        let joined: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let each = joined.into_iter().enumerate();
        each.map(|(worker, result)| {
            result.map_err(|payload| LoadError::panicked(worker, &*payload)).and_then(|found| found)
        })
        .collect()
    })
}

fn on_cpu<T>(cpu: usize, work: impl FnOnce() -> Result<T, SysError>) -> Result<T, SysError> {
    sched::bind_this_thread(&CpuSet::of([cpu]))?;
    timely::prepare_thread();
    work()
}

/// How long to wait for events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rest {
    /// The time at which this was decided, in nanoseconds of the worker's clock.
    pub(crate) now: u64,
    /// In nanoseconds; 0: only look.
    pub(crate) sleep: u64,
    /// The end of the wait is the start of a request, for which the pacer learns how late this machine wakes up.
    pub(crate) for_start: bool,
}

impl Rest {
    /// When it is over.
    pub(crate) const fn end(&self) -> u64 {
        self.now.saturating_add(self.sleep)
    }
}

/// A worker's epoll instance, and the pacer that learns from its waits.
#[derive(Debug)]
pub(crate) struct EventLoop {
    epoll: OwnedFd,
    pub(crate) pacer: Pacer,
}

impl EventLoop {
    pub(crate) fn new() -> Result<Self, LoadError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|e| LoadError::System { operation: "create an epoll", source: e.into() })?;
        Ok(Self { epoll, pacer: Pacer::new() })
    }

    /// Another with the same epoll instance, for a worker of the same thread: a wait of either sees the events of both.
    pub(crate) fn sharing(&self) -> Result<Self, LoadError> {
        let epoll = self.epoll.try_clone();
        let epoll = epoll.map_err(|source| LoadError::System { operation: "duplicate an epoll", source })?;
        Ok(Self { epoll, pacer: Pacer::new() })
    }

    /// The descriptor to add connections to.
    pub(crate) fn epoll(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Waits for events; those that came, and the time then, which `clock` tells.
    pub(crate) fn wait<'e>(
        &mut self,
        events: &'e mut [MaybeUninit<epoll::Event>],
        rest: Rest,
        clock: impl Fn() -> u64,
    ) -> Result<(&'e [epoll::Event], u64), SysError> {
        let ready = match epoll::wait(&self.epoll, events, Some(&timespec(rest.sleep))) {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => return Ok((&[], clock())),
            Err(e) => return Err(SysError::call("wait for", "events", e)),
        };
        let now = clock();
        if ready.is_empty() && rest.for_start {
            match rest.sleep {
                0 => self.pacer.polled += now - rest.now,
                _ => self.pacer.slept(rest.now, rest.sleep, now),
            }
        }
        Ok((ready, now))
    }
}

fn timespec(nanos: u64) -> Timespec {
    // Sleeps are fractions of a second, far below what the fields hold.
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

/// What the calling thread has used at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    at: u64,
    cpu: CpuTime,
    displaced: u64,
    polled: u64,
}

/// What a worker used between two moments.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    pub(crate) cpu: CpuTime,
    /// Share of the time it computed, polling for a start excluded.
    pub(crate) busy: f64,
    /// Share of the time it could have run but something else had its CPU.
    pub(crate) displaced: f64,
}

impl Usage {
    /// At `at`, when so much time was spent polling for starts.
    pub(crate) fn now(at: u64, polled: u64) -> Result<Self, SysError> {
        Ok(Self { at, cpu: thread_cpu()?, displaced: displaced(), polled })
    }

    pub(crate) fn since(&self, from: Self) -> Used {
        let wall = self.at.saturating_sub(from.at).max(1) as f64;
        let cpu = self.cpu.since(from.cpu);
        let computed = cpu.total().0.saturating_sub(self.polled - from.polled);
        Used {
            cpu,
            busy: computed as f64 / wall,
            displaced: self.displaced.saturating_sub(from.displaced) as f64 / wall,
        }
    }
}

/// Time this thread could have run but something else had its CPU, in nanoseconds: the second
/// figure of /proc/thread-self/schedstat (kernel document `sched-stats`). 0 where the kernel
/// doesn't keep it.
fn displaced() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|figure| figure.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_worker_that_fails_ends_the_others() {
        let cpu = sched::allowed_cpus().unwrap().iter().next().unwrap();
        let control = Control::new();
        let found = launch("test", vec![(cpu, false), (cpu, true)], &control, |fails| {
            if fails {
                return Err(SysError::call("do", "this", Errno::PERM));
            }
            while !control.is_cancelled() {
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        });
        assert!(matches!(found, Err(LoadError::Worker { worker: 1, .. })), "{found:?}");
        let panicked =
            launch("test", vec![(cpu, ())], &control, |()| -> Result<(), SysError> { panic!("so") });
        assert!(matches!(panicked, Err(LoadError::Panicked { worker: 0, .. })), "{panicked:?}");
    }

    #[test]
    fn what_workers_found_comes_in_their_order() {
        let cpu = sched::allowed_cpus().unwrap().iter().next().unwrap();
        let turn = AtomicUsize::new(2);
        let found = launch("test", vec![(cpu, 0), (cpu, 1), (cpu, 2)], &Control::new(), |number: usize| {
            while turn.load(Ordering::Relaxed) != number {
                thread::yield_now();
            }
            turn.store(number.wrapping_sub(1), Ordering::Relaxed);
            Ok(number)
        });
        assert_eq!(found.unwrap(), [0, 1, 2]);
    }
}
