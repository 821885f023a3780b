//! Connections on which several requests are under way whose answers come in any order.

use super::Worker;
use crate::requests::dialogue::{Dialogue, Ended};
use crate::requests::recorder::Outcome;
use crate::requests::slots::Phase;

impl<D: Dialogue> Worker<'_, D> {
    /// A slot whose connection takes another request, or that has none. Those that take no more leave the list.
    pub(super) fn take_open(&mut self) -> Option<u32> {
        loop {
            let id = self.idle.pop_back()?;
            let slot = self.slots.get(id);
            slot.listed = false;
            if self.dialogue.has_room(&slot.dialogue) {
                return Some(id);
            }
            if slot.under_way == 0 {
                self.close(id, false);
                self.release(id);
            }
        }
    }

    /// Sends what servers have refused, before anything new.
    pub(super) fn send_again(&mut self) {
        while let Some(start) = self.again.front().copied() {
            if start + self.job.timeout <= self.time.now {
                self.again.pop_front();
                self.recorder.ended(start, self.time.now, Outcome::ClientTimeout, 0);
                continue;
            }
            let Some(id) = self.take_open().or_else(|| self.free.pop()) else { return };
            self.again.pop_front();
            if self.ask(id, start) {
                self.flush(id);
            }
        }
    }

    /// Takes what was read; whether more may come on this connection.
    pub(super) fn read_streams(&mut self, id: u32, got: usize) -> bool {
        let slot = self.slots.get(id);
        let taken = self.dialogue.take(&mut slot.dialogue, &mut self.buffer[..got]);
        // What ended before an error has ended.
        self.settle(id);
        if let Err(outcome) = taken {
            self.end(id, outcome, false);
            return false;
        }
        self.go_on_with(id);
        self.slots.get(id).fd.is_some()
    }

    /// Counts the requests of a connection that have ended.
    fn settle(&mut self, id: u32) {
        let now = self.time.now;
        while let Some((place, ended)) = self.dialogue.next(&mut self.slots.get(id).dialogue) {
            let Some(start) = self.slots.take(id, place) else { continue };
            match ended {
                Ended::Answered(answer) => self.recorder.ended(start, now, answer.outcome, answer.status),
                Ended::Refused => self.again.push_back(start),
            }
        }
    }

    /// Lists a connection that has room, or closes it where it won't have any.
    fn go_on_with(&mut self, id: u32) {
        let slot = self.slots.get(id);
        if slot.under_way > 0 {
            return self.list_again(id);
        }
        let over = slot.served >= self.job.per_connection || !self.dialogue.has_room(&slot.dialogue);
        if over {
            self.close(id, false);
        }
        // One that was idle before is listed.
        if over || self.slots.get(id).phase != Phase::Ready {
            self.release(id);
        }
    }

    /// Gives up the request that started first, which is on this slot; false where its connection has to go too.
    pub(super) fn give_up(&mut self, id: u32) -> bool {
        let Some(place) = self.slots.oldest_place() else { return false };
        let slot = self.slots.get(id);
        if slot.fresh || slot.fd.is_none() || !self.dialogue.give_up(&mut slot.dialogue, place) {
            return false;
        }
        let generation = slot.generation;
        let Some(start) = self.slots.take(id, place) else { return false };
        self.recorder.ended(start, self.time.now, Outcome::ClientTimeout, 0);
        self.send_besides(id);
        // Sending may have ended it.
        if self.slots.get(id).generation == generation {
            self.go_on_with(id);
        }
        true
    }
}
