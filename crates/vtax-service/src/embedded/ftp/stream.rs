//! A connection, in the clear or with TLS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A connection that waits.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
    /// It is being changed to the other.
    Gone,
}

impl Stream {
    /// With TLS from now on; the handshake is done with the first byte.
    pub(super) fn protect(stream: TcpStream, config: &Arc<ServerConfig>) -> io::Result<Self> {
        let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(StreamOwned::new(connection, stream))))
    }

    /// The plain connection, where it is one.
    pub(super) fn take_plain(&mut self) -> Option<TcpStream> {
        match std::mem::replace(self, Self::Gone) {
            Self::Plain(stream) => Some(stream),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Tells the peer that nothing more comes.
    pub(super) fn close(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.shutdown(Shutdown::Write),
            Self::Tls(tls) => {
                // A file without a byte: the handshake is yet to be done.
                while tls.conn.is_handshaking() {
                    tls.conn.complete_io(&mut tls.sock)?;
                }
                tls.conn.send_close_notify();
                while tls.conn.wants_write() {
                    tls.conn.write_tls(&mut tls.sock)?;
                }
                tls.sock.shutdown(Shutdown::Write)
            }
            Self::Gone => Ok(()),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
            Self::Gone => Ok(0),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
            Self::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(tls) => tls.flush(),
            Self::Gone => Ok(()),
        }
    }
}
