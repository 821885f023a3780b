//! The comparison as one self-contained page.

use super::table::{
    NOT_COMPARABLE, doubt, gate_word, interval_text, made_of, only_text, place, side_text, tax_text,
    value_text,
};
use super::{Row, RunComparison};
use crate::html::page::start;
use crate::html::parts::{badge, close_table, open_table, scrolling};
use crate::markup::Markup;

pub(super) fn render(c: &RunComparison) -> String {
    let mut page = start(None);
    page.element("title", &[], &format!("vtax compare: {}", c.plan));
    page.fixed("<style>").fixed(include_str!("../html/style.css")).fixed("</style></head><body>");
    page.open("header", &[])
        .open("p", &[("class", "brand")])
        .text("vtax compare · ")
        .text(&c.plan)
        .close("p");
    for (name, side) in [("A", &c.a), ("B", &c.b)] {
        page.element("p", &[("class", "facts")], &format!("{name} {}", side_text(side)));
    }
    page.close("header").open("main", &[]).element("h1", &[], &c.headline);
    if !c.warnings.is_empty() {
        page.fixed("<aside class=\"notes\"><h2>Read this first</h2>");
        list(&mut page, c.warnings.iter().cloned()).fixed("</aside>");
    }
    page.element("h2", &[], "Taxes of B over A").add(&rows(c));
    page.element("p", &[("class", "small-print")], &made_of(c));
    if !c.only.is_empty() {
        page.element("h2", &[], "Not compared");
        list(&mut page, c.only.iter().map(only_text));
    }
    if !c.changes.is_empty() {
        page.element("h2", &[], "What changed besides");
        list(&mut page, c.changes.iter().cloned());
    }
    page.fixed("</main></body></html>\n");
    page.into_string()
}

fn list(page: &mut Markup, items: impl Iterator<Item = String>) -> &mut Markup {
    page.open("ul", &[]);
    for item in items {
        page.element("li", &[], &item);
    }
    page.close("ul")
}

fn rows(c: &RunComparison) -> Markup {
    let mut columns = vec![
        ("Where", false),
        ("Metric", false),
        ("A", true),
        ("B", true),
        ("Tax", true),
        ("95 %", true),
        ("Verdict", false),
    ];
    columns.extend(c.gate.map(|_| ("Gate", false)));
    columns.push(("Why", false));
    let mut table = open_table("stacked", &columns);
    for row in &c.rows {
        line(&mut table, row, c);
    }
    close_table(&mut table);
    scrolling(&table)
}

fn line(table: &mut Markup, row: &Row, c: &RunComparison) {
    let metric = format!("{} [{}]", row.label, row.comparison.measure);
    table.open("tr", &[]).element("th", &[("scope", "row")], &place(row)).element("td", &[], &metric);
    let figures = [value_text(row.a.as_ref()), value_text(row.b.as_ref()), tax_text(row), interval_text(row)];
    for text in &figures {
        table.element("td", &[("class", "n")], text);
    }
    table.open("td", &[]);
    match row.comparable {
        true => table.add(&badge(row.comparison.verdict)),
        false => table.text(NOT_COMPARABLE),
    };
    table.close("td");
    if c.gate.is_some() {
        table.element("td", &[], gate_word(row));
    }
    table.element("td", &[], &doubt(row, c)).close("tr");
}
