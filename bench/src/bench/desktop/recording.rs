//! What a server sent to somebody who works on its desktop, update by update.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use vtax_wire::desktop::{self, button};
use vtax_wire::rfb::{
    Decoder, Encoding, Event, Handshake, Limits, Login, Reached, Security, ServerInit, client,
};

/// How long a server may take to say something.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where the pointer is while the wheel is turned, in pixels.
const POINTER: (u16, u16) = (320, 240);

/// A desktop's size, and whole messages with updates: the first is of all of it.
pub(super) struct Recording {
    pub(super) size: (u16, u16),
    pub(super) updates: Vec<Vec<u8>>,
}

impl Recording {
    /// Works on a desktop with vtax's content until so many updates have come.
    ///
    /// # Errors
    /// The server isn't there, says something else, or has no such content.
    pub(super) fn of(server: SocketAddr, encoding: Encoding, count: usize) -> Result<Self> {
        let mut session = Session::open(server, encoding)?;
        let mut updates = vec![session.update(false)?];
        let mut number = desktop::read(session.decoder.screen()).context("there is no marker")?;
        while updates.len() < count {
            number = number.wrapping_add(1);
            session.act(number)?;
            // What an action draws may come in several updates; the marker is in the last.
            while desktop::read(session.decoder.screen()) != Some(number) && updates.len() < count {
                updates.push(session.update(true)?);
            }
        }
        let screen = session.decoder.screen();
        Ok(Self { size: (screen.width(), screen.height()), updates })
    }
}

/// A client that keeps what it is sent.
struct Session {
    stream: TcpStream,
    decoder: Decoder,
    unread: Vec<u8>,
}

impl Session {
    fn open(server: SocketAddr, encoding: Encoding) -> Result<Self> {
        let mut stream = TcpStream::connect(server).with_context(|| format!("connecting to {server}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let (init, unread) = opened(&mut stream)?;
        let mut out = Vec::new();
        client::set_pixel_format(&mut out);
        // Nothing else is asked for: every client must understand what is recorded.
        out.extend_from_slice(&[2, 0, 0, 2]);
        for number in [Encoding::CopyRect.number(), encoding.number()] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        stream.write_all(&out)?;
        Ok(Self { stream, decoder: Decoder::new(init.width, init.height, Limits::default())?, unread })
    }

    /// The next update as it came.
    fn update(&mut self, incremental: bool) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        client::request_update(&mut out, incremental, self.decoder.screen().area());
        self.stream.write_all(&out)?;
        let mut message = Vec::new();
        loop {
            let (used, event) = self.decoder.read(&self.unread)?;
            message.extend(self.unread.drain(..used));
            match event {
                Some(Event::Update(_)) => return Ok(message),
                Some(other) => bail!("{other:?} wasn't asked for"),
                None => more(&mut self.stream, &mut self.unread)?,
            }
        }
    }

    /// Of ten actions six characters, two clicks of the wheel, two pictures of the film.
    fn act(&mut self, number: u16) -> Result<()> {
        let (tag, mut out) = (desktop::tag(number), Vec::new());
        let pressed = match number % 10 {
            6 | 7 => button::ON,
            8 | 9 => button::FILM,
            _ => {
                for down in [true, false] {
                    client::key(&mut out, down, desktop::keysym(tag));
                }
                return Ok(self.stream.write_all(&out)?);
            }
        };
        let x = desktop::tagged(POINTER.0, tag);
        for buttons in [0, 1 << (pressed - 1), 0] {
            client::pointer(&mut out, buttons, x, POINTER.1);
        }
        Ok(self.stream.write_all(&out)?)
    }
}

/// The opening of a connection; what was said of the desktop, and the bytes after it.
fn opened(stream: &mut TcpStream) -> Result<(ServerInit, Vec<u8>)> {
    let login = Login { security: Security::None, password: None, shared: true };
    let (mut handshake, mut unread, mut out) = (Handshake::new(login), Vec::new(), Vec::new());
    loop {
        let (used, reached) = handshake.read(&unread, &mut out)?;
        unread.drain(..used);
        stream.write_all(&out)?;
        out.clear();
        match reached {
            Reached::Open(init) => return Ok((init, unread)),
            Reached::Tls => bail!("TLS wasn't asked for"),
            Reached::More => more(stream, &mut unread)?,
        }
    }
}

fn more(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Result<()> {
    let mut buffer = [0; 64 * 1024];
    let got = stream.read(&mut buffer).context("waiting for the server")?;
    if got == 0 {
        bail!("the server closed the connection");
    }
    unread.extend_from_slice(&buffer[..got]);
    Ok(())
}
