//! TLS of one connection of an embedded server.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::SendFlags;
use rustls::{ServerConfig, ServerConnection};

/// TLS of one connection. What it holds is bounded by what a worker reads and writes at once.
pub(super) struct Tls {
    connection: ServerConnection,
    /// What the socket has not taken yet.
    sealed: Vec<u8>,
    said_end: bool,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Of a connection on which nothing came yet; `None` where the configuration can't be used.
    pub(super) fn new(config: &Arc<ServerConfig>) -> Option<Box<Self>> {
        let mut connection = ServerConnection::new(Arc::clone(config)).ok()?;
        // How much is written at once is bounded where it is made.
        connection.set_buffer_limit(None);
        Some(Box::new(Self { connection, sealed: Vec::new(), said_end: false }))
    }

    /// Appends what `cipher` deciphers to. False where it isn't TLS; what is to be said of that is in what is to be sent.
    pub(super) fn open(&mut self, cipher: &[u8], plain: &mut Vec<u8>) -> bool {
        let mut rest = cipher;
        let mut good = true;
        while good && !rest.is_empty() {
            let (before, start) = (rest.len(), plain.len());
            good = self.connection.read_tls(&mut rest).is_ok();
            let came = match self.connection.process_new_packets() {
                Ok(state) => state.plaintext_bytes_to_read(),
                Err(_) => {
                    good = false;
                    0
                }
            };
            plain.resize(start + came, 0);
            good &= self.connection.reader().read_exact(&mut plain[start..]).is_ok() || came == 0;
            good &= rest.len() < before || came > 0;
        }
        self.gather();
        good
    }

    /// Enciphers what is to be sent.
    pub(super) fn seal(&mut self, plain: &[u8]) {
        // To memory, which takes all.
        let _ = self.connection.writer().write_all(plain);
        self.gather();
    }

    /// Whether what is sealed can be sent: the handshake is done.
    pub(super) fn is_ready(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// Moves what is to be sent to `out`.
    pub(super) fn take(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.sealed);
    }

    /// Sends as much as the socket takes; true once nothing is left.
    pub(super) fn flush(&mut self, fd: &OwnedFd) -> Result<bool, Errno> {
        while !self.sealed.is_empty() {
            match rustix::net::send(fd, &self.sealed, SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.sealed.drain(..sent)),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Says that nothing more comes (close_notify), once; true where that is to be sent now.
    pub(super) fn say_end(&mut self) -> bool {
        if self.said_end {
            return false;
        }
        self.said_end = true;
        self.connection.send_close_notify();
        self.gather();
        true
    }

    fn gather(&mut self) {
        while self.connection.wants_write() {
            if self.connection.write_tls(&mut self.sealed).is_err() {
                return;
            }
        }
    }
}
