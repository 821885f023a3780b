//! Compounds as a client sends them.

use super::{COMPOUND, Handle, SessionId, Stability, StateId, Verifier, op};
use crate::rpc::{Caller, begin_call, end_call};
use crate::xdr::{fixed, long, opaque, word};

const MINOR_VERSION: u32 = 1;
/// Of OPEN: reading and writing, without a delegation.
const READ_AND_WRITE: u32 = 3;
const READ_ONLY: u32 = 1;
const NO_DELEGATION: u32 = 0x0400;
/// Bits of attributes, by their words.
const SIZE: u32 = 1 << 4;
const MODE: u32 = 1 << (33 - 32);

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HowOpen {
    /// It must be there, and is only read.
    Read,
    /// It must be there.
    Existing,
    /// It is made where it isn't there.
    CreateOrOpen,
    /// It must not be there.
    CreateNew,
}

/// Attributes that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attributes {
    /// Type, size, and whether it may change.
    File,
    /// The largest transfers, the lease, free space and all space.
    FileSystem,
}

impl Attributes {
    /// The bitmap's words.
    pub(super) const fn bits(self) -> [u32; 2] {
        match self {
            // type 1, size 4
            Self::File => [1 << 1 | SIZE, 0],
            // lease_time 10, maxread 30, maxwrite 31, space_avail 42, space_total 44
            Self::FileSystem => [1 << 10 | 1 << 30 | 1 << 31, 1 << (42 - 32) | 1 << (44 - 32)],
        }
    }
}

/// What is asked for of a session's channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channel {
    /// Longest call.
    pub request: u32,
    /// Longest answer.
    pub response: u32,
    /// Calls under way at once.
    pub slots: u32,
}

/// A call that is being appended.
#[derive(Debug)]
pub struct Compound<'a> {
    out: &'a mut Vec<u8>,
    begin: usize,
    /// Where the number of operations stands.
    count_at: usize,
    count: u32,
}

impl<'a> Compound<'a> {
    /// Begins a call.
    pub fn begin(out: &'a mut Vec<u8>, xid: u32, caller: &Caller) -> Self {
        let begin = begin_call(out, xid, COMPOUND, Some(caller));
        // No tag.
        word(out, 0);
        word(out, MINOR_VERSION);
        let count_at = out.len();
        word(out, 0);
        Self { out, begin, count_at, count: 0 }
    }

    /// Ends it.
    pub fn end(self) {
        self.end_before(0);
    }

    /// Ends it before `more` bytes that belong to its last operation and follow from elsewhere.
    pub fn end_before(self, more: usize) {
        self.out[self.count_at..self.count_at + 4].copy_from_slice(&self.count.to_be_bytes());
        end_call(self.out, self.begin, more);
    }

    fn op(mut self, number: u32) -> Self {
        self.count += 1;
        word(self.out, number);
        self
    }

    /// EXCHANGE_ID: the client calls itself `owner`; another `verifier` means that it has begun anew.
    #[must_use]
    pub fn exchange_id(self, verifier: Verifier, owner: &[u8]) -> Self {
        let this = self.op(op::EXCHANGE_ID);
        fixed(this.out, &verifier);
        opaque(this.out, owner);
        // No flags, no state protection, no implementation's name.
        [0, 0, 0].into_iter().for_each(|value| word(this.out, value));
        this
    }

    /// CREATE_SESSION.
    #[must_use]
    pub fn create_session(self, client: u64, sequence: u32, channel: Channel) -> Self {
        let this = self.op(op::CREATE_SESSION);
        long(this.out, client);
        word(this.out, sequence);
        // Neither persistent, nor with a way back.
        word(this.out, 0);
        // No padding, cached answers of 4 KiB, as many operations in a compound as any of ours has.
        let fore = [0, channel.request, channel.response, 4096, 16, channel.slots, 0];
        let back = [0, 4096, 4096, 0, 2, 1, 0];
        fore.into_iter().chain(back).for_each(|value| word(this.out, value));
        // A program that is never called back, and nobody as its caller.
        [0x4000_0000, 1, 0].into_iter().for_each(|value| word(this.out, value));
        this
    }

    /// RECLAIM_COMPLETE: there is nothing to reclaim.
    #[must_use]
    pub fn reclaim_complete(self) -> Self {
        let this = self.op(op::RECLAIM_COMPLETE);
        word(this.out, 0);
        this
    }

    /// SEQUENCE: in this slot, the next call; `highest` is the highest slot in use.
    #[must_use]
    pub fn sequence(self, session: &SessionId, (slot, sequence): (u32, u32), highest: u32) -> Self {
        let this = self.op(op::SEQUENCE);
        fixed(this.out, session);
        // Answers needn't be kept: a lost connection means a new session.
        [sequence, slot, highest, 0].into_iter().for_each(|value| word(this.out, value));
        this
    }

    /// DESTROY_SESSION.
    #[must_use]
    pub fn destroy_session(self, session: &SessionId) -> Self {
        let this = self.op(op::DESTROY_SESSION);
        fixed(this.out, session);
        this
    }

    /// DESTROY_CLIENTID.
    #[must_use]
    pub fn destroy_client(self, client: u64) -> Self {
        let this = self.op(op::DESTROY_CLIENTID);
        long(this.out, client);
        this
    }

    /// PUTROOTFH: the present file is the root.
    #[must_use]
    pub fn root(self) -> Self {
        self.op(op::PUTROOTFH)
    }

    /// PUTFH: the present file is this one.
    #[must_use]
    pub fn file(self, handle: &Handle) -> Self {
        let this = self.op(op::PUTFH);
        opaque(this.out, handle.as_bytes());
        this
    }

    /// GETFH: the handle of the present file.
    #[must_use]
    pub fn handle(self) -> Self {
        self.op(op::GETFH)
    }

    /// LOOKUP: the present file is the one of this name in the present directory.
    #[must_use]
    pub fn lookup(self, name: &str) -> Self {
        let this = self.op(op::LOOKUP);
        opaque(this.out, name.as_bytes());
        this
    }

    /// CREATE of a directory in the present one.
    #[must_use]
    pub fn create_directory(self, name: &str) -> Self {
        const DIRECTORY: u32 = 2;
        let this = self.op(op::CREATE);
        word(this.out, DIRECTORY);
        opaque(this.out, name.as_bytes());
        mode(this.out, 0o755);
        this
    }

    /// OPEN of a file in the present directory, which becomes the present file.
    #[must_use]
    pub fn open(self, how: HowOpen, client: u64, owner: &[u8], name: &str) -> Self {
        let this = self.op(op::OPEN);
        let access = if how == HowOpen::Read { READ_ONLY } else { READ_AND_WRITE };
        // A sequence that sessions have no use for; nobody is kept out.
        [0, access | NO_DELEGATION, 0].into_iter().for_each(|value| word(this.out, value));
        long(this.out, client);
        opaque(this.out, owner);
        match how {
            HowOpen::Read | HowOpen::Existing => word(this.out, 0),
            HowOpen::CreateOrOpen | HowOpen::CreateNew => {
                word(this.out, 1);
                word(this.out, u32::from(how == HowOpen::CreateNew));
                mode(this.out, 0o644);
            }
        }
        // By its name.
        word(this.out, 0);
        opaque(this.out, name.as_bytes());
        this
    }

    /// CLOSE of the present file.
    #[must_use]
    pub fn close(self, state: StateId) -> Self {
        let this = self.op(op::CLOSE);
        word(this.out, 0);
        stateid(this.out, state);
        this
    }

    /// SETATTR: the present file gets this size.
    #[must_use]
    pub fn set_size(self, state: StateId, size: u64) -> Self {
        let this = self.op(op::SETATTR);
        stateid(this.out, state);
        [1, SIZE, 8].into_iter().for_each(|value| word(this.out, value));
        long(this.out, size);
        this
    }

    /// GETATTR of the present file.
    #[must_use]
    pub fn attributes(self, which: Attributes) -> Self {
        let this = self.op(op::GETATTR);
        bitmap(this.out, which.bits());
        this
    }

    /// READ of the present file.
    #[must_use]
    pub fn read(self, state: StateId, offset: u64, length: u32) -> Self {
        let this = self.op(op::READ);
        stateid(this.out, state);
        long(this.out, offset);
        word(this.out, length);
        this
    }

    /// WRITE to the present file, up to where the data begins: append it with its padding, or end the call
    /// before it.
    #[must_use]
    pub fn write(self, state: StateId, offset: u64, stability: Stability, length: u32) -> Self {
        let this = self.op(op::WRITE);
        stateid(this.out, state);
        long(this.out, offset);
        word(this.out, stability as u32);
        word(this.out, length);
        this
    }

    /// WRITE with its data.
    #[must_use]
    pub fn write_all(self, state: StateId, offset: u64, stability: Stability, data: &[u8]) -> Self {
        let this = self.write(state, offset, stability, data.len() as u32);
        fixed(this.out, data);
        this
    }

    /// COMMIT of all of the present file.
    #[must_use]
    pub fn commit(self) -> Self {
        let this = self.op(op::COMMIT);
        long(this.out, 0);
        word(this.out, 0);
        this
    }

    /// REMOVE from the present directory.
    #[must_use]
    pub fn remove(self, name: &str) -> Self {
        let this = self.op(op::REMOVE);
        opaque(this.out, name.as_bytes());
        this
    }

    /// READDIR of the present directory, from where an earlier answer ended; names alone.
    #[must_use]
    pub fn list(self, cookie: u64, verifier: Verifier, most: u32) -> Self {
        let this = self.op(op::READDIR);
        long(this.out, cookie);
        fixed(this.out, &verifier);
        [most, most, 0].into_iter().for_each(|value| word(this.out, value));
        this
    }
}

fn stateid(out: &mut Vec<u8>, state: StateId) {
    word(out, state.seqid);
    fixed(out, &state.other);
}

fn bitmap(out: &mut Vec<u8>, bits: [u32; 2]) {
    [2, bits[0], bits[1]].into_iter().for_each(|value| word(out, value));
}

/// Attributes that are set: a mode.
fn mode(out: &mut Vec<u8>, mode: u32) {
    bitmap(out, [0, MODE]);
    [4, mode].into_iter().for_each(|value| word(out, value));
}
