//! TLS of one connection, without buffers of its own but for what is torn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls12Resumption, Tls13ClientSessionValue,
    UnbufferedClientConnection,
};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, HandshakeKind, NamedGroup, RootCertStore, SupportedProtocolVersion};
use vtax_plan::model::{FtpTls, TlsVersion};

use super::spec::FtpVerify;
use crate::LoadError;
use crate::any_certificate::AnyCertificate;

/// Tickets that are kept of a session: servers send two at its beginning, and one with each data connection.
const TICKETS: usize = 8;
/// Bytes that a record of TLS is longer than what it carries, at most.
const RECORD_OVERHEAD: usize = 300;
/// Plain bytes of a record.
const RECORD: usize = 16 << 10;

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
        let mut provider = ring::default_provider();
        if let Some(cipher) = &tls.cipher {
            let named = |suite: &rustls::SupportedCipherSuite| {
                let name = format!("{:?}", suite.suite());
                // rustls calls suites of TLS 1.3 TLS13_…, IANA TLS_….
                name.replace("TLS13_", "TLS_") == *cipher
            };
            provider.cipher_suites.retain(named);
        }
        let versions: &[&SupportedProtocolVersion] = match tls.version {
            None => rustls::ALL_VERSIONS,
            Some(TlsVersion::V12) => &[&rustls::version::TLS12],
            Some(TlsVersion::V13) => &[&rustls::version::TLS13],
        };
        let algorithms = provider.signature_verification_algorithms;
        let provider = Arc::new(provider);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| refused("cipher", error.to_string()))?;
        let (builder, name) = match verify {
            FtpVerify::Nothing => {
                let any = Arc::new(AnyCertificate { algorithms });
                (builder.dangerous().with_custom_certificate_verifier(any), ServerName::from(target))
            }
            FtpVerify::Authorities { name, roots } => {
                let mut store = RootCertStore::empty();
                for root in roots {
                    let root = CertificateDer::from(root.clone());
                    store.add(root).map_err(|error| refused("verify", error.to_string()))?;
                }
                let name = ServerName::try_from(name.clone());
                let name = name.map_err(|_| refused("verify", "that is no name of a server".to_owned()))?;
                (builder.with_root_certificates(store), name)
            }
        };
        Ok(Self { config: builder.with_no_client_auth(), name, resume: tls.resume })
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

fn refused(field: &'static str, reason: String) -> LoadError {
    LoadError::Spec { field, reason }
}

impl TlsOfSession {
    /// A connection of the session. The first is that of control: it resumes nothing.
    pub(super) fn connect(&self, settings: &TlsSettings, first: bool) -> Result<Tls, rustls::Error> {
        if first {
            self.tickets.clear();
        }
        let connection = UnbufferedClientConnection::new(Arc::clone(&self.config), settings.name.clone())?;
        Ok(Tls { connection, torn: Vec::new(), ready: false, peer_closed: false })
    }

    /// Whether a data connection is to resume the session and no ticket is left for it: ProFTPD gives none with an upload.
    pub(super) fn is_spent(&self, settings: &TlsSettings) -> bool {
        let held = self.tickets.held();
        settings.resume && held.tls13.is_empty() && held.tls12.is_none()
    }
}

/// TLS of one connection.
pub(super) struct Tls {
    connection: UnbufferedClientConnection,
    /// Bytes that came and aren't a whole record yet.
    pub(super) torn: Vec<u8>,
    /// The handshake is done.
    pub(super) ready: bool,
    /// The peer has said that nothing more comes (close_notify).
    pub(super) peer_closed: bool,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("ready", &self.ready).finish_non_exhaustive()
    }
}

impl Tls {
    /// Takes what came. What is to be sent is appended to `out`, what was decrypted goes to `sink`. Returns how many bytes were used;
    /// the rest is to come again, with more behind it.
    pub(super) fn take(
        &mut self,
        bytes: &mut [u8],
        out: &mut Vec<u8>,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<usize, rustls::Error> {
        let mut at = 0;
        loop {
            let UnbufferedStatus { mut discard, state, .. } =
                self.connection.process_tls_records(&mut bytes[at..]);
            let mut more = true;
            match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        sink(record.payload);
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => encode(out, |room| match data.encode(room) {
                    Ok(written) => Ok(written),
                    Err(EncodeError::InsufficientSize(needed)) => Err(needed.required_size),
                    Err(EncodeError::AlreadyEncoded) => Ok(0),
                }),
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed | ConnectionState::Closed => {
                    // It is told twice where nothing else is left to do.
                    more = !self.peer_closed;
                    self.peer_closed = true;
                }
                ConnectionState::WriteTraffic(_) => {
                    self.ready = true;
                    more = false;
                }
                _ => more = false,
            }
            at += discard;
            if !more {
                return Ok(at);
            }
        }
    }

    /// Appends `plain` to `out` as records; false where the connection can't carry it.
    pub(super) fn encrypt(&mut self, plain: &[u8], out: &mut Vec<u8>) -> bool {
        self.write(out, plain.len(), |traffic, room| traffic.encrypt(plain, room))
    }

    /// Appends the word that nothing more comes.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) -> bool {
        self.write(out, 0, |traffic, room| traffic.queue_close_notify(room))
    }

    fn write(
        &mut self,
        out: &mut Vec<u8>,
        plain: usize,
        put: impl Fn(
            &mut rustls::unbuffered::WriteTraffic<'_, rustls::client::ClientConnectionData>,
            &mut [u8],
        ) -> Result<usize, EncryptError>,
    ) -> bool {
        let status = self.connection.process_tls_records(&mut []);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state else { return false };
        let start = out.len();
        out.resize(start + plain + (plain / RECORD + 1) * RECORD_OVERHEAD, 0);
        let written = put(&mut traffic, &mut out[start..]);
        out.truncate(start + written.as_ref().copied().unwrap_or(0));
        written.is_ok()
    }

    /// Whether the handshake resumed another; `None` before its end.
    pub(super) fn resumed(&self) -> Option<bool> {
        self.connection.handshake_kind().map(|kind| kind == HandshakeKind::Resumed)
    }

    /// Version and cipher suite, once they are agreed on.
    pub(super) fn agreed(&self) -> Option<String> {
        let version = self.connection.protocol_version()?;
        let suite = self.connection.negotiated_cipher_suite()?;
        let (version, suite) = (format!("{version:?}"), format!("{:?}", suite.suite()));
        Some(format!("{} {}", version.replace("TLSv1_", "TLS 1."), suite.replace("TLS13_", "TLS_")))
    }
}

/// Appends what `put` writes; it says how much room it needs where there isn't enough.
fn encode(out: &mut Vec<u8>, mut put: impl FnMut(&mut [u8]) -> Result<usize, usize>) {
    let start = out.len();
    let mut room = 1024;
    // The second time the room is what was asked for.
    for _ in 0..2 {
        out.resize(start + room, 0);
        match put(&mut out[start..]) {
            Ok(written) => return out.truncate(start + written),
            Err(needed) => room = needed,
        }
    }
    out.truncate(start);
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
