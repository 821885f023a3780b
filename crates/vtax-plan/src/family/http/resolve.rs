//! HTTP workloads.

use vtax_units::{Bytes, Nanos};

use super::model::{HttpTls, HttpWorkload, MOST_CONNECTIONS, MOST_STREAMS, MOST_STREAMS_OF_ALL};
use super::raw::{
    CapturesRaw, HttpExpectRaw, HttpRequestRaw, HttpSourceRaw, HttpStepRaw, HttpWebSocketRaw,
    HttpWorkloadRaw, TlsChoice,
};
use super::script::{
    HttpBody, HttpCapture, HttpCompression, HttpExpectation, HttpScript, HttpSessionPlan, HttpSource,
    HttpStep, HttpWebSocket, TEXT_MAX, targets_in,
};
use crate::decode::{Item, Many, TextMap};
use crate::diagnose::{Report, shorten};
use crate::folder::Refusal;
use crate::model::Workload;
use crate::raw::WorkloadRaw;
use crate::resolve::check::{LONGEST, counts_in, duration_in};
use crate::resolve::variants::{Variant, Variants};
use crate::source::{Span, Spanned};
use crate::tls::{self, TLS_GROUPS};

/// Keys that mean nothing without TLS.
const OF_TLS: [&str; 3] = ["cipher", "group", "resume"];

/// The workload, one variant for each combination of its lists.
pub(crate) fn workload(raw: &HttpWorkloadRaw, report: &mut Report) -> Variants<Workload> {
    counts_in(&raw.connections.value, "requests need a connection", MOST_CONNECTIONS, report);
    if let Some(requests) = &raw.requests_per_connection {
        counts_in(&requests.value, "a connection carries at least one request", u32::MAX, report);
    }
    for item in &raw.timeout.value.items {
        duration_in(&Spanned { value: item.value, span: item.span }, "timeout", Nanos(1), LONGEST, report);
    }
    for item in raw.target.iter().flat_map(|t| &t.value.items) {
        check_target(&Spanned { value: item.value.clone(), span: item.span }, report);
    }
    check_tls(raw, report);
    let script = script(raw, report);
    check_http2(raw, script.as_ref(), report);
    if let Some(requests) = &raw.requests_per_connection
        && script.as_ref().is_some_and(HttpScript::has_websockets)
    {
        report
            .error(requests.span, "a WebSocket has its connection for itself")
            .help("leave `requests_per_connection` out: each WebSocket ends with its connection");
    }
    let http = HttpWorkload {
        target: String::new(),
        connections: 1,
        requests_per_connection: None,
        http2_streams: None,
        timeout: Nanos::ZERO,
        tls: None,
        script: script.map(Box::new),
    };
    let settings = HttpTls {
        sni: raw.sni.as_ref().map(|sni| sni.value.clone()),
        alpn: raw.alpn.value,
        ..HttpTls::default()
    };
    let drafts = Variants::of(Draft { http, tls: TlsChoice::None, settings, http2: false, streams: 1 })
        .vary_if("target", raw.target.as_ref(), report, |d, target| d.http.target = target)
        .vary("version", &raw.version.value, report, |d, version| d.http2 = version.0)
        .vary_if("streams", raw.streams.as_ref(), report, |d, streams| d.streams = streams)
        .vary("tls", &raw.tls.value, report, |d, tls| d.tls = tls.0)
        .vary_if("cipher", raw.cipher.as_ref(), report, |d, cipher| d.settings.cipher = Some(cipher))
        .vary_if("group", raw.group.as_ref(), report, |d, group| d.settings.group = Some(group))
        .vary("resume", &raw.resume.value, report, |d, resume| d.settings.resume = resume)
        .vary("connections", &raw.connections.value, report, |d, connections| {
            d.http.connections = connections
        })
        .vary_if("requests_per_connection", raw.requests_per_connection.as_ref(), report, |d, requests| {
            d.http.requests_per_connection = Some(requests);
        })
        .vary("timeout", &raw.timeout.value, report, |d, timeout| d.http.timeout = timeout);
    distinct(drafts).map(Draft::finish)
}

/// A workload while its lists are multiplied out.
#[derive(Debug, Clone)]
struct Draft {
    http: HttpWorkload,
    tls: TlsChoice,
    settings: HttpTls,
    http2: bool,
    streams: u32,
}

impl Draft {
    fn finish(self) -> Workload {
        let Self { mut http, tls, settings, http2, streams } = self;
        http.http2_streams = http2.then_some(streams);
        http.tls = tls.version().map(|version| HttpTls { version, ..settings });
        Workload::Http(http)
    }
}

/// Leaves out those without TLS that differ in nothing but its keys, those of HTTP/1.1 that differ in nothing but streams, and those whose
/// version of TLS doesn't have their cipher suite.
fn distinct(drafts: Variants<Draft>) -> Variants<Draft> {
    let mut kept: Vec<Variant<Draft>> = Vec::with_capacity(drafts.0.len());
    let mut seen = std::collections::BTreeSet::new();
    for mut draft in drafts.0 {
        let suits = |version| tls::is_of(version, draft.value.settings.cipher.as_deref());
        if !draft.value.tls.version().is_none_or(suits) {
            continue;
        }
        let (clear, http2) = (draft.value.tls == TlsChoice::None, draft.value.http2);
        if clear || !http2 {
            let means = |key: &&str| !(clear && OF_TLS.contains(key) || !http2 && *key == "streams");
            draft.parameters.retain(|(key, _)| means(key));
            if !seen.insert(draft.parameters.clone()) {
                continue;
            }
        }
        kept.push(draft);
    }
    Variants(kept)
}

/// Whether what is asked for can be asked for by HTTP/2, where that is to be spoken.
fn check_http2(raw: &HttpWorkloadRaw, script: Option<&HttpScript>, report: &mut Report) {
    if let Some(streams) = &raw.streams {
        counts_in(&streams.value, "a connection needs a stream", MOST_STREAMS, report);
    }
    let Some(version) = asks_for_http2(raw) else {
        if let Some(streams) = &raw.streams {
            report.error(streams.span, "`streams` are of HTTP/2").help("add `version: 2`");
        }
        return;
    };
    let most = |many: &Many<u32>| many.items.iter().map(|item| u64::from(item.value)).max().unwrap_or(1);
    if let Some(streams) = &raw.streams
        && most(&streams.value).saturating_mul(most(&raw.connections.value)) > MOST_STREAMS_OF_ALL
    {
        let message =
            format!("with all connections there would be over {MOST_STREAMS_OF_ALL} streams at once");
        report.error(streams.span, message);
    }
    if !raw.alpn.value {
        report.error(raw.alpn.span, "HTTP/2 over TLS is agreed on by ALPN");
    }
    if let Some(Err((number, key, reason))) = script.map(HttpScript::check_http2) {
        let items = raw.requests.iter().flat_map(|requests| &requests.value.items);
        let span = items.map(|item| item.span).nth(number).unwrap_or(version);
        report.error(span, format!("`{key}`: {reason}")).help("write `version: 1.1`, or leave it out");
    }
}

/// Where the workload asks for HTTP/2.
pub(super) fn asks_for_http2(raw: &HttpWorkloadRaw) -> Option<Span> {
    raw.version.value.items.iter().find(|item| item.value.0).map(|item| item.span)
}

fn check_tls(raw: &HttpWorkloadRaw, report: &mut Report) {
    let versions: Vec<_> = raw.tls.value.items.iter().filter_map(|item| item.value.0.version()).collect();
    if versions.is_empty() && raw.tls.value.complete {
        let full = raw.resume.value.items.iter().find(|item| !item.value);
        let given = [
            ("cipher", raw.cipher.as_ref().map(|cipher| cipher.span)),
            ("group", raw.group.as_ref().map(|group| group.span)),
            ("resume", full.map(|item| item.span)),
            ("sni", raw.sni.as_ref().map(|sni| sni.span)),
            ("alpn", (!raw.alpn.value).then_some(raw.alpn.span)),
        ];
        tls::refuse(&given, "write `tls: any`, or leave it out", report);
    }
    for item in raw.cipher.iter().flat_map(|given| &given.value.items) {
        tls::check(&item.value, item.span, &versions, report);
    }
    for item in raw.group.iter().flat_map(|given| &given.value.items) {
        if !TLS_GROUPS.contains(&item.value.as_str()) {
            report
                .error(item.span, format!("`{}` is no group that is known here", shorten(&item.value)))
                .help(format!("there are {}", TLS_GROUPS.join(", ")));
        }
    }
    for sni in raw.sni.iter().filter(|sni| {
        let name = sni.value.as_bytes();
        name.is_empty()
            || name.len() > 253
            || !name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
    }) {
        report.error(sni.span, format!("`{}` is no name of a host", shorten(&sni.value)));
    }
}

/// What is asked instead of a GET of the target; `None` where that is all.
fn script(raw: &HttpWorkloadRaw, report: &mut Report) -> Option<HttpScript> {
    if raw.requests.is_none() && raw.targets_file.is_none() {
        one_target(raw, report);
        return None;
    }
    if let Some(target) = &raw.target {
        report.error(target.span, "either `target` or `requests` is given, not both");
    }
    let items = raw.requests.as_ref().map_or(&[][..], |requests| &requests.value.items);
    let mut sessions = sessions(items, report)?;
    if let Some(file) = &raw.targets_file {
        sessions.extend(targets_of(file, report));
        if sessions.iter().map(HttpSessionPlan::text_bytes).sum::<usize>() > SCRIPT_BYTES_MAX {
            too_much(file.span, report);
            return None;
        }
    }
    let script = HttpScript {
        sessions,
        zipf: raw.zipf.as_ref().map(|zipf| zipf.value.0),
        compression: raw.compression.value.0,
        cookies: raw.cookies.value,
    };
    if let Err((number, _, key, reason)) = script.check() {
        let whole =
            [raw.targets_file.as_ref().map(|file| file.span), raw.requests.as_ref().map(|all| all.span)];
        let span = items.get(number).map(|item| item.span).or(whole.into_iter().flatten().next());
        report.error(span.unwrap_or_default(), format!("`{key}`: {reason}"));
    }
    Some(script)
}

/// Reports what makes no sense without `requests`.
fn one_target(raw: &HttpWorkloadRaw, report: &mut Report) {
    let Some(target) = &raw.target else {
        // One that was probably meant was told already.
        if !["target", "requests", "targets_file"].iter().any(|key| report.guessed.contains(key)) {
            report
                .error(raw.timeout.span, "`http` needs the key `target`")
                .help("write what is requested, `target: /bytes/100`, or `requests` of several kinds");
        }
        return;
    };
    if let Some(zipf) = &raw.zipf {
        report.error(zipf.span, "`zipf` chooses among `requests`, and there are none");
    }
    if raw.cookies.value || raw.compression.value.0 != HttpCompression::None {
        report
            .error(target.span, "`cookies` and `compression` are of `requests`")
            .help("write `requests: [/page/100]` instead of `target`");
    }
}

/// Longest file with targets: plans are kept with their files.
const TARGETS_BYTES_MAX: usize = 2 << 20;

/// A GET of each target of a file.
fn targets_of(file: &Spanned<String>, report: &mut Report) -> Vec<HttpSessionPlan> {
    let Some(text) = read(file, TARGETS_BYTES_MAX, report) else { return Vec::new() };
    match targets_in(&text) {
        Ok(targets) => {
            if targets.is_empty() {
                report.error(file.span, format!("`{}` has no targets", shorten(&file.value)));
            }
            let session = |(weight, target): (u32, String)| HttpSessionPlan {
                weight,
                steps: vec![HttpStep::get(&target)],
            };
            targets.into_iter().map(session).collect()
        }
        Err((line, why)) => {
            report.error(file.span, format!("line {line} of `{}`: {why}", shorten(&file.value)));
            Vec::new()
        }
    }
}

/// A file of the plan's folder; `None` where it isn't there, which has been reported.
fn read(file: &Spanned<String>, most: usize, report: &mut Report) -> Option<String> {
    match report.folder.read(&file.value, most) {
        Ok(text) => Some(text),
        Err(Refusal { why, instead }) => {
            report.error(file.span, why).help(instead);
            None
        }
    }
}

/// Bytes that requests may take together: each cell keeps them, and a generator is sent them in one piece.
const SCRIPT_BYTES_MAX: usize = 6 << 20;

/// The requests and sessions that are written out; `None` where they are too much, which has been reported. Those behind that place
/// aren't looked at, since each may read a file.
fn sessions(items: &[Item<HttpRequestRaw>], report: &mut Report) -> Option<Vec<HttpSessionPlan>> {
    let (mut sessions, mut taken) = (Vec::new(), 0);
    for item in items {
        let session = session(item, report);
        taken += session.text_bytes();
        if taken > SCRIPT_BYTES_MAX {
            too_much(item.span, report);
            return None;
        }
        sessions.push(session);
    }
    Some(sessions)
}

fn too_much(span: Span, report: &mut Report) {
    let most = SCRIPT_BYTES_MAX >> 20;
    report
        .error(span, format!("the requests up to here take more than {most} MiB with their bodies"))
        .help("leave some out; where what a body says doesn't matter, `body_size: 1MiB` takes no room");
}

fn session(item: &Item<HttpRequestRaw>, report: &mut Report) -> HttpSessionPlan {
    let raw = &item.value;
    if raw.steps.is_some() {
        check_beside_steps(raw, item.span, report);
    }
    let steps = match (&raw.steps, &raw.target) {
        (Some(steps), None) => {
            steps.value.items.iter().map(|step| self::step(&step.value, step.span, report)).collect()
        }
        (Some(steps), Some(_)) => {
            report.error(steps.span, "a session has `steps`, a request a `target`: both make no sense");
            Vec::new()
        }
        (None, Some(target)) => vec![alone(raw, &target.value, item.span, report)],
        (None, None) => {
            report.error(item.span, "a request needs a `target`, a session `steps`");
            Vec::new()
        }
    };
    HttpSessionPlan { weight: raw.weight.value, steps }
}

/// Reports keys of requests that a session has beside its `steps`, none of which they would be of.
fn check_beside_steps(raw: &HttpRequestRaw, whole: Span, report: &mut Report) {
    let keys = [
        ("method", Some(raw.method.span)),
        ("headers", Some(raw.headers.span)),
        ("body", raw.body.as_ref().map(|body| body.span)),
        ("body_file", raw.body_file.as_ref().map(|file| file.span)),
        ("body_size", raw.body_size.as_ref().map(|size| size.span)),
        ("chunked", Some(raw.chunked.span)),
        ("expect_continue", Some(raw.expect_continue.span)),
        ("capture", Some(raw.capture.span)),
        ("expect", Some(raw.expect.span)),
        ("websocket", raw.websocket.as_ref().map(|websocket| websocket.span)),
    ];
    // What isn't given has its default from where the session begins.
    let default = whole.at_start();
    for (key, span) in keys.into_iter().filter_map(|(key, span)| Some((key, span?))) {
        if span != default {
            report
                .error(span, format!("`{key}` belongs into the steps of a session, not beside them"))
                .help("write it into each step that it is meant for");
        }
    }
}

fn step(raw: &HttpStepRaw, span: Span, report: &mut Report) -> HttpStep {
    HttpStep {
        method: raw.method.value.clone(),
        target: raw.target.as_ref().map(|target| target.value.clone()).unwrap_or_default(),
        headers: headers(&raw.headers.value),
        body: body((raw.body.as_ref(), raw.body_file.as_ref()), raw.body_size.as_ref(), span, report),
        chunked: raw.chunked.value,
        expect_continue: raw.expect_continue.value,
        think: duration_in(&raw.think, "think", Nanos::ZERO, LONGEST, report),
        captures: captures(&raw.capture.value, report),
        expect: expectation(&raw.expect.value, report),
        websocket: websocket(raw.websocket.as_ref(), report),
    }
}

/// A request that is a session by itself.
fn alone(raw: &HttpRequestRaw, target: &str, span: Span, report: &mut Report) -> HttpStep {
    HttpStep {
        method: raw.method.value.clone(),
        target: target.to_owned(),
        headers: headers(&raw.headers.value),
        body: body((raw.body.as_ref(), raw.body_file.as_ref()), raw.body_size.as_ref(), span, report),
        chunked: raw.chunked.value,
        expect_continue: raw.expect_continue.value,
        think: Nanos::ZERO,
        captures: captures(&raw.capture.value, report),
        expect: expectation(&raw.expect.value, report),
        websocket: websocket(raw.websocket.as_ref(), report),
    }
}

fn websocket(raw: Option<&Spanned<HttpWebSocketRaw>>, report: &mut Report) -> Option<HttpWebSocket> {
    let raw = &raw?.value;
    Some(HttpWebSocket {
        messages: raw.messages.value,
        size: raw.size.value,
        think: duration_in(&raw.think, "think", Nanos::ZERO, LONGEST, report),
        text: raw.text.value,
    })
}

fn headers(raw: &TextMap) -> Vec<(String, String)> {
    raw.0.iter().map(|(name, value)| (name.value.to_string(), value.value.clone())).collect()
}

fn body(
    (text, file): (Option<&Spanned<String>>, Option<&Spanned<String>>),
    size: Option<&Spanned<Bytes>>,
    span: Span,
    report: &mut Report,
) -> HttpBody {
    match (text, file, size) {
        (Some(text), None, None) => HttpBody::Text(text.value.clone()),
        (None, Some(file), None) => read(file, TEXT_MAX, report).map_or(HttpBody::None, HttpBody::Text),
        (None, None, Some(size)) => HttpBody::Size(size.value),
        (None, None, None) => HttpBody::None,
        _ => {
            report.error(span, "one of `body`, `body_file` and `body_size` is given, not several");
            HttpBody::None
        }
    }
}

fn captures(raw: &CapturesRaw, report: &mut Report) -> Vec<HttpCapture> {
    let mut captures = Vec::with_capacity(raw.0.len());
    for (name, source) in &raw.0 {
        let HttpSourceRaw { json, regex, header } = source;
        let text = |given: &Option<Spanned<String>>| given.as_ref().map(|given| given.value.clone());
        let from = match (text(json), text(regex), text(header)) {
            (Some(pointer), None, None) if pointer.is_empty() || pointer.starts_with('/') => {
                HttpSource::Json(pointer)
            }
            (None, Some(pattern), None) => HttpSource::Regex(pattern),
            (None, None, Some(field)) => HttpSource::Header(field),
            _ => {
                report
                    .error(name.span, format!("`{}` must be captured from one place", shorten(&name.value)))
                    .help("give one of `json: /POINTER`, `regex: EXPRESSION` and `header: NAME`");
                continue;
            }
        };
        captures.push(HttpCapture { name: name.value.clone(), from });
    }
    captures
}

fn expectation(raw: &HttpExpectRaw, report: &mut Report) -> HttpExpectation {
    let mut header = raw.header.as_ref().map(|header| headers(&header.value)).unwrap_or_default();
    if let (Some(given), 2..) = (&raw.header, header.len()) {
        report.error(given.span, "one header field can be expected");
    }
    let status = |many: &Spanned<Many<u16>>| many.value.items.iter().map(|item| item.value).collect();
    HttpExpectation {
        status: raw.status.as_ref().map(status).unwrap_or_default(),
        length: raw.length.as_ref().map(|length| length.value),
        text: raw.text.as_ref().map(|text| text.value.clone()),
        header: header.pop(),
    }
}

/// Origin form: an absolute path, perhaps with a query (RFC 9112 section 3.2.1).
fn check_target(target: &Spanned<String>, report: &mut Report) {
    let text = &target.value;
    let shown = shorten(text);
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    if let Some(rest) = rest {
        let path = rest.find('/').map_or("/", |i| &rest[i..]);
        report
            .error(
                target.span,
                format!("`{shown}` names a host, and the plan decides where the service runs"),
            )
            .help(format!("write only the path: `{}`", shorten(path)));
    } else if !text.starts_with('/') {
        report
            .error(target.span, format!("`{shown}` is not a target in origin form"))
            .help(format!("it starts with a slash: `/{shown}`"));
    } else if let Some(bad) = text.chars().find(|c| !c.is_ascii_graphic() || *c == '#') {
        report
            .error(target.span, format!("a request target can't contain {bad:?}"))
            .help("encode it as `%` and two hexadecimal digits");
    } else if text.len() > 4096 {
        report.error(target.span, "a request target is at most 4096 characters long");
    }
}

/// Refuses a limit on latency that requests can't exceed because they fail before.
pub(crate) fn check_limit(latency: &Spanned<Nanos>, workload: &WorkloadRaw, report: &mut Report) {
    let WorkloadRaw::Http(http) = workload else { return };
    let limit = latency.value;
    for timeout in http.timeout.value.items.iter().filter(|t| t.value <= limit) {
        report
            .error(
                latency.span,
                format!("the limit of {limit} is never exceeded, as requests fail after {}", timeout.text),
            )
            .help("raise the workload's `timeout` or lower the limit");
    }
}
