//! Why bytes are not a SIP message, and the bounds of one.

use super::Name;

/// Most bytes of one message, head and body together: what a UDP datagram can hold.
pub const MESSAGE_BYTES_MAX: usize = 65_535;

/// Most header lines of one message; folded lines count once.
pub const HEADERS_MAX: usize = 64;

/// Why bytes are not a SIP message that can be acted upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SipError {
    /// The message is longer than [`MESSAGE_BYTES_MAX`].
    #[error("the message is longer than {MESSAGE_BYTES_MAX} bytes")]
    TooLarge,
    /// The first line is neither a request line nor a status line.
    #[error("the start line is malformed")]
    StartLine,
    /// The version is well formed, but not SIP/2.0; a server answers 505.
    #[error("the version is not SIP/2.0")]
    Version,
    /// The status code is not a number from 100 to 699.
    #[error("the status code is not a number from 100 to 699")]
    StatusCode,
    /// A header's name is empty, holds a character that is not allowed, or has no colon after it.
    #[error("a header's name is malformed")]
    HeaderName,
    /// A CR is not followed by an LF.
    #[error("a CR is not followed by LF")]
    LineEnd,
    /// There are more than [`HEADERS_MAX`] header lines.
    #[error("there are more than {HEADERS_MAX} header lines")]
    TooManyHeaders,
    /// The head doesn't end with an empty line.
    #[error("the head doesn't end with an empty line")]
    Unended,
    /// Content-Length is not one number, or is larger than a message can be.
    #[error("Content-Length is not one valid number")]
    ContentLength,
    /// A stream's message has no Content-Length (RFC 3261 section 18.3).
    #[error("Content-Length is missing on a stream")]
    NoContentLength,
    /// The body is shorter than Content-Length says.
    #[error("the body is shorter than Content-Length says")]
    BodyTruncated,
    /// A header that has to be there is missing.
    #[error("{} is missing", .0.text())]
    Missing(Name),
    /// A header that may be given once is given again.
    #[error("{} is given more than once", .0.text())]
    Repeated(Name),
    /// A header's value is malformed.
    #[error("{} is malformed", .0.text())]
    Value(Name),
    /// The method of CSeq is not the request's.
    #[error("the method of CSeq is not the request's")]
    MethodMismatch,
    /// A URI is malformed.
    #[error("a URI is malformed")]
    Uri,
    /// An address (name-addr or addr-spec) is malformed.
    #[error("an address is malformed")]
    Address,
    /// A parameter list is malformed.
    #[error("a parameter is malformed")]
    Param,
    /// A challenge or credentials are malformed, or lack what a digest needs.
    #[error("the digest challenge or credentials are malformed")]
    Digest,
    /// The authentication scheme is not Digest, or its algorithm or qop is not supported.
    #[error("the authentication scheme, algorithm or qop is not supported")]
    DigestUnsupported,
}
