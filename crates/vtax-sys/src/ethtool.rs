//! Offloads of an interface.

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::error::{Context, Result, SysError};

/// An offload that can be turned on and off; the numbers are `ethtool.h`'s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Checksums of sent packets are left to the receiver (ETHTOOL_STXCSUM).
    TxChecksum = 0x17,
    /// TCP segments up to 64 KiB are sent whole (ETHTOOL_STSO).
    TcpSegmentation = 0x1f,
    /// The same in general (ETHTOOL_SGSO).
    Segmentation = 0x24,
    /// Received segments are put together (ETHTOOL_SGRO).
    Receive = 0x2c,
}

/// Turns an offload of interface `name`, in the network namespace of this thread, on or off.
///
/// # Errors
///
/// Where there is no such interface or it can't.
pub fn set(name: &str, offload: Offload, on: bool) -> Result<()> {
    if name.is_empty() || name.len() > 15 {
        let what = format!("`{name}` is not a name of 1 to 15 bytes");
        return Err(SysError::Unexpected { operation: "set offload", what });
    }
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .context("open", "socket")?;
    // struct ethtool_value: command, data.
    let mut value = [offload as u32, u32::from(on)];
    // struct ifreq: a name of 16 bytes, then here a pointer.
    let mut request = [0_u8; 40];
    request[..name.len()].copy_from_slice(name.as_bytes());
    let pointer = (&raw mut value) as usize;
    request[16..16 + size_of::<usize>()].copy_from_slice(&pointer.to_ne_bytes());
    // SAFETY: SIOCETHTOOL reads one `struct ifreq`, 40 bytes, whose pointer leads to the
    // `struct ethtool_value` that the command asks for; both outlive the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, request.as_mut_ptr()) };
    if done < 0 { Err(io::Error::last_os_error()).context("set offload of", name) } else { Ok(()) }
}

/// Turns every offload of [`Offload`] on or off. What the interface can't change is left as it is, unless
/// it can change nothing.
///
/// # Errors
///
/// Where there is no such interface, or it takes none of the changes.
pub fn set_all(name: &str, on: bool) -> Result<()> {
    let all = [Offload::TxChecksum, Offload::TcpSegmentation, Offload::Segmentation, Offload::Receive];
    let mut done = all.map(|offload| set(name, offload, on));
    if done.iter().any(Result::is_ok) { Ok(()) } else { std::mem::replace(&mut done[0], Ok(())) }
}
