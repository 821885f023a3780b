//! HTTP/2 (RFC 9113) and HPACK (RFC 7541): frames, and the client's side of a connection.
//!
//! [`Client`] takes bytes as they come, torn anywhere, and tells of answers by [`Events`]; what it has to say goes into a
//! buffer of the caller's. [`Prepared`] is a request whose header block was written beforehand: sending it costs no
//! allocation and no compression. Server push is refused, priorities are passed over. A connection error
//! (section 5.4.1) is an [`Http2Error`]; the connection is then to be closed.

mod client;
mod error;
mod frame;
pub mod hpack;
mod prepared;
mod stream;

pub use client::{Client, STREAMS_MAX};
pub use error::{ErrorCode, Http2Error};
pub use frame::{FrameHead, FrameReader, Piece, flag, kind};
pub use prepared::Prepared;
pub use stream::{End, Events};

/// What a client says first (section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Longest payload of a frame that is taken: the least that SETTINGS_MAX_FRAME_SIZE can be (section 6.5.2).
pub const FRAME_MAX: u32 = 16 * 1024;
/// Longest header block, all of its frames together.
pub(crate) const BLOCK_MAX: usize = 64 * 1024;
/// Most CONTINUATION frames of one block.
pub const CONTINUATIONS_MAX: u32 = 64;
/// Longest list of fields as SETTINGS_MAX_HEADER_LIST_SIZE counts: 32 bytes more for each field (section 6.5.2).
pub(crate) const LIST_MAX: u32 = 64 * 1024;
/// What a stream's peer may send before it is told that it may send more, in bytes.
pub const STREAM_WINDOW: u32 = 4 << 20;
/// What the peers of all streams of a connection together may send before they are told that they may send more, in bytes.
pub(crate) const CONNECTION_WINDOW: u32 = 16 << 20;
