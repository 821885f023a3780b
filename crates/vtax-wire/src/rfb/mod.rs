//! The remote framebuffer protocol, RFB 3.8 (RFC 6143), as its client sees it, without I/O.
//!
//! [`Handshake`] leads from the first byte to the server's description of its desktop. [`Decoder`] reads what comes then: it draws updates
//! into a [`Screen`] and says when one has ended. [`client`] writes what a client says. Both are fed bytes as they arrive, torn anywhere, say how
//! many they used, and leave less than [`MOST_UNREAD`] behind. A decoder allocates when it is made, when the size of the desktop changes, and
//! when a stream of zlib begins; never for an update.
//!
//! Extensions beyond RFC 6143 (fence, continuous updates, VeNCrypt, Tight) are as in the community's description of the protocol,
//! <https://github.com/rfbproto/rfbproto/blob/master/rfbproto.rst>.

pub mod client;
mod decode;
mod error;
mod handshake;
mod input;
mod screen;
mod vnc_auth;

pub use decode::{Decoder, Event, Fence, Limits, Tally, Update};
pub use error::RfbError;
pub use handshake::{Handshake, Login, Reached, Security, ServerInit};
pub use screen::{Rect, Screen};
pub use vnc_auth::{password_file as vnc_auth_file, response as vnc_auth_response};

/// Less than this many bytes are left unread where more must come first.
pub const MOST_UNREAD: usize = 2048;

/// Bytes of a pixel as this client asks for them: 32 bits, of which the low 24 are red, green and blue, little-endian.
pub const PIXEL_BYTES: usize = 4;

/// How rectangles are sent (RFC 6143 section 7.7; Tight: the community's description, 7.7.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Pixels as they are.
    Raw,
    /// From elsewhere on the screen.
    CopyRect,
    /// A background and rectangles on it.
    Rre,
    /// Tiles of 16 by 16, each a background and rectangles on it.
    Hextile,
    /// Tiles of 64 by 64 with palettes and runs, compressed as one stream.
    Zrle,
    /// Palettes, fills and filters, compressed in four streams. JPEG is declined by asking for no quality.
    Tight,
}

impl Encoding {
    /// All of them, in the order of [`Tally::rects`].
    pub const ALL: [Self; 6] = [Self::Raw, Self::CopyRect, Self::Rre, Self::Hextile, Self::Zrle, Self::Tight];

    /// Its number on the wire.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Raw => 0,
            Self::CopyRect => 1,
            Self::Rre => 2,
            Self::Hextile => 5,
            Self::Zrle => 16,
            Self::Tight => 7,
        }
    }

    /// Its name, as the RFC has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "Raw",
            Self::CopyRect => "CopyRect",
            Self::Rre => "RRE",
            Self::Hextile => "Hextile",
            Self::Zrle => "ZRLE",
            Self::Tight => "Tight",
        }
    }
}

/// Numbers of what isn't an encoding of pixels.
pub mod pseudo {
    /// The cursor's picture, which the client would draw.
    pub const CURSOR: i32 = -239;
    /// The desktop's size has changed.
    pub const DESKTOP_SIZE: i32 = -223;
    /// The update ends here, whatever number of rectangles was announced.
    pub const LAST_RECT: i32 = -224;
    /// Fences are understood.
    pub const FENCE: i32 = -312;
    /// Continuous updates are understood.
    pub const CONTINUOUS_UPDATES: i32 = -313;
}
