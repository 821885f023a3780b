//! A local address: its socket and what waits to be sent from it.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::sockopt;
use vtax_sys::datagrams::{coalesce, stamp_arrivals};
use vtax_sys::outgoing::{Flow, Outgoing};
use vtax_wire::sip::Transport;

use super::compose::Sender;
use super::connections::Settings;
use super::stream::Stream;
use super::unmatched::{Kind, Unmatched};
use crate::LoadError;

/// Room for what arrives while the worker is busy; the kernel may give less.
pub(crate) const BUFFER_BYTES: usize = 16 << 20;
/// Bytes of a connection that are sent at once.
const TEXT_BYTES: usize = 64 * 1024;

/// How messages leave and arrive.
#[derive(Debug)]
pub(crate) enum Wire {
    Udp(UdpSocket),
    Tcp(Box<Stream>),
}

/// A local address.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) wire: Wire,
    pub(crate) sender: Sender,
    /// What waits to be sent, as datagrams or as text of the connection.
    datagrams: Outgoing,
    text: Vec<u8>,
    /// What the socket had dropped when it was last asked.
    dropped: u32,
    /// The address of its socket.
    address: SocketAddr,
}

impl Line {
    /// A socket at `local`, connected to `target`: the kernel then finds the route once, and says
    /// when no program listens there.
    pub(crate) fn udp(local: IpAddr, target: SocketAddr) -> Result<Self, LoadError> {
        let refused = |source| LoadError::System { operation: "open a UDP socket", source };
        let socket = UdpSocket::bind((local, 0)).map_err(refused)?;
        socket.connect(target).map_err(refused)?;
        socket.set_nonblocking(true).map_err(refused)?;
        // Beyond net.core.rmem_max only with privileges; what the kernel grants is enough for most.
        if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES);
        }
        let _ = sockopt::set_socket_send_buffer_size(&socket, BUFFER_BYTES);
        stamp_arrivals(socket.as_fd()).map_err(refused)?;
        // Where the kernel can't, datagrams come one by one.
        let _ = coalesce(socket.as_fd());
        let address = socket.local_addr().map_err(refused)?;
        Ok(Self::new(Wire::Udp(socket), Sender::new(address, Transport::Udp), address))
    }

    /// A connection to `target`, made when there is something to send.
    pub(crate) fn stream(local: IpAddr, target: SocketAddr, settings: &Settings) -> Result<Self, LoadError> {
        let stream = Stream::open(local, target, settings)?;
        let (address, transport) = (stream.local(), stream.transport());
        Ok(Self::new(Wire::Tcp(Box::new(stream)), Sender::new(address, transport), address))
    }

    /// A socket, or a connection after these settings where there are such.
    pub(crate) fn open(
        local: IpAddr,
        target: SocketAddr,
        settings: Option<&Settings>,
    ) -> Result<Self, LoadError> {
        match settings {
            Some(settings) => Self::stream(local, target, settings),
            None => Self::udp(local, target),
        }
    }

    fn new(wire: Wire, sender: Sender, address: SocketAddr) -> Self {
        let datagrams = match &wire {
            Wire::Udp(socket) => Outgoing::new(socket.as_fd()),
            Wire::Tcp(_) => Outgoing::default(),
        };
        Self { wire, sender, datagrams, text: Vec::new(), dropped: 0, address }
    }

    /// The address of its socket; that of a connection which ended may be another afterwards.
    pub(crate) fn local(&self) -> SocketAddr {
        match &self.wire {
            Wire::Udp(_) => self.address,
            Wire::Tcp(stream) => stream.local(),
        }
    }

    /// Its connection, where it is one.
    pub(crate) fn stream_mut(&mut self) -> Option<&mut Stream> {
        match &mut self.wire {
            Wire::Udp(_) => None,
            Wire::Tcp(stream) => Some(stream),
        }
    }

    /// Has `write` append one message, which doesn't overtake others of its flow.
    pub(crate) fn send(&mut self, flow: Flow, write: impl FnOnce(&Sender, &mut Vec<u8>)) {
        let sender = &self.sender;
        match self.wire {
            Wire::Udp(_) => self.datagrams.push(None, flow, |out| write(sender, out)),
            Wire::Tcp(_) => write(sender, &mut self.text),
        }
    }

    /// Whether as much waits as is sent at once.
    pub(crate) fn is_full(&self) -> bool {
        self.datagrams.is_full() || self.text.len() >= TEXT_BYTES
    }

    /// Sends what waits, at high rates in bundles. What the kernel doesn't take is lost, as on any network.
    pub(crate) fn flush(&mut self, now: u64, in_bundles: bool, unmatched: &mut Unmatched) {
        match &mut self.wire {
            Wire::Udp(socket) => self.datagrams.flush(socket.as_fd(), in_bundles, |error, lost| {
                let kind = match error.kind() {
                    // Of an earlier datagram, told now.
                    ErrorKind::ConnectionRefused => Kind::Refused,
                    ErrorKind::WouldBlock => Kind::SendBufferOverflow,
                    _ => Kind::SendFailed,
                };
                unmatched.add(kind, lost.max(1) as u64);
            }),
            Wire::Tcp(stream) => {
                stream.send(&self.text, now, unmatched);
                self.text.clear();
                // After a failure the local port may be another.
                if stream.changed {
                    self.sender = Sender::new(stream.local(), stream.transport());
                }
            }
        }
    }

    /// Datagrams dropped since this was last asked.
    pub(crate) fn newly_dropped(&mut self) -> u64 {
        let Wire::Udp(socket) = &self.wire else { return 0 };
        let now = vtax_sys::datagrams::dropped(socket.as_fd());
        let more = now.wrapping_sub(std::mem::replace(&mut self.dropped, now));
        u64::from(more)
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.datagrams.is_empty() || !self.text.is_empty()
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.wire {
            Wire::Udp(socket) => socket.as_fd(),
            Wire::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// Tells an error of the receiving call: true where there may be more to receive.
pub(crate) fn receive_error(error: &io::Error, unmatched: &mut Unmatched) -> bool {
    match error.kind() {
        ErrorKind::ConnectionRefused => {
            unmatched.count(Kind::Refused);
            true
        }
        ErrorKind::Interrupted => true,
        ErrorKind::WouldBlock => false,
        _ => {
            unmatched.count(Kind::ReceiveFailed);
            false
        }
    }
}
