//! HTTP: web servers, workloads, and whether the ones have what the others ask for.

use vtax_units::Nanos;

use super::model::{HttpWorkload, MOST_CONNECTIONS, WebOptions};
use super::raw::{HttpWorkloadRaw, WebRaw};
use crate::diagnose::{Report, shorten};
use crate::model::{Service, ServiceKind, Workload};
use crate::raw::WorkloadRaw;
use crate::resolve::check::{LONGEST, check_port, counts_in, duration_in};
use crate::resolve::variants::{Named, Variants, service};
use crate::source::Spanned;

/// A web server of the catalogue.
pub(crate) fn web(
    raw: &WebRaw,
    kind: impl Fn(WebOptions) -> ServiceKind,
    report: &mut Report,
) -> Variants<Service> {
    if let Some(workers) = &raw.workers {
        counts_in(&workers.value, "a server needs a worker", 1024, report);
    }
    let port = check_port(&raw.port, report);
    let options = |workers| kind(WebOptions { port, workers });
    let service = service(options(None), raw.name.as_ref(), (&raw.ready_timeout, &raw.stop_timeout), report);
    Variants::of(service).vary_if("workers", raw.workers.as_ref(), report, |service, workers| {
        service.kind = options(Some(workers));
    })
}

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
    let http = HttpWorkload {
        target: String::new(),
        connections: 1,
        requests_per_connection: None,
        timeout: Nanos::ZERO,
    };
    Variants::of(http)
        .vary_if("target", raw.target.as_ref(), report, |w, target| w.target = target)
        .vary("connections", &raw.connections.value, report, |w, connections| w.connections = connections)
        .vary_if("requests_per_connection", raw.requests_per_connection.as_ref(), report, |w, requests| {
            w.requests_per_connection = Some(requests);
        })
        .vary("timeout", &raw.timeout.value, report, |w, timeout| w.timeout = timeout)
        .map(Workload::Http)
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

/// True for an absolute path, perhaps with a query, of visible ASCII.
fn is_origin_form(target: &str) -> bool {
    target.starts_with('/') && target.chars().all(|c| c.is_ascii_graphic() && c != '#')
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

/// Reports targets that a service of the catalogue would answer with 404: every trial would fail.
pub(crate) fn check_documents(workload: &WorkloadRaw, services: &[Named<Service>], report: &mut Report) {
    let WorkloadRaw::Http(http) = workload else { return };
    for target in http.target.iter().flat_map(|t| &t.value.items).filter(|t| is_origin_form(&t.value)) {
        let path = target.value.split('?').next().unwrap_or_default();
        for service in services {
            let Some(first) = service.variants.0.first() else { continue };
            let (served, help) = match &first.value.kind {
                ServiceKind::Http(_) => (embedded_serves(path), EMBEDDED_DOCUMENTS),
                ServiceKind::Apache(_) | ServiceKind::Nginx(_) => {
                    (FILES.contains(&path), "it serves `/100b`, `/10k` and `/1m`")
                }
                _ => continue,
            };
            if !served {
                let message = format!("`{}` does not serve `{}`", service.name, shorten(&target.value));
                report.error(target.span, message).help(help);
            }
        }
    }
}

/// What Apache and nginx serve here; the embedded server's names work too where it has the same.
const FILES: [&str; 8] =
    ["/", "/index.html", "/100b", "/10k", "/1m", "/bytes/100", "/bytes/10000", "/bytes/1000000"];

const EMBEDDED_DOCUMENTS: &str =
    "it serves `/bytes/N`, N up to 67108864, and `/page/ROWS`, ROWS up to 100000, in plain digits";

fn embedded_serves(path: &str) -> bool {
    let within = |digits: &str, most: u32| {
        digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u32>().is_ok_and(|n| n <= most)
    };
    match (path.strip_prefix("/bytes/"), path.strip_prefix("/page/")) {
        (Some(bytes), _) => within(bytes, 64 << 20),
        (_, Some(rows)) => within(rows, 100_000),
        _ => false,
    }
}
