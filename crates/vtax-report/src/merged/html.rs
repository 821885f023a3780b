//! What hosts found together, as one self-contained page.

use vtax_store::summary::Comparison;

use super::table::{difference, host_text, interval_text, overall_text, place, said};
use super::{Merged, MergedLatency, MergedRow};
use crate::families::named;
use crate::format::{duration, typical, utc};
use crate::html::page::start;
use crate::html::parts::{badge, close_table, figure, open_table, scrolling};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::plot::forest::forest;
use crate::plot::responsive;
use crate::rows::Row;

/// Hosts that a picture shows one by one; of more only the overall tax and hosts that are different.
const MOST_IN_PICTURE: usize = 24;

pub(super) fn render(m: &Merged) -> String {
    let mut page = start(None);
    page.element("title", &[], &format!("vtax on {} hosts: {}", m.hosts.len(), m.plan));
    page.fixed("<style>").fixed(include_str!("../html/style.css")).fixed("</style></head><body>");
    page.open("header", &[])
        .open("p", &[("class", "brand")])
        .text("vtax on many machines · ")
        .text(&m.plan)
        .close("p")
        .close("header")
        .open("main", &[])
        .element("h1", &[], &m.headline);
    list(&mut page, "Read this first", &m.warnings);
    if !m.rows.is_empty() {
        page.element("h2", &[], "Taxes over hosts").add(&overall(m));
        let caption = "The overall tax, then each host's own. A bar is a 95 % interval: of the overall tax over hosts like these, of \
                       a host over its rounds.";
        let rows = pictured(m);
        let rows: Vec<&Row> = rows.iter().collect();
        page.add(&figure(caption, &[], &responsive(|width| forest(&rows, m.margin, width))));
        page.element("h2", &[], "Each host").add(&each(m));
    }
    if !m.latency.is_empty() {
        page.element("h2", &[], "Latency over hosts").add(&latency(&m.latency));
    }
    page.element("h2", &[], "Hosts and their runs").add(&hosts(m));
    let differences: Vec<String> = m.differences.iter().map(difference).collect();
    list(&mut page, "Not the same on all hosts", &differences);
    page.fixed("</main></body></html>\n");
    page.into_string()
}

fn list(page: &mut Markup, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    page.fixed("<aside class=\"notes\">").element("h2", &[], title).open("ul", &[]);
    for item in items {
        page.element("li", &[], item);
    }
    page.close("ul").fixed("</aside>");
}

fn metric(row: &MergedRow) -> String {
    format!("{} [{}]", row.label, row.measure)
}

fn overall(m: &Merged) -> Markup {
    let columns = [
        ("Where", false),
        ("Metric", false),
        ("Hosts", true),
        ("Tax", true),
        ("95 %", true),
        ("One more host", true),
        ("Verdict", false),
        ("Hosts among each other", false),
    ];
    let mut table = open_table("stacked", &columns);
    for row in &m.rows {
        table.open("tr", &[]).element("th", &[("scope", "row")], &place(row)).element(
            "td",
            &[],
            &metric(row),
        );
        let figures = [
            row.hosts.len().to_string(),
            overall_text(row),
            interval_text(row.interval),
            interval_text(row.another),
        ];
        for text in &figures {
            table.element("td", &[("class", "n")], text);
        }
        table.open("td", &[]).add(&badge(row.verdict)).close("td").element("td", &[], &said(row)).close("tr");
    }
    close_table(&mut table);
    scrolling(&table)
}

/// The rows of the picture: of each comparison the overall tax, then hosts.
fn pictured(m: &Merged) -> Vec<Row> {
    let mut rows = Vec::new();
    for row in &m.rows {
        let Some(info) = named(&row.metric) else { continue };
        let line = |environment: String, position: usize, comparison: Comparison| Row {
            group: place(row),
            cell: row.cell.clone(),
            environment,
            position,
            measure: row.measure.clone(),
            metric: info.name,
            label: info.label,
            primary: true,
            value: None,
            too_few: false,
            comparison: Some(comparison),
        };
        let of_row = |tax, interval| Comparison {
            cell: row.cell.clone(),
            baseline: row.baseline.clone(),
            measure: row.measure.clone(),
            metric: row.metric.clone(),
            tax,
            interval,
            ..Comparison::default()
        };
        let overall = Comparison {
            at_least: row.at_least,
            at_most: row.at_most,
            corrected: row.corrected,
            verdict: row.verdict,
            reason: row.reason.clone(),
            ..of_row(row.tax, row.interval)
        };
        rows.push(line("all hosts".to_owned(), 1, overall));
        let few = row.hosts.len() <= MOST_IN_PICTURE;
        for host in row.hosts.iter().filter(|h| few || row.odd.contains(&h.host)) {
            let position = if row.odd.contains(&host.host) { 2 } else { 0 };
            let own = Comparison {
                at_least: host.at_least,
                at_most: host.at_most,
                ..of_row(host.tax, host.interval)
            };
            rows.push(line(host.host.clone(), position, own));
        }
    }
    rows
}

fn each(m: &Merged) -> Markup {
    let columns = [
        ("Where", false),
        ("Metric", false),
        ("Host", false),
        ("Rounds", true),
        ("Baseline", true),
        ("There", true),
        ("Tax", true),
        ("95 %", true),
        ("", false),
    ];
    let mut table = PlainTable::new("", &columns);
    for row in &m.rows {
        for host in &row.hosts {
            let cells = [
                metric(row),
                host.host.clone(),
                host.rounds.to_string(),
                typical(host.baseline, &row.unit, host.baseline_at_least),
                typical(host.candidate, &row.unit, host.candidate_at_least),
                host_text(host),
                interval_text(host.interval),
                if row.odd.contains(&host.host) { "differs" } else { "" }.to_owned(),
            ];
            table.push(&place(row), cells);
        }
    }
    scrolling(&table.finish())
}

fn latency(all: &[MergedLatency]) -> Markup {
    let mut m = Markup::new();
    m.element(
        "p",
        &[],
        "Every answer of every host counts the same: histograms are added bucket by bucket, percentiles are never averaged. Behind a \
         percentile stands the lowest and the highest host's own.",
    );
    let columns = [("Where", false), ("Measure", false), ("Hosts", true), ("Answers", true)];
    let names: Vec<&String> = all
        .iter()
        .max_by_key(|l| l.percentiles.len())
        .map(|l| l.percentiles.keys().collect())
        .unwrap_or_default();
    let titles: Vec<String> = names.iter().map(|name| format!("{name} %")).collect();
    let columns: Vec<(&str, bool)> =
        columns.into_iter().chain(titles.iter().map(|title| (title.as_str(), true))).collect();
    let mut table = PlainTable::new("whole", &columns);
    for latency in all {
        let mut cells = vec![latency.measure.clone(), latency.hosts.to_string(), latency.answers.to_string()];
        cells.extend(names.iter().map(|name| match latency.percentiles.get(*name) {
            Some((value, ..)) if latency.hosts < 2 => duration(*value),
            Some((value, low, high)) => with_range(*value, *low, *high),
            None => String::new(),
        }));
        table.push(&latency.environment, cells);
    }
    m.add(&scrolling(&table.finish()));
    m
}

/// A percentile with the lowest and the highest host's own, which may stand below it; no time is broken itself.
fn with_range(value: f64, low: f64, high: f64) -> String {
    let [value, low, high] = [value, low, high].map(|ns| duration(ns).replace(' ', "\u{a0}"));
    format!("{value} ({low}\u{a0}to {high})")
}

fn hosts(m: &Merged) -> Markup {
    let columns = [
        ("Host", false),
        ("Machine", false),
        ("Run", false),
        ("Started", false),
        ("Trials that count", true),
    ];
    let mut table = PlainTable::new("whole", &columns);
    for host in &m.hosts {
        for run in &host.runs {
            let complete = if run.complete { "" } else { ", not complete" };
            let trials = format!("{} of {}{complete}", run.valid_trials, run.trials);
            table
                .push(&host.name, [host.machine.clone(), run.path.clone(), utc(run.started_unix_ms), trials]);
        }
    }
    scrolling(&table.finish())
}
