//! The study this repeats, where the plan names it: its tables 4 and 9 as printed, in `studies/virtual-servers/desktops.yaml`.

use std::sync::LazyLock;

use serde::Deserialize;
use vtax_plan::model::{Plan, Study as Name};

use super::found::Compared;
use crate::format::{digits, quantity};
use crate::html::parts::wide;
use crate::html::table::PlainTable;
use crate::markup::Markup;

/// Tables of the study.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Study {
    tables: Vec<Printed>,
    /// What else it says of desktops, in sentences.
    said: Vec<String>,
}

/// A table as printed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    number: u32,
    title: String,
    /// Sessions, where the study tells.
    sessions: Option<u32>,
    /// Share of a CPU, 0 to 1, that the study read off its chart at that time.
    cpu: f64,
    /// Usage, transmitted and received in kB/s.
    rows: Vec<[f64; 3]>,
}

/// `None` if the file, which is part of the program, couldn't be read; a test reads it.
static STUDY: LazyLock<Option<Study>> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("../../../studies/virtual-servers/desktops.yaml")).ok()
});

/// The study's rows, then the run's own; empty where the plan doesn't name the study.
pub(super) fn section(plan: &Plan, all: &[Compared<'_>]) -> Markup {
    let mut m = Markup::new();
    let Some(study) = STUDY.as_ref().filter(|_| plan.study == Some(Name::VirtualServers)) else { return m };
    let columns = [
        ("Row", false),
        ("Sessions", true),
        ("Usage, kB/s", true),
        ("Transmitted, kB/s", true),
        ("Received, kB/s", true),
        ("CPU", true),
        ("p95", true),
    ];
    let mut table = PlainTable::new("", &columns);
    for printed in &study.tables {
        let sessions = printed.sessions.map_or_else(|| "not told".to_owned(), |n| n.to_string());
        for (row, rates) in printed.rows.iter().enumerate() {
            let head = format!("Table {}, {}, row {}", printed.number, printed.title, row + 1);
            let [usage, transmitted, received] = rates.map(digits);
            let cpu = format!("about {}", quantity(printed.cpu, "1"));
            table.push(
                &head,
                [sessions.clone(), usage, transmitted, received, cpu, "not measured".to_owned()],
            );
        }
    }
    for (compared, found) in all.iter().flat_map(|compared| compared.found.iter().map(move |f| (compared, f)))
    {
        let group = if compared.label.is_empty() { String::new() } else { format!(", {}", compared.label) };
        let head = format!("this run: {}, {}{group}", found.label, found.measure);
        let (transmitted, received) = found.rates;
        let kilo = |rate: f64| digits(rate / 1e3);
        let busy = found.value("desktop_cpu_per_session").map(|share| share * f64::from(found.users));
        let cpu = busy.map_or_else(String::new, |share| quantity(share, "1"));
        let rates = [transmitted + received, transmitted, received].map(kilo);
        let cells =
            [found.users.to_string()].into_iter().chain(rates).chain([cpu, found.percentile_words(0.95)]);
        table.push(&head, cells);
    }
    m.add(&wide(&table.finish(), columns.len()));
    let ours = "The study's rows are of connecting and of a little use, read every 20 seconds off the host's charts, and it judged \
                response times by eye. This run's are means while users are at work, payload without headers, as the clients counted \
                it. CPU is of one CPU here, and of the whole virtual machine there.";
    m.element("p", &[], ours);
    m.open("ul", &[("class", "small-print")]);
    for said in &study.said {
        m.element("li", &[], said);
    }
    m.close("ul");
    m
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_the_sum_of_both_directions_within_rounding() {
        let study = STUDY.as_ref().unwrap();
        assert_eq!(
            study.tables.iter().map(|t| (t.number, t.rows.len())).collect::<Vec<_>>(),
            [(4, 4), (9, 10)]
        );
        for [usage, transmitted, received] in study.tables.iter().flat_map(|table| &table.rows) {
            assert!((usage - transmitted - received).abs() <= 2.0, "{usage}");
        }
    }
}
