//! TLS of a client's connection, without buffers of its own but for what is torn; what families that use it have in common.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, HandshakeKind, RootCertStore, SupportedProtocolVersion};
use serde::{Deserialize, Serialize};
use vtax_plan::model::TlsVersion;
use vtax_units::Nanos;

use crate::any_certificate::AnyCertificate;
use crate::tickets::{Kept, Tickets};
use crate::{LatencyHistogram, LoadError};

/// Bytes that a record of TLS is longer than what it carries, at most.
const RECORD_OVERHEAD: usize = 300;
/// Plain bytes of a record.
const RECORD: usize = 16 << 10;
/// Bytes of a record before what it carries; the last two are the length of that.
const HEADER: usize = 5;

/// What a server's certificate is checked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Verify {
    /// Nothing: any certificate will do. That the server has its key is always proved.
    #[default]
    Nothing,
    /// It is valid for this name or address, now, and signed by one of these authorities.
    Authorities {
        /// The server's name or address.
        name: String,
        /// Certificates of authorities, in DER.
        roots: Vec<Vec<u8>>,
    },
}

/// The certificates of a file, each in DER: one in DER, or as many as there are in PEM (RFC 7468).
///
/// # Errors
///
/// [`LoadError::Spec`] where a block of PEM can't be read.
pub fn authorities(file: Vec<u8>) -> Result<Vec<Vec<u8>>, LoadError> {
    let wrong = |error: pem::Error| refused("authority", error.to_string());
    let found = CertificateDer::pem_slice_iter(&file).map(|der| der.map(|der| der.to_vec()).map_err(wrong));
    let found: Vec<_> = found.collect::<Result<_, LoadError>>()?;
    Ok(if found.is_empty() { vec![file] } else { found })
}

/// What is offered to a server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Offer<'a> {
    /// The only version.
    pub(crate) version: Option<TlsVersion>,
    /// The only cipher suite, as IANA names it.
    pub(crate) cipher: Option<&'a str>,
    /// The only group of the key exchange, as IANA names it.
    pub(crate) group: Option<&'a str>,
}

impl Offer<'_> {
    /// The configuration of a client, and the name of a server at `target` that it checks for. It resumes as rustls does
    /// where nothing else is said.
    ///
    /// # Errors
    /// Nothing is left to offer, or an authority's certificate isn't one.
    pub(crate) fn client(
        &self,
        verify: &Verify,
        target: IpAddr,
    ) -> Result<(ClientConfig, ServerName<'static>), LoadError> {
        let mut provider = ring::default_provider();
        if let Some(cipher) = self.cipher {
            // rustls calls suites of TLS 1.3 TLS13_…, IANA TLS_….
            provider
                .cipher_suites
                .retain(|suite| format!("{:?}", suite.suite()).replace("TLS13_", "TLS_") == cipher);
        }
        if let Some(group) = self.group {
            let same = |name: String| name.eq_ignore_ascii_case(group);
            provider.kx_groups.retain(|own| same(format!("{:?}", own.name())));
        }
        let versions: &[&SupportedProtocolVersion] = match self.version {
            None => rustls::ALL_VERSIONS,
            Some(TlsVersion::V12) => &[&rustls::version::TLS12],
            Some(TlsVersion::V13) => &[&rustls::version::TLS13],
        };
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .map_err(|error| refused("cipher", error.to_string()))?;
        let (builder, name) = match verify {
            Verify::Nothing => {
                let any = Arc::new(AnyCertificate { algorithms });
                (builder.dangerous().with_custom_certificate_verifier(any), ServerName::from(target))
            }
            Verify::Authorities { name, roots } => {
                let mut store = RootCertStore::empty();
                for root in roots {
                    let root = CertificateDer::from(root.clone());
                    store.add(root).map_err(|error| refused("verify", error.to_string()))?;
                }
                (builder.with_root_certificates(store), server_name(name, "verify")?)
            }
        };
        Ok((builder.with_no_client_auth(), name))
    }
}

/// A server's name, or its address.
///
/// # Errors
/// It is neither.
pub(crate) fn server_name(name: &str, field: &'static str) -> Result<ServerName<'static>, LoadError> {
    ServerName::try_from(name.to_owned())
        .map_err(|_| refused(field, "that is no name of a server".to_owned()))
}

fn refused(field: &'static str, reason: String) -> LoadError {
    LoadError::Spec { field, reason }
}

/// TLS of a load's connections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TlsDetails {
    /// Version and cipher suite that the first connection agreed on.
    pub agreed: Option<String>,
    /// The group of its key exchange.
    pub group: Option<String>,
    /// The protocol that it agreed on (ALPN).
    pub alpn: Option<String>,
    /// Full handshakes, from the TCP connection until something can be sent.
    pub full: LatencyHistogram,
    /// Handshakes that resumed a session, from the TCP connection until something can be sent.
    pub resumed: LatencyHistogram,
    /// Handshakes that failed.
    pub failed: u64,
    /// Connections whose server ended them without the word that nothing more comes (close_notify).
    pub without_close_notify: u64,
}

impl TlsDetails {
    /// Handshakes that were done.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.full.len() + self.resumed.len()
    }

    /// Adds what others found.
    pub fn add(&mut self, other: Self) {
        self.agreed = self.agreed.take().or(other.agreed);
        self.group = self.group.take().or(other.group);
        self.alpn = self.alpn.take().or(other.alpn);
        self.full.add(&other.full);
        self.resumed.add(&other.resumed);
        self.failed = self.failed.saturating_add(other.failed);
        self.without_close_notify = self.without_close_notify.saturating_add(other.without_close_notify);
    }

    /// Notes a handshake that is done, and how long it took.
    pub(crate) fn greeted(&mut self, tls: &Tls, took: Nanos) {
        let times = if tls.resumed() == Some(true) { &mut self.resumed } else { &mut self.full };
        times.record(took);
        if self.agreed.is_none() {
            self.agreed = tls.agreed();
            (self.group, self.alpn) = tls.agreed_besides();
        }
    }
}

/// How connections of a worker resume sessions of its earlier ones, or that they don't.
pub(crate) fn resumption(resume: bool) -> Resumption {
    if resume { Arc::new(Tickets::new(Kept::Newest)).resumption() } else { Resumption::disabled() }
}

/// TLS of one connection.
pub(crate) struct Tls {
    connection: UnbufferedClientConnection,
    /// Bytes that came and aren't a whole record yet.
    pub(crate) torn: Vec<u8>,
    /// The handshake is done.
    pub(crate) ready: bool,
    /// The peer has said that nothing more comes (close_notify).
    pub(crate) peer_closed: bool,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("ready", &self.ready).finish_non_exhaustive()
    }
}

impl Tls {
    /// Of a connection on which nothing was said yet.
    ///
    /// # Errors
    /// The configuration can't be used with this name.
    pub(crate) fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, rustls::Error> {
        let connection = UnbufferedClientConnection::new(config, name)?;
        Ok(Self { connection, torn: Vec::new(), ready: false, peer_closed: false })
    }

    /// Takes what came. What is to be sent is appended to `out`, what was decrypted goes to `sink`. Returns how many bytes were used;
    /// the rest is to come again, with more behind it.
    pub(crate) fn take(
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

    /// Takes whatever came: what is no whole record yet is kept. Of bytes in whole records nothing is copied.
    pub(crate) fn feed(
        &mut self,
        bytes: &mut [u8],
        out: &mut Vec<u8>,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(), rustls::Error> {
        let mut from = 0;
        if !self.torn.is_empty() {
            let mut torn = std::mem::take(&mut self.torn);
            // Messages of a handshake may span records, which then stay until their last one is there.
            from = if self.ready { missing(&torn).min(bytes.len()) } else { bytes.len() };
            torn.extend_from_slice(&bytes[..from]);
            let used = self.take(&mut torn, out, &mut sink)?;
            torn.drain(..used);
            if !torn.is_empty() && from < bytes.len() {
                torn.extend_from_slice(&bytes[from..]);
                from = bytes.len();
                let used = self.take(&mut torn, out, &mut sink)?;
                torn.drain(..used);
            }
            self.torn = torn;
        }
        if from < bytes.len() {
            let used = self.take(&mut bytes[from..], out, &mut sink)?;
            self.torn.extend_from_slice(&bytes[from + used..]);
        }
        Ok(())
    }

    /// Appends `plain` to `out` as records; false where the connection can't carry it.
    pub(crate) fn encrypt(&mut self, plain: &[u8], out: &mut Vec<u8>) -> bool {
        self.write(out, plain.len(), |traffic, room| traffic.encrypt(plain, room))
    }

    /// Appends the word that nothing more comes.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) -> bool {
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
    pub(crate) fn resumed(&self) -> Option<bool> {
        self.connection.handshake_kind().map(|kind| kind == HandshakeKind::Resumed)
    }

    /// Version and cipher suite, once they are agreed on.
    pub(crate) fn agreed(&self) -> Option<String> {
        let version = self.connection.protocol_version()?;
        let suite = self.connection.negotiated_cipher_suite()?;
        let (version, suite) = (format!("{version:?}"), format!("{:?}", suite.suite()));
        Some(format!("{} {}", version.replace("TLSv1_", "TLS 1."), suite.replace("TLS13_", "TLS_")))
    }

    /// The protocol of the next layer (ALPN), once there is one.
    pub(crate) fn next_protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// The group of the key exchange and the protocol of the next layer (ALPN), where there are such.
    pub(crate) fn agreed_besides(&self) -> (Option<String>, Option<String>) {
        let group =
            self.connection.negotiated_key_exchange_group().map(|group| format!("{:?}", group.name()));
        let next = self.connection.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
        (group, next)
    }
}

/// Bytes that are missing of the first record, as far as its header tells.
fn missing(torn: &[u8]) -> usize {
    match torn {
        [_, _, _, high, low, ..] => {
            (HEADER + usize::from(u16::from_be_bytes([*high, *low]))).saturating_sub(torn.len())
        }
        _ => HEADER - torn.len(),
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

#[cfg(test)]
mod tests {
    use vtax_plan::model::{TLS_CIPHERS, TLS_GROUPS};

    use super::*;

    #[test]
    fn what_is_missing_of_a_record_is_told_by_its_header() {
        assert_eq!(missing(&[23, 3]), 3);
        assert_eq!(missing(&[23, 3, 3, 1, 0]), 256);
        assert_eq!(missing(&[23, 3, 3, 0, 4, 9, 9]), 2);
        assert_eq!(missing(&[23, 3, 3, 0, 1, 9, 9, 9]), 0);
    }

    #[test]
    fn an_offer_of_nothing_is_refused() {
        let local = IpAddr::from([127, 0, 0, 1]);
        let refused = |offer: Offer<'_>| offer.client(&Verify::Nothing, local).is_err();
        assert!(!refused(Offer::default()));
        assert!(!refused(Offer { cipher: Some("TLS_AES_128_GCM_SHA256"), ..Offer::default() }));
        assert!(!refused(Offer { group: Some("x25519"), ..Offer::default() }));
        // A cipher suite of the other version.
        let version = Some(TlsVersion::V12);
        assert!(refused(Offer { version, cipher: Some("TLS_AES_128_GCM_SHA256"), ..Offer::default() }));
        assert!(refused(Offer { group: Some("x448"), ..Offer::default() }));
    }

    /// Names of plans are looked for among rustls's own.
    #[test]
    fn what_a_plan_may_ask_for_is_there() {
        let local = IpAddr::from([127, 0, 0, 1]);
        let provider = |offer: Offer<'_>| {
            let client = offer.client(&Verify::Nothing, local);
            let (config, _) = client.unwrap_or_else(|error| panic!("{offer:?}: {error}"));
            Arc::clone(config.crypto_provider())
        };
        for cipher in TLS_CIPHERS {
            let one = provider(Offer { cipher: Some(cipher), ..Offer::default() });
            assert_eq!(one.cipher_suites.len(), 1, "{cipher}");
        }
        for group in TLS_GROUPS {
            let one = provider(Offer { group: Some(group), ..Offer::default() });
            assert_eq!(one.kx_groups.len(), 1, "{group}");
        }
    }

    #[test]
    fn authorities_are_read_in_either_form() {
        let two =
            [1, 2].map(|_| rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap().cert);
        let [one, other] = two.each_ref().map(|cert| cert.der().to_vec());
        assert_eq!(authorities(one.clone()).unwrap(), std::slice::from_ref(&one));
        let text = two.map(|cert| cert.pem()).concat();
        assert_eq!(authorities(format!("a remark\n{text}").into_bytes()).unwrap(), [one, other]);
        let torn = text.replace("-----END", "-----");
        assert!(authorities(torn.into_bytes()).is_err());
    }
}
