//! What a server answers while operations are under way.

use vtax_wire::nfs4::{Nfs4Error, Results, status};
use vtax_wire::rpc;

use super::link::{Link, LinkError};
use super::{LIFE, NfsTarget, Task};
use crate::family::storage::client::Slots;
use crate::family::storage::target::{Done, Failure, Kind};

/// What an answer means for its operation.
enum Answer {
    /// It is over.
    Over(Result<u32, Failure>),
    /// Another call follows.
    More,
}

impl NfsTarget {
    /// Receives once, and takes what came; false where that is nothing.
    pub(super) fn receive(&mut self, wait: bool, done: &mut Vec<Done>) -> Result<bool, LinkError> {
        let Some(link) = &mut self.link else { return Ok(false) };
        link.make_room();
        let Some(got) = link.stream.receive(&mut link.input[link.end..], wait)? else { return Ok(false) };
        link.end += got;
        self.counts.received_bytes += got as u64;
        loop {
            let Some(link) = &mut self.link else { return Ok(true) };
            let Some(message) = link.next_message()? else { return Ok(true) };
            // Taken out, so that what is in it can be looked at while all else changes.
            let input = std::mem::take(&mut link.input);
            let taken = self.message(&input[message], done);
            if let Some(link) = &mut self.link {
                link.input = input;
            }
            taken?;
        }
    }

    fn message(&mut self, message: &[u8], done: &mut Vec<Done>) -> Result<(), LinkError> {
        let tag = rpc::answered(message)?;
        let mut results = Results::read(rpc::results(message)?)?;
        // A session that isn't known any more can't be used for anything.
        let session_slot = results.sequence()?;
        let Some(link) = &mut self.link else { return Ok(()) };
        let sequence = link.sequences.get_mut(session_slot as usize);
        let sequence = sequence.ok_or(LinkError::Order("a slot that the session doesn't have"))?;
        *sequence = sequence.wrapping_add(1);
        let slot = self.slots.by_tag(tag);
        let Some(slot) = slot else {
            if link.free.contains(&session_slot) {
                return Err(LinkError::Order("an answer in a slot in which nothing is under way"));
            }
            if tag == LIFE {
                self.asked = None;
            } else {
                self.counts.late += 1;
            }
            link.free.push(session_slot);
            return Ok(());
        };
        if self.slots.task(slot).is_some_and(|task| task.session_slot != session_slot) {
            return Err(LinkError::Order("an answer in another slot than its call"));
        }
        match self.answer(slot, &mut results) {
            Ok(Answer::More) => self.send_call(slot),
            Ok(Answer::Over(result)) => {
                self.free(session_slot);
                self.end(slot, result, done);
            }
            Err(Nfs4Error::Status { status, operation }) => {
                self.free(session_slot);
                if is_lost(status) {
                    return Err(Nfs4Error::Status { status, operation }.into());
                }
                self.note(|| Nfs4Error::Status { status, operation }.to_string());
                self.end(slot, Err(failure(status)), done);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn free(&mut self, session_slot: u32) {
        if let Some(link) = &mut self.link {
            link.free.push(session_slot);
        }
    }

    /// Reads the results behind SEQUENCE.
    fn answer(&mut self, slot: u16, results: &mut Results<'_>) -> Result<Answer, Nfs4Error> {
        results.file()?;
        let Some(task) = self.slots.task(slot) else { return Err(Nfs4Error::Order) };
        match task.operation.kind {
            Kind::Read => read(&mut self.slots, slot, task, results),
            Kind::Write | Kind::WriteDurable => {
                let written = results.written()?;
                if written.count > task.part
                    || (task.operation.kind == Kind::WriteDurable && written.committed != 2)
                {
                    return Err(Nfs4Error::Order);
                }
                if written.committed == 0 {
                    self.forgotten |= self.verifier.is_some_and(|known| known != written.verifier);
                    self.verifier = Some(written.verifier);
                }
                Ok(moved(&mut self.slots, slot, written.count))
            }
            Kind::Flush => {
                let verifier = results.committed()?;
                let forgotten = self.forgotten || self.verifier.is_some_and(|known| known != verifier);
                (self.verifier, self.forgotten) = (None, false);
                if forgotten {
                    self.note(|| "the server began anew and forgot what was not committed".to_owned());
                    return Ok(Answer::Over(Err(Failure::Lost)));
                }
                Ok(Answer::Over(Ok(0)))
            }
            Kind::Create => {
                results.open()?;
                let written = results.written()?;
                results.close()?;
                Ok(Answer::Over(Ok(written.count)))
            }
            Kind::Remove => results.removed().map(|()| Answer::Over(Ok(0))),
            Kind::List => {
                let found = results.entries(|_| ())?;
                let Some(task) = self.slots.task_mut(slot) else { return Err(Nfs4Error::Order) };
                task.moved = task.moved.saturating_add(found.count);
                if found.end {
                    return Ok(Answer::Over(Ok(task.moved)));
                }
                if found.count == 0 {
                    return Err(Nfs4Error::Order);
                }
                (task.cookie, task.verifier) = (found.cookie, found.verifier);
                Ok(Answer::More)
            }
        }
    }
}

fn read(
    slots: &mut Slots<Task>,
    slot: u16,
    task: Task,
    results: &mut Results<'_>,
) -> Result<Answer, Nfs4Error> {
    let (data, end) = results.data(task.part as usize)?;
    let from = task.moved as usize;
    slots.buffer(slot)[from..from + data.len()].copy_from_slice(data);
    let answer = moved(slots, slot, data.len() as u32);
    // The file is shorter than what was asked for.
    match answer {
        Answer::More if end => Ok(Answer::Over(Ok(task.moved + data.len() as u32))),
        answer => Ok(answer),
    }
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

/// True where the session or the open files are gone: they are made anew.
const fn is_lost(status: u32) -> bool {
    matches!(
        status,
        status::BADSESSION
            | status::DEADSESSION
            | status::STALE_CLIENTID
            | status::STALE_STATEID
            | status::BAD_STATEID
            | status::EXPIRED
    )
}

/// What a status means.
pub(super) const fn failure(status: u32) -> Failure {
    match status {
        status::NOSPC | status::DQUOT | status::FBIG => Failure::NoSpace,
        status::ROFS => Failure::ReadOnly,
        status::PERM | status::ACCESS => Failure::Refused,
        status::STALE => Failure::Stale,
        status::NOENT => Failure::Missing,
        status::DELAY | status::GRACE => Failure::Busy,
        _ => Failure::Other,
    }
}

impl Link {
    /// True where nothing is under way in the session.
    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == self.sequences.len()
    }
}
