//! Connections over TCP and TLS: what is told of them wherever there are any.

use vtax_load::LatencyHistogram;
use vtax_load::sip::SipConnections;

use super::bench::Bench;
use crate::format::duration;
use crate::html::parts::scrolling;
use crate::html::table::PlainTable;
use crate::markup::Markup;

/// Columns of a table of connections.
pub(crate) const COLUMNS: [(&str, bool); 8] = [
    ("Connections", true),
    ("Connecting, mean", true),
    ("TLS", false),
    ("Full handshakes", true),
    ("Mean", true),
    ("Resumed", true),
    ("Mean", true),
    ("Failed", true),
];

/// What stands in them.
pub(crate) fn row(found: &SipConnections) -> [String; COLUMNS.len()] {
    let mean = |times: &LatencyHistogram| match times.is_empty() {
        true => "-".to_owned(),
        false => duration(times.mean().0 as f64),
    };
    let tls = found.tls.clone().unwrap_or_default();
    let agreed = match (&found.tls, tls.agreed) {
        (None, _) => "none".to_owned(),
        (Some(_), agreed) => agreed.unwrap_or_else(|| "-".to_owned()),
    };
    [
        found.connect.len().to_string(),
        mean(&found.connect),
        agreed,
        tls.full.len().to_string(),
        mean(&tls.full),
        tls.resumed.len().to_string(),
        mean(&tls.resumed),
        tls.failed.to_string(),
    ]
}

/// Connections of a benchmark; nothing over UDP.
pub(super) fn of_bench(bench: &Bench) -> Markup {
    let mut columns = vec![("Connections", false)];
    columns.extend(COLUMNS);
    let (mut table, mut any) = (PlainTable::new("", &columns), false);
    for environment in &bench.environments {
        if let Some(found) = &environment.shown.outcome.connections {
            any = true;
            table.push(&environment.label, row(found));
        }
    }
    if any { scrolling(&table.finish()) } else { Markup::new() }
}
