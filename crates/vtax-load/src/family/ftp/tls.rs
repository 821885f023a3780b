//! TLS of a session's connections, of which those of data resume that of control.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use vtax_plan::model::FtpTls;

use super::spec::FtpVerify;
use crate::LoadError;
use crate::tickets::{Kept, Tickets};
use crate::tls::Offer;
pub(super) use crate::tls::Tls;

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
        // Data connections resume the session of the control connection, and use its tickets up: each that is resumed brings one.
        let tickets = Arc::new(Tickets::new(Kept::Oldest));
        let mut config = self.config.clone();
        config.resumption =
            if self.resume { Arc::clone(&tickets).resumption() } else { Resumption::disabled() };
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
        settings.resume && self.tickets.is_empty()
    }
}
