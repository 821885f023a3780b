//! HTTP/1.1 messages (RFC 9110, RFC 9112): a response scanner for clients, a request scanner
//! for servers.
//!
//! Both scan instead of parse: they keep the few facts that decide where a message ends and
//! whether the connection lives on, and pass over everything else. Where the standard lets a
//! recipient choose, they are strict about framing (that is where a wrong guess makes a wrong
//! measurement) and lenient about line ends (a bare LF ends a line of the head). Responses may fold
//! fields that are passed over (RFC 9112 section 5.2); requests may not.

mod fields;
mod request;
mod response;

pub use request::{Method, Request, RequestScanner, ScannedRequest, TARGET_BYTES_MAX, Target};
pub use response::{Response, ResponseScanner, ScannedResponse};

/// Most bytes of one message's start line and fields (and of its trailers) together.
pub const HEAD_BYTES_MAX: u32 = 64 * 1024;

/// Most bytes of one chunk's size line, extensions included.
pub const CHUNK_LINE_BYTES_MAX: u16 = 4096;

/// Why bytes are not a valid HTTP/1.1 message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HttpError {
    /// The first line is not a status line or request line.
    #[error("the start line is malformed")]
    StartLine,
    /// The version is not HTTP/1.x.
    #[error("the version is not HTTP/1.0 or HTTP/1.1")]
    Version,
    /// The head is longer than [`HEAD_BYTES_MAX`].
    #[error("the head is longer than {HEAD_BYTES_MAX} bytes")]
    HeadTooLarge,
    /// A field name is empty, holds a character that is not allowed, or is followed by white space.
    #[error("a field name is malformed")]
    FieldName,
    /// A field value holds a control character.
    #[error("a field value holds a control character")]
    FieldValue,
    /// A field is continued on the next line (obs-fold): any of a request, of a response one that
    /// is read.
    #[error("a field is folded over several lines")]
    Fold,
    /// A CR is not followed by an LF.
    #[error("a CR is not followed by LF")]
    LineEnd,
    /// Content-Length is not one number below 2^64, or is given twice with different values.
    #[error("Content-Length is not one valid number")]
    ContentLength,
    /// Content-Length and Transfer-Encoding are both given (RFC 9112 section 6.3, item 3).
    #[error("both Content-Length and Transfer-Encoding are given")]
    Framing,
    /// A chunk's size line is malformed or longer than [`CHUNK_LINE_BYTES_MAX`].
    #[error("a chunk's size is malformed")]
    ChunkSize,
    /// A chunk's data is not followed by CRLF.
    #[error("a chunk is not followed by CRLF")]
    ChunkEnd,
    /// The peer switched protocols without being asked to.
    #[error("the peer switched protocols unasked")]
    Upgrade,
    /// An HTTP/1.1 request has no Host field, or more than one.
    #[error("the request has not exactly one Host field")]
    Host,
    /// The connection ended in the middle of the message.
    #[error("the connection ended in the middle of the message")]
    Truncated,
}
