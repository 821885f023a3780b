//! What a client keeps of its connection and of the operations under way, whatever it speaks.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use vtax_sys::sched::monotonic;

use super::super::target::{Done, Failure, Shape, StorageError};
use super::batching::AnswerBatching;
use super::outgoing::Outgoing;
use super::reconnect::Reconnect;
use super::slots::Slots;
use super::stream::{LOOK, Stream};

/// Something over one connection.
pub(in crate::family::storage) trait Streamed {
    /// The connection.
    fn stream(&self) -> &Stream;
}

/// The connection `L`, and operations of which `T` is remembered.
#[derive(Debug)]
pub(in crate::family::storage) struct Base<L, T> {
    /// `None` while another is made.
    pub(in crate::family::storage) link: Option<L>,
    pub(in crate::family::storage) reconnect: Option<Reconnect<L>>,
    pub(in crate::family::storage) slots: Slots<T>,
    pub(in crate::family::storage) outgoing: Outgoing,
    /// Operations that aren't sent yet.
    pub(in crate::family::storage) pending: VecDeque<u16>,
    /// Results that the next round tells.
    pub(in crate::family::storage) ready: Vec<Done>,
    /// An operation that takes longer has failed.
    pub(in crate::family::storage) timeout: Duration,
    /// When a sign of life was asked for that isn't answered.
    pub(in crate::family::storage) asked: Option<u64>,
    pub(in crate::family::storage) sent_bytes: u64,
    pub(in crate::family::storage) received_bytes: u64,
    pub(in crate::family::storage) connections: u64,
    pub(super) batching: AnswerBatching,
    /// Starts have times of their own, which no sleep may go beyond.
    pub(super) punctual: bool,
    /// When something was last seen to have arrived, and how much had by then.
    heard: u64,
    heard_bytes: u64,
    /// When deadlines are looked at next.
    next_look: u64,
    /// Some operations are over, but held back.
    holds: bool,
    first_failure: Option<String>,
}

impl<L: Streamed + Send + 'static, T: Copy> Base<L, T> {
    /// With its first connection.
    pub(in crate::family::storage) fn new(link: L, shape: &Shape, timeout: Duration) -> Self {
        let depth = usize::from(shape.depth);
        Self {
            link: Some(link),
            reconnect: None,
            slots: Slots::new(shape.depth, shape.record as usize),
            outgoing: Outgoing::new(depth),
            pending: VecDeque::with_capacity(depth),
            ready: Vec::with_capacity(depth),
            timeout,
            asked: None,
            sent_bytes: 0,
            received_bytes: 0,
            connections: 1,
            batching: AnswerBatching::new(shape.depth),
            punctual: true,
            heard: monotonic().0,
            heard_bytes: 0,
            next_look: 0,
            holds: false,
            first_failure: None,
        }
    }

    /// From now on no start has a time of its own, and answers may wait for each other, within the bounds that [`AnswerBatching`] names.
    pub(in crate::family::storage) fn gather(&mut self) {
        self.punctual = false;
        self.batching.allow();
    }

    /// Sleeps for several answers, and how many they brought, as counters.
    pub(in crate::family::storage) fn gathered(&self) -> [(&'static str, u64); 2] {
        [("waits for several answers", self.batching.sleeps), ("answers they brought", self.batching.answers)]
    }

    /// Keeps the words of the first failure.
    pub(in crate::family::storage) fn note(&mut self, words: impl FnOnce() -> String) {
        if self.first_failure.is_none() {
            self.first_failure = Some(words());
        }
    }

    pub(in crate::family::storage) fn first_failure(&self) -> Option<&str> {
        self.first_failure.as_deref()
    }

    /// Refuses a slot that is under way.
    pub(in crate::family::storage) fn check_free(&self, slot: u16) -> Result<(), StorageError> {
        match self.slots.is_free(slot) {
            true => Ok(()),
            false => Err(StorageError::Refused { reason: format!("slot {slot} is under way") }),
        }
    }

    /// Takes an operation in a free slot; it waits to be sent.
    pub(in crate::family::storage) fn accept(&mut self, slot: u16, task: T) {
        let deadline = monotonic().0.saturating_add(self.timeout.as_nanos() as u64);
        self.slots.begin(slot, task, deadline);
        self.pending.push_back(slot);
    }

    /// Operations that the far end is asked for: neither waiting for a place nor over.
    pub(super) fn sent(&self) -> usize {
        self.slots.under_way().saturating_sub(self.pending.len())
    }

    /// Sends what the socket takes.
    pub(in crate::family::storage) fn send(&mut self) -> io::Result<()> {
        let Some(link) = &self.link else { return Ok(()) };
        self.sent_bytes += self.outgoing.send(link.stream(), &self.slots)?;
        Ok(())
    }

    /// Ends an operation, or holds it back while a part of its buffer waits to be sent.
    pub(in crate::family::storage) fn end(
        &mut self,
        slot: u16,
        result: Result<u32, Failure>,
        done: &mut Vec<Done>,
    ) {
        if self.outgoing.mentions(slot) {
            self.slots.hold(slot, result);
            self.holds = true;
        } else {
            self.slots.end(slot, result, done);
        }
    }

    /// Ends what was held back and needn't be any more.
    pub(super) fn release_held(&mut self, done: &mut Vec<Done>) {
        if !std::mem::take(&mut self.holds) {
            return;
        }
        for slot in 0..self.slots.count() {
            let Some(result) = self.slots.held(slot) else { continue };
            if self.outgoing.mentions(slot) {
                self.holds = true;
            } else {
                self.slots.end(slot, result, done);
            }
        }
    }

    /// Whether deadlines are to be looked at now.
    pub(in crate::family::storage) fn is_time(&mut self, now: u64) -> bool {
        let is_time = now >= self.next_look;
        if is_time {
            self.next_look = now + LOOK.as_nanos() as u64;
        }
        is_time
    }

    /// The operations that took longer than they may. What isn't sent won't be.
    pub(in crate::family::storage) fn overdue(&mut self, now: u64) -> Vec<u16> {
        let slots = &self.slots;
        let overdue: Vec<u16> = (0..slots.count()).filter(|slot| slots.is_overdue(*slot, now)).collect();
        if !overdue.is_empty() {
            self.pending.retain(|waiting| !overdue.contains(waiting));
        }
        overdue
    }

    /// Ends an operation that took too long.
    pub(in crate::family::storage) fn give_up(&mut self, slot: u16, done: &mut Vec<Done>) {
        let most = self.timeout;
        self.note(|| format!("an operation took longer than {most:?}"));
        self.end(slot, Err(Failure::TimedOut), done);
    }

    /// Nanoseconds since something arrived, or since `restart` was true.
    pub(in crate::family::storage) fn silence(&mut self, now: u64, restart: bool) -> u64 {
        if restart || self.received_bytes != self.heard_bytes {
            (self.heard, self.heard_bytes) = (now, self.received_bytes);
        }
        now.saturating_sub(self.heard)
    }

    /// The sign of life that was asked for is still missing after `timeout`.
    ///
    /// # Errors
    /// It is.
    pub(in crate::family::storage) fn check_life(&self, now: u64) -> io::Result<()> {
        let late = |since: u64| now.saturating_sub(since) > self.timeout.as_nanos() as u64;
        if self.asked.is_some_and(late) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    /// Another connection stands.
    pub(super) fn connected(&mut self, link: L) {
        self.reconnect = None;
        self.connections += 1;
        self.batching.forget();
        self.heard = monotonic().0;
        self.link = Some(link);
    }

    /// Everything under way is lost.
    pub(super) fn fail_all(&mut self, done: &mut Vec<Done>) {
        self.pending.clear();
        self.slots.lose_all(done);
    }

    /// The connection is gone.
    pub(super) fn lost(&mut self, error: &impl std::fmt::Display, done: &mut Vec<Done>) {
        self.note(|| format!("the connection was lost: {error}"));
        self.link = None;
        self.outgoing.clear();
        self.asked = None;
        self.fail_all(done);
    }
}
