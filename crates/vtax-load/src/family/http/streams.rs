//! HTTP/2 as the engine sees it: several requests at once on each connection, answered in any order.
//!
//! Header blocks are written before the load begins; on the path of a request nothing is allocated once a connection has had as
//! many streams as it may have. Answers are kept only as far as something is expected of them.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::distr::Distribution;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;
use vtax_plan::model::HttpCompression;
use vtax_units::Nanos;
use vtax_wire::http2::{Client, End, ErrorCode, Events, Http2Error, Prepared};

use super::HttpRequests;
use super::exchange::{KEPT, Wrong, decode, expect, expect_status, field};
use super::http2_found::{Http2Details, Tally};
use super::result::{HttpDetails, HttpExchanges, HttpRequestDetails};
use super::script::{Body, PIECE, Ready, Request, write};
use crate::requests::{Answer, Dialogue, Ended, Outcome, Taken};
use crate::{Details, LoadError};

/// Requests made ready for HTTP/2. Each session has one.
#[derive(Debug)]
pub(super) struct Multiplexed {
    ready: Ready,
    /// By session, as those of `ready`.
    blocks: Vec<Prepared>,
    /// Bodies that are texts; empty where they aren't.
    texts: Vec<Vec<u8>>,
    /// Streams of a connection at once.
    streams: u32,
    /// Replies are timed and told apart.
    looks: bool,
    by: &'static str,
}

impl Multiplexed {
    /// Makes requests ready that are checked.
    ///
    /// # Errors
    /// An expression isn't one.
    pub(super) fn new(requests: &HttpRequests, streams: u32) -> Result<Self, LoadError> {
        let ready = Ready::new(requests)?;
        let text = |session: &Vec<Request>| {
            let mut text = Vec::new();
            if let Some(Body::Text(parts)) = session.first().map(|request| &request.body) {
                write(parts, &[], &mut text);
            }
            text
        };
        let texts: Vec<Vec<u8>> = ready.sessions.iter().map(text).collect();
        Ok(Self {
            blocks: blocks(requests, &ready, &texts),
            ready,
            texts,
            streams,
            looks: requests.tls.is_some() || requests.script.is_some(),
            by: if requests.tls.is_some() { "ALPN" } else { "prior knowledge" },
        })
    }

    fn request(&self, number: u32) -> &Request {
        &self.ready.sessions[number as usize][0]
    }

    /// Bytes of a request's body.
    fn length(&self, number: u32) -> u64 {
        match &self.request(number).body {
            Body::None => 0,
            Body::Size(size) => *size,
            Body::Text(_) => self.texts[number as usize].len() as u64,
        }
    }
}

/// The header block of each request.
fn blocks(requests: &HttpRequests, ready: &Ready, texts: &[Vec<u8>]) -> Vec<Prepared> {
    let scheme = if requests.tls.is_some() { "https" } else { "http" };
    let script = requests.script.as_deref();
    let steps = || script.into_iter().flat_map(|script| &script.sessions).filter_map(|s| s.steps.first());
    let names_agent = |headers: &[(String, String)]| {
        headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent"))
    };
    let mut shared = vec![(":authority", requests.host.as_str())];
    let agent = ("user-agent", "vtax");
    let same_agent = !steps().any(|step| names_agent(&step.headers));
    if same_agent {
        shared.push(agent);
    }
    if script.is_none() {
        return vec![Prepared::new(("GET", scheme, &requests.target), &shared, &[])];
    }
    let block = |(number, step): (usize, &vtax_plan::model::HttpStep)| {
        let length = match ready.sessions[number].first().map(|request| &request.body) {
            Some(Body::Size(size)) => Some(size.to_string()),
            Some(Body::Text(_)) => Some(texts[number].len().to_string()),
            Some(Body::None) | None => None,
        };
        let own: Vec<(String, &str)> =
            step.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_str())).collect();
        let mut fields: Vec<(&str, &str)> = Vec::new();
        if !same_agent && !names_agent(&step.headers) {
            fields.push(agent);
        }
        if ready.compression != HttpCompression::None {
            fields.push(("accept-encoding", "gzip, deflate"));
        }
        fields.extend(own.iter().map(|(name, value)| (name.as_str(), *value)));
        fields.extend(length.as_deref().map(|length| ("content-length", length)));
        Prepared::new((&step.method, scheme, &step.target), &shared, &fields)
    };
    steps().enumerate().map(block).collect()
}

/// One worker's requests.
#[derive(Debug)]
pub(super) struct Http2 {
    ready: Arc<Multiplexed>,
    random: StdRng,
    zipf: Option<Zipf<f64>>,
    now: u64,
    /// What happens earlier isn't recorded.
    from: u64,
    found: Found,
}

/// What a worker found.
#[derive(Debug)]
struct Found {
    tally: Tally,
    exchanges: HttpExchanges,
    first_failure: Option<String>,
    /// A body after decoding.
    decoded: Vec<u8>,
}

/// A connection; nothing where there is none.
#[derive(Debug, Default)]
pub(super) struct Streams(Option<Box<Connection>>);

#[derive(Debug)]
struct Connection {
    client: Client,
    /// What is to be sent.
    out: Vec<u8>,
    /// Requests by the places of their streams.
    asked: Vec<Asked>,
    /// Requests that have ended and weren't told yet, by the places of their streams.
    ended: VecDeque<(u32, Ended)>,
}

/// A request that is under way, or was.
#[derive(Debug, Default)]
struct Asked {
    /// Which of all.
    number: u32,
    /// When it was written, and when the first of its answer came; 0: not yet.
    sent: u64,
    heard: u64,
    /// Bytes of the answer's body so far, and of its header block.
    length: u64,
    block: u64,
    /// The fields, in HTTP/1.1's form, and the body, as far as they are looked at.
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Http2 {
    /// `seed` tells steps and workers apart; `from` is when recording begins, in nanoseconds since the load's epoch.
    pub(super) fn new(ready: Arc<Multiplexed>, seed: u64, from: u64) -> Self {
        let named =
            |name: &String| HttpRequestDetails { name: name.clone(), ..HttpRequestDetails::default() };
        let requests = ready.ready.names.iter().map(named).collect();
        let count = ready.ready.sessions.len() as f64;
        let zipf = ready.ready.zipf.and_then(|exponent| Zipf::new(count, exponent).ok());
        Self {
            ready,
            random: StdRng::seed_from_u64(seed),
            zipf,
            now: 0,
            from,
            found: Found {
                tally: Tally::default(),
                exchanges: HttpExchanges { requests, ..HttpExchanges::default() },
                first_failure: None,
                decoded: Vec::new(),
            },
        }
    }

    /// The request that comes next.
    fn choose(&mut self) -> u32 {
        let ready = &self.ready.ready;
        let count = ready.sessions.len();
        let number = match &self.zipf {
            _ if count == 1 => 0,
            // From 1; rounding may reach one too far.
            Some(zipf) => (zipf.sample(&mut self.random) as usize).clamp(1, count) - 1,
            None => ready.by_weight(self.random.random_range(0..ready.weight().max(1))),
        };
        // There are at most 100,000.
        number as u32
    }

    fn connection<'c>(&self, streams: &'c mut Streams) -> &'c mut Connection {
        let made = || {
            Box::new(Connection {
                client: Client::new(self.ready.streams),
                out: Vec::new(),
                asked: (0..self.ready.streams).map(|_| Asked::default()).collect(),
                ended: VecDeque::with_capacity(self.ready.streams as usize),
            })
        };
        streams.0.get_or_insert_with(made)
    }
}

impl Dialogue for Http2 {
    type Connection = Streams;

    const SENDS_BESIDES_REQUESTS: bool = true;
    const ANSWERS_IN_ANY_ORDER: bool = true;

    fn depth(&self) -> u32 {
        self.ready.streams
    }

    // Of the last request of a connection nothing is said: GOAWAY makes some servers drop what is under way on it.
    fn write(&mut self, streams: &mut Streams, _last: bool, _out: &mut Vec<u8>) {
        let number = self.choose();
        let connection = self.connection(streams);
        let length = self.ready.length(number);
        let block = &self.ready.blocks[number as usize];
        // The engine asks for room first; a request without a stream would time out.
        let Some(place) = connection.client.open(block, length, &mut connection.out) else { return };
        let asked = &mut connection.asked[place as usize];
        (asked.number, asked.sent, asked.heard) = (number, self.now.max(1), 0);
        (asked.length, asked.block) = (0, 0);
        asked.head.clear();
        asked.body.clear();
        if self.now >= self.from {
            self.found.tally.opened(connection.client.open_streams());
        }
    }

    fn read(&mut self, streams: &mut Streams, bytes: &[u8]) -> Result<Taken, Outcome> {
        let Some(connection) = &mut streams.0 else { return Err(Outcome::Protocol) };
        let mut events = StreamEvents {
            ready: &self.ready,
            found: &mut self.found,
            asked: &mut connection.asked,
            ended: &mut connection.ended,
            now: self.now,
            from: self.from,
            answered: connection.client.answered() > 0,
        };
        let taken = connection.client.take(bytes, &mut connection.out, &mut events);
        let answers = Taken { bytes: bytes.len(), answer: None };
        taken.map(|()| answers).map_err(|error| self.failed(error))
    }

    fn end(&mut self, streams: &mut Streams) -> Result<Option<Answer>, Outcome> {
        let settled = streams.0.as_ref().is_none_or(|connection| connection.client.allowed().is_some());
        if !settled {
            let why = "HTTP/2: the server ended the connection before its SETTINGS: it may not speak HTTP/2";
            self.found.first_failure.get_or_insert_with(|| why.to_owned());
        }
        Err(Outcome::Reset)
    }

    fn details(&mut self) -> Option<Details> {
        let exchanges = self.ready.looks.then(|| std::mem::take(&mut self.found.exchanges));
        let http2: Http2Details = self.found.tally.told(self.ready.by);
        let first_failure = self.found.first_failure.take();
        let http = HttpDetails { exchanges, http2: Some(http2), first_failure, ..HttpDetails::default() };
        Some(Details { http: Some(Box::new(http)), ..Details::default() })
    }

    fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    fn write_besides(&mut self, streams: &mut Streams, out: &mut Vec<u8>) {
        let ready = Arc::clone(&self.ready);
        let Connection { client, out: own, asked, .. } = self.connection(streams);
        client.greet(own);
        out.append(own);
        client.drained();
        client.body(PIECE, out, |place, left, length, out| {
            let number = asked[place as usize].number;
            match &ready.request(number).body {
                Body::Text(_) => {
                    let text = &ready.texts[number as usize];
                    // What is left is a part of it.
                    let from = text.len() - (left as usize).min(text.len());
                    out.extend_from_slice(&text[from..(from + length).min(text.len())]);
                }
                Body::Size(_) | Body::None => {
                    let noise = &ready.ready.noise;
                    let mut rest = length;
                    while rest > 0 {
                        let part = rest.min(noise.len());
                        out.extend_from_slice(&noise[..part]);
                        rest -= part;
                    }
                }
            }
        });
    }

    fn place(&mut self, streams: &mut Streams) -> u32 {
        self.connection(streams).client.next_place().unwrap_or(0)
    }

    fn has_room(&self, streams: &Streams) -> bool {
        streams.0.as_ref().is_none_or(|connection| connection.client.can_open())
    }

    fn next(&mut self, streams: &mut Streams) -> Option<(u32, Ended)> {
        streams.0.as_mut()?.ended.pop_front()
    }

    fn give_up(&mut self, streams: &mut Streams, place: u32) -> bool {
        let Some(connection) = &mut streams.0 else { return false };
        let given_up = connection.client.give_up(place, &mut connection.out);
        if given_up && self.now >= self.from {
            self.found.tally.given_up += 1;
        }
        given_up
    }
}

impl Http2 {
    fn failed(&mut self, error: Http2Error) -> Outcome {
        self.found.first_failure.get_or_insert_with(|| format!("HTTP/2: {error}"));
        Outcome::Protocol
    }
}

/// Takes the events of a connection's streams while bytes of it are read.
struct StreamEvents<'a> {
    ready: &'a Multiplexed,
    found: &'a mut Found,
    asked: &'a mut [Asked],
    ended: &'a mut VecDeque<(u32, Ended)>,
    now: u64,
    from: u64,
    /// The connection had an answer before.
    answered: bool,
}

impl StreamEvents<'_> {
    fn is_recorded(&self) -> bool {
        self.now >= self.from
    }

    /// A whole answer has come: what it is worth.
    fn judge(&mut self, place: u32, status: u16) -> Result<(), Wrong> {
        let asked = &self.asked[place as usize];
        let request = self.ready.request(asked.number);
        expect_status(request, status)?;
        if !request.keeps_head && !request.keeps_body && request.expect.length.is_none() {
            return Ok(());
        }
        let decodes = self.ready.ready.compression == HttpCompression::Decode && !request.is_head;
        // An answer without a body may name the coding that its body would have.
        let decodes = decodes && asked.length > 0;
        let coding = field(&asked.head, b"content-encoding").filter(|coding| decodes && !coding.is_empty());
        let (body, length) = match coding {
            None => (&asked.body, asked.length),
            Some(coding) => {
                decode(coding, &asked.body, &mut self.found.decoded)?;
                self.found.exchanges.decoded += u64::from(self.now >= self.from);
                (&self.found.decoded, self.found.decoded.len() as u64)
            }
        };
        expect(request, &asked.head, body, length)
    }

    /// Writes down what was seen of an answer.
    fn write_down(&mut self, place: u32, good: bool) {
        let asked = &self.asked[place as usize];
        if !self.ready.looks || asked.sent < self.from {
            return;
        }
        let found = &mut self.found.exchanges;
        found.body_bytes += asked.length;
        found.head_bytes += asked.block;
        found.response.record(Nanos(asked.heard.saturating_sub(asked.sent)));
        found.transfer.record(Nanos(self.now.saturating_sub(asked.heard)));
        *(if good { &mut found.sessions } else { &mut found.broken_sessions }) += 1;
        let number = self.ready.request(asked.number).number;
        let Some(own) = number.and_then(|number| found.requests.get_mut(number)) else { return };
        if good {
            own.ok += 1;
            own.times.record(Nanos(self.now.saturating_sub(asked.sent)));
        } else {
            own.failed += 1;
        }
    }

    fn tell(&mut self, place: u32, outcome: Outcome, status: u16) {
        self.ended.push_back((place, Ended::Answered(Answer { outcome, status, keep: true })));
    }

    fn broke(&mut self, place: u32, outcome: Outcome, why: impl FnOnce() -> String) {
        self.found.first_failure.get_or_insert_with(why);
        let asked = &mut self.asked[place as usize];
        if asked.heard == 0 {
            asked.heard = self.now;
        }
        if self.ready.looks && asked.sent >= self.from {
            self.found.exchanges.broken_sessions += 1;
        }
        self.tell(place, outcome, 0);
    }
}

impl Events for StreamEvents<'_> {
    fn frame(&mut self, kind: u8) {
        if self.is_recorded() {
            self.found.tally.frame(kind);
        }
    }

    fn field(&mut self, place: u32, name: &[u8], value: &[u8]) {
        let asked = &mut self.asked[place as usize];
        if !self.ready.request(asked.number).keeps_head {
            return;
        }
        // The line of the status comes first in HTTP/1.1.
        if asked.head.is_empty() {
            asked.head.push(b'\n');
        }
        for part in [name, b": ", value, b"\n"] {
            asked.head.extend_from_slice(part);
        }
    }

    fn head(&mut self, place: u32, _status: u16, block: usize) {
        let asked = &mut self.asked[place as usize];
        asked.heard = self.now.max(1);
        asked.block = block as u64;
        if self.now >= self.from {
            self.found.tally.head_bytes += block as u64;
        }
    }

    fn data(&mut self, place: u32, bytes: &[u8]) {
        let asked = &mut self.asked[place as usize];
        asked.length += bytes.len() as u64;
        if self.ready.request(asked.number).keeps_body {
            let room = KEPT.saturating_sub(asked.body.len());
            asked.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn ended(&mut self, place: u32, end: End) {
        match end {
            End::Whole(status) => {
                self.answered = true;
                let judged = self.judge(place, status);
                self.write_down(place, judged.is_ok());
                let outcome = match judged {
                    Ok(()) => Outcome::Ok,
                    Err(Wrong { outcome, why }) => {
                        self.found.first_failure.get_or_insert(why);
                        outcome
                    }
                };
                self.tell(place, outcome, status);
            }
            // A connection that answers nothing and refuses all would be asked for ever.
            End::Refused if self.answered => {
                self.found.tally.again += u64::from(self.is_recorded());
                self.ended.push_back((place, Ended::Refused));
            }
            End::Refused => {
                self.found.tally.reset(ErrorCode::REFUSED_STREAM, self.is_recorded());
                self.broke(place, Outcome::Reset, || "HTTP/2: the server refused a stream".to_owned());
            }
            End::Reset(code) => {
                self.found.tally.reset(code, self.is_recorded());
                self.broke(place, Outcome::Reset, || format!("HTTP/2: the server reset a stream: {code}"));
            }
            End::Malformed => {
                self.found.tally.malformed += u64::from(self.is_recorded());
                self.broke(place, Outcome::Protocol, || "HTTP/2: an answer can't be one".to_owned());
            }
        }
    }

    fn goaway(&mut self, code: ErrorCode) {
        self.found.tally.goaway(code, self.is_recorded());
        if code != ErrorCode::NO_ERROR {
            self.found.first_failure.get_or_insert_with(|| format!("HTTP/2: the server went away: {code}"));
        }
    }
}
