//! What the kernel knows of a TCP connection: `TCP_INFO`; the maximum segment size, and how many bytes end a wait.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use vtax_units::Nanos;

use crate::error::{Context, Result};

/// A connection's state as of now (tcp(7), `struct tcp_info` of `linux/tcp.h`); what an older kernel
/// doesn't tell is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Maximum segment size for sending, in bytes.
    pub send_mss: u32,
    /// Smoothed round-trip time.
    pub rtt: Nanos,
    /// Congestion window, in segments.
    pub congestion_window: u32,
    /// Segments sent again since the connection's start.
    pub retransmissions: u32,
    /// Bytes sent that the peer has acknowledged; the SYN and the FIN count as one each.
    pub bytes_acknowledged: u64,
    /// Bytes received in order; a FIN counts as one.
    pub bytes_received: u64,
    /// Segments sent, those without data included.
    pub segments_sent: u32,
    /// Segments received.
    pub segments_received: u32,
}

/// Where the fields are in `struct tcp_info`, in bytes.
mod offset {
    pub(super) const SEND_MSS: usize = 16;
    pub(super) const RTT_MICROSECONDS: usize = 68;
    pub(super) const CONGESTION_WINDOW: usize = 80;
    pub(super) const TOTAL_RETRANSMISSIONS: usize = 100;
    pub(super) const BYTES_ACKNOWLEDGED: usize = 120;
    pub(super) const BYTES_RECEIVED: usize = 128;
    pub(super) const SEGMENTS_SENT: usize = 136;
    pub(super) const SEGMENTS_RECEIVED: usize = 140;
    pub(super) const END: usize = 144;
}

/// Asks the kernel about a TCP connection.
///
/// # Errors
///
/// Where the descriptor is no TCP socket.
pub fn tcp_info(socket: BorrowedFd<'_>) -> Result<TcpInfo> {
    let mut bytes = [0_u8; offset::END];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `bytes`, and to `length` how many.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error()).context("ask about", "a TCP connection");
    }
    let narrow = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let wide = |at: usize| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&bytes[at..at + 8]);
        u64::from_ne_bytes(eight)
    };
    Ok(TcpInfo {
        send_mss: narrow(offset::SEND_MSS),
        rtt: Nanos(u64::from(narrow(offset::RTT_MICROSECONDS)) * 1_000),
        congestion_window: narrow(offset::CONGESTION_WINDOW),
        retransmissions: narrow(offset::TOTAL_RETRANSMISSIONS),
        bytes_acknowledged: wide(offset::BYTES_ACKNOWLEDGED),
        bytes_received: wide(offset::BYTES_RECEIVED),
        segments_sent: narrow(offset::SEGMENTS_SENT),
        segments_received: narrow(offset::SEGMENTS_RECEIVED),
    })
}

/// Sets the largest segment a connection sends and offers to receive, in bytes; before it connects.
///
/// # Errors
///
/// Where the kernel takes no such size (88 to 32767), or the descriptor is no TCP socket.
pub fn set_max_segment(socket: BorrowedFd<'_>, bytes: u32) -> Result<()> {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel reads one int, which `value` is.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error()).context("set maximum segment size", bytes.to_string())
    }
}

/// Sets how many bytes must have arrived for a wait for something to read to end (`SO_RCVLOWAT`, socket(7)). The end of the
/// connection ends it as well, and so does its own time.
///
/// # Errors
///
/// Where the descriptor is no socket.
pub fn set_wakes_at(socket: BorrowedFd<'_>, bytes: u32) -> Result<()> {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel reads one int, which `value` is.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error()).context("set the bytes that end a wait", bytes.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_connection_tells_what_it_carried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.write_all(&[7; 100_000]).unwrap();
        sender.shutdown(std::net::Shutdown::Write).unwrap();
        let mut all = Vec::new();
        receiver.read_to_end(&mut all).unwrap();
        drop(receiver.try_clone().unwrap());
        let (sent, received) = (tcp_info(sender.as_fd()).unwrap(), tcp_info(receiver.as_fd()).unwrap());
        assert!(sent.send_mss > 500 && sent.segments_sent > 2 && sent.congestion_window > 0, "{sent:?}");
        assert!((100_000..=100_001).contains(&received.bytes_received), "{received:?}");
        assert!(sent.bytes_acknowledged <= 100_002, "{sent:?}");
        assert!(tcp_info(std::fs::File::open("/dev/null").unwrap().as_fd()).is_err());
    }

    #[test]
    fn a_wait_ends_with_as_many_bytes_as_were_asked_for_or_with_the_connection() {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        set_wakes_at(receiver.as_fd(), 100).unwrap();
        let readable = |nanos: i64| {
            let wait = Timespec { tv_sec: nanos / 1_000_000_000, tv_nsec: nanos % 1_000_000_000 };
            poll(&mut [PollFd::new(&receiver, PollFlags::IN)], Some(&wait)).unwrap() > 0
        };
        sender.write_all(&[7; 99]).unwrap();
        assert!(!readable(20_000_000));
        sender.write_all(&[7]).unwrap();
        assert!(readable(20_000_000_000));
        (&receiver).read_exact(&mut [0; 50]).unwrap();
        assert!(!readable(20_000_000));
        drop(sender);
        assert!(readable(20_000_000_000));
        assert!(set_wakes_at(std::fs::File::open("/dev/null").unwrap().as_fd(), 1).is_err());
    }

    #[test]
    fn a_segment_size_is_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let kind = rustix::net::SocketType::STREAM;
        let socket = rustix::net::socket(rustix::net::AddressFamily::INET, kind, None).unwrap();
        set_max_segment(socket.as_fd(), 536).unwrap();
        rustix::net::connect(&socket, &listener.local_addr().unwrap()).unwrap();
        let mss = tcp_info(socket.as_fd()).unwrap().send_mss;
        assert!((500..=536).contains(&mss), "{mss}");
        assert!(set_max_segment(socket.as_fd(), 1_000_000).is_err());
    }
}
