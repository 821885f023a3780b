//! Requests as they are, and sessions of them, as the engine sees them.
//!
//! On the path of a request without captured values nothing is allocated once a connection has had its first. Answers are
//! kept only as far as something is expected or captured of them, and no more than [`KEPT`] bytes.

use std::io::Read;
use std::sync::Arc;

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use rand::distr::Distribution;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;
use vtax_plan::model::HttpCompression;
use vtax_units::Nanos;
use vtax_wire::http::{Response, ResponseScanner};
use vtax_wire::websocket::ACCEPT_BYTES;

use super::dialogue::outcome;
use super::result::{HttpDetails, HttpExchanges, HttpRequestDetails};
use super::script::{Body, PIECE, Part, Ready, Request, Source, write};
use super::websocket::{self, Socket, switches};
use crate::Details;
use crate::requests::{Answer, Dialogue, Outcome, Taken};

/// Bytes of a body that are looked at, before and after decoding.
pub(super) const KEPT: usize = 16 << 20;
/// Longest value that is captured.
const VALUE_MAX: usize = 4096;
/// Cookies that a session keeps, and bytes of each.
const COOKIES_MAX: usize = 64;
const COOKIE_BYTES: usize = 4096;
/// Bytes of a body in each chunk.
const CHUNK: usize = 16 << 10;

/// One worker's requests.
#[derive(Debug)]
pub(super) struct Exchange {
    ready: Arc<Ready>,
    pub(super) random: StdRng,
    zipf: Option<Zipf<f64>>,
    pub(super) now: u64,
    /// What happens earlier isn't recorded.
    pub(super) from: u64,
    pub(super) found: HttpExchanges,
    first_failure: Option<String>,
    /// A body's text before its length is known.
    text: Vec<u8>,
    /// A body after decoding.
    decoded: Vec<u8>,
}

/// What is remembered of a connection, and the session that uses it.
#[derive(Debug, Default)]
pub(super) struct Dialog {
    pub(super) session: Session,
    pub(super) scanner: ResponseScanner,
    /// What the connection has become, where it isn't HTTP's any more.
    pub(super) socket: Option<Box<Socket>>,
    /// What a server must answer to become that.
    pub(super) accept: [u8; ACCEPT_BYTES],
    /// A request is under way.
    pub(super) asked: bool,
    /// Bytes of a made body, or of a message, that are still to be sent.
    pub(super) left: u64,
    /// A body's text that is still to be sent.
    held: Vec<u8>,
    /// The body waits for the server's word.
    waits: bool,
    /// When the request was written or, once its first piece is away, when that left.
    sent: u64,
    away: bool,
    /// When the first byte of its answer came; 0: not yet.
    heard: u64,
    /// Bytes of the answer's body so far, and those of its heads.
    pub(super) length: u64,
    head_length: u64,
    pub(super) head: Vec<u8>,
    body: Vec<u8>,
    /// What was made of the answer, until the engine takes it.
    over: Option<Over>,
}

/// What was made of an answer. What comes behind it may still make its request a failed one.
#[derive(Debug)]
struct Over {
    /// The request's number, where they are told apart.
    number: Option<usize>,
    /// The answer was as expected.
    right: bool,
    /// It was the echo of a message.
    message: bool,
    /// The session goes on.
    goes_on: bool,
}

/// A session, which may outlive its connection.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// It has begun and isn't over.
    active: bool,
    number: u32,
    step: u32,
    /// Messages of its WebSocket that have come back.
    round: u32,
    values: Vec<Vec<u8>>,
    cookies: Vec<(Vec<u8>, Vec<u8>)>,
    /// Until its next request, once an answer came.
    pause: Option<u64>,
}

impl Exchange {
    /// `seed` tells steps and workers apart; `from` is when recording begins, in nanoseconds since the load's epoch.
    pub(super) fn new(ready: Arc<Ready>, seed: u64, from: u64) -> Self {
        let named =
            |name: &String| HttpRequestDetails { name: name.clone(), ..HttpRequestDetails::default() };
        let found = HttpExchanges { requests: ready.names.iter().map(named).collect(), ..Default::default() };
        let zipf = ready.zipf.and_then(|exponent| Zipf::new(ready.sessions.len() as f64, exponent).ok());
        Self {
            ready,
            random: StdRng::seed_from_u64(seed),
            zipf,
            now: 0,
            from,
            found,
            first_failure: None,
            text: Vec::new(),
            decoded: Vec::new(),
        }
    }

    fn begin_session(&mut self, session: &mut Session) {
        let count = self.ready.sessions.len();
        let number = match &self.zipf {
            _ if count == 1 => 0,
            // From 1; rounding may reach one too far.
            Some(zipf) => (zipf.sample(&mut self.random) as usize).clamp(1, count) - 1,
            None => self.ready.by_weight(self.random.random_range(0..self.ready.weight().max(1))),
        };
        session.active = true;
        session.number = number as u32;
        (session.step, session.round) = (0, 0);
        session.values.iter_mut().for_each(Vec::clear);
        session.cookies.clear();
        session.pause = None;
    }
}

impl Session {
    pub(super) fn request<'r>(&self, ready: &'r Ready) -> &'r Request {
        &ready.sessions[self.number as usize][self.step as usize]
    }

    /// Goes on to what follows the request that was answered; false where nothing does.
    fn advance(&mut self, ready: &Ready) -> bool {
        let requests = &ready.sessions[self.number as usize];
        match &requests[self.step as usize].part {
            Part::Messages(echo) => {
                self.round += 1;
                self.step += u32::from(self.round >= echo.count);
            }
            Part::Open { .. } => {
                // One that was opened anew goes on where the last one was.
                let came =
                    |of: &Request| matches!(&of.part, Part::Messages(echo) if self.round >= echo.count);
                let all_came = requests.get(self.step as usize + 1).is_some_and(came);
                self.step += 1 + u32::from(all_came);
            }
            Part::Close => (self.step, self.round) = (self.step + 1, 0),
            Part::Http => self.step += 1,
        }
        (self.step as usize) < requests.len()
    }

    /// Goes back to where its WebSocket is opened, as the connection is lost that was one.
    fn reopen(&mut self, ready: &Ready) {
        self.step -= match self.request(ready).part {
            Part::Messages(_) => 1,
            Part::Close => 2,
            Part::Http | Part::Open { .. } => 0,
        };
    }
}

impl Dialogue for Exchange {
    type Connection = Dialog;

    const SENDS_BESIDES_REQUESTS: bool = true;

    fn write(&mut self, dialog: &mut Dialog, last: bool, out: &mut Vec<u8>) {
        if !dialog.session.active {
            self.begin_session(&mut dialog.session);
        }
        if dialog.socket.is_some() {
            let ready = Arc::clone(&self.ready);
            return self.write_frames(dialog, &ready, out);
        }
        dialog.session.reopen(&self.ready);
        let ready = &self.ready;
        let request = dialog.session.request(ready);
        dialog.begin(request, self.now);
        request.write_head(&dialog.session.values, out);
        if !dialog.session.cookies.is_empty() {
            for (number, (name, value)) in dialog.session.cookies.iter().enumerate() {
                out.extend_from_slice(if number == 0 { b"Cookie: " } else { b"; " });
                out.extend_from_slice(name);
                out.push(b'=');
                out.extend_from_slice(value);
            }
            out.extend_from_slice(b"\r\n");
        }
        if matches!(request.part, Part::Open { .. }) {
            websocket::ask(&mut self.random, dialog, out);
        }
        self.text.clear();
        let length = match &request.body {
            Body::None => None,
            Body::Size(size) => Some(*size),
            Body::Text(text) => {
                write(text, &dialog.session.values, &mut self.text);
                Some(self.text.len() as u64)
            }
        };
        if let Some(length) = length {
            if request.chunked {
                out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            } else {
                out.extend_from_slice(b"Content-Length: ");
                decimal(length, out);
                out.extend_from_slice(b"\r\n");
            }
            if request.expect_continue {
                out.extend_from_slice(b"Expect: 100-continue\r\n");
            }
        }
        // RFC 9112 section 9.6: a client that will send no more on a connection says so.
        out.extend_from_slice(if last { b"Connection: close\r\n\r\n" } else { b"\r\n" });
        dialog.waits = request.expect_continue;
        match &request.body {
            Body::None => {}
            Body::Size(size) => dialog.left = *size,
            Body::Text(_) => put_text(&self.text, request.chunked, &mut dialog.held),
        }
        if matches!(request.body, Body::Size(0)) && request.chunked {
            dialog.held.extend_from_slice(b"0\r\n\r\n");
        }
        if !dialog.waits {
            out.append(&mut dialog.held);
            dialog.piece(request, ready, out);
        }
    }

    fn read(&mut self, dialog: &mut Dialog, bytes: &[u8]) -> Result<Taken, Outcome> {
        if dialog.socket.is_some() {
            if dialog.asked && dialog.heard == 0 {
                dialog.heard = self.now.max(1);
            }
            let ready = Arc::clone(&self.ready);
            let answer = self.hear_frames(dialog, &ready, bytes)?;
            return Ok(Taken { bytes: bytes.len(), answer });
        }
        if !dialog.asked {
            return Err(Outcome::Protocol);
        }
        let request = dialog.session.request(&self.ready);
        if dialog.heard == 0 {
            dialog.heard = self.now.max(1);
        }
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let run = dialog.scanner.skippable();
            let response = if run > 0 {
                let run = usize::try_from(run).unwrap_or(usize::MAX).min(rest.len());
                dialog.length += run as u64;
                if request.keeps_body {
                    let room = KEPT.saturating_sub(dialog.body.len());
                    dialog.body.extend_from_slice(&rest[..run.min(room)]);
                }
                at += run;
                dialog.scanner.skip(run as u64)
            } else {
                let (in_head, interims) = (dialog.scanner.is_in_head(), dialog.scanner.interims());
                let scanned = dialog.scanner.scan_part(rest).map_err(outcome)?;
                dialog.head_length += scanned.consumed as u64;
                if in_head && request.keeps_head {
                    dialog.head.extend_from_slice(&rest[..scanned.consumed]);
                }
                if dialog.scanner.interims() > interims {
                    dialog.head.clear();
                    dialog.waits = false;
                }
                at += scanned.consumed;
                scanned.response
            };
            if let Some(response) = response {
                let answer = self.answered(dialog, response);
                if dialog.socket.is_some() {
                    // What came behind it are frames already, of which none is an answer.
                    let ready = Arc::clone(&self.ready);
                    self.hear_frames(dialog, &ready, &bytes[at..])?;
                    at = bytes.len();
                }
                return Ok(Taken { bytes: at, answer: Some(answer) });
            }
        }
        Ok(Taken { bytes: at, answer: None })
    }

    fn skippable(&self, dialog: &Dialog) -> u64 {
        let looked_at =
            !dialog.asked || dialog.socket.is_some() || dialog.session.request(&self.ready).keeps_body;
        if looked_at { 0 } else { dialog.scanner.skippable() }
    }

    fn skip(&mut self, dialog: &mut Dialog, bytes: u64) -> Option<Answer> {
        dialog.length += bytes;
        let response = dialog.scanner.skip(bytes)?;
        Some(self.answered(dialog, response))
    }

    fn requests_failed(&mut self, dialog: &mut Dialog) {
        // An answer that had come is none, as more came behind it than was asked for.
        let answered = dialog.over.take().is_some();
        let session = &mut dialog.session;
        if (session.active || answered) && self.now >= self.from {
            self.found.broken_sessions += 1;
        }
        (session.active, session.pause) = (false, None);
    }

    fn end(&mut self, dialog: &mut Dialog) -> Result<Option<Answer>, Outcome> {
        if !dialog.asked {
            return Ok(None);
        }
        let response = dialog.scanner.end().map_err(outcome)?;
        Ok(response.map(|response| self.answered(dialog, response)))
    }

    fn renew(&mut self, dialog: &mut Dialog) {
        *dialog = Dialog { session: std::mem::take(&mut dialog.session), ..Dialog::default() };
    }

    fn details(&mut self) -> Option<Details> {
        let exchanges = Some(std::mem::take(&mut self.found));
        let first_failure = self.first_failure.take();
        let http = HttpDetails { exchanges, first_failure, ..HttpDetails::default() };
        Some(Details { http: Some(Box::new(http)), ..Details::default() })
    }

    fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    fn write_besides(&mut self, dialog: &mut Dialog, out: &mut Vec<u8>) {
        if let Some(socket) = &mut dialog.socket {
            socket.say(out);
        }
        if !dialog.asked {
            return;
        }
        if !std::mem::replace(&mut dialog.away, true) && dialog.heard == 0 {
            dialog.sent = self.now;
        }
        if dialog.socket.is_some() {
            if dialog.left > 0 {
                let ready = Arc::clone(&self.ready);
                if let Part::Messages(echo) = &dialog.session.request(&ready).part {
                    self.next_frame(dialog, &ready, echo, out);
                }
            }
        } else if !dialog.waits {
            out.append(&mut dialog.held);
            let request = dialog.session.request(&self.ready);
            dialog.piece(request, &self.ready, out);
        }
    }

    fn server_may_send_unasked(&self, dialog: &Dialog) -> bool {
        dialog.socket.is_some()
    }

    fn next_request_in(&mut self, dialog: &mut Dialog) -> Option<u64> {
        if let Some(over) = dialog.over.take() {
            self.write_down(dialog, &over);
        }
        dialog.session.pause.take()
    }
}

impl Dialog {
    /// A request begins, written `now`. An answer may be there before its first piece has left.
    pub(super) fn begin(&mut self, request: &Request, now: u64) {
        if request.is_head {
            self.scanner.expect_no_body();
        }
        self.asked = true;
        (self.sent, self.away, self.heard, self.left) = (now, false, 0, 0);
        (self.length, self.head_length) = (0, 0);
        self.held.clear();
        self.head.clear();
        self.body.clear();
    }

    /// Appends the next piece of a made body.
    fn piece(&mut self, request: &Request, ready: &Ready, out: &mut Vec<u8>) {
        let mut room = PIECE as u64;
        while self.left > 0 && room > 0 {
            let most = if request.chunked { CHUNK as u64 } else { PIECE as u64 };
            // At most a piece, so the conversion can't lose anything.
            let length = self.left.min(most).min(room) as usize;
            let bytes = &ready.noise[..length];
            self.left -= length as u64;
            room -= length as u64;
            if request.chunked {
                put_chunk(bytes, out);
                if self.left == 0 {
                    out.extend_from_slice(b"0\r\n\r\n");
                }
            } else {
                out.extend_from_slice(bytes);
            }
        }
    }
}

/// Appends a text as a body.
fn put_text(text: &[u8], chunked: bool, out: &mut Vec<u8>) {
    if chunked {
        text.chunks(CHUNK).for_each(|chunk| put_chunk(chunk, out));
        out.extend_from_slice(b"0\r\n\r\n");
    } else {
        out.extend_from_slice(text);
    }
}

fn put_chunk(bytes: &[u8], out: &mut Vec<u8>) {
    let digits = (usize::BITS - bytes.len().leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(bytes.len() >> (4 * place)) & 15]);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn decimal(number: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let (mut rest, mut first) = (number, digits.len());
    loop {
        first -= 1;
        digits[first] += (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

/// Why an answer isn't what it should be.
pub(super) struct Wrong {
    pub(super) outcome: Outcome,
    pub(super) why: String,
}

impl Exchange {
    /// A whole answer has come: what it is worth, and how its session goes on.
    fn answered(&mut self, dialog: &mut Dialog, response: Response) -> Answer {
        unfold(&mut dialog.head);
        let ready = Arc::clone(&self.ready);
        let request = dialog.session.request(&ready);
        let unsent = dialog.left > 0 || !dialog.held.is_empty() || dialog.waits;
        let judged = self.judge(dialog, request, response);
        // A body that wasn't sent whole leaves the server waiting for the rest; one that switched speaks what nobody hears.
        let lost = unsent || switches(response) && dialog.socket.is_none();
        self.conclude(dialog, &ready, judged, response.status, response.keep_alive && !lost)
    }

    /// What an answer is worth that was judged, and how its session goes on.
    pub(super) fn conclude(
        &mut self,
        dialog: &mut Dialog,
        ready: &Ready,
        judged: Result<(), Wrong>,
        status: u16,
        keep: bool,
    ) -> Answer {
        let request = dialog.session.request(ready);
        dialog.asked = false;
        let session = &mut dialog.session;
        let goes_on = judged.is_ok() && session.advance(ready);
        if goes_on {
            session.pause = Some(session.request(ready).think);
        } else {
            (session.active, session.pause) = (false, None);
        }
        let message = matches!(request.part, Part::Messages(_));
        dialog.over = Some(Over { number: request.number, right: judged.is_ok(), message, goes_on });
        let outcome = match judged {
            Ok(()) => Outcome::Ok,
            Err(Wrong { outcome, why }) => {
                self.failed(|| why);
                outcome
            }
        };
        Answer { outcome, status, keep }
    }

    /// Writes down what was made of an answer that the engine has taken.
    fn write_down(&mut self, dialog: &Dialog, over: &Over) {
        if dialog.sent < self.from {
            return;
        }
        let found = &mut self.found;
        found.body_bytes += dialog.length;
        found.head_bytes += dialog.head_length;
        found.response.record(Nanos(dialog.heard.saturating_sub(dialog.sent)));
        found.transfer.record(Nanos(self.now.saturating_sub(dialog.heard)));
        if over.right {
            found.sessions += u64::from(!over.goes_on);
            found.messages += u64::from(over.message);
        } else {
            found.broken_sessions += 1;
        }
        let Some(own) = over.number.and_then(|number| found.requests.get_mut(number)) else { return };
        if over.right {
            own.ok += 1;
            own.times.record(Nanos(self.now.saturating_sub(dialog.sent)));
        } else {
            own.failed += 1;
        }
    }

    /// The first failure is kept in words.
    pub(super) fn failed(&mut self, why: impl FnOnce() -> String) {
        self.first_failure.get_or_insert_with(why);
    }

    fn judge(&mut self, dialog: &mut Dialog, request: &Request, response: Response) -> Result<(), Wrong> {
        expect_status(request, response.status)?;
        if self.ready.cookies {
            take_cookies(&dialog.head, &mut dialog.session.cookies);
        }
        let coding = field(&dialog.head, b"content-encoding").filter(|coding| !coding.is_empty());
        let decodes = self.ready.compression == HttpCompression::Decode && !request.is_head;
        // An answer without a body may name the coding that its body would have.
        let coding = coding.filter(|_| decodes && dialog.length > 0);
        let (body, length) = match coding {
            None => (&dialog.body, dialog.length),
            Some(coding) => {
                decode(coding, &dialog.body, &mut self.decoded)?;
                if dialog.sent >= self.from {
                    self.found.decoded += 1;
                }
                (&self.decoded, self.decoded.len() as u64)
            }
        };
        expect(request, &dialog.head, body, length)?;
        let mut json = None;
        for capture in &request.captures {
            let value = match &capture.from {
                Source::Header(name) => field(&dialog.head, name.as_bytes()).map(<[u8]>::to_vec),
                Source::Regex(expression) => {
                    let text = String::from_utf8_lossy(body);
                    let found = expression.captures(&text);
                    let group = found.and_then(|groups| groups.get(1).or_else(|| groups.get(0)));
                    group.map(|group| group.as_str().as_bytes().to_vec())
                }
                Source::Json(pointer) => {
                    let document: &serde_json::Value =
                        json.get_or_insert_with(|| serde_json::from_slice(body).unwrap_or_default());
                    document.pointer(pointer).and_then(scalar)
                }
            };
            let fits = |value: &Vec<u8>| value.len() <= VALUE_MAX && !value.iter().any(u8::is_ascii_control);
            let Some(value) = value.filter(fits) else {
                let why = "an answer lacks a value that is captured, or it is no line".to_owned();
                return Err(Wrong { outcome: Outcome::Unexpected, why });
            };
            let values = &mut dialog.session.values;
            if values.len() <= capture.value {
                values.resize(capture.value + 1, Vec::new());
            }
            values[capture.value] = value;
        }
        Self::open_socket(dialog, request)
    }
}

/// Whether an answer's status is expected.
pub(super) fn expect_status(request: &Request, status: u16) -> Result<(), Wrong> {
    let expected = match request.expect.status.as_slice() {
        [] => (200..400).contains(&status),
        listed => listed.contains(&status),
    };
    if expected {
        return Ok(());
    }
    let outcome = if status >= 400 { Outcome::Status } else { Outcome::Unexpected };
    Err(Wrong { outcome, why: format!("an answer was {status}") })
}

/// Whether an answer with an expected status is as it must be otherwise.
pub(super) fn expect(request: &Request, head: &[u8], body: &[u8], length: u64) -> Result<(), Wrong> {
    let wrong = |why: String| Err(Wrong { outcome: Outcome::Unexpected, why });
    let expected = &request.expect;
    if let Some(wanted) = expected.length.filter(|wanted| wanted.0 != length) {
        return wrong(format!("a body had {length} bytes instead of {}", wanted.0));
    }
    if let Some(text) = &expected.text
        && !contains(body, text.as_bytes())
    {
        return wrong(format!("a body lacked `{}`", text.chars().take(60).collect::<String>()));
    }
    if let Some((name, text)) = &expected.header
        && !field(head, name.as_bytes()).is_some_and(|value| contains(value, text.as_bytes()))
    {
        return wrong(format!("the field {name} lacked `{}`", text.chars().take(60).collect::<String>()));
    }
    Ok(())
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty() || bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Puts fields on one line each that go on in the next: what is between becomes spaces (RFC 9112 section 5.2).
fn unfold(head: &mut [u8]) {
    for end in 1..head.len() {
        if head[end - 1] == b'\n' && matches!(head[end], b' ' | b'\t') {
            head[end - 1] = b' ';
            if end > 1 && head[end - 2] == b'\r' {
                head[end - 2] = b' ';
            }
        }
    }
}

/// The fields of a head, each without the white space around its value.
pub(super) fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    head.split(|byte| *byte == b'\n').skip(1).filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// The value of the first field of this name.
pub(super) fn field<'h>(head: &'h [u8], name: &[u8]) -> Option<&'h [u8]> {
    fields(head).find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Takes the cookies that an answer sets (RFC 6265). Whose they are isn't looked at: there is one server.
fn take_cookies(head: &[u8], cookies: &mut Vec<(Vec<u8>, Vec<u8>)>) {
    for (_, value) in fields(head).filter(|(name, _)| name.eq_ignore_ascii_case(b"set-cookie")) {
        let mut parts = value.split(|byte| *byte == b';');
        let pair = parts.next().unwrap_or_default();
        let Some(equals) = pair.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        if name.is_empty() || name.len() + value.len() > COOKIE_BYTES {
            continue;
        }
        let over = ends_life(parts);
        let own = cookies.iter().position(|(own, _)| own == name);
        match own {
            Some(at) if over => drop(cookies.remove(at)),
            Some(at) => cookies[at].1 = value.to_vec(),
            None if over || cookies.len() >= COOKIES_MAX => {}
            None => cookies.push((name.to_vec(), value.to_vec())),
        }
    }
}

/// Whether these attributes take a cookie back, by ending its life: by `Max-Age` where that is there, else by `Expires`. Servers say 1970
/// then; another year isn't compared, as loads are short.
fn ends_life<'c>(attributes: impl Iterator<Item = &'c [u8]>) -> bool {
    let (mut by_age, mut by_date) = (None, false);
    for attribute in attributes {
        let Some(equals) = attribute.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = (attribute[..equals].trim_ascii(), attribute[equals + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"max-age") && !value.is_empty() {
            by_age = Some(value[0] == b'-' || value.iter().all(|byte| *byte == b'0'));
        } else if name.eq_ignore_ascii_case(b"expires") {
            by_date = [&b" 1970"[..], b"-1970", b"-70 "].iter().any(|year| contains(value, year));
        }
    }
    by_age.unwrap_or(by_date)
}

/// Decodes a body into `decoded`.
pub(super) fn decode(coding: &[u8], body: &[u8], decoded: &mut Vec<u8>) -> Result<(), Wrong> {
    decoded.clear();
    let most = KEPT as u64 + 1;
    let done = if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") {
        MultiGzDecoder::new(body).take(most).read_to_end(decoded)
    } else if coding.eq_ignore_ascii_case(b"deflate") {
        // With zlib's header, as the standard has it, or without, as some servers do.
        ZlibDecoder::new(body).take(most).read_to_end(decoded).or_else(|_| {
            decoded.clear();
            DeflateDecoder::new(body).take(most).read_to_end(decoded)
        })
    } else if coding.eq_ignore_ascii_case(b"identity") {
        decoded.extend_from_slice(body);
        Ok(body.len())
    } else {
        let coding = String::from_utf8_lossy(coding).chars().take(40).collect::<String>();
        return Err(Wrong { outcome: Outcome::Unexpected, why: format!("a body is coded as `{coding}`") });
    };
    match done {
        Ok(length) if length <= KEPT => Ok(()),
        Ok(_) => Err(Wrong { outcome: Outcome::Unexpected, why: "a body is longer than 16 MiB".to_owned() }),
        Err(error) => Err(Wrong { outcome: Outcome::Corrupt, why: format!("decoding a body: {error}") }),
    }
}

/// A value of JSON as it is written into a request.
fn scalar(value: &serde_json::Value) -> Option<Vec<u8>> {
    match value {
        serde_json::Value::String(text) => Some(text.clone().into_bytes()),
        serde_json::Value::Number(number) => Some(number.to_string().into_bytes()),
        serde_json::Value::Bool(yes) => Some(yes.to_string().into_bytes()),
        serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests;
