//! A worker: its sockets, its connections, its clock.

use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, ipproto, sockopt};
use vtax_sys::datagrams::{Inbox, coalesce};
use vtax_sys::gathering::Gathering;
use vtax_wire::sip::{Framed, Framer};

use super::output::{Output, Peer};
use super::proxy::Proxy;
use super::shared::Shared;
use super::stream::Stream;

/// Most connections of one worker; one more is closed at once.
const CONNECTIONS_MAX: usize = 65_536;
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
const EVENTS: usize = 256;
const ACCEPTS_MAX: usize = 64;
const BACKLOG: i32 = 4096;
const DATAGRAMS: u32 = u32::MAX;
const LISTENER: u32 = u32::MAX - 1;
/// How often a worker looks at its timers while there are any.
const TICK_MS: u64 = 20;
const BUSY_TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: TICK_MS as i64 * 1_000_000 };
/// How often it looks at the stop flag otherwise.
const IDLE_TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

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
        // SO_REUSEPORT would let a second server of the same user share the port unnoticed, so it
        // is first asked for without.
        drop(bound(address, SocketType::STREAM, false)?);
        drop(bound(address, SocketType::DGRAM, false)?);
        let tcp = listener(address)?;
        let address = SocketAddr::try_from(rustix::net::getsockname(&tcp)?)?;
        let mut pairs = vec![Pair { udp: bound(address, SocketType::DGRAM, true)?, tcp }];
        for _ in 1..workers {
            pairs.push(Pair { udp: bound(address, SocketType::DGRAM, true)?, tcp: listener(address)? });
        }
        Ok(Self { address, pairs })
    }
}

fn bound(address: SocketAddr, kind: SocketType, shared: bool) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let is_stream = kind == SocketType::STREAM;
    let protocol = if is_stream { ipproto::TCP } else { ipproto::UDP };
    let fd = rustix::net::socket_with(family, kind, flags, Some(protocol))?;
    if is_stream {
        sockopt::set_socket_reuseaddr(&fd, true)?;
        // Accepted sockets inherit it.
        sockopt::set_tcp_nodelay(&fd, true)?;
    } else {
        // The kernel grants what its limits allow; less is no error.
        sockopt::set_socket_recv_buffer_size(&fd, BUFFER_BYTES)?;
        sockopt::set_socket_send_buffer_size(&fd, BUFFER_BYTES)?;
        // Where the kernel can't, datagrams come one by one.
        let _ = coalesce(fd.as_fd());
    }
    sockopt::set_socket_reuseport(&fd, shared)?;
    rustix::net::bind(&fd, &address)?;
    Ok(fd)
}

fn listener(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let fd = bound(address, SocketType::STREAM, true)?;
    rustix::net::listen(&fd, BACKLOG)?;
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

/// Room for a connection.
#[derive(Debug, Default)]
struct Slot {
    connection: Option<Connection>,
    /// Tells events of this connection from those of the one before in the same slot.
    generation: u32,
}

/// A thread's share of the server.
#[derive(Debug)]
pub(super) struct Worker<'s> {
    shared: &'s Shared,
    proxy: Proxy<'s>,
    epoll: OwnedFd,
    pair: Pair,
    inbox: Inbox,
    output: Output,
    slots: Vec<Slot>,
    free: Vec<u32>,
    input: Box<[u8]>,
    /// When silent connections were last looked for.
    swept_ms: u64,
    /// Whether datagrams are many enough to leave in bundles. Nothing is kept waiting for company: who
    /// measures this server's delays would measure that.
    gathering: Gathering,
}

impl<'s> Worker<'s> {
    pub(super) fn new(shared: &'s Shared, index: usize, pair: Pair) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (fd, token) in [(&pair.udp, DATAGRAMS), (&pair.tcp, LISTENER)] {
            let data = epoll::EventData::new_u64(u64::from(token));
            epoll::add(&epoll, fd, data, epoll::EventFlags::IN)?;
        }
        Ok(Self {
            shared,
            proxy: Proxy::new(shared, index),
            epoll,
            inbox: Inbox::new(BATCH, ROOM_BYTES),
            output: Output::new(pair.udp.as_fd()),
            pair,
            slots: Vec::new(),
            free: Vec::new(),
            input: vec![0; READ_BYTES].into_boxed_slice(),
            swept_ms: 0,
            gathering: Gathering::new(MANY, 0..=0),
        })
    }

    pub(super) fn run(mut self, workers: usize, stop: &AtomicBool) -> Result<(), Errno> {
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let mut is_busy = true;
        let mut ticked_ms = 0;
        while !stop.load(Relaxed) {
            let wait = if is_busy { &BUSY_TICK } else { &IDLE_TICK };
            let ready = match epoll::wait(&self.epoll, &mut events[..], Some(wait)) {
                Ok((ready, _)) => ready,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            let now_ms = self.shared.now_ms();
            self.gathering.tell(now_ms * 1_000_000);
            for event in ready {
                let token = event.data.u64();
                match token as u32 {
                    DATAGRAMS => self.datagrams(now_ms),
                    LISTENER => self.accept(now_ms),
                    id => self.serve(id, (token >> 32) as u32, event.flags, now_ms),
                }
            }
            // A timer that was set meanwhile is far enough away to be found at the next tick.
            if now_ms - ticked_ms >= TICK_MS {
                ticked_ms = now_ms;
                is_busy = self.proxy.tick(now_ms, workers, &mut self.output);
                self.sweep(now_ms);
            }
            self.watch_dialled(now_ms);
            self.output.flush(self.pair.udp.as_fd(), self.gathering.gathers());
        }
        Ok(())
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
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::acceptfrom_with(&self.pair.tcp, flags) {
                Ok((fd, Some(peer))) if self.connections() < CONNECTIONS_MAX => {
                    let Ok(peer) = SocketAddr::try_from(peer) else { continue };
                    let stream = Arc::new(Stream::new(fd, peer));
                    self.shared.add_stream(&stream);
                    self.open(stream, now_ms);
                }
                // Refused by being dropped.
                Ok(_) | Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    // The listener stays readable; without a pause this would spin.
                    thread::sleep(Duration::from_millis(5));
                    return;
                }
                // EAGAIN, or a network error of that one connection (accept(2), "Error handling").
                Err(_) => return,
            }
        }
    }

    fn connections(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn watch_dialled(&mut self, now_ms: u64) {
        for stream in std::mem::take(&mut self.output.dialled) {
            if self.connections() < CONNECTIONS_MAX {
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
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[id as usize];
        let token = u64::from(slot.generation) << 32 | u64::from(id);
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        if epoll::add(&self.epoll, &stream.fd, epoll::EventData::new_u64(token), flags).is_err() {
            self.free.push(id);
            return self.forget(&stream);
        }
        let framer = Framer::new();
        slot.connection = Some(Connection { stream, held: Vec::new(), framer, active_ms: now_ms });
    }

    fn serve(&mut self, id: u32, generation: u32, flags: epoll::EventFlags, now_ms: u64) {
        let Some(slot) = self.slots.get_mut(id as usize).filter(|s| s.generation == generation) else {
            return;
        };
        let Some(mut connection) = slot.connection.take() else { return };
        if flags.contains(epoll::EventFlags::OUT) {
            connection.stream.flush();
        }
        let is_open = self.read(&mut connection, now_ms);
        self.slots[id as usize].connection = Some(connection);
        if !is_open {
            self.close(id);
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
            let is_fresh = held.is_empty();
            let stream = if is_fresh {
                &self.input[..got]
            } else {
                held.extend_from_slice(&self.input[..got]);
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
                held.extend_from_slice(&self.input[done..got]);
            } else {
                held.drain(..done);
            }
            if held.is_empty() && held.capacity() > 0 {
                *held = Vec::new();
            }
        }
    }

    fn close(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id);
        if let Some(connection) = slot.connection.take() {
            // Others may hold the stream a while, and with it the descriptor.
            let _ = epoll::delete(&self.epoll, &connection.stream.fd);
            self.forget(&connection.stream);
        }
    }

    /// Once a second, an end to the silent and to those who don't finish what they say.
    fn sweep(&mut self, now_ms: u64) {
        if now_ms - self.swept_ms < 1000 {
            return;
        }
        self.swept_ms = now_ms;
        for id in 0..self.slots.len() {
            let is_silent = self.slots[id].connection.as_ref().is_some_and(|connection| {
                let limit = if connection.held.is_empty() { IDLE_MS } else { UNFINISHED_MS };
                now_ms.saturating_sub(connection.active_ms) > limit || connection.stream.is_closed()
            });
            if is_silent {
                self.close(id as u32);
            }
        }
    }
}
