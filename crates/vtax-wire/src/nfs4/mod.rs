//! NFS version 4.1 (RFC 8881) as a client speaks it that reads and writes files: sessions, files, directories.
//!
//! [`Compound`] appends a call, operation by operation; [`Results`] reads its answer in the same order. No
//! delegations, layouts or locks are asked for, and nothing is called back.

mod call;
mod results;

pub use call::{Attributes, Channel, Compound, HowOpen};
pub use results::{ChannelFacts, ClientId, FileFacts, NewSession, Opened, Results};

pub use crate::nfs::{Entries, Handle, NfsError, Stability, Verifier, Written, status};

/// The program's number and version, and the procedure of all calls.
pub const COMPOUND: crate::rpc::Procedure = crate::rpc::Procedure { program: 100_003, version: 4, number: 1 };
/// The procedure that does nothing.
pub const NULL: crate::rpc::Procedure = crate::rpc::Procedure { program: 100_003, version: 4, number: 0 };

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
