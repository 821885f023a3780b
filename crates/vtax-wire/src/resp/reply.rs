//! Replies, as a client receives them.

use super::{LINE_BYTES_MAX, RespError, VALUE_BYTES_MAX};

/// A reply that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// `+OK` or another status.
    Status,
    /// `-ERR ...`, with its first word.
    Error(ErrorCode),
    /// `:42`
    Integer(i64),
    /// A value of this many bytes.
    Value(u32),
    /// There is no such value.
    Null,
}

/// The first word of an error, `LOADING` or `OOM`, cut at 15 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErrorCode {
    bytes: [u8; Self::BYTES_MAX],
    length: u8,
}

impl ErrorCode {
    const BYTES_MAX: usize = 15;

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(usize::from(self.length)) {
            *place = byte;
            self.length += 1;
        }
    }

    /// The word; empty where it isn't ASCII.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or("")
    }
}

/// What one call of [`ReplyScanner::scan`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scanned<'a> {
    /// Bytes of the input that it took.
    pub consumed: usize,
    /// What they are.
    pub item: Item<'a>,
}

/// What bytes of a reply are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// A part of a reply that is to be continued; the input is used up.
    Incomplete,
    /// Bytes of a value, in order; more input may follow.
    Bytes(&'a [u8]),
    /// The reply is whole.
    End(Reply),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a reply's first byte.
    Type,
    /// In the line of a status or of an error; for an error, whether its first word goes on.
    Text {
        error: bool,
        word: bool,
    },
    /// In the digits of an integer or of a value's length.
    Number {
        length: bool,
        negative: bool,
        digits: bool,
    },
    /// After the CR of the first line.
    LineLf(Head),
    /// In a value; bytes left.
    Body {
        left: u32,
        length: u32,
    },
    BodyCr(u32),
    BodyLf(u32),
}

/// What a reply's first line said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    Whole(Reply),
    Value(u32),
}

/// Scans the replies on one connection, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyScanner {
    state: State,
    /// Bytes of the present line.
    line: u32,
    number: i64,
    error: ErrorCode,
}

impl Default for ReplyScanner {
    fn default() -> Self {
        Self::new()
    }
}

impl ReplyScanner {
    /// A scanner at the start of a connection.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: State::Type,
            line: 0,
            number: 0,
            error: ErrorCode { bytes: [0; ErrorCode::BYTES_MAX], length: 0 },
        }
    }

    /// True where no byte of a reply was seen since the last one ended.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.state == State::Type
    }

    /// Scans what arrived, up to the end of the input, of a piece of a value, or of a reply.
    ///
    /// # Errors
    /// The bytes are not a reply; the connection can't be used any more.
    pub fn scan<'a>(&mut self, input: &'a [u8]) -> Result<Scanned<'a>, RespError> {
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            if let State::Body { left, length } = self.state {
                let taken = input.len().saturating_sub(at).min(left as usize);
                let left = left - taken as u32;
                self.state = if left > 0 { State::Body { left, length } } else { State::BodyCr(length) };
                if taken > 0 {
                    let item = Item::Bytes(&input[at..at + taken]);
                    return Ok(Scanned { consumed: at + taken, item });
                }
                continue;
            }
            at += 1;
            if let Some(reply) = self.byte(byte)? {
                *self = Self::new();
                return Ok(Scanned { consumed: at, item: Item::End(reply) });
            }
        }
        Ok(Scanned { consumed: at, item: Item::Incomplete })
    }

    /// Takes a byte that is no part of a value; the reply, where it was the last.
    fn byte(&mut self, byte: u8) -> Result<Option<Reply>, RespError> {
        self.line += 1;
        if self.line > LINE_BYTES_MAX + 3 {
            return Err(RespError::LongLine);
        }
        match self.state {
            State::Type => self.state = Self::first(byte)?,
            State::Text { error, word } => self.text(byte, error, word)?,
            State::Number { length, negative, digits } => self.digit(byte, length, negative, digits)?,
            State::LineLf(head) => {
                expect(byte, b'\n')?;
                match head {
                    Head::Whole(reply) => return Ok(Some(reply)),
                    Head::Value(length) => self.state = State::Body { left: length, length },
                }
            }
            State::BodyCr(length) => {
                expect(byte, b'\r')?;
                self.state = State::BodyLf(length);
            }
            State::BodyLf(length) => {
                expect(byte, b'\n')?;
                return Ok(Some(Reply::Value(length)));
            }
            State::Body { .. } => {}
        }
        Ok(None)
    }

    const fn first(byte: u8) -> Result<State, RespError> {
        Ok(match byte {
            b'+' => State::Text { error: false, word: false },
            b'-' => State::Text { error: true, word: true },
            b':' => State::Number { length: false, negative: false, digits: false },
            b'$' => State::Number { length: true, negative: false, digits: false },
            _ => return Err(RespError::Type),
        })
    }

    fn text(&mut self, byte: u8, error: bool, word: bool) -> Result<(), RespError> {
        match byte {
            b'\r' => {
                let reply = if error { Reply::Error(self.error) } else { Reply::Status };
                self.state = State::LineLf(Head::Whole(reply));
            }
            // A bare LF would let one reply pass for two.
            b'\n' => return Err(RespError::LineEnd),
            b' ' => self.state = State::Text { error, word: false },
            byte if word => self.error.push(byte),
            _ => {}
        }
        Ok(())
    }

    fn digit(&mut self, byte: u8, length: bool, negative: bool, digits: bool) -> Result<(), RespError> {
        match byte {
            b'-' | b'+' if !digits && self.line == 2 => {
                self.state = State::Number { length, negative: byte == b'-', digits };
            }
            b'0'..=b'9' => {
                let digit = i64::from(byte - b'0');
                let number = self.number.checked_mul(10).and_then(|n| n.checked_sub(digit));
                // Counted downwards: the smallest number has no positive counterpart.
                self.number = number.ok_or(RespError::Number)?;
                self.state = State::Number { length, negative, digits: true };
            }
            b'\r' if digits => {
                let number = if negative { Some(self.number) } else { self.number.checked_neg() };
                let number = number.ok_or(RespError::Number)?;
                self.state =
                    State::LineLf(if length { value(number)? } else { Head::Whole(Reply::Integer(number)) });
            }
            _ => return Err(RespError::Number),
        }
        Ok(())
    }
}

fn value(length: i64) -> Result<Head, RespError> {
    match u32::try_from(length) {
        Ok(length) if length <= VALUE_BYTES_MAX => Ok(Head::Value(length)),
        Err(_) if length == -1 => Ok(Head::Whole(Reply::Null)),
        _ => Err(RespError::Number),
    }
}

const fn expect(byte: u8, expected: u8) -> Result<(), RespError> {
    if byte == expected { Ok(()) } else { Err(RespError::LineEnd) }
}
