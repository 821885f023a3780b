//! The lease watchdog of an agent on another host: where nothing is heard of its controller for a while it ends, and all that it
//! has started with it. A stream ends with its controller, but that of a host whose cable was pulled may stay open for hours.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::Duration;

use vtax_sys::sched;

use crate::node::Node;

/// One end of a stream between hosts that hears nothing for so long takes the other for dead, and ends what it has started.
pub const LEASE: Duration = Duration::from_secs(15);
/// How often an end of such a stream says that it is there.
pub const BEAT: Duration = Duration::from_secs(3);
/// Until the controller is heard first, which it is some seconds after it knows that this program has started.
const FIRST: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(250);
/// What has not stopped by then dies with the agent.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// When the controller has to be heard at the latest, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug, Clone)]
pub(crate) struct Lease(Arc<AtomicU64>);

impl Lease {
    pub(crate) fn new() -> Self {
        let lease = Self(Arc::default());
        lease.extend(FIRST);
        lease
    }

    /// The controller was heard.
    pub(crate) fn renew(&self) {
        self.extend(LEASE);
    }

    fn extend(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(sched::monotonic().0.saturating_add(by), Relaxed);
    }

    fn is_over(&self) -> bool {
        sched::monotonic().0 >= self.0.load(Relaxed)
    }

    /// Watches over it until the process ends.
    pub(crate) fn watch(&self, node: Arc<Node>) -> io::Result<()> {
        let lease = self.clone();
        let watch = move || {
            while !lease.is_over() {
                std::thread::sleep(PAUSE);
            }
            end(node)
        };
        std::thread::Builder::new().name("lease".into()).spawn(watch).map(drop)
    }
}

#[expect(clippy::exit, reason = "other threads may wait for a stream that never ends")]
fn end(node: Arc<Node>) {
    let (stopped, wait) = channel();
    let stop = move || {
        node.stop_everything();
        // Who waited may have given up.
        let _ = stopped.send(());
    };
    if std::thread::Builder::new().name("end".into()).spawn(stop).is_ok() {
        // What is left dies with the process.
        let _ = wait.recv_timeout(STOP_WITHIN);
    }
    std::process::exit(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_runs_from_when_the_controller_was_heard() {
        let lease = Lease::new();
        assert!(!lease.is_over());
        let first = lease.0.load(Relaxed);
        lease.renew();
        let renewed = lease.0.load(Relaxed);
        assert!(renewed < first && !lease.is_over(), "the first time it is longer");
        lease.0.store(sched::monotonic().0, Relaxed);
        assert!(lease.is_over());
    }
}
