//! Frames: how messages are cut out of a byte stream that may carry garbage.
//!
//! A guest's console driver, a container runtime's warning or a half-written message of an agent
//! that was killed can all put foreign bytes on the stream. So each frame starts with a magic
//! word and a checksum of its own header: a reader that meets anything else skips to the next
//! place where a valid header starts, and a garbage length can't make it wait for megabytes.
//!
//! ```text
//! offset  0  magic           "VTAX"
//!         4  format version  u8, 1
//!         5  kind            u8, 1 request, 2 reply, 3 event, 4 data
//!         6  reserved        u16, 0
//!         8  id              u32 little-endian: of the request; 0 for events
//!        12  length          u32 little-endian: of the payload, at most 8 MiB
//!        16  header checksum u32 little-endian: CRC-32 (IEEE) of bytes 0 to 15
//!        20  payload
//!         +  checksum        u32 little-endian: CRC-32 (IEEE) of the payload
//! ```

/// Longest payload.
pub const MAX_PAYLOAD: usize = 8 << 20;
const MAGIC: [u8; 4] = *b"VTAX";
const FORMAT: u8 = 1;
const HEADER: usize = 20;
const TRAILER: usize = 4;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A JSON [`crate::message::Request`].
    Request,
    /// A JSON [`crate::message::Reply`].
    Reply,
    /// A JSON [`crate::message::Event`].
    Event,
    /// Raw bytes that belong to the reply with the same id, which follows.
    Data,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Self::Request => 1,
            Self::Reply => 2,
            Self::Event => 3,
            Self::Data => 4,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Request,
            2 => Self::Reply,
            3 => Self::Event,
            4 => Self::Data,
            _ => return None,
        })
    }
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it carries.
    pub kind: Kind,
    /// Id of the request it belongs to; 0 for events.
    pub id: u32,
    /// The message.
    pub payload: Vec<u8>,
}

impl Frame {
    /// The frame as bytes. A payload over [`MAX_PAYLOAD`] is a bug of the caller: the reader would skip it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        debug_assert!(self.payload.len() <= MAX_PAYLOAD, "payload of {} bytes", self.payload.len());
        let mut out = Vec::with_capacity(HEADER + self.payload.len() + TRAILER);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[FORMAT, self.kind.code(), 0, 0]);
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&(self.payload.len() as u32).to_le_bytes());
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&self.payload);
        out.extend_from_slice(&crc32fast::hash(&self.payload).to_le_bytes());
        out
    }
}

/// Cuts frames out of a stream; holds at most one frame and one read's worth of bytes.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Bytes of `buffer` already consumed; compacted when a read is added.
    start: usize,
    skipped: u64,
}

enum Header {
    Incomplete,
    Invalid,
    Valid { kind: Kind, id: u32, length: usize },
}

impl Decoder {
    /// Adds bytes as they come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes that belonged to no frame so far.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The next whole frame, if there is one.
    pub fn next_frame(&mut self) -> Option<Frame> {
        loop {
            let rest = &self.buffer[self.start..];
            match header(rest) {
                Header::Incomplete => return None,
                Header::Invalid => self.skip_to_magic(),
                Header::Valid { kind, id, length } => {
                    let payload = rest.get(HEADER..HEADER + length)?;
                    let checksum = rest.get(HEADER + length..HEADER + length + TRAILER)?;
                    if checksum == crc32fast::hash(payload).to_le_bytes() {
                        let payload = payload.to_vec();
                        self.start += HEADER + length + TRAILER;
                        return Some(Frame { kind, id, payload });
                    }
                    // The header was whole, the payload was not: the sender died in the middle of
                    // it, and the next frame may start anywhere inside.
                    self.skip_to_magic();
                }
            }
        }
    }

    /// Drops at least one byte, and then up to the next byte that may start a frame.
    fn skip_to_magic(&mut self) {
        let rest = &self.buffer[self.start + 1..];
        let step = 1 + rest.iter().position(|b| *b == MAGIC[0]).unwrap_or(rest.len());
        self.start += step;
        self.skipped += step as u64;
    }
}

fn header(bytes: &[u8]) -> Header {
    let seen = bytes.len().min(MAGIC.len());
    if bytes[..seen] != MAGIC[..seen] {
        return Header::Invalid;
    }
    let Some(header) = bytes.first_chunk::<HEADER>() else { return Header::Incomplete };
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let length = word(12) as usize;
    match Kind::from_code(header[5]) {
        Some(kind)
            if header[4] == FORMAT && word(16) == crc32fast::hash(&header[..16]) && length <= MAX_PAYLOAD =>
        {
            Header::Valid { kind, id: word(8), length }
        }
        _ => Header::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> impl Strategy<Value = Frame> {
        (1..5u8, any::<u32>(), prop::collection::vec(any::<u8>(), 0..300)).prop_map(|(kind, id, payload)| {
            Frame { kind: Kind::from_code(kind).expect("1 to 4 are kinds"), id, payload }
        })
    }

    fn decode_in_pieces(bytes: &[u8], piece: usize) -> Vec<Frame> {
        let mut decoder = Decoder::default();
        let mut out = Vec::new();
        for chunk in bytes.chunks(piece.max(1)) {
            decoder.push(chunk);
            while let Some(frame) = decoder.next_frame() {
                out.push(frame);
            }
        }
        out
    }

    proptest! {
        #[test]
        fn frames_survive_any_split(sent in prop::collection::vec(frames(), 0..6), piece in 1..700usize) {
            let bytes: Vec<u8> = sent.iter().flat_map(Frame::encode).collect();
            prop_assert_eq!(decode_in_pieces(&bytes, piece), sent);
        }

        #[test]
        fn frames_survive_garbage_between_them(
            sent in prop::collection::vec(frames(), 1..5),
            garbage in prop::collection::vec(any::<u8>(), 0..200),
            piece in 1..700usize,
        ) {
            // Garbage that ends in a prefix of the magic word is the hardest: add one.
            let mut bytes = Vec::new();
            for frame in &sent {
                bytes.extend_from_slice(&garbage);
                bytes.extend_from_slice(b"VTA");
                bytes.extend_from_slice(&frame.encode());
            }
            prop_assert_eq!(decode_in_pieces(&bytes, piece), sent);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000), piece in 1..100usize) {
            decode_in_pieces(&bytes, piece);
        }

        #[test]
        fn a_torn_frame_does_not_eat_the_next(torn in frames(), next in frames(), keep in 0.0..1.0f64) {
            let whole = torn.encode();
            let cut = ((whole.len() - 1) as f64 * keep) as usize;
            let mut bytes = whole[..cut].to_vec();
            // The reader may wait for as many bytes as the torn header announced, no more.
            for _ in 0..(whole.len() / next.encode().len() + 2) {
                bytes.extend_from_slice(&next.encode());
            }
            let got = decode_in_pieces(&bytes, 64);
            prop_assert!(got.contains(&next));
        }
    }

    #[test]
    fn a_huge_length_is_not_waited_for() {
        let mut bytes = Frame { kind: Kind::Event, id: 0, payload: vec![] }.encode();
        bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        let good = Frame { kind: Kind::Reply, id: 7, payload: b"ok".to_vec() };
        bytes.extend_from_slice(&good.encode());
        assert_eq!(decode_in_pieces(&bytes, 4096), vec![good]);
    }
}
