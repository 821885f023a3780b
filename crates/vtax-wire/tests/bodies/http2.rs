//! What the fuzz targets of HTTP/2 and HPACK do, also fed by a property test on stable compilers.

use vtax_wire::http2::hpack::{Decoder, Indexing, Name, Writer};
use vtax_wire::http2::{Client, End, ErrorCode, Events, FrameHead, Http2Error, Prepared};

/// What was heard of a connection, pieces of a body as one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) frames: Vec<u8>,
    pub(crate) fields: Vec<(u32, Vec<u8>, Vec<u8>)>,
    pub(crate) heads: Vec<(u32, u16)>,
    pub(crate) bodies: Vec<(u32, Vec<u8>)>,
    pub(crate) ends: Vec<(u32, End)>,
    pub(crate) goaways: Vec<ErrorCode>,
}

impl Events for Heard {
    fn frame(&mut self, kind: u8) {
        self.frames.push(kind);
    }

    fn field(&mut self, place: u32, name: &[u8], value: &[u8]) {
        self.fields.push((place, name.to_vec(), value.to_vec()));
    }

    fn head(&mut self, place: u32, status: u16, _block: usize) {
        self.heads.push((place, status));
    }

    fn data(&mut self, place: u32, bytes: &[u8]) {
        match self.bodies.last_mut() {
            Some((own, body)) if *own == place => body.extend_from_slice(bytes),
            _ => self.bodies.push((place, bytes.to_vec())),
        }
    }

    fn ended(&mut self, place: u32, end: End) {
        self.ends.push((place, end));
    }

    fn goaway(&mut self, code: ErrorCode) {
        self.goaways.push(code);
    }
}

/// A connection with some streams open, one of them with a body to send.
pub(crate) fn client(streams: u32) -> (Client, Vec<u8>) {
    let (mut client, mut out) = (Client::new(streams), Vec::new());
    let request = Prepared::new(("GET", "http", "/"), &[(":authority", "h")], &[]);
    client.greet(&mut out);
    while let Some(place) = client.next_place() {
        let body = if place == 1 { 100_000 } else { 0 };
        assert_eq!(client.open(&request, body, &mut out), Some(place));
    }
    (client, out)
}

/// Feeds a connection that has four streams in pieces of this size; what was heard, what it said, and how it ended.
pub(crate) fn feed(input: &[u8], piece: usize) -> (Heard, Vec<u8>, Result<(), Http2Error>) {
    let (mut client, mut out) = client(4);
    out.clear();
    let mut heard = Heard::default();
    for part in input.chunks(piece.max(1)) {
        if let Err(error) = client.take(part, &mut out, &mut heard) {
            return (heard, out, Err(error));
        }
        assert!(client.open_streams() <= 4);
    }
    client.body(1 << 20, &mut out, |_, left, length, out| {
        assert!(length as u64 <= left);
        out.resize(out.len() + length, b'x');
    });
    (heard, out, Ok(()))
}

/// SETTINGS without any.
pub(crate) const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// Any frames: torn anywhere they mean the same, and what is sent is bounded by what came. The first byte is the size of pieces.
pub(crate) fn frames(data: &[u8]) {
    let [piece, rest @ ..] = data else { return };
    let input = [&SETTINGS, rest].concat();
    let whole = feed(&input, input.len());
    let torn = feed(&input, usize::from(*piece) + 1);
    assert_eq!(whole, torn);
    let (heard, out, _) = whole;
    assert!(heard.ends.len() <= 4, "a stream ends once");
    let sent = out.len().saturating_sub(100_000 + 9 * 7);
    assert!(sent <= 16 * 2 * (heard.frames.len() + 4) + 9 * heard.frames.len() + input.len(), "{sent}");
}

/// Any header blocks: refused or understood, and fields that were understood are read again as they were written. The input is
/// cut into blocks by its first byte.
pub(crate) fn hpack(data: &[u8]) {
    const MOST: u32 = 4096;
    let [size, rest @ ..] = data else { return };
    let mut decoder = Decoder::new(256);
    for block in rest.chunks(usize::from(*size) + 1) {
        let mut fields: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let done =
            decoder.decode(block, MOST, |field| fields.push((field.name.to_vec(), field.value.to_vec())));
        let size: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        assert!(size <= MOST as usize && decoder.table_size() <= 256);
        if done.is_err() {
            return;
        }
        for huffman in [false, true] {
            for indexing in [Indexing::Incremental, Indexing::Without, Indexing::Never] {
                let mut out = Vec::new();
                let mut writer = Writer { out: &mut out, huffman };
                for (name, value) in &fields {
                    writer.literal(indexing, Name::Text(name), value);
                }
                let mut again = Vec::new();
                let read = Decoder::default()
                    .decode(&out, MOST, |field| again.push((field.name.to_vec(), field.value.to_vec())));
                assert_eq!((read, &again), (Ok(()), &fields));
            }
        }
    }
}

/// Appends a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    FrameHead { length: payload.len() as u32, kind, flags, stream }.write(out);
    out.extend_from_slice(payload);
}
