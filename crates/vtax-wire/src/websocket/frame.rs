//! Frames (RFC 6455 section 5.2).

use super::{CONTROL_MAX, WebSocketError};

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// A further part of a message.
    Continuation,
    /// A message of text, or its first part.
    Text,
    /// A message of bytes, or its first part.
    Binary,
    /// The last that its sender says.
    Close,
    /// Asks for a pong.
    Ping,
    /// Answers a ping.
    Pong,
}

impl Opcode {
    const fn of(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    const fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    /// True of those that are no parts of messages.
    #[must_use]
    pub const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// What payload of clients is combined with, from some place on (RFC 6455 section 5.3). Applied twice it changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mask([u8; 4]);

impl Mask {
    /// The mask of frames without one.
    pub const NONE: Self = Self([0; 4]);

    /// With this key, for a payload's beginning.
    #[must_use]
    pub const fn new(key: [u8; 4]) -> Self {
        Self(key)
    }

    /// Combines bytes with it, and moves on by as many.
    pub fn apply(&mut self, bytes: &mut [u8]) {
        if self.0 != [0; 4] {
            let key = self.0;
            let (fours, rest) = bytes.as_chunks_mut::<4>();
            for four in fours {
                *four = std::array::from_fn(|at| four[at] ^ key[at]);
            }
            for (byte, key) in rest.iter_mut().zip(key) {
                *byte ^= key;
            }
        }
        self.advance(bytes.len());
    }

    /// Moves on by so many bytes.
    pub fn advance(&mut self, bytes: usize) {
        self.0.rotate_left(bytes % 4);
    }
}

/// What stands before a frame's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// It ends its message.
    pub last: bool,
    /// What it is.
    pub opcode: Opcode,
    /// The key of its mask, where it has one.
    pub key: Option<[u8; 4]>,
    /// Bytes of its payload, below 2^63.
    pub length: u64,
}

impl FrameHead {
    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.last) << 7 | self.opcode.bits());
        let masked = u8::from(self.key.is_some()) << 7;
        match self.length {
            0..126 => out.push(masked | self.length as u8),
            126..0x1_0000 => {
                out.push(masked | 126);
                out.extend_from_slice(&(self.length as u16).to_be_bytes());
            }
            _ => {
                out.push(masked | 127);
                out.extend_from_slice(&self.length.to_be_bytes());
            }
        }
        out.extend(self.key.into_iter().flatten());
    }
}

/// Appends a control frame; of a payload that is too long its beginning.
pub fn write_control(opcode: Opcode, key: Option<[u8; 4]>, payload: &[u8], out: &mut Vec<u8>) {
    let payload = &payload[..payload.len().min(CONTROL_MAX)];
    FrameHead { last: true, opcode, key, length: payload.len() as u64 }.write(out);
    let start = out.len();
    out.extend_from_slice(payload);
    Mask::new(key.unwrap_or_default()).apply(&mut out[start..]);
}

/// Appends a close frame with this status.
pub fn write_close(status: u16, key: Option<[u8; 4]>, out: &mut Vec<u8>) {
    write_control(Opcode::Close, key, &status.to_be_bytes(), out);
}

/// Scans the head of a frame, byte by byte as they come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeadScanner {
    bytes: [u8; 14],
    have: u8,
}

impl HeadScanner {
    /// One that nothing was fed to.
    pub const NEW: Self = Self { bytes: [0; 14], have: 0 };

    /// Takes bytes up to the end of the head; how many, and the head where it is whole. It is ready for the next one then.
    ///
    /// # Errors
    /// They are no head of a frame.
    pub fn scan(&mut self, input: &[u8]) -> Result<(usize, Option<FrameHead>), WebSocketError> {
        for (at, byte) in input.iter().enumerate() {
            self.bytes[usize::from(self.have)] = *byte;
            self.have += 1;
            self.check()?;
            if self.have >= self.needed() {
                let head = self.head()?;
                *self = Self::default();
                return Ok((at + 1, Some(head)));
            }
        }
        Ok((input.len(), None))
    }

    /// Bytes of the head, as far as is known.
    fn needed(&self) -> u8 {
        if self.have < 2 {
            return 2;
        }
        let length = match self.bytes[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        2 + length + if self.bytes[1] & 0x80 != 0 { 4 } else { 0 }
    }

    /// Refuses what is wrong as soon as it is there.
    fn check(&self) -> Result<(), WebSocketError> {
        let [first, second, ..] = self.bytes;
        let opcode = Opcode::of(first & 0x0f).ok_or(WebSocketError::Opcode)?;
        if first & 0x70 != 0 {
            return Err(WebSocketError::Reserved);
        }
        let in_parts = first & 0x80 == 0;
        if opcode.is_control() && (in_parts || self.have > 1 && usize::from(second & 0x7f) > CONTROL_MAX) {
            return Err(WebSocketError::Control);
        }
        Ok(())
    }

    fn head(&self) -> Result<FrameHead, WebSocketError> {
        let [first, second, rest @ ..] = self.bytes;
        let (length, key_at) = match second & 0x7f {
            126 => {
                let length = u16::from_be_bytes([rest[0], rest[1]]);
                (Some(u64::from(length)).filter(|length| *length > 125), 2)
            }
            127 => {
                let length = u64::from_be_bytes(std::array::from_fn(|at| rest[at]));
                (Some(length).filter(|length| *length > 0xffff && length >> 63 == 0), 8)
            }
            short => (Some(u64::from(short)), 0),
        };
        Ok(FrameHead {
            last: first & 0x80 != 0,
            opcode: Opcode::of(first & 0x0f).ok_or(WebSocketError::Opcode)?,
            key: (second & 0x80 != 0).then(|| std::array::from_fn(|at| rest[key_at + at])),
            length: length.ok_or(WebSocketError::Length)?,
        })
    }
}
