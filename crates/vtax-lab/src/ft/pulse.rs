//! Whether a CPU of this machine gets to run anything at the moment.
//!
//! Emulated hosts share a machine, whose CPUs may be taken away by its hypervisor or by programs of a higher rank. A
//! host that falls silent for that reason has not failed: on hardware of its own it would have gone on.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use vtax_sys::{sched, watchers};
use vtax_units::CpuSet;

/// Far more than a thread that goes before ordinary ones needs to be woken on another CPU.
const FELT_WITHIN: Duration = Duration::from_millis(5);

/// A thread of a heart's rank that can be asked to run on a CPU.
#[derive(Debug)]
pub(crate) struct Pulse {
    ask: SyncSender<usize>,
    felt: Receiver<()>,
    /// The last question has no answer yet.
    waiting: bool,
}

impl Pulse {
    /// # Errors
    ///
    /// Where the kernel has no room for a thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (ask, asked) = sync_channel::<usize>(1);
        let (tell, felt) = sync_channel(1);
        // It ends when its channel is closed.
        watchers::spawn("ft-pulse", move || {
            // Refused to ordinary users, to the heart as well.
            let _ = sched::react_at_once();
            while let Ok(cpu) = asked.recv() {
                // Returns on the new CPU. One that can't be used tells nothing against the host.
                let _ = sched::bind_this_thread(&CpuSet::of([cpu]));
                if tell.send(()).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { ask, felt, waiting: false })
    }

    /// Whether something ran on this CPU just now: a heart that had its turn there at the same time has then had it.
    pub(crate) fn is_felt(&mut self, cpu: usize) -> bool {
        if self.waiting && self.felt.try_recv().is_err() {
            return false;
        }
        self.waiting = self.ask.try_send(cpu).is_ok() && self.felt.recv_timeout(FELT_WITHIN).is_err();
        !self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_of_this_machine_has_a_pulse() {
        let mut pulse = Pulse::start().unwrap();
        let cpus = sched::allowed_cpus().unwrap();
        // Not always at once on a busy machine, but soon on each.
        for cpu in cpus.iter() {
            let felt = (0..1_000).any(|_| {
                pulse.is_felt(cpu) || {
                    std::thread::sleep(Duration::from_millis(1));
                    false
                }
            });
            assert!(felt, "CPU {cpu}");
        }
    }
}
