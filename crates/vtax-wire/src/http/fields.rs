//! The field section that heads and trailers share (RFC 9112 section 5).

use super::{HEAD_BYTES_MAX, HttpError};

/// Field names that matter for framing, in lower case; the index is the bit in the match mask.
const NAMES: [&[u8]; 4] = [b"content-length", b"transfer-encoding", b"connection", b"host"];
const ALL_NAMES: u8 = 0b1111;

/// List members that matter, in lower case.
const TOKENS: [&[u8]; 3] = [b"close", b"keep-alive", b"chunked"];
const CLOSE: u8 = 0b001;
const KEEP_ALIVE: u8 = 0b010;
const CHUNKED: u8 = 0b100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the first byte of a line.
    LineStart,
    /// In a field name.
    Name,
    /// In a value that isn't needed.
    Value,
    /// Before, in and after the digits of Content-Length.
    LengthStart,
    Length,
    LengthEnd,
    /// Before, in and after a member of a list.
    TokenStart,
    Token,
    TokenTail,
    /// After the CR of a field line.
    Lf,
    /// After the CR of the empty line.
    EndLf,
    /// The empty line was seen.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    TransferEncoding,
    Connection,
}

/// What the fields said about framing and persistence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) content_length: Option<u64>,
    /// Some transfer coding was named.
    pub(super) transfer_encoding: bool,
    /// The last transfer coding is `chunked`.
    pub(super) chunked: bool,
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    /// Number of Host fields, saturating.
    pub(super) hosts: u8,
}

/// Scans field lines up to and including the empty line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FieldScanner {
    state: State,
    list: List,
    /// Candidates of [`NAMES`] or [`TOKENS`] that match so far.
    mask: u8,
    /// Bytes of the present name or token, saturating.
    length: u8,
    /// Fields that nobody reads may go on in the next line.
    folds: bool,
    /// The present field, or the one that just ended, is such a field.
    foldable: bool,
    number: u64,
    pub(super) facts: Facts,
}

impl FieldScanner {
    /// A scanner that takes no folded field: a server may refuse them (RFC 9112 section 5.2).
    pub(super) const fn new() -> Self {
        Self {
            state: State::LineStart,
            list: List::Connection,
            mask: 0,
            length: 0,
            folds: false,
            foldable: false,
            number: 0,
            facts: Facts {
                content_length: None,
                transfer_encoding: false,
                chunked: false,
                close: false,
                keep_alive: false,
                hosts: 0,
            },
        }
    }

    /// A scanner that takes folds, as a client has to, except in the fields that decide where a message ends and what becomes of
    /// the connection.
    pub(super) const fn folding() -> Self {
        let mut scanner = Self::new();
        scanner.folds = true;
        scanner
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Consumes bytes up to the end of the section or of `input`; returns how many.
    pub(super) fn scan(&mut self, input: &[u8]) -> Result<usize, HttpError> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            let rest = &input[at..];
            at += match self.state {
                State::Name => self.name(rest)?,
                State::Value => self.value(rest)?,
                _ => {
                    self.byte(rest[0])?;
                    1
                }
            };
        }
        Ok(at)
    }

    /// Handles one byte in the states where runs are short.
    fn byte(&mut self, byte: u8) -> Result<(), HttpError> {
        match self.state {
            State::LineStart => self.line_start(byte),
            State::LengthStart | State::Length | State::LengthEnd => self.content_length(byte),
            State::TokenStart | State::Token | State::TokenTail => self.token(byte),
            State::Lf | State::EndLf if byte != b'\n' => Err(HttpError::LineEnd),
            State::EndLf => {
                self.state = State::Done;
                Ok(())
            }
            State::Lf | State::Name | State::Value | State::Done => {
                self.state = State::LineStart;
                Ok(())
            }
        }
    }

    fn line_start(&mut self, byte: u8) -> Result<(), HttpError> {
        match byte {
            b'\r' => self.state = State::EndLf,
            b'\n' => self.state = State::Done,
            // What follows is more of a value that isn't needed.
            b' ' | b'\t' if self.folds && self.foldable => self.state = State::Value,
            b' ' | b'\t' => return Err(HttpError::Fold),
            _ if is_token(byte) => {
                self.state = State::Name;
                self.mask = ALL_NAMES;
                self.length = 0;
                self.narrow(&NAMES, byte);
            }
            _ => return Err(HttpError::FieldName),
        }
        Ok(())
    }

    /// Keeps the candidates that have `byte` next.
    fn narrow(&mut self, candidates: &[&[u8]], byte: u8) {
        if self.mask != 0 {
            let (at, lower) = (usize::from(self.length), byte.to_ascii_lowercase());
            for (bit, name) in candidates.iter().enumerate() {
                if name.get(at) != Some(&lower) {
                    self.mask &= !(1 << bit);
                }
            }
        }
        self.length = self.length.saturating_add(1);
    }

    /// The candidate that matched in full, as its bit; 0 if none.
    fn matched(&self, candidates: &[&[u8]]) -> u8 {
        let full = |(_, name): &(usize, &&[u8])| name.len() == usize::from(self.length);
        candidates.iter().enumerate().filter(full).fold(0, |bits, (bit, _)| bits | (self.mask & (1 << bit)))
    }

    fn name(&mut self, input: &[u8]) -> Result<usize, HttpError> {
        for (at, &byte) in input.iter().enumerate() {
            if byte == b':' {
                self.state = self.value_state();
                return Ok(at + 1);
            }
            if !is_token(byte) {
                return Err(HttpError::FieldName);
            }
            self.narrow(&NAMES, byte);
        }
        Ok(input.len())
    }

    /// The state for the value of the name just ended.
    fn value_state(&mut self) -> State {
        let name = self.matched(&NAMES);
        self.foldable = name == 0;
        match name {
            0b0001 => {
                self.number = 0;
                State::LengthStart
            }
            0b0010 => {
                self.list = List::TransferEncoding;
                self.facts.transfer_encoding = true;
                State::TokenStart
            }
            0b0100 => {
                self.list = List::Connection;
                State::TokenStart
            }
            0b1000 => {
                self.facts.hosts = self.facts.hosts.saturating_add(1);
                State::Value
            }
            _ => State::Value,
        }
    }

    fn value(&mut self, input: &[u8]) -> Result<usize, HttpError> {
        let run = value_run(input);
        match input.get(run) {
            None => return Ok(run),
            Some(&byte) => self.line_end(byte)?,
        }
        Ok(run + 1)
    }

    fn line_end(&mut self, byte: u8) -> Result<(), HttpError> {
        self.state = match byte {
            b'\r' => State::Lf,
            b'\n' => State::LineStart,
            _ => return Err(HttpError::FieldValue),
        };
        Ok(())
    }

    fn content_length(&mut self, byte: u8) -> Result<(), HttpError> {
        match (self.state, byte) {
            (State::LengthStart, b' ' | b'\t') => {}
            (State::LengthStart | State::Length, b'0'..=b'9') => {
                let digit = u64::from(byte - b'0');
                let number = self.number.checked_mul(10).and_then(|n| n.checked_add(digit));
                self.number = number.ok_or(HttpError::ContentLength)?;
                self.state = State::Length;
            }
            (State::Length | State::LengthEnd, b' ' | b'\t') => self.state = State::LengthEnd,
            (State::Length | State::LengthEnd, b'\r' | b'\n') => {
                if self.facts.content_length.is_some_and(|other| other != self.number) {
                    return Err(HttpError::ContentLength);
                }
                self.facts.content_length = Some(self.number);
                return self.line_end(byte);
            }
            _ => return Err(HttpError::ContentLength),
        }
        Ok(())
    }

    fn token(&mut self, byte: u8) -> Result<(), HttpError> {
        match self.state {
            State::TokenStart if matches!(byte, b' ' | b'\t' | b',') => {}
            State::TokenStart | State::Token if is_token(byte) => {
                if self.state == State::TokenStart {
                    self.state = State::Token;
                    self.length = 0;
                    self.mask = match self.list {
                        List::Connection => CLOSE | KEEP_ALIVE,
                        List::TransferEncoding => CHUNKED,
                    };
                }
                self.narrow(&TOKENS, byte);
            }
            _ => {
                if self.state == State::Token {
                    self.token_end();
                }
                match byte {
                    b',' => self.state = State::TokenStart,
                    _ if is_value(byte) => self.state = State::TokenTail,
                    _ => return self.line_end(byte),
                }
            }
        }
        Ok(())
    }

    fn token_end(&mut self) {
        let token = self.matched(&TOKENS);
        match self.list {
            List::TransferEncoding => self.facts.chunked = token == CHUNKED,
            List::Connection if token == CLOSE => self.facts.close = true,
            List::Connection if token == KEEP_ALIVE => self.facts.keep_alive = true,
            List::Connection => {}
        }
    }
}

/// Bytes of a head that may still come; keeps hostile peers from feeding one for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget(u32);

impl Budget {
    pub(super) const fn new() -> Self {
        Self(HEAD_BYTES_MAX)
    }

    /// The part of `input` that is still within the budget.
    pub(super) fn limit<'a>(&self, input: &'a [u8]) -> &'a [u8] {
        &input[..input.len().min(self.0 as usize)]
    }

    /// Takes what was consumed of the limited input. `done` says that the head has ended.
    pub(super) fn take(&mut self, consumed: usize, done: bool) -> Result<(), HttpError> {
        self.0 = self.0.saturating_sub(u32::try_from(consumed).unwrap_or(u32::MAX));
        if self.0 == 0 && !done { Err(HttpError::HeadTooLarge) } else { Ok(()) }
    }
}

/// True for the characters of a token (RFC 9110 section 5.6.2).
pub(super) const fn is_token(byte: u8) -> bool {
    const TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0_u8;
        while byte < 128 {
            table[byte as usize] = byte.is_ascii_alphanumeric()
                || matches!(
                    byte,
                    b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`'
                )
                || matches!(byte, b'|' | b'~');
            byte += 1;
        }
        table
    };
    TABLE[byte as usize]
}

/// True for the characters of a field value (RFC 9110 section 5.5), white space included.
pub(super) const fn is_value(byte: u8) -> bool {
    (byte >= 0x20 && byte != 0x7f) || byte == b'\t'
}

/// How many leading bytes are value characters.
pub(super) fn value_run(input: &[u8]) -> usize {
    // Sixteen at a time without an early exit inside, so that it compiles to vector code.
    let (chunks, _) = input.as_chunks::<16>();
    let clean = |chunk: &&[u8; 16]| chunk.iter().fold(true, |ok, &byte| ok & is_value(byte));
    let start = chunks.iter().take_while(clean).count() * 16;
    start + input[start..].iter().take_while(|&&byte| is_value(byte)).count()
}
