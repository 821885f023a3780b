//! Messages and texts of a call, from their templates.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use vtax_wire::sip::{Answer, Message, QopAuth, ha1, nonce_count};
use vtax_wire::sipp::{Held as Field, Keyword, Part, Template};

use super::call::{Call, Held};
use super::shared::Shared;
use crate::family::sip::token::TOKEN_BYTES;

/// Most bytes that `[fill]` fills in.
const FILL_MAX: f64 = 32_768.0;

/// Of which call something is written, and when.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) shared: &'a Shared,
    pub(super) call: &'a Call,
    pub(super) token: &'a [u8; TOKEN_BYTES],
    pub(super) command: u16,
    pub(super) local: SocketAddr,
    /// Since the load began, in nanoseconds.
    pub(super) elapsed: u64,
}

/// What is known of a message while it is written.
#[derive(Default)]
struct Writing<'a> {
    method: &'a [u8],
    /// Where the length of the body is to be, and what is added to it.
    length: Option<(usize, i32)>,
    body: Option<usize>,
    authenticated: bool,
    /// What came last, once it was asked for.
    last: Option<Option<Message<'a>>>,
}

/// Writes a message; true where it has credentials.
pub(super) fn message(out: &mut Vec<u8>, template: &Template, context: Context<'_>) -> bool {
    let mut writing = Writing { method: &template.method, ..Writing::default() };
    pieces(out, &template.parts, context, &mut writing);
    if let Some((at, offset)) = writing.length {
        let body = out.len() - writing.body.unwrap_or(out.len());
        insert(out, at, body as i64 + i64::from(offset));
    }
    writing.authenticated
}

/// Writes a text that is no message.
pub(super) fn text(out: &mut Vec<u8>, parts: &[Part], context: Context<'_>) {
    pieces(out, parts, context, &mut Writing::default());
}

/// Puts a number in where there was no room for it.
fn insert(out: &mut Vec<u8>, at: usize, number: i64) {
    let end = out.len();
    let _ = write!(out, "{number}");
    let digits = out.len() - end;
    out[at..].rotate_right(digits);
}

/// Writes parts; false where one of them stands for nothing, which ends it.
fn pieces<'a>(out: &mut Vec<u8>, parts: &'a [Part], context: Context<'a>, writing: &mut Writing<'a>) -> bool {
    for part in parts {
        match part {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Keyword(keyword) => {
                if !put(out, keyword, context, writing) {
                    return false;
                }
            }
            Part::Line(parts) => {
                let start = out.len();
                pieces(out, parts, context, writing);
                if out.len() > start {
                    out.extend_from_slice(b"\r\n");
                }
            }
            Part::Body => writing.body = Some(out.len()),
        }
    }
    true
}

fn number(out: &mut Vec<u8>, number: impl Into<i64>, offset: i32) {
    let _ = write!(out, "{}", number.into() + i64::from(offset));
}

/// An address as URIs have it.
fn host(out: &mut Vec<u8>, address: IpAddr) {
    let _ = match address {
        IpAddr::V4(address) => write!(out, "{address}"),
        IpAddr::V6(address) => write!(out, "[{address}]"),
    };
}

/// Writes what a keyword stands for; false where that is nothing.
fn put<'a>(out: &mut Vec<u8>, keyword: &'a Keyword, context: Context<'a>, writing: &mut Writing<'a>) -> bool {
    let Context { shared, call, .. } = context;
    let settings = &shared.settings;
    let remote = call.peer.unwrap_or(shared.target);
    let own = call.media_port;
    let media = i64::from(if own > 0 { own } else { settings.media_port });
    match keyword {
        Keyword::Service => out.extend_from_slice(settings.service.as_bytes()),
        Keyword::RemoteIp => host(out, remote.ip()),
        Keyword::RemotePort(offset) => number(out, remote.port(), *offset),
        Keyword::Transport => out.extend_from_slice(shared.transport.text().as_bytes()),
        Keyword::LocalIp => host(out, context.local.ip()),
        Keyword::LocalIpType | Keyword::MediaIpType => {
            out.push(if context.local.is_ipv4() { b'4' } else { b'6' })
        }
        Keyword::LocalPort(offset) => number(out, context.local.port(), *offset),
        Keyword::MediaIp => drop(write!(out, "{}", context.local.ip())),
        Keyword::AutoMediaPort(offset) | Keyword::MediaPort(offset) if own > 0 => number(out, media, *offset),
        Keyword::MediaPort(offset) => number(out, media, *offset),
        Keyword::AutoMediaPort(offset) => {
            number(out, media + (4 * (call.number.saturating_sub(1) % 2_500)) as i64, *offset);
        }
        Keyword::Len(offset) => writing.length = Some((out.len(), *offset)),
        Keyword::CallNumber(offset) => number(out, call.number as i64, *offset),
        Keyword::Cseq(offset) => number(out, call.cseq, *offset),
        Keyword::CallId if call.call_id.is_empty() => {
            out.extend_from_slice(context.token);
            out.push(b'@');
            let _ = write!(out, "{}", context.local.ip());
        }
        Keyword::CallId => out.extend_from_slice(&call.call_id),
        Keyword::Branch(offset) => {
            out.extend_from_slice(b"z9hG4bK-");
            out.extend_from_slice(context.token);
            out.push(b'-');
            number(out, context.command, *offset);
        }
        Keyword::Pid => number(out, shared.pid, 0),
        Keyword::NextUrl => out.extend_from_slice(&call.next_url),
        Keyword::MsgIndex => number(out, context.command, 0),
        Keyword::ClockTick => number(out, (context.elapsed / 1_000_000) as i64, 0),
        Keyword::PeerTag if call.peer_tag.is_empty() => {}
        Keyword::PeerTag => {
            out.extend_from_slice(b";tag=");
            out.extend_from_slice(&call.peer_tag);
        }
        Keyword::LastMessage => out.extend_from_slice(&call.last),
        Keyword::Variable(variable) => value(out, call, *variable),
        Keyword::Fill(variable, text) => fill(out, call, *variable, text),
        Keyword::Field(file, field) => return put_field(out, (*file, *field), context, writing),
        Keyword::Routes
        | Keyword::Last(_)
        | Keyword::LastRequestUri
        | Keyword::LastCseq(_)
        | Keyword::Authentication(..) => {
            return put_of_last(out, keyword, context, writing);
        }
    }
    true
}

/// Writes what depends on what came.
fn put_of_last<'a>(
    out: &mut Vec<u8>,
    keyword: &'a Keyword,
    context: Context<'a>,
    writing: &mut Writing<'a>,
) -> bool {
    let call = context.call;
    if let Keyword::Authentication(user, password) = keyword {
        return authentication(out, user, password, context, writing);
    }
    if let Keyword::Routes = keyword {
        if call.routes.is_empty() {
            return false;
        }
        out.extend_from_slice(b"Route: ");
        out.extend_from_slice(&call.routes);
        return true;
    }
    let last = writing.last.get_or_insert_with(|| Message::parse(&call.last).ok());
    let Some(last) = last else { return !matches!(keyword, Keyword::Last(_)) };
    match keyword {
        Keyword::Last(name) => return header(out, last, name),
        Keyword::LastRequestUri => {
            if let Ok(to) = last.to() {
                out.extend_from_slice(to.uri);
            }
        }
        Keyword::LastCseq(offset) => {
            if let Ok(cseq) = last.cseq() {
                number(out, cseq.number, *offset);
            }
        }
        _ => {}
    }
    true
}

/// Every line of a header; false where there is none.
fn header(out: &mut Vec<u8>, message: &Message<'_>, name: &[u8]) -> bool {
    let kind = vtax_wire::sip::Name::of(name);
    let mut found = false;
    for (own, written, value) in message.header_lines() {
        let is_other = kind == vtax_wire::sip::Name::Other;
        if own != kind || (is_other && !written.eq_ignore_ascii_case(name)) {
            continue;
        }
        if found {
            out.extend_from_slice(b"\r\n");
        }
        found = true;
        out.extend_from_slice(written);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
    }
    found
}

fn value(out: &mut Vec<u8>, call: &Call, variable: u16) {
    let Some(variable) = call.variables.get(usize::from(variable)) else { return };
    match variable.held {
        Held::Nothing => {}
        Held::Truth => out.extend_from_slice(if variable.is_set() { b"true" } else { b"false" }),
        // As printf's %lf, which SIPp uses.
        Held::Number => drop(write!(out, "{:.6}", variable.number)),
        Held::Text => out.extend_from_slice(&variable.text),
    }
}

fn fill(out: &mut Vec<u8>, call: &Call, variable: u16, text: &[u8]) {
    let length = call.variables.get(usize::from(variable)).map_or(0.0, super::call::Variable::as_number);
    let length = length.clamp(0.0, FILL_MAX) as usize;
    out.extend(text.iter().copied().cycle().take(length));
}

fn put_field<'a>(
    out: &mut Vec<u8>,
    (file, field): (u16, u16),
    context: Context<'a>,
    writing: &mut Writing<'a>,
) -> bool {
    let file = usize::from(file);
    let (Some(injection), Some(line)) = (context.shared.injections.get(file), context.call.lines.get(file))
    else {
        return true;
    };
    match injection.get(*line, field) {
        Some(Field::Text(text)) => out.extend_from_slice(text),
        Some(Field::Parts(parts)) => return pieces(out, parts, context, writing),
        None => {}
    }
    true
}

/// Credentials for the challenge that was met, as a header; false where none was.
fn authentication<'a>(
    out: &mut Vec<u8>,
    user: &'a [Part],
    password: &'a [Part],
    context: Context<'a>,
    writing: &mut Writing<'a>,
) -> bool {
    let auth = &context.call.auth;
    if auth.count == 0 {
        return false;
    }
    let settings = &context.shared.settings;
    let algorithm = auth.algorithm().unwrap_or_default();
    out.extend_from_slice(if auth.proxy {
        b"Proxy-Authorization: Digest username=\""
    } else {
        b"Authorization: Digest username=\""
    });
    let named = out.len();
    put_or(out, user, settings.user.as_bytes(), context, writing);
    let name_end = out.len();
    // The password is written behind it, and taken away again.
    put_or(out, password, context.shared.password.as_bytes(), context, writing);
    let ha1 = ha1(algorithm, &out[named..name_end], auth.realm(), &out[name_end..]);
    out.truncate(name_end);
    let uri = request_uri(out);
    let (cnonce, count) = (&context.token[8..], nonce_count(auth.count));
    let answer = Answer {
        algorithm,
        ha1: &ha1,
        method: writing.method,
        uri: &out[uri.clone()],
        nonce: auth.nonce(),
        qop: auth.qop().then_some(QopAuth { nc: &count, cnonce }),
    };
    let response = answer.response();
    for piece in [&b"\", realm=\""[..], auth.realm(), b"\", nonce=\"", auth.nonce(), b"\", uri=\""] {
        out.extend_from_slice(piece);
    }
    out.extend_from_within(uri);
    for piece in [&b"\", response=\""[..], response.bytes(), b"\", algorithm=", algorithm.text().as_bytes()] {
        out.extend_from_slice(piece);
    }
    if let Some(opaque) = auth.opaque() {
        for piece in [&b", opaque=\""[..], opaque, b"\""] {
            out.extend_from_slice(piece);
        }
    }
    if auth.qop() {
        for piece in [&b", qop=auth, nc="[..], &count, b", cnonce=\"", cnonce, b"\""] {
            out.extend_from_slice(piece);
        }
    }
    writing.authenticated = true;
    true
}

/// Writes parts, or what stands for them where there are none.
fn put_or<'a>(
    out: &mut Vec<u8>,
    parts: &'a [Part],
    usual: &[u8],
    context: Context<'a>,
    writing: &mut Writing<'a>,
) {
    if parts.is_empty() {
        out.extend_from_slice(usual);
    } else {
        pieces(out, parts, context, writing);
    }
}

/// Where the Request-URI is in a message that begins here.
fn request_uri(message: &[u8]) -> std::ops::Range<usize> {
    let space = |from: usize| message[from..].iter().position(|byte| *byte == b' ').map(|at| from + at);
    let from = space(0).map_or(0, |at| at + 1);
    from..space(from).unwrap_or(from)
}
