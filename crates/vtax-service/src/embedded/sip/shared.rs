//! What all workers share.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Instant;

use rustls::ServerConfig;
use vtax_plan::model::SubscribersError;
use vtax_sys::sync::lock;
use vtax_wire::sip::{Scheme, Uri};

use super::guard::Guard;
use super::options::Options;
use super::registrar::Registrar;
use super::stream::Stream;
use super::transactions::Table;
use super::users::Users;

/// Shards of transactions for each worker, where there are several: enough that two rarely meet
/// in one.
const TABLES_PER_WORKER: usize = 8;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) address: SocketAddr,
    /// The address as it stands in Via and Record-Route.
    pub(super) sent_by: Vec<u8>,
    /// Its host alone.
    host: Vec<u8>,
    pub(super) users: Users,
    pub(super) registrar: Registrar,
    pub(super) guard: Guard,
    pub(super) authenticate_calls: bool,
    /// TLS of connections that come in, where they speak it.
    pub(super) tls: Option<Arc<ServerConfig>>,
    tables: Box<[Mutex<Table>]>,
    /// Open connections by their peer.
    streams: Mutex<HashMap<SocketAddr, Weak<Stream>>>,
    /// Its keys are this process's secret: no peer can make a valid hash or cause collisions.
    hasher: RandomState,
    started: Instant,
}

impl Shared {
    pub(super) fn new(
        options: &Options,
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
    ) -> Result<Self, SubscribersError> {
        let subscribers = &options.subscribers;
        let formats = subscribers.formats()?;
        let tables = if options.workers == 1 { 1 } else { options.workers as usize * TABLES_PER_WORKER };
        Ok(Self {
            address,
            sent_by: address.to_string().into_bytes(),
            host: match address.ip() {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            }
            .into_bytes(),
            users: Users {
                formats,
                count: subscribers.count,
                realm: subscribers.realm.clone().into_bytes(),
                domain: subscribers.domain.clone().into_bytes(),
            },
            registrar: Registrar::new(subscribers.count),
            guard: Guard::new(options.nonce_life),
            authenticate_calls: options.authenticate_calls,
            tls,
            tables: (0..tables).map(|_| Mutex::new(Table::new(tables))).collect(),
            streams: Mutex::default(),
            hasher: RandomState::new(),
            started: Instant::now(),
        })
    }

    /// Milliseconds since the start.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// How many shards of transactions there are.
    pub(super) fn tables(&self) -> usize {
        self.tables.len()
    }

    /// The transactions of that shard.
    pub(super) fn table(&self, index: usize) -> MutexGuard<'_, Table> {
        // A worker that panicked takes the server with it anyway.
        lock(&self.tables[index % self.tables.len()])
    }

    /// A keyed hash of parts that are kept apart.
    pub(super) fn hash(&self, parts: &[&[u8]]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        for part in parts {
            hasher.write(part);
            hasher.write_usize(part.len());
        }
        hasher.finish()
    }

    /// Whether a request to this URI is this server's to route: its domain or its address.
    pub(super) fn is_own(&self, uri: &Uri<'_>) -> bool {
        uri.scheme == Scheme::Sip && (self.is_own_address(uri) || self.is_own_domain(uri))
    }

    fn is_own_domain(&self, uri: &Uri<'_>) -> bool {
        uri.host.eq_ignore_ascii_case(&self.users.domain)
            && uri.port.is_none_or(|port| port == self.address.port())
    }

    /// Whether a message to this URI comes back here.
    pub(super) fn is_own_address(&self, uri: &Uri<'_>) -> bool {
        uri.port.unwrap_or(5060) == self.address.port()
            && (uri.host == self.host || uri.address() == Some(self.address.ip()))
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<SocketAddr, Weak<Stream>>> {
        lock(&self.streams)
    }

    pub(super) fn add_stream(&self, stream: &Arc<Stream>) {
        self.streams().insert(stream.peer, Arc::downgrade(stream));
    }

    pub(super) fn remove_stream(&self, stream: &Arc<Stream>) {
        let mut streams = self.streams();
        if streams.get(&stream.peer).is_some_and(|known| known.as_ptr() == Arc::as_ptr(stream)) {
            streams.remove(&stream.peer);
        }
    }

    /// The open connection with that peer, with TLS or without.
    pub(super) fn stream(&self, peer: SocketAddr, is_secure: bool) -> Option<Arc<Stream>> {
        let stream = self.streams().get(&peer)?.upgrade()?;
        (stream.is_secure == is_secure && !stream.is_closed()).then_some(stream)
    }
}
