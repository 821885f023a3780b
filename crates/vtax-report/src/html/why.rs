//! Each verdict in words, with the trials it is made of and how it narrowed.

use vtax_store::record::Validity;
use vtax_store::summary::{Doubt, Summary, Verdict};

use super::verdict::badge;
use super::{figure, head, scrolling};
use crate::data::RunData;
use crate::format::{duration, tick};
use crate::judged::narrowing as steps;
use crate::markup::Markup;
use crate::plot::dots::{Dots, dots};
use crate::plot::narrowing::{Narrowing, narrowing};
use crate::plot::responsive;
use crate::report::Report;
use crate::summarise::invalid;
use crate::table::Row;

/// More verdicts than this are explained on demand.
const MOST_OPEN: usize = 12;

/// Every verdict of the first table.
pub(super) fn why(report: &Report, rows: &[Row]) -> Markup {
    let primary: Vec<&Row> = rows.iter().filter(|r| r.primary).collect();
    let judged = primary.iter().filter(|r| r.comparison.is_some()).count();
    let mut m = Markup::new();
    if judged == 0 {
        return m;
    }
    m.element("p", &[("class", "small-print")], &method(report));
    let mut parts = Markup::new();
    for block in primary.chunk_by(|a, b| (&a.group, &a.measure, a.metric) == (&b.group, &b.measure, b.metric))
    {
        parts.add(&metric(report, block));
    }
    if judged > MOST_OPEN {
        let summary = format!("All {judged} verdicts, one by one");
        m.open("details", &[]).element("summary", &[], &summary).add(&parts).close("details");
    } else {
        m.add(&parts);
    }
    m
}

/// How verdicts are reached in this run, in a paragraph.
fn method(report: &Report) -> String {
    let plan = &report.data.plan;
    let family = report.summary.comparisons.iter().filter_map(|c| c.family).max().unwrap_or(1);
    let mut text = format!(
        "Statistics count trials, not requests. A tax within ± {} counts as none.",
        tick(plan.margin.0, "1")
    );
    if plan.repeat.max > plan.repeat.min {
        text.push_str(&format!(
            " Trials were added, from {} up to {} rounds, until the interval was within ± {} or time was up; intervals \
             are widened for having been looked at on the way.",
            plan.repeat.min,
            plan.repeat.max,
            tick(plan.repeat.until.0, "1")
        ));
    }
    if family > 1 {
        text.push_str(
            " Comparisons of the first table are one family, all others another: in each, verdicts are corrected \
             (Holm) so that even one false claim happens in at most 5 of 100 runs.",
        );
    }
    match &report.data.calibration {
        Some(k) => text.push_str(&format!(
            " What this testbed can tell apart was measured by comparing the baseline with itself ({}).",
            crate::format::utc(k.made_unix_ms)
        )),
        None => text.push_str(
            " This testbed was not calibrated: `vtax calibrate PLAN` measures which effects it can tell at all.",
        ),
    }
    text
}

fn metric(report: &Report, rows: &[&Row]) -> Markup {
    let data = &report.data;
    let first = rows[0];
    let group = if first.group.is_empty() { String::new() } else { format!("{} · ", first.group) };
    let own = first.label.split(',').next() == Some(first.measure.as_str());
    let measure = if own { String::new() } else { format!(" · {}", first.measure) };
    let title = format!("{group}{}{measure}", first.label);
    let mut m = Markup::new();
    m.open("div", &[("class", "why-metric")]).element("h3", &[], &title);
    let all: Vec<Dots> = rows
        .iter()
        .filter_map(|r| {
            let v = r.value.as_ref().filter(|v| !v.values.is_empty())?;
            let (label, position) = (r.environment.clone(), r.position);
            let (center, interval) = (v.center, v.interval);
            Some(Dots { label, position, values: v.values.clone(), center, interval })
        })
        .collect();
    let unit = rows.iter().find_map(|r| r.value.as_ref()).map_or("", |v| v.unit.as_str());
    if !all.is_empty() {
        let picture = responsive(|w| dots(&all, &title, unit, w));
        m.add(&figure(
            "Each dot is a trial; the bar below is the 95 % interval of the median",
            &[],
            &picture,
        ));
    }
    let mut panels = Markup::new();
    for row in rows {
        let Some(c) = &row.comparison else { continue };
        m.open("p", &[("class", "verdict-words")]).add(&badge(c.verdict)).text(" ");
        m.text(&c.explanation).close("p");
        let found = steps(data, c);
        if found.len() > 1 {
            let repeat = &data.plan.repeat;
            let until = (repeat.max > repeat.min).then_some(repeat.until.0);
            let what = Narrowing {
                title: &row.environment,
                position: row.position,
                margin: data.plan.margin.0,
                until,
            };
            panels.add(&narrowing(&found, what));
        }
    }
    if !panels.is_empty() {
        let caption = "How the tax and its interval settled as rounds were added";
        m.open("figure", &[]).element("figcaption", &[], caption);
        m.open("div", &[("class", "grid")]).add(&panels).close("div").close("figure");
    }
    m.close("div");
    m
}

/// Trials that don't count, and what was cut off those that do.
pub(super) fn left_out(report: &Report) -> Markup {
    let data = &report.data;
    let mut table = Markup::new();
    table.open("table", &[]);
    head(
        &mut table,
        &[("Trial", true), ("Cell", false), ("Measure", false), ("Left out", false), ("Why", false)],
    );
    table.open("tbody", &[]);
    let mut rows = 0;
    for t in &data.trials {
        let (what, why) = match (&t.validity, &t.warm_up) {
            (Validity::Invalid { .. }, _) => {
                ("all of it".to_owned(), invalid(&t.validity).unwrap_or_default())
            }
            (Validity::Valid, Some(w)) if w.cut.0 > 0 => {
                (format!("the first {}", duration(w.cut.0 as f64)), format!("warm-up: {}", w.detail))
            }
            _ => continue,
        };
        rows += 1;
        table.open("tr", &[]).element("th", &[("scope", "row"), ("class", "n")], &format!("{:03}", t.index));
        table.element("td", &[], &t.cell).element("td", &[], &t.measure);
        table.element("td", &[], &what).element("td", &[], &why).close("tr");
    }
    table.close("tbody").close("table");
    let mut m = Markup::new();
    if data.trials.is_empty() {
        return m;
    }
    m.element("p", &[("class", "small-print")], &summary_of(data));
    if rows > 0 {
        m.add(&scrolling(&table));
    }
    m
}

/// What counts, in a sentence.
fn summary_of(data: &RunData) -> String {
    let all = data.trials.len();
    let valid = data.trials.iter().filter(|t| t.validity == Validity::Valid).count();
    let cut = data
        .trials
        .iter()
        .filter(|t| t.validity == Validity::Valid && t.warm_up.as_ref().is_some_and(|w| w.cut.0 > 0));
    format!(
        "{valid} of {all} trials count; {} were made again or lost, and of {} the start was cut off as warm-up.",
        all - valid,
        cut.count()
    )
}

/// What a reader of closed-loop figures must know; empty where there are none.
pub(super) fn closed_loop(data: &RunData) -> Markup {
    let closed = data.plan.measures.iter().filter(|m| {
        matches!(m.kind, vtax_plan::model::MeasureKind::Throughput(_))
            && data.trials.iter().any(|t| t.measure == m.name)
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
pub(super) fn doubts(summary: &Summary) -> Vec<String> {
    let of = |kind: Doubt| summary.comparisons.iter().filter(|c| c.doubt == Some(kind)).count();
    let mut said = Vec::new();
    let drifted = of(Doubt::Drifted);
    if drifted > 0 {
        said.push(format!("The environment drifted: {drifted} comparisons have no verdict because of it."));
    }
    let below = of(Doubt::BelowDetectable);
    if below > 0 {
        said.push(format!(
            "{below} comparisons show effects below what this testbed can tell apart, and have no verdict."
        ));
    }
    debug_assert!(
        summary.comparisons.iter().all(|c| (c.doubt.is_some()) == (c.verdict == Verdict::Inconclusive))
    );
    said
}
