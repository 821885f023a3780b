//! Data connections.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a client may take to connect, to send or to receive something.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Where the next data connection comes from.
#[derive(Debug)]
pub(super) enum Next {
    /// Nothing was said.
    Unknown,
    /// The client connects here.
    Passive(TcpListener),
    /// The client waits there.
    Active(SocketAddr),
}

impl Next {
    /// Listens on an address of this side; the port.
    pub(super) fn listen(&mut self, own: IpAddr) -> io::Result<u16> {
        let listener = TcpListener::bind(SocketAddr::new(own, 0))?;
        let port = listener.local_addr()?.port();
        listener.set_nonblocking(true)?;
        *self = Self::Passive(listener);
        Ok(port)
    }

    /// The connection. Another address than the client's is not its own.
    pub(super) fn connect(&mut self, client: IpAddr) -> io::Result<TcpStream> {
        let stream = match std::mem::replace(self, Self::Unknown) {
            Self::Unknown => return Err(io::ErrorKind::NotConnected.into()),
            Self::Passive(listener) => accept(&listener, client)?,
            Self::Active(there) => TcpStream::connect_timeout(&there, PATIENCE)?,
        };
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }
}

fn accept(listener: &TcpListener, client: IpAddr) -> io::Result<TcpStream> {
    let until = Instant::now() + PATIENCE;
    loop {
        match listener.accept() {
            Ok((stream, peer)) if peer.ip() == client => return Ok(stream),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || !readable(listener, left)? {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Waits until there is a connection; false where none came within that time.
pub(super) fn readable(listener: &TcpListener, within: Duration) -> io::Result<bool> {
    let within = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
    match poll(&mut [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)], Some(&within)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
