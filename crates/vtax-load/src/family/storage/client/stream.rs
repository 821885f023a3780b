//! A TCP connection that is read without waiting, with a short wait, or until there is something.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use vtax_sys::tcp::set_wakes_at;

/// Longest wait before a caller looks at its deadlines. Shorter than what workers sleep at most (20 ms): a wait that is at
/// least as long takes one system call, any other takes two. A tick of the kernel's slower clocks (100 and 250 Hz), which it is
/// rounded up to.
pub(in crate::family::storage) const LOOK: Duration = Duration::from_millis(4);

/// How long a wait of [`LOOK`] may last: at 100 Hz it is rounded up to a tick of 10 ms, and begins with the next one.
pub(in crate::family::storage) const LOOK_LASTS: Duration = Duration::from_millis(20);

/// One connection.
#[derive(Debug)]
pub(in crate::family::storage) struct Stream {
    socket: TcpStream,
    /// Bytes that must be there for a wait to end.
    wakes_at: Cell<u32>,
}

impl Stream {
    /// Connects before `until`.
    pub(in crate::family::storage) fn connect(address: SocketAddr, until: Instant) -> io::Result<Self> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let stream = TcpStream::connect_timeout(&address, left)?;
        stream.set_nodelay(true)?;
        // A read that waits returns after this time: the kernel's own timer costs no system call.
        stream.set_read_timeout(Some(LOOK))?;
        Ok(Self { socket: stream, wakes_at: Cell::new(1) })
    }

    /// Sends what the socket takes; `None` where that is nothing.
    pub(in crate::family::storage) fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match sendmsg(&self.socket, slices, &mut SendAncillaryBuffer::default(), flags) {
            Ok(sent) => Ok(Some(sent)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives what is there; with `wait`, waits at most [`LOOK`] for as much as [`wake_at`](Self::wake_at) says. `None` where
    /// nothing came.
    pub(in crate::family::storage) fn receive(
        &self,
        buffer: &mut [u8],
        wait: bool,
    ) -> io::Result<Option<usize>> {
        let flags = if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        match recv(&self.socket, buffer, flags) {
            Ok((0, _)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((got, _)) => Ok(Some(got)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// From now on, waits for something to read end when so many bytes have come, the connection has ended, or their time is over.
    pub(in crate::family::storage) fn wake_at(&self, bytes: u32) -> io::Result<()> {
        if self.wakes_at.replace(bytes) == bytes {
            return Ok(());
        }
        set_wakes_at(self.socket.as_fd(), bytes).map_err(io::Error::other)
    }

    /// Waits at most so many nanoseconds until it can be read or written, as asked for.
    pub(in crate::family::storage) fn poll(&self, read: bool, write: bool, nanos: u64) -> io::Result<()> {
        let mut events = PollFlags::empty();
        events.set(PollFlags::IN, read);
        events.set(PollFlags::OUT, write);
        let wait =
            Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        match poll(&mut [PollFd::from_borrowed_fd(self.socket.as_fd(), events)], Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends everything before `until`.
    pub(in crate::family::storage) fn send_all(&self, mut bytes: &[u8], until: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            if let Some(sent) = self.send(&[IoSlice::new(bytes)])? {
                bytes = &bytes[sent..];
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.poll(false, true, left.min(LOOK).as_nanos() as u64)?;
        }
        Ok(())
    }

    /// Receives something before `until`.
    pub(in crate::family::storage) fn receive_some(
        &self,
        buffer: &mut [u8],
        until: Instant,
    ) -> io::Result<usize> {
        self.wake_at(1)?;
        loop {
            if let Some(got) = self.receive(buffer, true)? {
                return Ok(got);
            }
            if Instant::now() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}
