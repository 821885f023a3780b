//! Datagrams of a test, and the sockets they go through.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use vtax_sys::sched::monotonic;
use vtax_units::Bytes;

use super::super::control::{self, Token};
use super::super::{Agreed, NetworkError, PATIENCE, UDP_HEADER, UdpTest};

/// Set in the number of a datagram that counts; those of the warm-up are numbered without it.
pub(super) const COUNTED: u64 = 1 << 63;
/// A number that greets: sent before the test, so that the server learns where its peer is.
pub(super) const GREETING: u64 = u64::MAX;
/// The most bytes and datagrams that the kernel cuts of one piece (`UDP_MAX_SEGMENTS` of `linux/udp.h`).
const PIECE_BYTES: usize = 65_507;
const PIECE_DATAGRAMS: usize = 64;
/// Pieces of one call: enough to pay for the call, and still at home in a CPU's cache.
pub(super) const PIECES: usize = 4;
/// Socket buffers where the plan names none: bursts of a fast sender fit while this end is not running.
const BUFFER: Bytes = Bytes(4 << 20);
/// How long an empty or full socket is waited for at once.
pub(in super::super) const LOOK: Duration = Duration::from_millis(20);

/// The head of each datagram: token, number, time of sending in nanoseconds; all big-endian.
pub(in super::super) struct Head {
    pub(in super::super) token: Token,
    pub(in super::super) number: u64,
    pub(in super::super) sent: u64,
}

impl Head {
    pub(in super::super) fn write(&self, to: &mut [u8]) {
        to[..16].copy_from_slice(&self.token);
        to[16..24].copy_from_slice(&self.number.to_be_bytes());
        to[24..32].copy_from_slice(&self.sent.to_be_bytes());
    }

    pub(in super::super) fn read(from: &[u8]) -> Option<Self> {
        let (token, rest) = from.split_first_chunk::<16>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (sent, _) = rest.split_first_chunk::<8>()?;
        Some(Self { token: *token, number: u64::from_be_bytes(*number), sent: u64::from_be_bytes(*sent) })
    }
}

/// Opens the client's socket and waits until the server has seen a datagram from it.
pub(in super::super) fn greet(
    session: &Agreed<'_>,
    buffer: Option<Bytes>,
    link: &mut TcpStream,
) -> Result<UdpSocket, NetworkError> {
    let server = session.target();
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = open(SocketAddr::new(any, 0), buffer)?;
    socket.connect(server).map_err(|source| NetworkError::Connect { target: server, source })?;
    let mut greeting = [0; UDP_HEADER];
    Head { token: session.token, number: GREETING, sent: 0 }.write(&mut greeting);
    link.set_read_timeout(Some(Duration::from_millis(100)))
        .map_err(NetworkError::system("wait for the server"))?;
    let rounds = PATIENCE.as_millis() / 100;
    for _ in 0..rounds {
        // Refused where the path drops it with an ICMP message: the server says so after its own wait.
        let _ = socket.send(&greeting);
        let mut byte = [0];
        match link.peek(&mut byte) {
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            _ => break,
        }
    }
    let patience = Duration::from_nanos(session.spec.warmup.0 + session.spec.duration.0) + PATIENCE;
    link.set_read_timeout(Some(patience)).map_err(NetworkError::system("wait for the server"))?;
    control::wait_for_go(link)?;
    Ok(socket)
}

/// A socket with room for bursts.
pub(in super::super) fn open(at: SocketAddr, buffer: Option<Bytes>) -> Result<UdpSocket, NetworkError> {
    let socket = UdpSocket::bind(at).map_err(NetworkError::system("open a UDP socket"))?;
    let bytes = usize::try_from(buffer.unwrap_or(BUFFER).0).unwrap_or(usize::MAX);
    // The network's owner may exceed the system's maximum, other users may not.
    sockopt::set_socket_send_buffer_size(&socket, bytes)
        .and_then(|()| {
            sockopt::set_socket_recv_buffer_size_force(&socket, bytes)
                .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, bytes))
        })
        .map_err(|e| NetworkError::system("set a socket's buffers")(e.into()))?;
    Ok(socket)
}

/// Waits for the client's greeting and connects to where it came from, so that nothing is ever sent to
/// an address that doesn't know the token.
pub(in super::super) fn await_greeting(socket: &UdpSocket, token: &Token) -> io::Result<()> {
    let deadline = monotonic().0 + PATIENCE.as_nanos() as u64;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut bytes = [0; 64];
    while monotonic().0 < deadline {
        match socket.recv_from(&mut bytes) {
            Ok((length, from)) => {
                let head = Head::read(&bytes[..length]);
                if head.is_some_and(|head| head.token == *token && head.number == GREETING) {
                    return socket.connect(from);
                }
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no datagram came: does the path carry UDP to this port?"))
}

/// Datagrams that may be sent as one: where there is a rate, each goes at its own time.
pub(super) fn of_piece(test: &UdpTest) -> usize {
    match test.rate {
        None => (PIECE_BYTES / test.size as usize).clamp(1, PIECE_DATAGRAMS),
        Some(_) => 1,
    }
}

/// Waits until the socket is ready; whether it is.
pub(in super::super) fn wait_for(socket: &UdpSocket, what: PollFlags, at_most: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(socket, what)];
    let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
    match poll(&mut fds, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn heads_round_trip(token: [u8; 16], number: u64, sent: u64) {
            let mut bytes = [0; UDP_HEADER];
            Head { token, number, sent }.write(&mut bytes);
            let head = Head::read(&bytes).unwrap();
            prop_assert_eq!((head.token, head.number, head.sent), (token, number, sent));
            prop_assert!(Head::read(&bytes[..31]).is_none());
        }
    }
}
