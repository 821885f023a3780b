//! The client's side of a connection.

use super::frame::{FrameHead, FrameReader, Piece, flag, kind, write_word};
use super::hpack::{Decoder, TABLE_BYTES, Writer};
use super::prepared::{PeerTable, Prepared};
use super::stream::{End, Events, Head, Stream};
use super::{
    BLOCK_MAX, CONNECTION_WINDOW, CONTINUATIONS_MAX, ErrorCode, FRAME_MAX, Http2Error, LIST_MAX, PREFACE,
    STREAM_WINDOW,
};

/// Most streams of a connection at once.
pub const STREAMS_MAX: u32 = 1000;
/// Streams that are opened before the peer has said how many it takes: the least that it should take (section 6.5.2).
const UNTOLD: u32 = 100;
/// Replies that wait for the peer to read.
const REPLIES_MAX: u32 = 1000;
/// So many frames may come before a stream that was answered early is ended from here.
const EARLY_FRAMES: u64 = 100;
/// The first window of streams and connections (section 6.9.2).
const WINDOW: u32 = 65_535;
/// The largest window (section 6.9.1), and the largest id of a stream.
const MOST: u32 = 0x7fff_ffff;

/// Settings (section 6.5.2).
mod setting {
    pub(super) const HEADER_TABLE_SIZE: u16 = 1;
    pub(super) const ENABLE_PUSH: u16 = 2;
    pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(super) const MAX_FRAME_SIZE: u16 = 5;
    pub(super) const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// What came of header blocks that aren't whole.
#[derive(Debug, Clone, Copy)]
struct Continuing {
    stream: u32,
    end: bool,
    frames: u32,
}

/// A client's connection. What it sends is appended to a buffer of the caller's.
#[derive(Debug)]
pub struct Client {
    reader: FrameReader,
    decoder: Decoder,
    block: Vec<u8>,
    continuing: Option<Continuing>,
    /// Ids of the streams by their place; 0: none.
    ids: Vec<u32>,
    streams: Vec<Stream>,
    vacant: Vec<u32>,
    next_id: u32,
    greeted: bool,
    /// The peer's SETTINGS have come.
    settled: bool,
    /// Streams that the peer takes at once.
    allowed: u32,
    /// What may be sent on all streams together, and on a new one.
    send: i64,
    peer_window: i64,
    peer_frame: u32,
    table: PeerTable,
    /// What the peer may send on all streams together.
    window: u32,
    /// No stream with a greater id is taken any more.
    last: Option<u32>,
    replies: u32,
    heard: u64,
    whole: u64,
    /// Frames that came.
    frames: u64,
    /// Streams whose answer came before their whole body was sent, each with the frames until then: their place is free, and the peer
    /// is likely to end them itself.
    answered_early: Vec<(u32, u64)>,
    /// Streams that have more of a body to send, and the place whose is next.
    sending: u32,
    turn: usize,
}

impl Client {
    /// A connection on which up to so many streams are open at once, 1 to [`STREAMS_MAX`].
    #[must_use]
    pub fn new(streams: u32) -> Self {
        let streams = streams.clamp(1, STREAMS_MAX);
        Self {
            reader: FrameReader::default(),
            decoder: Decoder::default(),
            block: Vec::new(),
            continuing: None,
            ids: vec![0; streams as usize],
            streams: vec![Stream::default(); streams as usize],
            vacant: (0..streams).rev().collect(),
            next_id: 1,
            greeted: false,
            settled: false,
            allowed: UNTOLD,
            send: i64::from(WINDOW),
            peer_window: i64::from(WINDOW),
            peer_frame: FRAME_MAX,
            table: PeerTable::Empty,
            window: CONNECTION_WINDOW,
            last: None,
            replies: 0,
            heard: 0,
            whole: 0,
            frames: 0,
            answered_early: Vec::new(),
            sending: 0,
            turn: 0,
        }
    }

    /// Whether another stream can be opened now.
    #[must_use]
    pub fn can_open(&self) -> bool {
        self.is_lasting() && !self.vacant.is_empty() && self.open_streams() < self.allowed
    }

    /// Whether streams can be opened on it at all, once others have ended.
    #[must_use]
    pub const fn is_lasting(&self) -> bool {
        self.last.is_none() && self.next_id <= MOST && self.allowed > 0
    }

    /// Streams that are open.
    #[must_use]
    pub fn open_streams(&self) -> u32 {
        // No more than there are places.
        (self.ids.len() - self.vacant.len()) as u32
    }

    /// The place that the next stream gets.
    #[must_use]
    pub fn next_place(&self) -> Option<u32> {
        self.vacant.last().copied()
    }

    /// Streams that the peer takes at once; `None` before its SETTINGS.
    #[must_use]
    pub fn allowed(&self) -> Option<u32> {
        self.settled.then_some(self.allowed)
    }

    /// Answers that came whole.
    #[must_use]
    pub const fn answered(&self) -> u64 {
        self.whole
    }

    /// What was appended is sent: the peer may ask for as many replies again.
    pub const fn drained(&mut self) {
        self.replies = 0;
    }

    /// Appends what a connection begins with, once: the preface, SETTINGS, and the window of all streams together.
    pub fn greet(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.greeted, true) {
            return;
        }
        out.extend_from_slice(PREFACE);
        let settings = [
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, STREAM_WINDOW),
            (setting::MAX_HEADER_LIST_SIZE, LIST_MAX),
        ];
        FrameHead { length: 6 * settings.len() as u32, kind: kind::SETTINGS, flags: 0, stream: 0 }.write(out);
        for (name, value) in settings {
            out.extend_from_slice(&name.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        }
        write_word(kind::WINDOW_UPDATE, 0, CONNECTION_WINDOW - WINDOW, out);
    }

    /// Opens a stream with a request that has a body of so many bytes, which [`body`](Self::body) sends; its place. `None` where
    /// none [can be opened](Self::can_open).
    pub fn open(&mut self, request: &Prepared, body: u64, out: &mut Vec<u8>) -> Option<u32> {
        if !self.can_open() {
            return None;
        }
        self.greet(out);
        // The peer counts those that it hasn't ended yet.
        let count = self.open_streams() + self.answered_early.len() as u32;
        self.end_early(count.saturating_sub(self.allowed.saturating_sub(1)) as usize, out);
        let place = self.vacant.pop()?;
        let id = self.next_id;
        self.next_id += 2;
        self.ids[place as usize] = id;
        self.streams[place as usize] = Stream::new(self.peer_window, body, request.bodiless, self.heard);
        self.sending += u32::from(body > 0);
        let shrunk = self.table == PeerTable::Shrunk;
        let block = request.block(&mut self.table);
        if shrunk {
            self.table = PeerTable::Unused;
        }
        put_block(id, (shrunk, block), body == 0, self.peer_frame as usize, out);
        Some(place)
    }

    /// Ends a stream whose answer isn't waited for any more. False where nothing was heard of the connection since it was opened:
    /// then it stays, as the connection is of no use.
    pub fn give_up(&mut self, place: u32, out: &mut Vec<u8>) -> bool {
        let at = place as usize;
        let Some(id) = self.ids.get(at).copied().filter(|id| *id != 0) else { return false };
        if self.streams[at].opened == self.heard {
            return false;
        }
        self.reset(place, id, ErrorCode::CANCEL, out);
        true
    }

    /// Appends pieces of bodies that are to be sent, as far as the windows allow, about `room` bytes. `fill` appends so many bytes of
    /// that of a place, of which so many are left.
    pub fn body(
        &mut self,
        room: usize,
        out: &mut Vec<u8>,
        mut fill: impl FnMut(u32, u64, usize, &mut Vec<u8>),
    ) {
        let most = out.len() + room;
        let count = if self.sending > 0 { self.ids.len() } else { 0 };
        for _ in 0..count {
            let at = self.turn % count;
            while self.ids[at] != 0 && self.streams[at].left > 0 {
                let stream = &mut self.streams[at];
                let allowed = stream.send.min(self.send).clamp(0, i64::from(self.peer_frame)) as u64;
                // No more than a frame holds.
                let length = allowed.min(stream.left) as usize;
                if length == 0 || out.len() >= most {
                    break;
                }
                let left = stream.left;
                stream.left -= length as u64;
                stream.send -= length as i64;
                self.send -= length as i64;
                let last = stream.left == 0;
                self.sending -= u32::from(last);
                let flags = if last { flag::END_STREAM } else { 0 };
                let head = FrameHead { length: length as u32, kind: kind::DATA, flags, stream: self.ids[at] };
                head.write(out);
                let end = out.len() + length;
                fill(at as u32, left, length, out);
                out.resize(end, 0);
            }
            if out.len() >= most {
                return;
            }
            self.turn = (at + 1) % count;
        }
    }

    /// Takes bytes that came. What is to be replied is appended.
    ///
    /// # Errors
    /// What is wrong with the connection, which is to be closed; its streams have failed.
    pub fn take(
        &mut self,
        mut input: &[u8],
        out: &mut Vec<u8>,
        events: &mut impl Events,
    ) -> Result<(), Http2Error> {
        self.heard += 1;
        let mut reader = std::mem::take(&mut self.reader);
        loop {
            // What isn't even a frame is another protocol's.
            let (used, piece) =
                reader.next(input).map_err(|error| if self.settled { error } else { Http2Error::Preface })?;
            input = &input[used..];
            match piece {
                None => break,
                Some(Piece::Data { stream, counted, bytes, begins, end }) => {
                    if begins {
                        self.begun(kind::DATA, out, events)?;
                    }
                    self.data((stream, counted, bytes, end), out, events)?;
                }
                Some(Piece::Whole { head, payload }) => {
                    self.begun(head.kind, out, events)?;
                    self.whole_frame(head, payload, out, events)?;
                }
            }
        }
        self.reader = reader;
        Ok(())
    }

    /// A frame of this kind has begun.
    fn begun(&mut self, kind: u8, out: &mut Vec<u8>, events: &mut impl Events) -> Result<(), Http2Error> {
        self.expect(kind)?;
        events.frame(kind);
        self.frames += 1;
        let waited = self.answered_early.iter().take_while(|(_, then)| self.frames - then > EARLY_FRAMES);
        self.end_early(waited.count(), out);
        Ok(())
    }

    /// Ends the first of the streams that were answered early and that the peer hasn't ended.
    fn end_early(&mut self, count: usize, out: &mut Vec<u8>) {
        let count = count.min(self.answered_early.len());
        for (id, _) in self.answered_early.drain(..count) {
            write_word(kind::RST_STREAM, id, ErrorCode::CANCEL.0, out);
        }
    }

    /// Whether a frame of this kind can come now.
    fn expect(&self, kind: u8) -> Result<(), Http2Error> {
        if !self.settled && kind != kind::SETTINGS {
            return Err(Http2Error::Preface);
        }
        if self.continuing.is_some() != (kind == kind::CONTINUATION) {
            return Err(Http2Error::Misplaced(kind));
        }
        Ok(())
    }

    fn whole_frame(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
        events: &mut impl Events,
    ) -> Result<(), Http2Error> {
        let of_connection = matches!(head.kind, kind::SETTINGS | kind::PING | kind::GOAWAY);
        let of_streams =
            matches!(head.kind, kind::HEADERS | kind::PRIORITY | kind::RST_STREAM | kind::CONTINUATION);
        if (of_connection && head.stream != 0) || (of_streams && head.stream == 0) {
            return Err(Http2Error::Misplaced(head.kind));
        }
        let wrong = Err(Http2Error::FrameSize(head.kind));
        match (head.kind, payload) {
            (kind::HEADERS, _) => self.headers(head, payload, out, events),
            (kind::CONTINUATION, _) => self.continuation(head, payload, out, events),
            (kind::PRIORITY, [_, _, _, _, _]) => Ok(()),
            (kind::RST_STREAM, [a, b, c, d]) => {
                self.was_reset(head.stream, ErrorCode(u32::from_be_bytes([*a, *b, *c, *d])), events)
            }
            (kind::SETTINGS, []) if head.has(flag::ACK) => Ok(()),
            (kind::SETTINGS, _) if !head.has(flag::ACK) && payload.len().is_multiple_of(6) => {
                self.settings(payload, out)
            }
            // Section 6.6: it was switched off.
            (kind::PUSH_PROMISE, _) => Err(Http2Error::Misplaced(kind::PUSH_PROMISE)),
            (kind::PING, [_, _, _, _, _, _, _, _]) => {
                if head.has(flag::ACK) {
                    return Ok(());
                }
                FrameHead { length: 8, kind: kind::PING, flags: flag::ACK, stream: 0 }.write(out);
                out.extend_from_slice(payload);
                self.replied()
            }
            (kind::GOAWAY, [a, b, c, d, e, f, g, h, ..]) => {
                let last = u32::from_be_bytes([*a, *b, *c, *d]) & MOST;
                self.goaway(last, ErrorCode(u32::from_be_bytes([*e, *f, *g, *h])), events)
            }
            (kind::WINDOW_UPDATE, [a, b, c, d]) => {
                let more = u32::from_be_bytes([*a, *b, *c, *d]) & MOST;
                self.window_update(head.stream, more, out, events)
            }
            (kind::PRIORITY | kind::RST_STREAM | kind::SETTINGS, _) => wrong,
            (kind::PING | kind::GOAWAY | kind::WINDOW_UPDATE, _) => wrong,
            // Section 4.1: what isn't known is passed over.
            _ => Ok(()),
        }
    }

    fn replied(&mut self) -> Result<(), Http2Error> {
        self.replies += 1;
        if self.replies > REPLIES_MAX { Err(Http2Error::Flood) } else { Ok(()) }
    }

    /// The place of a stream that is open; `None`: it was, and has ended.
    fn place(&self, id: u32, kind: u8) -> Result<Option<u32>, Http2Error> {
        // Section 5.1: a client opens odd ones, and nobody opens others here.
        if id.is_multiple_of(2) || id >= self.next_id {
            return Err(Http2Error::Misplaced(kind));
        }
        Ok(self.ids.iter().position(|own| *own == id).map(|place| place as u32))
    }

    fn data(
        &mut self,
        (id, counted, bytes, end): (u32, u32, &[u8], bool),
        out: &mut Vec<u8>,
        events: &mut impl Events,
    ) -> Result<(), Http2Error> {
        let place = self.place(id, kind::DATA)?;
        self.window = self.window.checked_sub(counted).ok_or(Http2Error::Window)?;
        if self.window < CONNECTION_WINDOW / 2 {
            write_word(kind::WINDOW_UPDATE, 0, CONNECTION_WINDOW - self.window, out);
            self.window = CONNECTION_WINDOW;
            self.replied()?;
        }
        // What comes for a stream that was given up counts for the connection alone (section 5.1).
        let Some(place) = place else { return Ok(()) };
        let stream = &mut self.streams[place as usize];
        stream.window = stream.window.checked_sub(counted).ok_or(Http2Error::Window)?;
        stream.came += bytes.len() as u64;
        if stream.status == 0 || (stream.bodiless && !bytes.is_empty()) {
            self.malformed(place, id, out, events);
            return self.replied();
        }
        if stream.window < STREAM_WINDOW / 2 && !end {
            write_word(kind::WINDOW_UPDATE, id, STREAM_WINDOW - stream.window, out);
            stream.window = STREAM_WINDOW;
            self.replied()?;
        }
        if !bytes.is_empty() {
            events.data(place, bytes);
        }
        if end {
            self.finish(place, id, out, events);
        }
        Ok(())
    }

    fn headers(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
        events: &mut impl Events,
    ) -> Result<(), Http2Error> {
        let short = Http2Error::FrameSize(kind::HEADERS);
        let mut block = payload;
        let mut padding = 0;
        if head.has(flag::PADDED) {
            let (first, rest) = block.split_first().ok_or(short)?;
            (padding, block) = (usize::from(*first), rest);
        }
        if head.has(flag::PRIORITY) {
            block = block.get(5..).ok_or(short)?;
        }
        let length = block.len().checked_sub(padding).ok_or(Http2Error::Padding(kind::HEADERS))?;
        let block = &block[..length];
        let end = head.has(flag::END_STREAM);
        if head.has(flag::END_HEADERS) {
            return self.fields((head.stream, end), block, out, events);
        }
        self.block.clear();
        self.block.extend_from_slice(block);
        self.continuing = Some(Continuing { stream: head.stream, end, frames: 0 });
        Ok(())
    }

    fn continuation(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
        events: &mut impl Events,
    ) -> Result<(), Http2Error> {
        let misplaced = Http2Error::Misplaced(kind::CONTINUATION);
        let continuing = self.continuing.as_mut().ok_or(misplaced)?;
        if continuing.stream != head.stream {
            return Err(misplaced);
        }
        continuing.frames += 1;
        if continuing.frames > CONTINUATIONS_MAX || self.block.len() + payload.len() > BLOCK_MAX {
            return Err(Http2Error::Block);
        }
        self.block.extend_from_slice(payload);
        if !head.has(flag::END_HEADERS) {
            return Ok(());
        }
        let end = continuing.end;
        self.continuing = None;
        let block = std::mem::take(&mut self.block);
        let done = self.fields((head.stream, end), &block, out, events);
        self.block = block;
        done
    }

    /// A header block is whole.
    fn fields(
        &mut self,
        (id, end): (u32, bool),
        block: &[u8],
        out: &mut Vec<u8>,
        events: &mut impl Events,
    ) -> Result<(), Http2Error> {
        let place = self.place(id, kind::HEADERS)?;
        let trailers = place.is_some_and(|place| self.streams[place as usize].status != 0);
        let mut head = Head::default();
        // Of a stream that was given up, too: the table goes on.
        self.decoder.decode(block, LIST_MAX, |field| {
            let told = head.take(field.name, field.value, field.known, trailers);
            if let Some(place) = place.filter(|_| told && !matches!(head.status, 100..200)) {
                events.field(place, field.name, field.value);
            }
        })?;
        let Some(place) = place else { return Ok(()) };
        let interim = matches!(head.status, 100..200);
        let wrong = head.wrong || (head.status == 0) != trailers || (trailers && !end);
        if wrong || (interim && (end || head.status == 101)) {
            self.malformed(place, id, out, events);
            return self.replied();
        }
        if !trailers && !interim {
            let stream = &mut self.streams[place as usize];
            (stream.status, stream.expected) = (head.status, head.length);
            events.head(place, head.status, block.len());
        }
        if end {
            self.finish(place, id, out, events);
        }
        Ok(())
    }

    /// The peer has ended its side of a stream.
    fn finish(&mut self, place: u32, id: u32, out: &mut Vec<u8>, events: &mut impl Events) {
        let stream = self.streams[place as usize];
        if !stream.is_whole() {
            return self.malformed(place, id, out, events);
        }
        self.whole += 1;
        if stream.left > 0 {
            // An answer before the whole request was sent (section 8.1): the rest isn't needed. The peer may say so by a reset of its
            // own right behind the answer. Apache takes one that crosses it for misbehaviour, and closes the connection after a few.
            if self.answered_early.len() == self.ids.len() {
                self.end_early(1, out);
            }
            self.answered_early.push((id, self.frames));
        }
        self.free(place);
        events.ended(place, End::Whole(stream.status));
    }

    fn malformed(&mut self, place: u32, id: u32, out: &mut Vec<u8>, events: &mut impl Events) {
        self.reset(place, id, ErrorCode::PROTOCOL_ERROR, out);
        events.ended(place, End::Malformed);
    }

    fn reset(&mut self, place: u32, id: u32, code: ErrorCode, out: &mut Vec<u8>) {
        write_word(kind::RST_STREAM, id, code.0, out);
        self.free(place);
    }

    fn free(&mut self, place: u32) {
        self.ids[place as usize] = 0;
        let left = std::mem::take(&mut self.streams[place as usize].left);
        self.sending -= u32::from(left > 0);
        self.vacant.push(place);
    }

    fn was_reset(&mut self, id: u32, code: ErrorCode, events: &mut impl Events) -> Result<(), Http2Error> {
        if let Some(place) = self.place(id, kind::RST_STREAM)? {
            self.free(place);
            let refused = code == ErrorCode::REFUSED_STREAM;
            events.ended(place, if refused { End::Refused } else { End::Reset(code) });
        } else {
            self.answered_early.retain(|(early, _)| *early != id);
        }
        Ok(())
    }

    fn goaway(&mut self, last: u32, code: ErrorCode, events: &mut impl Events) -> Result<(), Http2Error> {
        // Section 6.8: it may not grow.
        if self.last.is_some_and(|before| last > before) {
            return Err(Http2Error::Misplaced(kind::GOAWAY));
        }
        self.last = Some(last);
        events.goaway(code);
        for place in 0..self.ids.len() {
            if self.ids[place] > last {
                self.free(place as u32);
                events.ended(place as u32, End::Refused);
            }
        }
        Ok(())
    }

    fn window_update(
        &mut self,
        id: u32,
        more: u32,
        out: &mut Vec<u8>,
        events: &mut impl Events,
    ) -> Result<(), Http2Error> {
        if id == 0 {
            self.send += i64::from(more);
            let fits = more > 0 && self.send <= i64::from(MOST);
            return if fits { Ok(()) } else { Err(Http2Error::Window) };
        }
        let Some(place) = self.place(id, kind::WINDOW_UPDATE)? else { return Ok(()) };
        let stream = &mut self.streams[place as usize];
        stream.send += i64::from(more);
        if more > 0 && stream.send <= i64::from(MOST) {
            return Ok(());
        }
        self.malformed(place, id, out, events);
        self.replied()
    }

    fn settings(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Http2Error> {
        let (all, _) = payload.as_chunks::<6>();
        for [a, b, c, d, e, f] in all {
            let name = u16::from_be_bytes([*a, *b]);
            let value = u32::from_be_bytes([*c, *d, *e, *f]);
            let wrong = Err(Http2Error::Setting(name));
            match name {
                setting::HEADER_TABLE_SIZE if value < TABLE_BYTES && self.table != PeerTable::Unused => {
                    self.table = PeerTable::Shrunk;
                }
                setting::ENABLE_PUSH if value > 0 => return wrong,
                setting::MAX_CONCURRENT_STREAMS => self.allowed = value,
                setting::INITIAL_WINDOW_SIZE => {
                    if value > MOST {
                        return wrong;
                    }
                    let change = i64::from(value) - self.peer_window;
                    self.peer_window = i64::from(value);
                    let open = self.ids.iter().zip(&mut self.streams).filter(|(id, _)| **id != 0);
                    for (_, stream) in open {
                        stream.send += change;
                        if stream.send > i64::from(MOST) {
                            return Err(Http2Error::Window);
                        }
                    }
                }
                setting::MAX_FRAME_SIZE => {
                    if !(FRAME_MAX..1 << 24).contains(&value) {
                        return wrong;
                    }
                    self.peer_frame = value;
                }
                // The others are about what isn't used here.
                _ => {}
            }
        }
        if !self.settled {
            self.settled = true;
            let told =
                all.iter().any(|[a, b, ..]| u16::from_be_bytes([*a, *b]) == setting::MAX_CONCURRENT_STREAMS);
            if !told {
                self.allowed = u32::MAX;
            }
        }
        FrameHead { length: 0, kind: kind::SETTINGS, flags: flag::ACK, stream: 0 }.write(out);
        self.replied()
    }
}

/// Appends a header block as HEADERS and as many CONTINUATION frames as it takes; `shrunk`: behind the word that the table isn't used.
fn put_block(id: u32, (shrunk, block): (bool, &[u8]), end: bool, most: usize, out: &mut Vec<u8>) {
    let extra = usize::from(shrunk);
    let mut first = true;
    let mut rest = block;
    loop {
        let extra = if first { extra } else { 0 };
        let part = rest.len().min(most - extra);
        let (now, later) = rest.split_at(part);
        let mut flags = if later.is_empty() { flag::END_HEADERS } else { 0 };
        let kind = if first { kind::HEADERS } else { kind::CONTINUATION };
        if first && end {
            flags |= flag::END_STREAM;
        }
        FrameHead { length: (part + extra) as u32, kind, flags, stream: id }.write(out);
        if extra > 0 {
            Writer { out, huffman: false }.resize(0);
        }
        out.extend_from_slice(now);
        (first, rest) = (false, later);
        if rest.is_empty() {
            return;
        }
    }
}
