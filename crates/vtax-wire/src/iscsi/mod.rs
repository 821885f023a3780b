//! iSCSI (RFC 7143) as an initiator speaks it: PDUs, login with CHAP (RFC 1994), discovery.
//!
//! [`Login`] leads through the login phase. After it, [`Writer`] appends requests and [`PduScanner`]
//! reads what the target sends, torn anywhere; the data of a PDU is passed on in pieces and never kept.
//! What may allocate is logging in and text, each bounded by [`TEXT_BYTES_MAX`].
//! One connection for each session, error recovery level 0: what goes wrong ends the session.

mod chap;
mod login;
mod pdu;
mod scan;
mod text;
mod write;

pub use chap::{Chap, ChapError, Secret};
pub use login::{Digest, Limits, Login, LoginError, LoginOptions, LoginStep, Negotiated, Session};
pub use pdu::{AsyncEvent, Counters, LoginAnswer, Residual, TargetPdu};
pub use scan::{Digests, Item, PduScanner, Scanned};
pub use text::{Discovered, Pairs, discovered};
pub use write::{Attributes, Command, DataOut, Sink, TaskFunction, Writer};

/// The port of targets.
pub const PORT: u16 = 3260;
/// Bytes of a basic header segment.
pub const HEADER_BYTES: usize = 48;
/// A tag that names no task, and that of what needs no answer.
pub const NO_TAG: u32 = 0xffff_ffff;
/// Longest text of a login or of a discovery that is taken in, whatever the number of PDUs it comes in.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Longest data segment that is taken in before parameters are negotiated (RFC 7143 section 13.12).
pub const DATA_BEFORE_LOGIN: u32 = 8192;

/// Why bytes are not PDUs of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IscsiError {
    /// An operation code that no target sends.
    #[error("a PDU has the operation code {0:#04x}, which targets don't send")]
    Opcode(u8),
    /// More data than was agreed on.
    #[error("a PDU has {got} bytes of data, of at most {most}")]
    LongData {
        /// What its header says.
        got: u32,
        /// What was agreed on.
        most: u32,
    },
    /// The digest of a header differs.
    #[error("the digest of a header is wrong")]
    HeaderDigest,
    /// The digest of a data segment differs.
    #[error("the digest of a data segment is wrong")]
    DataDigest,
    /// Text that isn't `key=value` pairs, each ended by a zero byte.
    #[error("a text is not made of key=value pairs")]
    Text,
    /// Text beyond [`TEXT_BYTES_MAX`].
    #[error("a text is longer than 64 KiB")]
    LongText,
}
