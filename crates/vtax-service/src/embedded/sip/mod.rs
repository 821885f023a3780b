//! The embedded SIP server: a registrar with digest authentication and a proxy in front of it
//! (RFC 3261), over UDP and TCP, or TLS in place of that, on one port.
//!
//! One thread per worker, each with its own sockets (SO_REUSEPORT) and epoll. The kernel spreads
//! peers over the workers, so what a call's two sides share is shared: bindings and transactions
//! lie in shards, each behind a lock that is held for microseconds. Everything a peer can make
//! the server hold is bounded: bindings per subscriber, transactions, their bytes, connections,
//! and what waits to be sent.
//!
//! What it is not: it resolves no names (contacts are addresses), forks to no second contact, connects to nobody over TLS (who speaks it
//! is reached over the connection that it made, RFC 5923), and relays to foreign domains only within dialogs it recorded a route for.

mod guard;
mod options;
mod output;
mod proxy;
mod registrar;
mod response;
mod rewrite;
mod routing;
mod shared;
mod stream;
mod transactions;
mod users;
mod wheel;
mod worker;

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use vtax_plan::model::SubscribersError;

use super::server::{ServeError, run_all};
pub use options::{NONCE_LIFE, Options};
use shared::Shared;
use worker::{SipWorker, Sockets};

/// Why the server could not serve.
#[derive(Debug, thiserror::Error)]
pub enum SipServeError {
    /// The subscribers make no sense.
    #[error("the subscribers can't be served")]
    Subscribers(#[source] SubscribersError),
    /// The address would stand in messages, where no peer could answer to it.
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
///
/// Nothing was served, as it can't listen there or the options make no sense, or a worker failed.
pub fn serve(
    options: &Options,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), SipServeError> {
    let workers = options.workers;
    ServeError::unless_sensible(workers)?;
    if options.listen.ip().is_unspecified() {
        return Err(SipServeError::Unspecified { address: options.listen });
    }
    let tls = options.certificate.as_ref().map(|certificate| certificate.configure(&[])).transpose()?;
    let sockets = Sockets::open(options.listen, workers)
        .map_err(|source| ServeError::Listen { address: options.listen, source: source.into() })?;
    let address = sockets.address;
    let shared = Shared::new(options, address, tls).map_err(SipServeError::Subscribers)?;
    let count = sockets.pairs.len();
    let workers: Vec<SipWorker<'_>> = sockets
        .pairs
        .into_iter()
        .enumerate()
        .map(|(index, pair)| SipWorker::new(&shared, index, count, pair))
        .collect::<Result<_, _>>()
        .map_err(ServeError::system("create an epoll"))?;
    ready(address);
    Ok(run_all("sip", workers, stop)?)
}
