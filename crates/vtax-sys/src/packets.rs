//! Seeing the packets of an interface: packet(7).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::error::{Context, Result};

/// `ETH_P_ALL` in network byte order: every protocol, both directions.
const ALL: u16 = (libc::ETH_P_ALL as u16).to_be();

/// Opens a socket that gets a copy of every packet of the interface with this number, in the network
/// namespace of this thread. `buffer` bytes wait at most (each takes some more than its own length).
///
/// # Errors
///
/// Without `CAP_NET_RAW`, or where there is no such interface.
pub fn open(index: u32, buffer: usize) -> Result<OwnedFd> {
    // Protocol 0: nothing comes before it is bound to the interface.
    // SAFETY: socket(2) takes three numbers.
    let raw = unsafe {
        libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)
    };
    if raw < 0 {
        return Err(io::Error::last_os_error()).context("open", "a packet socket");
    }
    // SAFETY: just opened, and owned by nothing else.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    let object = || format!("interface {index}");
    // Beyond net.core.rmem_max where this user may; else up to that.
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, buffer).is_err() {
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, buffer)
            .context("buffer packets of", object())?;
    }
    crate::datagrams::stamp_arrivals(std::os::fd::AsFd::as_fd(&socket))
        .context("stamp packets of", object())?;
    // SAFETY: sockaddr_ll is plain data, for which all zeros is a value.
    let mut place: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    place.sll_family = libc::AF_PACKET as u16;
    place.sll_protocol = ALL;
    place.sll_ifindex = index.cast_signed();
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `place` is a sockaddr_ll of the length given, and the kernel only reads it.
    if unsafe { libc::bind(socket.as_raw_fd(), (&raw const place).cast(), length) } < 0 {
        return Err(io::Error::last_os_error()).context("watch", object());
    }
    Ok(socket)
}

/// One instruction of a filter of packets (classic BPF, `linux/filter.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// What is done.
    pub code: u16,
    /// Instructions that are skipped where a comparison holds.
    pub then: u8,
    /// Instructions that are skipped where it doesn't.
    pub otherwise: u8,
    /// Operand.
    pub operand: u32,
}

/// Has a socket get only what this program lets through, cut to the length that it says. The kernel refuses a program
/// that could run for ever or reads where it may not.
///
/// # Errors
///
/// Where the kernel refuses the program.
pub fn attach_filter(socket: BorrowedFd<'_>, program: &[Instruction]) -> Result<()> {
    let mut code: Vec<libc::sock_filter> = program
        .iter()
        .map(|i| libc::sock_filter { code: i.code, jt: i.then, jf: i.otherwise, k: i.operand })
        .collect();
    let what = || format!("a filter of {} instructions", program.len());
    let len = libc::c_ushort::try_from(code.len())
        .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
        .context("attach", what())?;
    let whole = libc::sock_fprog { len, filter: code.as_mut_ptr() };
    // SAFETY: the kernel reads one sock_fprog and copies the instructions that it points to, as many as it says; both live
    // through the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const whole).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error()).context("attach", what());
    }
    Ok(())
}

/// Has a socket send and receive by way of this interface only: where that is a VRF's, by its table.
///
/// # Errors
///
/// Without `CAP_NET_RAW`, or where there is no such interface.
pub fn bind_to_interface(socket: BorrowedFd<'_>, name: &str) -> Result<()> {
    // SAFETY: the kernel reads as many bytes of the name as it is told, and the name lives through the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error()).context("bind a socket to interface", name);
    }
    Ok(())
}

/// Packets for which there was no room since the last call.
///
/// # Errors
///
/// Where it is no packet socket.
pub fn dropped(socket: BorrowedFd<'_>) -> Result<u64> {
    let mut stats = MaybeUninit::<libc::tpacket_stats>::uninit();
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the kernel writes one tpacket_stats to the pointer, which is valid for that, and says how long
    // it was.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            stats.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error()).context("count the drops of", "a packet socket");
    }
    // SAFETY: filled by the successful call above.
    Ok(u64::from(unsafe { stats.assume_init() }.tp_drops))
}
