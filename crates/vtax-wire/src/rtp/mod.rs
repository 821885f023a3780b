//! Voice as RTP (RFC 3550, RFC 3551): headers, what a receiver knows of a stream, G.711, and how good it sounds by ITU-T G.107.
//!
//! Nothing here touches a socket or allocates.

mod emodel;
mod g711;
mod header;
mod receiver;

pub use emodel::{Voice, mos};
pub use g711::{Law, tone};
pub use header::{HEADER_BYTES, Header, Packet, RtpError};
pub use receiver::{Came, Receiver};

/// Samples per second of G.711, and ticks per second of its RTP clock.
pub const CLOCK: u32 = 8_000;
