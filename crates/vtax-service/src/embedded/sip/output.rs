//! What is to be sent, gathered: many datagrams, or all that goes to one connection, are one
//! system call.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use vtax_sys::datagrams::{self, BATCH_MAX};

use super::stream::Stream;

/// Bytes for connections that are gathered before they are sent.
const STREAM_BYTES: usize = 64 * 1024;

/// Where a message came from, or where it goes.
#[derive(Debug, Clone)]
pub(super) enum Peer {
    /// A datagram.
    Udp(SocketAddr),
    /// A connection.
    Tcp(Arc<Stream>),
}

impl Peer {
    pub(super) fn address(&self) -> SocketAddr {
        match self {
            Self::Udp(address) => *address,
            Self::Tcp(stream) => stream.peer,
        }
    }

    pub(super) fn is_datagram(&self) -> bool {
        matches!(self, Self::Udp(_))
    }
}

/// Messages gathered by one worker.
#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    to: Vec<SocketAddr>,
    outbox: datagrams::Outbox,
    /// Connections begun here, for the worker to watch.
    pub(super) dialled: Vec<Arc<Stream>>,
    /// Connections that have something to send.
    streams: Vec<Arc<Stream>>,
    stream_bytes: usize,
}

impl Output {
    /// Sends what `write` appends.
    pub(super) fn send(&mut self, peer: &Peer, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        if self.bytes.len() == start {
            return;
        }
        match peer {
            Peer::Udp(address) => {
                self.ends.push(self.bytes.len());
                self.to.push(*address);
            }
            Peer::Tcp(stream) => {
                self.stream_bytes += self.bytes.len() - start;
                if stream.push(&self.bytes[start..]) {
                    self.streams.push(Arc::clone(stream));
                }
                self.bytes.truncate(start);
            }
        }
    }

    /// A whole batch waits.
    pub(super) fn is_full(&self) -> bool {
        self.ends.len() >= BATCH_MAX || self.stream_bytes >= STREAM_BYTES
    }

    /// Sends what waits. A datagram that the kernel refuses is lost, as on a network.
    pub(super) fn flush(&mut self, socket: BorrowedFd<'_>) {
        for stream in self.streams.drain(..) {
            stream.flush();
        }
        self.stream_bytes = 0;
        let (mut first, mut start) = (0, 0);
        while first < self.ends.len() {
            // The outbox counts from the beginning of the bytes it is given.
            let ends = &mut self.ends[first..];
            let last = ends.len().min(BATCH_MAX);
            for end in &mut ends[..last] {
                *end -= start;
            }
            let sent =
                self.outbox.send(socket, &self.bytes[start..], &ends[..last], &self.to[first..][..last]);
            // Where the first is refused, the others may not be.
            let sent = sent.unwrap_or(0).max(1);
            for end in &mut ends[..last] {
                *end += start;
            }
            first += sent;
            start = self.ends[first - 1];
        }
        self.bytes.clear();
        self.ends.clear();
        self.to.clear();
    }

    /// The datagrams that wait, with where each goes.
    #[cfg(test)]
    pub(super) fn take(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut start = 0;
        let mut found = Vec::new();
        for (end, to) in self.ends.drain(..).zip(self.to.drain(..)) {
            found.push((to, self.bytes[start..end].to_vec()));
            start = end;
        }
        self.bytes.clear();
        found
    }
}
