//! SIP messages (RFC 3261) by scan: a view of the bytes of one message, a framer for streams, a
//! writer into a buffer of the caller's, and digest authentication (RFC 2617, RFC 7616).
//!
//! [`Message::parse`] finds the lines of the head and what each one's name is, nothing more; the
//! accessors parse a value when it is asked for, and [`Message::check`] does what RFC 3261
//! section 8.2 asks of a server before it looks at the method. Nothing here allocates except
//! [`Writer`], which grows the buffer it was given.
//!
//! Strict where a wrong guess would change who gets a message (framing, addresses, Via), lenient
//! about line ends (a bare LF ends a line) and about white space the grammar allows.

mod address;
mod auth;
mod decimal;
mod digest;
mod error;
mod frame;
mod message;
mod name;
mod params;
mod scan;
mod uri;
mod via;
mod write;

pub use address::{Address, Contact};
pub use auth::{Challenge, Credentials, nonce_count};
pub use decimal::decimal;
pub use digest::{Algorithm, Answer, Hex, QopAuth, ha1};
pub use error::{HEADERS_MAX, MESSAGE_BYTES_MAX, SipError};
pub use frame::{Framed, Framer};
pub use message::{CSeq, Message, Parts, StartLine, Values};
pub use name::{Method, Name};
pub use params::{Param, Params};
pub use uri::{Scheme, Uri};
pub use via::{Transport, Via};
pub use write::Writer;
