//! The embedded HTTP/1.1 server: `/bytes/N` (N bytes, the same each time) and `/page/ROWS` (an
//! HTML table rendered at each request), in the clear or with TLS; a WebSocket at `/echo` sends back what
//! comes.
//!
//! One thread per worker, each with its own listening socket (SO_REUSEPORT) and epoll; nothing is
//! shared. Everything a peer can make it hold is bounded: heads by the scanner, input and output
//! per connection, connections per worker, and the time a silent peer may stay.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustls::ServerConfig;
use vtax_sys::clock::unix_ms;

use super::certificate::ServerCertificate;
use super::connection::{Connection, Fate, Workspace};
use super::date::imf_fixdate;
use super::server::{ACCEPTS_MAX, Accepted, IDLE_TICK, Worker, accept, bound_stream, listener, run_all};
use super::slots::{Slots, Token};
use super::tls::Tls;

pub use super::document::{BYTES_MAX, ROWS_MAX};
pub use super::server::{CONNECTIONS_MAX, ServeError, WORKERS_MAX};

/// A connection on which nothing happens for this long is closed, in seconds.
const IDLE_SECONDS: u64 = 75;
/// How long a peer may take to close after the last answer, in seconds.
const LINGER_SECONDS: u64 = 2;
/// The listening socket among the event tokens.
const LISTENER: Token = Token::own(0);

/// Serves on `address`, and nowhere else, with `workers` threads until `stop` is set.
///
/// Calls `ready` with the address once connections are accepted; port 0 is then the real one.
/// Returns within about 0.1 s of `stop`; open connections are closed.
///
/// # Errors
///
/// Nothing was served, as it can't listen there, or a worker failed.
pub fn serve(
    address: SocketAddr,
    workers: u32,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    serve_with(address, workers, None, stop, ready)
}

/// Serves as [`serve`] does; where there is a certificate, over TLS and nothing else.
///
/// # Errors
///
/// As [`serve`], or the certificate isn't one.
pub fn serve_with(
    address: SocketAddr,
    workers: u32,
    certificate: Option<&ServerCertificate>,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    ServeError::unless_sensible(workers)?;
    let tls = certificate.map(|certificate| certificate.configure(&["http/1.1"])).transpose()?;
    let refused = |source: Errno| ServeError::Listen { address, source: source.into() };
    drop(bound_stream(address, false).map_err(refused)?);
    let first = listener(address).map_err(refused)?;
    let local = rustix::net::getsockname(&first).map_err(refused)?;
    let address = SocketAddr::try_from(local).map_err(refused)?;
    let mut listeners = vec![first];
    for _ in 1..workers {
        listeners.push(listener(address).map_err(refused)?);
    }
    let workers: Vec<HttpWorker> = listeners
        .into_iter()
        .map(|listener| HttpWorker::new(listener, tls.clone()))
        .collect::<Result<_, _>>()
        .map_err(ServeError::system("create an epoll"))?;
    ready(address);
    run_all("http", workers, stop)
}

/// A thread's share of the server.
#[derive(Debug)]
struct HttpWorker {
    epoll: OwnedFd,
    listener: OwnedFd,
    tls: Option<Arc<ServerConfig>>,
    connections: Slots<Connection>,
    space: Workspace,
    started: Instant,
    /// Whole seconds since the start.
    now: u64,
}

impl Worker for HttpWorker {
    fn epoll(&self) -> &OwnedFd {
        &self.epoll
    }

    fn patience(&self) -> &Timespec {
        &IDLE_TICK
    }

    fn begin(&mut self) {
        self.tick();
    }

    fn event(&mut self, token: Token, flags: epoll::EventFlags) {
        if token == LISTENER {
            self.accept();
        } else {
            self.serve(token, flags);
        }
    }

    fn end(&mut self) {}
}

impl HttpWorker {
    fn new(listener: OwnedFd, tls: Option<Arc<ServerConfig>>) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        LISTENER.watch(&epoll, &listener)?;
        let mut worker = Self {
            epoll,
            listener,
            tls,
            connections: Slots::new(),
            space: Workspace::new(),
            started: Instant::now(),
            now: u64::MAX,
        };
        worker.tick();
        Ok(worker)
    }

    /// Once a second: the date, and an end to silent connections.
    fn tick(&mut self) {
        let now = self.started.elapsed().as_secs();
        if now == self.now {
            return;
        }
        self.now = now;
        self.space.date = imf_fixdate(unix_ms() / 1000);
        let silent = self.connections.find(|connection| {
            let limit = if connection.is_lingering() { LINGER_SECONDS } else { IDLE_SECONDS };
            now.saturating_sub(connection.active) > limit
        });
        for id in silent {
            self.connections.close(id);
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            match accept(&self.listener) {
                Accepted::Connection(fd, _) if self.connections.count() < CONNECTIONS_MAX => {
                    let tls = match &self.tls {
                        None => None,
                        Some(config) => match Tls::new(config) {
                            Some(tls) => Some(tls),
                            None => continue,
                        },
                    };
                    let connection = Connection::new(fd, tls, self.now);
                    // One that can't be watched is closed by being dropped.
                    let _ = self.connections.open(&self.epoll, connection, Connection::socket);
                }
                // Refused by being dropped.
                Accepted::Connection(..) | Accepted::Gone => {}
                Accepted::Empty => return,
            }
        }
    }

    fn serve(&mut self, token: Token, flags: epoll::EventFlags) {
        let ended = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.active = self.now;
        if connection.serve(&mut self.space, flags.intersects(ended)) == Fate::Closes {
            self.connections.close(token.id);
        }
    }
}
