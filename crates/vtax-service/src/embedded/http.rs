//! The embedded HTTP/1.1 server: `/bytes/N` (N bytes, the same each time) and `/page/ROWS` (an
//! HTML table rendered at each request).
//!
//! One thread per worker, each with its own listening socket (SO_REUSEPORT) and epoll; nothing is
//! shared. Everything a peer can make it hold is bounded: heads by the scanner, input and output
//! per connection, connections per worker, and the time a silent peer may stay.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use vtax_sys::clock::unix_ms;

use super::connection::{Connection, Fate, Workspace};
use super::date::imf_fixdate;

pub use super::document::{BYTES_MAX, ROWS_MAX};

/// Most connections of one worker; one more is closed at once.
pub const CONNECTIONS_MAX: usize = 65_536;
/// Most workers.
pub const WORKERS_MAX: u32 = 1024;
/// A connection on which nothing happens for this long is closed, in seconds.
const IDLE_SECONDS: u64 = 75;
/// How long a peer may take to close after the last answer, in seconds.
const LINGER_SECONDS: u64 = 2;
/// The listening socket among the event tokens, which are slot numbers otherwise.
const LISTENER: u32 = u32::MAX;
const EVENTS: usize = 256;
/// Connections accepted in a row before others are served.
const ACCEPTS_MAX: usize = 64;
const BACKLOG: i32 = 4096;
/// How often a worker looks at the clock and at the stop flag.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

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

/// Serves on `address`, and nowhere else, with `workers` threads until `stop` is set.
///
/// Calls `ready` with the address once connections are accepted; port 0 is then the real one.
/// Returns within about 0.1 s of `stop`; open connections are closed.
///
/// # Errors
/// Nothing was served, as it can't listen there, or a worker failed.
pub fn serve(
    address: SocketAddr,
    workers: u32,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    if !(1..=WORKERS_MAX).contains(&workers) {
        return Err(ServeError::Workers { workers });
    }
    let refused = |source: Errno| ServeError::Listen { address, source: source.into() };
    // SO_REUSEPORT would let a second server of the same user share the port unnoticed, so it is
    // first asked for without.
    drop(bound(address, false).map_err(refused)?);
    let first = listener(address).map_err(refused)?;
    let local = rustix::net::getsockname(&first).map_err(refused)?;
    let address = SocketAddr::try_from(local).map_err(refused)?;
    let mut listeners = vec![first];
    for _ in 1..workers {
        listeners.push(listener(address).map_err(refused)?);
    }
    let workers: Vec<Worker> = listeners
        .into_iter()
        .map(Worker::new)
        .collect::<Result<_, _>>()
        .map_err(system("create an epoll"))?;
    ready(address);
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(workers.len());
        for worker in workers {
            let work = move || {
                let result = worker.run(stop);
                // One that fails takes all with it: half a server would measure half a server.
                if result.is_err() {
                    stop.store(true, Relaxed);
                }
                result
            };
            match thread::Builder::new().name("http".to_owned()).spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    stop.store(true, Relaxed);
                    return Err(ServeError::System { operation: "start a thread", source });
                }
            }
        }
        for thread in threads {
            let ended = thread.join().unwrap_or(Err(Errno::FAULT));
            ended.map_err(system("wait for events"))?;
        }
        Ok(())
    })
}

fn system(operation: &'static str) -> impl Fn(Errno) -> ServeError {
    move |source| ServeError::System { operation, source: source.into() }
}

fn bound(address: SocketAddr, shared: bool) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    sockopt::set_socket_reuseport(&fd, shared)?;
    // Accepted sockets inherit it.
    sockopt::set_tcp_nodelay(&fd, true)?;
    rustix::net::bind(&fd, &address)?;
    Ok(fd)
}

fn listener(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let fd = bound(address, true)?;
    rustix::net::listen(&fd, BACKLOG)?;
    Ok(fd)
}

/// A thread's share of the server.
#[derive(Debug)]
struct Worker {
    epoll: OwnedFd,
    listener: OwnedFd,
    slots: Vec<Slot>,
    free: Vec<u32>,
    space: Workspace,
    started: Instant,
    /// Whole seconds since the start.
    now: u64,
}

/// Room for a connection.
#[derive(Debug, Default)]
struct Slot {
    connection: Option<Connection>,
    /// Tells events of this connection from those of the one before in the same slot.
    generation: u32,
}

impl Worker {
    fn new(listener: OwnedFd) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let token = epoll::EventData::new_u64(u64::from(LISTENER));
        epoll::add(&epoll, &listener, token, epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            listener,
            slots: Vec::new(),
            free: Vec::new(),
            space: Workspace::new(),
            started: Instant::now(),
            now: u64::MAX,
        })
    }

    fn run(mut self, stop: &AtomicBool) -> Result<(), Errno> {
        let mut events = [MaybeUninit::uninit(); EVENTS];
        self.tick();
        while !stop.load(Relaxed) {
            let ready = match epoll::wait(&self.epoll, &mut events[..], Some(&TICK)) {
                Ok((ready, _)) => ready,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            self.tick();
            for event in ready {
                let token = event.data.u64();
                match token as u32 {
                    LISTENER => self.accept(),
                    id => self.serve(id, (token >> 32) as u32, event.flags),
                }
            }
        }
        Ok(())
    }

    /// Once a second: the date, and an end to the silent.
    fn tick(&mut self) {
        let now = self.started.elapsed().as_secs();
        if now == self.now {
            return;
        }
        self.now = now;
        self.space.date = imf_fixdate(unix_ms() / 1000);
        for id in 0..self.slots.len() {
            let silent = self.slots[id].connection.as_ref().is_some_and(|connection| {
                let limit = if connection.is_lingering() { LINGER_SECONDS } else { IDLE_SECONDS };
                now.saturating_sub(connection.active) > limit
            });
            if silent {
                self.close(id as u32);
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            match rustix::net::accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(fd) if self.slots.len() - self.free.len() < CONNECTIONS_MAX => self.open(fd),
                // Refused by being dropped.
                Ok(_) | Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    // The listener stays readable; without a pause this would spin.
                    thread::sleep(std::time::Duration::from_millis(5));
                    return;
                }
                // EAGAIN, or a network error of that one connection (accept(2), "Error handling").
                Err(_) => return,
            }
        }
    }

    fn open(&mut self, fd: OwnedFd) {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[id as usize];
        let token = u64::from(slot.generation) << 32 | u64::from(id);
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        match epoll::add(&self.epoll, &fd, epoll::EventData::new_u64(token), flags) {
            Ok(()) => slot.connection = Some(Connection::new(fd, self.now)),
            Err(_) => self.free.push(id),
        }
    }

    fn serve(&mut self, id: u32, generation: u32, flags: epoll::EventFlags) {
        let ended = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        let Some(slot) = self.slots.get_mut(id as usize).filter(|s| s.generation == generation) else {
            return;
        };
        let Some(connection) = &mut slot.connection else { return };
        connection.active = self.now;
        if connection.serve(&mut self.space, flags.intersects(ended)) == Fate::Closes {
            self.close(id);
        }
    }

    fn close(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        slot.connection = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id);
    }
}
