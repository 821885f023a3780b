//! A layer between a dialogue and its connections: TLS, where there is any, and what is known of connections.
//!
//! What came is deciphered in the buffer that it came into; what a dialogue writes is enciphered straight into what is
//! to be sent. Requests that are written before the handshake is done wait for it. Each worker has a configuration and
//! tickets of its own, so that none waits for another's.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig};
use vtax_plan::model::HttpTls;
use vtax_units::Nanos;

use super::result::{HttpDetails, HttpTlsDetails};
use crate::requests::{Answer, Dialogue, Ended, Outcome, Taken};
use crate::tls::{Offer, Tls, Verify, resumption, server_name};
use crate::{Details, LoadError};

/// HTTP/2 over TLS, as ALPN names it (RFC 9113 section 3.2).
const H2: &[u8] = b"h2";

/// TLS of a worker's connections.
#[derive(Debug, Clone)]
pub(super) struct TlsSettings {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// HTTP/2 must be what the server agrees on.
    http2: bool,
}

impl TlsSettings {
    /// For one worker; for HTTP/2 alone, where that is said.
    pub(super) fn new(
        tls: &HttpTls,
        verify: &Verify,
        target: IpAddr,
        http2: bool,
    ) -> Result<Self, LoadError> {
        let (cipher, group) = (tls.cipher.as_deref(), tls.group.as_deref());
        let (mut config, name) = Offer { version: tls.version, cipher, group }.client(verify, target)?;
        let name = match &tls.sni {
            Some(sni) => server_name(sni, "sni")?,
            None => name,
        };
        config.resumption = resumption(tls.resume);
        if http2 {
            config.alpn_protocols = vec![H2.to_vec()];
        } else if tls.alpn {
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
        }
        Ok(Self { config: Arc::new(config), name, http2 })
    }
}

/// A dialogue over connections with or without TLS.
#[derive(Debug)]
pub(super) struct Layered<D> {
    inner: D,
    tls: Option<TlsSettings>,
    /// What the dialogue writes before it is enciphered.
    plain: Vec<u8>,
    now: u64,
    /// What happens earlier isn't recorded.
    from: u64,
    found: HttpDetails,
}

/// What is remembered of a connection.
#[derive(Debug, Default)]
pub(super) struct Link<C> {
    inner: C,
    tls: Option<Box<Tls>>,
    /// What is to be enciphered once the handshake is done.
    waiting: Vec<u8>,
    /// What TLS has to say for itself.
    out: Vec<u8>,
    /// The handshake was done.
    greeted: bool,
    began: u64,
    connected: u64,
}

impl<D: Dialogue> Layered<D> {
    /// `from` is when recording begins, in nanoseconds since the load's epoch.
    pub(super) fn new(inner: D, tls: Option<TlsSettings>, from: u64) -> Self {
        let found =
            HttpDetails { tls: tls.as_ref().map(|_| HttpTlsDetails::default()), ..Default::default() };
        Self { inner, tls, plain: Vec::new(), now: 0, from, found }
    }

    /// Begins the handshake, where it has not begun.
    fn hello(&mut self, link: &mut Link<D::Connection>, out: &mut Vec<u8>) {
        let Some(settings) = self.tls.as_ref().filter(|_| link.tls.is_none()) else { return };
        let begun = Tls::new(Arc::clone(&settings.config), settings.name.clone()).and_then(|mut tls| {
            tls.take(&mut [], out, |_| {})?;
            Ok(tls)
        });
        match begun {
            Ok(tls) => link.tls = Some(Box::new(tls)),
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &rustls::Error) {
        let refused = AlertDescription::NoApplicationProtocol;
        if self.wants_http2() && *error == rustls::Error::AlertReceived(refused) {
            return self.not_http2(None);
        }
        self.found.first_failure.get_or_insert_with(|| format!("TLS: {error}"));
    }

    fn wants_http2(&self) -> bool {
        self.tls.as_ref().is_some_and(|settings| settings.http2)
    }

    fn not_http2(&mut self, agreed: Option<&[u8]>) {
        self.found.first_failure.get_or_insert_with(|| match agreed.map(String::from_utf8_lossy) {
            Some(other) => {
                format!("ALPN: the server took `{other}` instead of `h2`: it doesn't speak HTTP/2")
            }
            None => "ALPN: the server didn't take `h2`: it doesn't speak HTTP/2 here".to_owned(),
        });
    }

    fn is_recorded(&self) -> bool {
        self.now >= self.from
    }

    /// Enciphers `plain`, or keeps it until that can be done.
    fn seal(&mut self, link: &mut Link<D::Connection>, out: &mut Vec<u8>) {
        if self.plain.is_empty() {
            return;
        }
        match &mut link.tls {
            Some(tls) if link.greeted => {
                // A server that has ended its side is heard of next.
                tls.encrypt(&self.plain, out);
            }
            _ => link.waiting.extend_from_slice(&self.plain),
        }
        self.plain.clear();
    }

    /// The handshake is done: what waited for it goes out. False where it gave another protocol than is spoken.
    fn greeted(&mut self, link: &mut Link<D::Connection>) -> bool {
        let http2 = self.wants_http2();
        let Some(tls) = &mut link.tls else { return true };
        if http2 && tls.next_protocol() != Some(H2) {
            self.not_http2(tls.next_protocol());
            return false;
        }
        link.greeted = true;
        if !link.waiting.is_empty() {
            tls.encrypt(&link.waiting, &mut link.out);
            link.waiting.clear();
        }
        if self.now < self.from {
            return true;
        }
        let Some(found) = &mut self.found.tls else { return true };
        found.greeted(tls, Nanos(self.now.saturating_sub(link.connected)));
        true
    }
}

/// Hands on what was deciphered; the first answer that is whole, and what is wrong.
fn hear<D: Dialogue>(
    inner: &mut D,
    connection: &mut D::Connection,
    plain: &[u8],
    answer: &mut Result<Option<Answer>, Outcome>,
) {
    let mut rest = plain;
    while !rest.is_empty() {
        match answer {
            Ok(None) => {}
            // Frames of WebSockets that nobody asked for, such as pings.
            Ok(Some(first)) if inner.server_may_send_unasked(connection) => {
                match inner.read(connection, rest) {
                    Ok(Taken { bytes, answer: None }) => rest = &rest[bytes..],
                    Ok(_) => *answer = Err(Outcome::Protocol),
                    Err(_) => {
                        *answer = Ok(Some(Answer { keep: false, ..*first }));
                        return;
                    }
                }
                continue;
            }
            // Bytes beyond the answer were not asked for.
            Ok(Some(_)) => {
                *answer = Err(Outcome::Protocol);
                return;
            }
            Err(_) => return,
        }
        match inner.read(connection, rest) {
            Ok(taken) => {
                rest = &rest[taken.bytes..];
                *answer = Ok(taken.answer);
            }
            Err(outcome) => *answer = Err(outcome),
        }
    }
}

impl<D: Dialogue> Dialogue for Layered<D> {
    type Connection = Link<D::Connection>;

    const SENDS_BESIDES_REQUESTS: bool = true;
    const ANSWERS_IN_ANY_ORDER: bool = D::ANSWERS_IN_ANY_ORDER;

    fn depth(&self) -> u32 {
        self.inner.depth()
    }

    fn write(&mut self, link: &mut Self::Connection, last: bool, out: &mut Vec<u8>) {
        if self.tls.is_none() {
            return self.inner.write(&mut link.inner, last, out);
        }
        self.hello(link, out);
        self.inner.write(&mut link.inner, last, &mut self.plain);
        self.seal(link, out);
    }

    fn read(&mut self, link: &mut Self::Connection, bytes: &[u8]) -> Result<Taken, Outcome> {
        if self.tls.is_none() {
            return self.inner.read(&mut link.inner, bytes);
        }
        self.take(link, &mut bytes.to_vec())
    }

    fn take(&mut self, link: &mut Self::Connection, bytes: &mut [u8]) -> Result<Taken, Outcome> {
        let Some(tls) = &mut link.tls else { return self.inner.take(&mut link.inner, bytes) };
        let mut answer = Ok(None);
        let (inner, connection) = (&mut self.inner, &mut link.inner);
        let fed = tls.feed(bytes, &mut link.out, |plain| hear(inner, connection, plain, &mut answer));
        let (ready, closed) = (tls.ready, tls.peer_closed);
        if let Err(error) = fed {
            if !link.greeted
                && self.is_recorded()
                && let Some(found) = &mut self.found.tls
            {
                found.failed += 1;
            }
            self.failed(&error);
            return Err(Outcome::Protocol);
        }
        if ready && !link.greeted && !self.greeted(link) {
            return Err(Outcome::Protocol);
        }
        let answer = answer?.map(|answer| Answer { keep: answer.keep && !closed, ..answer });
        Ok(Taken { bytes: bytes.len(), answer })
    }

    fn skippable(&self, link: &Self::Connection) -> u64 {
        // Bytes that aren't deciphered aren't known to be those.
        if self.tls.is_some() { 0 } else { self.inner.skippable(&link.inner) }
    }

    fn skip(&mut self, link: &mut Self::Connection, bytes: u64) -> Option<Answer> {
        self.inner.skip(&mut link.inner, bytes)
    }

    fn requests_failed(&mut self, link: &mut Self::Connection) {
        self.inner.requests_failed(&mut link.inner);
    }

    fn closed(&mut self, link: &mut Self::Connection) {
        if link.connected > 0 && self.is_recorded() {
            self.found.lifetime.record(Nanos(self.now.saturating_sub(link.began)));
        }
        self.inner.closed(&mut link.inner);
    }

    fn end(&mut self, link: &mut Self::Connection) -> Result<Option<Answer>, Outcome> {
        if let Some(tls) = link.tls.as_ref().filter(|tls| !tls.peer_closed) {
            // An answer that ends with its connection may have been cut short.
            let (greeted, recorded) = (tls.ready, self.is_recorded());
            if let Some(found) = self.found.tls.as_mut().filter(|_| recorded) {
                found.failed += u64::from(!greeted);
                found.without_close_notify += u64::from(greeted);
            }
            return Err(Outcome::Reset);
        }
        self.inner.end(&mut link.inner)
    }

    fn renew(&mut self, link: &mut Self::Connection) {
        self.inner.renew(&mut link.inner);
        *link = Link { inner: std::mem::take(&mut link.inner), ..Link::default() };
    }

    fn details(&mut self) -> Option<Details> {
        let mut found = std::mem::take(&mut self.found);
        if let Some(more) = self.inner.details().and_then(|details| details.http) {
            found.add(*more);
        }
        Some(Details { http: Some(Box::new(found)), ..Details::default() })
    }

    fn set_now(&mut self, now: u64) {
        self.now = now;
        self.inner.set_now(now);
    }

    fn connecting(&mut self, link: &mut Self::Connection) {
        link.began = self.now;
        self.inner.connecting(&mut link.inner);
    }

    fn connected(&mut self, link: &mut Self::Connection) {
        link.connected = self.now;
        if self.is_recorded() {
            self.found.connect.record(Nanos(self.now.saturating_sub(link.began)));
        }
        self.inner.connected(&mut link.inner);
    }

    fn write_besides(&mut self, link: &mut Self::Connection, out: &mut Vec<u8>) {
        if self.tls.is_none() {
            return self.inner.write_besides(&mut link.inner, out);
        }
        self.hello(link, out);
        out.append(&mut link.out);
        if link.greeted {
            self.inner.write_besides(&mut link.inner, &mut self.plain);
            if !self.plain.is_empty() {
                self.seal(link, out);
            }
        }
    }

    fn is_open(&self, link: &Self::Connection) -> bool {
        if self.tls.is_some() { link.greeted } else { self.inner.is_open(&link.inner) }
    }

    fn server_may_send_unasked(&self, link: &Self::Connection) -> bool {
        self.inner.server_may_send_unasked(&link.inner)
    }

    fn next_request_in(&mut self, link: &mut Self::Connection) -> Option<u64> {
        self.inner.next_request_in(&mut link.inner)
    }

    fn place(&mut self, link: &mut Self::Connection) -> u32 {
        self.inner.place(&mut link.inner)
    }

    fn has_room(&self, link: &Self::Connection) -> bool {
        self.inner.has_room(&link.inner)
    }

    fn next(&mut self, link: &mut Self::Connection) -> Option<(u32, Ended)> {
        self.inner.next(&mut link.inner)
    }

    fn give_up(&mut self, link: &mut Self::Connection, place: u32) -> bool {
        (self.tls.is_none() || link.greeted) && self.inner.give_up(&mut link.inner, place)
    }
}
