//! Writes messages into a buffer of the caller's.

use super::decimal::decimal;
use super::{Message, Method, Name, StartLine, Transport};

/// Writes one message to the end of a buffer, header by header; [`Writer::end`] or
/// [`Writer::body`] completes it. Allocates only where the buffer has to grow.
///
/// Values are written as they are given: what comes from elsewhere must not hold line ends,
/// except for the folds of a value that [`Message`] found.
#[derive(Debug)]
#[must_use = "a message is complete only after `end` or `body`"]
pub struct Writer<'b> {
    out: &'b mut Vec<u8>,
}

impl<'b> Writer<'b> {
    /// Begins a request.
    pub fn request(out: &'b mut Vec<u8>, method: Method, uri: &[u8]) -> Self {
        Self::request_of(out, method.text().as_bytes(), uri)
    }

    /// Begins a request whose method [`Method`] doesn't have.
    pub fn request_of(out: &'b mut Vec<u8>, method: &[u8], uri: &[u8]) -> Self {
        for part in [method, b" ", uri, b" SIP/2.0\r\n"] {
            out.extend_from_slice(part);
        }
        Self { out }
    }

    /// Begins a response.
    pub fn response(out: &'b mut Vec<u8>, code: u16, reason: &str) -> Self {
        out.extend_from_slice(b"SIP/2.0 ");
        decimal(out, u32::from(code));
        for part in [b" ", reason.as_bytes(), b"\r\n"] {
            out.extend_from_slice(part);
        }
        Self { out }
    }

    /// Begins a response to a request with what RFC 3261 section 8.2.6 has it copy: every Via,
    /// From, To, Call-ID and CSeq, and Record-Route where the response can make a dialog
    /// (section 12.1.1: 101 to 299). `to_tag` is added to To where it has none.
    pub fn respond(
        out: &'b mut Vec<u8>,
        request: &Message<'_>,
        code: u16,
        reason: &str,
        to_tag: Option<&[u8]>,
    ) -> Self {
        let mut writer = Self::response(out, code, reason);
        for via in request.lines(Name::Via) {
            writer = writer.header(Name::Via, via);
        }
        writer.respond_without_via(request, code, to_tag)
    }

    /// As [`Writer::respond`], with what `top_via` appends in place of the topmost Via: its value
    /// with the `received` and `rport` that the sender of the request needs.
    pub fn respond_with(
        out: &'b mut Vec<u8>,
        request: &Message<'_>,
        code: u16,
        reason: &str,
        to_tag: Option<&[u8]>,
        top_via: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        let mut writer = Self::response(out, code, reason).header_with(Name::Via, top_via);
        for via in request.values(Name::Via).skip(1) {
            writer = writer.header(Name::Via, via);
        }
        writer.respond_without_via(request, code, to_tag)
    }

    fn respond_without_via(mut self, request: &Message<'_>, code: u16, to_tag: Option<&[u8]>) -> Self {
        if (101..300).contains(&code) {
            for route in request.lines(Name::RecordRoute) {
                self = self.header(Name::RecordRoute, route);
            }
        }
        for name in [Name::From, Name::To, Name::CallId, Name::CSeq] {
            let Some(value) = request.header(name) else { continue };
            let tag = to_tag.filter(|_| name == Name::To && !request.to().is_ok_and(|to| to.tag.is_some()));
            self = match tag {
                Some(tag) => self.header_of(name, &[value, b";tag=", tag]),
                None => self.header(name, value),
            };
        }
        self
    }

    /// A header line. [`Name::Other`] has no name to write; use [`Writer::line`].
    pub fn header(self, name: Name, value: &[u8]) -> Self {
        self.line(name.text().as_bytes(), &[value])
    }

    /// A header line whose value is in parts.
    pub fn header_of(self, name: Name, parts: &[&[u8]]) -> Self {
        self.line(name.text().as_bytes(), parts)
    }

    /// A header line of any name.
    pub fn line(self, name: &[u8], parts: &[&[u8]]) -> Self {
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(b": ");
        for part in parts {
            self.out.extend_from_slice(part);
        }
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// A header line with a number.
    pub fn number(self, name: Name, value: u32) -> Self {
        self.out.extend_from_slice(name.text().as_bytes());
        self.out.extend_from_slice(b": ");
        decimal(self.out, value);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Via with an rport to be filled in (RFC 3581). `sent_by` is `host[:port]`, `branch` all of
    /// it, the cookie `z9hG4bK` included.
    pub fn via(self, transport: Transport, sent_by: &[u8], branch: &[u8]) -> Self {
        let transport = transport.text().as_bytes();
        self.header_of(Name::Via, &[b"SIP/2.0/", transport, b" ", sent_by, b";rport;branch=", branch])
    }

    /// CSeq.
    pub fn cseq(self, number: u32, method: Method) -> Self {
        self.out.extend_from_slice(b"CSeq: ");
        decimal(self.out, number);
        for part in [b" ", method.text().as_bytes(), b"\r\n"] {
            self.out.extend_from_slice(part);
        }
        self
    }

    /// A header line whose value `write` appends.
    pub fn header_with(self, name: Name, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        self.out.extend_from_slice(name.text().as_bytes());
        self.out.extend_from_slice(b": ");
        write(self.out);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Whole header lines, line ends included, that `write` appends.
    pub fn lines_with(self, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        write(self.out);
        self
    }

    /// Ends the head of a message without body.
    pub fn end(self) {
        self.out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    }

    /// Ends the head and writes the body.
    pub fn body(self, content_type: &[u8], body: &[u8]) {
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let writer = self.header(Name::ContentType, content_type).number(Name::ContentLength, length);
        writer.out.extend_from_slice(b"\r\n");
        writer.out.extend_from_slice(body);
    }
}

impl StartLine<'_> {
    /// True for a request's.
    #[must_use]
    pub const fn is_request(&self) -> bool {
        matches!(self, Self::Request { .. })
    }
}
