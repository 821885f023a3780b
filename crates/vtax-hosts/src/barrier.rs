//! Hosts that begin at one moment: a barrier over those that were reached.

use std::sync::Mutex;

use vtax_sys::sync::lock;

use crate::message::unix_ns;

/// Between the last host's arrival and the moment when all begin. Each is told in this time, in its own clock.
const LEAD_NS: u64 = 1_000_000_000;

/// Where hosts wait until each that was to come has arrived or is lost.
#[derive(Debug)]
pub struct StartBarrier {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Hosts of which it isn't known yet.
    open: usize,
    at: Option<u64>,
}

impl StartBarrier {
    /// For so many hosts, each of which takes a [`BarrierSeat`].
    #[must_use]
    pub fn new(hosts: usize) -> Self {
        Self { state: Mutex::new(State { open: hosts, at: None }) }
    }

    /// A host's seat. One that is dropped before it arrives was a lost host's, and nobody waits for it.
    pub(crate) fn seat(&self) -> BarrierSeat<'_> {
        BarrierSeat { barrier: self, settled: false }
    }

    fn settle(&self) {
        let mut state = lock(&self.state);
        state.open = state.open.saturating_sub(1);
        if state.open == 0 {
            state.at.get_or_insert_with(|| unix_ns() + LEAD_NS);
        }
    }
}

/// One host's part in it.
#[derive(Debug)]
pub(crate) struct BarrierSeat<'a> {
    barrier: &'a StartBarrier,
    settled: bool,
}

impl BarrierSeat<'_> {
    /// This host is there. Said again it changes nothing.
    pub(crate) fn arrive(&mut self) {
        if !self.settled {
            self.settled = true;
            self.barrier.settle();
        }
    }

    /// When all begin, by this clock in nanoseconds since 1970; `None` as long as some aren't there.
    pub(crate) fn at(&self) -> Option<u64> {
        lock(&self.barrier.state).at
    }
}

impl Drop for BarrierSeat<'_> {
    fn drop(&mut self) {
        self.arrive();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_wait_for_the_last_and_nobody_for_the_lost() {
        let barrier = StartBarrier::new(3);
        let (mut first, mut last, lost) = (barrier.seat(), barrier.seat(), barrier.seat());
        first.arrive();
        first.arrive();
        assert_eq!(first.at(), None);
        drop(lost);
        assert_eq!(first.at(), None, "one is still on its way");
        let before = unix_ns();
        last.arrive();
        let at = first.at().unwrap();
        assert!(at >= before + LEAD_NS && at <= unix_ns() + LEAD_NS);
        drop(first);
        assert_eq!(last.at(), Some(at), "it stays as it is");
    }
}
