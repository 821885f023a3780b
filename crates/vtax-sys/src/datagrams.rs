//! Many datagrams per system call: recvmmsg(2) and sendmmsg(2), and what a socket has dropped.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

use vtax_units::Nanos;

/// Most datagrams of one call.
pub const BATCH_MAX: usize = 64;

/// Room for the datagrams of one call, filled again and again.
pub struct Inbox {
    buffer: Box<[u8]>,
    /// Bytes per datagram.
    room: usize,
    names: Box<[libc::sockaddr_storage]>,
    // Never moved and never freed before `headers`, which points to it.
    #[expect(dead_code, reason = "the kernel reads it")]
    pieces: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    // Never moved either; `headers` points to it.
    controls: Box<[Control]>,
    filled: usize,
}

/// Room for the control messages with the time of arrival and the length of segments; aligned as the
/// kernel writes them.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// `struct cmsghdr` of 64-bit Linux: length (8 bytes), level and type (4 each).
const CONTROL_HEADER: usize = 16;
/// `CMSG_SPACE` of a `struct timespec` (two numbers of 8) and of an int.
const CONTROL_BYTES: usize = CONTROL_HEADER + 16 + CONTROL_HEADER + 8;

// SAFETY: the pointers in `headers` and `pieces` lead to memory that the boxes of the same value own
// and nothing else refers to.
unsafe impl Send for Inbox {}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox")
            .field("room", &self.room)
            .field("filled", &self.filled)
            .finish_non_exhaustive()
    }
}

/// One datagram as it came.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// Its bytes, as far as there was room.
    pub bytes: &'a [u8],
    /// It was longer than the room.
    pub truncated: bool,
    /// How long it was.
    pub length: usize,
    index: usize,
}

impl Inbox {
    /// For up to `count` datagrams (at most [`BATCH_MAX`]) of up to `room` bytes each.
    #[must_use]
    pub fn new(count: usize, room: usize) -> Self {
        let count = count.clamp(1, BATCH_MAX);
        let room = room.max(1);
        let mut buffer = vec![0_u8; count * room].into_boxed_slice();
        // SAFETY: sockaddr_storage is plain data, for which all zeros is a value.
        let empty: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let mut names = vec![empty; count].into_boxed_slice();
        let mut pieces: Box<[libc::iovec]> = buffer
            .chunks_exact_mut(room)
            .map(|chunk| libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: room })
            .collect();
        let mut controls = vec![Control([0; CONTROL_BYTES]); count].into_boxed_slice();
        let headers = pieces
            .iter_mut()
            .zip(&mut names)
            .zip(&mut controls)
            .map(|((piece, name), control)| {
                // SAFETY: mmsghdr is plain data, for which all zeros is a value.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_name = (&raw mut *name).cast();
                header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
                header.msg_hdr.msg_iov = &raw mut *piece;
                header.msg_hdr.msg_iovlen = 1;
                header.msg_hdr.msg_control = (&raw mut *control).cast();
                header.msg_hdr.msg_controllen = CONTROL_BYTES;
                header
            })
            .collect();
        Self { buffer, room, names, pieces, headers, controls, filled: 0 }
    }

    /// Takes the datagrams that are there, without waiting; returns how many.
    ///
    /// # Errors
    ///
    /// What recvmmsg(2) says: `WouldBlock` where there are none, `ConnectionRefused` where ICMP
    /// told a connected socket that its peer's port is closed.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        for header in &mut self.headers[..self.filled] {
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            header.msg_hdr.msg_controllen = CONTROL_BYTES;
            header.msg_hdr.msg_flags = 0;
        }
        self.filled = 0;
        // SAFETY: `headers` are as many valid headers as said, each with a name and one piece of
        // memory that this value owns; the kernel writes there and to the headers' lengths.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as u32,
                // With MSG_TRUNC the kernel tells how long a datagram was that had no room.
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                std::ptr::null_mut(),
            )
        };
        self.filled = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        Ok(self.filled)
    }

    /// The datagram of that number, from 0, of the last [`receive`](Self::receive).
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Datagram<'_>> {
        let header = self.headers[..self.filled].get(index)?;
        let length = (header.msg_len as usize).min(self.room);
        let truncated = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        let bytes = &self.buffer[index * self.room..][..length];
        Some(Datagram { bytes, truncated, length: header.msg_len as usize, index })
    }

    /// When the kernel took the datagram in, on CLOCK_REALTIME; `None` unless [`stamp_arrivals`] was
    /// asked for on the socket.
    #[must_use]
    pub fn arrival(&self, datagram: &Datagram<'_>) -> Option<Nanos> {
        let time = self.control(datagram, libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)?;
        let number = |at: usize| Some(u64::from_ne_bytes(*time.get(at..)?.first_chunk()?));
        Some(Nanos(number(0)? * 1_000_000_000 + number(8)?))
    }

    /// How long each of the datagrams is that came as this one, the last of them perhaps less; `None`
    /// where it is one. Only a socket that [`coalesce`]s gets several.
    #[must_use]
    pub fn segment(&self, datagram: &Datagram<'_>) -> Option<usize> {
        let size = self.control(datagram, libc::SOL_UDP, libc::UDP_GRO)?;
        let size = usize::try_from(i32::from_ne_bytes(*size.first_chunk()?)).ok()?;
        (size > 0 && size < datagram.length).then_some(size)
    }

    /// The data of the control message of that kind.
    fn control(&self, datagram: &Datagram<'_>, level: i32, kind: i32) -> Option<&[u8]> {
        let filled = self.headers[datagram.index].msg_hdr.msg_controllen.min(CONTROL_BYTES);
        let mut rest = &self.controls[datagram.index].0[..filled];
        while rest.len() >= CONTROL_HEADER {
            let length = usize::try_from(u64::from_ne_bytes(*rest.first_chunk()?)).ok()?;
            let half = |at: usize| Some(i32::from_ne_bytes(*rest.get(at..)?.first_chunk()?));
            let data = rest.get(CONTROL_HEADER..length)?;
            if (half(8)?, half(12)?) == (level, kind) {
                return Some(data);
            }
            rest = rest.get(length.next_multiple_of(8)..)?;
        }
        None
    }

    /// Number of the interface and type of packet (packet(7)) of what came on a packet socket.
    pub(crate) fn link(&self, datagram: &Datagram<'_>) -> Option<(u32, u8)> {
        let name = &raw const self.names[datagram.index];
        if i32::from(self.names[datagram.index].ss_family) != libc::AF_PACKET {
            return None;
        }
        // SAFETY: the family says that the kernel wrote a sockaddr_ll, which the storage is large and
        // aligned enough for.
        let found = unsafe { *name.cast::<libc::sockaddr_ll>() };
        Some((found.sll_ifindex.cast_unsigned(), found.sll_pkttype))
    }

    /// Where the datagram came from; `None` for anything but IPv4 and IPv6.
    #[must_use]
    pub fn sender(&self, datagram: &Datagram<'_>) -> Option<SocketAddr> {
        let name = &raw const self.names[datagram.index];
        match i32::from(self.names[datagram.index].ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says that the kernel wrote a sockaddr_in, which the storage is
                // large and aligned enough for.
                let found = unsafe { *name.cast::<libc::sockaddr_in>() };
                let address = Ipv4Addr::from(u32::from_be(found.sin_addr.s_addr));
                Some((address, u16::from_be(found.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above, for a sockaddr_in6.
                let found = unsafe { *name.cast::<libc::sockaddr_in6>() };
                let address = Ipv6Addr::from(found.sin6_addr.s6_addr);
                let port = u16::from_be(found.sin6_port);
                Some(SocketAddrV6::new(address, port, found.sin6_flowinfo, found.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

/// What one call of sendmmsg(2) needs, kept for the next.
pub struct Outbox {
    names: Box<[libc::sockaddr_storage]>,
    pieces: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
}

// SAFETY: the pointers in it are set anew before each use, within one call.
unsafe impl Send for Outbox {}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Outbox {
    /// For up to [`BATCH_MAX`] datagrams at once.
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: all three are plain data, for which all zeros is a value.
        let (name, piece, header) = unsafe { (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed()) };
        Self {
            names: vec![name; BATCH_MAX].into_boxed_slice(),
            pieces: vec![piece; BATCH_MAX].into_boxed_slice(),
            headers: vec![header; BATCH_MAX].into_boxed_slice(),
        }
    }

    /// Sends datagrams without waiting; returns how many, from the first, the kernel took: at most
    /// [`BATCH_MAX`]. `ends` says where each ends in `bytes`, one after the other. `to` says where
    /// each goes; it is empty where the socket is connected.
    ///
    /// # Errors
    ///
    /// What sendmmsg(2) says of the first datagram: `WouldBlock` where the socket's buffer is
    /// full, `ConnectionRefused` where ICMP said so of an earlier one.
    ///
    /// # Panics
    ///
    /// Where `ends` go back or beyond `bytes`, or `to` is neither empty nor as long as `ends`.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        bytes: &[u8],
        ends: &[usize],
        to: &[SocketAddr],
    ) -> io::Result<usize> {
        assert!(to.is_empty() || to.len() == ends.len(), "{} addresses for {}", to.len(), ends.len());
        let count = ends.len().min(BATCH_MAX);
        let mut start = 0;
        for (i, end) in ends[..count].iter().enumerate() {
            let piece = &bytes[start..*end];
            start = *end;
            // The kernel only reads from a piece that is sent.
            self.pieces[i] = libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() };
            let header = &mut self.headers[i].msg_hdr;
            header.msg_iov = &raw mut self.pieces[i];
            header.msg_iovlen = 1;
            (header.msg_name, header.msg_namelen) = match to.get(i) {
                Some(to) => ((&raw mut self.names[i]).cast(), write_name(*to, &mut self.names[i])),
                None => (std::ptr::null_mut(), 0),
            };
        }
        // SAFETY: the first `count` headers point to pieces of `bytes`, which lives through the call,
        // and to names of this value or none; the kernel writes only the headers' lengths.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Writes an address as the kernel reads it; returns its length.
pub(crate) fn write_name(address: SocketAddr, name: &mut libc::sockaddr_storage) -> u32 {
    let name = &raw mut *name;
    match address {
        SocketAddr::V4(v4) => {
            // SAFETY: the storage is large and aligned enough for any address, and all zeros is one.
            let to = unsafe { &mut *name.cast::<libc::sockaddr_in>() };
            to.sin_family = libc::AF_INET as u16;
            to.sin_port = v4.port().to_be();
            to.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
            size_of::<libc::sockaddr_in>() as u32
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above.
            let to = unsafe { &mut *name.cast::<libc::sockaddr_in6>() };
            to.sin6_family = libc::AF_INET6 as u16;
            to.sin6_port = v6.port().to_be();
            to.sin6_flowinfo = v6.flowinfo();
            to.sin6_addr.s6_addr = v6.ip().octets();
            to.sin6_scope_id = v6.scope_id();
            size_of::<libc::sockaddr_in6>() as u32
        }
    }
}

/// Has the kernel cut what is sent at once into datagrams of `size` bytes, late on its way down (UDP
/// segmentation offload, udp(7)): one trip through the stack for up to 64 of them. 0 turns it off.
///
/// # Errors
///
/// Where the kernel doesn't know it (before Linux 4.18).
pub fn segment(socket: BorrowedFd<'_>, size: u16) -> io::Result<()> {
    set_int(socket, libc::SOL_UDP, libc::UDP_SEGMENT, i32::from(size))
}

/// Has the kernel hand over as one what came as one: datagrams of a flow that are as long as each other,
/// one after the other, with their length as [`Inbox::segment`]. They share one time of arrival.
///
/// # Errors
///
/// Where the kernel doesn't know it (before Linux 5.0).
pub fn coalesce(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::SOL_UDP, libc::UDP_GRO, 1)
}

fn set_int(socket: BorrowedFd<'_>, level: i32, name: i32, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel reads one int, which `value` is.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel note when each datagram arrives, for [`Inbox::arrival`].
///
/// # Errors
///
/// Where the kernel refuses.
pub fn stamp_arrivals(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// How many datagrams the socket has dropped since it was opened, for want of room in its buffer or
/// because they were damaged; 0 where the kernel doesn't tell (before Linux 4.12).
#[must_use]
pub fn dropped(socket: BorrowedFd<'_>) -> u32 {
    /// `SK_MEMINFO_DROPS` of `linux/sock_diag.h`.
    const DROPS: usize = 8;
    let mut figures = [0_u32; DROPS + 1];
    let mut length = size_of_val(&figures) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `figures`, which are plain numbers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            figures.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 { figures[DROPS] } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    fn pair() -> (UdpSocket, UdpSocket) {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        (a, b)
    }

    #[test]
    fn datagrams_arrive_as_sent() {
        let (a, b) = pair();
        let to = b.local_addr().unwrap();
        let sent = Outbox::new().send(a.as_fd(), b"onetwothree", &[3, 6, 11], &[to; 3]).unwrap();
        assert_eq!(sent, 3);
        let mut inbox = Inbox::new(8, 4);
        assert_eq!(inbox.receive(b.as_fd()).unwrap(), 3);
        let found: Vec<_> = (0..3).map(|i| inbox.get(i).unwrap()).collect();
        assert_eq!(found.iter().map(|d| d.bytes).collect::<Vec<_>>(), [&b"one"[..], b"two", b"thre"]);
        assert_eq!(found.iter().map(|d| d.truncated).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(found.iter().map(|d| d.length).collect::<Vec<_>>(), [3, 3, 5]);
        assert_eq!(inbox.sender(&found[0]), Some(a.local_addr().unwrap()));
        assert!(inbox.get(3).is_none());
        // A second round finds its headers as new.
        b.connect(a.local_addr().unwrap()).unwrap();
        a.connect(to).unwrap();
        assert_eq!(Outbox::new().send(a.as_fd(), b"four", &[4], &[]).unwrap(), 1);
        assert_eq!(inbox.receive(b.as_fd()).unwrap(), 1);
        let four = inbox.get(0).unwrap();
        assert!(four.bytes == b"four" && !four.truncated);
        assert_eq!(inbox.receive(b.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(inbox.get(0).is_none());
    }

    #[test]
    fn arrivals_are_stamped_where_asked_for() {
        let (a, b) = pair();
        a.connect(b.local_addr().unwrap()).unwrap();
        let mut inbox = Inbox::new(4, 16);
        Outbox::new().send(a.as_fd(), b"x", &[1], &[]).unwrap();
        inbox.receive(b.as_fd()).unwrap();
        assert_eq!(inbox.arrival(&inbox.get(0).unwrap()), None);
        stamp_arrivals(b.as_fd()).unwrap();
        let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        // The first to ask for stamps turns them on a little later (net_enable_timestamp).
        for _ in 0..100 {
            let before = now();
            Outbox::new().send(a.as_fd(), b"x", &[1], &[]).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(2));
            inbox.receive(b.as_fd()).unwrap();
            let after = now();
            let arrival = std::time::Duration::from(inbox.arrival(&inbox.get(0).unwrap()).unwrap());
            assert!(before <= arrival && arrival <= after);
        }
    }

    #[test]
    fn what_is_sent_as_one_is_several_and_may_come_as_one() {
        let (a, b) = pair();
        a.connect(b.local_addr().unwrap()).unwrap();
        segment(a.as_fd(), 4).unwrap();
        let mut inbox = Inbox::new(8, 64);
        Outbox::new().send(a.as_fd(), b"one.two.3", &[9], &[]).unwrap();
        assert_eq!(inbox.receive(b.as_fd()).unwrap(), 3);
        let found: Vec<_> = (0..3).map(|i| inbox.get(i).unwrap()).collect();
        assert_eq!(found.iter().map(|d| d.bytes).collect::<Vec<_>>(), [&b"one."[..], b"two.", b"3"]);
        assert!(found.iter().all(|d| inbox.segment(d).is_none()));
        coalesce(b.as_fd()).unwrap();
        stamp_arrivals(b.as_fd()).unwrap();
        Outbox::new().send(a.as_fd(), b"one.two.3", &[9], &[]).unwrap();
        assert_eq!(inbox.receive(b.as_fd()).unwrap(), 1);
        let all = inbox.get(0).unwrap();
        assert_eq!((all.bytes, inbox.segment(&all)), (&b"one.two.3"[..], Some(4)));
    }

    #[test]
    fn nobody_listening_is_told() {
        let (a, b) = pair();
        a.connect(b.local_addr().unwrap()).unwrap();
        drop(b);
        let mut outbox = Outbox::new();
        assert_eq!(outbox.send(a.as_fd(), b"x", &[1], &[]).unwrap(), 1);
        let error = outbox.send(a.as_fd(), b"x", &[1], &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let (a, b) = pair();
        a.connect(b.local_addr().unwrap()).unwrap();
        assert_eq!(dropped(b.as_fd()), 0);
        // The default buffer holds some hundred datagrams.
        let bytes = vec![0; 1_000 * BATCH_MAX];
        let ends: Vec<usize> = (1..=BATCH_MAX).map(|i| 1_000 * i).collect();
        for _ in 0..200 {
            let _ = Outbox::new().send(a.as_fd(), &bytes, &ends, &[]);
        }
        assert!(dropped(b.as_fd()) > 0);
    }
}
