//! What waits to be sent: requests, and data that goes out from the buffer it is in.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;

use super::slots::Buffers;
use super::stream::Stream;

/// Pieces that one system call sends.
const PIECES: usize = 32;
/// Shorter data is copied behind its request: a piece of its own costs more than that.
const COPIED: usize = 8 << 10;
/// Sent bytes are dropped from the front where there are so many.
const DROPPED: usize = 1 << 20;

#[derive(Debug, Clone)]
enum Piece {
    /// So many of the own bytes.
    Own(usize),
    /// A part of a slot's buffer.
    Slot(u16, Range<usize>),
}

/// What waits to be sent on one connection. Nothing is allocated once it has grown to what is needed.
#[derive(Debug, Default)]
pub(in crate::family::storage) struct Outgoing {
    own: Vec<u8>,
    /// Of the own bytes, so many are sent.
    sent: usize,
    pieces: VecDeque<Piece>,
}

impl Outgoing {
    /// Room for so many slots.
    pub(in crate::family::storage) fn new(slots: usize) -> Self {
        Self {
            own: Vec::with_capacity(64 << 10),
            sent: 0,
            pieces: VecDeque::with_capacity(4 * slots.max(PIECES)),
        }
    }

    pub(in crate::family::storage) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Appends what `write` appends.
    pub(in crate::family::storage) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.own.len();
        write(&mut self.own);
        let added = self.own.len() - before;
        match self.pieces.back_mut() {
            Some(Piece::Own(length)) => *length += added,
            _ if added > 0 => self.pieces.push_back(Piece::Own(added)),
            _ => {}
        }
    }

    /// Appends this part of a slot's buffer: `data` is what is there now. It must stay until it is sent.
    pub(in crate::family::storage) fn data(&mut self, slot: u16, range: Range<usize>, data: &[u8]) {
        if data.len() < COPIED {
            self.append(|own| own.extend_from_slice(data));
        } else {
            self.pieces.push_back(Piece::Slot(slot, range));
        }
    }

    /// True where a part of this slot's buffer waits to be sent.
    pub(in crate::family::storage) fn mentions(&self, slot: u16) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Slot(of, _) if *of == slot))
    }

    /// Drops everything.
    pub(in crate::family::storage) fn clear(&mut self) {
        self.own.clear();
        self.pieces.clear();
        self.sent = 0;
    }

    /// Sends as much as the socket takes, without waiting.
    pub(in crate::family::storage) fn send(
        &mut self,
        stream: &Stream,
        buffers: &impl Buffers,
    ) -> io::Result<u64> {
        let mut total = 0;
        while !self.pieces.is_empty() {
            let Some(sent) = self.send_once(stream, buffers)? else { break };
            total += sent as u64;
            self.advance(sent);
        }
        if self.pieces.is_empty() {
            self.own.clear();
            self.sent = 0;
        } else if self.sent > DROPPED {
            self.own.drain(..self.sent);
            self.sent = 0;
        }
        Ok(total)
    }

    fn send_once(&self, stream: &Stream, buffers: &impl Buffers) -> io::Result<Option<usize>> {
        let mut slices = [IoSlice::new(&[]); PIECES];
        let (mut count, mut own) = (0, self.sent);
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = match piece {
                Piece::Own(length) => {
                    own += length;
                    IoSlice::new(&self.own[own - length..own])
                }
                Piece::Slot(slot, range) => IoSlice::new(&buffers.of(*slot)[range.clone()]),
            };
            count += 1;
        }
        stream.send(&slices[..count])
    }

    fn advance(&mut self, mut sent: usize) {
        while let (Some(piece), true) = (self.pieces.front_mut(), sent > 0) {
            let length = match piece {
                Piece::Own(length) => *length,
                Piece::Slot(_, range) => range.len(),
            };
            let taken = length.min(sent);
            sent -= taken;
            match piece {
                Piece::Own(length) => {
                    *length -= taken;
                    self.sent += taken;
                }
                Piece::Slot(_, range) => range.start += taken,
            }
            if taken == length {
                self.pieces.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;

    struct Two([Vec<u8>; 2]);

    impl Buffers for Two {
        fn of(&self, slot: u16) -> &[u8] {
            &self.0[usize::from(slot)]
        }
    }

    /// More than a socket holds, of many pieces: what arrives is what was appended, in its order.
    #[test]
    fn everything_arrives_in_order_however_slowly_it_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = Stream::connect(address, Instant::now() + Duration::from_secs(5)).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let byte = |at: usize| (at * 7 + at / 251) as u8;
        let buffers =
            Two([(0..3 << 20).map(byte).collect(), (0..1 << 20).map(|at| byte(at) ^ 0x55).collect()]);
        let mut outgoing = Outgoing::new(2);
        let mut expected = Vec::new();
        for round in 0..60usize {
            let (slot, from, length) = ((round % 2) as u16, round * 1000, 1000 + round * 800);
            let part = &buffers.of(slot)[from..from + length];
            outgoing.append(|own| own.extend_from_slice(&[round as u8; 48]));
            outgoing.data(slot, from..from + length, part);
            expected.extend_from_slice(&[round as u8; 48]);
            expected.extend_from_slice(part);
        }
        outgoing.data(0, 0..3 << 20, buffers.of(0));
        expected.extend_from_slice(buffers.of(0));
        assert!(outgoing.mentions(0));
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; expected.len()];
            peer.read_exact(&mut all).unwrap();
            all == expected
        });
        let until = Instant::now() + Duration::from_secs(20);
        while !outgoing.is_empty() {
            outgoing.send(&stream, &buffers).unwrap();
            if !outgoing.is_empty() {
                stream.poll(false, true, 100_000_000).unwrap();
            }
            assert!(Instant::now() < until);
        }
        assert!(reader.join().unwrap());
        assert!(!outgoing.mentions(0));
    }

    #[test]
    fn a_peer_that_is_gone_is_an_error_and_no_signal() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = Stream::connect(address, Instant::now() + Duration::from_secs(5)).unwrap();
        drop::<(TcpStream, _)>(listener.accept().unwrap());
        let mut outgoing = Outgoing::new(1);
        let buffers = Two([vec![1; 1 << 20], Vec::new()]);
        let until = Instant::now() + Duration::from_secs(5);
        let error = loop {
            outgoing.data(0, 0..1 << 20, buffers.of(0));
            match outgoing.send(&stream, &buffers) {
                Ok(_) => assert!(Instant::now() < until),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset),
            "{error}"
        );
    }
}
