//! A connection to the service, over TCP or TLS: everything of one local address, or of one call, goes over it, and requests for the
//! address come in over it (RFC 3261 section 18, RFC 5923).

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, sockopt};
use vtax_wire::sip::{Framed, Framer, Transport};

use super::connections::{Secured, Settings};
use super::unmatched::{Kind, Unmatched};
use crate::LoadError;

/// A connection that failed is tried again after this time, in nanoseconds.
const PAUSE: u64 = 200_000_000;
/// What may wait to be sent; a peer that takes nothing loses what is beyond it.
const PENDING_MAX: usize = 16 << 20;
/// One read's most.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// A connection, or the want of one.
#[derive(Debug)]
pub(crate) struct Stream {
    target: SocketAddr,
    local: SocketAddr,
    socket: OwnedFd,
    state: State,
    settings: Settings,
    /// TLS of the present connection, from when it is there.
    secured: Option<Secured>,
    /// When connecting began.
    began: u64,
    pending: Vec<u8>,
    /// Bytes of `pending` that are sent.
    written: usize,
    received: Vec<u8>,
    messages: Vec<(usize, usize)>,
    /// Bytes of `received` up to the end of the last whole message.
    done: usize,
    framer: Framer,
    /// Number of the connection.
    connection: u32,
    /// Whoever polls must look anew at what is waited for.
    pub(crate) changed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not connected before this time.
    Idle(u64),
    Connecting,
    Connected,
}

impl Stream {
    /// A socket at `local` that will be connected to `target` when there is something to send.
    pub(crate) fn open(local: IpAddr, target: SocketAddr, settings: &Settings) -> Result<Self, LoadError> {
        let refused = |e: Errno| LoadError::System { operation: "open a TCP socket", source: e.into() };
        let (socket, local) = socket((local, 0).into()).map_err(refused)?;
        Ok(Self {
            target,
            local,
            socket,
            state: State::Idle(0),
            settings: settings.clone(),
            secured: None,
            began: 0,
            pending: Vec::new(),
            written: 0,
            received: Vec::new(),
            messages: Vec::new(),
            done: 0,
            framer: Framer::new(),
            connection: 0,
            changed: true,
        })
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// As Via names it.
    pub(crate) fn transport(&self) -> Transport {
        if self.settings.is_secure() { Transport::Tls } else { Transport::Tcp }
    }

    /// Whether polling should tell when the connection can be written to.
    pub(crate) fn wants_to_write(&self) -> bool {
        match self.state {
            State::Idle(_) => false,
            State::Connecting => true,
            State::Connected => self.written < self.pending.len(),
        }
    }

    /// Whether there is a connection to poll.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Idle(_))
    }

    /// Sends whole messages, as far as the connection takes them now.
    pub(crate) fn send(&mut self, messages: &[u8], now: u64, unmatched: &mut Unmatched) {
        if let State::Idle(until) = self.state {
            if now < until {
                return unmatched.count(Kind::Refused);
            }
            self.connect(now, unmatched);
        }
        let waiting = self.pending.len() - self.written + self.secured.as_ref().map_or(0, Secured::waiting);
        if waiting + messages.len() > PENDING_MAX {
            return unmatched.count(Kind::SendBufferOverflow);
        }
        match &mut self.secured {
            Some(secured) => secured.seal(messages, &mut self.pending),
            None => self.pending.extend_from_slice(messages),
        }
        if self.state == State::Connected {
            self.write(now, unmatched);
        }
    }

    fn connect(&mut self, now: u64, unmatched: &mut Unmatched) {
        self.began = now;
        match rustix::net::connect(&self.socket, &self.target) {
            Ok(()) => self.connected(now, unmatched),
            Err(Errno::INPROGRESS) => self.state = State::Connecting,
            Err(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE) => self.fail(now, Kind::NoPort, unmatched),
            Err(_) => self.fail(now, Kind::Refused, unmatched),
        }
        self.changed = true;
    }

    /// The connection is there: what waited for it goes out, over TLS after the handshake.
    fn connected(&mut self, now: u64, unmatched: &mut Unmatched) {
        self.state = State::Connected;
        self.settings.connected(now.saturating_sub(self.began));
        if self.settings.is_secure() {
            let plain = std::mem::take(&mut self.pending);
            self.secured = Secured::begin(&self.settings, now, &mut self.pending);
            match &mut self.secured {
                Some(secured) => secured.seal(&plain, &mut self.pending),
                None => self.fail(now, Kind::HandshakeFailed, unmatched),
            }
        }
    }

    fn write(&mut self, now: u64, unmatched: &mut Unmatched) {
        while self.written < self.pending.len() {
            match rustix::net::send(&self.socket, &self.pending[self.written..], SendFlags::NOSIGNAL) {
                Ok(sent) => self.written += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.changed = true;
                    return;
                }
                Err(_) => return self.fail(now, Kind::Disconnected, unmatched),
            }
        }
        self.pending.clear();
        self.written = 0;
    }

    /// The connection can be written to: it is made, or has failed, or has room again.
    pub(crate) fn writable(&mut self, now: u64, unmatched: &mut Unmatched) {
        if self.state == State::Connecting {
            match sockopt::socket_error(&self.socket) {
                Ok(Ok(())) => self.connected(now, unmatched),
                _ => return self.fail(now, Kind::Refused, unmatched),
            }
        }
        self.write(now, unmatched);
        self.changed = true;
    }

    /// Ends the connection, and with it what waited; the next message makes a new one.
    fn fail(&mut self, now: u64, kind: Kind, unmatched: &mut Unmatched) {
        unmatched.count(kind);
        self.secured = None;
        self.pending.clear();
        self.received.clear();
        self.messages.clear();
        (self.written, self.done) = (0, 0);
        self.connection = self.connection.wrapping_add(1);
        self.framer = Framer::new();
        self.state = State::Idle(now + PAUSE);
        self.changed = true;
        // The contacts that were registered name the local port: the same again if it can be had.
        let again = socket(self.local).or_else(|_| socket((self.local.ip(), 0).into()));
        if let Ok((socket, local)) = again {
            (self.socket, self.local) = (socket, local);
        }
    }

    /// Reads once what has come, by way of `room`; [`take`](Self::take) then gives the messages. False where there is no
    /// more for now.
    pub(crate) fn read(&mut self, now: u64, room: &mut [u8], unmatched: &mut Unmatched) -> bool {
        if self.state != State::Connected {
            return false;
        }
        let got = match rustix::net::recv(&self.socket, &mut *room, RecvFlags::empty()) {
            Ok((_, got)) => got,
            Err(Errno::AGAIN | Errno::INTR) => return false,
            Err(_) => 0,
        };
        if got == 0 {
            if let Some(secured) = &self.secured {
                secured.ended(&self.settings);
            }
            self.fail(now, Kind::Disconnected, unmatched);
            return false;
        }
        match &mut self.secured {
            None => self.received.extend_from_slice(&room[..got]),
            Some(secured) => {
                let (plain, out) = (&mut self.received, &mut self.pending);
                if !secured.open(&self.settings, now, &mut room[..got], plain, out) {
                    let kind = if secured.is_ready() { Kind::Disconnected } else { Kind::HandshakeFailed };
                    self.fail(now, kind, unmatched);
                    return false;
                }
                if self.written < self.pending.len() {
                    self.write(now, unmatched);
                }
            }
        }
        self.find_messages(now, unmatched) && got == room.len()
    }

    /// Finds the whole messages in what was received; false where it is none.
    fn find_messages(&mut self, now: u64, unmatched: &mut Unmatched) -> bool {
        let mut done = 0;
        while done < self.received.len() {
            match self.framer.scan(&self.received[done..]) {
                Ok(Framed::Empty(length)) => done += length,
                Ok(Framed::Message(length)) => {
                    self.messages.push((done, done + length));
                    done += length;
                }
                Ok(Framed::Incomplete) => break,
                Err(_) => {
                    unmatched.count(Kind::Malformed);
                    self.fail(now, Kind::Disconnected, unmatched);
                    return false;
                }
            }
        }
        self.done = done;
        true
    }

    /// Ends the connection for good, with a word to the peer.
    pub(crate) fn close(mut self) {
        if let (State::Connected, Some(secured)) = (self.state, &mut self.secured) {
            secured.close(&mut self.pending);
            // Whether it takes that or not, nothing more will be said.
            let _ = rustix::net::send(&self.socket, &self.pending[self.written..], SendFlags::NOSIGNAL);
        }
    }

    /// What was read and where the messages in it are; to be given back.
    pub(crate) fn take(&mut self) -> Taken {
        Taken {
            bytes: std::mem::take(&mut self.received),
            messages: std::mem::take(&mut self.messages),
            connection: self.connection,
        }
    }

    /// Takes the memory back; the messages are done with.
    pub(crate) fn give_back(&mut self, mut taken: Taken) {
        taken.messages.clear();
        if taken.connection == self.connection {
            taken.bytes.drain(..self.done);
        } else {
            // The connection ended meanwhile, and the rest of its last message with it.
            taken.bytes.clear();
        }
        self.done = 0;
        (self.received, self.messages) = (taken.bytes, taken.messages);
    }
}

/// Bytes of a connection and the messages in them.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) bytes: Vec<u8>,
    /// Where each begins and ends.
    pub(crate) messages: Vec<(usize, usize)>,
    connection: u32,
}

fn socket(local: SocketAddr) -> Result<(OwnedFd, SocketAddr), Errno> {
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &local)?;
    let bound = rustix::net::getsockname(&socket)?;
    let bound = SocketAddr::try_from(bound).map_err(|_| Errno::AFNOSUPPORT)?;
    Ok((socket, bound))
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
