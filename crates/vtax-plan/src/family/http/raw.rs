//! HTTP as written: web servers and workloads.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use vtax_units::{Bytes, Nanos};

use super::{model, script};
use crate::decode::{Decode, Many, TextMap};
use crate::diagnose::Report;
use crate::source::Spanned;
use crate::tls::TlsVersion;
use crate::tree::Node;

services! {
    /// Options of `http`.
    struct WebRaw = "this web server", ready "30s", stop "5s" {
        /// TCP port it listens on.
        default port: u16 = "8080",
        /// Worker threads; without it, one per CPU. A list makes a cell for each.
        optional workers: Many<u32>,
    }

    /// Options of `apache`.
    struct ApacheRaw = "this web server", ready "30s", stop "5s" {
        /// TCP port it listens on.
        default port: u16 = "8080",
        /// Worker processes; without it, one per CPU, or 150 with `mpm: prefork`. A list makes a cell for each.
        optional workers: Many<u32>,
        /// What becomes of connections (its MPM): `event`, `worker` or `prefork`. A list makes a cell for each.
        default mpm: Many<MpmRaw> = "event",
        /// `true`: it also serves `/page/ROWS`, which PHP renders at each request.
        default php: bool = "false",
    }

    /// Options of `nginx`.
    struct NginxRaw = "this web server", ready "30s", stop "5s" {
        /// TCP port it listens on.
        default port: u16 = "8080",
        /// Worker processes; without it, one per CPU. A list makes a cell for each.
        optional workers: Many<u32>,
        /// `true`: it also serves `/page/ROWS`, which PHP renders at each request.
        default php: bool = "false",
    }
}

raw! {
    /// Options of the `http` workload. A list of values makes a cell for each.
    struct HttpWorkloadRaw = "`http`" {
        /// What is requested: a path such as `/bytes/100`. Either this or `requests` is given.
        optional target: Many<String>,
        /// Requests and sessions to choose from, where one GET isn't all: one, or a list.
        optional requests: Many<HttpRequestRaw>,
        /// A file of the plan's folder with further targets for `requests`, one on each line, its weight before it if it isn't 1.
        optional targets_file: String,
        /// Exponent of Zipf's law, by which the first of `requests` is chosen most often; without it, they are chosen by weight.
        optional zipf: ExponentRaw,
        /// `true`: a session sends the cookies back that it was given.
        default cookies: bool = "false",
        /// What is done about compressed bodies: `none` (not asked for), `accept` (asked for, taken as they come) or `decode`.
        default compression: HttpCompressionRaw = "none",
        /// TLS between client and service, which then speaks nothing else: `none`, `any` (the newest version), `tls12` or `tls13`.
        default tls: Many<HttpTlsRaw> = "none",
        /// With TLS, the only cipher suite that is offered, as IANA names it; without it, all that are safe.
        optional cipher: Many<String>,
        /// With TLS, the only group of the key exchange that is offered: `x25519`, `secp256r1` or `secp384r1`; without it, all three.
        optional group: Many<String>,
        /// With TLS, whether connections resume sessions of earlier ones.
        default resume: Many<bool> = "true",
        /// With TLS, the server name that is asked for (SNI); without it, none.
        optional sni: String,
        /// With TLS, whether `http/1.1` is offered by ALPN.
        default alpn: bool = "true",
        /// The version of HTTP: `1.1`, or `2`, which over TLS is agreed on by ALPN and in the clear known beforehand.
        default version: Many<HttpVersionRaw> = "1.1",
        /// With version 2, requests under way at once on each connection; without it, 1.
        optional streams: Many<u32>,
        /// Connections; in an open loop the most that may be open at once.
        default connections: Many<u32> = "64",
        /// Requests on one connection before it is closed; without it, no limit.
        optional requests_per_connection: Many<u32>,
        /// A request not answered within this time, counted from its intended start, has failed.
        default timeout: Many<Nanos> = "2s",
    }

    /// One request, or a session of several.
    struct HttpRequestRaw = "a request", short [String; target] {
        /// How often it is chosen, in relation to the others.
        default weight: u32 = "1",
        /// The requests of a session, in their order; instead of the keys below.
        optional steps: Many<HttpStepRaw>,
        /// The method.
        default method: String = "GET",
        /// What is requested. It may hold `${NAME}`, a value that was captured before in the session.
        optional target: String,
        /// Header fields besides those that vtax writes.
        default headers: TextMap = "",
        /// A text that is sent with it.
        optional body: String,
        /// A file of the plan's folder with the text that is sent with it.
        optional body_file: String,
        /// Bytes that are sent with it, which don't compress.
        optional body_size: Bytes,
        /// `true`: the body is sent in chunks.
        default chunked: bool = "false",
        /// `true`: the body waits until the server says `100 Continue`.
        default expect_continue: bool = "false",
        /// Values of the answer that later requests use: a name for each `json`, `regex` or `header`.
        default capture: CapturesRaw = "",
        /// What the answer must be.
        default expect: HttpExpectRaw = "",
        /// It opens a WebSocket, on which so many messages are sent and come back: a number, or options.
        optional websocket: HttpWebSocketRaw,
    }

    /// One request of a session.
    struct HttpStepRaw = "a step", short [String; target] {
        /// Pause before it; the first of a session has none.
        default think: Nanos = "0s",
        /// The method.
        default method: String = "GET",
        /// What is requested. It may hold `${NAME}`, a value that was captured before in the session.
        required target: String,
        /// Header fields besides those that vtax writes.
        default headers: TextMap = "",
        /// A text that is sent with it.
        optional body: String,
        /// A file of the plan's folder with the text that is sent with it.
        optional body_file: String,
        /// Bytes that are sent with it, which don't compress.
        optional body_size: Bytes,
        /// `true`: the body is sent in chunks.
        default chunked: bool = "false",
        /// `true`: the body waits until the server says `100 Continue`.
        default expect_continue: bool = "false",
        /// Values of the answer that later requests use: a name for each `json`, `regex` or `header`.
        default capture: CapturesRaw = "",
        /// What the answer must be.
        default expect: HttpExpectRaw = "",
        /// It opens a WebSocket, on which so many messages are sent and come back: a number, or options.
        optional websocket: HttpWebSocketRaw,
    }

    /// Messages on a WebSocket, each sent when the one before has come back.
    struct HttpWebSocketRaw = "`websocket`", short [u32; messages] {
        /// How many.
        default messages: u32 = "1",
        /// Bytes of each.
        default size: Bytes = "100B",
        /// Pause before each.
        default think: Nanos = "0s",
        /// `true`: they are text instead of bytes.
        default text: bool = "false",
    }

    /// What an answer must be; another one is an error.
    struct HttpExpectRaw = "`expect`" {
        /// Its status, or a list; without it, 200 to 399.
        optional status: Many<u16>,
        /// Length of its body, decoded where it is.
        optional length: Bytes,
        /// What is in its body.
        optional text: String,
        /// A header field, with what is in its value.
        optional header: TextMap,
    }

    /// Where a value is in an answer: one of these.
    struct HttpSourceRaw = "a captured value" {
        /// In a body of JSON: a pointer (RFC 6901), such as `/token`.
        optional json: String,
        /// In the body: the first group of a regular expression, or all that it matches.
        optional regex: String,
        /// The value of this header field.
        optional header: String,
    }
}

words! {
    /// What becomes of Apache's connections.
    MpmRaw(model::Mpm) = "mpm", "MPMs" {
        "event": Event, "A few processes of many threads; a connection without a request holds none.";
        "worker": Worker, "The same, and a connection holds a thread until it ends.";
        "prefork": Prefork, "A process for each connection.";
    }
    /// What is done about compressed bodies.
    HttpCompressionRaw(script::HttpCompression) = "compression", "ways with compression" {
        "none": None, "They aren't asked for.";
        "accept": Accept, "gzip and deflate are asked for, and taken as they come.";
        "decode": Decode, "They are asked for and decoded.";
    }
    /// TLS, and its version.
    HttpTlsRaw(TlsChoice) = "tls", "versions of TLS" {
        "none": None, "Everything is sent in the clear.";
        "any": Any, "The newest that both ends have.";
        "tls12": V12, "TLS 1.2.";
        "tls13": V13, "TLS 1.3.";
    }
}

/// TLS, and its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsChoice {
    /// In the clear.
    None,
    /// The newest that both ends have.
    Any,
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}

impl TlsChoice {
    /// The only version that is spoken, `None` for any; `None` in the clear.
    pub(crate) const fn version(self) -> Option<Option<TlsVersion>> {
        match self {
            Self::None => None,
            Self::Any => Some(None),
            Self::V12 => Some(Some(TlsVersion::V12)),
            Self::V13 => Some(Some(TlsVersion::V13)),
        }
    }
}

/// A version of HTTP; whether it is 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HttpVersionRaw(pub(crate) bool);

impl Decode for HttpVersionRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let http2 = match crate::decode::scalar(node, "`1.1` or `2`", report)? {
            "1.1" => Some(false),
            "2" | "2.0" => Some(true),
            _ => None,
        };
        if http2.is_none() {
            report
                .error(node.span, format!("{} is no version of HTTP that is spoken here", node.describe()))
                .help("there are `1.1` and `2`");
        }
        http2.map(Self)
    }
}

impl JsonSchema for HttpVersionRaw {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "HttpVersion".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [1.1, 2, "1.1", "2"] })
    }
}

/// An exponent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExponentRaw(pub(crate) f64);

impl Decode for ExponentRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let number: Option<f64> =
            crate::decode::scalar(node, "a number such as `0.99`", report)?.parse().ok();
        let fits = number.filter(|number| (0.0..=10.0).contains(number));
        if fits.is_none() {
            report.error(node.span, format!("{} is not a number from 0 to 10", node.describe()));
        }
        fits.map(Self)
    }
}

impl JsonSchema for ExponentRaw {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Exponent".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 10 })
    }
}

/// Names of captured values, with where each is.
#[derive(Debug, Clone, Default)]
pub(crate) struct CapturesRaw(pub(crate) Vec<(Spanned<String>, HttpSourceRaw)>);

impl Decode for CapturesRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let entries = match &node.value {
            crate::tree::Value::Mapping(entries) => entries.as_slice(),
            _ if node.is_null() => &[],
            _ => {
                report
                    .error(
                        node.span,
                        format!("names of captured values are needed here, not {}", node.describe()),
                    )
                    .help("such as `{token: {json: /token}}`");
                return None;
            }
        };
        let source = |(key, node): &(crate::tree::Key, Node)| {
            let name = Spanned { value: key.value.to_string(), span: key.span };
            Some((name, HttpSourceRaw::decode(node, report)?))
        };
        let all: Vec<_> = entries.iter().filter_map(source).collect();
        (all.len() == entries.len()).then_some(Self(all))
    }
}

impl JsonSchema for CapturesRaw {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Captures".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let source = generator.subschema_for::<HttpSourceRaw>();
        json_schema!({ "type": "object", "additionalProperties": source })
    }
}
