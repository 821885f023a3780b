//! What a server may say that isn't RFB, or is more than a client takes.

/// Why a connection can't go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RfbError {
    /// The first bytes are no greeting of RFB.
    #[error("the server doesn't speak RFB: it greeted with {greeting:?}")]
    NotRfb {
        /// The first twelve bytes, as text.
        greeting: String,
    },
    /// A version before 3.8.
    #[error("the server speaks RFB {major}.{minor}; 3.8 is needed")]
    Version {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// The server declined, with its reason.
    #[error("the server declined: {reason}")]
    Declined {
        /// In its words, at most 200 bytes of them.
        reason: String,
    },
    /// Nothing the server offers may be used.
    #[error("the server offers {offered}, none of which is {wanted}")]
    Security {
        /// Names or numbers of what it offers.
        offered: String,
        /// What was to be used.
        wanted: &'static str,
    },
    /// The password or the response to the challenge was wrong.
    #[error("the server refused the login: {reason}")]
    Login {
        /// In its words.
        reason: String,
    },
    /// The server asks for a password and there is none.
    #[error("the server asks for a password and none is given")]
    NoPassword,
    /// A desktop of no pixels, or of more than is allowed.
    #[error("a desktop of {width}x{height}: there may be 1 to {most} pixels")]
    Desktop {
        /// In pixels.
        width: u16,
        /// In pixels.
        height: u16,
        /// Pixels.
        most: u32,
    },
    /// A rectangle that isn't within the desktop.
    #[error("a rectangle of {width}x{height} at {x},{y} is outside the desktop")]
    Outside {
        /// In pixels.
        x: u16,
        /// In pixels.
        y: u16,
        /// In pixels.
        width: u16,
        /// In pixels.
        height: u16,
    },
    /// A message of no known kind.
    #[error("an unknown message: type {0}")]
    Message(u8),
    /// An encoding that wasn't asked for.
    #[error("an encoding that wasn't asked for: {0}")]
    Encoding(i32),
    /// A length that is negative or more than is allowed.
    #[error("a {what} of {length}: at most {most} is allowed")]
    Length {
        /// What has that length.
        what: &'static str,
        /// As sent.
        length: i64,
        /// The most.
        most: u32,
    },
    /// Compressed data that isn't, or is damaged.
    #[error("damaged compressed data in {0}")]
    Zlib(&'static str),
    /// Compressed data that holds more than its rectangle.
    #[error("compressed data of {0} hold more than their rectangle")]
    Surplus(&'static str),
    /// Compressed data that end before their rectangle is full.
    #[error("compressed data of {0} end before their rectangle is full")]
    Short(&'static str),
    /// What is sent within a rectangle makes no sense.
    #[error("{encoding}: {what}")]
    Content {
        /// Name of the encoding.
        encoding: &'static str,
        /// What makes no sense.
        what: &'static str,
    },
}
