//! Answers to compounds.

use super::call::Attributes;
use super::{Entries, Handle, NfsError, SessionId, StateId, Verifier, Written, op, status};
use crate::nfs::{HANDLE_BYTES_MAX, NAME_BYTES_MAX};
use crate::xdr::{Reader, XdrError};

/// Longest tag, name of a server's owner or of an implementation (RFC 8881: 1024).
const TEXT_BYTES_MAX: usize = 1024;
/// What names of its statuses begin with.
const PROTOCOL: &str = "NFS4";

/// Reads an answer operation by operation, in the order in which they were asked for.
#[derive(Debug, Clone, Copy)]
pub struct Results<'a> {
    reader: Reader<'a>,
    left: u32,
}

/// What EXCHANGE_ID gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientId {
    /// The client.
    pub client: u64,
    /// Number of its next CREATE_SESSION.
    pub sequence: u32,
}

/// A channel as the server allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelFacts {
    /// Longest call.
    pub request: u32,
    /// Longest answer.
    pub response: u32,
    /// Most operations in a call.
    pub operations: u32,
    /// Calls under way at once.
    pub slots: u32,
}

/// What CREATE_SESSION gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewSession {
    /// The session.
    pub session: SessionId,
    /// Its channel.
    pub channel: ChannelFacts,
}

/// What OPEN gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The open file.
    pub state: StateId,
}

/// What GETATTR gave, as far as it was asked for and the server knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileFacts {
    /// 1: a file, 2: a directory.
    pub kind: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// Seconds after which a silent client is forgotten.
    pub lease: Option<u32>,
    /// Longest read.
    pub longest_read: Option<u64>,
    /// Longest write.
    pub longest_write: Option<u64>,
    /// Bytes that the caller may still use.
    pub free: Option<u64>,
    /// Bytes of the whole file system.
    pub total: Option<u64>,
}

impl<'a> Results<'a> {
    /// Of what [`crate::rpc::results`] gave.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn read(mut reader: Reader<'a>) -> Result<Self, NfsError> {
        // The status of the last operation, which says so itself; but without any, it is all there is.
        let status = reader.word()?;
        let _tag = reader.opaque(TEXT_BYTES_MAX)?;
        let left = reader.word()?;
        if left == 0 && status != status::OK {
            return Err(NfsError::Status { protocol: PROTOCOL, operation: "COMPOUND", status });
        }
        Ok(Self { reader, left })
    }

    fn op(&mut self, number: u32, operation: &'static str) -> Result<(), NfsError> {
        self.left = self.left.checked_sub(1).ok_or(NfsError::Order)?;
        let found = self.reader.word()?;
        let status = self.reader.word()?;
        // An operation that the server can't make out is answered as ILLEGAL, 10044.
        if found != number && found != 10044 {
            return Err(NfsError::Order);
        }
        match status {
            status::OK => Ok(()),
            status => Err(NfsError::Status { protocol: PROTOCOL, operation, status }),
        }
    }

    /// EXCHANGE_ID.
    ///
    /// # Errors
    /// It failed, or makes no sense; so with all others.
    pub fn exchange_id(&mut self) -> Result<ClientId, NfsError> {
        self.op(op::EXCHANGE_ID, "EXCHANGE_ID")?;
        let reader = &mut self.reader;
        let found = ClientId { client: reader.long()?, sequence: reader.word()? };
        let _flags = reader.word()?;
        if reader.word()? != 0 {
            return Err(XdrError::Value.into());
        }
        let _minor = reader.long()?;
        let _major = reader.opaque(TEXT_BYTES_MAX)?;
        let _scope = reader.opaque(TEXT_BYTES_MAX)?;
        for _ in 0..reader.count(20)?.min(1) {
            let _domain = reader.opaque(TEXT_BYTES_MAX)?;
            let _name = reader.opaque(TEXT_BYTES_MAX)?;
            let _built = (reader.long()?, reader.word()?);
        }
        Ok(found)
    }

    /// CREATE_SESSION.
    ///
    /// # Errors
    /// It failed, or makes no sense.
    pub fn create_session(&mut self) -> Result<NewSession, NfsError> {
        self.op(op::CREATE_SESSION, "CREATE_SESSION")?;
        let reader = &mut self.reader;
        let session = reader.array()?;
        let _sequence_and_flags = reader.long()?;
        let channel = channel(reader)?;
        let _back = self::channel(reader)?;
        Ok(NewSession { session, channel })
    }

    /// RECLAIM_COMPLETE; that it was told before is no failure.
    ///
    /// # Errors
    /// It failed.
    pub fn reclaim_complete(&mut self) -> Result<(), NfsError> {
        match self.op(op::RECLAIM_COMPLETE, "RECLAIM_COMPLETE") {
            Err(NfsError::Status { status: status::COMPLETE_ALREADY, .. }) => Ok(()),
            other => other,
        }
    }

    /// SEQUENCE; the slot that it was about.
    ///
    /// # Errors
    /// It failed, or makes no sense.
    pub fn sequence(&mut self) -> Result<u32, NfsError> {
        self.op(op::SEQUENCE, "SEQUENCE")?;
        let _session: SessionId = self.reader.array()?;
        let _sequence = self.reader.word()?;
        let slot = self.reader.word()?;
        let _highest = (self.reader.word()?, self.reader.word()?);
        let _flags = self.reader.word()?;
        Ok(slot)
    }

    /// PUTROOTFH.
    ///
    /// # Errors
    /// It failed.
    pub fn root(&mut self) -> Result<(), NfsError> {
        self.op(op::PUTROOTFH, "PUTROOTFH")
    }

    /// PUTFH.
    ///
    /// # Errors
    /// It failed.
    pub fn file(&mut self) -> Result<(), NfsError> {
        self.op(op::PUTFH, "PUTFH")
    }

    /// LOOKUP.
    ///
    /// # Errors
    /// It failed.
    pub fn lookup(&mut self) -> Result<(), NfsError> {
        self.op(op::LOOKUP, "LOOKUP")
    }

    /// GETFH.
    ///
    /// # Errors
    /// It failed, or makes no sense.
    pub fn handle(&mut self) -> Result<Handle, NfsError> {
        self.op(op::GETFH, "GETFH")?;
        let bytes = self.reader.opaque(HANDLE_BYTES_MAX)?;
        Ok(Handle::of(bytes).ok_or(XdrError::Long)?)
    }

    /// CREATE.
    ///
    /// # Errors
    /// It failed, or makes no sense.
    pub fn create_directory(&mut self) -> Result<(), NfsError> {
        self.op(op::CREATE, "CREATE")?;
        change(&mut self.reader)?;
        Ok(skip_bitmap(&mut self.reader)?)
    }

    /// OPEN.
    ///
    /// # Errors
    /// It failed, or makes no sense, or brings a delegation that wasn't wanted.
    pub fn open(&mut self) -> Result<Opened, NfsError> {
        self.op(op::OPEN, "OPEN")?;
        let reader = &mut self.reader;
        let state = stateid(reader)?;
        change(reader)?;
        let _flags = reader.word()?;
        skip_bitmap(reader)?;
        match reader.word()? {
            // None.
            0 => {}
            // None, and why: contention and resources have a flag more.
            3 => {
                if matches!(reader.word()?, 1 | 2) {
                    reader.flag()?;
                }
            }
            _ => return Err(NfsError::Order),
        }
        Ok(Opened { state })
    }

    /// CLOSE.
    ///
    /// # Errors
    /// It failed, or makes no sense.
    pub fn close(&mut self) -> Result<(), NfsError> {
        self.op(op::CLOSE, "CLOSE")?;
        stateid(&mut self.reader)?;
        Ok(())
    }

    /// SETATTR.
    ///
    /// # Errors
    /// It failed, or makes no sense.
    pub fn set_size(&mut self) -> Result<(), NfsError> {
        self.op(op::SETATTR, "SETATTR")?;
        Ok(skip_bitmap(&mut self.reader)?)
    }

    /// GETATTR.
    ///
    /// # Errors
    /// It failed, or makes no sense.
    pub fn attributes(&mut self, which: Attributes) -> Result<FileFacts, NfsError> {
        self.op(op::GETATTR, "GETATTR")?;
        let mut bits = [0; 2];
        for at in 0..self.reader.count(4)? {
            let word = self.reader.word()?;
            match bits.get_mut(at) {
                Some(place) => *place = word,
                None if word != 0 => return Err(NfsError::Order),
                None => {}
            }
        }
        let asked = which.bits();
        if bits[0] & !asked[0] != 0 || bits[1] & !asked[1] != 0 {
            return Err(NfsError::Order);
        }
        let values = self.reader.opaque(TEXT_BYTES_MAX)?;
        let mut values = Reader::new(values);
        let has = |bit: usize| bits[bit / 32] & 1 << (bit % 32) != 0;
        // In the order of their numbers.
        let mut facts = FileFacts::default();
        if has(1) {
            facts.kind = Some(values.word()?);
        }
        if has(4) {
            facts.size = Some(values.long()?);
        }
        if has(10) {
            facts.lease = Some(values.word()?);
        }
        if has(30) {
            facts.longest_read = Some(values.long()?);
        }
        if has(31) {
            facts.longest_write = Some(values.long()?);
        }
        if has(42) {
            facts.free = Some(values.long()?);
        }
        if has(44) {
            facts.total = Some(values.long()?);
        }
        Ok(facts)
    }

    /// READ: the data, of at most so many bytes, and whether the file ends with it.
    ///
    /// # Errors
    /// It failed, or makes no sense.
    pub fn data(&mut self, most: usize) -> Result<(&'a [u8], bool), NfsError> {
        self.op(op::READ, "READ")?;
        let end = self.reader.flag()?;
        Ok((self.reader.opaque(most)?, end))
    }

    /// WRITE.
    ///
    /// # Errors
    /// It failed, or makes no sense.
    pub fn written(&mut self) -> Result<Written, NfsError> {
        self.op(op::WRITE, "WRITE")?;
        let reader = &mut self.reader;
        Ok(Written { count: reader.word()?, committed: reader.word()?, verifier: reader.array()? })
    }

    /// COMMIT.
    ///
    /// # Errors
    /// It failed, or makes no sense.
    pub fn committed(&mut self) -> Result<Verifier, NfsError> {
        self.op(op::COMMIT, "COMMIT")?;
        Ok(self.reader.array()?)
    }

    /// REMOVE.
    ///
    /// # Errors
    /// It failed, or makes no sense.
    pub fn removed(&mut self) -> Result<(), NfsError> {
        self.op(op::REMOVE, "REMOVE")?;
        Ok(change(&mut self.reader)?)
    }

    /// READDIR; each name is shown to `each`.
    ///
    /// # Errors
    /// It failed, or makes no sense.
    pub fn entries(&mut self, mut each: impl FnMut(&[u8])) -> Result<Entries, NfsError> {
        self.op(op::READDIR, "READDIR")?;
        let reader = &mut self.reader;
        let mut found = Entries { verifier: reader.array()?, ..Entries::default() };
        while reader.flag()? {
            found.cookie = reader.long()?;
            each(reader.opaque(NAME_BYTES_MAX)?);
            skip_bitmap(reader)?;
            let _values = reader.opaque(TEXT_BYTES_MAX)?;
            (found.count, found.any) = (found.count + 1, true);
        }
        found.end = reader.flag()?;
        Ok(found)
    }

    /// DESTROY_SESSION.
    ///
    /// # Errors
    /// It failed.
    pub fn destroy_session(&mut self) -> Result<(), NfsError> {
        self.op(op::DESTROY_SESSION, "DESTROY_SESSION")
    }

    /// DESTROY_CLIENTID.
    ///
    /// # Errors
    /// It failed.
    pub fn destroy_client(&mut self) -> Result<(), NfsError> {
        self.op(op::DESTROY_CLIENTID, "DESTROY_CLIENTID")
    }
}

fn stateid(reader: &mut Reader<'_>) -> Result<StateId, XdrError> {
    Ok(StateId { seqid: reader.word()?, other: reader.array()? })
}

/// How a directory changed.
fn change(reader: &mut Reader<'_>) -> Result<(), XdrError> {
    reader.flag()?;
    let _before_and_after = (reader.long()?, reader.long()?);
    Ok(())
}

fn skip_bitmap(reader: &mut Reader<'_>) -> Result<(), XdrError> {
    for _ in 0..reader.count(4)? {
        reader.word()?;
    }
    Ok(())
}

fn channel(reader: &mut Reader<'_>) -> Result<ChannelFacts, XdrError> {
    let _padding = reader.word()?;
    let (request, response, _cached) = (reader.word()?, reader.word()?, reader.word()?);
    let (operations, slots) = (reader.word()?, reader.word()?);
    for _ in 0..reader.count(4)? {
        reader.word()?;
    }
    Ok(ChannelFacts { request, response, operations, slots })
}
