//! The top of the page: headline, first table, notes, forest plot; and the table of all figures.

use vtax_store::summary::{Comparison, Summary, Verdict};

use super::{head, scrolling};
use crate::format::{digits, quantity, tax, tax_range, utc};
use crate::headline::word;
use crate::markup::Markup;
use crate::metric::{LIFECYCLE, METRICS};
use crate::plot::{self, forest};
use crate::report::Report;
use crate::table::{Row, sign};

/// More rows than this are no longer one table to take in.
const MOST_ROWS: usize = 24;

/// Title, facts in one line, and the way to the sections.
pub(super) fn header(report: &Report, sections: &[(&'static str, &'static str)]) -> Markup {
    let (plan, from) = (&report.data.plan, &report.data.provenance);
    let mut m = Markup::new();
    m.open("header", &[]).open("div", &[("class", "title")]);
    m.open("p", &[("class", "brand")]).text("vtax · ").text(&plan.name).close("p");
    m.fixed("<button id=\"theme\" type=\"button\" hidden>Light or dark</button>").close("div");
    m.element("p", &[("class", "question")], &plan.description);
    let mut facts = vec![utc(from.started_unix_ms)];
    if !from.host.cpu_model.is_empty() {
        facts.push(format!("{}, {} CPUs", from.host.cpu_model, from.host.cpus));
    }
    if !from.host.kernel.is_empty() {
        facts.push(format!("Linux {}", from.host.kernel));
    }
    let valid = report.summary.trials.iter().filter(|t| t.valid).count();
    facts.push(format!("{valid} of {} trials valid", report.summary.trials.len()));
    m.element("p", &[("class", "facts")], &facts.join(" · "));
    m.open("nav", &[("aria-label", "Sections")]);
    for (id, title) in sections {
        m.element("a", &[("href", &format!("#{id}"))], title);
    }
    m.close("nav").close("header");
    m
}

/// The headline, the first table and the notes.
pub(super) fn verdict(report: &Report, rows: &[Row], damage: &[String]) -> Markup {
    let summary = &report.summary;
    let mut m = Markup::new();
    m.open("section", &[("id", "verdict")]);
    m.element("h1", &[], &summary.headline);
    let primary: Vec<&Row> = rows.iter().filter(|r| r.primary).collect();
    if primary.len() > MOST_ROWS {
        // With many combinations the first table is about what the headline is about.
        let (first, rest) = first_and_rest(&primary);
        m.add(&table(report, &first));
        m.open("details", &[]).element("summary", &[], "The other metrics, judged the same way");
        m.add(&table(report, &rest)).close("details");
    } else if !primary.is_empty() {
        m.add(&table(report, &primary));
    }
    m.add(&super::why::closed_loop(&report.data));
    let doubts = super::why::doubts(summary);
    let notes: Vec<&String> = doubts.iter().chain(&summary.notes).chain(damage).collect();
    if !notes.is_empty() {
        m.fixed("<aside class=\"notes\"><h3>Read this first</h3><ul>");
        for note in notes {
            m.element("li", &[], note);
        }
        m.fixed("</ul></aside>");
    }
    m.close("section");
    m
}

fn table(report: &Report, rows: &[&Row]) -> Markup {
    let mut m = Markup::new();
    m.open("table", &[("class", "verdicts")]);
    m.fixed("<caption>Typical value over trials (median) and tax against the baseline, taken within rounds, each with its 95&nbsp;% interval. A tax above 1 is a cost, whichever way the metric runs. Verdicts hold for all of this table together.</caption>");
    head(
        &mut m,
        &[("Environment", false), ("Value", true), ("Tax", true), ("Verdict", false), ("Why", false)],
    );
    let mut last = None;
    for row in rows {
        let this = (&row.group, row.metric, &row.measure);
        if last != Some(this) {
            if last.is_some() {
                m.close("tbody");
            }
            m.open("tbody", &[]).fixed("<tr class=\"metric\">");
            m.open("th", &[("colspan", "5"), ("scope", "rowgroup")]);
            if !row.group.is_empty() {
                m.text(&row.group).text(" · ");
            }
            m.text(row.label);
            m.element("small", &[], &conditions(report, row)).close("th").fixed("</tr>");
            last = Some(this);
        }
        m.add(&line(row));
    }
    m.close("tbody").close("table");
    m
}

fn line(row: &Row) -> Markup {
    let mut m = Markup::new();
    m.open("tr", &[]);
    m.open("th", &[("scope", "row"), ("class", plot::series(row.position))]).fixed("<i class=\"dot\"></i>");
    m.text(&row.environment).close("th");
    m.open("td", &[("class", "n value")]).element("b", &[], &row.value_text());
    interval(&mut m, &row.interval_text());
    m.close("td");
    let base = row.comparison.is_none() && row.position == 0;
    m.open("td", &[("class", if base { "n tax base" } else { "n tax" })]);
    match &row.comparison {
        None if base => {
            m.element("span", &[("class", "quiet")], "baseline");
        }
        _ => {
            m.element("b", &[], &row.tax_text());
            interval(&mut m, &row.tax_interval_text());
        }
    }
    m.close("td");
    m.open("td", &[("class", "word")]);
    if let Some(c) = &row.comparison {
        m.add(&badge(c.verdict));
    }
    m.close("td");
    m.open("td", &[("class", "why")]);
    if let Some(c) = &row.comparison {
        m.text(&c.reason);
        if let Some(text) = corrected(c) {
            m.element("small", &[], &text);
        }
        let shown = |name: &str, least: f64| format!("smallest tax {name} could show: {}", tax(least));
        if let Some(detectable) = c.detectable.filter(|_| c.verdict != Verdict::Worse) {
            m.element("small", &[], &shown("this", detectable));
        }
        if let Some(least) = c.minimum_detectable {
            m.element("small", &[], &shown("this testbed, measured against itself,", least));
        }
    }
    m.close("td").close("tr");
    m
}

/// `judged at 0.95–1.09, as 8 comparisons are read together`, where that is wider.
fn corrected(c: &Comparison) -> Option<String> {
    let ((low, high), family) = (c.corrected?, c.family?);
    (c.corrected != c.interval)
        .then(|| format!("judged by {}, as {family} comparisons are read together", tax_range(low, high)))
}

fn interval(m: &mut Markup, text: &str) {
    if !text.is_empty() {
        m.element("small", &[], text);
    }
}

/// Word and sign: never colour alone.
pub(super) fn badge(verdict: Verdict) -> Markup {
    let class = match verdict {
        Verdict::Better => "badge better",
        Verdict::Worse => "badge worse",
        Verdict::Equivalent => "badge equivalent",
        Verdict::Inconclusive => "badge unknown",
    };
    let mut m = Markup::new();
    m.open("span", &[("class", class)]);
    m.element("i", &[("aria-hidden", "true")], sign(verdict)).text(word(verdict)).close("span");
    m
}

/// Under which load a metric was measured.
fn conditions(report: &Report, row: &Row) -> String {
    if row.measure == LIFECYCLE {
        return String::new();
    }
    let offered: Vec<f64> = report
        .summary
        .cells
        .iter()
        .filter(|c| c.measure == row.measure)
        .filter_map(|c| c.metrics.get("offered").map(|m| m.center))
        .collect();
    let low = offered.iter().copied().reduce(f64::min);
    let high = offered.iter().copied().reduce(f64::max);
    match (low, high) {
        (Some(low), Some(high)) if high / low < 1.01 => {
            format!("{} at {}", row.measure, quantity(low, "req/s"))
        }
        (Some(low), Some(high)) => {
            format!("{} at {} to {}", row.measure, quantity(low, "req/s"), quantity(high, "req/s"))
        }
        _ if row.measure == row.metric => String::new(),
        _ => row.measure.clone(),
    }
}

/// The forest plot of the primary metrics.
pub(super) fn taxes(report: &Report, rows: &[Row]) -> Markup {
    let primary: Vec<&Row> = rows.iter().filter(|r| r.primary && r.comparison.is_some()).collect();
    if primary.is_empty() {
        return Markup::new();
    }
    let margin = report.data.plan.margin.0;
    let draw = |rows: &[&Row]| plot::responsive(|width| forest::forest(rows, margin, width));
    let caption = format!(
        "What each environment costs over the baseline. The shaded zone, 1 ± {}, counts as equal.",
        crate::format::tick(margin, "1")
    );
    if primary.len() <= 2 * MOST_ROWS {
        return super::figure(&caption, &[], &draw(&primary));
    }
    let (first, rest) = first_and_rest(&primary);
    let mut m = super::figure(&caption, &[], &draw(&first));
    m.open("details", &[]).element("summary", &[], "The other metrics").add(&draw(&rest)).close("details");
    m
}

/// What the headline is about, and the other metrics and measures.
fn first_and_rest<'a>(rows: &[&'a Row]) -> (Vec<&'a Row>, Vec<&'a Row>) {
    rows.iter().partition(|r| r.metric == rows[0].metric && r.measure == rows[0].measure)
}

/// Every metric of every cell, sortable.
pub(super) fn all_figures(rows: &[Row], summary: &Summary) -> Markup {
    let mut m = Markup::new();
    m.open("details", &[]).element("summary", &[], "Every metric of every environment");
    let mut table = Markup::new();
    table.open("table", &[("class", "sortable")]);
    head(
        &mut table,
        &[
            ("Cell", false),
            ("Measure", false),
            ("Metric", false),
            ("Trials", true),
            ("Typical", true),
            ("95 % interval", true),
            ("Mean", true),
            ("SD", true),
            ("Tax", true),
            ("Verdict", false),
        ],
    );
    table.open("tbody", &[]);
    for cell in &summary.cells {
        for info in &METRICS {
            let Some(v) = cell.metrics.get(info.name) else { continue };
            let comparison = summary
                .comparisons
                .iter()
                .find(|c| c.cell == cell.cell && c.measure == cell.measure && c.metric == info.name);
            table.open("tr", &[]);
            table.element("th", &[("scope", "row")], &cell.cell);
            table.element("td", &[], &cell.measure).element("td", &[], info.label);
            let mut number = |value: f64, text: &str| {
                table.element("td", &[("class", "n"), ("data-v", &value.to_string())], text);
            };
            number(f64::from(v.n), &v.n.to_string());
            number(v.center, &quantity(v.center, &v.unit));
            let interval =
                v.interval.map_or_else(String::new, |i| crate::format::range(v.center, i, &v.unit));
            number(v.interval.map_or(0.0, |i| i.0), &interval);
            number(v.mean, &quantity(v.mean, &v.unit));
            number(v.sd.unwrap_or(0.0), &v.sd.map_or_else(String::new, |sd| relative(sd, v.mean)));
            let t = comparison.and_then(|c| c.tax);
            number(t.unwrap_or(0.0), &t.map_or_else(String::new, tax));
            table.element("td", &[], comparison.map_or("", |c| word(c.verdict))).close("tr");
        }
    }
    table.close("tbody").close("table");
    m.add(&scrolling(&table)).close("details");
    if rows.is_empty() { Markup::new() } else { m }
}

/// A standard deviation as a share of its mean.
fn relative(sd: f64, mean: f64) -> String {
    if mean > 0.0 { format!("{} %", digits(sd / mean * 100.0)) } else { digits(sd) }
}
