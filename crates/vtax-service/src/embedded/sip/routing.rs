//! Where a request goes (RFC 3261 sections 16.3 to 16.6).

use std::sync::Arc;

use vtax_wire::sip::{Hex, Message, Name, Parts, Scheme, Uri};

use super::output::{Output, Peer};
use super::shared::Shared;
use super::stream::Stream;

/// A status code and its reason.
pub(super) type Status = (u16, &'static str);

pub(super) const NOT_FOUND: Status = (404, "Not Found");
const FORBIDDEN: Status = (403, "Forbidden");
const LOOP: Status = (482, "Loop Detected");
const BAD_ROUTE: Status = (400, "Bad Route");

/// Where a request goes.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) peer: Peer,
    /// The Request-URI becomes the contact that was found.
    pub(super) is_contact: bool,
    /// Values of Route that were this server's.
    pub(super) routes_passed: usize,
}

/// Finds where a request goes. A contact that replaces the Request-URI is left in `contact`.
pub(super) fn route(
    shared: &Shared,
    message: &Message<'_>,
    parts: &Parts<'_>,
    now_s: u32,
    contact: &mut Vec<u8>,
    output: &mut Output,
) -> Result<Target, Status> {
    if parts.max_forwards == Some(0) {
        return Err((483, "Too Many Hops"));
    }
    let uri = parts.uri.ok_or((400, "Bad Request-URI"))?;
    if uri.scheme == Scheme::Other {
        return Err((416, "Unsupported URI Scheme"));
    }
    let (mut routes_passed, mut is_recorded) = (0, false);
    let mut next = None;
    for address in message.addresses(Name::Route) {
        let route = address.and_then(|address| address.parse_uri()).map_err(|_| BAD_ROUTE)?;
        if !shared.is_own_address(&route) {
            next = Some(route);
            break;
        }
        routes_passed += 1;
        is_recorded |= is_recorded_route(shared, &route, parts.call_id);
    }
    if let Some(next) = next {
        // Requests are passed to hosts that a recorded route names, and to no others.
        return if is_recorded {
            towards(shared, &next, None, routes_passed, output)
        } else {
            Err(FORBIDDEN)
        };
    }
    if shared.is_own(&uri) {
        let subscriber = shared.users.public(&uri).ok_or(NOT_FOUND)?;
        contact.clear();
        let flow = shared.registrar.find(subscriber, now_s, contact).ok_or(NOT_FOUND)?;
        let uri = Uri::parse(contact).map_err(|_| NOT_FOUND)?;
        let target = towards(shared, &uri, flow, routes_passed, output)?;
        return Ok(Target { is_contact: true, ..target });
    }
    if is_recorded { towards(shared, &uri, None, routes_passed, output) } else { Err(FORBIDDEN) }
}

fn towards(
    shared: &Shared,
    uri: &Uri<'_>,
    flow: Option<Arc<Stream>>,
    routes_passed: usize,
    output: &mut Output,
) -> Result<Target, Status> {
    let target = |peer| Target { peer, is_contact: false, routes_passed };
    if let Some(stream) = flow {
        return Ok(target(Peer::Tcp(stream)));
    }
    // Names are not resolved: a testbed has no name server.
    let (ip, port) = (uri.address().ok_or(NOT_FOUND)?, uri.port.unwrap_or(5060));
    if port == 0 || ip.is_ipv4() != shared.address.is_ipv4() {
        return Err(NOT_FOUND);
    }
    if shared.is_own_address(uri) {
        return Err(LOOP);
    }
    let address = (ip, port).into();
    match uri.param(b"transport").flatten() {
        None => Ok(target(Peer::Udp(address))),
        Some(name) if name.eq_ignore_ascii_case(b"udp") => Ok(target(Peer::Udp(address))),
        Some(name) if name.eq_ignore_ascii_case(b"tcp") => {
            if let Some(stream) = shared.stream(address, false) {
                return Ok(target(Peer::Tcp(stream)));
            }
            let stream = Arc::new(Stream::dial(address).map_err(|_| (503, "Service Unavailable"))?);
            shared.add_stream(&stream);
            output.dialled.push(Arc::clone(&stream));
            Ok(target(Peer::Tcp(stream)))
        }
        // Peers are reached over the connections that they made (RFC 5923), whose certificates nobody has checked.
        Some(name) if name.eq_ignore_ascii_case(b"tls") => {
            let stream = shared.stream(address, true).ok_or((480, "Temporarily Unavailable"))?;
            Ok(target(Peer::Tcp(stream)))
        }
        Some(_) => Err((480, "Temporarily Unavailable")),
    }
}

/// What proves that this server recorded a route for a call: only this server can make it.
fn proof(shared: &Shared, call_id: &[u8]) -> Hex {
    Hex::of(&shared.hash(&[b"route", call_id]).to_be_bytes())
}

fn is_recorded_route(shared: &Shared, route: &Uri<'_>, call_id: &[u8]) -> bool {
    route.param(b"k").flatten() == Some(proof(shared, call_id).bytes())
}

/// Writes this server's value of Record-Route for a call. Without a transport where the two sides
/// differ: each then comes back over its own.
pub(super) fn record_route(shared: &Shared, call_id: &[u8], transport: Option<&str>, out: &mut Vec<u8>) {
    out.clear();
    let (key, transport) = transport.map_or((&b""[..], &b""[..]), |name| (b";transport=", name.as_bytes()));
    let proof = proof(shared, call_id);
    for part in [b"<sip:", &shared.sent_by[..], key, transport, b";lr;k=", proof.bytes(), b">"] {
        out.extend_from_slice(part);
    }
}
