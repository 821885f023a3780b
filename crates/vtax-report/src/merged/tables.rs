//! The tables of several hosts, for other tools.

use super::{Merged, MergedRow};
use crate::general::verdicts::telling_ends;
use crate::table::{Cell, Table, count, number, number_or_none, text, text_or_none, yes_no};
use crate::words::name;

pub(super) fn all(m: &Merged) -> Vec<Table> {
    vec![taxes(m), by_host(m)]
}

fn of_row(row: &MergedRow) -> Vec<Cell> {
    [&row.cell, &row.baseline, &row.environment, &row.measure, &row.metric].map(|t| text(t.clone())).to_vec()
}

fn ends(interval: Option<(f64, f64)>) -> [Cell; 2] {
    let (low, high) = interval.unzip();
    [number_or_none(low), number_or_none(high)]
}

fn taxes(m: &Merged) -> Table {
    let columns = "cell,baseline,environment,measure,metric,hosts,tax,low,high,at_least,at_most,corrected_low,corrected_high,\
                   detectable,spread,another_low,another_high,same_probability,odd,verdict,reason";
    let mut table = Table::new("taxes_over_hosts", "Taxes over hosts", columns);
    for row in &m.rows {
        let mut cells = of_row(row);
        cells.extend([count(row.hosts.len()), number_or_none(row.tax)]);
        cells.extend(ends(row.interval));
        cells.extend([number_or_none(row.at_least), number_or_none(row.at_most)]);
        cells.extend(telling_ends(row.corrected, row.at_least, row.at_most).map(number_or_none));
        cells.extend([number_or_none(row.detectable), number_or_none(row.spread)]);
        cells.extend(ends(row.another));
        let odd = row.odd.join(" ");
        cells.extend([
            number_or_none(row.same),
            text_or_none(Some(odd.as_str()).filter(|o| !o.is_empty())),
            text(name(row.verdict)),
            text(row.reason.clone()),
        ]);
        table.push(cells);
    }
    table
}

fn by_host(m: &Merged) -> Table {
    let columns = "cell,baseline,environment,measure,metric,host,rounds,unit,baseline_median,candidate_median,tax,low,high,\
                   at_least,at_most,baseline_at_least,candidate_at_least";
    let mut table = Table::new("taxes_by_host", "Taxes by host", columns);
    for row in &m.rows {
        for host in &row.hosts {
            let mut cells = of_row(row);
            cells.extend([text(host.host.clone()), count(host.rounds), text(row.unit.clone())]);
            cells.extend([host.baseline, host.candidate].map(number));
            cells.push(number_or_none(host.tax));
            cells.extend(ends(host.interval));
            cells.extend([host.at_least, host.at_most].map(number_or_none));
            cells.extend([host.baseline_at_least, host.candidate_at_least].map(yes_no));
            table.push(cells);
        }
    }
    table
}
