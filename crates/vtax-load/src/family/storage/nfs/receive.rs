//! What a server answers while operations are under way.

use vtax_wire::nfs::{Entries, NfsError, Written, status};
use vtax_wire::rpc;

use super::dialect::{Dialect, Told};
use super::wire::LinkError;
use super::{LIFE, NfsTarget, Task, Unsynced};
use crate::family::storage::client::Slots;
use crate::family::storage::target::{Done, Failure, Kind};

/// What an answer means for its operation.
enum Answer {
    /// It is over.
    Over(Result<u32, Failure>),
    /// Another call follows.
    More,
}

impl<D: Dialect> NfsTarget<D> {
    /// Receives once, and takes what came; false where that is nothing.
    pub(super) fn take_in(&mut self, wait: bool, done: &mut Vec<Done>) -> Result<bool, LinkError> {
        let Some(link) = &mut self.base.link else { return Ok(false) };
        let Some(got) = link.wire.receive(wait)? else { return Ok(false) };
        self.base.received_bytes += got as u64;
        loop {
            let Some(link) = &mut self.base.link else { return Ok(true) };
            let Some(message) = link.wire.next_message()? else { return Ok(true) };
            // Taken out, so that what is in it can be looked at while all else changes.
            let input = std::mem::take(&mut link.wire.input);
            let taken = self.message(&input[message], done);
            if let Some(link) = &mut self.base.link {
                link.wire.input = input;
            }
            taken?;
        }
    }

    fn message(&mut self, message: &[u8], done: &mut Vec<Done>) -> Result<(), LinkError> {
        let tag = rpc::answered(message)?;
        let Some(link) = &mut self.base.link else { return Ok(()) };
        let (place, results) = link.dialect.begin_results(rpc::results(message)?)?;
        let Some(slot) = self.base.slots.by_tag(tag) else {
            place.map_or(Ok(()), |place| link.dialect.give_back(place))?;
            if tag == LIFE {
                self.base.asked = None;
            } else {
                self.counts.late += 1;
            }
            return Ok(());
        };
        let Some(task) = self.base.slots.task(slot) else { return Ok(()) };
        if place.is_some_and(|place| place != task.place) {
            return Err(LinkError::Order("an answer in another slot than its call"));
        }
        let answer = match link.dialect.told(&task, results) {
            Ok(told) => self.answer(slot, &task, told),
            Err(error) => Err(error),
        };
        let result = match answer {
            Ok(Answer::More) => {
                self.send_call(slot);
                return Ok(());
            }
            Ok(Answer::Over(result)) => result,
            Err(error) => {
                let status = error.status().filter(|status| !D::is_lost(*status)).ok_or(error)?;
                self.base.note(|| error.to_string());
                Err(failure(status))
            }
        };
        if let (Some(link), Some(place)) = (&mut self.base.link, place) {
            link.dialect.give_back(place)?;
        }
        self.base.end(slot, result, done);
        Ok(())
    }

    /// What an answer means.
    fn answer(&mut self, slot: u16, task: &Task, told: Told<'_>) -> Result<Answer, NfsError> {
        let slots = &mut self.base.slots;
        match told {
            Told::Read(data, end) => {
                let from = task.moved as usize;
                slots.buffer(slot)[from..from + data.len()].copy_from_slice(data);
                Ok(match moved(slots, slot, data.len() as u32) {
                    // The file is shorter than what was asked for.
                    Answer::More if end => Answer::Over(Ok(task.moved + data.len() as u32)),
                    answer => answer,
                })
            }
            Told::Written(written) => self.written(slot, task, written),
            Told::Committed(verifier) => {
                if std::mem::take(self.unsynced(slot)).is_forgotten(verifier) {
                    self.base.note(|| "the server began anew and forgot what was not committed".to_owned());
                    return Ok(Answer::Over(Err(Failure::Lost)));
                }
                Ok(Answer::Over(Ok(0)))
            }
            Told::Created(bytes) => Ok(Answer::Over(Ok(bytes))),
            Told::Removed => Ok(Answer::Over(Ok(0))),
            Told::Listed(found) => listed(slots, slot, found),
            Told::Next(step) => {
                slots.task_mut(slot).ok_or(NfsError::Order)?.step = step;
                Ok(Answer::More)
            }
        }
    }

    fn written(&mut self, slot: u16, task: &Task, written: Written) -> Result<Answer, NfsError> {
        let is_stable = written.committed == 2 || task.operation.kind == Kind::Write;
        if written.count > task.part || !is_stable {
            return Err(NfsError::Order);
        }
        if written.committed == 0 {
            if self.syncs_each && task.moved == 0 {
                // What the slot had before is over, synced or not.
                *self.unsynced(slot) = Unsynced::default();
            }
            self.unsynced(slot).add(written.verifier);
        }
        Ok(moved(&mut self.base.slots, slot, written.count))
    }
}

/// So many more names were listed.
fn listed(slots: &mut Slots<Task>, slot: u16, found: Entries) -> Result<Answer, NfsError> {
    let Some(task) = slots.task_mut(slot) else { return Err(NfsError::Order) };
    task.moved = task.moved.saturating_add(found.count);
    if found.end {
        return Ok(Answer::Over(Ok(task.moved)));
    }
    if !found.any {
        return Err(NfsError::Order);
    }
    (task.cookie, task.verifier) = (found.cookie, found.verifier);
    Ok(Answer::More)
}

/// So many more bytes were read or written.
fn moved(slots: &mut Slots<Task>, slot: u16, bytes: u32) -> Answer {
    let Some(task) = slots.task_mut(slot) else { return Answer::Over(Ok(0)) };
    task.moved += bytes;
    // Nothing at all, though there was more to move: it would go on for ever.
    if bytes == 0 || task.moved == task.operation.length {
        Answer::Over(Ok(task.moved))
    } else {
        Answer::More
    }
}

/// What a status means.
const fn failure(status: u32) -> Failure {
    match status {
        status::NOSPC | status::DQUOT | status::FBIG => Failure::NoSpace,
        status::ROFS => Failure::ReadOnly,
        status::PERM | status::ACCESS => Failure::Refused,
        status::STALE | status::BADHANDLE => Failure::Stale,
        status::NOENT => Failure::Missing,
        status::DELAY | status::GRACE => Failure::Busy,
        _ => Failure::Other,
    }
}
