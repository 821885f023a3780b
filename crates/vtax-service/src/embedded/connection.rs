//! One connection of the embedded HTTP server.

use std::io::Write as _;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use vtax_wire::http::{HttpError, Method, Request, RequestScanner, Target};
use vtax_wire::websocket::{
    Event, FrameHead, Opcode, Receiver, Role, Upgrade, UpgradeScanner, accept_for, write_close, write_control,
};

use super::document::Document;
use super::tls::Tls;

/// One read's most, and so the most that pipelined requests can wait in memory.
pub(super) const INPUT_BYTES: usize = 16 * 1024;
/// Answers are gathered until they are this long.
const OUTPUT_BYTES: usize = 64 * 1024;
/// Where what is sent comes back.
const ECHO: &[u8] = b"/echo";
/// Longest message of a WebSocket.
const MESSAGE_BYTES: u64 = 16 << 20;

/// True of the target where that is, with a query or without.
fn is_echo(target: &Target) -> bool {
    let rest = target.bytes().and_then(|target| target.strip_prefix(ECHO));
    matches!(rest, Some([] | [b'?', ..]))
}

/// What a worker lends its connections while it serves them.
#[derive(Debug)]
pub(super) struct Workspace {
    pub(super) input: Box<[u8]>,
    pub(super) output: Vec<u8>,
    /// What was deciphered.
    plain: Vec<u8>,
    /// The Date field's value, for the present second.
    pub(super) date: String,
}

impl Workspace {
    pub(super) fn new() -> Self {
        Self {
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            output: Vec::with_capacity(2 * OUTPUT_BYTES),
            plain: Vec::new(),
            date: String::new(),
        }
    }
}

/// What is to become of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It waits for the next event.
    Stays,
    /// It is over.
    Closes,
}

/// An answer's body, as far as it is not in the output yet.
#[derive(Debug, Clone, Copy)]
struct Rest {
    document: Document,
    offset: u64,
}

/// A connection. Between events it holds memory only where its peer doesn't keep up.
#[derive(Debug)]
pub(super) struct Connection {
    fd: OwnedFd,
    tls: Option<Box<Tls>>,
    scanner: RequestScanner,
    /// What a request for the echo asks for.
    upgrade: Option<Box<UpgradeScanner>>,
    /// It is a WebSocket by now.
    echo: Option<Box<Receiver>>,
    /// Output that the socket did not take.
    unsent: Vec<u8>,
    rest: Option<Rest>,
    /// Input that came behind a request whose answer is not sent yet.
    unread: Vec<u8>,
    /// No request is read any more: the connection ends with its output.
    last: bool,
    /// The last answer is sent. What still comes is dropped until the peer closes, as closing
    /// with input unread would reset the connection and take the answer with it
    /// (RFC 9112 section 9.6).
    lingering: bool,
    /// Second of the last activity, on the worker's clock.
    pub(super) active: u64,
}

impl Connection {
    /// What it is watched by.
    pub(super) const fn socket(&self) -> &OwnedFd {
        &self.fd
    }

    pub(super) fn new(fd: OwnedFd, tls: Option<Box<Tls>>, now: u64) -> Self {
        Self {
            fd,
            tls,
            scanner: RequestScanner::new(),
            upgrade: None,
            echo: None,
            unsent: Vec::new(),
            rest: None,
            unread: Vec::new(),
            last: false,
            lingering: false,
            active: now,
        }
    }

    /// True where only the peer's end is waited for.
    pub(super) fn is_lingering(&self) -> bool {
        self.lingering
    }

    /// Serves as much as the socket allows. `ended` says that the peer has closed its side.
    pub(super) fn serve(&mut self, space: &mut Workspace, ended: bool) -> Fate {
        let mut drained = false;
        loop {
            if self.lingering {
                return self.drop_input(space);
            }
            match self.work_off(space) {
                Ok(true) => {}
                Ok(false) => return Fate::Stays,
                Err(_) => return Fate::Closes,
            }
            if self.last {
                if self.tls.as_mut().is_some_and(|tls| tls.say_end()) {
                    continue;
                }
                if rustix::net::shutdown(&self.fd, Shutdown::Write).is_err() {
                    return Fate::Closes;
                }
                self.lingering = true;
                continue;
            }
            if drained && !ended {
                return Fate::Stays;
            }
            match rustix::net::recv(&self.fd, &mut space.input[..], RecvFlags::empty()) {
                Ok((_, 0)) => return Fate::Closes,
                Ok((_, got)) => {
                    // Edge triggered: after a short read the next byte makes an event.
                    drained = got < INPUT_BYTES;
                    let input = std::mem::take(&mut space.input);
                    let good = self.take_input(&input[..got], space);
                    space.input = input;
                    if !good {
                        return Fate::Closes;
                    }
                }
                Err(Errno::AGAIN) => return Fate::Stays,
                Err(Errno::INTR) => {}
                Err(_) => return Fate::Closes,
            }
        }
    }

    /// Answers what came; false where it isn't TLS and should be.
    fn take_input(&mut self, input: &[u8], space: &mut Workspace) -> bool {
        let Some(tls) = &mut self.tls else {
            let taken = self.answer_all(input, space);
            self.unread.extend_from_slice(&input[taken..]);
            return true;
        };
        let mut plain = std::mem::take(&mut space.plain);
        let good = tls.open(input, &mut plain);
        if !good {
            // As far as that is possible, the peer is told why.
            let _ = tls.flush(&self.fd);
        }
        let taken = self.answer_all(&plain, space);
        self.unread.extend_from_slice(&plain[taken..]);
        plain.clear();
        space.plain = plain;
        good
    }

    /// Sends as much as the socket takes; how much of `output` is done with. With TLS that is all of it: what is enciphered waits.
    fn send(&mut self, output: &[u8]) -> Result<usize, Errno> {
        let Some(tls) = &mut self.tls else {
            return rustix::net::send(&self.fd, output, SendFlags::NOSIGNAL);
        };
        if !tls.flush(&self.fd)? {
            return Err(Errno::AGAIN);
        }
        tls.seal(output);
        tls.flush(&self.fd)?;
        Ok(output.len())
    }

    /// Sends what is ready and answers what was read; true once nothing is left of either.
    fn work_off(&mut self, space: &mut Workspace) -> Result<bool, Errno> {
        loop {
            if space.output.is_empty() && !self.unsent.is_empty() {
                std::mem::swap(&mut space.output, &mut self.unsent);
            }
            self.extend_output(space);
            if space.output.is_empty() {
                if self.unread.is_empty() || self.last {
                    return self.tls.as_mut().map_or(Ok(true), |tls| tls.flush(&self.fd));
                }
                let unread = std::mem::take(&mut self.unread);
                let taken = self.answer_all(&unread, space);
                self.unread.extend_from_slice(&unread[taken..]);
                continue;
            }
            let sent = match self.send(&space.output) {
                Ok(sent) => sent,
                Err(Errno::AGAIN) => 0,
                Err(Errno::INTR) => continue,
                Err(error) => {
                    space.output.clear();
                    return Err(error);
                }
            };
            if sent < space.output.len() {
                self.unsent.clear();
                self.unsent.extend_from_slice(&space.output[sent..]);
                space.output.clear();
                if sent == 0 {
                    return Ok(false);
                }
            }
            space.output.clear();
        }
    }

    /// Moves the body under way into the output, as far as there is room.
    fn extend_output(&mut self, space: &mut Workspace) {
        let Some(rest) = &mut self.rest else { return };
        let room = OUTPUT_BYTES.saturating_sub(space.output.len());
        rest.offset += rest.document.append(rest.offset, room, &mut space.output) as u64;
        if rest.offset >= rest.document.length() {
            self.rest = None;
        }
    }

    /// Answers the requests in `input` into the output until one has a body that is too long
    /// for it; returns how much of the input is done with.
    fn answer_all(&mut self, input: &[u8], space: &mut Workspace) -> usize {
        let mut taken = 0;
        while taken < input.len() && self.rest.is_none() && !self.last && space.output.len() < OUTPUT_BYTES {
            if self.echo.is_some() {
                taken += self.echo_one(&input[taken..], space);
                continue;
            }
            match self.scanner.scan(&input[taken..]) {
                Ok(scanned) => {
                    let asked = scanned.request.as_ref().map_or(self.scanner.target(), |own| &own.target);
                    if is_echo(asked) {
                        let head = &input[taken..taken + scanned.consumed];
                        self.upgrade.get_or_insert_default().take(head);
                    }
                    taken += scanned.consumed;
                    if let Some(request) = scanned.request {
                        self.answer(&request, space);
                    }
                }
                Err(error) => {
                    let status = match error {
                        HttpError::HeadTooLarge => "431 Request Header Fields Too Large",
                        HttpError::Version => "505 HTTP Version Not Supported",
                        _ => "400 Bad Request",
                    };
                    self.refuse(status, space);
                }
            }
        }
        if self.last { input.len() } else { taken }
    }

    fn answer(&mut self, request: &Request, space: &mut Workspace) {
        if request.method == Method::Other {
            return self.refuse("405 Method Not Allowed\r\nAllow: GET, HEAD", space);
        }
        if request.has_body {
            return self.refuse("413 Content Too Large", space);
        }
        if let Some(asked) = self.upgrade.take() {
            return self.switch(request, asked.found(), space);
        }
        self.last = !request.keep_alive;
        let found = request.target.bytes().and_then(Document::at);
        let (status, document) = match found {
            Some(document) => ("200 OK", document),
            None => ("404 Not Found", Document::Error("there are /bytes/N and /page/ROWS\n")),
        };
        self.head(status, document, space);
        if request.method == Method::Get {
            self.rest = Some(Rest { document, offset: 0 });
            self.extend_output(space);
        }
    }

    /// Answers a request for the echo: it is there as a WebSocket only.
    fn switch(&mut self, request: &Request, asked: Upgrade, space: &mut Workspace) {
        match asked {
            Upgrade::Asked(key) if request.method == Method::Get => {
                space.output.extend_from_slice(
                    b"HTTP/1.1 101 Switching Protocols\r\nServer: vtax\r\nUpgrade: websocket\r\n\
                      Connection: Upgrade\r\nSec-WebSocket-Accept: ",
                );
                space.output.extend_from_slice(&accept_for(&key));
                space.output.extend_from_slice(b"\r\n\r\n");
                self.echo = Some(Box::new(Receiver::new(Role::Server, MESSAGE_BYTES)));
            }
            _ => {
                self.refuse("426 Upgrade Required\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13", space)
            }
        }
    }

    /// Sends back what came first in `input`: a piece of a message as a frame, whatever frames it came in. Returns how much of
    /// the input is done with.
    fn echo_one(&mut self, input: &[u8], space: &mut Workspace) -> usize {
        let Some(receiver) = &mut self.echo else { return input.len() };
        let scanned = match receiver.scan(input) {
            Ok(scanned) => scanned,
            Err(error) => {
                write_close(error.status(), None, &mut space.output);
                self.last = true;
                return input.len();
            }
        };
        match scanned.event {
            None | Some(Event::Pong(_)) => {}
            Some(Event::Data { length, mut mask, text, first, last }) => {
                let opcode = match (first, text) {
                    (false, _) => Opcode::Continuation,
                    (true, true) => Opcode::Text,
                    (true, false) => Opcode::Binary,
                };
                FrameHead { last, opcode, key: None, length: length as u64 }.write(&mut space.output);
                let start = space.output.len();
                space.output.extend_from_slice(&input[scanned.consumed - length..scanned.consumed]);
                mask.apply(&mut space.output[start..]);
            }
            Some(Event::Ping(ping)) => write_control(Opcode::Pong, None, ping.bytes(), &mut space.output),
            Some(Event::Close(status)) => {
                match status {
                    Some(status) => write_close(status, None, &mut space.output),
                    None => write_control(Opcode::Close, None, &[], &mut space.output),
                }
                self.last = true;
            }
        }
        scanned.consumed
    }

    /// Answers with an error and reads no further: where the next request begins is unknown.
    fn refuse(&mut self, status: &'static str, space: &mut Workspace) {
        self.last = true;
        self.head(status, Document::Error(""), space);
    }

    fn head(&self, status: &str, document: Document, space: &mut Workspace) {
        let connection = if self.last { "close" } else { "keep-alive" };
        // Writing to a Vec can't fail.
        let _ = write!(
            space.output,
            "HTTP/1.1 {status}\r\nServer: vtax\r\nDate: {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\
             Connection: {connection}\r\n\r\n",
            space.date,
            document.content_type(),
            document.length(),
        );
    }

    fn drop_input(&mut self, space: &mut Workspace) -> Fate {
        loop {
            match rustix::net::recv(&self.fd, &mut space.input[..], RecvFlags::empty()) {
                Ok((_, 0)) => return Fate::Closes,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Fate::Stays,
                Err(_) => return Fate::Closes,
            }
        }
    }
}
