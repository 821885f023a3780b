//! Data connections.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a client may take to connect, to send or to receive something.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Connections that wait to be accepted, at most (as the standard library listens).
const BACKLOG: usize = 128;

/// Where the next data connection comes from.
#[derive(Debug, Default)]
enum Next {
    /// Nothing was said.
    #[default]
    Unknown,
    /// The client connects here.
    Passive,
    /// The client waits there.
    Active(SocketAddr),
}

/// Where a session's data connections come from.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The session's own port, once one was asked for. With a new one for each transfer some 7,000 would soon be waiting for
    /// late packets (TIME_WAIT), and the kernel takes milliseconds to find a free one among them.
    listener: Option<TcpListener>,
    next: Next,
}

impl Place {
    /// Listens on an address of this side; the port.
    pub(super) fn listen(&mut self, own: IpAddr) -> io::Result<u16> {
        let listener = match self.listener.take() {
            Some(listener) => listener,
            None => {
                let listener = TcpListener::bind(SocketAddr::new(own, 0))?;
                listener.set_nonblocking(true)?;
                listener
            }
        };
        // Who connected for an earlier transfer, and came too late for it, is not this one's.
        let _late = (0..BACKLOG).take_while(|_| listener.accept().is_ok()).count();
        let port = listener.local_addr()?.port();
        (self.listener, self.next) = (Some(listener), Next::Passive);
        Ok(port)
    }

    /// The client waits there.
    pub(super) fn wait_at(&mut self, there: SocketAddr) {
        self.next = Next::Active(there);
    }

    /// What was said is of no use.
    pub(super) fn forget(&mut self) {
        self.next = Next::Unknown;
    }

    /// The connection. Another address than the client's is not its own.
    pub(super) fn connect(&mut self, client: IpAddr) -> io::Result<TcpStream> {
        let stream = match (std::mem::take(&mut self.next), &self.listener) {
            (Next::Passive, Some(listener)) => accept(listener, client)?,
            (Next::Active(there), _) => TcpStream::connect_timeout(&there, PATIENCE)?,
            _ => return Err(io::ErrorKind::NotConnected.into()),
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_session_keeps_its_port_and_takes_no_late_connection() {
        let own = IpAddr::from(Ipv4Addr::LOCALHOST);
        let mut place = Place::default();
        let port = place.listen(own).unwrap();
        let mut late = TcpStream::connect((own, port)).unwrap();
        assert_eq!(place.listen(own).unwrap(), port);
        let mut client = TcpStream::connect((own, port)).unwrap();
        client.write_all(b"mine").unwrap();
        let mut got = [0; 4];
        place.connect(own).unwrap().read_exact(&mut got).unwrap();
        assert_eq!(&got, b"mine");
        assert_eq!(late.read(&mut got).unwrap_or(0), 0, "it was turned away");
        assert!(place.connect(own).is_err(), "one for each word of the client's");
    }
}
