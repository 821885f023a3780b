//! A script of requests made ready: what is the same each time is written once, before the load begins.

use regex_lite::Regex;
use vtax_plan::model::{
    HttpBody, HttpCompression, HttpExpectation, HttpScript, HttpSessionPlan, HttpSource, HttpStep,
    HttpWebSocket, parts_of,
};
use vtax_units::random::noise;

use super::HttpRequests;
use crate::LoadError;

/// Requests that are told apart in what was found.
const TOLD_APART: usize = 32;
/// Bytes of a body that are sent in one piece.
pub(super) const PIECE: usize = 64 << 10;

/// A script made ready.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) sessions: Vec<Vec<Request>>,
    /// Sums of the weights up to and with each session.
    sums: Vec<u64>,
    pub(super) zipf: Option<f64>,
    pub(super) compression: HttpCompression,
    pub(super) cookies: bool,
    /// Names of the requests, where they are told apart.
    pub(super) names: Vec<String>,
    /// Bytes that don't compress, as many as a piece.
    pub(super) noise: Vec<u8>,
    /// As many letters.
    pub(super) letters: Vec<u8>,
}

/// A request made ready.
#[derive(Debug)]
pub(super) struct Request {
    /// Its number among all, where they are told apart.
    pub(super) number: Option<usize>,
    pub(super) part: Part,
    /// Up to and with the last field that depends on nothing but values.
    head: Vec<Text>,
    pub(super) body: Body,
    pub(super) chunked: bool,
    pub(super) expect_continue: bool,
    pub(super) is_head: bool,
    /// Before it, in nanoseconds.
    pub(super) think: u64,
    pub(super) captures: Vec<Capture>,
    pub(super) expect: HttpExpectation,
    /// Its answer's fields are looked at.
    pub(super) keeps_head: bool,
    /// Its answer's body is looked at.
    pub(super) keeps_body: bool,
}

/// What a request is: one of HTTP, or a part of what is done with a WebSocket.
#[derive(Debug)]
pub(super) enum Part {
    /// One of HTTP.
    Http,
    /// One of HTTP that asks for a WebSocket. The messages follow, and the closing.
    Open {
        /// It offers protocols of its own, of which the server may choose.
        offers_protocol: bool,
    },
    /// Messages, one after the other: each is a request.
    Messages(Echo),
    /// The closing.
    Close,
}

/// Messages that come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Echo {
    pub(super) count: u32,
    pub(super) size: u64,
    pub(super) text: bool,
}

/// What is sent with it.
#[derive(Debug)]
pub(super) enum Body {
    None,
    Text(Vec<Text>),
    Size(u64),
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Text {
    /// As it is.
    Literal(Vec<u8>),
    /// A value of the session.
    Value(usize),
    /// A value of the session within a request target: what can't stand there is %-encoded.
    TargetValue(usize),
}

/// A value that is taken from the answer.
#[derive(Debug)]
pub(super) struct Capture {
    /// Its number among the session's values.
    pub(super) value: usize,
    pub(super) from: Source,
}

/// Where it is.
#[derive(Debug)]
pub(super) enum Source {
    Json(String),
    Regex(Regex),
    Header(String),
}

impl Ready {
    /// Makes the script ready; where there is none, a GET of the target.
    ///
    /// # Errors
    /// An expression isn't one.
    pub(super) fn new(requests: &HttpRequests) -> Result<Self, LoadError> {
        let only;
        let script = match &requests.script {
            Some(script) => script.as_ref(),
            None => {
                only = one(&requests.target);
                &only
            }
        };
        let of = |step: &HttpStep| if step.websocket.is_some() { 3 } else { 1 };
        let steps: usize = script.sessions.iter().flat_map(|session| &session.steps).map(of).sum();
        let mut names = Vec::new();
        let mut sessions = Vec::with_capacity(script.sessions.len());
        for session in &script.sessions {
            let mut values: Vec<&str> = Vec::new();
            let mut ready = Vec::with_capacity(session.steps.len());
            for step in &session.steps {
                let mut number = |what: &str| {
                    let number = (steps <= TOLD_APART).then_some(names.len());
                    if number.is_some() {
                        names.push(format!("{} {}{what}", step.method, step.target));
                    }
                    number
                };
                let opens = if step.websocket.is_some() { " (WebSocket)" } else { "" };
                ready.push(request(step, script, &requests.host, number(opens), &mut values)?);
                if let Some(websocket) = &step.websocket {
                    let HttpWebSocket { messages, size, think, text } = *websocket;
                    let echo = Echo { count: messages, size: size.0, text };
                    ready.push(on_socket(number(" (messages)"), Part::Messages(echo), think.0));
                    ready.push(on_socket(number(" (close)"), Part::Close, 0));
                }
            }
            sessions.push(ready);
        }
        let mut sum = 0;
        let sums = script.sessions.iter().map(|session| {
            sum += u64::from(session.weight);
            sum
        });
        let noise = noise(PIECE);
        Ok(Self {
            sums: sums.collect(),
            sessions,
            zipf: script.zipf,
            compression: script.compression,
            cookies: script.cookies,
            names,
            letters: noise.iter().map(|byte| b'a' + byte % 26).collect(),
            noise,
        })
    }

    /// The sum of all weights.
    pub(super) fn weight(&self) -> u64 {
        self.sums.last().copied().unwrap_or(0)
    }

    /// The session that a number below [`weight`](Self::weight) falls to.
    pub(super) fn by_weight(&self, number: u64) -> usize {
        self.sums.partition_point(|sum| *sum <= number).min(self.sessions.len() - 1)
    }
}

fn one(target: &str) -> HttpScript {
    HttpScript {
        sessions: vec![HttpSessionPlan { weight: 1, steps: vec![HttpStep::get(target)] }],
        zipf: None,
        compression: HttpCompression::None,
        cookies: false,
    }
}

fn request<'s>(
    step: &'s HttpStep,
    script: &HttpScript,
    host: &str,
    number: Option<usize>,
    values: &mut Vec<&'s str>,
) -> Result<Request, LoadError> {
    let mut head = vec![Text::Literal(format!("{} ", step.method).into_bytes())];
    append(&mut head, &step.target, values, Text::TargetValue);
    literal(&mut head, &format!(" HTTP/1.1\r\nHost: {host}\r\n"));
    if !step.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent")) {
        literal(&mut head, "User-Agent: vtax\r\n");
    }
    if script.compression != HttpCompression::None {
        literal(&mut head, "Accept-Encoding: gzip, deflate\r\n");
    }
    for (name, value) in &step.headers {
        literal(&mut head, &format!("{name}: "));
        append(&mut head, value, values, Text::Value);
        literal(&mut head, "\r\n");
    }
    let body = match &step.body {
        HttpBody::None => Body::None,
        HttpBody::Size(size) => Body::Size(size.0),
        HttpBody::Text(text) => {
            let mut parts = Vec::new();
            append(&mut parts, text, values, Text::Value);
            Body::Text(parts)
        }
    };
    let captures = captures(step, values)?;
    let (mut expect, mut part) = (step.expect.clone(), Part::Http);
    if step.websocket.is_some() {
        let offers = |(name, _): &(String, String)| name.eq_ignore_ascii_case("sec-websocket-protocol");
        part = Part::Open { offers_protocol: step.headers.iter().any(offers) };
        expect.status = vec![101];
    }
    let opens = step.websocket.is_some();
    let decodes = script.compression == HttpCompression::Decode;
    let of_head = |capture: &Capture| matches!(capture.from, Source::Header(_));
    Ok(Request {
        number,
        part,
        head,
        body,
        chunked: step.chunked,
        expect_continue: step.expect_continue,
        is_head: step.method == "HEAD",
        think: step.think.0,
        expect,
        keeps_head: opens
            || decodes
            || script.cookies
            || step.expect.header.is_some()
            || captures.iter().any(of_head),
        keeps_body: decodes || step.expect.text.is_some() || !captures.iter().all(of_head),
        captures,
    })
}

/// What is taken from the answer.
fn captures<'s>(step: &'s HttpStep, values: &mut Vec<&'s str>) -> Result<Vec<Capture>, LoadError> {
    let mut captures = Vec::with_capacity(step.captures.len());
    for capture in &step.captures {
        let from = match &capture.from {
            HttpSource::Json(pointer) => Source::Json(pointer.clone()),
            HttpSource::Header(name) => Source::Header(name.clone()),
            HttpSource::Regex(pattern) => Source::Regex(Regex::new(pattern).map_err(|error| {
                LoadError::Spec { field: "capture", reason: format!("`{}`: {error}", capture.name) }
            })?),
        };
        captures.push(Capture { value: place(values, &capture.name), from });
    }
    Ok(captures)
}

/// What is done on a WebSocket.
fn on_socket(number: Option<usize>, part: Part, think: u64) -> Request {
    Request {
        number,
        part,
        head: Vec::new(),
        body: Body::None,
        chunked: false,
        expect_continue: false,
        is_head: false,
        think,
        captures: Vec::new(),
        expect: HttpExpectation::default(),
        keeps_head: false,
        keeps_body: false,
    }
}

/// The number of a value by its name; a new one where it has none.
fn place<'s>(values: &mut Vec<&'s str>, name: &'s str) -> usize {
    values.iter().position(|own| *own == name).unwrap_or_else(|| {
        values.push(name);
        values.len() - 1
    })
}

/// Appends a text with its values.
fn append<'s>(parts: &mut Vec<Text>, text: &'s str, values: &mut Vec<&'s str>, value: fn(usize) -> Text) {
    for (before, name) in parts_of(text) {
        literal(parts, before);
        if let Some(name) = name {
            parts.push(value(place(values, name)));
        }
    }
}

/// Appends a text without values to the one before it.
fn literal(parts: &mut Vec<Text>, text: &str) {
    match parts.last_mut() {
        Some(Text::Literal(own)) => own.extend_from_slice(text.as_bytes()),
        _ if text.is_empty() => {}
        _ => parts.push(Text::Literal(text.as_bytes().to_vec())),
    }
}

impl Request {
    /// Appends its head up to the fields that say what becomes of body and connection.
    pub(super) fn write_head(&self, values: &[Vec<u8>], out: &mut Vec<u8>) {
        write(&self.head, values, out);
    }
}

/// Appends a text with its values; one that was not captured is empty.
pub(super) fn write(parts: &[Text], values: &[Vec<u8>], out: &mut Vec<u8>) {
    for part in parts {
        match part {
            Text::Literal(bytes) => out.extend_from_slice(bytes),
            Text::Value(number) => out.extend_from_slice(values.get(*number).map_or(&[][..], Vec::as_slice)),
            Text::TargetValue(number) => {
                for byte in values.get(*number).map_or(&[][..], Vec::as_slice) {
                    if byte.is_ascii_graphic() && *byte != b'#' {
                        out.push(*byte);
                    } else {
                        let digit = |four: u8| b"0123456789ABCDEF"[usize::from(four)];
                        out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use vtax_plan::model::HttpCapture;

    use super::*;

    fn ready(script: HttpScript) -> Ready {
        let requests = HttpRequests { script: Some(Box::new(script)), ..HttpRequests::get("/", "h") };
        Ready::new(&requests).unwrap()
    }

    #[test]
    fn values_stand_where_they_are_named() {
        let from = HttpSource::Json("/t".to_owned());
        let first = HttpStep {
            captures: vec![HttpCapture { name: "t".to_owned(), from }],
            ..HttpStep::get("/login")
        };
        let second = HttpStep {
            method: "POST".to_owned(),
            headers: vec![("X-Token".to_owned(), "<${t}>".to_owned())],
            body: HttpBody::Text("t=${t}".to_owned()),
            ..HttpStep::get("/a?t=${t}")
        };
        let script = HttpScript {
            sessions: vec![HttpSessionPlan { weight: 1, steps: vec![first, second] }],
            ..one("/")
        };
        let ready = ready(script);
        assert_eq!(ready.names, ["GET /login", "POST /a?t=${t}"]);
        let [first, second] = ready.sessions[0].as_slice() else { panic!("two requests") };
        assert!(first.keeps_body && !first.keeps_head && !second.keeps_body);
        let mut out = Vec::new();
        second.write_head(&[b"a b".to_vec()], &mut out);
        let head = "POST /a?t=a%20b HTTP/1.1\r\nHost: h\r\nUser-Agent: vtax\r\nX-Token: <a b>\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), head);
        let Body::Text(text) = &second.body else { panic!("a text") };
        let mut out = Vec::new();
        write(text, &[b"1".to_vec()], &mut out);
        assert_eq!(out, b"t=1");
    }

    #[test]
    fn weights_are_shares() {
        let session = |weight| HttpSessionPlan { weight, steps: vec![HttpStep::get("/")] };
        let ready = ready(HttpScript { sessions: vec![session(2), session(0), session(3)], ..one("/") });
        let chosen: Vec<usize> = (0..ready.weight()).map(|number| ready.by_weight(number)).collect();
        assert_eq!(chosen, [0, 0, 2, 2, 2]);
    }
}
