//! Who is registered where (RFC 3261 section 10.3).

use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use vtax_sys::sync::lock;
use vtax_wire::sip::{Contact, Message, Name, Scheme, SipError, Uri};

use super::stream::Stream;

/// Most bindings of one subscriber.
const BINDINGS_MAX: usize = 8;
/// Longest URI of a contact in bytes.
const CONTACT_BYTES_MAX: usize = 256;
/// How long a binding lasts that says nothing, in seconds (RFC 3261 section 10.2.1.1).
const EXPIRES_DEFAULT: u32 = 3600;
/// The longest one lasts, in seconds.
const EXPIRES_MAX: u32 = 86_400;
const SHARDS: u32 = 64;

/// One contact of a subscriber.
#[derive(Debug)]
struct Binding {
    uri: Box<[u8]>,
    /// Second of the server's clock from which on it doesn't count.
    expires_at: u32,
    cseq: u32,
    /// Hash of the Call-ID that made it.
    call_id: u64,
    /// The connection it was made over, which is where requests for it go.
    flow: Option<Weak<Stream>>,
}

/// Why a registration is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// 400.
    Malformed,
    /// 500: a later request of the same registration came first (RFC 3261 section 10.3 item 7).
    OutOfOrder,
    /// 403: too many bindings, or one that can't be served.
    NotAllowed,
}

/// Bindings of all subscribers, by their number.
#[derive(Debug)]
pub(super) struct Registrar {
    shards: Box<[Mutex<Vec<Vec<Binding>>>]>,
}

/// What is the same for every contact of one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Registration<'a> {
    pub(super) subscriber: u32,
    pub(super) now_s: u32,
    /// Hash of the Call-ID.
    pub(super) call_id: u64,
    pub(super) cseq: u32,
    pub(super) flow: Option<&'a Arc<Stream>>,
}

impl Registrar {
    /// For that many subscribers, none registered.
    pub(super) fn new(count: u32) -> Self {
        let of_shard = |shard| (count.saturating_sub(shard)).div_ceil(SHARDS) as usize;
        let empty = |shard| Mutex::new(std::iter::repeat_with(Vec::new).take(of_shard(shard)).collect());
        Self { shards: (0..SHARDS).map(empty).collect() }
    }

    fn lock(&self, subscriber: u32) -> MutexGuard<'_, Vec<Vec<Binding>>> {
        let shard = &self.shards[(subscriber % SHARDS) as usize];
        lock(shard)
    }

    /// Appends the URI of the newest binding to `uri` and gives the connection it was made over,
    /// if that is still open; `None` where the subscriber isn't registered.
    pub(super) fn find(&self, subscriber: u32, now_s: u32, uri: &mut Vec<u8>) -> Option<Option<Arc<Stream>>> {
        let shard = self.lock(subscriber);
        let bindings = shard.get((subscriber / SHARDS) as usize)?;
        let newest = bindings.iter().rev().find(|b| b.expires_at > now_s)?;
        uri.extend_from_slice(&newest.uri);
        let flow = newest.flow.as_ref().and_then(Weak::upgrade);
        Some(flow.filter(|stream| !stream.is_closed()))
    }

    /// Does what the Contacts of a REGISTER ask for, all or nothing. `is_own` recognises contacts
    /// that would lead back here.
    pub(super) fn update(
        &self,
        request: &Message<'_>,
        of: &Registration<'_>,
        is_own: impl Fn(&Uri<'_>) -> bool,
    ) -> Result<(), Refusal> {
        let expires = request.expires().map_err(|_| Refusal::Malformed)?;
        let mut contacts = 0;
        let mut star = false;
        for contact in request.contacts() {
            contacts += 1;
            match contact.map_err(|_: SipError| Refusal::Malformed)? {
                Contact::Star => star = true,
                Contact::Address(address) => {
                    let uri = address.parse_uri().map_err(|_| Refusal::Malformed)?;
                    let is_reachable = uri.scheme == Scheme::Sip && !is_own(&uri);
                    if !is_reachable || uri.text.len() > CONTACT_BYTES_MAX {
                        return Err(Refusal::NotAllowed);
                    }
                }
            }
        }
        if star && (contacts != 1 || expires != Some(0)) {
            return Err(Refusal::Malformed);
        }
        if contacts > BINDINGS_MAX {
            return Err(Refusal::NotAllowed);
        }
        let mut shard = self.lock(of.subscriber);
        let bindings = shard.get_mut((of.subscriber / SHARDS) as usize).ok_or(Refusal::NotAllowed)?;
        bindings.retain(|b| b.expires_at > of.now_s);
        if contacts > 0 && bindings.iter().any(|b| b.call_id == of.call_id && b.cseq > of.cseq) {
            return Err(Refusal::OutOfOrder);
        }
        if star {
            *bindings = Vec::new();
            return Ok(());
        }
        let is_new = |uri: &[u8]| !bindings.iter().any(|b| *b.uri == *uri);
        let added =
            request.contacts().flatten().filter(|c| matches!(c, Contact::Address(a) if is_new(a.uri)));
        if bindings.len() + added.count() > BINDINGS_MAX {
            return Err(Refusal::NotAllowed);
        }
        for contact in request.contacts().flatten() {
            let Contact::Address(address) = contact else { continue };
            let seconds = address.expires().or(expires).unwrap_or(EXPIRES_DEFAULT).min(EXPIRES_MAX);
            set(bindings, address.uri, seconds, of);
        }
        Ok(())
    }

    /// Appends every binding as `name: <uri>;expires=n` lines.
    pub(super) fn write(&self, subscriber: u32, now_s: u32, out: &mut Vec<u8>) {
        let shard = self.lock(subscriber);
        let Some(bindings) = shard.get((subscriber / SHARDS) as usize) else { return };
        for binding in bindings.iter().filter(|b| b.expires_at > now_s) {
            out.extend_from_slice(Name::Contact.text().as_bytes());
            out.extend_from_slice(b": <");
            out.extend_from_slice(&binding.uri);
            // Writing to a Vec can't fail.
            let _ = write!(out, ">;expires={}\r\n", binding.expires_at - now_s);
        }
    }
}

/// Adds, renews or removes one binding. URIs are compared byte by byte: a client that spells its
/// contact in another way gets a second binding, which its expiry removes.
fn set(bindings: &mut Vec<Binding>, uri: &[u8], seconds: u32, of: &Registration<'_>) {
    let known = bindings.iter().position(|b| *b.uri == *uri);
    if seconds == 0 {
        if let Some(at) = known {
            bindings.remove(at);
        }
        return;
    }
    let kept = known.map(|at| bindings.remove(at).uri);
    let binding = Binding {
        uri: kept.unwrap_or_else(|| uri.into()),
        expires_at: of.now_s.saturating_add(seconds),
        cseq: of.cseq,
        call_id: of.call_id,
        flow: of.flow.map(Arc::downgrade),
    };
    // Most subscribers have one binding, and there are a million of them.
    bindings.reserve_exact(1);
    bindings.push(binding);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(lines: &str) -> String {
        format!("REGISTER sip:a SIP/2.0\r\n{lines}\r\n")
    }

    fn update(registrar: &Registrar, lines: &str, now_s: u32, cseq: u32) -> Result<(), Refusal> {
        let text = request(lines);
        let message = Message::parse(text.as_bytes()).unwrap();
        let of = Registration { subscriber: 99, now_s, call_id: 1, cseq, flow: None };
        registrar.update(&message, &of, |uri| uri.host == b"own")
    }

    fn found(registrar: &Registrar, now_s: u32) -> Option<String> {
        let mut uri = Vec::new();
        registrar.find(99, now_s, &mut uri)?;
        Some(String::from_utf8(uri).unwrap())
    }

    #[test]
    fn bindings_come_and_go() {
        let registrar = Registrar::new(100);
        assert_eq!(found(&registrar, 0), None);
        assert_eq!(
            update(&registrar, "Contact: <sip:x@1.2.3.4>;expires=60, sip:y@1.2.3.4\r\nExpires: 30\r\n", 0, 1),
            Ok(())
        );
        let mut out = Vec::new();
        registrar.write(99, 10, &mut out);
        let lines = "Contact: <sip:x@1.2.3.4>;expires=50\r\nContact: <sip:y@1.2.3.4>;expires=20\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), lines);
        assert_eq!(found(&registrar, 29).as_deref(), Some("sip:y@1.2.3.4"));
        assert_eq!(found(&registrar, 30).as_deref(), Some("sip:x@1.2.3.4"));
        assert_eq!(found(&registrar, 60), None);
        // The renewed one is the newest.
        assert_eq!(update(&registrar, "m: sip:x@1.2.3.4\r\n", 10, 2), Ok(()));
        assert_eq!(found(&registrar, 11).as_deref(), Some("sip:x@1.2.3.4"));
        assert_eq!(update(&registrar, "m: sip:x@1.2.3.4\r\nExpires: 0\r\n", 10, 1), Err(Refusal::OutOfOrder));
        assert_eq!(update(&registrar, "m: sip:x@1.2.3.4\r\nExpires: 0\r\n", 10, 3), Ok(()));
        assert_eq!(found(&registrar, 11).as_deref(), Some("sip:y@1.2.3.4"));
        assert_eq!(update(&registrar, "m: *\r\nExpires: 0\r\n", 11, 4), Ok(()));
        assert_eq!(found(&registrar, 11), None);
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let registrar = Registrar::new(100);
        let many = (0..9).map(|i| format!("m: <sip:{i}@1.2.3.4>\r\n")).collect::<String>();
        for (lines, refusal) in [
            ("m: sip:x@1.2.3.4, <\r\n", Refusal::Malformed),
            ("m: sip:x@1.2.3.4, *\r\nExpires: 0\r\n", Refusal::Malformed),
            ("m: *\r\nExpires: 1\r\n", Refusal::Malformed),
            ("m: *\r\n", Refusal::Malformed),
            ("m: sip:x@1.2.3.4, tel:+1\r\n", Refusal::NotAllowed),
            ("m: sip:x@1.2.3.4, sip:x@own\r\n", Refusal::NotAllowed),
            (&format!("m: <sip:{}@1.2.3.4>\r\n", "x".repeat(300)), Refusal::NotAllowed),
            (&many, Refusal::NotAllowed),
        ] {
            assert_eq!(update(&registrar, lines, 0, 1), Err(refusal), "{lines}");
            assert_eq!(found(&registrar, 0), None);
        }
        let seven = many.split_inclusive('\n').take(7).collect::<String>();
        assert_eq!(update(&registrar, &seven, 0, 1), Ok(()));
        assert_eq!(update(&registrar, "m: sip:a@b, sip:c@d\r\n", 0, 2), Err(Refusal::NotAllowed));
        assert_eq!(update(&registrar, "m: sip:a@b\r\n", 0, 2), Ok(()));
    }
}
