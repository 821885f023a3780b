//! NFS version 4.1 (RFC 8881) as a client speaks it that reads and writes files: sessions, files, directories.
//!
//! [`Compound`] appends a call, operation by operation; [`Results`] reads its answer in the same order. No
//! delegations, layouts or locks are asked for, and nothing is called back.

mod call;
mod results;

pub use call::{Attributes, Channel, Compound, HowOpen, Stability};
pub use results::{ChannelFacts, ClientId, Entries, FileFacts, NewSession, Opened, Results, Written};

/// The program's number and version, and the procedure of all calls.
pub const COMPOUND: crate::rpc::Procedure = crate::rpc::Procedure { program: 100_003, version: 4, number: 1 };
/// The procedure that does nothing.
pub const NULL: crate::rpc::Procedure = crate::rpc::Procedure { program: 100_003, version: 4, number: 0 };
/// The port of servers.
pub const PORT: u16 = 2049;
/// Longest file handle.
pub const HANDLE_BYTES_MAX: usize = 128;
/// Longest name in a directory that is read.
pub const NAME_BYTES_MAX: usize = 255;

/// A file's handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    bytes: [u8; HANDLE_BYTES_MAX],
    length: u8,
}

impl Handle {
    /// From its bytes; `None` where they are too many.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let mut handle = Self { bytes: [0; HANDLE_BYTES_MAX], length: bytes.len() as u8 };
        handle.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(handle)
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// What an open file is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateId {
    /// Counts changes.
    pub seqid: u32,
    /// The rest.
    pub other: [u8; 12],
}

impl StateId {
    /// The one that the operation before in the same compound gave (RFC 8881 section 16.2.3.1.2).
    pub const CURRENT: Self = Self { seqid: 1, other: [0; 12] };
}

/// A session's identifier.
pub type SessionId = [u8; 16];
/// Changes when a server forgot what wasn't committed.
pub type Verifier = [u8; 8];

/// Numbers of the operations.
mod op {
    pub(super) const CLOSE: u32 = 4;
    pub(super) const COMMIT: u32 = 5;
    pub(super) const CREATE: u32 = 6;
    pub(super) const GETATTR: u32 = 9;
    pub(super) const GETFH: u32 = 10;
    pub(super) const LOOKUP: u32 = 15;
    pub(super) const OPEN: u32 = 18;
    pub(super) const PUTFH: u32 = 22;
    pub(super) const PUTROOTFH: u32 = 24;
    pub(super) const READ: u32 = 25;
    pub(super) const READDIR: u32 = 26;
    pub(super) const REMOVE: u32 = 28;
    pub(super) const SETATTR: u32 = 34;
    pub(super) const WRITE: u32 = 38;
    pub(super) const EXCHANGE_ID: u32 = 42;
    pub(super) const CREATE_SESSION: u32 = 43;
    pub(super) const DESTROY_SESSION: u32 = 44;
    pub(super) const SEQUENCE: u32 = 53;
    pub(super) const DESTROY_CLIENTID: u32 = 57;
    pub(super) const RECLAIM_COMPLETE: u32 = 58;
}

/// Statuses that mean something to a client.
pub mod status {
    /// Done.
    pub const OK: u32 = 0;
    /// The caller may not.
    pub const PERM: u32 = 1;
    /// There is no such file.
    pub const NOENT: u32 = 2;
    /// The device failed.
    pub const IO: u32 = 5;
    /// The caller may not.
    pub const ACCESS: u32 = 13;
    /// It is there already.
    pub const EXIST: u32 = 17;
    /// A value that makes no sense.
    pub const INVAL: u32 = 22;
    /// Beyond the largest size.
    pub const FBIG: u32 = 27;
    /// No space is left.
    pub const NOSPC: u32 = 28;
    /// The file system may only be read.
    pub const ROFS: u32 = 30;
    /// The caller's share of space is used up.
    pub const DQUOT: u32 = 69;
    /// The handle is of a file that is gone.
    pub const STALE: u32 = 70;
    /// The server needs more time.
    pub const DELAY: u32 = 10008;
    /// The server waits for clients of its former life.
    pub const GRACE: u32 = 10013;
    /// The client isn't known any more.
    pub const STALE_CLIENTID: u32 = 10022;
    /// The state isn't known any more.
    pub const STALE_STATEID: u32 = 10023;
    /// The state isn't known.
    pub const BAD_STATEID: u32 = 10025;
    /// The state was given up by the server.
    pub const EXPIRED: u32 = 10011;
    /// The session isn't known any more.
    pub const BADSESSION: u32 = 10052;
    /// Reclaims are over already.
    pub const COMPLETE_ALREADY: u32 = 10054;
    /// The session is gone.
    pub const DEADSESSION: u32 = 10078;
}

/// The words of a status.
#[must_use]
pub const fn words(status: u32) -> &'static str {
    match status {
        status::OK => "done",
        status::PERM => "not permitted (NFS4ERR_PERM)",
        status::NOENT => "there is no such file (NFS4ERR_NOENT)",
        status::IO => "the device failed (NFS4ERR_IO)",
        status::ACCESS => "access denied (NFS4ERR_ACCESS)",
        status::EXIST => "it is there already (NFS4ERR_EXIST)",
        20 => "it is no directory (NFS4ERR_NOTDIR)",
        21 => "it is a directory (NFS4ERR_ISDIR)",
        status::INVAL => "an invalid argument (NFS4ERR_INVAL)",
        status::FBIG => "beyond the largest size (NFS4ERR_FBIG)",
        status::NOSPC => "no space is left (NFS4ERR_NOSPC)",
        status::ROFS => "the file system is read-only (NFS4ERR_ROFS)",
        63 => "the name is too long (NFS4ERR_NAMETOOLONG)",
        66 => "the directory is not empty (NFS4ERR_NOTEMPTY)",
        status::DQUOT => "the quota is used up (NFS4ERR_DQUOT)",
        status::STALE => "the file is gone (NFS4ERR_STALE)",
        10001 => "a bad file handle (NFS4ERR_BADHANDLE)",
        10004 => "not supported (NFS4ERR_NOTSUPP)",
        10006 => "the server failed (NFS4ERR_SERVERFAULT)",
        status::DELAY => "the server needs more time (NFS4ERR_DELAY)",
        status::EXPIRED => "the lease has expired (NFS4ERR_EXPIRED)",
        status::GRACE => "the server is in its grace period (NFS4ERR_GRACE)",
        10016 => "another security is wanted (NFS4ERR_WRONGSEC)",
        10018 => "out of resources (NFS4ERR_RESOURCE)",
        10021 => "the minor version is not served (NFS4ERR_MINOR_VERS_MISMATCH)",
        status::STALE_CLIENTID => "the client is not known (NFS4ERR_STALE_CLIENTID)",
        status::STALE_STATEID => "the open file is not known (NFS4ERR_STALE_STATEID)",
        status::BAD_STATEID => "a bad state (NFS4ERR_BAD_STATEID)",
        10036 => "bad XDR (NFS4ERR_BADXDR)",
        status::BADSESSION => "the session is not known (NFS4ERR_BADSESSION)",
        10053 => "a bad slot (NFS4ERR_BADSLOT)",
        10063 => "out of sequence (NFS4ERR_SEQ_MISORDERED)",
        status::DEADSESSION => "the session is gone (NFS4ERR_DEADSESSION)",
        _ => "an error of another kind",
    }
}

/// Why a compound's answer can't be used, or which operation of it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Nfs4Error {
    /// Malformed.
    #[error("an answer makes no sense: {0}")]
    Xdr(#[from] crate::xdr::XdrError),
    /// Not what was asked for.
    #[error("the answer is to other operations than were asked for")]
    Order,
    /// An operation failed.
    #[error("{} ({operation})", words(*status))]
    Status {
        /// Its name.
        operation: &'static str,
        /// Its status.
        status: u32,
    },
}
