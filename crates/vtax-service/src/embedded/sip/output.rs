//! What is to be sent, gathered: many datagrams, or all that goes to one connection, are one
//! system call.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use vtax_sys::outgoing::{Flow, Outgoing};

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

    /// As Via names what it is reached over.
    pub(super) fn protocol(&self) -> &'static str {
        match self {
            Self::Udp(_) => "UDP",
            Self::Tcp(stream) if stream.is_secure => "TLS",
            Self::Tcp(_) => "TCP",
        }
    }

    pub(super) fn is_datagram(&self) -> bool {
        matches!(self, Self::Udp(_))
    }
}

/// Messages gathered by one worker.
#[derive(Debug)]
pub(super) struct Output {
    datagrams: Outgoing,
    /// What is sent under the same one keeps its order.
    pub(super) flow: Flow,
    /// A message for a connection, while it is written.
    text: Vec<u8>,
    /// Connections begun here, for the worker to watch.
    pub(super) dialled: Vec<Arc<Stream>>,
    /// Connections that have something to send.
    streams: Vec<Arc<Stream>>,
    stream_bytes: usize,
}

impl Output {
    /// Whose datagrams leave from that socket.
    pub(super) fn new(socket: BorrowedFd<'_>) -> Self {
        Self::of(Outgoing::new(socket))
    }

    /// Whose datagrams are looked at instead of sent.
    #[cfg(test)]
    pub(super) fn unsent() -> Self {
        Self::of(Outgoing::default())
    }

    fn of(datagrams: Outgoing) -> Self {
        Self {
            datagrams,
            flow: 0,
            text: Vec::new(),
            dialled: Vec::new(),
            streams: Vec::new(),
            stream_bytes: 0,
        }
    }

    /// Sends what `write` appends.
    pub(super) fn send(&mut self, peer: &Peer, write: impl FnOnce(&mut Vec<u8>)) {
        match peer {
            Peer::Udp(address) => self.datagrams.push(Some(*address), self.flow, write),
            Peer::Tcp(stream) => {
                self.text.clear();
                write(&mut self.text);
                self.stream_bytes += self.text.len();
                if !self.text.is_empty() && stream.push(&self.text) {
                    self.streams.push(Arc::clone(stream));
                }
            }
        }
    }

    /// As much waits as is sent at once.
    pub(super) fn is_full(&self) -> bool {
        self.datagrams.is_full() || self.stream_bytes >= STREAM_BYTES
    }

    /// Sends what waits, datagrams in bundles where wanted. One that the kernel refuses is lost, as on a
    /// network.
    pub(super) fn flush(&mut self, socket: BorrowedFd<'_>, in_bundles: bool) {
        for stream in self.streams.drain(..) {
            stream.flush();
        }
        self.stream_bytes = 0;
        self.datagrams.flush(socket, in_bundles, |_, _| ());
    }

    /// The datagrams that wait, with where each goes.
    #[cfg(test)]
    pub(super) fn take(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        let found = self.datagrams.waiting().filter_map(|(to, bytes)| Some((to?, bytes.to_vec()))).collect();
        self.datagrams.clear();
        found
    }
}
