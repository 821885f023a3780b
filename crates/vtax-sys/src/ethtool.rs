//! Driver and offloads of an interface.

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
    /// Segments of any protocol up to 64 KiB are sent whole (ETHTOOL_SGSO).
    Segmentation = 0x24,
    /// Received segments are put together (ETHTOOL_SGRO).
    Receive = 0x2c,
}

impl Offload {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::TxChecksum, Self::TcpSegmentation, Self::Segmentation, Self::Receive];

    /// A word for it, after ethtool(8).
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::TxChecksum => "tx-checksum",
            Self::TcpSegmentation => "tso",
            Self::Segmentation => "gso",
            Self::Receive => "gro",
        }
    }
}

/// Words of 32 bits of a `struct ethtool_drvinfo`: command, five texts of 32 bytes, 12 bytes, five numbers.
const DRIVER_WORDS: usize = 49;
/// Words of a `struct ethtool_coalesce`: command, 22 numbers.
const COALESCE_WORDS: usize = 23;
/// ETHTOOL_GCOALESCE; the one that sets is the number after it.
const COALESCE: u32 = 0xe;

/// Has the card of interface `name`, in the network namespace of this thread, leave so many microseconds at least between two
/// interrupts for received packets; 0: as many as it likes.
///
/// # Errors
///
/// Where there is no such interface or its card can't.
pub fn set_receive_interval(name: &str, microseconds: u32) -> Result<()> {
    let mut value = [0; COALESCE_WORDS];
    value[0] = COALESCE;
    call(name, "ask for the interrupts of", &mut value)?;
    // Its first number is rx_coalesce_usecs.
    (value[0], value[1]) = (COALESCE + 1, microseconds);
    call(name, "moderate the interrupts of", &mut value)
}

/// The least time between two interrupts for received packets, in microseconds, as [`set_receive_interval`] sets it.
///
/// # Errors
///
/// Where there is no such interface or its card doesn't know.
pub fn receive_interval(name: &str) -> Result<u32> {
    let mut value = [0; COALESCE_WORDS];
    value[0] = COALESCE;
    call(name, "ask for the interrupts of", &mut value)?;
    Ok(value[1])
}

/// ETHTOOL_GDRVINFO.
const DRIVER: u32 = 0x3;

/// Turns an offload of interface `name`, in the network namespace of this thread, on or off.
///
/// # Errors
///
/// Where there is no such interface or it can't.
pub fn set(name: &str, offload: Offload, on: bool) -> Result<()> {
    // struct ethtool_value: command, data.
    call(name, "set offload of", &mut [offload as u32, u32::from(on)])
}

/// Whether an offload of interface `name`, in the network namespace of this thread, is on.
///
/// # Errors
///
/// Where there is no such interface or it doesn't know.
pub fn is_on(name: &str, offload: Offload) -> Result<bool> {
    // The command that asks is the number before the one that sets.
    let mut value = [offload as u32 - 1, 0];
    call(name, "ask for an offload of", &mut value)?;
    Ok(value[1] != 0)
}

/// Name of the driver of interface `name`, in the network namespace of this thread: `virtio_net`, `veth`.
///
/// # Errors
///
/// Where there is no such interface or its driver doesn't say.
pub fn driver(name: &str) -> Result<String> {
    let mut value = [0; DRIVER_WORDS];
    value[0] = DRIVER;
    call(name, "ask for the driver of", &mut value)?;
    let text: Vec<u8> =
        value[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|b| *b != 0).collect();
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// One command of ethtool: `value` begins with it and is as long as the structure that it asks for.
fn call(name: &str, operation: &'static str, value: &mut [u32]) -> Result<()> {
    if name.is_empty() || name.len() > 15 {
        let what = format!("`{name}` is not a name of 1 to 15 bytes");
        return Err(SysError::Unexpected { operation, what });
    }
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .context("open", "socket")?;
    // struct ifreq: a name of 16 bytes, then here a pointer.
    let mut request = [0_u8; 40];
    request[..name.len()].copy_from_slice(name.as_bytes());
    let pointer = value.as_mut_ptr() as usize;
    request[16..16 + size_of::<usize>()].copy_from_slice(&pointer.to_ne_bytes());
    // SAFETY: SIOCETHTOOL reads one `struct ifreq`, 40 bytes, whose pointer leads to the structure that the
    // command asks for, which the kernel reads and writes no further than its own length: that of `value`, by
    // all callers of this private function. Both outlive the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, request.as_mut_ptr()) };
    if done < 0 { Err(io::Error::last_os_error()).context(operation, name) } else { Ok(()) }
}

/// Turns every offload of [`Offload`] on or off. What the interface can't change is left as it is, unless
/// it can change nothing.
///
/// # Errors
///
/// Where there is no such interface, or it takes none of the changes.
pub fn set_all(name: &str, on: bool) -> Result<()> {
    let mut done = Offload::ALL.map(|offload| set(name, offload, on));
    if done.iter().any(Result::is_ok) { Ok(()) } else { std::mem::replace(&mut done[0], Ok(())) }
}
