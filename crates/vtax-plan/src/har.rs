//! HTTP archives (HAR 1.2), which browsers save, as plans.
//!
//! The requests to one host become a session, in their order, with the pauses between them. What can't be taken is told with
//! the number of its entry. An archive is whatever a file holds: its size, its entries and their texts are bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use vtax_units::{counted, unix_ms_of};

use crate::model::{HttpBody, HttpExpectation, HttpStep};
use crate::{MAX_PLAN_BYTES, PlanErrors};

/// The largest archive that is read: those of browsers have the bodies of answers in them.
const MAX_BYTES: u64 = 256 << 20;
/// Entries that are looked at.
const MAX_ENTRIES: usize = 1_000;
/// Bytes of a plan that stay free for what is not a request.
const SPARE_BYTES: u64 = 16 << 10;
/// Longer pauses are a user who had left.
const LONGEST_PAUSE_MS: i64 = 10 * 60 * 1_000;
/// Fields that vtax writes itself, or that are of one connection.
const LEFT_OUT: [&str; 11] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "expect",
    "accept-encoding",
    "keep-alive",
    "te",
    "upgrade",
    "proxy-connection",
    "sec-websocket-key",
];
/// What is in the names of fields that hold credentials: `authorization`, `x-api-key`, `x-csrf-token` and their like.
const SECRET_WORDS: [&str; 13] = [
    "auth",
    "token",
    "-key",
    "apikey",
    "api_key",
    "secret",
    "session",
    "csrf",
    "xsrf",
    "passw",
    "credential",
    "jwt",
    "signature",
];
/// Fields whose names have such a word and that hold no secret.
const NO_SECRETS: [&str; 2] = ["idempotency-key", "x-idempotency-key"];
/// Parameters of a query that hold credentials, besides those with such a word in them: keys of interfaces, signatures, codes of a login.
const SECRET_PARAMETERS: [&str; 3] = ["key", "sig", "code"];
/// So many names of such fields are told.
const MOST_NAMED: usize = 20;

/// How an archive is made a plan.
#[derive(Debug, Clone)]
pub struct Options {
    /// The plan's name.
    pub name: String,
    /// Statuses of the archive become expectations.
    pub expect: bool,
}

/// What was made of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The plan, as YAML.
    pub plan: String,
    /// Requests in it.
    pub requests: usize,
    /// Their host.
    pub host: String,
    /// What wasn't taken, a sentence each.
    pub left_out: Vec<String>,
    /// What was taken and may be secret, a sentence each.
    pub warnings: Vec<String>,
}

/// Why an archive can't be made a plan.
#[derive(Debug, thiserror::Error)]
pub enum HarError {
    /// It can't be read, or is too large.
    #[error(transparent)]
    Plan(#[from] PlanErrors),
    /// It is no archive.
    #[error("it is no HTTP archive: {0}")]
    Json(#[from] serde_json::Error),
    /// No request in it can be taken.
    #[error("it has no request that could be made: {0}")]
    Nothing(String),
}

#[derive(Deserialize)]
struct Archive {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    started_date_time: String,
    /// How long it took, in milliseconds.
    #[serde(default)]
    time: f64,
    request: Asked,
    response: Option<Answered>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Field>,
    post_data: Option<Posted>,
    /// Bytes; -1 where that isn't known.
    #[serde(default)]
    body_size: serde_json::Value,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct Posted {
    #[serde(default)]
    text: String,
    #[serde(default)]
    encoding: String,
    /// The fields of a form, of which it has the text as well or instead.
    params: Option<Vec<IgnoredAny>>,
}

#[derive(Deserialize)]
struct Answered {
    #[serde(default)]
    status: i64,
}

/// An entry with its place in the archive and in time.
struct Placed<'a> {
    number: usize,
    /// Since 1970.
    begin_ms: i64,
    end_ms: i64,
    host: &'a str,
    /// There was a login before the host.
    has_login: bool,
    target: &'a str,
    entry: &'a Entry,
}

/// Makes a plan of the archive at `path`.
///
/// # Errors
/// [`HarError`]: it can't be read, is no archive, or has no request that could be made.
pub fn load(path: &Path, options: &Options) -> Result<Imported, HarError> {
    let failed = |source| PlanErrors::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(PlanErrors::TooLarge { path: path.to_owned(), limit: MAX_BYTES }.into());
    }
    import(&bytes, options)
}

/// Imports an archive that is in memory.
///
/// # Errors
/// As [`load`], but for reading.
pub fn import(bytes: &[u8], options: &Options) -> Result<Imported, HarError> {
    // Some tools begin with a byte order mark.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let archive: Archive = serde_json::from_slice(bytes)?;
    let mut left_out = Vec::new();
    let entries = &archive.log.entries;
    if entries.len() > MAX_ENTRIES {
        left_out.push(format!("entries beyond the first {MAX_ENTRIES}, of {}", entries.len()));
    }
    let placed = entries.iter().take(MAX_ENTRIES).enumerate().filter_map(|(at, entry)| {
        placed(at + 1, entry).map_err(|why| left_out.push(format!("entry {}: {why}", at + 1))).ok()
    });
    let mut placed: Vec<Placed<'_>> = placed.collect();
    placed.sort_by_key(|placed| (placed.begin_ms, placed.number));
    let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
    for placed in &placed {
        *hosts.entry(placed.host).or_default() += 1;
    }
    // Of hosts with as many requests, the one that was asked first.
    let most = hosts.values().copied().max().unwrap_or(0);
    let Some(host) = placed.iter().map(|placed| placed.host).find(|host| hosts.get(host) == Some(&most))
    else {
        return Err(HarError::Nothing(left_out.first().cloned().unwrap_or_else(|| "it is empty".to_owned())));
    };
    for (other, count) in hosts.iter().filter(|(other, _)| **other != host) {
        let requests = counted(*count, "request");
        left_out.push(format!("{requests} to {}: a plan is of one service", short(other)));
    }
    let own: Vec<&Placed<'_>> = placed.iter().filter(|placed| placed.host == host).collect();
    let steps = steps(&own, options, &mut left_out);
    if steps.is_empty() {
        return Err(HarError::Nothing(left_out.first().cloned().unwrap_or_default()));
    }
    let logins = own.iter().filter(|placed| placed.has_login).count();
    left_out
        .extend((logins > 0).then(|| format!("the login in the address of {}", counted(logins, "request"))));
    left_out.extend(secret_fields(&own));
    let compressed = own.iter().any(|placed| has_field(placed.entry, "accept-encoding"));
    let cookies = own.iter().any(|placed| has_field(placed.entry, "cookie"));
    let plan = whole(&steps, host, options, (compressed, cookies));
    let warnings = warnings(&steps);
    Ok(Imported { plan, requests: steps.len(), host: host.to_owned(), left_out, warnings })
}

/// Whether a name has a word in it that names of secrets have.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "cookie" || SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Whether a header field may hold credentials.
fn is_secret_field(name: &str) -> bool {
    is_secret(name) && !is_one_of(name, &NO_SECRETS) && !is_one_of(name, &LEFT_OUT)
}

/// Whether a query may hold credentials.
fn is_secret_query(query: &str) -> bool {
    let mut names = query.split('&').map(|parameter| parameter.split('=').next().unwrap_or_default());
    is_secret(query) || names.any(|name| is_one_of(name, &SECRET_PARAMETERS))
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// The fields that were left out because they may hold credentials, where there are any.
fn secret_fields(own: &[&Placed<'_>]) -> Option<String> {
    let mut requests: BTreeMap<String, usize> = BTreeMap::new();
    for placed in own {
        let names = placed.entry.request.headers.iter().map(|field| field.name.as_str());
        let secret = names.filter(|name| !name.starts_with(':') && is_secret_field(name));
        let names: BTreeSet<String> = secret.map(|name| short(name).to_ascii_lowercase()).collect();
        for name in names {
            *requests.entry(name).or_default() += 1;
        }
    }
    let told = |(name, count): (&String, &usize)| format!("`{name}` of {}", counted(*count, "request"));
    let mut told: Vec<String> = requests.iter().take(MOST_NAMED).map(told).collect();
    if requests.len() > MOST_NAMED {
        told.push(format!("{} more", requests.len() - MOST_NAMED));
    }
    (!told.is_empty()).then(|| format!("header fields that may hold credentials: {}", told.join(", ")))
}

/// What of a plan its reader should look at before it is passed on.
fn warnings(steps: &[HttpStep]) -> Vec<String> {
    let bodies = steps.iter().filter(|step| matches!(step.body, HttpBody::Text(_))).count();
    let secret =
        |step: &&HttpStep| step.target.split_once('?').is_some_and(|(_, query)| is_secret_query(query));
    let queries = steps.iter().filter(secret).count();
    [(bodies, "a body"), (queries, "a query")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| {
            let requests = counted(count, "request");
            format!("{what} of {requests} may hold a login or a key: look before you pass the plan on")
        })
        .collect()
}

fn placed(number: usize, entry: &Entry) -> Result<Placed<'_>, String> {
    let url = &entry.request.url;
    let rest = ["http://", "https://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let rest = rest.ok_or_else(|| format!("`{}` is neither http:// nor https://", short(&public(url))))?;
    let (authority, target) = match rest.find(['/', '?', '#']) {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let host = host_of(authority);
    let has_login = host.len() < authority.len();
    let begin_ms = unix_ms_of(&entry.started_date_time)
        .ok_or_else(|| format!("`{}` is no time", short(&entry.started_date_time)))?;
    let took = if entry.time.is_finite() { entry.time.clamp(0.0, 1e9) as i64 } else { 0 };
    let target = target.split('#').next().unwrap_or("/");
    Ok(Placed { number, begin_ms, end_ms: begin_ms + took, host, has_login, target, entry })
}

/// A host with its port, without the login that may stand before it: `user:password@host:80`.
fn host_of(authority: &str) -> &str {
    authority.rsplit('@').next().unwrap_or_default()
}

/// An address without what may be secret in it: its login and its query.
fn public(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    format!("{scheme}://{}{path}", host_of(authority))
}

/// The requests as steps of a session.
fn steps(own: &[&Placed<'_>], options: &Options, left_out: &mut Vec<String>) -> Vec<HttpStep> {
    let mut steps = Vec::new();
    let mut bytes = SPARE_BYTES;
    let mut free_from: Option<i64> = None;
    for placed in own {
        let mut refuse = |why: String| left_out.push(format!("entry {}: {why}", placed.number));
        let request = &placed.entry.request;
        let target = match placed.target {
            "" => "/".to_owned(),
            target if target.starts_with('/') => target.to_owned(),
            target => format!("/{target}"),
        };
        let mut step = HttpStep { method: request.method.clone(), ..HttpStep::get(&target) };
        for Field { name, value } in &request.headers {
            let known = name.starts_with(':') || is_one_of(name, &LEFT_OUT);
            if !known && !is_secret_field(name) {
                // It is the address of the page before, of which the query may be a login's.
                let is_address = name.eq_ignore_ascii_case("referer");
                let value = if is_address { public(value) } else { value.clone() };
                step.headers.push((name.clone(), value));
            }
        }
        match body_of(request) {
            Ok(body) => step.body = body,
            Err(why) => {
                refuse(why);
                continue;
            }
        }
        let status = placed.entry.response.as_ref().and_then(|answer| u16::try_from(answer.status).ok());
        if let Some(status) = status.filter(|status| options.expect && (200..600).contains(status)) {
            step.expect = HttpExpectation { status: vec![status], ..HttpExpectation::default() };
        }
        if let Err((key, why)) = step.check(&[]) {
            refuse(format!("its {key}: {why}"));
            continue;
        }
        bytes += line(&step).len() as u64;
        if bytes > MAX_PLAN_BYTES {
            refuse("it and what follows is more than a plan may hold".to_owned());
            break;
        }
        let pause = free_from.map_or(0, |free| (placed.begin_ms - free).clamp(0, LONGEST_PAUSE_MS));
        step.think = vtax_units::Nanos::from_millis(pause.unsigned_abs());
        free_from = Some(free_from.map_or(placed.end_ms, |free| free.max(placed.end_ms)));
        steps.push(step);
    }
    steps
}

/// The body of a request, or why it can't be taken.
fn body_of(request: &Asked) -> Result<HttpBody, String> {
    if let Some(Posted { text, encoding, params }) = &request.post_data {
        if !encoding.is_empty() {
            return Err(format!("its body is encoded as `{}`", short(encoding)));
        }
        if !text.is_empty() {
            return Ok(HttpBody::Text(text.clone()));
        }
        if params.as_ref().is_some_and(|fields| !fields.is_empty()) {
            return Err("its body is there as a form's fields, not as text".to_owned());
        }
    }
    if request.body_size.as_f64().is_some_and(|bytes| bytes > 0.0) {
        return Err("its body isn't in the archive".to_owned());
    }
    Ok(HttpBody::None)
}

fn has_field(entry: &Entry, name: &str) -> bool {
    entry.request.headers.iter().any(|field| field.name.eq_ignore_ascii_case(name))
}

/// A step in a line. What is JSON is YAML, too, so texts are written as JSON has them.
fn line(step: &HttpStep) -> String {
    let mut out = format!("{{target: {}", text(&step.target));
    // Writing to a string can't fail.
    if step.method != "GET" {
        let _ = write!(out, ", method: {}", text(&step.method));
    }
    if step.think > vtax_units::Nanos::ZERO {
        let _ = write!(out, ", think: {}ms", step.think.0 / 1_000_000);
    }
    if let Some(status) = step.expect.status.first() {
        let _ = write!(out, ", expect: {{status: {status}}}");
    }
    if !step.headers.is_empty() {
        let mut seen: Vec<&str> = Vec::new();
        let mut fields = Vec::new();
        for (name, value) in &step.headers {
            // A mapping has each key once.
            if !seen.iter().any(|own| own.eq_ignore_ascii_case(name)) {
                seen.push(name);
                fields.push(format!("{}: {}", text(name), text(value)));
            }
        }
        let _ = write!(out, ", headers: {{{}}}", fields.join(", "));
    }
    if let HttpBody::Text(body) = &step.body {
        let _ = write!(out, ", body: {}", text(body));
    }
    out + "}"
}

/// A text in quotes. JSON leaves characters as they are that YAML has escaped.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    for c in serde_json::Value::from(text).to_string().chars() {
        match c {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// The plan.
fn whole(steps: &[HttpStep], host: &str, options: &Options, (compressed, cookies): (bool, bool)) -> String {
    let mut out = String::new();
    let host = host.chars().filter(|c| c.is_ascii_graphic()).take(200).collect::<String>();
    let _ = write!(
        out,
        "# yaml-language-server: $schema=../schema/plan.schema.json\n\
         #\n\
         # What a browser asked {host} for, as one session, from an HTTP archive. The service is to be yours: the program\n\
         # that serves these targets. Against a server that runs already:\n\
         # vtax load http http://HOST --plan THIS-FILE --connections 16\n\
         vtax: 1\n\
         name: {}\n\n\
         baseline: native\n\
         environments: [native, container, vm]\n\
         services: {{command: {{run: [/path/to/your/server, --port, \"{{port}}\"], port: 8080}}}}\n\n\
         workload:\n  http:\n",
        options.name
    );
    if compressed {
        out.push_str("    compression: decode\n");
    }
    if cookies {
        out.push_str("    cookies: true\n");
    }
    out.push_str("    timeout: 10s\n    requests:\n      - steps:\n");
    for step in steps {
        let _ = writeln!(out, "          - {}", line(step));
    }
    out.push_str("\nmeasure:\n  - throughput: {duration: 10s}\n");
    out
}

/// A text as far as an error needs it.
fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}
