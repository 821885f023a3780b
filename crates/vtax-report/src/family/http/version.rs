//! What HTTP/2 costs: cells that differ in nothing but the version are put beside each other.

use vtax_plan::model::{Cell, HttpWorkload};

use super::tax::{http, is_beside, place, words_of};
use crate::context::Context;
use crate::format::{change, quantity};
use crate::html::parts::wide;
use crate::html::table::PlainTable;
use crate::markup::Markup;

const COLUMNS: [(&str, bool); 8] = [
    ("Environment", false),
    ("Connection", false),
    ("Streams", true),
    ("Measure", false),
    ("Figure", false),
    ("HTTP/1.1", true),
    ("HTTP/2", true),
    ("HTTP/2 against HTTP/1.1", true),
];

/// What is told, by its metric, with its unit.
const FIGURES: [(&str, &str, &str); 4] = [
    ("latency_mean", "time of a request, mean", "ns"),
    ("cpu_per_request", "CPU time of a request, mean", "ns"),
    ("throughput", "throughput", "req/s"),
    ("capacity", "capacity", "req/s"),
];

/// The table; nothing where no cell of HTTP/2 has one of HTTP/1.1 beside it.
pub(super) fn section(context: &Context) -> Markup {
    let mut table = PlainTable::new("", &COLUMNS);
    let mut any = false;
    let cells = &context.data.plan.cells;
    for cell in cells {
        let Some((own, streams)) = http(cell).and_then(|own| Some((own, own.http2_streams?))) else {
            continue;
        };
        let Some(before) = cells.iter().find(|other| is_before(other, cell, own)) else { continue };
        for measure in &context.data.plan.measures {
            for (metric, words, unit) in FIGURES {
                let value = |cell: &Cell| context.exact_center(cell, &measure.name, metric);
                let (Some(one), Some(two)) = (value(before), value(cell)) else { continue };
                any = true;
                let row = [
                    own.tls
                        .as_ref()
                        .map_or_else(|| "in the clear".to_owned(), |tls| format!("TLS, {}", words_of(tls))),
                    streams.to_string(),
                    measure.name.clone(),
                    words.to_owned(),
                    quantity(one, unit),
                    quantity(two, unit),
                    change(two / one),
                ];
                table.push(&place(context, cell, own, &["version", "streams"]), row);
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
        "Typical values of the cells, which trials scatter around: a small difference may be chance. In a closed loop a connection of \
         HTTP/2 has as many requests under way as it has streams, one of HTTP/1.1 has one.",
    );
    m
}

/// Whether a cell is another that speaks HTTP/1.1, and the same otherwise.
fn is_before(cell: &Cell, other: &Cell, others: &HttpWorkload) -> bool {
    let wanted = HttpWorkload { http2_streams: None, ..others.clone() };
    http(cell) == Some(&wanted) && is_beside(cell, other)
}
