//! What the embedded servers have in common: listening sockets, workers on threads, one event loop per worker.
//!
//! Each worker has its own sockets (SO_REUSEPORT) and its own epoll. The loop is compiled for each kind of worker.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use super::slots::Token;

/// Most workers.
pub const WORKERS_MAX: u32 = 1024;
/// Most connections of one worker; one more is closed at once.
pub const CONNECTIONS_MAX: usize = 65_536;
/// How often a worker with nothing to do looks at the stop flag.
pub(super) const IDLE_TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Connections accepted in a row before others are served.
pub(super) const ACCEPTS_MAX: usize = 64;
const EVENTS: usize = 256;
const BACKLOG: i32 = 4096;

/// Why the server could not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The number of workers makes no sense.
    #[error("{workers} workers: give between 1 and {WORKERS_MAX}")]
    Workers {
        /// The number given.
        workers: u32,
    },
    /// It can't listen there.
    #[error("listening on {address}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The kernel refused something else.
    #[error("{operation}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl ServeError {
    pub(super) fn system(operation: &'static str) -> impl Fn(Errno) -> Self {
        move |source| Self::System { operation, source: source.into() }
    }

    /// Refuses a number of workers that makes no sense.
    pub(super) fn unless_sensible(workers: u32) -> Result<(), Self> {
        if (1..=WORKERS_MAX).contains(&workers) { Ok(()) } else { Err(Self::Workers { workers }) }
    }
}

/// A socket that isn't bound yet.
pub(super) fn socket(address: SocketAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let protocol = if kind == SocketType::STREAM { ipproto::TCP } else { ipproto::UDP };
    rustix::net::socket_with(family, kind, flags, Some(protocol))
}

/// A TCP socket bound to `address`; `shared`: with other sockets of this user.
///
/// A server asks once without sharing, so that a second server of the same user doesn't share its port unnoticed.
pub(super) fn bound_stream(address: SocketAddr, shared: bool) -> Result<OwnedFd, Errno> {
    let fd = socket(address, SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    sockopt::set_socket_reuseport(&fd, shared)?;
    // Accepted sockets inherit it.
    sockopt::set_tcp_nodelay(&fd, true)?;
    rustix::net::bind(&fd, &address)?;
    Ok(fd)
}

/// A socket that accepts connections, one of several on the same port.
pub(super) fn listener(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let fd = bound_stream(address, true)?;
    rustix::net::listen(&fd, BACKLOG)?;
    Ok(fd)
}

/// What a listening socket had.
pub(super) enum Accepted {
    Connection(OwnedFd, SocketAddr),
    /// A connection that was gone before it was accepted: look again.
    Gone,
    /// Nothing more for now.
    Empty,
}

/// Accepts one connection.
pub(super) fn accept(listener: &OwnedFd) -> Accepted {
    match rustix::net::acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok((fd, peer)) => match peer.map(SocketAddr::try_from) {
            Some(Ok(peer)) => Accepted::Connection(fd, peer),
            _ => Accepted::Gone,
        },
        Err(Errno::INTR | Errno::CONNABORTED) => Accepted::Gone,
        Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
            // The listener stays readable; without a pause this would spin.
            thread::sleep(Duration::from_millis(5));
            Accepted::Empty
        }
        // EAGAIN, or a network error of that one connection (accept(2), "Error handling").
        Err(_) => Accepted::Empty,
    }
}

/// A thread's share of a server.
pub(super) trait Worker: Send {
    /// Where its events come from.
    fn epoll(&self) -> &OwnedFd;

    /// How long to wait for events.
    fn patience(&self) -> &Timespec;

    /// Called after each wait, before its events.
    fn begin(&mut self);

    /// One event of the descriptor that was added with this token.
    fn event(&mut self, token: Token, flags: epoll::EventFlags);

    /// Called after the events of each wait.
    fn end(&mut self);
}

fn run(mut worker: impl Worker, stop: &AtomicBool) -> Result<(), Errno> {
    let mut events = [MaybeUninit::uninit(); EVENTS];
    while !stop.load(Relaxed) {
        let ready = match epoll::wait(worker.epoll(), &mut events[..], Some(worker.patience())) {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        worker.begin();
        for event in ready {
            worker.event(Token::of(event.data), event.flags);
        }
        worker.end();
    }
    Ok(())
}

/// Runs the workers, each on a thread called `name`, until `stop` is set. The last one runs on the calling thread,
/// whose memory the allocator grows in larger steps than that of another.
pub(super) fn run_all<W: Worker>(
    name: &str,
    mut workers: Vec<W>,
    stop: &AtomicBool,
) -> Result<(), ServeError> {
    // One that fails takes all with it: half a server would measure half a server.
    let work = |worker: W| {
        let result = run(worker, stop);
        if result.is_err() {
            stop.store(true, Relaxed);
        }
        result
    };
    let own = workers.pop();
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(workers.len());
        for worker in workers {
            match thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, move || work(worker)) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    stop.store(true, Relaxed);
                    return Err(ServeError::System { operation: "start a thread", source });
                }
            }
        }
        let own = own.map_or(Ok(()), work);
        let others = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Errno::FAULT)));
        let ended: Result<(), Errno> = std::iter::once(own).chain(others).collect();
        ended.map_err(ServeError::system("wait for events"))
    })
}
