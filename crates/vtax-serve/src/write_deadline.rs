//! Connections on which a client has to read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A connection that fails where nothing can be written to it for so long: a client that doesn't read would keep its place for ever.
#[derive(Debug)]
pub(crate) struct WriteDeadline<S> {
    stream: S,
    patience: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteDeadline<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waiting: None }
    }

    /// What became of a write, unless it has waited for too long.
    fn bounded<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        waiting.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.bounded(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.bounded(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Writes to a client that reads so many bytes and stays connected; how the writer ended.
    fn written(bytes: usize, read: usize, patience: Duration) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut client = TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        server.set_nonblocking(true)?;
        let reader = std::thread::spawn(move || {
            let read = io::copy(&mut client.by_ref().take(read as u64), &mut io::sink());
            (client, read)
        });
        let done = runtime.block_on(async {
            let stream = tokio::net::TcpStream::from_std(server)?;
            let mut bounded = WriteDeadline::new(stream, patience);
            let piece = vec![0; 64 << 10];
            let mut left = bytes;
            while left > 0 {
                let now = &piece[..left.min(piece.len())];
                left -= poll_fn(|cx| Pin::new(&mut bounded).poll_write(cx, now)).await?;
            }
            Ok::<(), io::Error>(())
        });
        let (client, read) = reader.join().expect("it reads");
        drop(client);
        read.and(done)
    }

    #[test]
    fn a_client_that_does_not_read_is_given_up() {
        // More than the buffers of a connection take.
        let refused = written(256 << 20, 0, Duration::from_millis(300)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        written(32 << 20, 32 << 20, Duration::from_secs(60)).unwrap();
    }
}
