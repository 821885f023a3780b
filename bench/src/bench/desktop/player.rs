//! A server that plays a recording to whoever connects: all clients are sent the same bytes.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, bail};

use super::recording::Recording;

/// Tries to find ports one after the other that are free.
const TRIES: u32 = 50;

/// What happens after the last update that is to be played.
#[derive(Clone, Copy)]
pub(super) enum Then {
    /// With the next request the connection ends: what was sent has been read.
    Close,
    /// Nothing, as on a desktop on which nobody works.
    Hold,
}

/// Servers at ports one after the other, each for one connection.
pub(super) struct Player {
    pub(super) first: SocketAddr,
    played: Arc<AtomicUsize>,
}

impl Player {
    /// Each plays the first so many updates, one for each request.
    ///
    /// # Errors
    /// There are no such ports.
    pub(super) fn start(
        recording: &Arc<Recording>,
        servers: u16,
        updates: usize,
        then: Then,
    ) -> Result<Self> {
        let listeners = consecutive(servers)?;
        let first = listeners[0].local_addr()?;
        let played = Arc::new(AtomicUsize::new(0));
        for listener in listeners {
            let (recording, played) = (Arc::clone(recording), Arc::clone(&played));
            // They end with the client's connection, or with this program.
            thread::spawn(move || {
                let accepted = listener.accept();
                // Who comes again is refused.
                drop(listener);
                let Ok((stream, _)) = accepted else { return };
                // An error is the client's end of the connection.
                let _ = serve(stream, &recording, updates, then, &played);
            });
        }
        Ok(Self { first, played })
    }

    /// Updates that were asked for and sent, by all of them.
    pub(super) fn played(&self) -> usize {
        self.played.load(Ordering::Relaxed)
    }
}

fn consecutive(count: u16) -> Result<Vec<TcpListener>> {
    for _ in 0..TRIES {
        let first = vtax_sys::free_port();
        let bind = |number| TcpListener::bind((Ipv4Addr::LOCALHOST, first.saturating_add(number)));
        if let Ok(all) = (0..count).map(bind).collect::<io::Result<Vec<_>>>() {
            return Ok(all);
        }
    }
    bail!("no {count} free ports one after the other")
}

fn serve(
    mut stream: TcpStream,
    recording: &Recording,
    updates: usize,
    then: Then,
    played: &AtomicUsize,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    open(&mut stream, recording.size)?;
    let mut left = recording.updates.iter().take(updates);
    loop {
        let [kind] = exactly(&mut stream)?;
        match kind {
            0 => pass(&mut stream, 19)?,
            2 => {
                let [_, high, low] = exactly(&mut stream)?;
                pass(&mut stream, u64::from(u16::from_be_bytes([high, low])) * 4)?;
            }
            3 => {
                pass(&mut stream, 9)?;
                match (left.next(), then) {
                    (Some(update), _) => {
                        played.fetch_add(1, Ordering::Relaxed);
                        stream.write_all(update)?;
                    }
                    (None, Then::Close) => return Ok(()),
                    (None, Then::Hold) => {}
                }
            }
            4 => pass(&mut stream, 7)?,
            5 => pass(&mut stream, 5)?,
            6 => {
                let [_, _, _, a, b, c, d] = exactly(&mut stream)?;
                pass(&mut stream, u32::from_be_bytes([a, b, c, d]).into())?;
            }
            other => return Err(io::Error::other(format!("a message of type {other}"))),
        }
    }
}

/// RFB 3.8 without security, and pixels as the recording has them.
fn open(stream: &mut TcpStream, (width, height): (u16, u16)) -> io::Result<()> {
    stream.write_all(b"RFB 003.008\n")?;
    pass(stream, 12)?;
    stream.write_all(&[1, 1])?;
    pass(stream, 1)?;
    stream.write_all(&[0; 4])?;
    pass(stream, 1)?;
    let mut init = Vec::new();
    init.extend_from_slice(&width.to_be_bytes());
    init.extend_from_slice(&height.to_be_bytes());
    init.extend_from_slice(&[32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0]);
    init.extend_from_slice(b"\0\0\0\x05bench");
    stream.write_all(&init)
}

fn exactly<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).map(|()| bytes)
}

fn pass(stream: &mut TcpStream, count: u64) -> io::Result<()> {
    io::copy(&mut stream.take(count), &mut io::sink()).map(drop)
}
