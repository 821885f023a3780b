//! A connection of a session, in the clear or with TLS.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, sockopt};

use super::tls::Tls;

/// A connection.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) fd: OwnedFd,
    /// It is connected.
    pub(super) open: bool,
    pub(super) tls: Option<Box<Tls>>,
    /// Bytes that the kernel has not taken yet.
    pub(super) unsent: Vec<u8>,
}

/// What a look at a connection brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Got {
    /// So many bytes.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The peer has closed its side.
    End,
}

impl Channel {
    /// Begins to connect.
    pub(super) fn connect(target: SocketAddr, source: Option<IpAddr>) -> Result<Self, Errno> {
        let fd = socket(target)?;
        if let Some(source) = source {
            rustix::net::bind(&fd, &SocketAddr::new(source, 0))?;
        }
        match rustix::net::connect(&fd, &target) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self::of(fd, false)),
            Err(error) => Err(error),
        }
    }

    /// A connection that was accepted.
    pub(super) const fn accepted(fd: OwnedFd) -> Self {
        Self::of(fd, true)
    }

    const fn of(fd: OwnedFd, open: bool) -> Self {
        Self { fd, open, tls: None, unsent: Vec::new() }
    }

    /// Receives what is there.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Result<Got, Errno> {
        loop {
            match rustix::net::recv(&self.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((_, 0)) => return Ok(Got::End),
                Ok((_, got)) => return Ok(Got::Bytes(got)),
                Err(Errno::AGAIN) => return Ok(Got::Nothing),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends as much as the kernel takes.
    pub(super) fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        loop {
            match rustix::net::send(&self.fd, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => return Ok(sent),
                Err(Errno::AGAIN | Errno::NOTCONN) => return Ok(0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends what was kept, then `bytes`, and keeps what the kernel doesn't take. How many it took.
    pub(super) fn send_or_keep(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut sent = 0;
        if !self.unsent.is_empty() {
            sent = self.send(&self.unsent)?;
            self.unsent.drain(..sent);
        }
        if bytes.is_empty() {
            return Ok(sent);
        }
        if !self.unsent.is_empty() || !self.open {
            self.unsent.extend_from_slice(bytes);
            return Ok(sent);
        }
        let more = self.send(bytes)?;
        self.unsent.extend_from_slice(&bytes[more..]);
        Ok(sent + more)
    }

    /// What became of connecting.
    pub(super) fn connected(&self) -> Result<(), Errno> {
        sockopt::socket_error(&self.fd)?
    }

    /// Where it is on this side.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        local(&self.fd)
    }
}

/// Listens for one connection on an address of this side.
pub(super) fn listen(address: IpAddr) -> Result<(OwnedFd, SocketAddr), Errno> {
    let address = SocketAddr::new(address, 0);
    let fd = socket(address)?;
    rustix::net::bind(&fd, &address)?;
    rustix::net::listen(&fd, 1)?;
    let address = local(&fd).ok_or(Errno::ADDRNOTAVAIL)?;
    Ok((fd, address))
}

/// Accepts the connection that was listened for; `None` where it isn't there yet.
pub(super) fn accept(listener: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    match rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(error),
    }
}

fn local(fd: &OwnedFd) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getsockname(fd).ok()?).ok()
}

fn socket(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_tcp_nodelay(&fd, true)?;
    Ok(fd)
}
