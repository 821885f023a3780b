//! What one end of a WebSocket makes of the other's bytes.

use super::frame::{FrameHead, HeadScanner, Mask, Opcode};
use super::{CONTROL_MAX, WebSocketError};

/// Which end receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The client, whose server doesn't mask.
    Client,
    /// The server, whose client must.
    Server,
}

/// The payload of a control frame, without its mask.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Control {
    bytes: [u8; CONTROL_MAX],
    length: u8,
}

impl Control {
    const EMPTY: Self = Self { bytes: [0; CONTROL_MAX], length: 0 };

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Control").field(&self.bytes()).finish()
    }
}

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A piece of a message.
    Data {
        /// Its bytes: so many of those that were consumed, the last ones.
        length: usize,
        /// What they are combined with.
        mask: Mask,
        /// The message is text.
        text: bool,
        /// The message begins with them.
        first: bool,
        /// It ends with them.
        last: bool,
    },
    /// A pong with the same bytes is asked for.
    Ping(Control),
    /// A ping was answered, or somebody says that they are there.
    Pong(Control),
    /// The other end says nothing more, and why.
    Close(Option<u16>),
}

/// What one call of [`Receiver::scan`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scanned {
    /// Bytes of the input that are done with. Less than the input's length only where `event` is set.
    pub consumed: usize,
    /// What came.
    pub event: Option<Event>,
}

/// One end of a WebSocket, as it hears the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    role: Role,
    /// Most bytes of a message.
    most: u64,
    head: HeadScanner,
    frame: Option<Frame>,
    /// The message under way.
    message: Option<Message>,
    control: Control,
}

/// A frame of which some payload is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    opcode: Opcode,
    last: bool,
    left: u64,
    mask: Mask,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Message {
    text: bool,
    /// Nothing of it was given out.
    begins: bool,
    /// Bytes of the frames that have begun.
    length: u64,
}

impl Receiver {
    /// An end that takes messages of at most so many bytes.
    #[must_use]
    pub const fn new(role: Role, most: u64) -> Self {
        let head = HeadScanner::NEW;
        Self { role, most, head, frame: None, message: None, control: Control::EMPTY }
    }

    /// Takes bytes up to the end of what came first: a piece of a message, or a control frame.
    ///
    /// # Errors
    /// The other end breaks the standard, or sends more than is allowed. Nothing that follows means anything.
    pub fn scan(&mut self, input: &[u8]) -> Result<Scanned, WebSocketError> {
        let mut at = 0;
        loop {
            let Some(frame) = &mut self.frame else {
                let (consumed, head) = self.head.scan(&input[at..])?;
                at += consumed;
                match head {
                    None => return Ok(Scanned { consumed: at, event: None }),
                    Some(head) => self.begin(&head)?,
                }
                continue;
            };
            let here = usize::try_from(frame.left).unwrap_or(usize::MAX).min(input.len() - at);
            if here == 0 && frame.left > 0 {
                return Ok(Scanned { consumed: at, event: None });
            }
            let (mut mask, opcode) = (frame.mask, frame.opcode);
            frame.left -= here as u64;
            frame.mask.advance(here);
            let (ends, last) = (frame.left == 0, frame.last);
            if ends {
                self.frame = None;
            }
            let bytes = &input[at..at + here];
            at += here;
            if opcode.is_control() {
                let start = usize::from(self.control.length);
                self.control.bytes[start..start + here].copy_from_slice(bytes);
                mask.apply(&mut self.control.bytes[start..start + here]);
                self.control.length += here as u8;
                if ends {
                    return Ok(Scanned { consumed: at, event: Some(self.controlled(opcode)?) });
                }
            } else {
                let event = self.data(here, mask, ends && last);
                return Ok(Scanned { consumed: at, event: Some(event) });
            }
        }
    }

    /// True between messages, where not a byte of a frame has come either.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.frame.is_none() && self.message.is_none() && self.head == HeadScanner::NEW
    }

    fn begin(&mut self, head: &FrameHead) -> Result<(), WebSocketError> {
        if head.key.is_some() != (self.role == Role::Server) {
            return Err(WebSocketError::Masking);
        }
        if head.opcode.is_control() {
            self.control.length = 0;
        } else {
            let message = match (head.opcode, &mut self.message) {
                (Opcode::Continuation, Some(message)) => message,
                (Opcode::Text | Opcode::Binary, message @ None) => {
                    message.insert(Message { text: head.opcode == Opcode::Text, begins: true, length: 0 })
                }
                _ => return Err(WebSocketError::Fragment),
            };
            message.length = message.length.saturating_add(head.length);
            if message.length > self.most {
                return Err(WebSocketError::TooLong);
            }
        }
        self.frame = Some(Frame {
            opcode: head.opcode,
            last: head.last,
            left: head.length,
            mask: head.key.map_or(Mask::NONE, Mask::new),
        });
        Ok(())
    }

    fn data(&mut self, length: usize, mask: Mask, last: bool) -> Event {
        let message = self.message.get_or_insert(Message { text: false, begins: true, length: 0 });
        let (text, first) = (message.text, std::mem::take(&mut message.begins));
        if last {
            self.message = None;
        }
        Event::Data { length, mask, text, first, last }
    }

    fn controlled(&self, opcode: Opcode) -> Result<Event, WebSocketError> {
        Ok(match opcode {
            Opcode::Ping => Event::Ping(self.control),
            Opcode::Close => match self.control.bytes() {
                [] => Event::Close(None),
                [high, low, ..] => {
                    let status = u16::from_be_bytes([*high, *low]);
                    // RFC 6455 section 7.4.2, and those that IANA has added.
                    let known = matches!(status, 1000..=1003 | 1007..=1014 | 3000..=4999);
                    if !known {
                        return Err(WebSocketError::Close);
                    }
                    Event::Close(Some(status))
                }
                _ => return Err(WebSocketError::Close),
            },
            _ => Event::Pong(self.control),
        })
    }
}
