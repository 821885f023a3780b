//! FTP as a client speaks it: commands, replies, addresses of data connections, and the lines of a LIST.
//!
//! Sources: RFC 959 (commands, replies), RFC 2228 (security extensions), RFC 2428 (EPRT and EPSV), RFC 3659 (SIZE, REST), RFC 4217
//! (FTP with TLS), RFC 1123 section 4.1.2 (what RFC 959 leaves open). The lines of a LIST have no standard; those of `ls -l` are read,
//! which all common servers send.

mod address;
mod command;
mod list;
mod reply;

pub use address::{extended_passive, passive, size};
pub use command::{command, eprt, port};
pub use list::{Entry, EntryKind, ListScanned, ListScanner};
pub use reply::{Reply, ReplyScanned, ReplyScanner, TEXT_BYTES_MAX};

/// Longest line of a reply or of a LIST, without its end.
pub const LINE_BYTES_MAX: u32 = 4 << 10;
/// Longest reply. Servers greet with a page of text at most.
pub const REPLY_BYTES_MAX: u32 = 64 << 10;

/// Why bytes are not what a server of FTP sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FtpError {
    /// A reply doesn't begin with a code from 100 to 599.
    #[error("a reply does not begin with a code from 100 to 599")]
    Code,
    /// A reply is protected (codes from 600, RFC 2228), which was not asked for.
    #[error("a reply is protected, which was not asked for")]
    Protected,
    /// A line is longer than [`LINE_BYTES_MAX`].
    #[error("a line is longer than 4 KiB")]
    LongLine,
    /// A reply is longer than [`REPLY_BYTES_MAX`].
    #[error("a reply is longer than 64 KiB")]
    LongReply,
}
