//! Why a stream or a connection ended before its time.

use std::fmt;

use super::hpack::HpackError;

/// An error code (RFC 9113 section 7), also one that isn't known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Nothing is wrong: a graceful end.
    pub const NO_ERROR: Self = Self(0);
    /// The protocol was violated.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// More was sent than the window allows.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// A frame's length is wrong.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// The request was not looked at: it may be sent again (section 8.7).
    pub const REFUSED_STREAM: Self = Self(7);
    /// The answer isn't needed any more.
    pub const CANCEL: Self = Self(8);

    /// Its name, as the standard writes it; `None` where the standard has no such code.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(usize::try_from(self.0).unwrap_or(usize::MAX)).copied()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error {:#x}", self.0),
        }
    }
}

/// Why bytes can't be part of an HTTP/2 connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Http2Error {
    /// The first frame isn't SETTINGS (section 3.4); what speaks HTTP/1.1 gives this too.
    #[error("the peer doesn't begin with SETTINGS: it may not speak HTTP/2")]
    Preface,
    /// A frame is longer than was allowed, or its length doesn't fit its kind.
    #[error("a frame of kind {0:#x} has a wrong length")]
    FrameSize(u8),
    /// A frame stands where its kind can't.
    #[error("a frame of kind {0:#x} stands where it can't")]
    Misplaced(u8),
    /// A frame's padding is longer than the frame.
    #[error("a frame of kind {0:#x} has more padding than it is long")]
    Padding(u8),
    /// The peer sent more than the window allows (section 6.9.1), or made one too large.
    #[error("a flow-control window is exceeded")]
    Window,
    /// A setting's value makes no sense.
    #[error("the setting {0:#x} has a value that it can't have")]
    Setting(u16),
    /// A header block is longer than is taken, or in more than [`CONTINUATIONS_MAX`](super::CONTINUATIONS_MAX) pieces.
    #[error("a header block is too long, or in too many pieces")]
    Block,
    /// A header block can't be decoded.
    #[error("a header block: {0}")]
    Hpack(HpackError),
    /// The peer asks for more replies than it reads.
    #[error("the peer asks for more replies than it reads")]
    Flood,
}

impl From<HpackError> for Http2Error {
    fn from(error: HpackError) -> Self {
        Self::Hpack(error)
    }
}
