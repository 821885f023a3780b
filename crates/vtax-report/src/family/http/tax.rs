//! What TLS costs: cells that differ in nothing but TLS are put beside each other, and the handshake's part is told from
//! that of records where a cell has a connection for each request.

use vtax_plan::model::{Cell, HttpTls, HttpWorkload, Service, TlsVersion, Workload};

use crate::context::Context;
use crate::format::{change, quantity};
use crate::html::parts::wide;
use crate::html::table::PlainTable;
use crate::markup::Markup;

const COLUMNS: [(&str, bool); 9] = [
    ("Environment", false),
    ("TLS", false),
    ("Requests per connection", false),
    ("Measure", false),
    ("Mean of a request", false),
    ("In the clear", true),
    ("With TLS", true),
    ("TLS", true),
    ("Of that, the handshake", true),
];

/// What a request costs, by its metric.
const COSTS: [(&str, &str); 2] = [("latency_mean", "time"), ("cpu_per_request", "CPU time")];

/// The table; nothing where no cell with TLS has one in the clear beside it.
pub(super) fn section(context: &Context) -> Markup {
    let mut table = PlainTable::new("", &COLUMNS);
    let mut any = false;
    let cells = &context.data.plan.cells;
    let all = cells.iter().filter_map(|cell| Some((cell, http(cell)?)));
    for (cell, own) in all.filter(|(_, http)| http.tls.is_some()) {
        let Some(tls) = &own.tls else { continue };
        let in_the_clear = |other: &&Cell| is(other, cell, None, own.requests_per_connection);
        let Some(clear) = cells.iter().find(in_the_clear) else { continue };
        for measure in &context.data.plan.measures {
            for (metric, words) in COSTS {
                let value = |cell: &Cell| context.center(cell, &measure.name, metric);
                let (Some(without), Some(with)) = (value(clear), value(cell)) else { continue };
                any = true;
                let records = match own.requests_per_connection {
                    Some(1) => records(cells, cell, tls, value),
                    _ => None,
                };
                let row = [
                    words_of(tls),
                    own.requests_per_connection.map_or_else(|| "no limit".to_owned(), |n| n.to_string()),
                    measure.name.clone(),
                    words.to_owned(),
                    quantity(without, "ns"),
                    quantity(with, "ns"),
                    format!("{}, {}", signed(with - without), change(with / without)),
                    records.map_or_else(
                        || "-".to_owned(),
                        |(most, records)| handshake(with - without - records, most),
                    ),
                ];
                table.push(&place(context, cell, own, &["requests_per_connection"]), row);
            }
        }
    }
    if !any {
        return Markup::new();
    }
    let mut m = wide(&table.finish(), COLUMNS.len());
    m.element(
        "p",
        &[("class", "small-print")],
        "Differences of the cells' typical values, which trials scatter around: a small one may be chance. The handshake's part is \
         what is left of TLS's where each request has a connection of its own, once that of the same requests on connections that \
         stay, which is the records', is taken off: those without a limit, else those of the most requests.",
    );
    m
}

/// What records alone cost, and on connections of how many requests: those that stay longest.
fn records(
    cells: &[Cell],
    cell: &Cell,
    tls: &HttpTls,
    value: impl Fn(&Cell) -> Option<f64>,
) -> Option<(Option<u32>, f64)> {
    let pairs = cells.iter().filter_map(|with| {
        let most = http(with)?.requests_per_connection;
        if most == Some(1) || !is(with, cell, Some(tls), most) {
            return None;
        }
        let clear = cells.iter().find(|other| is(other, cell, None, most))?;
        Some((most, value(with)? - value(clear)?))
    });
    pairs.max_by_key(|(most, _)| most.map_or(u64::MAX, u64::from))
}

/// A handshake's part, and where connections have a limit, by which.
fn handshake(cost: f64, most: Option<u32>) -> String {
    let text = signed(cost);
    match most {
        None => text,
        Some(most) => format!("{text}, by connections of {most} requests"),
    }
}

/// Keys of a workload that [`words_of`] tells.
const OF_TLS: [&str; 4] = ["tls", "cipher", "group", "resume"];

/// Where a cell is, its target where the plan has several, and what else tells it from others, but for TLS and the parameters in `left_out`.
pub(super) fn place(context: &Context, cell: &Cell, own: &HttpWorkload, left_out: &[&str]) -> String {
    let left_out: Vec<&str> = OF_TLS.iter().chain(&["target"]).chain(left_out).copied().collect();
    let label = context.data.place_but_for(cell, &left_out);
    let mut all = context.data.plan.cells.iter().filter_map(http);
    if all.any(|other| other.target != own.target) { format!("{label}, {}", own.target) } else { label }
}

pub(super) fn http(cell: &Cell) -> Option<&HttpWorkload> {
    match &cell.workload {
        Workload::Http(http) => Some(http),
        _ => None,
    }
}

/// Whether a cell is another with this TLS and so many requests on a connection, and the same otherwise.
fn is(cell: &Cell, other: &Cell, tls: Option<&HttpTls>, per_connection: Option<u32>) -> bool {
    let (Some(own), Some(others)) = (http(cell), http(other)) else { return false };
    let mut wanted = others.clone();
    wanted.tls = tls.cloned();
    wanted.requests_per_connection = per_connection;
    *own == wanted && is_beside(cell, other)
}

/// Whether two cells differ in nothing but their workloads, and in what a server has to do for those.
pub(super) fn is_beside(cell: &Cell, other: &Cell) -> bool {
    let kind = cell.service.kind.clone().for_workload(&other.workload);
    let service = Service { kind, ..cell.service.clone() };
    cell.environment == other.environment
        && cell.path == other.path
        && cell.systems == other.systems
        && service == other.service
}

fn signed(difference: f64) -> String {
    let sign = if difference < 0.0 { '−' } else { '+' };
    format!("{sign}{}", quantity(difference.abs(), "ns"))
}

pub(super) fn words_of(tls: &HttpTls) -> String {
    let mut words = match tls.version {
        Some(TlsVersion::V12) => "1.2",
        Some(TlsVersion::V13) => "1.3",
        None => "newest",
    }
    .to_owned();
    for more in [&tls.cipher, &tls.group].into_iter().flatten() {
        words.push_str(", ");
        words.push_str(more);
    }
    if !tls.resume {
        words.push_str(", not resumed");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_told_in_words() {
        let tls = HttpTls { version: Some(TlsVersion::V13), resume: false, ..HttpTls::default() };
        assert_eq!(words_of(&tls), "1.3, not resumed");
        let cipher = Some("TLS_AES_128_GCM_SHA256".to_owned());
        assert_eq!(words_of(&HttpTls { cipher, ..HttpTls::default() }), "newest, TLS_AES_128_GCM_SHA256");
        assert!(signed(-1e6).starts_with('−') && signed(1e6).starts_with('+'));
        assert_eq!(handshake(1.2e6, None), signed(1.2e6));
        let limited = format!("{}, by connections of 1000 requests", signed(1.2e6));
        assert_eq!(handshake(1.2e6, Some(1000)), limited);
    }

    #[test]
    fn records_are_those_of_connections_that_stay_longest() {
        let plan = "{vtax: 1, name: t, baseline: native, environments: native, services: http, \
                    workload: {http: {target: /page/1000, tls: [none, tls13], requests_per_connection: [1, 10, 1000, 100]}}, \
                    measure: throughput}";
        let plan = vtax_plan::parse("t", plan.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
        let with = |cell: &&Cell| {
            http(cell).is_some_and(|own| own.tls.is_some() && own.requests_per_connection == Some(1))
        };
        let cell = plan.cells.iter().find(with).expect("a cell with TLS");
        let tls = http(cell).and_then(|own| own.tls.clone()).expect("its TLS");
        // As much as a connection has requests, and with TLS twice that.
        let value = |cell: &Cell| {
            let own = http(cell)?;
            let times = if own.tls.is_some() { 2.0 } else { 1.0 };
            Some(times * f64::from(own.requests_per_connection?))
        };
        assert_eq!(records(&plan.cells, cell, &tls, value), Some((Some(1000), 1000.0)));
        assert_eq!(records(&[], cell, &tls, value), None);
    }
}
