//! WebSocket (RFC 6455): the words of the handshake, frames, and what a receiver makes of them.
//!
//! A receiver takes bytes torn anywhere and gives pieces of messages as they come, so that nothing of a message is kept;
//! control frames, which have at most 125 bytes, it gives whole. It refuses what the standard has receivers refuse, but doesn't
//! look at the characters of texts. Extensions aren't spoken.

mod frame;
mod handshake;
mod receiver;

pub use frame::{FrameHead, HeadScanner, Mask, Opcode, write_close, write_control};
pub use handshake::{ACCEPT_BYTES, KEY_BYTES, Upgrade, UpgradeScanner, accept_for, key_of};
pub use receiver::{Control, Event, Receiver, Role, Scanned};

/// Most bytes of a control frame's payload (RFC 6455 section 5.5).
pub const CONTROL_MAX: usize = 125;

/// Why a receiver gives a connection up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum WebSocketError {
    /// A frame has bits of an extension, and none was agreed on.
    #[error("a frame has bits of an extension that wasn't agreed on")]
    Reserved,
    /// A frame's kind isn't known.
    #[error("a frame is of no kind that is known")]
    Opcode,
    /// A client's frame isn't masked, or a server's is.
    #[error("a frame is masked where it may not be, or isn't where it must be")]
    Masking,
    /// A length isn't in its shortest form, or isn't below 2^63.
    #[error("the length of a frame isn't in its shortest form, or isn't below 2^63")]
    Length,
    /// A control frame is too long or in several parts.
    #[error("a control frame is longer than {CONTROL_MAX} bytes, or in several parts")]
    Control,
    /// A message begins within another, or a part comes without a beginning.
    #[error("a message begins within another one, or goes on without a beginning")]
    Fragment,
    /// A message is longer than was allowed for.
    #[error("a message is longer than is allowed here")]
    TooLong,
    /// The status of a close frame is none.
    #[error("a close frame has no valid status")]
    Close,
}

impl WebSocketError {
    /// The status to close the connection with (RFC 6455 section 7.4.1).
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::TooLong => 1009,
            _ => 1002,
        }
    }
}
