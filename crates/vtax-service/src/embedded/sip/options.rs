//! What the server is to be.

use std::net::SocketAddr;

use vtax_plan::model::Subscribers;
use vtax_units::Nanos;

use crate::embedded::ServerCertificate;

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
    /// Connections speak TLS, and nothing else, with this certificate; datagrams don't.
    pub certificate: Option<ServerCertificate>,
}

/// How long a nonce is accepted where nothing is said: as the Kamailio of this crate has it. A client that
/// registers again within it answers its last challenge once more, and isn't asked again.
pub const NONCE_LIFE: Nanos = Nanos::from_secs(86_400);
