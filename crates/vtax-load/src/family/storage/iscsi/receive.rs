//! What a target sends while commands are under way.

use std::ops::Range;

use vtax_wire::iscsi::{AsyncEvent, DataOut, Item, NO_TAG, Residual, TargetPdu};
use vtax_wire::scsi::{Sense, status};

use super::link::{Link, LinkError, missing, words};
use super::{IscsiTarget, OTHER_TAG, SlotSink, Task};
use crate::family::storage::client::{Buffers as _, Outgoing, Slots};
use crate::family::storage::target::{Done, Failure, Kind};

/// So much data of one PDU is read straight to where it belongs; less comes with other PDUs in one read.
const STRAIGHT: usize = 16 << 10;

/// Longest sense data that is kept: 18 bytes are usual, 252 the most.
const SENSE_BYTES: usize = 254;

/// The PDU that is arriving.
#[derive(Debug)]
pub(super) struct Receiving {
    head: Option<TargetPdu>,
    /// Where in the command's buffer the next byte goes.
    place: u32,
    /// Data of what isn't Data-In, as far as it is kept.
    other: [u8; SENSE_BYTES],
    other_bytes: usize,
}

impl Default for Receiving {
    fn default() -> Self {
        Self { head: None, place: 0, other: [0; SENSE_BYTES], other_bytes: 0 }
    }
}

impl Receiving {
    pub(super) const fn is_between(&self) -> bool {
        self.head.is_none()
    }
}

/// For whom data is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) tag: u32,
    pub(super) target_tag: u32,
    pub(super) lun: u64,
}

/// Appends a range of a command's data, in segments as long as the target takes them; how many they are.
pub(super) fn send_data(
    link: &Link,
    slots: &Slots<Task>,
    outgoing: &mut Outgoing,
    (slot, part): (u16, Part),
    range: Range<u32>,
) -> u64 {
    let mut offset = range.start;
    let mut data_sn = 0;
    while offset < range.end {
        let length = (range.end - offset).min(link.agreed.send_segment);
        let pdu = DataOut {
            lun: part.lun,
            tag: part.tag,
            target_tag: part.target_tag,
            exp_stat_sn: link.exp_stat_sn,
            data_sn,
            offset,
            last: offset + length == range.end,
        };
        let from = offset as usize;
        let mut sink = SlotSink { outgoing, slot, from };
        link.writer.data_out(&mut sink, &pdu, &slots.of(slot)[from..from + length as usize]);
        offset += length;
        data_sn += 1;
    }
    u64::from(data_sn)
}

impl IscsiTarget {
    /// Receives once, and takes what came; false where that is nothing.
    pub(super) fn take_in(&mut self, wait: bool, done: &mut Vec<Done>) -> Result<bool, LinkError> {
        let Some(link) = &mut self.base.link else { return Ok(false) };
        let left = link.scanner.data_left();
        let straight = match &self.receiving.head {
            Some(TargetPdu::DataIn { tag, .. }) if left >= STRAIGHT => self.base.slots.by_tag(*tag),
            _ => None,
        };
        if let Some(slot) = straight {
            let place = self.receiving.place as usize;
            // The head was looked at: all of it has room.
            let buffer = &mut self.base.slots.buffer(slot)[place..place + left];
            let Some(got) = link.stream.receive(buffer, wait)? else { return Ok(false) };
            link.scanner.scan(&buffer[..got])?;
            self.moved(slot, got);
            self.base.received_bytes += got as u64;
            self.items(&[], done)?;
            return Ok(true);
        }
        // Taken out, so that what is in it can be looked at while all else changes.
        let mut input = std::mem::take(&mut link.input);
        let got = link.stream.receive(&mut input, wait);
        let taken = match got {
            Ok(Some(got)) => {
                self.base.received_bytes += got as u64;
                self.items(&input[..got], done).map(|()| true)
            }
            Ok(None) => Ok(false),
            Err(error) => Err(error.into()),
        };
        if let Some(link) = &mut self.base.link {
            link.input = input;
        }
        taken
    }

    fn moved(&mut self, slot: u16, bytes: usize) {
        self.receiving.place += bytes as u32;
        if let Some(task) = self.base.slots.task_mut(slot) {
            task.moved += bytes as u32;
        }
    }

    fn items(&mut self, mut rest: &[u8], done: &mut Vec<Done>) -> Result<(), LinkError> {
        loop {
            let Some(link) = &mut self.base.link else { return Ok(()) };
            let scanned = link.scanner.scan(rest)?;
            rest = &rest[scanned.consumed..];
            match scanned.item {
                Item::Incomplete => return Ok(()),
                Item::Head(pdu, length) => {
                    link.count(&pdu);
                    self.head(pdu, length)?;
                }
                Item::Data(bytes) => self.data(bytes),
                Item::End => self.whole(done)?,
            }
        }
    }

    fn head(&mut self, pdu: TargetPdu, length: u32) -> Result<(), LinkError> {
        self.receiving.head = Some(pdu);
        self.receiving.other_bytes = 0;
        let TargetPdu::DataIn { tag, offset, .. } = pdu else { return Ok(()) };
        self.counts.data_in += 1;
        self.receiving.place = offset;
        // One that was given up may still be answered: its data goes nowhere.
        let Some(task) = self.base.slots.by_tag(tag).and_then(|slot| self.base.slots.task(slot)) else {
            return Ok(());
        };
        let room = u64::from(task.blocks) * u64::from(self.unit.block_bytes);
        let reads = task.operation.kind == Kind::Read;
        // Data in order was agreed on, so that nothing is left out or comes twice.
        if reads && offset == task.moved && u64::from(offset) + u64::from(length) <= room {
            Ok(())
        } else {
            Err(LinkError::Order("data that was not asked for, or out of its order"))
        }
    }

    fn data(&mut self, bytes: &[u8]) {
        let receiving = &mut self.receiving;
        if let Some(TargetPdu::DataIn { tag, .. }) = receiving.head {
            if let Some(slot) = self.base.slots.by_tag(tag) {
                let place = receiving.place as usize;
                self.base.slots.buffer(slot)[place..place + bytes.len()].copy_from_slice(bytes);
                self.moved(slot, bytes.len());
            }
            return;
        }
        let room = &mut receiving.other[receiving.other_bytes..];
        let kept = bytes.len().min(room.len());
        room[..kept].copy_from_slice(&bytes[..kept]);
        receiving.other_bytes += kept;
    }

    /// A PDU is whole, and its digests are right.
    fn whole(&mut self, done: &mut Vec<Done>) -> Result<(), LinkError> {
        match self.receiving.head.take() {
            Some(TargetPdu::DataIn { status: Some(status), tag, .. }) => {
                if let Some(slot) = self.base.slots.by_tag(tag) {
                    self.complete(slot, (status, None), Residual::None, done);
                }
                Ok(())
            }
            Some(TargetPdu::ScsiResponse { tag, response, status, residual, .. }) => {
                if let Some(slot) = self.base.slots.by_tag(tag) {
                    let sense = Sense::of_response(&self.receiving.other[..self.receiving.other_bytes]);
                    if response == 0 {
                        self.complete(slot, (status, sense), residual, done);
                    } else {
                        self.base.note(|| {
                            format!("the target failed to carry a command out (response {response:#04x})")
                        });
                        self.base.end(slot, Err(Failure::Other), done);
                    }
                }
                Ok(())
            }
            Some(TargetPdu::R2t { lun, tag, target_tag, offset, length, .. }) => {
                self.wanted(Part { tag, target_tag, lun }, offset, length)
            }
            Some(TargetPdu::Nop { lun, target_tag, .. }) if target_tag != NO_TAG => {
                if let Some(link) = &self.base.link {
                    let numbers = (link.cmd_sn, link.exp_stat_sn);
                    self.base
                        .outgoing
                        .append(|own| link.writer.pong(own, lun, target_tag, numbers.0, numbers.1));
                }
                Ok(())
            }
            Some(TargetPdu::Nop { tag, .. }) => {
                if tag == OTHER_TAG {
                    self.base.asked = None;
                }
                Ok(())
            }
            Some(TargetPdu::Async { event, .. }) => {
                self.counts.events += 1;
                asynchronous(event)
            }
            Some(TargetPdu::Reject { reason, .. }) => Err(LinkError::Rejected(reason)),
            Some(TargetPdu::LogoutResponse { .. } | TargetPdu::Login(_) | TargetPdu::Text { .. }) => {
                Err(LinkError::Order("an answer to nothing"))
            }
            Some(TargetPdu::TaskResponse { .. } | TargetPdu::DataIn { status: None, .. }) | None => Ok(()),
        }
    }

    /// The target is ready for data.
    fn wanted(&mut self, part: Part, offset: u32, length: u32) -> Result<(), LinkError> {
        self.counts.r2ts += 1;
        let Some(link) = &self.base.link else { return Ok(()) };
        let Some(slot) = self.base.slots.by_tag(part.tag) else { return Ok(()) };
        let Some(task) = self.base.slots.task(slot) else { return Ok(()) };
        let room = u64::from(task.blocks) * u64::from(self.unit.block_bytes);
        let writes = matches!(task.operation.kind, Kind::Write | Kind::WriteDurable);
        let end = u64::from(offset) + u64::from(length);
        if !writes || length == 0 || length > link.agreed.burst || end > room {
            return Err(LinkError::Order("it wants data that the command doesn't have"));
        }
        let range = offset..offset + length;
        self.counts.data_out +=
            send_data(link, &self.base.slots, &mut self.base.outgoing, (slot, part), range);
        Ok(())
    }

    fn complete(
        &mut self,
        slot: u16,
        (status, sense): (u8, Option<Sense>),
        residual: Residual,
        done: &mut Vec<Done>,
    ) {
        let Some(task) = self.base.slots.task(slot) else { return };
        let result = if status == status::GOOD {
            Ok(match task.operation.kind {
                Kind::Read => task.moved,
                Kind::Write | Kind::WriteDurable => {
                    (task.blocks * self.unit.block_bytes).saturating_sub(missing(residual))
                }
                _ => 0,
            })
        } else {
            self.base.note(|| words(status, sense));
            Err(failure(status, sense))
        };
        self.base.end(slot, result, done);
    }
}

/// What an event means for the session.
fn asynchronous(event: AsyncEvent) -> Result<(), LinkError> {
    match event {
        AsyncEvent::Sense | AsyncEvent::Other(_) => Ok(()),
        AsyncEvent::LogoutWanted { .. } => Err(LinkError::Ended("it wants a logout")),
        AsyncEvent::ConnectionDropped => Err(LinkError::Ended("it drops the connection")),
        AsyncEvent::SessionDropped => Err(LinkError::Ended("it drops the session")),
        AsyncEvent::Negotiate => Err(LinkError::Ended("it wants to negotiate anew")),
    }
}

/// What a status other than GOOD means.
pub(super) fn failure(status: u8, sense: Option<Sense>) -> Failure {
    match (status, sense) {
        (status::BUSY | status::TASK_SET_FULL, _) => Failure::Busy,
        (status::RESERVATION_CONFLICT, _) => Failure::Refused,
        (status::CHECK_CONDITION, Some(sense)) => match (sense.key, sense.code, sense.qualifier) {
            (_, 0x27, 0x07) | (13, ..) => Failure::NoSpace,
            (_, 0x27, _) => Failure::ReadOnly,
            (_, 0x25, _) => Failure::Missing,
            _ => Failure::Check,
        },
        (status::CHECK_CONDITION, None) => Failure::Check,
        _ => Failure::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_apart() {
        let sense = |key, code, qualifier| Some(Sense { key, code, qualifier });
        assert_eq!(failure(status::BUSY, None), Failure::Busy);
        assert_eq!(failure(status::CHECK_CONDITION, sense(7, 0x27, 0)), Failure::ReadOnly);
        assert_eq!(failure(status::CHECK_CONDITION, sense(7, 0x27, 7)), Failure::NoSpace);
        assert_eq!(failure(status::CHECK_CONDITION, sense(5, 0x25, 0)), Failure::Missing);
        assert_eq!(failure(status::CHECK_CONDITION, sense(3, 0x11, 0)), Failure::Check);
        assert_eq!(failure(0x40, None), Failure::Other);
        assert!(asynchronous(AsyncEvent::Sense).is_ok());
        assert!(asynchronous(AsyncEvent::LogoutWanted { within: 3 }).is_err());
    }
}
