//! Web servers of the catalogue, and whether they serve what a workload asks for.

use vtax_units::{Bytes, Nanos};

use super::model::{Mpm, WebOptions};
use super::raw::{ApacheRaw, HttpWorkloadRaw, MpmRaw, NginxRaw, WebRaw};
use super::resolve::asks_for_http2;
use crate::decode::{Item, Many};
use crate::diagnose::{Report, shorten};
use crate::model::{Service, ServiceKind};
use crate::raw::WorkloadRaw;
use crate::resolve::check::{check_port, counts_in};
use crate::resolve::variants::{Named, Variants, service};
use crate::source::{Span, Spanned};

/// The options of a web server as written.
struct Written<'a> {
    name: Option<&'a Spanned<String>>,
    port: &'a Spanned<u16>,
    workers: Option<&'a Spanned<Many<u32>>>,
    mpm: Option<&'a Many<MpmRaw>>,
    php: bool,
    /// `ready_timeout` and `stop_timeout`.
    times: (&'a Spanned<Nanos>, &'a Spanned<Nanos>),
}

/// vtax's own.
pub(crate) fn embedded(raw: &WebRaw, report: &mut Report) -> Variants<Service> {
    let WebRaw { name, port, workers, ready_timeout, stop_timeout } = raw;
    let (name, workers, times) = (name.as_ref(), workers.as_ref(), (ready_timeout, stop_timeout));
    web(&Written { name, port, workers, mpm: None, php: false, times }, ServiceKind::Http, report)
}

/// Apache httpd.
pub(crate) fn apache(raw: &ApacheRaw, report: &mut Report) -> Variants<Service> {
    let ApacheRaw { name, port, workers, mpm, php, ready_timeout, stop_timeout } = raw;
    let (name, workers, times) = (name.as_ref(), workers.as_ref(), (ready_timeout, stop_timeout));
    let written = Written { name, port, workers, mpm: Some(&mpm.value), php: php.value, times };
    web(&written, ServiceKind::Apache, report)
}

/// nginx.
pub(crate) fn nginx(raw: &NginxRaw, report: &mut Report) -> Variants<Service> {
    let NginxRaw { name, port, workers, php, ready_timeout, stop_timeout } = raw;
    let (name, workers, times) = (name.as_ref(), workers.as_ref(), (ready_timeout, stop_timeout));
    web(&Written { name, port, workers, mpm: None, php: php.value, times }, ServiceKind::Nginx, report)
}

fn web(raw: &Written<'_>, kind: fn(WebOptions) -> ServiceKind, report: &mut Report) -> Variants<Service> {
    if let Some(workers) = raw.workers {
        counts_in(&workers.value, "a server needs a worker", 1024, report);
    }
    let options = WebOptions { php: raw.php, ..WebOptions::on(check_port(raw.port, report)) };
    let service = service(kind(options.clone()), raw.name, raw.times, report);
    let mut variants = Variants::of(options)
        .vary_if("workers", raw.workers, report, |options, workers| options.workers = Some(workers));
    if let Some(mpm) = raw.mpm {
        variants = variants.vary("mpm", mpm, report, |options, mpm| options.mpm = mpm.0);
    }
    variants.map(|options| Service { kind: kind(options), ..service.clone() })
}

/// Reports what a service of the catalogue can't give: a version of HTTP, a method, or a target that it would answer with 404, so
/// that every trial would fail.
pub(crate) fn check_served(workload: &WorkloadRaw, services: &[Named<Service>], report: &mut Report) {
    let WorkloadRaw::Http(http) = workload else { return };
    if let Some(version) = asks_for_http2(http) {
        check_version(version, services, report);
    }
    check_taken(http, services, report);
    let named = |target: &Item<String>| Asked::of(&target.value, target.span, false);
    let targets = http.target.iter().flat_map(|t| &t.value.items).map(named);
    for Asked { target, span, websocket } in targets.chain(asked(http)).filter(|a| is_origin_form(&a.target))
    {
        let path = target.split('?').next().unwrap_or_default();
        for service in services {
            let Some(first) = service.variants.0.first() else { continue };
            let (served, help) = match &first.value.kind {
                ServiceKind::Http(_) if websocket => (path == ECHO, "it answers WebSockets at `/echo`"),
                ServiceKind::Apache(_) | ServiceKind::Nginx(_) if websocket => {
                    (false, "as vtax configures it, it has no WebSockets; `http` has, at `/echo`")
                }
                ServiceKind::Http(_) => (embedded_serves(path), EMBEDDED_DOCUMENTS),
                ServiceKind::Apache(web) | ServiceKind::Nginx(web) if web.php => {
                    (FILES.contains(&path) || is_page(path), FILES_AND_PAGES)
                }
                ServiceKind::Apache(_) | ServiceKind::Nginx(_) if is_page(path) => (false, PAGES_NEED_PHP),
                ServiceKind::Apache(_) | ServiceKind::Nginx(_) => {
                    (FILES.contains(&path), "it serves `/100b`, `/10k` and `/1m`")
                }
                _ => continue,
            };
            if !served {
                let message = format!("`{}` does not serve `{}`", service.name, shorten(&target));
                report.error(span, message).help(help);
            }
        }
    }
}

/// Reports services that don't speak HTTP/2, which is asked for.
fn check_version(version: Span, services: &[Named<Service>], report: &mut Report) {
    for service in services {
        let kinds = || service.variants.0.iter().map(|variant| &variant.value.kind);
        if kinds().any(|kind| matches!(kind, ServiceKind::Http(_))) {
            report
                .error(version, format!("`{}` speaks HTTP/1.1 alone", service.name))
                .help("`nginx` and `apache` speak HTTP/2 too");
        }
        let preforks =
            |kind: &ServiceKind| matches!(kind, ServiceKind::Apache(web) if web.mpm == Mpm::Prefork);
        if kinds().any(preforks) {
            report
                .error(version, format!("`{}` with `mpm: prefork` speaks HTTP/1.1 alone", service.name))
                .help("with `event` and `worker` it speaks HTTP/2 too");
        }
    }
}

/// Reports requests that a server of the catalogue refuses for their method or their body.
fn check_taken(http: &HttpWorkloadRaw, services: &[Named<Service>], report: &mut Report) {
    for service in services {
        let Some(first) = service.variants.0.first() else { continue };
        // How WebSockets are opened is checked by itself.
        for request in requests(http).filter(|request| !request.websocket) {
            match &first.value.kind {
                ServiceKind::Http(_) => check_taken_by_own(&service.name, &request, report),
                ServiceKind::Nginx(web) => check_taken_by_nginx(&service.name, web.php, &request, report),
                _ => {}
            }
        }
    }
}

/// vtax's own server takes GET and HEAD alone, and no bodies, whatever the target is.
fn check_taken_by_own(name: &str, request: &Request<'_>, report: &mut Report) {
    let method = &request.method.value;
    if method != "GET" && method != "HEAD" {
        let message = format!("`{name}` answers `{}` with 405: it takes GET and HEAD", shorten(method));
        report
            .error(request.method.span, message)
            .help("expect that (`expect: {status: 405}`), or use a service of your own (`command`)");
    } else if let Some(body) = request.body {
        report
            .error(body, format!("`{name}` takes no bodies: it answers them with 413"))
            .help("expect that (`expect: {status: 413}`), or use a service of your own (`command`)");
    }
}

/// nginx gives files to GET and HEAD alone; pages of PHP take any method but TRACE, which it answers itself. A target with a
/// captured value may be either.
fn check_taken_by_nginx(name: &str, php: bool, request: &Request<'_>, report: &mut Report) {
    let (method, target) = (request.method.value.as_str(), request.target.value.as_str());
    let path = target.split('?').next().unwrap_or_default();
    let unknown = target.contains("${") || !is_origin_form(target);
    if matches!(method, "GET" | "HEAD") || unknown || (php && is_page(path) && method != "TRACE") {
        return;
    }
    if !method.bytes().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'-')) {
        let message = format!("`{name}` answers `{}` with 400: a method is in capitals", shorten(method));
        report.error(request.method.span, message).help("methods of HTTP are such as `POST`: case matters");
        return;
    }
    // It looks for the file first.
    if method == "POST" && !FILES.contains(&path) {
        let message = format!("`{name}` does not serve `{}`", shorten(target));
        let help = match (php, is_page(path)) {
            (true, _) => "`/page/ROWS` takes this method; files are taken by GET and HEAD",
            (false, true) => PAGES_NEED_PHP,
            (false, false) => {
                "files are taken by GET and HEAD; with `php: true`, `/page/ROWS` takes this method"
            }
        };
        report.error(request.target.span, message).help(help);
        return;
    }
    let message = format!("`{name}` answers `{}` with 405: files are taken by GET and HEAD", shorten(method));
    // Apache takes these two for files as well.
    let help = if matches!(method, "POST" | "OPTIONS") {
        "expect that (`expect: {status: 405}`), or use `apache`"
    } else {
        "expect that (`expect: {status: 405}`), or use a service of your own (`command`)"
    };
    report.error(request.method.span, message).help(help);
}

/// A request as written, alone or in a session.
struct Request<'a> {
    method: &'a Spanned<String>,
    target: &'a Spanned<String>,
    /// Where its body is written, if it has one.
    body: Option<Span>,
    /// It opens a WebSocket.
    websocket: bool,
}

/// Requests whose answers must be successes.
fn requests(http: &HttpWorkloadRaw) -> impl Iterator<Item = Request<'_>> {
    let items = http.requests.iter().flat_map(|requests| &requests.value.items);
    let mut found = Vec::new();
    for item in items {
        let raw = &item.value;
        for target in raw.target.iter().filter(|_| raw.expect.value.status.is_none()) {
            let body = body_of(raw.body.as_ref(), raw.body_file.as_ref(), raw.body_size.as_ref());
            let websocket = raw.websocket.is_some();
            found.push(Request { method: &raw.method, target, body, websocket });
        }
        for step in raw.steps.iter().flat_map(|steps| &steps.value.items).map(|step| &step.value) {
            for target in step.target.iter().filter(|_| step.expect.value.status.is_none()) {
                let body = body_of(step.body.as_ref(), step.body_file.as_ref(), step.body_size.as_ref());
                let websocket = step.websocket.is_some();
                found.push(Request { method: &step.method, target, body, websocket });
            }
        }
    }
    found.into_iter()
}

/// Where the body of a request is written; one of no bytes is none.
fn body_of(
    text: Option<&Spanned<String>>,
    file: Option<&Spanned<String>>,
    size: Option<&Spanned<Bytes>>,
) -> Option<Span> {
    let text = text.filter(|text| !text.value.is_empty()).or(file);
    let size = size.filter(|size| size.value > Bytes(0));
    text.map(|text| text.span).or(size.map(|size| size.span))
}

/// Something that is asked for.
struct Asked {
    target: String,
    span: Span,
    /// A WebSocket is opened there.
    websocket: bool,
}

impl Asked {
    fn of(target: &str, span: Span, websocket: bool) -> Self {
        Self { target: target.to_owned(), span, websocket }
    }
}

/// Targets of GET requests whose answers must be successes, as far as they are known beforehand.
fn asked(http: &HttpWorkloadRaw) -> impl Iterator<Item = Asked> {
    let known = |asked: &Request<'_>| asked.method.value == "GET" && !asked.target.value.contains("${");
    let named = |asked: Request<'_>| Asked::of(&asked.target.value, asked.target.span, asked.websocket);
    requests(http).filter(known).map(named)
}

/// True for an absolute path, perhaps with a query, of visible ASCII.
fn is_origin_form(target: &str) -> bool {
    target.starts_with('/') && target.chars().all(|c| c.is_ascii_graphic() && c != '#')
}

/// What Apache and nginx serve here; the embedded server's names work too where it has the same.
const FILES: [&str; 8] =
    ["/", "/index.html", "/100b", "/10k", "/1m", "/bytes/100", "/bytes/10000", "/bytes/1000000"];

/// Where the embedded server answers WebSockets.
const ECHO: &str = "/echo";

const FILES_AND_PAGES: &str =
    "it serves `/100b`, `/10k`, `/1m` and `/page/ROWS`, ROWS up to 100000, in plain digits";

const PAGES_NEED_PHP: &str = "with `php: true` it would; without, it serves `/100b`, `/10k` and `/1m`";

const EMBEDDED_DOCUMENTS: &str =
    "it serves `/bytes/N`, N up to 67108864, and `/page/ROWS`, ROWS up to 100000, in plain digits";

fn embedded_serves(path: &str) -> bool {
    is_page(path) || path.strip_prefix("/bytes/").is_some_and(|digits| within(digits, 64 << 20))
}

/// True of `/page/ROWS`.
fn is_page(path: &str) -> bool {
    path.strip_prefix("/page/").is_some_and(|digits| within(digits, 100_000))
}

fn within(digits: &str, most: u32) -> bool {
    digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u32>().is_ok_and(|n| n <= most)
}
