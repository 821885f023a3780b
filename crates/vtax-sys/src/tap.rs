//! tap interfaces: a cable whose other end is a descriptor, for a virtual machine.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::error::{Context, Result, SysError};

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETPERSIST: libc::c_ulong = 0x4004_54cb;

/// Creates the tap interface `name` in the network namespace of this thread. It exists as long as
/// the descriptor does.
///
/// Frames come with a `struct virtio_net_hdr` before them, so that a guest's large segments and
/// missing checksums pass unchanged.
///
/// # Errors
///
/// Where `/dev/net/tun` is missing or may not be opened, or the name is taken.
pub fn create(name: &str) -> Result<OwnedFd> {
    create_with(name, libc::IFF_VNET_HDR)
}

/// As [`create`], but it stays until it is deleted or its namespace ends: for a program that opens it by its name.
///
/// # Errors
///
/// As [`create`].
pub fn create_lasting(name: &str) -> Result<()> {
    let tun = create(name)?;
    // SAFETY: TUNSETPERSIST takes a number, not a pointer.
    if unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETPERSIST as _, 1 as libc::c_int) } < 0 {
        return Err(io::Error::last_os_error()).context("keep tap", name);
    }
    Ok(())
}

/// As [`create`], with so many queues, a descriptor each: who is behind it can send and receive by several at once.
///
/// # Errors
///
/// As [`create`].
pub fn create_queues(name: &str, queues: u32) -> Result<Vec<OwnedFd>> {
    match queues {
        0 | 1 => Ok(vec![create(name)?]),
        _ => (0..queues).map(|_| create_with(name, libc::IFF_VNET_HDR | libc::IFF_MULTI_QUEUE)).collect(),
    }
}

/// As [`create`], but frames come bare: each is at most as long as the MTU says and has its checksums.
/// For who has to look into them.
///
/// # Errors
///
/// As [`create`].
pub fn create_bare(name: &str) -> Result<OwnedFd> {
    create_with(name, 0)
}

fn create_with(name: &str, header: libc::c_int) -> Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let path = "/dev/net/tun";
    let tun = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
        .context("open", path)?;
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | header;
    // struct ifreq: a name of 16 bytes, then a union whose first member here is the flags.
    let mut request = [0_u8; 40];
    if name.is_empty() || name.len() > 15 {
        let what = format!("`{name}` is not a name of 1 to 15 bytes");
        return Err(SysError::Unexpected { operation: "create tap", what });
    }
    request[..name.len()].copy_from_slice(name.as_bytes());
    request[16..18].copy_from_slice(&(flags as u16).to_ne_bytes());
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, 40 bytes, which `request` is.
    if unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETIFF as _, request.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error()).context("create tap", name);
    }
    Ok(tun)
}
