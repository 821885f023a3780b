//! Fetches whose session broke: the next session of the same client asks for the rest (REST), as clients do after a failover.

use super::slot::{Kind, Marks, Slot, Transfer, Trouble};
use super::worker::Worker;
use crate::requests::Outcome;

impl Worker<'_> {
    /// Keeps what a session that breaks was fetching, so that another goes on with it; false where it has failed.
    pub(super) fn interrupt(&mut self, id: u32, outcome: Outcome) -> bool {
        let (now, timeout) = (self.time.now, self.job.timeout);
        // What isn't FTP, or isn't the file, doesn't become so the second time.
        let may = self.job.requests.rest
            && self.job.fill.is_none()
            && !self.of_sessions()
            && now < self.time.stop
            && !matches!(outcome, Outcome::Protocol | Outcome::Corrupt);
        let slot = &mut self.slots[id as usize];
        let kept = slot.transfer.filter(Transfer::can_go_on).or(slot.interrupted);
        match kept.filter(|transfer| may && now < transfer.start + timeout) {
            Some(transfer) => {
                (slot.transfer, slot.interrupted) = (None, Some(transfer.begun_again()));
                true
            }
            None => {
                let interrupted = slot.interrupted.take();
                slot.transfer = slot.transfer.or(interrupted);
                false
            }
        }
    }

    /// A session that has logged in goes on with what was interrupted.
    pub(super) fn go_on_from(&mut self, id: u32, mut transfer: Transfer) {
        transfer.marks = Marks { begun: self.time.now, ..Marks::default() };
        self.tally.continued(&transfer);
        self.under_way(id, transfer);
    }
}

impl Transfer {
    /// Whether the rest of it is enough.
    fn can_go_on(&self) -> bool {
        self.kind == Kind::Retr && !matches!(self.trouble, Some(Trouble::Corrupt | Trouble::NoEntry))
    }

    /// The transfer with what has come, before its first command.
    fn begun_again(self) -> Self {
        Self {
            moved: self.moved,
            start: self.start,
            own: self.own,
            ..Self::new(self.kind, self.file, self.content, self.size)
        }
    }

    /// The server must be told first where to begin.
    pub(super) fn needs_offset(&self) -> bool {
        self.kind == Kind::Retr && self.moved > 0 && !self.offset_told
    }
}

impl Slot {
    /// Transfers of the session that begins: one that was interrupted belongs to it.
    pub(super) fn transfers_left(&self, transfers: u32) -> u32 {
        if self.interrupted.is_some() { self.left.max(1) } else { transfers }
    }
}
