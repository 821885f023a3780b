//! Threads that watch over others, and the CPU time they use.
//!
//! What watching costs is measured while it is done, by threads that come and go with what they watch over. The kernel
//! forgets a thread's time with the thread, so those that end leave it here.

use std::io;
use std::sync::Mutex;
use std::thread::{Builder, JoinHandle};

use vtax_units::Nanos;

use crate::sync::lock;

#[derive(Debug)]
struct Watchers {
    /// Thread ids of those that run.
    live: Vec<i32>,
    /// CPU time of those that have ended.
    ended: Nanos,
}

static WATCHERS: Mutex<Watchers> = Mutex::new(Watchers { live: Vec::new(), ended: Nanos::ZERO });

/// Starts a thread whose CPU time counts as that of watching.
///
/// # Errors
///
/// Where the kernel has no room for a thread.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(move || {
        let _counted = Counted::new();
        work();
    })
}

/// CPU time of all watchers of this process so far, of those that have ended too.
#[must_use]
pub fn cpu() -> Nanos {
    let watchers = lock(&WATCHERS);
    let live = watchers.live.iter().map(|id| cpu_of_thread(&format!("self/task/{id}")).0);
    Nanos(watchers.ended.0 + live.sum::<u64>())
}

/// CPU time of a thread by its directory below /proc; zero where it is gone.
#[must_use]
pub fn cpu_of_thread(directory: &str) -> Nanos {
    let text = std::fs::read_to_string(format!("/proc/{directory}/schedstat"));
    // Kernel document `sched-stats`: the first number is the time on a CPU in nanoseconds.
    let time = text.unwrap_or_default();
    Nanos(time.split_whitespace().next().and_then(|time| time.parse().ok()).unwrap_or(0))
}

/// The thread that made it is a watcher for as long as this lives.
struct Counted(i32);

impl Counted {
    fn new() -> Self {
        let id = rustix::thread::gettid().as_raw_nonzero().get();
        lock(&WATCHERS).live.push(id);
        Self(id)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut watchers = lock(&WATCHERS);
        watchers.live.retain(|id| *id != self.0);
        watchers.ended.0 += cpu_of_thread("thread-self").0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_thread_outlives_it() {
        let before = cpu();
        let (at_work, working) = std::sync::mpsc::channel();
        let thread = spawn("watcher", move || {
            let mut sum = 0_u64;
            for i in 0..20_000_000_u64 {
                sum = std::hint::black_box(sum ^ i);
            }
            let _ = at_work.send(sum);
        });
        let thread = thread.unwrap();
        working.recv().unwrap();
        let during = cpu();
        thread.join().unwrap();
        let after = cpu();
        assert!(before < during && during <= after, "{before} {during} {after}");
        assert!(after.0 - before.0 > 1_000_000, "{before} {after}");
    }
}
