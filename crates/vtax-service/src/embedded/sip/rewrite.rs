//! What a proxy changes in a message that it passes on (RFC 3261 sections 16.6 and 16.7).

use vtax_wire::sip::{Message, Method, Name, StartLine, Values, Via, Writer, decimal};

use super::output::Peer;

/// How a request is to be changed.
#[derive(Debug)]
pub(super) struct Forward<'a> {
    /// The new Request-URI; `None`: it stays.
    pub(super) uri: Option<&'a [u8]>,
    /// `SIP/2.0/UDP 127.0.0.1:5060;branch=`...
    pub(super) via_protocol: &'a str,
    pub(super) sent_by: &'a [u8],
    pub(super) branch: &'a [u8],
    /// Whom the request came from.
    pub(super) source: &'a Peer,
    /// The topmost Via, as it came.
    pub(super) via: Via<'a>,
    /// The value it gets.
    pub(super) max_forwards: u8,
    /// Values of Route that are this server's, from the top.
    pub(super) routes_passed: usize,
    /// This server's Record-Route.
    pub(super) record_route: Option<&'a [u8]>,
    /// Credentials that were for this server.
    pub(super) drop_credentials: bool,
}

/// Appends the request as it is forwarded.
pub(super) fn request(out: &mut Vec<u8>, message: &Message<'_>, change: &Forward<'_>) {
    let StartLine::Request { method_text, uri, .. } = message.start() else { return };
    let parts = [method_text, b" ", change.uri.unwrap_or(uri), b" SIP/2.0\r\nVia: SIP/2.0/"];
    let via = [change.via_protocol.as_bytes(), b" ", change.sent_by, b";branch=", change.branch, b"\r\n"];
    for part in parts.into_iter().chain(via) {
        out.extend_from_slice(part);
    }
    if let Some(route) = change.record_route {
        for part in [b"Record-Route: ", route, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    out.extend_from_slice(b"Max-Forwards: ");
    decimal(out, change.max_forwards.into());
    out.extend_from_slice(b"\r\n");
    let (mut is_top, mut routes_left) = (true, change.routes_passed);
    let mut has_length = false;
    for (name, raw, value) in message.raw_lines() {
        match name {
            Name::Via if is_top => {
                is_top = false;
                out.extend_from_slice(b"Via: ");
                change.via.write_received(change.source.address(), out);
                rest_of_list(out, value, 1);
            }
            Name::Route if routes_left > 0 => {
                let here = Values::new(value).count();
                if here > routes_left {
                    out.extend_from_slice(b"Route: ");
                    let left = Values::new(value).nth(routes_left).unwrap_or_default();
                    out.extend_from_slice(left);
                    rest_of_list(out, value, routes_left + 1);
                }
                routes_left = routes_left.saturating_sub(here);
            }
            Name::MaxForwards => {}
            Name::ProxyAuthorization if change.drop_credentials => {}
            _ => {
                has_length |= name == Name::ContentLength;
                out.extend_from_slice(raw);
            }
        }
    }
    if !has_length {
        out.extend_from_slice(b"Content-Length: ");
        decimal(out, message.body().len() as u32);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(message.body());
}

/// Ends a line with the values of a list from that one on.
fn rest_of_list(out: &mut Vec<u8>, value: &[u8], from: usize) {
    if value.contains(&b',') {
        for more in Values::new(value).skip(from) {
            out.extend_from_slice(b", ");
            out.extend_from_slice(more);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a response without its topmost Via. False where no other Via is left: the response
/// would be for this server, which asked nothing.
pub(super) fn response(out: &mut Vec<u8>, message: &Message<'_>) -> bool {
    let start = out.len();
    out.extend_from_slice(message.raw_start());
    let (mut is_top, mut left) = (true, false);
    for (index, (name, raw, value)) in message.raw_lines().enumerate() {
        if name != Name::Via {
            out.extend_from_slice(raw);
            continue;
        }
        if !is_top {
            // Nothing changes from here on.
            out.extend_from_slice(message.tail(index));
            return true;
        }
        is_top = false;
        if let Some(second) = Values::new(value).nth(1) {
            left = true;
            out.extend_from_slice(b"Via: ");
            out.extend_from_slice(second);
            rest_of_list(out, value, 2);
        }
    }
    if !left {
        out.truncate(start);
        return false;
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(message.body());
    true
}

/// Appends the ACK or CANCEL that belongs to a request this server forwarded: same Request-URI,
/// topmost Via and Route (RFC 3261 sections 9.1 and 17.1.1.3). `to` is the To of the response
/// that an ACK acknowledges.
pub(super) fn derived(out: &mut Vec<u8>, forwarded: &Message<'_>, method: Method, to: Option<&[u8]>) {
    let StartLine::Request { uri, .. } = forwarded.start() else { return };
    let Ok(cseq) = forwarded.cseq() else { return };
    let header = |name| forwarded.header(name).unwrap_or_default();
    let via = Values::new(header(Name::Via)).next().unwrap_or_default();
    let mut writer = Writer::request(out, method, uri).header(Name::Via, via);
    for route in forwarded.lines(Name::Route) {
        writer = writer.header(Name::Route, route);
    }
    writer
        .number(Name::MaxForwards, 70)
        .header(Name::From, header(Name::From))
        .header(Name::To, to.unwrap_or_else(|| header(Name::To)))
        .header(Name::CallId, header(Name::CallId))
        .cseq(cseq.number, method)
        .end();
}

/// Appends this server's own final response to a request it forwarded.
pub(super) fn own_response(out: &mut Vec<u8>, forwarded: &Message<'_>, code: u16, reason: &str, tag: &[u8]) {
    let mut writer = Writer::response(out, code, reason);
    for via in forwarded.values(Name::Via).skip(1) {
        writer = writer.header(Name::Via, via);
    }
    for name in [Name::From, Name::To, Name::CallId, Name::CSeq] {
        let value = forwarded.header(name).unwrap_or_default();
        let is_tagged = name != Name::To || forwarded.to().is_ok_and(|to| to.tag.is_some());
        writer = match is_tagged {
            true => writer.header(name, value),
            false => writer.header_of(name, &[value, b";tag=", tag]),
        };
    }
    writer.end();
}
