//! A local address: its socket and what waits to be sent from it.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::sockopt;
use vtax_sys::datagrams::{BATCH_MAX, Outbox, stamp_arrivals};
use vtax_wire::sip::Transport;

use super::compose::Sender;
use super::stray::{Kind, Stray};
use super::stream::Stream;
use crate::LoadError;

/// Room for what arrives while the worker is busy; the kernel may give less.
pub(crate) const BUFFER_BYTES: usize = 16 << 20;

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
    /// Messages one after the other, and where each ends.
    out: Vec<u8>,
    ends: Vec<usize>,
    /// What the socket had dropped when it was last asked.
    dropped: u32,
}

impl Line {
    /// A socket at `local`, connected to `target`: the kernel then finds the route once, and says
    /// when nobody listens there.
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
        let address = socket.local_addr().map_err(refused)?;
        Ok(Self::new(Wire::Udp(socket), Sender::new(address, Transport::Udp)))
    }

    /// A connection to `target`, made when there is something to send.
    pub(crate) fn tcp(local: IpAddr, target: SocketAddr) -> Result<Self, LoadError> {
        let stream = Stream::open(local, target)?;
        let sender = Sender::new(stream.local(), Transport::Tcp);
        Ok(Self::new(Wire::Tcp(Box::new(stream)), sender))
    }

    fn new(wire: Wire, sender: Sender) -> Self {
        Self { wire, sender, out: Vec::new(), ends: Vec::new(), dropped: 0 }
    }

    /// Has `write` append one message.
    pub(crate) fn send(&mut self, write: impl FnOnce(&Sender, &mut Vec<u8>)) {
        write(&self.sender, &mut self.out);
        self.ends.push(self.out.len());
    }

    /// Whether a whole batch waits.
    pub(crate) fn is_full(&self) -> bool {
        self.ends.len() >= BATCH_MAX
    }

    /// Sends what waits. What the kernel doesn't take is lost, as on any network.
    pub(crate) fn flush(&mut self, now: u64, outbox: &mut Outbox, stray: &mut Stray) {
        match &mut self.wire {
            Wire::Udp(_) => self.flush_datagrams(outbox, stray),
            Wire::Tcp(stream) => {
                stream.send(&self.out, now, stray);
                // After a failure the local port may be another.
                if stream.changed {
                    self.sender = Sender::new(stream.local(), Transport::Tcp);
                }
            }
        }
        self.out.clear();
        self.ends.clear();
    }

    fn flush_datagrams(&mut self, outbox: &mut Outbox, stray: &mut Stray) {
        let Wire::Udp(socket) = &self.wire else { return };
        let (mut first, mut start) = (0, 0);
        while first < self.ends.len() {
            let rest = &self.out[start..];
            let ends = &mut self.ends[first..];
            let sent = outbox.send(socket.as_fd(), rest, ends, &[]);
            let done = match sent {
                Ok(sent) => sent,
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted) => 0,
                // An error of an earlier datagram, told now; nothing was sent.
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                    stray.count(Kind::Refused);
                    0
                }
                Err(e) => {
                    let full = e.kind() == ErrorKind::WouldBlock;
                    stray.count(if full { Kind::SendBufferOverflow } else { Kind::SendFailed });
                    1
                }
            };
            if done > 0 {
                let step = ends[done - 1];
                ends[done..].iter_mut().for_each(|end| *end -= step);
                (first, start) = (first + done, start + step);
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
        !self.ends.is_empty()
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
pub(crate) fn receive_error(error: &io::Error, stray: &mut Stray) -> bool {
    match error.kind() {
        ErrorKind::ConnectionRefused => {
            stray.count(Kind::Refused);
            true
        }
        ErrorKind::Interrupted => true,
        ErrorKind::WouldBlock => false,
        _ => {
            stray.count(Kind::ReceiveFailed);
            false
        }
    }
}
