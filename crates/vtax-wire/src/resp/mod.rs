//! RESP2, the protocol of Redis and of servers that speak like it: commands as a client writes them,
//! replies as it reads them.
//!
//! Source: the Redis serialization protocol specification, version 2. Arrays and the types of RESP3 are
//! refused: the commands written here are never answered with one.

mod command;
mod reply;

pub use command::{get, set};
pub use reply::{ErrorCode, Item, Reply, ReplyScanner, Scanned};

/// Longest value: what a server takes by default (`proto-max-bulk-len`, 512 MiB).
pub const VALUE_BYTES_MAX: u32 = 512 << 20;
/// Longest status, error or number line, without its end. Servers send far shorter ones.
pub const LINE_BYTES_MAX: u32 = 64 << 10;

/// Why bytes are not a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RespError {
    /// The first byte names no type of reply, or one that no command written here is answered with.
    #[error("a reply begins with a byte that is none of `+-:$`")]
    Type,
    /// A length or an integer is not a decimal number, or is too large.
    #[error("a length or an integer is not a number within its limits")]
    Number,
    /// A line or a value doesn't end with CR LF.
    #[error("a line or a value does not end with CR LF")]
    LineEnd,
    /// A line is longer than [`LINE_BYTES_MAX`].
    #[error("a line is longer than 64 KiB")]
    LongLine,
}
