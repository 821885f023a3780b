//! `vtax load http`.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use vtax_load::http::{Http2Details, HttpDetails, HttpRequests, HttpSession, HttpSpec};
use vtax_load::{ConnectionPool, Control, LoadError, LoadResult, RequestStep, Verify};
use vtax_plan::model::{
    HttpBody, HttpCompression, HttpExpectation, HttpScript, HttpSessionPlan, HttpStep, HttpTls,
    HttpWebSocket, Workload, targets_in,
};
use vtax_units::{Bytes, Nanos};

use super::output::times;
use super::request_load::RequestSpec;
use super::requests::RequestArgs;
use super::tls::{Offer, put_tls};
use super::url::Url;
use crate::exit::{Classify, Failure, Outcome};

/// HTTP requests, GET unless told otherwise: an open loop with --rate, a closed loop with --connections alone.
#[derive(clap::Args)]
pub(super) struct Args {
    /// What to get: http://HOST[:PORT][/PATH], or https://.
    url: Url,
    #[command(flatten)]
    load: RequestArgs,
    /// Close each connection after this many requests; 1: a connection per request.
    #[arg(long)]
    requests_per_connection: Option<u32>,
    #[command(flatten)]
    http2: Http2,
    #[command(flatten)]
    ask: Ask,
    #[command(flatten)]
    tls: Tls,
}

/// HTTP/2 instead of HTTP/1.1.
#[derive(clap::Args)]
struct Http2 {
    /// HTTP/2: over TLS agreed on by ALPN, else with prior knowledge.
    #[arg(long)]
    http2: bool,
    /// With --http2, requests under way at once on each connection.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "http2")]
    streams: u32,
}

/// What is asked, where that is more than a GET.
#[derive(clap::Args)]
struct Ask {
    /// The method.
    #[arg(long, short = 'X', default_value = "GET")]
    method: String,
    /// A header field, `NAME: VALUE`. May be repeated.
    #[arg(long = "header", short = 'H', value_name = "FIELD", value_parser = header)]
    headers: Vec<(String, String)>,
    /// A text that is sent with each request, or @FILE with one.
    #[arg(long, value_name = "TEXT")]
    data: Option<String>,
    /// So many bytes that are sent with each request, which don't compress.
    #[arg(long, value_name = "SIZE", conflicts_with = "data")]
    data_size: Option<Bytes>,
    /// Send the body in chunks.
    #[arg(long)]
    chunked: bool,
    /// Send the body once the server has said `100 Continue`.
    #[arg(long)]
    expect_continue: bool,
    /// Targets to choose from, one on each line, with a weight before it if it isn't 1; instead of the URL's path.
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,
    /// Choose the first of --targets most often, by Zipf's law with this exponent.
    #[arg(long, value_name = "EXPONENT", requires = "targets")]
    zipf: Option<f64>,
    /// What is done about compressed bodies.
    #[arg(long, value_enum, default_value = "none")]
    compression: Compression,
    /// Statuses that are right; others are errors [default: 200 to 399].
    #[arg(long, value_delimiter = ',')]
    expect_status: Vec<u16>,
    /// The length of each body, decoded where it is; another one is an error.
    #[arg(long)]
    expect_length: Option<Bytes>,
    /// Text that each body must contain; a body without it is an error.
    #[arg(long)]
    expect_text: Option<String>,
    /// A header field that each answer must have, `NAME: TEXT`, with TEXT somewhere in its value; an answer without it is an error.
    #[arg(long, value_parser = header, value_name = "FIELD")]
    expect_header: Option<(String, String)>,
    /// Open a WebSocket at the target and send so many messages of --data-size (100 bytes without), each of which must come
    /// back before the next; then open another one.
    #[arg(long, value_name = "MESSAGES", conflicts_with_all = ["data", "chunked", "expect_continue"])]
    websocket: Option<u32>,
    /// Take requests, sessions and their expectations from the workload of this plan instead.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "method", "headers", "data", "data_size", "targets", "websocket", "chunked", "expect_continue",
        "compression", "expect_status", "expect_length", "expect_text", "expect_header",
    ])]
    plan: Option<PathBuf>,
}

/// TLS, of an https:// URL.
#[derive(clap::Args)]
struct Tls {
    #[command(flatten)]
    offer: Offer,
    /// The only group of the key exchange: x25519, secp256r1 or secp384r1.
    #[arg(long)]
    group: Option<String>,
    /// Connections don't resume sessions of earlier ones: all handshakes are full.
    #[arg(long)]
    no_resume: bool,
    /// The server's name (SNI) [default: the URL's host, if it is a name].
    #[arg(long)]
    sni: Option<String>,
    /// Don't offer http/1.1 by ALPN.
    #[arg(long)]
    no_alpn: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Compression {
    /// They aren't asked for.
    None,
    /// gzip and deflate are asked for, and taken as they come.
    Accept,
    /// They are asked for and decoded.
    Decode,
}

/// `NAME: VALUE`.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("it must be `NAME: VALUE`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

impl Tls {
    /// Whether anything of it was said.
    const fn is_said(&self) -> bool {
        self.offer.is_said() || self.group.is_some() || self.no_resume || self.sni.is_some() || self.no_alpn
    }

    /// What is offered to a server of this name or address.
    fn settings(&self, host: &str) -> HttpTls {
        let is_name = host.parse::<std::net::IpAddr>().is_err();
        HttpTls {
            version: self.offer.version(),
            cipher: self.offer.cipher.clone(),
            group: self.group.clone(),
            resume: !self.no_resume,
            sni: self.sni.clone().or_else(|| is_name.then(|| host.to_owned())),
            alpn: !self.no_alpn,
        }
    }

    /// What the server of a URL is checked for.
    fn verify(&self, url: &Url) -> Result<Verify> {
        ensure!(
            url.is_tls() || !self.is_said(),
            "--tls-version, --cipher, --authority, --group, --no-resume, --sni and --no-alpn need an https:// URL"
        );
        let host = url.host();
        self.offer.verify(self.sni.as_deref().unwrap_or(host))
    }
}

impl Ask {
    /// Whether it is a GET without anything besides.
    fn is_plain(&self) -> bool {
        self.method == "GET"
            && self.headers.is_empty()
            && self.data.is_none()
            && self.data_size.is_none()
            && self.targets.is_none()
            && self.websocket.is_none()
            && matches!(self.compression, Compression::None)
            && self.expect_status.is_empty()
            && self.expect_length.is_none()
            && self.expect_text.is_none()
            && self.expect_header.is_none()
            && self.plan.is_none()
    }

    /// What is asked: by the plan that is named, or of this target.
    fn script(&self, target: &str) -> Result<HttpScript, Failure> {
        match &self.plan {
            Some(path) => of_plan(path),
            None => self.own_script(target).bad_input(),
        }
    }

    /// What the options ask of this target.
    fn own_script(&self, target: &str) -> Result<HttpScript> {
        let size = self.data_size;
        let websocket = self.websocket.map(|messages| HttpWebSocket {
            messages,
            size: size.unwrap_or(Bytes(100)),
            think: Nanos::ZERO,
            text: false,
        });
        let body = match (&self.data, size.filter(|_| websocket.is_none())) {
            (Some(text), _) => HttpBody::Text(match text.strip_prefix('@') {
                Some(path) => std::fs::read_to_string(path).with_context(|| format!("reading {path}"))?,
                None => text.clone(),
            }),
            (None, Some(size)) => HttpBody::Size(size),
            (None, None) => HttpBody::None,
        };
        let step = HttpStep {
            method: self.method.clone(),
            headers: self.headers.clone(),
            body,
            chunked: self.chunked,
            expect_continue: self.expect_continue,
            expect: HttpExpectation {
                status: self.expect_status.clone(),
                length: self.expect_length,
                text: self.expect_text.clone(),
                header: self.expect_header.clone(),
            },
            websocket,
            ..HttpStep::get(target)
        };
        let targets = match &self.targets {
            Some(path) => targets(path)?,
            None => vec![(1, target.to_owned())],
        };
        let session =
            |(weight, target)| HttpSessionPlan { weight, steps: vec![HttpStep { target, ..step.clone() }] };
        Ok(HttpScript {
            sessions: targets.into_iter().map(session).collect(),
            zipf: self.zipf,
            compression: match self.compression {
                Compression::None => HttpCompression::None,
                Compression::Accept => HttpCompression::Accept,
                Compression::Decode => HttpCompression::Decode,
            },
            cookies: false,
        })
    }
}

/// What the workload of a plan asks for.
fn of_plan(path: &Path) -> Result<HttpScript, Failure> {
    let plan = vtax_plan::load(path, &[] as &[&str])?;
    let workload = plan.cells.first().map(|cell| &cell.workload);
    let Some(Workload::Http(http)) = workload else {
        return Err(anyhow::anyhow!("{} has no workload `http`", path.display())).bad_input();
    };
    Ok(match &http.script {
        Some(script) => script.as_ref().clone(),
        None => HttpScript {
            sessions: vec![HttpSessionPlan { weight: 1, steps: vec![HttpStep::get(&http.target)] }],
            zipf: None,
            compression: HttpCompression::None,
            cookies: false,
        },
    })
}

/// The targets of a file, with their weights.
fn targets(path: &Path) -> Result<Vec<(u32, String)>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let targets = targets_in(&text)
        .map_err(|(line, why)| anyhow::anyhow!("line {line} of {}: {why}", path.display()))?;
    ensure!(!targets.is_empty(), "{} has no targets", path.display());
    Ok(targets)
}

pub(super) fn run(args: &Args) -> Outcome {
    let host = args.url.host();
    // What a connection and a request take is looked at only where it is asked for.
    let plain = args.ask.is_plain() && !args.load.wants_details();
    let script = if plain { None } else { Some(Box::new(args.ask.script(&args.url.path)?)) };
    let requests = HttpRequests {
        target: args.url.path.clone(),
        host: args.url.host_field(),
        requests_per_connection: args.requests_per_connection,
        http2_streams: args.http2.http2.then_some(args.http2.streams),
        tls: args.url.is_tls().then(|| args.tls.settings(host)),
        verify: args.tls.verify(&args.url).bad_input()?,
        script,
    };
    let pool = args.load.pool(args.url.resolve().bad_input()?);
    args.load.options().run(args.url.to_string(), HttpSpec { pool, requests })
}

/// What a load of HTTP found besides what all loads do.
pub(super) fn put_details(out: &mut String, found: &HttpDetails, duration: Nanos) -> fmt::Result {
    if !found.connect.is_empty() {
        writeln!(out, "connect   {}", times(&found.connect))?;
    }
    if let Some(tls) = &found.tls {
        put_tls(out, tls, duration)?;
    }
    if let Some(http2) = &found.http2 {
        put_http2(out, http2)?;
    }
    if let Some(exchanges) = &found.exchanges {
        writeln!(
            out,
            "answers   first byte {}, the rest {}",
            times(&exchanges.response),
            times(&exchanges.transfer)
        )?;
        if exchanges.requests.len() > 1 {
            for request in &exchanges.requests {
                let (ok, failed) = (request.ok, request.failed);
                writeln!(
                    out,
                    "          {}: {ok} ok, {failed} failed, {}",
                    request.name,
                    times(&request.times)
                )?;
            }
            let (whole, broken) = (exchanges.sessions, exchanges.broken_sessions);
            writeln!(out, "sessions  {whole} to their end, {broken} broken")?;
        }
        if exchanges.messages > 0 {
            let (messages, pings) = (exchanges.messages, exchanges.pings);
            writeln!(out, "messages  {messages} came back on WebSockets; {pings} pings of the server's")?;
        }
    }
    match &found.first_failure {
        Some(why) => writeln!(out, "failed    first: {why}"),
        None => Ok(()),
    }
}

fn put_http2(out: &mut String, http2: &Http2Details) -> fmt::Result {
    let counts = |counts: &BTreeMap<String, u64>| {
        counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
    };
    writeln!(
        out,
        "HTTP/2    by {}; {} streams, at most {} at once on a connection; frames that came: {}",
        http2.by,
        http2.streams,
        http2.most_streams,
        counts(&http2.frames)
    )?;
    for (what, found) in [("streams reset", &http2.resets), ("connections ended (GOAWAY)", &http2.goaways)] {
        if !found.is_empty() {
            writeln!(out, "          {what}: {}", counts(found))?;
        }
    }
    if http2.again + http2.given_up + http2.malformed > 0 {
        writeln!(
            out,
            "          {} requests sent again, {} streams given up, {} malformed answers",
            http2.again, http2.given_up, http2.malformed
        )?;
    }
    Ok(())
}

impl RequestSpec for HttpSpec {
    const FAMILY: &'static str = "http";
    type Requests = HttpRequests;
    type Session = HttpSession;

    fn pool_mut(&mut self) -> &mut ConnectionPool {
        &mut self.pool
    }

    fn pool(&self) -> &ConnectionPool {
        &self.pool
    }

    fn requests(&self) -> &HttpRequests {
        &self.requests
    }

    fn check(&self) -> Result<(), LoadError> {
        Self::check(self)
    }

    fn open(&self, _: &Control) -> Result<HttpSession, LoadError> {
        HttpSession::open(self)
    }

    fn run(session: &HttpSession, step: &RequestStep, control: &Control) -> Result<LoadResult, LoadError> {
        session.run_step(step, control)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_may_have_weights() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("targets");
        std::fs::write(&path, "# a comment\n/a\n3 /b?c\n\n").unwrap();
        assert_eq!(targets(&path).unwrap(), [(1, "/a".to_owned()), (3, "/b?c".to_owned())]);
        std::fs::write(&path, "x /b\n").unwrap();
        assert!(targets(&path).is_err());
    }

    #[test]
    fn header_fields_are_taken_apart() {
        assert_eq!(header("X-A: b: c"), Ok(("X-A".to_owned(), "b: c".to_owned())));
        assert!(header("nothing").is_err());
    }
}
