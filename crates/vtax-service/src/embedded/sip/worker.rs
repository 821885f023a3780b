//! A worker: its sockets, its connections, its clock.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketType, sockopt};
use vtax_sys::datagrams::{Inbox, coalesce};
use vtax_sys::gathering::Gathering;
use vtax_wire::sip::{Framed, Framer};

use super::output::{Output, Peer};
use super::proxy::Proxy;
use super::shared::Shared;
use super::stream::Stream;
use crate::embedded::server::{
    ACCEPTS_MAX, Accepted, CONNECTIONS_MAX, IDLE_TICK, Worker, accept, bound_stream, listener, socket,
};
use crate::embedded::slots::{Slots, Token};

/// A connection over which nothing comes for this long is closed, in milliseconds.
const IDLE_MS: u64 = 3_600_000;
/// How long a peer may leave a message unfinished, in milliseconds.
const UNFINISHED_MS: u64 = 30_000;
/// Datagrams per system call, or runs of equally long ones that the kernel hands over as one.
const BATCH: usize = 32;
/// Room for one of them. The odd lines keep the beginnings of all of them out of the same few lines of the
/// cache.
const ROOM_BYTES: usize = 64 * 1024 + 11 * 64;
/// What the kernel is asked to hold for a worker that is busy, in bytes.
const BUFFER_BYTES: usize = 8 << 20;
/// Messages per second beyond which datagrams leave in bundles.
const MANY: u64 = 8_000;
const READ_BYTES: usize = 64 * 1024;
const DATAGRAMS: Token = Token::own(0);
const LISTENER: Token = Token::own(1);
/// How often a worker looks at its timers while there are any.
const TICK_MS: u64 = 20;
const BUSY_TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: TICK_MS as i64 * 1_000_000 };

/// One worker's sockets.
#[derive(Debug)]
pub(super) struct Pair {
    udp: OwnedFd,
    tcp: OwnedFd,
}

/// All workers' sockets.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) address: SocketAddr,
    pub(super) pairs: Vec<Pair>,
}

impl Sockets {
    /// Opens both transports on one port for each worker.
    pub(super) fn open(address: SocketAddr, workers: u32) -> Result<Self, Errno> {
        drop(bound_stream(address, false)?);
        drop(bound_datagram(address, false)?);
        let tcp = listener(address)?;
        let address = SocketAddr::try_from(rustix::net::getsockname(&tcp)?)?;
        let mut pairs = vec![Pair { udp: bound_datagram(address, true)?, tcp }];
        for _ in 1..workers {
            pairs.push(Pair { udp: bound_datagram(address, true)?, tcp: listener(address)? });
        }
        Ok(Self { address, pairs })
    }
}

fn bound_datagram(address: SocketAddr, shared: bool) -> Result<OwnedFd, Errno> {
    let fd = socket(address, SocketType::DGRAM)?;
    // The kernel grants what its limits allow; less is no error.
    sockopt::set_socket_recv_buffer_size(&fd, BUFFER_BYTES)?;
    sockopt::set_socket_send_buffer_size(&fd, BUFFER_BYTES)?;
    // Where the kernel can't, datagrams come one by one.
    let _ = coalesce(fd.as_fd());
    sockopt::set_socket_reuseport(&fd, shared)?;
    rustix::net::bind(&fd, &address)?;
    Ok(fd)
}

/// A connection that this worker reads.
#[derive(Debug)]
struct Connection {
    stream: Arc<Stream>,
    /// The beginning of a message that isn't complete.
    held: Vec<u8>,
    framer: Framer,
    active_ms: u64,
}

/// A thread's share of the server.
#[derive(Debug)]
pub(super) struct SipWorker<'s> {
    shared: &'s Shared,
    proxy: Proxy<'s>,
    epoll: OwnedFd,
    pair: Pair,
    inbox: Inbox,
    output: Output,
    connections: Slots<Connection>,
    input: Box<[u8]>,
    /// What it deciphers to.
    plain: Vec<u8>,
    /// When silent connections were last looked for.
    swept_ms: u64,
    /// Whether datagrams are many enough to leave in bundles. None is delayed for the sake of batching: a client
    /// that measures this server's delays would measure that.
    gathering: Gathering,
    /// How many workers the server has.
    workers: usize,
    /// Milliseconds since the server's start, at the last wait's end.
    now_ms: u64,
    ticked_ms: u64,
    /// Whether there are timers to look at.
    is_busy: bool,
}

impl Worker for SipWorker<'_> {
    fn epoll(&self) -> &OwnedFd {
        &self.epoll
    }

    fn patience(&self) -> &Timespec {
        if self.is_busy { &BUSY_TICK } else { &IDLE_TICK }
    }

    fn begin(&mut self) {
        self.now_ms = self.shared.now_ms();
        self.gathering.tell(self.now_ms * 1_000_000);
    }

    fn event(&mut self, token: Token, flags: epoll::EventFlags) {
        match token {
            DATAGRAMS => self.datagrams(self.now_ms),
            LISTENER => self.accept(self.now_ms),
            token => self.serve(token, flags, self.now_ms),
        }
    }

    fn end(&mut self) {
        let now_ms = self.now_ms;
        // A timer that was set meanwhile is far enough away to be found at the next tick.
        if now_ms - self.ticked_ms >= TICK_MS {
            self.ticked_ms = now_ms;
            self.is_busy = self.proxy.tick(now_ms, self.workers, &mut self.output);
            self.sweep(now_ms);
        }
        self.watch_dialled(now_ms);
        self.output.flush(self.pair.udp.as_fd(), self.gathering.gathers());
    }
}

impl<'s> SipWorker<'s> {
    /// The worker of this number, of so many.
    pub(super) fn new(shared: &'s Shared, index: usize, workers: usize, pair: Pair) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        DATAGRAMS.watch(&epoll, &pair.udp)?;
        LISTENER.watch(&epoll, &pair.tcp)?;
        Ok(Self {
            shared,
            proxy: Proxy::new(shared, index),
            epoll,
            inbox: Inbox::new(BATCH, ROOM_BYTES),
            output: Output::new(pair.udp.as_fd()),
            pair,
            connections: Slots::new(),
            input: vec![0; READ_BYTES].into_boxed_slice(),
            plain: Vec::new(),
            swept_ms: 0,
            gathering: Gathering::new(MANY, 0..=0),
            workers,
            now_ms: 0,
            ticked_ms: 0,
            is_busy: true,
        })
    }

    /// Handles one batch; where more wait, epoll says so again.
    fn datagrams(&mut self, now_ms: u64) {
        // Errors are of earlier datagrams: a peer that is gone.
        let Ok(count) = self.inbox.receive(self.pair.udp.as_fd()) else { return };
        for index in 0..count {
            let Some(datagram) = self.inbox.get(index) else { continue };
            let Some(sender) = self.inbox.sender(&datagram) else { continue };
            let peer = Peer::Udp(sender);
            let size = self.inbox.segment(&datagram).unwrap_or(datagram.bytes.len()).max(1);
            for bytes in datagram.bytes.chunks(size) {
                self.gathering.handled(1);
                // Longer than a datagram can be, or a jumbogram: no SIP message.
                if !datagram.truncated {
                    self.proxy.message(now_ms, bytes, &peer, &mut self.output);
                }
                if self.output.is_full() {
                    self.output.flush(self.pair.udp.as_fd(), self.gathering.gathers());
                }
            }
        }
    }

    fn accept(&mut self, now_ms: u64) {
        for _ in 0..ACCEPTS_MAX {
            match accept(&self.pair.tcp) {
                Accepted::Connection(fd, peer) if self.connections.count() < CONNECTIONS_MAX => {
                    let stream = match &self.shared.tls {
                        None => Some(Stream::new(fd, peer)),
                        Some(config) => Stream::secure(fd, peer, config),
                    };
                    let Some(stream) = stream.map(Arc::new) else { continue };
                    self.shared.add_stream(&stream);
                    self.open(stream, now_ms);
                }
                // Refused by being dropped.
                Accepted::Connection(..) | Accepted::Gone => {}
                Accepted::Empty => return,
            }
        }
    }

    fn watch_dialled(&mut self, now_ms: u64) {
        for stream in std::mem::take(&mut self.output.dialled) {
            if self.connections.count() < CONNECTIONS_MAX {
                self.open(stream, now_ms);
            } else {
                self.forget(&stream);
            }
        }
    }

    fn forget(&self, stream: &Arc<Stream>) {
        stream.close();
        self.shared.remove_stream(stream);
    }

    fn open(&mut self, stream: Arc<Stream>, now_ms: u64) {
        let connection = Connection { stream, held: Vec::new(), framer: Framer::new(), active_ms: now_ms };
        if let Err(unwatched) = self.connections.open(&self.epoll, connection, |c| &c.stream.fd) {
            self.forget(&unwatched.stream);
        }
    }

    fn serve(&mut self, token: Token, flags: epoll::EventFlags, now_ms: u64) {
        let Some(mut connection) = self.connections.take(token) else { return };
        if flags.contains(epoll::EventFlags::OUT) {
            connection.stream.flush();
        }
        let is_open = self.read(&mut connection, now_ms);
        self.connections.put_back(token, connection);
        if !is_open {
            self.close(token.id);
        }
    }

    /// Handles all that came; false where that was all.
    fn read(&mut self, connection: &mut Connection, now_ms: u64) -> bool {
        let peer = Peer::Tcp(Arc::clone(&connection.stream));
        loop {
            let got = match rustix::net::recv(&connection.stream.fd, &mut self.input[..], RecvFlags::empty())
            {
                Ok((_, 0)) => return false,
                Ok((_, got)) => got,
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => continue,
                Err(_) => return false,
            };
            let Connection { held, framer, active_ms, .. } = connection;
            let came = if connection.stream.is_secure {
                self.plain.clear();
                if !connection.stream.open(&self.input[..got], &mut self.plain) {
                    return false;
                }
                if self.plain.is_empty() {
                    continue;
                }
                &self.plain[..]
            } else {
                &self.input[..got]
            };
            let is_fresh = held.is_empty();
            let stream = if is_fresh {
                came
            } else {
                held.extend_from_slice(came);
                &held[..]
            };
            let mut done = 0;
            loop {
                let length = match framer.scan(&stream[done..]) {
                    Ok(Framed::Message(length)) => length,
                    Ok(Framed::Empty(length)) => {
                        done += length;
                        continue;
                    }
                    Ok(Framed::Incomplete) => break,
                    // Where the next message begins can't be known.
                    Err(_) => return false,
                };
                self.gathering.handled(1);
                self.proxy.message(now_ms, &stream[done..done + length], &peer, &mut self.output);
                done += length;
                if self.output.is_full() {
                    self.output.flush(self.pair.udp.as_fd(), self.gathering.gathers());
                }
            }
            if done > 0 || is_fresh {
                *active_ms = now_ms;
            }
            if is_fresh {
                held.extend_from_slice(&came[done..]);
            } else {
                held.drain(..done);
            }
            if held.is_empty() && held.capacity() > 0 {
                *held = Vec::new();
            }
        }
    }

    fn close(&mut self, id: u32) {
        if let Some(connection) = self.connections.close(id) {
            // Others may hold the stream a while, and with it the descriptor.
            let _ = epoll::delete(&self.epoll, &connection.stream.fd);
            self.forget(&connection.stream);
        }
    }

    /// Once a second, an end to silent connections and to those that don't finish a message.
    fn sweep(&mut self, now_ms: u64) {
        if now_ms - self.swept_ms < 1000 {
            return;
        }
        self.swept_ms = now_ms;
        let silent = self.connections.find(|connection| {
            let limit = if connection.held.is_empty() { IDLE_MS } else { UNFINISHED_MS };
            now_ms.saturating_sub(connection.active_ms) > limit || connection.stream.is_closed()
        });
        for id in silent {
            self.close(id);
        }
    }
}
