//! A worker's connections.

use std::os::fd::OwnedFd;

use vtax_wire::http::ResponseScanner;

const NONE: u32 = u32::MAX;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No request is under way. It may be open, kept alive, or not.
    Ready,
    /// Connecting ahead of the first request.
    Opening,
    /// Connecting, or sending the request.
    Sending,
    /// Waiting for the answer, or within it.
    Receiving,
    /// The answer came; the server is to close first, so that TIME_WAIT is not on this side,
    /// where it would use up local ports.
    Closing,
    /// A connection attempt failed; the next one waits a little.
    Paused,
}

/// A connection, or the room for one.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) fd: Option<OwnedFd>,
    pub(crate) phase: Phase,
    /// No byte was sent on this connection yet.
    pub(crate) fresh: bool,
    pub(crate) scanner: ResponseScanner,
    /// Start of the request (intended, in an open loop), or the end of the pause, in
    /// nanoseconds since the load's epoch.
    pub(crate) start: u64,
    /// Bytes of the request already sent.
    pub(crate) written: u32,
    /// Requests sent on this connection, the present one included.
    pub(crate) served: u32,
    /// Tells events of this connection from those of the one before in the same slot.
    pub(crate) generation: u32,
    previous: u32,
    next: u32,
}

/// All slots of a worker.
#[derive(Debug)]
pub(crate) struct Slots(Vec<Slot>);

/// Some of the slots in order; a slot is in at most one queue. Takes no memory of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    head: u32,
    tail: u32,
}

impl Queue {
    pub(crate) const fn new() -> Self {
        Self { head: NONE, tail: NONE }
    }

    pub(crate) fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub(crate) fn push(&mut self, slots: &mut Slots, id: u32) {
        let slot = slots.get(id);
        (slot.previous, slot.next) = (self.tail, NONE);
        match self.tail {
            NONE => self.head = id,
            tail => slots.get(tail).next = id,
        }
        self.tail = id;
    }

    pub(crate) fn remove(&mut self, slots: &mut Slots, id: u32) {
        let slot = slots.get(id);
        let (previous, next) = (slot.previous, slot.next);
        match previous {
            NONE => self.head = next,
            id => slots.get(id).next = next,
        }
        match next {
            NONE => self.tail = previous,
            id => slots.get(id).previous = previous,
        }
    }
}

impl Slots {
    pub(crate) fn new(count: u32) -> Self {
        let slot = |_| Slot {
            fd: None,
            phase: Phase::Ready,
            fresh: true,
            scanner: ResponseScanner::new(),
            start: 0,
            written: 0,
            served: 0,
            generation: 0,
            previous: NONE,
            next: NONE,
        };
        Self((0..count).map(slot).collect())
    }

    /// The slot. Ids come from this worker alone, so there is always one.
    #[inline]
    pub(crate) fn get(&mut self, id: u32) -> &mut Slot {
        &mut self.0[id as usize]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_queue_behaves_like_a_deque(steps in proptest::collection::vec(0_u32..20, 0..200)) {
            let mut slots = Slots::new(20);
            let mut queue = Queue::new();
            let mut model: Vec<u32> = Vec::new();
            for id in steps {
                if model.contains(&id) {
                    queue.remove(&mut slots, id);
                    model.retain(|other| *other != id);
                } else {
                    queue.push(&mut slots, id);
                    model.push(id);
                }
                prop_assert_eq!(queue.first(), model.first().copied());
            }
            while let Some(id) = queue.first() {
                prop_assert_eq!(id, model.remove(0));
                queue.remove(&mut slots, id);
            }
            prop_assert!(model.is_empty());
        }
    }

    #[test]
    fn a_slot_is_small() {
        // 10,000 connections in 60 MiB leaves 6 KiB each; a slot takes a fraction of it.
        assert!(size_of::<Slot>() <= 160, "{}", size_of::<Slot>());
    }
}
