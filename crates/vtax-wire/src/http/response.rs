//! Responses, as a client receives them.

use super::fields::{Budget, FieldScanner, value_run};
use super::{CHUNK_LINE_BYTES_MAX, HttpError};

/// A response that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// Status code, 100 to 999.
    pub status: u16,
    /// The connection may carry another request.
    pub keep_alive: bool,
}

/// What one call of [`ResponseScanner::scan`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScannedResponse {
    /// Bytes of the input that belong to this response. Less than the input's length only where
    /// `response` is set.
    pub consumed: usize,
    /// The response, once its last byte was consumed.
    pub response: Option<Response>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the status line; the number of its bytes seen, up to [`REASON`].
    StatusLine(u8),
    /// After the CR of the status line.
    StatusLf,
    Fields,
    Body(u64),
    UntilClose,
    /// In a chunk's size; true once there was a digit.
    ChunkSize(bool),
    ChunkExtension,
    ChunkSizeLf,
    ChunkData,
    ChunkDataCr,
    ChunkDataLf,
    Trailers,
}

const VERSION: &[u8] = b"HTTP/1.";
const MINOR: u8 = 7;
const STATUS: u8 = 9;
/// Bytes before the space and the reason phrase.
const REASON: u8 = 12;

/// Scans the responses to requests on one connection, one after another.
///
/// Feed it what arrives; after each response it is ready for the next. Interim (1xx) responses
/// are passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseScanner {
    state: State,
    fields: FieldScanner,
    budget: Budget,
    status: u16,
    keep_alive: bool,
    http_1_0: bool,
    /// Bytes of the present chunk's size line.
    chunk_line: u16,
    /// Bytes left of the present chunk.
    chunk: u64,
    /// The request was one whose response has no body, whatever its fields say.
    bodiless: bool,
    /// The request asked for another protocol.
    upgrading: bool,
    /// Interim responses passed over since the last response ended, saturating.
    interims: u8,
}

impl Default for ResponseScanner {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseScanner {
    /// A scanner at the start of a connection.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: State::StatusLine(0),
            fields: FieldScanner::folding(),
            budget: Budget::new(),
            status: 0,
            keep_alive: false,
            http_1_0: false,
            chunk_line: 0,
            chunk: 0,
            bodiless: false,
            upgrading: false,
            interims: 0,
        }
    }

    /// Says that the next response is one to HEAD: it has no body (RFC 9112 section 6.3, item 1).
    pub fn expect_no_body(&mut self) {
        self.bodiless = true;
    }

    /// Says that the next response may be 101, which switches to another protocol: what comes behind it is of that, and isn't for
    /// this scanner (RFC 9110 section 7.8).
    pub fn expect_upgrade(&mut self) {
        self.upgrading = true;
    }

    /// Interim (1xx) responses that were passed over since the last response ended; 255: as many or more.
    #[must_use]
    pub fn interims(&self) -> u8 {
        self.interims
    }

    /// True where the next byte belongs to the head of a response.
    #[must_use]
    pub fn is_in_head(&self) -> bool {
        matches!(self.state, State::StatusLine(_) | State::StatusLf | State::Fields)
    }

    /// True where not one byte of a response was seen since the last one ended.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.state == State::StatusLine(0) && self.budget == Budget::new()
    }

    /// Scans what arrived.
    ///
    /// # Errors
    /// The bytes are not a valid response; the connection can't be used any more.
    pub fn scan(&mut self, input: &[u8]) -> Result<ScannedResponse, HttpError> {
        let mut at = 0;
        while at < input.len() {
            let ScannedResponse { consumed, response } = self.scan_part(&input[at..])?;
            at += consumed;
            if response.is_some() {
                return Ok(ScannedResponse { consumed: at, response });
            }
        }
        Ok(ScannedResponse { consumed: at, response: None })
    }

    /// Scans what arrived, at most to the end of the head, of a run of body bytes, or of what is between these: for
    /// who wants to see them. A run of body bytes begins where [`skippable`](Self::skippable) isn't 0.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    #[inline]
    pub fn scan_part(&mut self, input: &[u8]) -> Result<ScannedResponse, HttpError> {
        let Some(first) = input.first() else { return Ok(ScannedResponse { consumed: 0, response: None }) };
        let (consumed, response) = match self.state {
            State::StatusLine(_) | State::StatusLf | State::Fields => self.head(input)?,
            State::Body(_) | State::UntilClose | State::ChunkData => {
                let skipped = self.skippable().min(input.len() as u64);
                // No larger than `input`, so the conversion can't lose anything.
                (skipped as usize, self.skip(skipped))
            }
            State::Trailers => self.trailers(input)?,
            _ => {
                self.chunk_byte(*first)?;
                (1, None)
            }
        };
        Ok(ScannedResponse { consumed, response })
    }

    /// Body bytes that may be dropped unseen (say with `MSG_TRUNC`) and then reported to
    /// [`skip`](Self::skip); 0 where the next bytes must be scanned.
    #[must_use]
    pub fn skippable(&self) -> u64 {
        match self.state {
            State::Body(left) => left,
            State::ChunkData => self.chunk,
            State::UntilClose => u64::MAX,
            _ => 0,
        }
    }

    /// Passes over `bytes` of the body, at most [`skippable`](Self::skippable); more is cut to that.
    pub fn skip(&mut self, bytes: u64) -> Option<Response> {
        let bytes = bytes.min(self.skippable());
        match self.state {
            State::Body(left) if left == bytes => return Some(self.finish()),
            State::Body(left) => self.state = State::Body(left - bytes),
            State::ChunkData => {
                self.chunk -= bytes;
                if self.chunk == 0 {
                    self.state = State::ChunkDataCr;
                }
            }
            _ => {}
        }
        None
    }

    /// Says that the peer closed the connection: the end of a response that is delimited by it.
    ///
    /// # Errors
    /// [`HttpError::Truncated`] in the middle of any other response.
    pub fn end(&mut self) -> Result<Option<Response>, HttpError> {
        match self.state {
            State::UntilClose => Ok(Some(self.finish())),
            _ if self.is_between() => Ok(None),
            _ => Err(HttpError::Truncated),
        }
    }

    fn finish(&mut self) -> Response {
        let response = Response { status: self.status, keep_alive: self.keep_alive };
        *self = Self::new();
        response
    }

    fn head(&mut self, input: &[u8]) -> Result<(usize, Option<Response>), HttpError> {
        let input = self.budget.limit(input);
        let mut at = 0;
        while at < input.len() && self.state != State::Fields {
            at += self.status_line(&input[at..])?;
        }
        if self.state == State::Fields {
            at += self.fields.scan(&input[at..])?;
        }
        let done = self.fields.is_done();
        self.budget.take(at, done)?;
        Ok((at, if done { self.head_end()? } else { None }))
    }

    fn status_line(&mut self, input: &[u8]) -> Result<usize, HttpError> {
        let byte = input[0];
        let State::StatusLine(position) = self.state else {
            self.state = State::Fields;
            return if byte == b'\n' { Ok(1) } else { Err(HttpError::LineEnd) };
        };
        match position {
            0..MINOR if byte == VERSION[usize::from(position)] => {}
            0..MINOR => return Err(HttpError::StartLine),
            MINOR => match byte {
                b'0'..=b'9' => self.http_1_0 = byte == b'0',
                _ => return Err(HttpError::Version),
            },
            8 if byte == b' ' => {}
            STATUS..REASON if byte.is_ascii_digit() => {
                self.status = self.status * 10 + u16::from(byte - b'0');
            }
            _ => return self.reason(position, input),
        }
        self.state = State::StatusLine(position + 1);
        Ok(1)
    }

    /// The space, the reason phrase and the line end.
    fn reason(&mut self, position: u8, input: &[u8]) -> Result<usize, HttpError> {
        match (position, input[0]) {
            (REASON.., b'\r') => self.state = State::StatusLf,
            (REASON.., b'\n') => self.state = State::Fields,
            (REASON, b' ') => self.state = State::StatusLine(REASON + 1),
            (13.., _) => match value_run(input) {
                0 => return Err(HttpError::StartLine),
                run => return Ok(run),
            },
            _ => return Err(HttpError::StartLine),
        }
        Ok(1)
    }

    /// Decides how the body ends (RFC 9112 section 6.3).
    fn head_end(&mut self) -> Result<Option<Response>, HttpError> {
        let facts = self.fields.facts;
        match self.status {
            0..100 => return Err(HttpError::StartLine),
            101 if self.upgrading => {
                self.keep_alive = true;
                return Ok(Some(self.finish()));
            }
            101 => return Err(HttpError::Upgrade),
            100..200 => {
                // The budget stays: a peer may not send interim responses for ever.
                let (budget, bodiless, upgrading) = (self.budget, self.bodiless, self.upgrading);
                let interims = self.interims.saturating_add(1);
                *self = Self { budget, bodiless, upgrading, interims, ..Self::new() };
                return Ok(None);
            }
            _ => {}
        }
        if facts.transfer_encoding && facts.content_length.is_some() {
            return Err(HttpError::Framing);
        }
        let persistent = if self.http_1_0 { facts.keep_alive && !facts.transfer_encoding } else { true };
        self.keep_alive = persistent && !facts.close;
        self.state = match facts.content_length {
            _ if self.bodiless || matches!(self.status, 204 | 304) => return Ok(Some(self.finish())),
            _ if facts.chunked => State::ChunkSize(false),
            Some(0) => return Ok(Some(self.finish())),
            Some(length) => State::Body(length),
            None => {
                self.keep_alive = false;
                State::UntilClose
            }
        };
        Ok(None)
    }

    fn chunk_byte(&mut self, byte: u8) -> Result<(), HttpError> {
        if matches!(self.state, State::ChunkSize(_) | State::ChunkExtension) {
            self.chunk_line += 1;
            if self.chunk_line > CHUNK_LINE_BYTES_MAX {
                return Err(HttpError::ChunkSize);
            }
        }
        self.state = match (self.state, byte) {
            (State::ChunkSize(_), _) if byte.is_ascii_hexdigit() => {
                if self.chunk >> 60 != 0 {
                    return Err(HttpError::ChunkSize);
                }
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                self.chunk = self.chunk << 4 | u64::from(digit);
                State::ChunkSize(true)
            }
            (State::ChunkSize(true) | State::ChunkExtension, b'\r') => State::ChunkSizeLf,
            (State::ChunkSize(true), b';' | b' ' | b'\t') => State::ChunkExtension,
            (State::ChunkExtension, _) if super::fields::is_value(byte) => State::ChunkExtension,
            (State::ChunkSizeLf, b'\n') if self.chunk == 0 => {
                self.fields = FieldScanner::folding();
                State::Trailers
            }
            (State::ChunkSizeLf, b'\n') => State::ChunkData,
            (State::ChunkDataCr, b'\r') => State::ChunkDataLf,
            (State::ChunkDataLf, b'\n') => {
                self.chunk_line = 0;
                State::ChunkSize(false)
            }
            (State::ChunkDataCr | State::ChunkDataLf, _) => return Err(HttpError::ChunkEnd),
            _ => return Err(HttpError::ChunkSize),
        };
        Ok(())
    }

    fn trailers(&mut self, input: &[u8]) -> Result<(usize, Option<Response>), HttpError> {
        let input = self.budget.limit(input);
        let consumed = self.fields.scan(input)?;
        let done = self.fields.is_done();
        self.budget.take(consumed, done)?;
        Ok((consumed, done.then(|| self.finish())))
    }
}
