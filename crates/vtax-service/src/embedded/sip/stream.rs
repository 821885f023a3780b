//! A connection over TCP or TLS, written to by any worker and read by one.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, ipproto, sockopt};
use rustls::ServerConfig;
use vtax_sys::sync::lock;

use crate::embedded::tls::Tls;

/// Most bytes that wait for a peer who doesn't read; beyond it the connection is closed.
const UNSENT_MAX: usize = 4 << 20;
/// Room that a connection keeps for what it will send next.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// A connection.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) fd: OwnedFd,
    pub(super) peer: SocketAddr,
    pub(super) is_secure: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    unsent: Vec<u8>,
    closed: bool,
    tls: Option<Box<Tls>>,
    /// What is to be enciphered when it is sent next.
    plain: Vec<u8>,
}

impl Stream {
    pub(super) fn new(fd: OwnedFd, peer: SocketAddr) -> Self {
        Self { fd, peer, is_secure: false, state: Mutex::default() }
    }

    /// A stream with TLS; `None` where the configuration can't be used.
    pub(super) fn secure(fd: OwnedFd, peer: SocketAddr, config: &Arc<ServerConfig>) -> Option<Self> {
        let state = State { tls: Some(Tls::new(config)?), ..State::default() };
        Some(Self { fd, peer, is_secure: true, state: Mutex::new(state) })
    }

    /// Appends what came to `plain`, deciphered. False where it isn't TLS; the peer is told why.
    pub(super) fn open(&self, cipher: &[u8], plain: &mut Vec<u8>) -> bool {
        let mut state = self.lock();
        let State { tls: Some(tls), unsent, .. } = &mut *state else { return false };
        let good = tls.open(cipher, plain);
        tls.take(unsent);
        self.flush_locked(&mut state);
        good
    }

    /// Begins a connection; what is sent meanwhile waits for its end.
    pub(super) fn dial(peer: SocketAddr) -> Result<Self, Errno> {
        let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        match rustix::net::connect(&fd, &peer) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self::new(fd, peer)),
            Err(error) => Err(error),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // A worker that panicked takes the server with it anyway.
        lock(&self.state)
    }

    /// Adds to what is to be sent; true where nothing waited before, so that the caller has to
    /// [`flush`](Self::flush). What goes to a closed connection is lost.
    pub(super) fn push(&self, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        if state.unsent.len() + state.plain.len() + bytes.len() > UNSENT_MAX {
            self.close_locked(&mut state);
            return false;
        }
        let is_first = state.unsent.is_empty() && state.plain.is_empty();
        match &state.tls {
            None => state.unsent.extend_from_slice(bytes),
            Some(tls) if tls.is_ready() => state.plain.extend_from_slice(bytes),
            // Nobody who has asked for something waits for an answer yet.
            Some(_) => return false,
        }
        is_first
    }

    /// Sends what waits, as far as there is room.
    pub(super) fn flush(&self) {
        let mut state = self.lock();
        let State { tls, plain, unsent, .. } = &mut *state;
        if let Some(tls) = tls.as_mut().filter(|_| !plain.is_empty()) {
            tls.seal(plain);
            plain.clear();
            tls.take(unsent);
        }
        self.flush_locked(&mut state);
    }

    fn flush_locked(&self, state: &mut State) {
        if state.unsent.is_empty() || state.closed {
            return;
        }
        match self.try_send(&state.unsent) {
            Ok(sent) => {
                state.unsent.drain(..sent);
                if state.unsent.is_empty() && state.unsent.capacity() > KEPT_BYTES_MAX {
                    state.unsent = Vec::new();
                }
            }
            Err(_) => self.close_locked(state),
        }
    }

    /// How much of it the socket takes.
    fn try_send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut sent = 0;
        while sent < bytes.len() {
            match rustix::net::send(&self.fd, &bytes[sent..], SendFlags::NOSIGNAL) {
                Ok(more) => sent += more,
                Err(Errno::INTR) => {}
                // NOTCONN, NOBUFS: the connection is still being made, or memory is short.
                Err(Errno::AGAIN | Errno::NOTCONN | Errno::NOBUFS) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    /// Ends it for all who hold it.
    pub(super) fn close(&self) {
        self.close_locked(&mut self.lock());
    }

    fn close_locked(&self, state: &mut State) {
        if let Some(mut tls) = state.tls.take().filter(|tls| tls.is_ready() && !state.closed) {
            // A last word, if there is room for it.
            tls.say_end();
            tls.take(&mut state.unsent);
            let _ = self.try_send(&state.unsent);
        }
        state.closed = true;
        (state.unsent, state.plain) = (Vec::new(), Vec::new());
        // Its reader finds the end; one whose peer is gone already has nothing to shut down.
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }
}
