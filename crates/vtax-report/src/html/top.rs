//! The top of the page: what the run is, the headline, the first table and the notes.

use vtax_plan::model::MeasureKind;
use vtax_store::summary::{Comparison, Doubt, Summary, Verdict};
use vtax_units::evidence;

use super::parts::{badge, close_table, head};
use crate::chapter::Section;
use crate::context::Context;
use crate::data::RunData;
use crate::families::unit_of_load;
use crate::family::storage;
use crate::format::{far_tax, judged_range, judged_tax, quantity, utc};
use crate::markup::Markup;
use crate::metric::LIFECYCLE;
use crate::plot;
use crate::rows::{MOST_ROWS, Row, TOO_FEW, first_and_rest};

/// Title, facts in one line, and the way to the sections.
pub(super) fn header(context: &Context, sections: &[Section]) -> Markup {
    let (plan, from) = (&context.data.plan, &context.data.provenance);
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
    let valid = context.summary.trials.iter().filter(|t| t.valid).count();
    facts.push(format!("{valid} of {} trials valid", context.summary.trials.len()));
    m.element("p", &[("class", "facts")], &facts.join(" · "));
    m.open("nav", &[("aria-label", "Sections")]);
    for section in sections {
        m.element("a", &[("href", &format!("#{}", section.id))], section.title);
    }
    m.close("nav").close("header");
    m
}

/// The headline, the first table and the notes.
pub(super) fn verdict(context: &Context, damage: &[String]) -> Markup {
    let summary = &context.summary;
    let mut m = Markup::new();
    m.open("section", &[("id", "verdict")]);
    m.add(&headline(&summary.headline));
    m.add(&list(storage::who_answered(context).iter().map(String::as_str)));
    let primary: Vec<&Row> = context.rows().iter().filter(|r| r.primary).collect();
    m.add(&tables(context, &primary));
    m.add(&closed_loop(&context.data));
    let doubts = doubts(summary);
    let notes: Vec<&String> = doubts.iter().chain(&summary.notes).chain(damage).collect();
    if !notes.is_empty() {
        m.fixed("<aside class=\"notes\"><h2>Read this first</h2><ul>");
        for text in notes {
            m.add(&note(text));
        }
        m.fixed("</ul></aside>");
    }
    m.close("section");
    m
}

/// The first table; of many rows those that the headline is about, and the others on demand.
fn tables(context: &Context, primary: &[&Row]) -> Markup {
    if primary.is_empty() {
        return Markup::new();
    }
    if primary.len() <= MOST_ROWS {
        return table(context, primary);
    }
    let (first, rest) = first_and_rest(primary);
    let mut m = table(context, &first);
    // Where all are of one metric, the headline is about all.
    if !rest.is_empty() {
        m.open("details", &[]).element("summary", &[], "The other metrics, judged the same way");
        m.add(&table(context, &rest)).close("details");
    }
    m
}

/// A note; what QEMU and a guest's console said is folded away.
fn note(text: &str) -> Markup {
    let mut m = Markup::new();
    let (note, evidence) = evidence::split(text);
    m.open("li", &[]).prose(note);
    if let Some(evidence) = evidence {
        m.open("details", &[])
            .element("summary", &[], "What QEMU said")
            .element("pre", &[], evidence)
            .close("details");
    }
    m.close("li");
    m
}

/// The headline; what has several sentences, one below the other.
fn headline(text: &str) -> Markup {
    let mut m = Markup::new();
    let mut sentences = text.split_inclusive(". ").map(str::trim_end);
    m.element("h1", &[], sentences.next().unwrap_or_default());
    m.add(&list(sentences));
    m
}

/// Sentences below the headline, one below the other.
fn list<'a>(sentences: impl Iterator<Item = &'a str>) -> Markup {
    let (mut m, mut items) = (Markup::new(), Markup::new());
    sentences.for_each(|sentence| _ = items.element("li", &[], sentence));
    if !items.is_empty() {
        m.open("ul", &[("class", "headline")]).add(&items).close("ul");
    }
    m
}

/// What a table of these rows shows: too few trials have no intervals.
fn caption(rows: &[&Row]) -> Markup {
    let mut m = Markup::new();
    let value = |row: &&Row| row.value.as_ref().is_some_and(|value| value.interval.is_some());
    let tax = |row: &&Row| row.comparison.as_ref().is_some_and(|c| c.corrected.or(c.interval).is_some());
    m.fixed(match rows.iter().any(|row| value(row) || tax(row)) {
        true => "<caption>Typical value over trials (median) and tax against the baseline, taken within rounds, each with its 95&nbsp;% interval. A tax above 1 is a cost, whichever way the metric runs. Verdicts hold for all of this table together.</caption>",
        false => "<caption>Typical value over trials (median) and tax against the baseline; too few trials for intervals and verdicts. A tax above 1 is a cost, whichever way the metric runs.</caption>",
    });
    m
}

fn table(context: &Context, rows: &[&Row]) -> Markup {
    let mut m = Markup::new();
    m.open("table", &[("class", "verdicts")]);
    m.add(&caption(rows));
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
            let block: Vec<&Row> =
                rows.iter().copied().filter(|r| (&r.group, r.metric, &r.measure) == this).collect();
            m.element("small", &[], &conditions(context, &block)).close("th").fixed("</tr>");
            last = Some(this);
        }
        m.add(&line(row, context.data.plan.margin.0));
    }
    close_table(&mut m);
    m
}

fn line(row: &Row, margin: f64) -> Markup {
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
            let range = row.comparison.as_ref().and_then(|c| c.interval);
            interval(&mut m, &range.map_or_else(String::new, |range| judged_range(range, margin)));
        }
    }
    m.close("td");
    m.open("td", &[("class", "word")]);
    if let Some(c) = &row.comparison {
        m.add(&badge(c.verdict));
    }
    m.close("td");
    m.open("td", &[("class", "why")]);
    if row.too_few && row.comparison.is_none() {
        m.text(TOO_FEW);
    }
    if let Some(c) = &row.comparison {
        m.prose(&c.reason);
        if let Some(text) = corrected(c, margin) {
            m.element("small", &[], &text);
        }
        let shown = |name: &str, least: f64| format!("smallest tax {name} could show: {}", far_tax(least));
        if let Some(detectable) = c.detectable.filter(|_| c.verdict != Verdict::Worse) {
            m.element("small", &[], &shown("this, judged alone,", detectable));
        }
        if let Some(least) = c.minimum_detectable {
            m.element("small", &[], &shown("this testbed, measured against itself,", least));
        }
    }
    m.close("td").close("tr");
    m
}

/// `judged by 0.95–1.09, as 8 comparisons are read together`, where that is wider; of a bound `judged by ≥ 1.09x`.
fn corrected(c: &Comparison, margin: f64) -> Option<String> {
    let ((low, high), family) = (c.corrected?, c.family?);
    let by = match (c.at_least, c.at_most) {
        (Some(least), _) => (low != least).then(|| format!("≥ {}", judged_tax(low, margin))),
        (_, Some(most)) => (high != most).then(|| format!("≤ {}", judged_tax(high, margin))),
        _ => (c.corrected != c.interval).then(|| judged_range((low, high), margin)),
    }?;
    Some(format!("judged by {by}, as {family} comparisons are read together"))
}

fn interval(m: &mut Markup, text: &str) {
    if !text.is_empty() {
        m.element("small", &[], text);
    }
}

/// Under which load a metric of these rows, which are of one group and measure, was measured.
fn conditions(context: &Context, rows: &[&Row]) -> String {
    let Some(row) = rows.first().filter(|row| row.measure != LIFECYCLE) else { return String::new() };
    let unit = unit_of_load(context.data.cell(&row.cell));
    let offered: Vec<f64> = context
        .summary
        .cells
        .iter()
        .filter(|c| c.measure == row.measure && rows.iter().any(|row| row.cell == c.cell))
        .filter_map(|c| c.metrics.get("offered").map(|m| m.center))
        .collect();
    let low = offered.iter().copied().reduce(f64::min);
    let high = offered.iter().copied().reduce(f64::max);
    match (low, high) {
        (Some(low), Some(high)) if high / low < 1.01 => {
            format!("{} at {}", row.measure, quantity(low, unit))
        }
        (Some(low), Some(high)) => {
            format!("{} at {} to {}", row.measure, quantity(low, unit), quantity(high, unit))
        }
        _ if row.measure == row.metric => String::new(),
        _ => row.measure.clone(),
    }
}

/// What a reader of closed-loop figures must know; empty where there are none.
fn closed_loop(data: &RunData) -> Markup {
    let closed = data.plan.measures.iter().filter(|m| {
        matches!(m.kind, MeasureKind::Throughput(_)) && data.trials.iter().any(|t| t.measure == m.name)
    });
    let names: Vec<&str> = closed.map(|m| m.name.as_str()).collect();
    let mut m = Markup::new();
    if !names.is_empty() {
        let text = format!(
            "Closed loop ({}): a connection sends its next request only when it has its answer, so while the service \
             stalls nobody asks, and the stall counts once instead of for all who would have waited (coordinated \
             omission). These latencies are too good; measure latency in an open loop.",
            names.join(", ")
        );
        m.open("p", &[("class", "warning"), ("role", "note")]).element("b", &[], "⚠ ").text(&text).close("p");
    }
    m
}

/// How many verdicts there are of each kind of doubt, for the top of the page; empty without any.
fn doubts(summary: &Summary) -> Vec<String> {
    let of = |kind: Doubt| summary.comparisons.iter().filter(|c| c.doubt == Some(kind)).count();
    let mut said = Vec::new();
    let drifted = of(Doubt::Drifted);
    if drifted > 0 {
        let have = if drifted == 1 { "comparison has" } else { "comparisons have" };
        said.push(format!("The environment drifted: {drifted} {have} no verdict because of it."));
    }
    let below = of(Doubt::BelowDetectable);
    if below > 0 {
        let text = "below what this testbed can tell apart, and";
        said.push(match below {
            1 => format!("1 comparison shows an effect {text} has no verdict."),
            _ => format!("{below} comparisons show effects {text} have no verdict."),
        });
    }
    debug_assert!(
        summary.comparisons.iter().all(|c| (c.doubt.is_some()) == (c.verdict == Verdict::Inconclusive))
    );
    said
}

#[cfg(test)]
mod tests {
    use vtax_fixture::{Options, create};

    use super::*;
    use crate::Report;

    #[test]
    fn a_bound_is_judged_by_the_end_that_bounds() {
        let of = |at_least, at_most| {
            let (corrected, family) = (Some((1.1, 3.0)), Some(8));
            let c = Comparison { at_least, at_most, corrected, family, ..Comparison::default() };
            super::corrected(&c, 0.05)
        };
        let read = "as 8 comparisons are read together";
        assert_eq!(of(Some(1.2), None).unwrap(), format!("judged by ≥ 1.10x, {read}"));
        assert_eq!(of(None, Some(2.8)).unwrap(), format!("judged by ≤ 3.0x, {read}"));
        assert_eq!(of(Some(1.1), None), None);
        assert_eq!(of(None, None).unwrap(), format!("judged by 1.10–3.0, {read}"));
        // Not within a margin of 5 %, and not printed as if it were.
        let (corrected, family) = (Some((0.946, 1.046)), Some(8));
        let outside = Comparison { corrected, family, ..Comparison::default() };
        assert_eq!(super::corrected(&outside, 0.05).unwrap(), format!("judged by 0.946–1.046, {read}"));
    }

    /// Each size of page has a load of its own, and its heading no other's.
    #[test]
    fn a_heading_has_the_load_of_its_own_rows() {
        let dir = tempfile::tempdir().unwrap();
        let targets = ["100", "1MB"].map(str::to_owned).into();
        let options = Options { repetitions: 2, seconds: 1, rate: 100, targets, ..Options::default() };
        let mut context = Report::read(&create(&dir.path().join("run"), &options).unwrap()).unwrap().context;
        for cell in context.summary.cells.iter_mut().filter(|cell| cell.measure == "latency") {
            let offered = cell.metrics.get_mut("offered").unwrap();
            offered.center = if cell.cell.ends_with("1MB") { 50.0 } else { 7000.0 };
        }
        let of = |group: &str| -> Vec<&Row> {
            let own =
                |r: &&Row| r.measure == "latency" && r.metric == "latency_p50" && r.group.ends_with(group);
            context.rows().iter().filter(own).collect()
        };
        let rows = [of("100"), of("1MB")];
        assert!(rows.iter().all(|rows| rows.len() > 1), "{rows:?}");
        assert_eq!(conditions(&context, &rows[0]), "latency at 7000 req/s");
        assert_eq!(conditions(&context, &rows[1]), "latency at 50.0 req/s");
        let both: Vec<&Row> = rows.concat();
        assert_eq!(conditions(&context, &both), "latency at 50.0 req/s to 7000 req/s");
    }

    /// An empty table said that there were too few trials.
    #[test]
    fn many_rows_of_one_metric_have_no_others_behind_them() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { repetitions: 5, seconds: 1, rate: 100, ..Options::default() };
        let context = Report::read(&create(&dir.path().join("run"), &options).unwrap()).unwrap().context;
        let of = |metric: &str| -> Vec<&Row> {
            let own: Vec<&Row> = context.rows().iter().filter(|r| r.primary && r.metric == metric).collect();
            own.repeat(MOST_ROWS)
        };
        let one = tables(&context, &of("capacity")).into_string();
        assert!(one.contains("class=\"verdicts\"") && !one.contains("<details>"), "{one}");
        assert!(!one.contains("too few trials for intervals"), "{one}");
        let two = tables(&context, &[of("capacity"), of("latency_p50")].concat()).into_string();
        assert!(two.contains("The other metrics"), "{two}");
        assert!(tables(&context, &[]).is_empty());
    }

    #[test]
    fn a_long_headline_is_a_list() {
        assert_eq!(
            headline("Equal to a: b, 1.5 % more.").into_string(),
            "<h1>Equal to a: b, 1.5 % more.</h1>"
        );
        let long = headline("Worse than a: b. Better than a: c. Can't tell from a: d.").into_string();
        let items = "<li>Better than a: c.</li><li>Can&#39;t tell from a: d.</li>";
        assert_eq!(long, format!("<h1>Worse than a: b.</h1><ul class=\"headline\">{items}</ul>"));
        let other = "Nothing was measured yet.";
        assert_eq!(headline(other).into_string(), format!("<h1>{other}</h1>"));
    }
}
