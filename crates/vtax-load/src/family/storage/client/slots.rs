//! The operations that may be under way at once, each with its buffer.

use super::super::target::{Done, Failure};

/// Where the data of slots is.
pub(in crate::family::storage) trait Buffers {
    /// The whole buffer of a slot.
    fn of(&self, slot: u16) -> &[u8];
}

/// An operation under way.
#[derive(Debug)]
struct UnderWay<T> {
    task: T,
    /// When it is given up, in nanoseconds of the monotonic clock.
    deadline: u64,
    /// Sent, and not only waiting to be.
    issued: bool,
    /// It is over, but a part of its buffer still waits to be sent.
    held: Option<Result<u32, Failure>>,
}

#[derive(Debug)]
struct Slot<T> {
    buffer: Box<[u8]>,
    under_way: Option<UnderWay<T>>,
    /// Tells its requests apart, so that a late answer isn't taken for another's.
    serial: u16,
}

/// All slots of a worker, with what a client remembers of each operation.
#[derive(Debug)]
pub(in crate::family::storage) struct Slots<T> {
    slots: Box<[Slot<T>]>,
    under_way: usize,
}

impl<T: Copy> Slots<T> {
    /// So many, with buffers of so many bytes.
    pub(in crate::family::storage) fn new(count: u16, bytes: usize) -> Self {
        let slot = |_| Slot { buffer: vec![0; bytes].into_boxed_slice(), under_way: None, serial: 0 };
        Self { slots: (0..count).map(slot).collect(), under_way: 0 }
    }

    pub(in crate::family::storage) fn under_way(&self) -> usize {
        self.under_way
    }

    pub(in crate::family::storage) fn count(&self) -> u16 {
        self.slots.len() as u16
    }

    pub(in crate::family::storage) fn buffer(&mut self, slot: u16) -> &mut [u8] {
        &mut self.slots[usize::from(slot)].buffer
    }

    fn get(&self, slot: u16) -> Option<&UnderWay<T>> {
        self.slots.get(usize::from(slot))?.under_way.as_ref()
    }

    fn get_mut(&mut self, slot: u16) -> Option<&mut UnderWay<T>> {
        self.slots.get_mut(usize::from(slot))?.under_way.as_mut()
    }

    pub(in crate::family::storage) fn task(&self, slot: u16) -> Option<T> {
        self.get(slot).map(|found| found.task)
    }

    pub(in crate::family::storage) fn task_mut(&mut self, slot: u16) -> Option<&mut T> {
        self.get_mut(slot).map(|found| &mut found.task)
    }

    /// True where the slot is there and free.
    pub(in crate::family::storage) fn is_free(&self, slot: u16) -> bool {
        self.slots.get(usize::from(slot)).is_some_and(|slot| slot.under_way.is_none())
    }

    /// Begins an operation in a free slot.
    pub(in crate::family::storage) fn begin(&mut self, slot: u16, task: T, deadline: u64) {
        let slot = &mut self.slots[usize::from(slot)];
        slot.under_way = Some(UnderWay { task, deadline, issued: false, held: None });
        self.under_way += 1;
    }

    /// The operation, or its next part, is sent: its tag, which no other request had lately. The highest bit is
    /// never set, so that tags of other requests are told apart by it.
    pub(in crate::family::storage) fn issue(&mut self, slot: u16) -> u32 {
        if let Some(found) = self.get_mut(slot) {
            found.issued = true;
        }
        let serial = &mut self.slots[usize::from(slot)].serial;
        *serial = serial.wrapping_add(1) & 0x7fff;
        self.tag(slot)
    }

    pub(in crate::family::storage) fn is_issued(&self, slot: u16) -> bool {
        self.get(slot).is_some_and(|found| found.issued)
    }

    /// The tag of a slot's present request.
    pub(in crate::family::storage) fn tag(&self, slot: u16) -> u32 {
        u32::from(self.slots[usize::from(slot)].serial) << 16 | u32::from(slot)
    }

    /// The slot whose present request has this tag and isn't over.
    pub(in crate::family::storage) fn by_tag(&self, tag: u32) -> Option<u16> {
        let slot = tag as u16;
        let found = self.get(slot)?;
        (self.tag(slot) == tag && found.issued && found.held.is_none()).then_some(slot)
    }

    /// Ends a slot's operation. What only waited to be sent never was.
    pub(in crate::family::storage) fn end(
        &mut self,
        slot: u16,
        result: Result<u32, Failure>,
        done: &mut Vec<Done>,
    ) {
        if let Some(ended) = self.slots[usize::from(slot)].under_way.take() {
            self.under_way -= 1;
            done.push(Done { slot, result, sent: ended.issued });
        }
    }

    /// The operation is over, but its end isn't told yet.
    pub(in crate::family::storage) fn hold(&mut self, slot: u16, result: Result<u32, Failure>) {
        if let Some(found) = self.get_mut(slot) {
            found.held = Some(result);
        }
    }

    /// How an operation ended whose end isn't told yet.
    pub(in crate::family::storage) fn held(&self, slot: u16) -> Option<Result<u32, Failure>> {
        self.get(slot)?.held
    }

    /// True where the operation took longer than it may.
    pub(in crate::family::storage) fn is_overdue(&self, slot: u16, now: u64) -> bool {
        self.get(slot).is_some_and(|found| found.deadline <= now && found.held.is_none())
    }

    /// Ends everything as lost, but for what was over.
    pub(in crate::family::storage) fn lose_all(&mut self, done: &mut Vec<Done>) {
        for slot in 0..self.count() {
            let held = self.held(slot);
            self.end(slot, held.unwrap_or(Err(Failure::Lost)), done);
        }
    }
}

impl<T> Buffers for Slots<T> {
    fn of(&self, slot: u16) -> &[u8] {
        &self.slots[usize::from(slot)].buffer
    }
}
