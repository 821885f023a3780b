//! The messages the generator sends, written straight into the buffer they are sent from.

use std::net::SocketAddr;

use vtax_wire::sip::{Address, Answer, Message, Method, Name, QopAuth, Transport, ha1, nonce_count};

use super::attempt::Attempt;
use super::setup::Setup;
use super::token::{Origin, TOKEN_BYTES, Token};
use super::users::NONE;

/// What a local address writes into every message.
#[derive(Debug)]
pub(crate) struct Sender {
    /// Via up to the branch's cookie.
    via: Vec<u8>,
    /// Host, port and transport of Contact.
    contact: Vec<u8>,
    /// The session description of both sides.
    sdp: Vec<u8>,
}

impl Sender {
    pub(crate) fn new(address: SocketAddr, transport: Transport) -> Self {
        // Requests for this end come over the same connection (RFC 5923).
        let (suffix, alias) = match transport {
            Transport::Tcp => (";transport=tcp", ";alias"),
            Transport::Tls => (";transport=tls", ";alias"),
            _ => ("", ""),
        };
        let (ip, version) = (address.ip(), if address.is_ipv4() { 4 } else { 6 });
        // Media never flows: the port is that of the discard service.
        let sdp = format!(
            "v=0\r\no=vtax 1 1 IN IP{version} {ip}\r\ns=-\r\nc=IN IP{version} {ip}\r\nt=0 0\r\n\
             m=audio 9 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
        );
        Self {
            via: format!("Via: SIP/2.0/{} {address};rport{alias};branch=z9hG4bK", transport.text())
                .into_bytes(),
            contact: format!("@{address}{suffix}>\r\n").into_bytes(),
            sdp: sdp.into_bytes(),
        }
    }
}

impl Sender {
    /// A session description, as offer or answer.
    pub(crate) fn sdp(&self) -> &[u8] {
        &self.sdp
    }
}

/// Writes messages for one worker.
#[derive(Debug)]
pub(crate) struct Composer {
    pub(crate) origin: Origin,
    worker: u32,
    password: Vec<u8>,
    /// Text of page-mode messages.
    text: Vec<u8>,
}

/// How users are called whom no server knows.
const UNKNOWN: &[u8] = b"unknown-";
/// Whom a server that answers calls itself is called for.
const SERVICE: &[u8] = b"service";

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn decimal(out: &mut Vec<u8>, value: u32) {
    let mut digits = [b'0'; 10];
    let (mut rest, mut first) = (value, digits.len());
    while rest > 0 || first == digits.len() {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits[first..]);
}

impl Composer {
    pub(crate) fn new(origin: Origin, worker: u32, text_bytes: usize) -> Self {
        let words = b"The quick brown fox jumps over the lazy dog. ";
        let text = words.iter().copied().cycle().take(text_bytes).collect();
        Self { origin, worker, password: Vec::new(), text }
    }

    /// Number of a worker's user among all subscribers.
    fn subscriber(&self, setup: &Setup, user: u32) -> u32 {
        user * setup.workers + self.worker
    }

    /// The worker's user of that name.
    pub(crate) fn user(&self, setup: &Setup, name: &[u8]) -> Option<u32> {
        let subscriber = setup.formats.public.index(name)?;
        (subscriber % setup.workers == self.worker).then_some(subscriber / setup.workers)
    }

    fn address_of_callee(&self, setup: &Setup, out: &mut Vec<u8>, attempt: &Attempt) {
        out.extend_from_slice(b"sip:");
        if attempt.callee != NONE {
            setup.formats.public.write(self.subscriber(setup, attempt.callee), out);
        } else if setup.direct {
            out.extend_from_slice(SERVICE);
        } else {
            out.extend_from_slice(UNKNOWN);
            setup.formats.public.write(self.subscriber(setup, attempt.caller), out);
        }
        put(out, &[b"@", &setup.domain]);
    }

    fn address_of_caller(&self, setup: &Setup, out: &mut Vec<u8>, attempt: &Attempt) {
        out.extend_from_slice(b"sip:");
        setup.formats.public.write(self.subscriber(setup, attempt.caller), out);
        put(out, &[b"@", &setup.domain]);
    }

    /// The Contact header of a user.
    fn contact(&self, setup: &Setup, sender: &Sender, out: &mut Vec<u8>, user: u32) {
        out.extend_from_slice(b"Contact: <sip:");
        setup.formats.public.write(self.subscriber(setup, user), out);
        out.extend_from_slice(&sender.contact);
    }

    pub(crate) fn token(&self, slot: u32, attempt: &Attempt) -> [u8; TOKEN_BYTES] {
        self.origin.token(Token { slot, generation: attempt.generation })
    }

    /// A request of the caller's: first line to CSeq. `method` may differ from that of the
    /// transaction for ACK and CANCEL.
    fn head(
        &self,
        setup: &Setup,
        sender: &Sender,
        out: &mut Vec<u8>,
        (slot, attempt): (u32, &Attempt),
        method: Method,
        (branch, cseq): (u8, u32),
    ) -> std::ops::Range<usize> {
        let token = self.token(slot, attempt);
        let in_dialog = attempt.dialog.is_up();
        put(out, &[method.text().as_bytes(), b" "]);
        let uri = out.len();
        if method == Method::Register {
            put(out, &[b"sip:", &setup.domain]);
        } else if in_dialog {
            out.extend_from_slice(attempt.dialog.target());
        } else {
            self.address_of_callee(setup, out, attempt);
        }
        let uri = uri..out.len();
        put(out, &[b" SIP/2.0\r\n", &sender.via, &token, &two_digits(branch), b"\r\nMax-Forwards: 70\r\n"]);
        out.extend_from_slice(attempt.dialog.route());
        out.extend_from_slice(b"From: <");
        self.address_of_caller(setup, out, attempt);
        put(out, &[b">;tag=", &token, b"\r\nTo: "]);
        if in_dialog {
            out.extend_from_slice(attempt.dialog.to());
        } else {
            out.push(b'<');
            if method == Method::Register {
                self.address_of_caller(setup, out, attempt);
            } else {
                self.address_of_callee(setup, out, attempt);
            }
            out.push(b'>');
        }
        out.extend_from_slice(b"\r\nCall-ID: ");
        if method == Method::Register {
            // RFC 3261 section 10.2: the same for all registrations of a user agent.
            put(out, &[b"r", self.origin.text()]);
            decimal(out, attempt.caller);
        } else {
            out.extend_from_slice(&token);
        }
        out.extend_from_slice(b"\r\nCSeq: ");
        decimal(out, cseq);
        put(out, &[b" ", method.text().as_bytes(), b"\r\n"]);
        uri
    }

    /// The request that the attempt's transaction is about. Of an INVITE the attempt keeps the credentials, for the ACK.
    pub(crate) fn request(
        &mut self,
        setup: &Setup,
        sender: &Sender,
        out: &mut Vec<u8>,
        slot: u32,
        attempt: &mut Attempt,
    ) {
        let transaction = &attempt.transaction;
        let method = transaction.method;
        let numbers = (transaction.branch, transaction.cseq);
        let uri = self.head(setup, sender, out, (slot, &*attempt), method, numbers);
        let credentials = out.len();
        if attempt.auth.count > 0 {
            self.credentials(setup, out, (slot, &*attempt), method, uri);
        }
        if method == Method::Invite {
            attempt.credentials.clear();
            attempt.credentials.extend_from_slice(&out[credentials..]);
        }
        match method {
            Method::Register => {
                self.contact(setup, sender, out, attempt.caller);
                let expires = match attempt.scenario {
                    vtax_plan::model::Scenario::DeRegistration => 0,
                    _ => setup.expires,
                };
                out.extend_from_slice(b"Expires: ");
                decimal(out, expires);
                out.extend_from_slice(b"\r\nContent-Length: 0\r\n\r\n");
            }
            Method::Invite => {
                self.contact(setup, sender, out, attempt.caller);
                body(out, b"application/sdp", &sender.sdp);
            }
            Method::Message => {
                let text = &self.text[..self.text.len().min(attempt.text_bytes as usize)];
                body(out, b"text/plain", text);
            }
            _ => out.extend_from_slice(b"Content-Length: 0\r\n\r\n"),
        }
    }

    /// CANCEL for the attempt's INVITE: the same branch and CSeq number (RFC 3261 section 9.1).
    pub(crate) fn cancel(
        &self,
        setup: &Setup,
        sender: &Sender,
        out: &mut Vec<u8>,
        slot: u32,
        attempt: &Attempt,
    ) {
        let numbers = (attempt.cancel.branch, attempt.cancel.cseq);
        self.head(setup, sender, out, (slot, attempt), Method::Cancel, numbers);
        out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    }

    /// ACK for the 2xx that made or changed the attempt's dialog: a transaction of its own. Its
    /// branch is that of the INVITE with another last letter, its credentials are the INVITE's as they
    /// were (RFC 3261 section 13.2.2.4).
    pub(crate) fn acknowledge(
        &self,
        setup: &Setup,
        sender: &Sender,
        out: &mut Vec<u8>,
        slot: u32,
        attempt: &Attempt,
    ) {
        let (branch, cseq) = attempt.acknowledged;
        self.head(setup, sender, out, (slot, attempt), Method::Ack, (branch | ACK_BRANCH, cseq));
        out.extend_from_slice(&attempt.credentials);
        out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    }

    /// ACK for a final answer of 300 and above to an INVITE: a copy of its request's head (RFC 3261
    /// section 17.1.1.3), which the answer holds, so that it can be written also when the attempt is
    /// over. `uri` is the INVITE's where it isn't that of To.
    pub(crate) fn acknowledge_failure(
        out: &mut Vec<u8>,
        response: &Message<'_>,
        uri: Option<&[u8]>,
    ) -> Option<()> {
        let (via, cseq) = (response.via().ok()?, response.cseq().ok()?);
        let (from, to) = (response.header(Name::From)?, response.header(Name::To)?);
        let uri = match uri {
            Some(uri) => uri,
            None => Address::parse(to).ok()?.uri,
        };
        put(out, &[b"ACK ", uri, b" SIP/2.0\r\nVia: ", via.text, b"\r\nMax-Forwards: 70\r\nFrom: ", from]);
        put(out, &[b"\r\nTo: ", to, b"\r\nCall-ID: ", response.call_id().ok()?, b"\r\nCSeq: "]);
        decimal(out, cseq.number);
        out.extend_from_slice(b" ACK\r\nContent-Length: 0\r\n\r\n");
        Some(())
    }

    fn credentials(
        &mut self,
        setup: &Setup,
        out: &mut Vec<u8>,
        (slot, attempt): (u32, &Attempt),
        method: Method,
        uri: std::ops::Range<usize>,
    ) {
        let auth = &attempt.auth;
        let subscriber = self.subscriber(setup, attempt.caller);
        let name: &[u8] = if auth.proxy { b"Proxy-Authorization" } else { b"Authorization" };
        put(out, &[name, b": Digest username=\""]);
        let user = out.len();
        setup.formats.private.write(subscriber, out);
        let user = user..out.len();
        self.password.clear();
        setup.formats.password.write(subscriber, &mut self.password);
        let algorithm = auth.algorithm().unwrap_or_default();
        let token = self.token(slot, attempt);
        let (cnonce, count) = (&token[8..], nonce_count(auth.count));
        let ha1 = ha1(algorithm, &out[user], auth.realm(), &self.password);
        let answer = Answer {
            algorithm,
            ha1: &ha1,
            method: method.text().as_bytes(),
            uri: &out[uri.clone()],
            nonce: auth.nonce(),
            qop: auth.qop().then_some(QopAuth { nc: &count, cnonce }),
        };
        let response = answer.response();
        put(out, &[b"\", realm=\"", auth.realm(), b"\", nonce=\"", auth.nonce(), b"\", uri=\""]);
        out.extend_from_within(uri);
        put(out, &[b"\", response=\"", response.bytes(), b"\""]);
        if let Some(algorithm) = auth.algorithm() {
            put(out, &[b", algorithm=", algorithm.text().as_bytes()]);
        }
        if let Some(opaque) = auth.opaque() {
            put(out, &[b", opaque=\"", opaque, b"\""]);
        }
        if auth.qop() {
            put(out, &[b", qop=auth, nc=", &count, b", cnonce=\"", cnonce, b"\""]);
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The callee's answer to its INVITE.
    pub(crate) fn answer(
        &self,
        setup: &Setup,
        sender: &Sender,
        out: &mut Vec<u8>,
        attempt: &Attempt,
        status: u16,
    ) {
        let first: &[u8] = match status {
            180 => b"SIP/2.0 180 Ringing\r\n",
            200 => b"SIP/2.0 200 OK\r\n",
            486 => b"SIP/2.0 486 Busy Here\r\n",
            _ => b"SIP/2.0 487 Request Terminated\r\n",
        };
        put(out, &[first, &attempt.reply]);
        if status < 300 {
            self.contact(setup, sender, out, attempt.callee);
        }
        if status == 200 {
            body(out, b"application/sdp", &sender.sdp);
        } else {
            out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
        }
    }
}

/// Set in the branch number of an ACK to a 2xx.
const ACK_BRANCH: u8 = 0x80;

fn two_digits(value: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(value >> 4)], DIGITS[usize::from(value & 15)]]
}

fn body(out: &mut Vec<u8>, kind: &[u8], body: &[u8]) {
    put(out, &[b"Content-Type: ", kind, b"\r\nContent-Length: "]);
    decimal(out, body.len() as u32);
    put(out, &[b"\r\n\r\n", body]);
}
