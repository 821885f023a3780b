//! Workloads: what the generator does.

use super::{LONGEST, Variants, counts_in, duration_in};
use crate::diagnose::{Report, shorten};
use crate::model::{HttpWorkload, Workload};
use crate::raw::{HttpWorkloadRaw, WorkloadRaw};
use crate::source::Spanned;
use vtax_units::Nanos;

/// One machine has no more ports towards one address.
const MOST_CONNECTIONS: u32 = 60_000;

pub(super) fn workloads(raw: &WorkloadRaw, report: &mut Report) -> Variants<Workload> {
    match raw {
        WorkloadRaw::Http(raw) => http(raw, report),
    }
}

fn http(raw: &HttpWorkloadRaw, report: &mut Report) -> Variants<Workload> {
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
