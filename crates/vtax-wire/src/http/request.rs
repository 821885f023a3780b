//! Requests, as a server receives them.

use super::HttpError;
use super::fields::{Budget, FieldScanner, is_token};

/// Longest request target that is kept; a longer one is passed over.
pub const TARGET_BYTES_MAX: usize = 64;

/// A request's method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// Any other.
    Other,
}

/// A request's target, as far as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    bytes: [u8; TARGET_BYTES_MAX],
    /// Its true length, saturating.
    length: u16,
}

impl Target {
    const EMPTY: Self = Self { bytes: [0; TARGET_BYTES_MAX], length: 0 };

    /// The target; `None` where it was longer than [`TARGET_BYTES_MAX`].
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.bytes.get(..usize::from(self.length))
    }

    fn push(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(usize::from(self.length)) {
            *slot = byte;
        }
        self.length = self.length.saturating_add(1);
    }
}

/// A request whose head ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The target.
    pub target: Target,
    /// The client wants to send more on this connection.
    pub keep_alive: bool,
    /// A body follows. This scanner doesn't know where it ends.
    pub has_body: bool,
}

/// What one call of [`RequestScanner::scan`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScannedRequest {
    /// Bytes of the input that belong to this request. Less than the input's length only where
    /// `request` is set.
    pub consumed: usize,
    /// The request, once the last byte of its head was consumed.
    pub request: Option<Request>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Method,
    Target,
    /// In the version; the number of its bytes seen.
    Version(u8),
    /// After the CR of the request line.
    RequestLf,
    Fields,
}

const VERSION: &[u8] = b"HTTP/1.";

/// Scans the heads of requests on one connection, one after another, pipelined or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestScanner {
    state: State,
    fields: FieldScanner,
    budget: Budget,
    method: [u8; 4],
    method_length: u8,
    http_1_0: bool,
    target: Target,
}

impl Default for RequestScanner {
    fn default() -> Self {
        Self::new()
    }
}

impl RequestScanner {
    /// A scanner at the start of a connection.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: State::Method,
            fields: FieldScanner::new(),
            budget: Budget::new(),
            method: [0; 4],
            method_length: 0,
            http_1_0: false,
            target: Target::EMPTY,
        }
    }

    /// The target of the request under way, as far as it has come.
    #[must_use]
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// Scans what arrived.
    ///
    /// # Errors
    /// The bytes are not a valid request; answer 400 and close.
    pub fn scan(&mut self, input: &[u8]) -> Result<ScannedRequest, HttpError> {
        let input = self.budget.limit(input);
        let mut at = 0;
        while at < input.len() && self.state != State::Fields {
            self.request_line(input[at])?;
            at += 1;
        }
        if self.state == State::Fields {
            at += self.fields.scan(&input[at..])?;
        }
        let done = self.fields.is_done();
        self.budget.take(at, done)?;
        let request = if done { Some(self.finish()?) } else { None };
        Ok(ScannedRequest { consumed: at, request })
    }

    fn request_line(&mut self, byte: u8) -> Result<(), HttpError> {
        match self.state {
            // RFC 9112 section 2.2: a server ignores empty lines before the request line.
            State::Method if self.method_length == 0 && matches!(byte, b'\r' | b'\n') => {}
            State::Method if byte == b' ' && self.method_length > 0 => self.state = State::Target,
            State::Method if is_token(byte) => {
                if let Some(slot) = self.method.get_mut(usize::from(self.method_length)) {
                    *slot = byte;
                }
                self.method_length = self.method_length.saturating_add(1);
            }
            State::Target if byte == b' ' && self.target.length > 0 => self.state = State::Version(0),
            State::Target if byte.is_ascii_graphic() => self.target.push(byte),
            State::Version(at @ 0..7) if byte == VERSION[usize::from(at)] => {
                self.state = State::Version(at + 1)
            }
            // A well-formed version that is another one, such as HTTP/2.0.
            State::Version(5) if byte.is_ascii_digit() => return Err(HttpError::Version),
            State::Version(7) if byte.is_ascii_digit() => {
                self.http_1_0 = byte == b'0';
                self.state = State::Version(8);
            }
            State::Version(8) if byte == b'\r' => self.state = State::RequestLf,
            State::Version(8) | State::RequestLf if byte == b'\n' => self.state = State::Fields,
            State::RequestLf => return Err(HttpError::LineEnd),
            _ => return Err(HttpError::StartLine),
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Request, HttpError> {
        let facts = self.fields.facts;
        if facts.hosts > 1 || (facts.hosts == 0 && !self.http_1_0) {
            return Err(HttpError::Host);
        }
        if facts.transfer_encoding && facts.content_length.is_some() {
            return Err(HttpError::Framing);
        }
        let method = match self.method.get(..usize::from(self.method_length)) {
            Some(b"GET") => Method::Get,
            Some(b"HEAD") => Method::Head,
            _ => Method::Other,
        };
        let request = Request {
            method,
            target: self.target,
            keep_alive: !facts.close && (!self.http_1_0 || facts.keep_alive),
            has_body: facts.transfer_encoding || facts.content_length.is_some_and(|length| length > 0),
        };
        *self = Self::new();
        Ok(request)
    }
}
