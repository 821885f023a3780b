//! Each verdict in words, with the trials it is made of and how it narrowed.

use crate::context::Context;
use crate::format::tick;
use crate::html::parts::{badge, figure};
use crate::judged::narrowing as steps;
use crate::markup::Markup;
use crate::plot::dots::{Dots, dots};
use crate::plot::narrowing::{Narrowing, narrowing};
use crate::plot::responsive;
use crate::rows::{Row, TOO_FEW};

/// More verdicts than this are explained on demand.
const MOST_OPEN: usize = 12;

/// Every verdict of the first table.
pub(super) fn why(context: &Context) -> Markup {
    let primary: Vec<&Row> = context.rows().iter().filter(|r| r.primary).collect();
    let judged = primary.iter().filter(|r| r.comparison.is_some()).count();
    let mut m = Markup::new();
    if judged == 0 {
        return m;
    }
    m.element("p", &[("class", "small-print")], &method(context));
    let mut parts = Markup::new();
    for block in primary.chunk_by(|a, b| (&a.group, &a.measure, a.metric) == (&b.group, &b.measure, b.metric))
    {
        parts.add(&metric(context, block));
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
fn method(context: &Context) -> String {
    let plan = &context.data.plan;
    let family = context.summary.comparisons.iter().filter_map(|c| c.family).max().unwrap_or(1);
    let mut text = format!(
        "Statistics count trials, not requests. A tax within ± {} counts as none.",
        tick(plan.margin.0, "1")
    );
    if plan.repeat.max > plan.repeat.min {
        text.push_str(&format!(
            " Trials were added, from {} up to {} rounds, until each interval, without what a resolution hides, was within ± {}, the \
             verdict was plain or time was up; intervals are widened for having been looked at on the way.",
            plan.repeat.min,
            plan.repeat.max,
            tick(plan.repeat.until.0, "1")
        ));
    }
    if family > 1 {
        text.push_str(
            " Comparisons of the first table are one family, all others another: in each, verdicts are corrected \
             (Hommel) so that even one false claim happens in at most 5 of 100 runs.",
        );
    }
    if context.summary.comparisons.iter().any(|c| c.asked_first) {
        text.push_str(
            " What the plan asks first is judged by itself; the rest of the first table more strictly, less so where all of that \
             differs, or all of it is equal.",
        );
    }
    if context.summary.comparisons.iter().any(|c| c.borrowed.is_some()) {
        text.push_str(
            " How far few rounds scatter was judged from all comparisons of a metric in a family together.",
        );
    }
    if context.summary.comparisons.iter().any(|c| c.levels.is_some()) {
        text.push_str(
            " Trials of a metric that come out on two levels widen the intervals of its taxes, as few of them may have missed one.",
        );
    }
    match &context.data.calibration {
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

/// What dots and bars are, and how a bar can be longer than all dots.
fn caption(all: &[Dots]) -> String {
    let mut text = "Each dot is a trial; the bar below is the 95 % interval of the median.".to_owned();
    let beyond = all.iter().any(|d| {
        d.interval.is_some_and(|(low, high)| {
            d.values.iter().all(|(v, _)| low < *v) || d.values.iter().all(|(v, _)| high > *v)
        })
    });
    if all.iter().any(|d| d.at_least) {
        text.push_str(
            " A ≥ is a lower bound: that trial, or one of them, was never driven to its limit, or too much of it had no \
             answer.",
        );
    }
    if beyond {
        text.push_str(
            " It reaches beyond all trials where they are fewer than 6, where each resembles the one before, or where \
             a figure is only known to a bracket.",
        );
    }
    text
}

fn metric(context: &Context, rows: &[&Row]) -> Markup {
    let data = &context.data;
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
            let (center, interval, at_least) = (v.center, v.interval, v.at_least);
            let trials = data.metric(&r.cell, &r.measure, r.metric);
            let values = trials.iter().map(|trial| (trial.value, trial.censored)).collect();
            Some(Dots { label, position, values, center, interval, at_least })
        })
        .collect();
    if rows.iter().all(|r| r.too_few) {
        m.element("p", &[("class", "verdict-words")], &format!("There is no figure: {TOO_FEW}."));
    }
    let unit = rows.iter().find_map(|r| r.value.as_ref()).map_or("", |v| v.unit.as_str());
    if !all.is_empty() {
        let picture = responsive(|w| dots(&all, &title, unit, w));
        m.add(&figure(&caption(&all), &[], &picture));
    }
    let mut panels = Markup::new();
    for row in rows {
        let Some(c) = &row.comparison else { continue };
        m.open("p", &[("class", "verdict-words")]).add(&badge(c.verdict)).text(" ");
        m.prose(&c.explanation).close("p");
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
