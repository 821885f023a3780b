//! Connections of a worker: TLS of them, where that is the transport, and what is known of them.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use vtax_plan::model::{SipTls, SipTransport};
use vtax_sys::sync::lock;
use vtax_units::Nanos;

use crate::tls::{Offer, Tls, TlsDetails, Verify, resumption};
use crate::{LatencyHistogram, LoadError};

/// Connections of a load over TCP or TLS.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SipConnections {
    /// From the beginning of connecting until a TCP connection is there, of each that was made.
    pub connect: LatencyHistogram,
    /// TLS; `None` in the clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsDetails>,
    /// Words for the first handshake that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<String>,
}

impl SipConnections {
    /// Adds what others found.
    pub fn add(&mut self, other: Self) {
        self.connect.add(&other.connect);
        if let Some(more) = other.tls {
            self.tls.get_or_insert_default().add(more);
        }
        self.first_failure = self.first_failure.take().or(other.first_failure);
    }
}

impl SipConnections {
    /// Empties the histograms, which a run keeps elsewhere.
    pub fn forget_histograms(&mut self) {
        self.connect = LatencyHistogram::new();
        if let Some(tls) = &mut self.tls {
            (tls.full, tls.resumed) = Default::default();
        }
    }
}

/// What all connections of a worker have in common.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    found: Arc<Mutex<SipConnections>>,
}

impl Settings {
    /// For one worker; `None` where there are no connections.
    ///
    /// # Errors
    /// There is no such cipher suite, or an authority's certificate isn't one.
    pub(crate) fn new(
        transport: SipTransport,
        tls: &SipTls,
        verify: &Verify,
        target: IpAddr,
    ) -> Result<Option<Self>, LoadError> {
        let secure = match transport {
            SipTransport::Udp => return Ok(None),
            SipTransport::Tcp => None,
            SipTransport::Tls => {
                let offer = Offer { version: tls.version, cipher: tls.cipher.as_deref(), group: None };
                let (mut config, name) = offer.client(verify, target)?;
                config.resumption = resumption(tls.resume);
                Some((Arc::new(config), name))
            }
        };
        let settings = Self { tls: secure, found: Arc::default() };
        settings.take();
        Ok(Some(settings))
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// What was found since this was last asked.
    pub(crate) fn take(&self) -> SipConnections {
        let tls = self.tls.as_ref().map(|_| TlsDetails::default());
        std::mem::replace(&mut *self.found(), SipConnections { tls, ..SipConnections::default() })
    }

    /// Nobody else has it but the worker itself, between two steps.
    fn found(&self) -> MutexGuard<'_, SipConnections> {
        lock(&self.found)
    }

    /// A connection is there.
    pub(crate) fn connected(&self, took: u64) {
        self.found().connect.record(Nanos(took));
    }
}

/// TLS of one connection.
#[derive(Debug)]
pub(crate) struct Secured {
    tls: Box<Tls>,
    /// What is to be enciphered once the handshake is done.
    waiting: Vec<u8>,
    greeted: bool,
    connected: u64,
}

impl Secured {
    /// Begins a handshake: what is to be sent for it is appended to `out`. `None` where the connections aren't secure.
    pub(crate) fn begin(settings: &Settings, now: u64, out: &mut Vec<u8>) -> Option<Self> {
        let (config, name) = settings.tls.as_ref()?;
        let begun = Tls::new(Arc::clone(config), name.clone()).and_then(|mut tls| {
            tls.take(&mut [], out, |_| {})?;
            Ok(tls)
        });
        match begun {
            Ok(tls) => {
                let tls = Box::new(tls);
                Some(Self { tls, waiting: Vec::new(), greeted: false, connected: now })
            }
            Err(error) => {
                failed(&mut settings.found(), &error);
                None
            }
        }
    }

    /// Bytes that wait for the handshake.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the handshake is done.
    pub(crate) fn is_ready(&self) -> bool {
        self.greeted
    }

    /// Appends `plain` enciphered to `out`, or keeps it until that can be done.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        if self.greeted {
            // A server that has ended its side is heard of next.
            self.tls.encrypt(plain, out);
        } else {
            self.waiting.extend_from_slice(plain);
        }
    }

    /// Appends what `cipher` deciphers to, and what is to be sent for it to `out`. False where it isn't what was to come.
    pub(crate) fn open(
        &mut self,
        settings: &Settings,
        now: u64,
        cipher: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> bool {
        if let Err(error) = self.tls.feed(cipher, out, |part| plain.extend_from_slice(part)) {
            if !self.greeted {
                failed(&mut settings.found(), &error);
            }
            return false;
        }
        if self.tls.ready && !self.greeted {
            self.greeted = true;
            let waiting = std::mem::take(&mut self.waiting);
            if !waiting.is_empty() {
                self.tls.encrypt(&waiting, out);
            }
            if let Some(found) = &mut settings.found().tls {
                found.greeted(&self.tls, Nanos(now.saturating_sub(self.connected)));
            }
        }
        true
    }

    /// The peer has ended the connection.
    pub(crate) fn ended(&self, settings: &Settings) {
        let mut found = settings.found();
        match &mut found.tls {
            Some(tls) if !self.greeted => {
                tls.failed += 1;
                let words = || "the connection ended within the handshake".to_owned();
                found.first_failure.get_or_insert_with(words);
            }
            Some(tls) => tls.without_close_notify += u64::from(!self.tls.peer_closed),
            None => {}
        }
    }

    /// Appends the word that nothing more comes.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        if self.greeted {
            self.tls.close(out);
        }
    }
}

fn failed(found: &mut SipConnections, error: &rustls::Error) {
    found.tls.get_or_insert_default().failed += 1;
    found.first_failure.get_or_insert_with(|| error.to_string());
}
