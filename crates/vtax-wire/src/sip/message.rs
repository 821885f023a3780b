//! A message: its start line, its header lines, its body.

use super::name::KNOWN;
use super::scan::{is_token, number, seconds, split_token, trim, trim_end, trim_start};
use super::{Address, Contact, HEADERS_MAX, MESSAGE_BYTES_MAX, Method, Name, SipError, Uri, Via};

/// A message's first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartLine<'a> {
    /// A request's.
    Request {
        /// The method.
        method: Method,
        /// The method as it is written.
        method_text: &'a [u8],
        /// The Request-URI; [`Message::request_uri`] takes it to pieces.
        uri: &'a [u8],
    },
    /// A response's.
    Status {
        /// The status code, 100 to 699.
        code: u16,
        /// The reason phrase.
        reason: &'a [u8],
    },
}

/// A header line, as offsets into the message.
#[derive(Debug, Clone, Copy)]
struct Line {
    name_start: u16,
    value_start: u16,
    value_end: u16,
    name: Name,
    name_length: u8,
}

const NO_LINE: Line = Line { name_start: 0, value_start: 0, value_end: 0, name: Name::Other, name_length: 0 };

/// CSeq's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CSeq<'a> {
    /// The sequence number, below 2^31 in what this codec accepts.
    pub number: u32,
    /// The method.
    pub method: Method,
    /// The method as it is written.
    pub method_text: &'a [u8],
}

/// What every element needs of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The topmost Via.
    pub via: Via<'a>,
    /// From.
    pub from: Address<'a>,
    /// To.
    pub to: Address<'a>,
    /// Call-ID.
    pub call_id: &'a [u8],
    /// CSeq.
    pub cseq: CSeq<'a>,
    /// Max-Forwards, where it is given.
    pub max_forwards: Option<u8>,
    /// The Request-URI of a request.
    pub uri: Option<Uri<'a>>,
}

/// A view of one message's bytes.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    bytes: &'a [u8],
    start: StartLine<'a>,
    /// Length of the start line with its line end.
    start_length: u16,
    /// Where the empty line begins that ends the head.
    head_end: u16,
    body_start: u16,
    count: u8,
    /// Index of the first line of each known name, or [`NONE`].
    firsts: [u8; KNOWN],
    /// Known names that came more than once, as bits.
    repeated: u32,
    lines: [Line; HEADERS_MAX],
}

const NONE: u8 = u8::MAX;

impl<'a> Message<'a> {
    /// Views a datagram. What follows the body that Content-Length announces is not part of the
    /// message; without Content-Length the body is all that is left (RFC 3261 section 18.3).
    /// Empty lines before the start line are passed over.
    ///
    /// # Errors
    /// It has no well-formed start line, header names and end of head, or a body that is shorter
    /// than announced.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, SipError> {
        if datagram.len() > MESSAGE_BYTES_MAX {
            return Err(SipError::TooLarge);
        }
        let mut bytes = datagram;
        while let [b'\r' | b'\n', rest @ ..] = bytes {
            bytes = rest;
        }
        let first = end_of_line(bytes, 0)?;
        let mut message = Self {
            bytes,
            start: StartLine::parse(&bytes[..first.text_end])?,
            start_length: first.next as u16,
            head_end: 0,
            body_start: 0,
            count: 0,
            firsts: [NONE; KNOWN],
            repeated: 0,
            lines: [NO_LINE; HEADERS_MAX],
        };
        let body = message.scan_lines(first.next)?;
        message.body_start = body as u16;
        if let Some(length) = message.content_length()? {
            let end = body + length;
            message.bytes = bytes.get(..end).ok_or(SipError::BodyTruncated)?;
        }
        Ok(message)
    }

    /// Scans the header lines from `at` on; returns where the body begins.
    fn scan_lines(&mut self, mut at: usize) -> Result<usize, SipError> {
        let bytes = self.bytes;
        loop {
            let mut line = end_of_line(bytes, at)?;
            if line.text_end == at {
                self.head_end = at as u16;
                return Ok(line.next);
            }
            let text = &bytes[at..line.text_end];
            let (name, name_length, colon) = match Name::usual(text) {
                Some((name, length)) => (name, length, at + length),
                None => {
                    let (name, after_name) = split_token(text);
                    (Name::of(name), name.len(), at + name.len() + spaces(after_name))
                }
            };
            if name_length == 0 || name_length > usize::from(u8::MAX) || bytes.get(colon) != Some(&b':') {
                return Err(SipError::HeaderName);
            }
            // What begins with white space continues the line before it.
            while let Some(b' ' | b'\t') = bytes.get(line.next) {
                line = end_of_line(bytes, line.next)?;
            }
            let value = trim_end(trim_start(&bytes[colon + 1..line.text_end]));
            let value_start = value.as_ptr() as usize - bytes.as_ptr() as usize;
            self.push(Line {
                name_start: at as u16,
                value_start: value_start as u16,
                value_end: (value_start + value.len()) as u16,
                name,
                name_length: name_length as u8,
            })?;
            at = line.next;
        }
    }

    #[inline]
    fn push(&mut self, line: Line) -> Result<(), SipError> {
        let slot = self.lines.get_mut(usize::from(self.count)).ok_or(SipError::TooManyHeaders)?;
        *slot = line;
        if let Some(first) = self.firsts.get_mut(line.name as usize) {
            if *first == NONE {
                *first = self.count;
            } else {
                self.repeated |= 1 << line.name as u32;
            }
        }
        self.count += 1;
        Ok(())
    }

    /// What every element needs of a message, parsed once: each header that must be there is,
    /// once, and well formed; CSeq names the request's method; Max-Forwards, where given, is a
    /// number; a request's URI is one.
    ///
    /// # Errors
    /// What to answer 400 to, or for a response, what to drop it for.
    pub fn parts(&self) -> Result<Parts<'a>, SipError> {
        const ONCE: [Name; 7] = [
            Name::From,
            Name::To,
            Name::CallId,
            Name::CSeq,
            Name::MaxForwards,
            Name::Expires,
            Name::ContentType,
        ];
        if self.repeated != 0
            && let Some(name) = ONCE.into_iter().find(|name| self.is_repeated(*name))
        {
            return Err(SipError::Repeated(name));
        }
        let parts = Parts {
            via: self.via()?,
            from: self.from()?,
            to: self.to()?,
            call_id: self.call_id()?,
            cseq: self.cseq()?,
            max_forwards: self.max_forwards()?,
            uri: match self.start {
                StartLine::Request { uri, .. } => Some(Uri::parse(uri)?),
                StartLine::Status { .. } => None,
            },
        };
        if let StartLine::Request { method, method_text, .. } = self.start {
            let cseq = parts.cseq;
            if method != cseq.method || (method == Method::Other && method_text != cseq.method_text) {
                return Err(SipError::MethodMismatch);
            }
        }
        Ok(parts)
    }

    /// As [`parts`](Self::parts), and further what RFC 4475 asks a server to refuse: every Via,
    /// every Contact and Expires, where given, is well formed.
    ///
    /// # Errors
    /// What to answer 400 to, or for a response, what to drop it for.
    pub fn check(&self) -> Result<(), SipError> {
        self.parts()?;
        for via in self.values(Name::Via) {
            Via::parse(via)?;
        }
        self.expires()?;
        for contact in self.contacts() {
            contact.map_err(|_| SipError::Value(Name::Contact))?;
        }
        Ok(())
    }

    /// All of its bytes, from the start line to the end of the body.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The start line.
    #[must_use]
    pub const fn start(&self) -> StartLine<'a> {
        self.start
    }

    /// The method of a request; `None` for a response.
    #[must_use]
    pub const fn method(&self) -> Option<Method> {
        match self.start {
            StartLine::Request { method, .. } => Some(method),
            StartLine::Status { .. } => None,
        }
    }

    /// The code of a response; `None` for a request.
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        match self.start {
            StartLine::Request { .. } => None,
            StartLine::Status { code, .. } => Some(code),
        }
    }

    /// The Request-URI, taken to pieces.
    ///
    /// # Errors
    /// It is malformed, or this is a response.
    pub fn request_uri(&self) -> Result<Uri<'a>, SipError> {
        match self.start {
            StartLine::Request { uri, .. } => Uri::parse(uri),
            StartLine::Status { .. } => Err(SipError::StartLine),
        }
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[usize::from(self.body_start)..]
    }

    /// Every header line in order: what it is, its name as written, its value with its folds.
    pub fn header_lines(&self) -> impl Iterator<Item = (Name, &'a [u8], &'a [u8])> + '_ {
        self.lines[..usize::from(self.count)].iter().map(|line| {
            let name = &self.bytes[usize::from(line.name_start)..][..usize::from(line.name_length)];
            (line.name, name, self.value(line))
        })
    }

    /// Every header line as it is written, with its line end, and its value.
    pub fn raw_lines(&self) -> impl Iterator<Item = (Name, &'a [u8], &'a [u8])> + '_ {
        self.lines[..usize::from(self.count)].iter().enumerate().map(|(index, line)| {
            let raw = &self.bytes[usize::from(line.name_start)..self.line_start(index + 1)];
            (line.name, raw, self.value(line))
        })
    }

    /// The start line with its line end.
    #[must_use]
    pub fn raw_start(&self) -> &'a [u8] {
        &self.bytes[..usize::from(self.start_length)]
    }

    /// Everything from a header line on, by its number from 0: the rest of the head, the empty
    /// line, the body. After the last header line, from the empty line on.
    #[must_use]
    pub fn tail(&self, line: usize) -> &'a [u8] {
        &self.bytes[self.line_start(line)..]
    }

    fn line_start(&self, line: usize) -> usize {
        let known = self.lines[..usize::from(self.count)].get(line);
        usize::from(known.map_or(self.head_end, |line| line.name_start))
    }

    fn value(&self, line: &Line) -> &'a [u8] {
        &self.bytes[usize::from(line.value_start)..usize::from(line.value_end)]
    }

    /// The value of the first header of that name. Always `None` for [`Name::Other`].
    #[must_use]
    pub fn header(&self, name: Name) -> Option<&'a [u8]> {
        let first = usize::from(*self.firsts.get(name as usize)?);
        (first < usize::from(self.count)).then(|| self.value(&self.lines[first]))
    }

    /// The value of the first header that is written so, in any case; for names that [`Name`]
    /// doesn't have.
    #[must_use]
    pub fn header_named(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.header_lines().find(|(_, n, _)| n.eq_ignore_ascii_case(name)).map(|(_, _, value)| value)
    }

    /// True where that name was on more than one line.
    #[must_use]
    pub const fn is_repeated(&self, name: Name) -> bool {
        self.repeated & (1 << name as u32) != 0
    }

    /// The values of every line of that name, in order, not split at commas; what Authorization
    /// and the challenges need.
    pub fn lines(&self, name: Name) -> impl Iterator<Item = &'a [u8]> + '_ {
        let first = self.firsts.get(name as usize).map_or(usize::MAX, |first| usize::from(*first));
        let lines = self.lines.get(first..usize::from(self.count)).unwrap_or_default();
        let most = if self.is_repeated(name) { usize::MAX } else { 1 };
        lines.iter().filter(move |line| line.name == name).take(most).map(|line| self.value(line))
    }

    /// Every value of a header that is a list, over all its lines, split at commas.
    pub fn values(&self, name: Name) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.lines(name).flat_map(Values::new)
    }

    /// The topmost Via.
    ///
    /// # Errors
    /// It is missing or malformed.
    pub fn via(&self) -> Result<Via<'a>, SipError> {
        let line = self.header(Name::Via).ok_or(SipError::Missing(Name::Via))?;
        Via::parse(Values::new(line).next().unwrap_or_default())
    }

    /// From.
    ///
    /// # Errors
    /// It is missing or malformed.
    pub fn from(&self) -> Result<Address<'a>, SipError> {
        self.address(Name::From)
    }

    /// To.
    ///
    /// # Errors
    /// It is missing or malformed.
    pub fn to(&self) -> Result<Address<'a>, SipError> {
        self.address(Name::To)
    }

    fn address(&self, name: Name) -> Result<Address<'a>, SipError> {
        let value = self.header(name).ok_or(SipError::Missing(name))?;
        Address::parse(value).map_err(|_| SipError::Value(name))
    }

    /// Call-ID.
    ///
    /// # Errors
    /// It is missing or not one word.
    pub fn call_id(&self) -> Result<&'a [u8], SipError> {
        let value = self.header(Name::CallId).ok_or(SipError::Missing(Name::CallId))?;
        let is_word = !value.is_empty() && value.iter().all(u8::is_ascii_graphic);
        is_word.then_some(value).ok_or(SipError::Value(Name::CallId))
    }

    /// CSeq.
    ///
    /// # Errors
    /// It is missing or malformed, or its number is not below 2^31 (RFC 3261 section 8.1.1.5).
    pub fn cseq(&self) -> Result<CSeq<'a>, SipError> {
        let value = self.header(Name::CSeq).ok_or(SipError::Missing(Name::CSeq))?;
        let malformed = SipError::Value(Name::CSeq);
        let digits = value.iter().position(|b| !b.is_ascii_digit()).ok_or(malformed)?;
        let number = number(&value[..digits]).filter(|n| *n < 1 << 31).ok_or(malformed)?;
        let method_text = trim_start(&value[digits..]);
        let is_method = !method_text.is_empty() && method_text.iter().all(|b| is_token(*b));
        if !is_method || method_text.len() == value.len() - digits {
            return Err(malformed);
        }
        Ok(CSeq { number, method: Method::of(method_text), method_text })
    }

    /// Max-Forwards, where it is given.
    ///
    /// # Errors
    /// It is not a number from 0 to 255.
    pub fn max_forwards(&self) -> Result<Option<u8>, SipError> {
        let Some(value) = self.header(Name::MaxForwards) else { return Ok(None) };
        let number = number(value).and_then(|n| u8::try_from(n).ok());
        number.map(Some).ok_or(SipError::Value(Name::MaxForwards))
    }

    /// Expires in seconds, where it is given; more than 2^32-1 is 2^32-1.
    ///
    /// # Errors
    /// It is not a number.
    pub fn expires(&self) -> Result<Option<u32>, SipError> {
        let Some(value) = self.header(Name::Expires) else { return Ok(None) };
        seconds(value).map(Some).ok_or(SipError::Value(Name::Expires))
    }

    /// Content-Length, where it is given.
    ///
    /// # Errors
    /// It is not one number below 2^16.
    pub fn content_length(&self) -> Result<Option<usize>, SipError> {
        let Some(value) = self.header(Name::ContentLength) else { return Ok(None) };
        if self.is_repeated(Name::ContentLength) {
            return Err(SipError::ContentLength);
        }
        super::frame::length(value).map(Some)
    }

    /// Every Contact.
    pub fn contacts(&self) -> impl Iterator<Item = Result<Contact<'a>, SipError>> + '_ {
        self.values(Name::Contact).map(Contact::parse)
    }

    /// Every address of a list such as Route, Record-Route or Service-Route.
    pub fn addresses(&self, name: Name) -> impl Iterator<Item = Result<Address<'a>, SipError>> + '_ {
        self.values(name).map(Address::parse)
    }
}

impl<'a> StartLine<'a> {
    fn parse(line: &'a [u8]) -> Result<Self, SipError> {
        if line.len() >= 4 && line[..4].eq_ignore_ascii_case(b"SIP/") {
            return Self::parse_status(&line[4..]);
        }
        let space = memchr::memchr(b' ', line).ok_or(SipError::StartLine)?;
        let method_text = &line[..space];
        let last = memchr::memrchr(b' ', line).ok_or(SipError::StartLine)?;
        let (uri, version) = (line.get(space + 1..last).unwrap_or_default(), &line[last + 1..]);
        let is_request = !method_text.is_empty() && method_text.iter().all(|b| is_token(*b));
        if !is_request || uri.is_empty() || uri.iter().any(|b| matches!(b, b' ' | b'\t')) {
            return Err(SipError::StartLine);
        }
        match version.split_first_chunk::<4>() {
            Some((name, b"2.0")) if name.eq_ignore_ascii_case(b"SIP/") => {}
            Some((name, number)) if name.eq_ignore_ascii_case(b"SIP/") && is_version(number) => {
                return Err(SipError::Version);
            }
            _ => return Err(SipError::StartLine),
        }
        Ok(Self::Request { method: Method::of(method_text), method_text, uri })
    }

    /// `rest` is what follows `SIP/`.
    fn parse_status(rest: &'a [u8]) -> Result<Self, SipError> {
        let space = memchr::memchr(b' ', rest).ok_or(SipError::StartLine)?;
        match &rest[..space] {
            b"2.0" => {}
            version if is_version(version) => return Err(SipError::Version),
            _ => return Err(SipError::StartLine),
        }
        let rest = &rest[space + 1..];
        // The space is there even where the reason is empty (RFC 4475 section 3.1.1.13), but
        // who forgets it is understood.
        let (code, reason) = match memchr::memchr(b' ', rest) {
            Some(space) => (&rest[..space], &rest[space + 1..]),
            None => (rest, &b""[..]),
        };
        let code = number(code).filter(|n| code.len() == 3 && (100..700).contains(n));
        Ok(Self::Status { code: code.ok_or(SipError::StatusCode)? as u16, reason })
    }
}

fn is_version(text: &[u8]) -> bool {
    matches!(memchr::memchr(b'.', text), Some(dot) if number(&text[..dot]).is_some() && number(&text[dot + 1..]).is_some())
}

/// How many spaces and tabs it begins with.
fn spaces(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| matches!(b, b' ' | b'\t')).count()
}

struct LineEnd {
    /// Where the line's text ends.
    text_end: usize,
    /// Where the next line begins.
    next: usize,
}

#[inline]
fn end_of_line(bytes: &[u8], from: usize) -> Result<LineEnd, SipError> {
    let text_end = from + memchr::memchr2(b'\r', b'\n', &bytes[from..]).ok_or(SipError::Unended)?;
    match &bytes[text_end..] {
        [b'\n', ..] => Ok(LineEnd { text_end, next: text_end + 1 }),
        [_, b'\n', ..] => Ok(LineEnd { text_end, next: text_end + 2 }),
        [_] => Err(SipError::Unended),
        _ => Err(SipError::LineEnd),
    }
}

/// Splits a header's value at its commas, except those in quotes and in angle brackets.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Values<'a> {
    /// From the value of one header line. An empty value is one empty member.
    #[must_use]
    pub const fn new(value: &'a [u8]) -> Self {
        Self { rest: Some(value) }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.take()?;
        if memchr::memchr(b',', rest).is_none() {
            return Some(trim(rest));
        }
        let mut at = 0;
        while let Some(byte) = rest.get(at) {
            // An unended quote or bracket takes all that is left; its parser refuses it.
            at += match byte {
                b',' => {
                    self.rest = Some(&rest[at + 1..]);
                    return Some(trim(&rest[..at]));
                }
                b'"' => match super::scan::split_quoted(&rest[at..]) {
                    Some((inner, _)) => inner.len() + 2,
                    None => rest.len(),
                },
                b'<' => memchr::memchr(b'>', &rest[at..]).unwrap_or(rest.len()).saturating_add(1),
                _ => 1,
            };
        }
        Some(trim(rest))
    }
}
