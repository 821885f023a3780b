//! The embedded SIP server: a registrar with digest authentication and a proxy in front of it
//! (RFC 3261), over UDP and TCP on one port.
//!
//! One thread per worker, each with its own sockets (SO_REUSEPORT) and epoll. The kernel spreads
//! peers over the workers, so what a call's two sides share is shared: bindings and transactions
//! lie in shards, each behind a lock that is held for microseconds. Everything a peer can make
//! the server hold is bounded: bindings per subscriber, transactions, their bytes, connections,
//! and what waits to be sent.
//!
//! What it is not: it resolves no names (contacts are addresses), forks to no second contact, and
//! relays to foreign domains only within dialogs it recorded a route for.

mod guard;
mod output;
mod proxy;
mod registrar;
mod response;
mod rewrite;
mod routing;
mod shared;
mod stream;
mod transactions;
mod wheel;
mod worker;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use rustix::io::Errno;
use vtax_plan::model::{Subscribers, SubscribersError};
use vtax_units::Nanos;

use super::http::{ServeError, WORKERS_MAX};
use shared::Shared;
use worker::{Sockets, Worker};

/// What the server is to be.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens, UDP and TCP. The address also stands in Via and Record-Route, so it must
    /// be one that peers reach.
    pub listen: SocketAddr,
    /// Worker threads.
    pub workers: u32,
    /// Whom it knows.
    pub subscribers: Subscribers,
    /// Requests that begin something (INVITE, MESSAGE, ...) need credentials too.
    pub authenticate_calls: bool,
    /// How long a nonce is accepted; counted in whole seconds, at least one.
    pub nonce_life: Nanos,
}

/// How long a nonce is accepted where nothing is said: as the Kamailio of this crate has it. A client that
/// registers again within it answers its last challenge once more, and isn't asked again.
pub const NONCE_LIFE: Nanos = Nanos::from_secs(86_400);

/// Why the server could not serve.
#[derive(Debug, thiserror::Error)]
pub enum SipServeError {
    /// The subscribers make no sense.
    #[error("the subscribers can't be served")]
    Subscribers(#[source] SubscribersError),
    /// The address would be in messages, and no peer could answer to it.
    #[error("listening on {address}: give the one address that peers reach it at, not all addresses")]
    Unspecified {
        /// The address given.
        address: SocketAddr,
    },
    /// It could not listen, or the kernel refused something else.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Serves with `workers` threads until `stop` is set.
///
/// Calls `ready` with the address once both transports are open; port 0 is then the real one.
/// Returns within about 0.1 s of `stop`; what was in progress is forgotten.
///
/// # Errors
/// Nothing was served, as it can't listen there or the options make no sense, or a worker failed.
pub fn serve(
    options: &Options,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), SipServeError> {
    let workers = options.workers;
    if !(1..=WORKERS_MAX).contains(&workers) {
        return Err(ServeError::Workers { workers }.into());
    }
    if options.listen.ip().is_unspecified() {
        return Err(SipServeError::Unspecified { address: options.listen });
    }
    let sockets = Sockets::open(options.listen, workers)
        .map_err(|source| ServeError::Listen { address: options.listen, source: source.into() })?;
    let address = sockets.address;
    let shared = Shared::new(options, address).map_err(SipServeError::Subscribers)?;
    let mut others: Vec<Worker<'_>> = sockets
        .pairs
        .into_iter()
        .enumerate()
        .map(|(index, pair)| Worker::new(&shared, index, pair))
        .collect::<Result<_, _>>()
        .map_err(system("create an epoll"))?;
    let count = others.len();
    // One works on this thread, whose memory the allocator grows in larger steps than that of another.
    let own = others.pop();
    ready(address);
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(others.len());
        for worker in others {
            let work = move || work(worker, count, stop);
            match thread::Builder::new().name("sip".to_owned()).spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    stop.store(true, Relaxed);
                    return Err(ServeError::System { operation: "start a thread", source }.into());
                }
            }
        }
        let own = own.map_or(Ok(()), |worker| work(worker, count, stop));
        let others = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Errno::FAULT)));
        std::iter::once(own).chain(others).collect::<Result<(), _>>().map_err(system("wait for events"))?;
        Ok(())
    })
}

/// One that fails takes all with it: half a server would measure half a server.
fn work(worker: Worker<'_>, count: usize, stop: &AtomicBool) -> Result<(), Errno> {
    let result = worker.run(count, stop);
    if result.is_err() {
        stop.store(true, Relaxed);
    }
    result
}

fn system(operation: &'static str) -> impl Fn(Errno) -> ServeError {
    move |source| ServeError::System { operation, source: source.into() }
}
