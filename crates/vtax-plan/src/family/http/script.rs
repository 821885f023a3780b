//! What an HTTP workload asks for where that is more than one GET: mixes of requests, sessions, what answers must be.

use regex_lite::Regex;
use serde::{Deserialize, Serialize};
use vtax_units::{Bytes, Nanos};

/// Requests of one or several kinds, alone or in sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpScript {
    /// What is chosen from, again and again.
    pub sessions: Vec<HttpSessionPlan>,
    /// Exponent of Zipf's law, by which the first is chosen most often; `None`: by weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zipf: Option<f64>,
    /// What is done about compressed bodies.
    #[serde(default)]
    pub compression: HttpCompression,
    /// A session sends the cookies back that it was given.
    #[serde(default)]
    pub cookies: bool,
}

/// Requests of one user, one after the other. A session of one request is just that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpSessionPlan {
    /// How often it is chosen, in relation to the others.
    pub weight: u32,
    /// Its requests, in their order.
    pub steps: Vec<HttpStep>,
}

/// A request of a session, and what its answer must be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpStep {
    /// The method.
    pub method: String,
    /// Request target in origin form. Like header values and a body's text it may hold `${NAME}`, a value that the
    /// session captured before.
    pub target: String,
    /// Header fields besides those that vtax writes, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// What is sent with it.
    #[serde(default)]
    pub body: HttpBody,
    /// The body is sent in chunks instead of with its length.
    #[serde(default)]
    pub chunked: bool,
    /// The body is sent once the server has said that it may be (`100 Continue`).
    #[serde(default)]
    pub expect_continue: bool,
    /// Pause before it; the first request of a session has none.
    #[serde(default)]
    pub think: Nanos,
    /// Values of the answer that later requests of the session use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub captures: Vec<HttpCapture>,
    /// What the answer must be.
    #[serde(default)]
    pub expect: HttpExpectation,
    /// It opens a WebSocket (RFC 6455), on which messages are sent and come back; then that is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub websocket: Option<HttpWebSocket>,
}

/// Messages on a WebSocket, each sent when the one before has come back. The opening, each message and the closing count as requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpWebSocket {
    /// How many.
    pub messages: u32,
    /// Bytes of each.
    pub size: Bytes,
    /// Pause before each.
    pub think: Nanos,
    /// They are text instead of bytes.
    pub text: bool,
}

/// What is sent with a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HttpBody {
    /// Nothing.
    #[default]
    None,
    /// This text.
    Text(String),
    /// So many bytes that don't compress.
    Size(Bytes),
}

/// A value of an answer that later requests of the session use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpCapture {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub from: HttpSource,
}

/// Where a value is in an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HttpSource {
    /// In a body of JSON: a pointer (RFC 6901).
    Json(String),
    /// In the body: the first group of a regular expression, or all that it matches.
    Regex(String),
    /// The value of a header field.
    Header(String),
}

/// What an answer must be. Another one is an error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpExpectation {
    /// Its status; empty: 200 to 399.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<u16>,
    /// The length of its body, decoded where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Bytes>,
    /// What is in its body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A header field, and what is in its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<(String, String)>,
}

/// What is done about compressed bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HttpCompression {
    /// They aren't asked for.
    #[default]
    None,
    /// gzip and deflate are asked for, and taken as they come.
    Accept,
    /// They are asked for and decoded, which a browser does.
    Decode,
}

impl HttpStep {
    /// A GET of this target, whose answer must be a success.
    #[must_use]
    pub fn get(target: &str) -> Self {
        Self {
            method: "GET".to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: HttpBody::None,
            chunked: false,
            expect_continue: false,
            think: Nanos::ZERO,
            captures: Vec::new(),
            expect: HttpExpectation::default(),
            websocket: None,
        }
    }

    /// Why it makes no sense: the key, and what is wrong with it. `known` are the names of what was captured before it.
    ///
    /// # Errors
    /// The first that is found.
    pub fn check(&self, known: &[&str]) -> Result<(), (&'static str, String)> {
        let wrong = |key, reason: &str| Err((key, reason.to_owned()));
        if self.method.is_empty() || self.method.len() > 32 || !self.method.bytes().all(is_token) {
            return wrong("method", "it is no method such as `GET`");
        }
        if self.method == "CONNECT" {
            return wrong("method", "CONNECT makes a tunnel, which a web server has none of");
        }
        if !self.target.starts_with('/') || self.target.len() > TARGET_MAX {
            return wrong("target", "it must start with `/` and have at most 4096 characters");
        }
        if !self.target.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
            return wrong("target", "spaces, `#` and other than ASCII must be %-encoded");
        }
        for (name, value) in &self.headers {
            check_header(name, value)?;
        }
        if let Some(websocket) = &self.websocket {
            self.check_websocket(websocket)?;
        }
        if self.headers.len() > HEADERS_MAX {
            return wrong("headers", "a request has at most 100 of them");
        }
        let bytes = match &self.body {
            HttpBody::None if self.chunked => return wrong("chunked", "there is no body to send in chunks"),
            HttpBody::None if self.expect_continue => {
                return wrong("expect_continue", "there is no body to wait with");
            }
            HttpBody::None => 0,
            HttpBody::Text(text) if text.len() > TEXT_MAX => {
                return wrong("body", "a text has at most 1 MiB");
            }
            HttpBody::Text(text) => text.len() as u64,
            HttpBody::Size(size) => size.0,
        };
        if bytes > BODY_MAX {
            return wrong("body_size", "a body has at most 64 GiB");
        }
        if let Some(status) = self.expect.status.iter().find(|status| !(200..600).contains(*status)) {
            return Err(("expect", format!("{status} is no final status")));
        }
        self.check_captures()?;
        let body = match &self.body {
            HttpBody::Text(text) => text.as_str(),
            HttpBody::None | HttpBody::Size(_) => "",
        };
        let texts = [self.target.as_str(), body].into_iter();
        for name in texts.chain(self.headers.iter().map(|(_, value)| value.as_str())).flat_map(names_in) {
            if !known.contains(&name) {
                return Err(("capture", format!("`{name}` is used, and no request before it captures it")));
            }
        }
        Ok(())
    }
}

impl HttpStep {
    fn check_captures(&self) -> Result<(), (&'static str, String)> {
        if self.captures.len() > CAPTURES_MAX {
            return Err(("capture", "a request has at most 32 of them".to_owned()));
        }
        for HttpCapture { name, from } in &self.captures {
            if !is_name(name) {
                let name: String = name.chars().take(40).collect();
                return Err(("capture", format!("`{name}` is no name of letters, digits and `_`")));
            }
            if let HttpSource::Regex(pattern) = from {
                Regex::new(pattern).map_err(|error| ("capture", format!("`{name}`: {error}")))?;
            }
        }
        Ok(())
    }

    fn check_websocket(&self, websocket: &HttpWebSocket) -> Result<(), (&'static str, String)> {
        let wrong = |reason: &str| Err(("websocket", reason.to_owned()));
        if self.method != "GET" || self.body != HttpBody::None {
            return wrong("a WebSocket is opened by GET, without a body");
        }
        if !(1..=MESSAGES_MAX).contains(&websocket.messages) {
            return wrong("there must be 1 to 1000000 messages");
        }
        if websocket.size.0 > MESSAGE_MAX {
            return wrong("a message has at most 16 MiB");
        }
        let own =
            |(name, _): &&(String, String)| OF_WEBSOCKETS.iter().any(|own| name.eq_ignore_ascii_case(own));
        if let Some((name, _)) = self.headers.iter().find(own) {
            return Err((
                "headers",
                format!("`{name}` is written by vtax itself where a WebSocket is opened"),
            ));
        }
        let of_bodies = |capture: &HttpCapture| !matches!(capture.from, HttpSource::Header(_));
        if self.captures.iter().any(of_bodies) {
            return wrong("the answer that opens it has no body to capture from");
        }
        if self.expect.length.is_some() || self.expect.text.is_some() || !self.expect.status.is_empty() {
            return wrong(
                "the answer that opens it is 101 without a body; only `header` can be expected besides",
            );
        }
        Ok(())
    }
}

/// Messages of a WebSocket.
const MESSAGES_MAX: u32 = 1_000_000;
/// Longest message.
const MESSAGE_MAX: u64 = 16 << 20;
/// Fields of the handshake (RFC 6455 section 4.1).
const OF_WEBSOCKETS: [&str; 4] =
    ["upgrade", "sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions"];

/// Longest request target.
const TARGET_MAX: usize = 4096;
/// Longest text of a body: it is kept in the plan.
pub(super) const TEXT_MAX: usize = 1 << 20;
/// Longest body that is made.
const BODY_MAX: u64 = 64 << 30;
/// Header fields of a request.
const HEADERS_MAX: usize = 100;
/// Values captured of an answer.
const CAPTURES_MAX: usize = 32;
/// Fields that say how long a message is and what becomes of its connection: vtax writes them itself.
const OWN_FIELDS: [&str; 6] =
    ["host", "content-length", "transfer-encoding", "connection", "expect", "accept-encoding"];

fn check_header(name: &str, value: &str) -> Result<(), (&'static str, String)> {
    let shown: String = name.chars().take(40).collect();
    if name.is_empty() || name.len() > 200 || !name.bytes().all(is_token) {
        return Err(("headers", format!("`{shown}` is no name of a header field")));
    }
    if OWN_FIELDS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return Err(("headers", format!("`{shown}` is written by vtax itself")));
    }
    if value.len() > 8192 || value.bytes().any(|b| b.is_ascii_control() && b != b'\t') {
        return Err((
            "headers",
            format!("the value of `{shown}` has control characters, or over 8192 bytes"),
        ));
    }
    Ok(())
}

/// A character of a token (RFC 9110 section 5.6.2).
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 60 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The names in `${…}`, in their order. Other text with a dollar sign is just that.
pub fn names_in(text: &str) -> impl Iterator<Item = &str> {
    parts_of(text).filter_map(|(_, name)| name)
}

/// A text as what stands before each `${…}` and the name in it; the last has no name.
pub fn parts_of(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut from = 0;
        while let Some(at) = text[from..].find("${").map(|at| from + at) {
            let after = &text[at + 2..];
            if let Some((name, tail)) = after.split_once('}').filter(|(name, _)| is_name(name)) {
                rest = Some(tail);
                return Some((&text[..at], Some(name)));
            }
            from = at + 2;
        }
        rest = None;
        Some((text, None))
    })
}

impl HttpScript {
    /// Why it makes no sense: the number of a session and of its step, the key, and what is wrong with it.
    ///
    /// # Errors
    /// The first that is found.
    pub fn check(&self) -> Result<(), (usize, usize, &'static str, String)> {
        for (number, session) in self.sessions.iter().enumerate() {
            let mut known: Vec<&str> = Vec::new();
            for (place, step) in session.steps.iter().enumerate() {
                step.check(&known).map_err(|(key, reason)| (number, place, key, reason))?;
                known.extend(step.captures.iter().map(|capture| capture.name.as_str()));
            }
            if session.steps.is_empty() || session.steps.len() > STEPS_MAX {
                return Err((number, 0, "steps", format!("a session has 1 to {STEPS_MAX} requests")));
            }
        }
        if self.sessions.is_empty() || self.sessions.len() > SESSIONS_MAX {
            return Err((0, 0, "requests", format!("there must be 1 to {SESSIONS_MAX} of them")));
        }
        if self.zipf.is_none() && self.sessions.iter().all(|session| session.weight == 0) {
            return Err((0, 0, "weight", "all weights are 0: nothing would be asked".to_owned()));
        }
        self.check_zipf()
    }

    /// Why it can't be asked for by HTTP/2: the number of a session, the key, and what is wrong with it. Requests that are sessions by
    /// themselves are all that streams have.
    ///
    /// # Errors
    /// The first that is found.
    pub fn check_http2(&self) -> Result<(), (usize, &'static str, String)> {
        for (number, session) in self.sessions.iter().enumerate() {
            let wrong = |key, reason: &str| Err((number, key, reason.to_owned()));
            let [step] = session.steps.as_slice() else {
                return wrong("steps", "sessions of several requests need HTTP/1.1");
            };
            if step.websocket.is_some() {
                return wrong("websocket", "WebSockets need HTTP/1.1");
            }
            if step.chunked {
                return wrong("chunked", "HTTP/2 has no chunks: a body is in frames anyway");
            }
            if step.expect_continue {
                return wrong("expect_continue", "it needs HTTP/1.1");
            }
            if !step.captures.is_empty() {
                return wrong("capture", "there is no later request of the session");
            }
            let of_1_1 =
                |(name, _): &&(String, String)| OF_HTTP_1_1.iter().any(|own| name.eq_ignore_ascii_case(own));
            if let Some((name, _)) = step.headers.iter().find(of_1_1) {
                return Err((number, "headers", format!("`{name}` is of HTTP/1.1 alone")));
            }
        }
        if self.cookies {
            return Err((0, "cookies", "cookies are of sessions, which need HTTP/1.1".to_owned()));
        }
        Ok(())
    }

    /// Bytes that it takes in a stored plan and on the way to a generator, roughly.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.sessions.iter().map(HttpSessionPlan::text_bytes).sum()
    }

    /// True where a WebSocket is opened, which has its connection for itself.
    #[must_use]
    pub fn has_websockets(&self) -> bool {
        self.sessions.iter().flat_map(|session| &session.steps).any(|step| step.websocket.is_some())
    }

    fn check_zipf(&self) -> Result<(), (usize, usize, &'static str, String)> {
        if let Some(zipf) = self.zipf.filter(|zipf| !(0.0..=10.0).contains(zipf)) {
            return Err((0, 0, "zipf", format!("an exponent of {zipf} is not between 0 and 10")));
        }
        Ok(())
    }
}

impl HttpSessionPlan {
    /// Bytes that it takes in a stored plan and on the way to a generator, roughly.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let fields = |step: &HttpStep| {
            step.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
        };
        let body = |step: &HttpStep| if let HttpBody::Text(text) = &step.body { text.len() } else { 0 };
        let of = |step: &HttpStep| STEP_BYTES + step.target.len() + fields(step) + body(step);
        self.steps.iter().map(of).sum()
    }
}

/// What a request takes besides its texts.
const STEP_BYTES: usize = 160;
/// Fields that HTTP/2 has no use for (RFC 9113 section 8.2.2).
const OF_HTTP_1_1: [&str; 4] = ["keep-alive", "proxy-connection", "te", "upgrade"];

/// The targets of a text, one on each line, with its weight before it where that isn't 1. Empty lines and those that begin with `#`
/// are passed over.
///
/// # Errors
/// The number of the first line that is none, and why.
pub fn targets_in(text: &str) -> Result<Vec<(u32, String)>, (usize, String)> {
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| match line.split_once(char::is_whitespace) {
            None => Ok((1, line.to_owned())),
            Some((weight, target)) => match weight.parse() {
                Ok(weight) => Ok((weight, target.trim().to_owned())),
                Err(_) => {
                    let shown: String = weight.chars().take(40).collect();
                    Err((
                        number + 1,
                        format!("`{shown}` is no weight: a line is a target, or a weight and a target"),
                    ))
                }
            },
        })
        .collect()
}

/// Requests or sessions to choose from.
const SESSIONS_MAX: usize = 100_000;
/// Requests of a session.
const STEPS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_texts() {
        let parts = |text| parts_of(text).collect::<Vec<_>>();
        assert_eq!(parts("/a?t=${t}&u=${u_1}"), [("/a?t=", Some("t")), ("&u=", Some("u_1")), ("", None)]);
        assert_eq!(parts("$5 ${} ${a b} ${"), [("$5 ${} ${a b} ${", None)]);
        assert_eq!(parts("${a${b}"), [("${a", Some("b")), ("", None)]);
        assert_eq!(parts(""), [("", None)]);
    }

    #[test]
    fn targets_have_a_line_each() {
        let found = targets_in("# ours\n/a\n\n 3 /b?c=1 \r\n0\t/c");
        let of = |weight, target: &str| (weight, target.to_owned());
        assert_eq!(found, Ok(vec![of(1, "/a"), of(3, "/b?c=1"), of(0, "/c")]));
        assert_eq!(targets_in("/a\n/b c").map_err(|(line, _)| line), Err(2));
        assert_eq!(targets_in("-1 /a").map_err(|(line, _)| line), Err(1));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let refused = |change: fn(&mut HttpStep)| {
            let mut step = HttpStep::get("/a");
            change(&mut step);
            step.check(&["known"]).unwrap_err().0
        };
        assert_eq!(HttpStep::get("/a?${known}").check(&["known"]), Ok(()));
        assert_eq!(refused(|s| s.method = "G T".to_owned()), "method");
        assert_eq!(refused(|s| s.method = "CONNECT".to_owned()), "method");
        assert_eq!(refused(|s| s.target = "a".to_owned()), "target");
        assert_eq!(refused(|s| s.target = "/a b".to_owned()), "target");
        assert_eq!(refused(|s| s.target = "/${unknown}".to_owned()), "capture");
        assert_eq!(refused(|s| s.headers = vec![("Host".to_owned(), "x".to_owned())]), "headers");
        assert_eq!(refused(|s| s.headers = vec![("X".to_owned(), "a\r\nY: b".to_owned())]), "headers");
        assert_eq!(refused(|s| s.chunked = true), "chunked");
        assert_eq!(refused(|s| s.expect_continue = true), "expect_continue");
        assert_eq!(refused(|s| s.expect.status = vec![100]), "expect");
        fn captured(name: &str, from: HttpSource) -> Vec<HttpCapture> {
            vec![HttpCapture { name: name.to_owned(), from }]
        }
        assert_eq!(refused(|s| s.captures = captured("a b", HttpSource::Header("X".to_owned()))), "capture");
        assert_eq!(
            refused(|s| s.captures = captured("id", HttpSource::Regex("id=([0-9]+".to_owned()))),
            "capture"
        );
    }

    #[test]
    fn a_websocket_has_messages_within_bounds() {
        let websocket = || HttpWebSocket { messages: 3, size: Bytes(100), think: Nanos::ZERO, text: false };
        let told = |change: fn(&mut HttpStep, &mut HttpWebSocket)| {
            let (mut step, mut websocket) = (HttpStep::get("/echo"), websocket());
            change(&mut step, &mut websocket);
            HttpStep { websocket: Some(websocket), ..step }.check(&[]).map_err(|(key, _)| key)
        };
        assert_eq!(told(|_, _| ()), Ok(()));
        assert_eq!(
            told(|s, _| s.headers = vec![("Sec-WebSocket-Protocol".to_owned(), "x".to_owned())]),
            Ok(())
        );
        assert_eq!(told(|_, w| w.messages = 0), Err("websocket"));
        assert_eq!(told(|_, w| w.size = Bytes(17 << 20)), Err("websocket"));
        assert_eq!(told(|s, _| s.method = "POST".to_owned()), Err("websocket"));
        assert_eq!(told(|s, _| s.body = HttpBody::Text("a".to_owned())), Err("websocket"));
        assert_eq!(told(|s, _| s.expect.status = vec![200]), Err("websocket"));
        assert_eq!(told(|s, _| s.headers = vec![("upgrade".to_owned(), "x".to_owned())]), Err("headers"));
    }

    #[test]
    fn what_http_2_has_not_is_named() {
        let script = |steps: Vec<HttpStep>| HttpScript {
            sessions: vec![HttpSessionPlan { weight: 1, steps }],
            zipf: None,
            compression: HttpCompression::None,
            cookies: false,
        };
        let get = || HttpStep::get("/");
        let refused = |steps| script(steps).check_http2().unwrap_err().1;
        assert_eq!(script(vec![get()]).check_http2(), Ok(()));
        assert_eq!(refused(vec![get(), get()]), "steps");
        let websocket = HttpWebSocket { messages: 1, size: Bytes(1), think: Nanos::ZERO, text: true };
        let opens = HttpStep { websocket: Some(websocket), ..get() };
        assert!(script(vec![opens.clone()]).has_websockets() && !script(vec![get()]).has_websockets());
        assert_eq!(refused(vec![opens]), "websocket");
        assert_eq!(refused(vec![HttpStep { chunked: true, ..get() }]), "chunked");
        assert_eq!(refused(vec![HttpStep { expect_continue: true, ..get() }]), "expect_continue");
        let headers = vec![("Upgrade".to_owned(), "h2c".to_owned())];
        assert_eq!(refused(vec![HttpStep { headers, ..get() }]), "headers");
        let cookies = HttpScript { cookies: true, ..script(vec![get()]) };
        assert_eq!(cookies.check_http2().unwrap_err().1, "cookies");
    }
}
