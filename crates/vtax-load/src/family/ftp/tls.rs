//! TLS of a session's connections, of which those of data resume that of control.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls12Resumption, Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, NamedGroup};
use vtax_plan::model::FtpTls;

use super::spec::FtpVerify;
use crate::LoadError;
use crate::tls::Offer;
pub(super) use crate::tls::Tls;

/// Tickets that are kept of a session: servers send two at its beginning, and one with each data connection.
const TICKETS: usize = 8;

/// What all connections of a load have in common.
#[derive(Debug)]
pub(super) struct TlsSettings {
    config: ClientConfig,
    name: ServerName<'static>,
    resume: bool,
}

/// TLS of one session: its control connection, and the data connections that may resume it.
#[derive(Debug)]
pub(super) struct TlsOfSession {
    config: Arc<ClientConfig>,
    tickets: Arc<Tickets>,
}

impl TlsSettings {
    /// From what a plan or a command line says. `target` is the name of a server whose certificate isn't checked.
    pub(super) fn new(tls: &FtpTls, verify: &FtpVerify, target: std::net::IpAddr) -> Result<Self, LoadError> {
        let offer = Offer { version: tls.version, cipher: tls.cipher.as_deref(), group: None };
        let (config, name) = offer.client(verify, target)?;
        Ok(Self { config, name, resume: tls.resume })
    }

    /// For one session after the other, of which none resumes another's.
    pub(super) fn of_session(&self) -> TlsOfSession {
        let tickets = Arc::new(Tickets::default());
        let mut config = self.config.clone();
        config.resumption = if self.resume {
            let store: Arc<dyn ClientSessionStore> = Arc::clone(&tickets) as _;
            Resumption::store(store).tls12_resumption(Tls12Resumption::SessionIdOrTickets)
        } else {
            Resumption::disabled()
        };
        TlsOfSession { config: Arc::new(config), tickets }
    }
}

impl TlsOfSession {
    /// A connection of the session. The first is that of control: it resumes nothing.
    pub(super) fn connect(&self, settings: &TlsSettings, first: bool) -> Result<Tls, rustls::Error> {
        if first {
            self.tickets.clear();
        }
        Tls::new(Arc::clone(&self.config), settings.name.clone())
    }

    /// Whether a data connection is to resume the session and no ticket is left for it: ProFTPD gives none with an upload.
    pub(super) fn is_spent(&self, settings: &TlsSettings) -> bool {
        let held = self.tickets.held();
        settings.resume && held.tls13.is_empty() && held.tls12.is_none()
    }
}

/// The tickets of a control connection, with which data connections resume its session. Servers want that session and no other.
#[derive(Debug, Default)]
struct Tickets(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    /// Of TLS 1.3, each good for one connection, in the order in which they came.
    tls13: VecDeque<Tls13ClientSessionValue>,
    tls12: Option<Tls12ClientSessionValue>,
    group: Option<NamedGroup>,
}

impl Tickets {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clear(&self) {
        *self.held() = Held::default();
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.held().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.held().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        // That of the control connection stays: a server may want no other.
        self.held().tls12.get_or_insert(value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.held().tls12.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.held().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut held = self.held();
        if held.tls13.len() == TICKETS {
            held.tls13.pop_back();
        }
        held.tls13.push_back(value);
    }

    /// The oldest first: those of the control connection itself. A session has more data connections than its server sends tickets at
    /// its beginning; each that is resumed brings a new one.
    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.held().tls13.pop_front()
    }
}
