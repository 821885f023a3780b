//! A connection to an X server on this machine.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use vtax_wire::x11::{self, MOST_REPLY, MOST_SETUP, Packet, Setup};

use super::DesktopError;

/// What is read at once.
const BUFFER_BYTES: usize = 64 * 1024;
/// How long the X server may take to answer a question.
const ANSWER: Duration = Duration::from_secs(20);

/// A connection to an X server.
#[derive(Debug)]
pub struct XServer {
    display: u32,
    stream: UnixStream,
    /// What it said of itself.
    pub setup: Setup,
    out: Vec<u8>,
    unread: Vec<u8>,
    /// How many bytes of `unread` were given out as packets.
    given: usize,
}

fn io_error(display: u32) -> impl Fn(io::Error) -> DesktopError {
    move |source| DesktopError::Server { display, source }
}

impl XServer {
    /// Connects to a display, for which it waits for so long.
    ///
    /// # Errors
    /// The server isn't there, or declines.
    pub fn connect(display: u32, patience: Duration) -> Result<Self, DesktopError> {
        let failed = io_error(display);
        let path = format!("/tmp/.X11-unix/X{display}");
        let until = Instant::now() + patience;
        let mut stream = loop {
            match UnixStream::connect(&path) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() > until => return Err(failed(error)),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        stream.set_read_timeout(Some(ANSWER)).map_err(&failed)?;
        stream.write_all(&x11::hello()).map_err(&failed)?;
        let mut answer = Vec::new();
        let setup = loop {
            match x11::parse(&answer).map_err(|source| DesktopError::Setup { display, source })? {
                Some((used, setup)) => {
                    answer.drain(..used);
                    break setup;
                }
                None => more(&mut stream, &mut answer, MOST_SETUP).map_err(&failed)?,
            };
        };
        Ok(Self { display, stream, setup, out: Vec::with_capacity(BUFFER_BYTES), unread: answer, given: 0 })
    }

    /// Where requests are appended.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Sends what was appended.
    ///
    /// # Errors
    /// The server has gone.
    pub fn flush(&mut self) -> Result<(), DesktopError> {
        self.stream.write_all(&self.out).map_err(io_error(self.display))?;
        self.out.clear();
        Ok(())
    }

    /// Waits for something to come, however long; how many bytes came, 0 where the server has ended.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn receive(&mut self) -> Result<usize, DesktopError> {
        self.unread.drain(..self.given);
        self.given = 0;
        loop {
            match more(&mut self.stream, &mut self.unread, MOST_REPLY) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(0),
                other => return other.map_err(io_error(self.display)),
            }
        }
    }

    /// The next packet of what has come.
    pub fn packet(&mut self) -> Option<Packet<'_>> {
        let (used, _) = x11::scan(&self.unread[self.given..])?;
        let from = self.given;
        self.given += used;
        x11::scan(&self.unread[from..]).map(|(_, packet)| packet)
    }

    /// Sends what was appended and waits for the next reply. Events that come before it are dropped.
    ///
    /// # Errors
    /// The server refuses a request, is silent for 20 s, or has gone.
    pub fn reply(&mut self) -> Result<Vec<u8>, DesktopError> {
        self.flush()?;
        let display = self.display;
        loop {
            while let Some(packet) = self.packet() {
                match packet {
                    Packet::Event(_) => {}
                    Packet::Reply(reply) => return Ok(reply.to_vec()),
                    Packet::Error { code, request } => return Err(self.refused(request, code)),
                }
            }
            self.unread.drain(..self.given);
            self.given = 0;
            more(&mut self.stream, &mut self.unread, MOST_REPLY).map_err(io_error(display))?;
        }
    }

    /// That a request was refused.
    pub(super) const fn refused(&self, request: u8, code: u8) -> DesktopError {
        DesktopError::Refused { display: self.display, request, code }
    }
}

/// Reads what there is, at least a byte of it.
fn more(stream: &mut UnixStream, into: &mut Vec<u8>, most: usize) -> io::Result<usize> {
    if into.len() >= most {
        return Err(io::Error::other("it says more than was asked for"));
    }
    let length = into.len();
    into.resize(length + BUFFER_BYTES, 0);
    let got = stream.read(&mut into[length..]);
    into.truncate(length + got.as_ref().copied().unwrap_or(0));
    match got {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        got => got,
    }
}
