//! A worker's connections, and the requests under way on them.

use std::os::fd::OwnedFd;

use super::queue::Queue;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// No request is under way. It may be open, kept alive, or not.
    Ready,
    /// Connecting ahead of the first request.
    Opening,
    /// Requests are under way.
    Busy,
    /// The last answer came; the server is to close first, so that TIME_WAIT is not on this side,
    /// where it would use up local ports.
    Closing,
    /// A connection attempt failed; the next one waits a little.
    Paused,
    /// Its session goes on after a pause. It may be open or not.
    Thinking,
}

/// A connection, or the room for one.
#[derive(Debug)]
pub(super) struct Slot<C> {
    pub(super) fd: Option<OwnedFd>,
    pub(super) phase: Phase,
    /// No byte was sent on this connection yet.
    pub(super) fresh: bool,
    /// It is connected ahead of the first request, and can't take one yet.
    pub(super) greeting: bool,
    /// It is in the list of those that can take a request.
    pub(super) listed: bool,
    /// What the protocol remembers of it.
    pub(super) dialogue: C,
    /// Bytes of requests that the kernel has not taken yet. Takes no memory where it takes all at once.
    pub(super) unsent: Vec<u8>,
    /// Requests sent on this connection, those under way included.
    pub(super) served: u32,
    /// Tells events of this connection from those of the one before in the same slot.
    pub(super) generation: u32,
    /// Where the oldest request under way is in the slot's ring, and how many there are.
    oldest: u32,
    pub(super) under_way: u32,
}

/// All slots of a worker, with a ring of requests for each. Nothing is allocated for a request. Times are
/// nanoseconds since the load's epoch.
#[derive(Debug)]
pub(super) struct Slots<C> {
    slots: Vec<Slot<C>>,
    /// Each slot has a ring of `1 << shift` requests.
    shift: u32,
    /// Requests that may be under way on each.
    depth: u32,
    /// Requests under way, by start (intended, in an open loop).
    under_way: Queue,
    /// Slots that wait, by the end of the wait.
    parked: Queue,
}

impl<C: Default> Slots<C> {
    /// So many slots, each for up to `depth` requests at once.
    pub(super) fn new(count: u32, depth: u32) -> Self {
        let depth = depth.max(1);
        let ring = depth.next_power_of_two();
        let slot = |_| Slot {
            fd: None,
            phase: Phase::Ready,
            fresh: true,
            greeting: false,
            listed: false,
            dialogue: C::default(),
            unsent: Vec::new(),
            served: 0,
            generation: 0,
            oldest: 0,
            under_way: 0,
        };
        Self {
            slots: (0..count).map(slot).collect(),
            shift: ring.trailing_zeros(),
            depth,
            under_way: Queue::new(count as usize * ring as usize),
            parked: Queue::new(count as usize),
        }
    }

    /// The slot. Ids come from this worker alone, so there is always one.
    #[inline]
    pub(super) fn get(&mut self, id: u32) -> &mut Slot<C> {
        &mut self.slots[id as usize]
    }

    /// How many there are; their ids are below that.
    pub(super) fn count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Whether another request may be sent on the slot now.
    pub(super) fn has_room(&self, id: u32) -> bool {
        self.slots[id as usize].under_way < self.depth
    }

    /// Where a request is among those of all slots.
    fn place(&self, id: u32, position: u32) -> u32 {
        (id << self.shift) | (position & ((1 << self.shift) - 1))
    }

    /// A request starts on the slot; there is room for it.
    pub(super) fn push(&mut self, id: u32, start: u64) {
        let slot = &mut self.slots[id as usize];
        let position = slot.oldest.wrapping_add(slot.under_way);
        slot.under_way += 1;
        let place = self.place(id, position);
        self.under_way.push(place, start);
    }

    /// The slot's oldest request under way has ended; its start.
    pub(super) fn pop(&mut self, id: u32) -> Option<u64> {
        let slot = &mut self.slots[id as usize];
        if slot.under_way == 0 {
            return None;
        }
        let position = slot.oldest;
        slot.oldest = slot.oldest.wrapping_add(1);
        slot.under_way -= 1;
        let place = self.place(id, position);
        Some(self.under_way.remove(place))
    }

    /// The request under way that started first: its slot and its start.
    pub(super) fn oldest(&self) -> Option<(u32, u64)> {
        self.under_way.first().map(|(place, start)| (place >> self.shift, start))
    }

    /// The place in its slot of the request under way that started first.
    pub(super) fn oldest_place(&self) -> Option<u32> {
        self.under_way.first().map(|(place, _)| place & ((1 << self.shift) - 1))
    }

    /// A request starts at a place of the slot that is free, below its depth. Of slots whose requests end in any order this, with
    /// [`take`](Self::take), stands for [`push`](Self::push) and [`pop`](Self::pop).
    pub(super) fn put(&mut self, id: u32, place: u32, start: u64) {
        self.slots[id as usize].under_way += 1;
        let place = self.place(id, place);
        self.under_way.push(place, start);
    }

    /// The request at a place of the slot has ended; its start, where there was one.
    pub(super) fn take(&mut self, id: u32, place: u32) -> Option<u64> {
        if place >> self.shift != 0 {
            return None;
        }
        let start = self.under_way.take(self.place(id, place))?;
        self.slots[id as usize].under_way -= 1;
        Some(start)
    }

    /// Takes any request of the slot; its start.
    pub(super) fn take_any(&mut self, id: u32) -> Option<u64> {
        if self.slots[id as usize].under_way == 0 {
            return None;
        }
        (0..1 << self.shift).find_map(|place| self.take(id, place))
    }

    /// The slot waits until then. All waits are equally long, so that they end in order.
    pub(super) fn park(&mut self, id: u32, phase: Phase, until: u64) {
        self.slots[id as usize].phase = phase;
        self.parked.push(id, until);
    }

    /// The slot whose wait ends first, and when.
    pub(super) fn next_parked(&self) -> Option<(u32, u64)> {
        self.parked.first()
    }

    /// The slot waits no more.
    pub(super) fn unpark(&mut self, id: u32) {
        self.parked.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn requests_leave_their_slot_in_order_and_the_oldest_is_known(
            depth in 1_u32..6,
            steps in proptest::collection::vec((0_u32..4, any::<bool>()), 0..200),
        ) {
            let mut slots = Slots::<()>::new(4, depth);
            let mut model: Vec<(u32, u64)> = Vec::new();
            for (start, (id, begins)) in steps.into_iter().enumerate() {
                let under_way = model.iter().filter(|(slot, _)| *slot == id).count();
                prop_assert_eq!(slots.has_room(id), under_way < depth as usize);
                if begins && slots.has_room(id) {
                    slots.push(id, start as u64);
                    model.push((id, start as u64));
                } else {
                    let at = model.iter().position(|(slot, _)| *slot == id);
                    prop_assert_eq!(slots.pop(id), at.map(|at| model.remove(at).1));
                }
                prop_assert_eq!(slots.oldest(), model.first().copied());
            }
        }
    }

    proptest! {
        #[test]
        fn requests_of_any_order_leave_their_places(
            steps in proptest::collection::vec((0_u32..3, 0_u32..8), 0..200),
        ) {
            let mut slots = Slots::<()>::new(3, 6);
            let mut model: Vec<(u32, u32, u64)> = Vec::new();
            for (start, (id, place)) in (0_u64..).zip(steps) {
                let at = model.iter().position(|(slot, own, _)| (*slot, *own) == (id, place));
                match at {
                    Some(at) => prop_assert_eq!(slots.take(id, place), Some(model.remove(at).2)),
                    None => {
                        prop_assert_eq!(slots.take(id, place), None);
                        slots.put(id, place, start);
                        model.push((id, place, start));
                    }
                }
                let oldest = slots.oldest().zip(slots.oldest_place());
                prop_assert_eq!(oldest, model.first().map(|(id, place, start)| ((*id, *start), *place)));
            }
            for id in 0..3 {
                while let Some(start) = slots.take_any(id) {
                    let at = model.iter().position(|(slot, _, own)| (*slot, *own) == (id, start));
                    model.remove(at.unwrap());
                }
            }
            prop_assert!(model.is_empty());
        }
    }

    #[test]
    fn a_slot_is_small() {
        // 10,000 connections in 60 MiB leaves 6 KiB each; a slot takes a fraction of it.
        let bytes = size_of::<Slot<vtax_wire::http::ResponseScanner>>();
        assert!(bytes <= 176, "{bytes}");
    }
}
