//! Who is at the other end of a unix socket: unix(7).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use crate::error::{Context, Result};

/// The effective user, as this process's user namespace has it, of whoever connected. Unlike other libraries' calls this
/// one works where that process is outside of this PID namespace, and has no number in it.
///
/// # Errors
///
/// Where it is no unix socket.
pub fn peer_user(socket: impl AsFd) -> Result<u32> {
    let mut peer = MaybeUninit::<libc::ucred>::uninit();
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the pointer, which is valid for as many.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            peer.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if done < 0 || length as usize != size_of::<libc::ucred>() {
        return Err(io::Error::last_os_error()).context("ask who is at the other end of", "a socket");
    }
    // SAFETY: filled by the successful call above.
    Ok(unsafe { peer.assume_init() }.uid)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn who_is_there_is_known() {
        let (one, other) = UnixStream::pair().unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(peer_user(&one).unwrap(), own);
        assert_eq!(peer_user(other).unwrap(), own);
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        // The kernel knows nobody there.
        assert_ne!(peer_user(tcp).ok(), Some(own));
    }
}
