//! Finds the messages in a stream (RFC 3261 sections 7.5 and 18.3).

use super::scan::{number, split_token, trim, trim_start};
use super::{MESSAGE_BYTES_MAX, Name, SipError};

/// What is at the beginning of a stream's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framed {
    /// That many bytes of empty lines: a keep-alive (RFC 5626 section 4.4.1), or what some send
    /// between messages.
    Empty(usize),
    /// One message of that length.
    Message(usize),
    /// The beginning of a message.
    Incomplete,
}

/// Frames one stream. Remembers how far it has looked, so that a peer who sends byte by byte
/// costs no more than one who doesn't.
#[derive(Debug, Clone, Copy, Default)]
pub struct Framer {
    /// Beginning of the line that isn't complete yet.
    line: usize,
    /// Up to where there is no line end after `line`.
    seen: usize,
    content_length: Option<usize>,
    /// Length of the message once its head is complete.
    length: Option<usize>,
}

impl Framer {
    /// For the beginning of a stream.
    #[must_use]
    pub const fn new() -> Self {
        Self { line: 0, seen: 0, content_length: None, length: None }
    }

    /// Looks at all bytes of the stream that aren't done with. After [`Framed::Empty`] and
    /// [`Framed::Message`] the caller removes as many bytes; after [`Framed::Incomplete`] it
    /// calls again with the same bytes and more.
    ///
    /// # Errors
    /// Where the message ends can't be known; the connection is of no more use.
    pub fn scan(&mut self, stream: &[u8]) -> Result<Framed, SipError> {
        if self.line == 0 && matches!(stream, [b'\r' | b'\n', ..]) {
            let length = stream.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
            return Ok(Framed::Empty(length));
        }
        while self.length.is_none() {
            let from = self.seen.min(stream.len());
            let Some(found) = memchr::memchr(b'\n', &stream[from..]) else {
                self.seen = stream.len();
                if stream.len() > MESSAGE_BYTES_MAX {
                    return Err(SipError::TooLarge);
                }
                return Ok(Framed::Incomplete);
            };
            let end = from + found;
            let line = trim(&stream[self.line..end]);
            let is_fold = matches!(stream.get(self.line), Some(b' ' | b'\t'));
            self.line = end + 1;
            self.seen = end + 1;
            if line.is_empty() && !is_fold {
                let length = self.content_length.ok_or(SipError::NoContentLength)?;
                self.length = Some(end + 1 + length);
            } else if !is_fold {
                self.header(line)?;
            }
            if self.line.max(self.length.unwrap_or(0)) > MESSAGE_BYTES_MAX {
                return Err(SipError::TooLarge);
            }
        }
        match self.length {
            Some(length) if length <= stream.len() => {
                *self = Self::new();
                Ok(Framed::Message(length))
            }
            _ => Ok(Framed::Incomplete),
        }
    }

    fn header(&mut self, line: &[u8]) -> Result<(), SipError> {
        if !matches!(line[0], b'c' | b'C' | b'l' | b'L') {
            return Ok(());
        }
        let (name, rest) = split_token(line);
        if Name::of(name) != Name::ContentLength {
            return Ok(());
        }
        let value = trim_start(rest).strip_prefix(b":").ok_or(SipError::HeaderName)?;
        // A value on the line after would be legal, but isn't used in practice.
        let length = length(trim(value))?;
        if self.content_length.replace(length).is_some() {
            return Err(SipError::ContentLength);
        }
        Ok(())
    }
}

/// Content-Length's value.
pub(super) fn length(value: &[u8]) -> Result<usize, SipError> {
    let length = number(value).map(|n| n as usize).filter(|n| *n <= MESSAGE_BYTES_MAX);
    length.ok_or(SipError::ContentLength)
}
