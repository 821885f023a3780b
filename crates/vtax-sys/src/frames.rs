//! Listening to the frames that pass the interfaces of a network namespace: packet(7).

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use vtax_units::Nanos;

use crate::datagrams::{BATCH_MAX, Inbox, dropped, stamp_arrivals};
use crate::error::{Context, Result};

/// Bytes of a frame that are kept: enough for every header that is looked at.
const KEPT: usize = 128;
/// Bytes of frames that may wait; some ten thousand frames.
const BUFFER: libc::c_int = 64 << 20;

/// A frame as an interface saw it.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Its first bytes.
    pub bytes: &'a [u8],
    /// Its length.
    pub length: usize,
    /// The interface's number.
    pub interface: u32,
    /// The interface sent it, towards whatever it is plugged into; else it came from there.
    pub sent: bool,
    /// When, on CLOCK_REALTIME.
    pub when: Nanos,
}

impl Frame<'_> {
    /// Its EtherType, `0x0800` for IPv4.
    #[must_use]
    pub fn kind(&self) -> Option<u16> {
        Some(u16::from_be_bytes(self.bytes.get(12..14)?.try_into().ok()?))
    }
}

/// Hears every frame on every interface of the namespace it was opened in.
#[derive(Debug)]
pub struct Frames {
    socket: OwnedFd,
    inbox: Inbox,
}

impl Frames {
    /// Begins to listen in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// Where packet sockets are refused (they need `CAP_NET_RAW`).
    pub fn open() -> Result<Self> {
        let all = i32::from((libc::ETH_P_ALL as u16).to_be());
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is passed; a descriptor that is not negative is new and owned by nothing else.
        let socket = unsafe {
            match libc::socket(libc::AF_PACKET, kind, all) {
                fd @ 0.. => Ok(OwnedFd::from_raw_fd(fd)),
                _ => Err(io::Error::last_os_error()),
            }
        };
        let socket = socket.context("open", "packet socket")?;
        stamp_arrivals(socket.as_fd()).context("set up", "packet socket")?;
        let size = BUFFER;
        // SAFETY: the kernel reads one number. Without the privilege the buffer stays as it is, and what
        // finds no room is counted.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUFFORCE,
                (&raw const size).cast(),
                size_of_val(&size) as libc::socklen_t,
            );
        }
        Ok(Self { socket, inbox: Inbox::new(BATCH_MAX, KEPT) })
    }

    /// Takes every frame that waits.
    ///
    /// # Errors
    ///
    /// Where the socket fails.
    pub fn take(&mut self, mut each: impl FnMut(Frame<'_>)) -> io::Result<()> {
        loop {
            let count = match self.inbox.receive(self.socket.as_fd()) {
                Ok(count) => count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // An interface that was switched off tells so once.
                Err(e) if e.raw_os_error() == Some(libc::ENETDOWN) => continue,
                Err(e) => return Err(e),
            };
            for frame in (0..count).filter_map(|index| self.inbox.get(index)) {
                let Some((interface, packet_type)) = self.inbox.link(&frame) else { continue };
                each(Frame {
                    bytes: frame.bytes,
                    length: frame.length,
                    interface,
                    sent: packet_type == libc::PACKET_OUTGOING,
                    when: self.inbox.arrival(&frame).unwrap_or_default(),
                });
            }
        }
    }

    /// How many frames were missed for want of room.
    #[must_use]
    pub fn missed(&self) -> u32 {
        dropped(self.socket.as_fd())
    }
}
