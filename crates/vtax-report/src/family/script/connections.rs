//! Connections of calls, and their handshakes: on the page, and as a table.

use super::page::{Found, all, percentile};
use crate::data::RunData;
use crate::family::sip::connections::{COLUMNS, row};
use crate::html::parts::{titled, wide};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::table::{Table, count, number_or_none, text, text_or_none};

/// How many connections there were, and what making them took; nothing over UDP.
pub(super) fn section(data: &RunData) -> Markup {
    let mut columns = vec![("Environment", false), ("Load", false)];
    columns.extend(COLUMNS);
    let mut m = Markup::new();
    for (label, loads) in all(data) {
        let (mut table, mut any) = (PlainTable::new("", &columns), false);
        for Found { label, measure, figures } in &loads {
            if let Some(found) = &figures.connections {
                any = true;
                table.push(label, [(*measure).to_owned()].into_iter().chain(row(found)));
            }
        }
        if any {
            m.element("p", &[], &titled("Of all trials that count, warm-up included", &label));
            m.add(&wide(&table.finish(), columns.len()));
        }
    }
    m
}

/// Each load; none in a run over UDP.
pub(super) fn table(data: &RunData) -> Option<Table> {
    let columns = "cell,measure,connections,connect_mean_ns,connect_p99_ns,tls,full,full_mean_ns,full_p99_ns,resumed,\
                   resumed_mean_ns,resumed_p99_ns,failed";
    let mut table = Table::new("script_connections", "Script connections", columns);
    let mut any = false;
    for ((cell, measure), found) in &data.calls {
        let Some(found) = &found.connections else { continue };
        any = true;
        let tls = found.tls.clone().unwrap_or_default();
        let mut cells = vec![text(cell), text(measure)];
        for (position, times) in [&found.connect, &tls.full, &tls.resumed].into_iter().enumerate() {
            if position == 1 {
                cells.push(text_or_none(tls.agreed.as_deref()));
            }
            let mean = (!times.is_empty()).then(|| times.mean().0 as f64);
            cells.extend([count(times.len()), number_or_none(mean), number_or_none(percentile(times, 0.99))]);
        }
        cells.push(count(tls.failed));
        table.push(cells);
    }
    any.then_some(table)
}
