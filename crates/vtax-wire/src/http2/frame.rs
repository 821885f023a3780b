//! Frames (RFC 9113 sections 4 and 6).

use super::{FRAME_MAX, Http2Error};

/// Bytes of a frame's head.
pub(super) const HEAD_BYTES: usize = 9;

/// Kinds of frame (section 6).
pub mod kind {
    /// A piece of a body.
    pub const DATA: u8 = 0;
    /// The beginning of a header block.
    pub const HEADERS: u8 = 1;
    /// Deprecated; passed over.
    pub const PRIORITY: u8 = 2;
    /// The end of a stream that is no good end.
    pub const RST_STREAM: u8 = 3;
    /// What a peer allows.
    pub const SETTINGS: u8 = 4;
    /// An answer that wasn't asked for.
    pub const PUSH_PROMISE: u8 = 5;
    /// A question whether the peer is there.
    pub const PING: u8 = 6;
    /// No more streams are taken.
    pub const GOAWAY: u8 = 7;
    /// More may be sent.
    pub const WINDOW_UPDATE: u8 = 8;
    /// The next piece of a header block.
    pub const CONTINUATION: u8 = 9;
}

/// Flags of frames.
pub mod flag {
    /// DATA, HEADERS: nothing more comes on the stream.
    pub const END_STREAM: u8 = 1;
    /// SETTINGS, PING: a reply.
    pub const ACK: u8 = 1;
    /// HEADERS, CONTINUATION: the header block is whole.
    pub const END_HEADERS: u8 = 4;
    /// DATA, HEADERS: there is padding.
    pub const PADDED: u8 = 8;
    /// HEADERS: there is a priority.
    pub const PRIORITY: u8 = 0x20;
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of its payload.
    pub length: u32,
    /// What it is; see [`kind`].
    pub kind: u8,
    /// See [`flag`].
    pub flags: u8,
    /// The stream that it belongs to; 0 is the connection.
    pub stream: u32,
}

impl FrameHead {
    /// A head from its bytes; the reserved bit is passed over (section 4.1).
    #[must_use]
    pub fn parse(bytes: &[u8; HEAD_BYTES]) -> Self {
        let [a, b, c, kind, flags, s, t, u, v] = *bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes([s, t, u, v]) & 0x7fff_ffff,
        }
    }

    /// Appends its bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [s, t, u, v] = self.stream.to_be_bytes();
        out.extend_from_slice(&[a, b, c, self.kind, self.flags, s, t, u, v]);
    }

    /// Whether it has this flag.
    #[must_use]
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// What was read of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A part of a DATA frame; all of it where it came in one piece.
    Data {
        /// The stream that it belongs to.
        stream: u32,
        /// Bytes that count for flow control, padding included.
        counted: u32,
        /// Bytes of the body.
        bytes: &'a [u8],
        /// The frame begins with this part.
        begins: bool,
        /// The frame has ended, and the stream with it.
        end: bool,
    },
    /// A whole frame of another kind.
    Whole {
        /// Its head.
        head: FrameHead,
        /// Its payload.
        payload: &'a [u8],
    },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Before or in a head.
    #[default]
    Head,
    /// In the payload of a frame that isn't DATA.
    Payload(FrameHead),
    /// In a DATA frame.
    Data(Data),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Data {
    stream: u32,
    /// Nothing of it was handed on yet.
    begins: bool,
    /// Its first byte, the length of the padding, is to come.
    padded: bool,
    /// Bytes of the body and of padding that are to come.
    left: u32,
    padding: u32,
    end: bool,
}

/// Cuts a stream of bytes into frames. DATA is handed on as it comes; of other frames at most [`FRAME_MAX`] bytes are kept.
#[derive(Debug, Default)]
pub struct FrameReader {
    state: State,
    /// A head or payload that is torn.
    kept: Vec<u8>,
    /// What is kept was handed on.
    stale: bool,
}

impl FrameReader {
    /// Reads up to the end of a frame, or of a part of DATA; how many bytes were read, and what they are. No piece: more is needed.
    ///
    /// # Errors
    /// A frame that is too long, DATA of no stream, or padding longer than its frame. Nothing can be read any more then.
    pub fn next<'a>(&'a mut self, input: &'a [u8]) -> Result<(usize, Option<Piece<'a>>), Http2Error> {
        if std::mem::take(&mut self.stale) {
            self.kept.clear();
        }
        let mut at = 0;
        if self.state == State::Head {
            at = match self.head(input)? {
                Some(used) => used,
                None => return Ok((input.len(), None)),
            };
        }
        match self.state {
            State::Data(data) => {
                let (used, piece) = self.data(data, &input[at..])?;
                Ok((at + used, piece))
            }
            State::Payload(head) => {
                let (used, whole) = self.payload(head, &input[at..]);
                let kept = if self.stale { &self.kept[..] } else { &input[at..at + used] };
                Ok((at + used, whole.then_some(Piece::Whole { head, payload: kept })))
            }
            State::Head => Ok((at, None)),
        }
    }

    /// Reads a head; the bytes used, or nothing where it isn't whole.
    fn head(&mut self, input: &[u8]) -> Result<Option<usize>, Http2Error> {
        let (bytes, used) = match input.first_chunk::<HEAD_BYTES>() {
            Some(bytes) if self.kept.is_empty() => (*bytes, HEAD_BYTES),
            _ => {
                let used = (HEAD_BYTES - self.kept.len()).min(input.len());
                self.kept.extend_from_slice(&input[..used]);
                let Some(bytes) = self.kept.first_chunk::<HEAD_BYTES>().copied() else { return Ok(None) };
                self.kept.clear();
                (bytes, used)
            }
        };
        let head = FrameHead::parse(&bytes);
        if head.length > FRAME_MAX {
            return Err(Http2Error::FrameSize(head.kind));
        }
        self.state =
            if head.kind == kind::DATA { State::Data(Data::of(head)?) } else { State::Payload(head) };
        Ok(Some(used))
    }

    /// Reads a part of DATA.
    fn data<'a>(
        &mut self,
        mut data: Data,
        input: &'a [u8],
    ) -> Result<(usize, Option<Piece<'a>>), Http2Error> {
        let mut at = 0;
        if data.padded {
            let Some(padding) = input.first() else { return Ok((0, None)) };
            let padding = u32::from(*padding);
            at = 1;
            data.padded = false;
            // Section 6.1: as long as the payload or longer.
            data.left = data.left.checked_sub(padding).ok_or(Http2Error::Padding(kind::DATA))?;
            data.padding = padding;
        }
        // Neither is longer than what is there, so the conversions can't lose anything.
        let run = (data.left as usize).min(input.len() - at);
        let bytes = &input[at..at + run];
        at += run;
        data.left -= run as u32;
        let padding = (data.padding as usize).min(input.len() - at);
        at += padding;
        data.padding -= padding as u32;
        let over = data.left == 0 && data.padding == 0;
        if at == 0 && !over {
            return Ok((0, None));
        }
        let Data { stream, begins, end, .. } = data;
        self.state = if over { State::Head } else { State::Data(Data { begins: false, ..data }) };
        Ok((at, Some(Piece::Data { stream, counted: at as u32, bytes, begins, end: end && over })))
    }

    /// Reads a payload; the bytes used, and whether it is whole. It is in `kept` where that is stale then, else in the input.
    fn payload(&mut self, head: FrameHead, input: &[u8]) -> (usize, bool) {
        let missing = head.length as usize - self.kept.len();
        if missing > input.len() {
            self.kept.extend_from_slice(input);
            return (input.len(), false);
        }
        self.state = State::Head;
        if !self.kept.is_empty() {
            self.kept.extend_from_slice(&input[..missing]);
            self.stale = true;
        }
        (missing, true)
    }
}

impl Data {
    fn of(head: FrameHead) -> Result<Self, Http2Error> {
        if head.stream == 0 {
            return Err(Http2Error::Misplaced(kind::DATA));
        }
        let padded = head.has(flag::PADDED);
        // The length of the padding takes a byte.
        let left = head.length.checked_sub(u32::from(padded)).ok_or(Http2Error::FrameSize(kind::DATA))?;
        Ok(Self {
            stream: head.stream,
            begins: true,
            padded,
            left,
            padding: 0,
            end: head.has(flag::END_STREAM),
        })
    }
}

/// A frame of four bytes: RST_STREAM, WINDOW_UPDATE.
pub(super) fn write_word(kind: u8, stream: u32, word: u32, out: &mut Vec<u8>) {
    FrameHead { length: 4, kind, flags: 0, stream }.write(out);
    out.extend_from_slice(&word.to_be_bytes());
}
