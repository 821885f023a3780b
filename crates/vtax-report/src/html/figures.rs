//! Latency curves, capacity searches and CPU time by layer.

use vtax_store::record::{Outcome, TrialRecord, Validity};
use vtax_store::summary::Summary;

use super::{figure, head, scrolling};
use crate::data::{Group, RunData};
use crate::format::{duration, quantile_name, quantity};
use crate::markup::Markup;
use crate::metric::{LAYERS, layer_label};
use crate::plot::capacity::{Searches, searches, words};
use crate::plot::curves::{Curve, LATENCY, percentiles};
use crate::plot::stack::{Bar, layer_class, stack};
use crate::plot::{responsive, series};

/// `in group`, where there are several.
fn titled(what: &str, group: &Group<'_>) -> String {
    if group.label.is_empty() { what.to_owned() } else { format!("{what}: {}", group.label) }
}

pub(super) fn latency(data: &RunData) -> Markup {
    let mut m = Markup::new();
    for group in data.groups() {
        for measure in data.measures() {
            let curves: Vec<Curve<'_>> = group
                .cells
                .iter()
                .enumerate()
                .filter_map(|(position, cell)| {
                    let histogram = data.latency.get(&(cell.id.clone(), measure.to_owned()))?;
                    let label = data.environment_label(cell);
                    (!histogram.is_empty()).then_some(Curve { label, position, histogram })
                })
                .collect();
            if curves.is_empty() {
                continue;
            }
            let caption = titled(&format!("Latency by percentile, {measure}"), &group);
            let keys: Vec<_> = curves.iter().map(|c| (series(c.position), c.label.clone())).collect();
            let picture = responsive(|w| percentiles(&curves, &caption, LATENCY, w));
            m.add(&figure(&caption, &keys, &picture)).add(&percentile_table(&curves));
        }
    }
    m
}

fn percentile_table(curves: &[Curve<'_>]) -> Markup {
    let quantiles = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];
    let mut table = Markup::new();
    table.open("table", &[]);
    let names: Vec<String> = quantiles.iter().map(|q| quantile_name(*q)).collect();
    let mut columns = vec![("Environment", false), ("Requests", true), ("Mean", true)];
    columns.extend(names.iter().map(|n| (n.as_str(), true)));
    columns.push(("Maximum", true));
    head(&mut table, &columns);
    table.open("tbody", &[]);
    for c in curves {
        let h = c.histogram;
        table.open("tr", &[]).element("th", &[("scope", "row")], &c.label);
        table.element("td", &[("class", "n")], &h.len().to_string());
        table.element("td", &[("class", "n")], &duration(h.mean()));
        for q in quantiles {
            // The same rule as for the curve: no percentile from a handful of requests.
            let enough = h.len() as f64 * (1.0 - q) >= 10.0;
            let text = if enough { duration(h.value_at_quantile(q) as f64) } else { "too few".to_owned() };
            table.element("td", &[("class", if enough { "n" } else { "n quiet" })], &text);
        }
        table.element("td", &[("class", "n")], &duration(h.max() as f64)).close("tr");
    }
    table.close("tbody").close("table");
    details("As a table", &table)
}

fn details(summary: &'static str, table: &Markup) -> Markup {
    let mut m = Markup::new();
    m.open("details", &[]).element("summary", &[], summary).add(&scrolling(table)).close("details");
    m
}

pub(super) fn capacity(data: &RunData) -> Markup {
    let mut m = Markup::new();
    for group in data.groups() {
        for measure in &data.plan.measures {
            let cells: Vec<Searches<'_>> = group
                .cells
                .iter()
                .enumerate()
                .map(|(position, cell)| Searches {
                    label: data.environment_label(cell),
                    position,
                    trials: data
                        .trials
                        .iter()
                        .filter(|t| t.cell == cell.id && t.measure == measure.name)
                        .filter(|t| t.validity == Validity::Valid)
                        .filter_map(|t| match &t.outcome {
                            Some(Outcome::Capacity(c)) => Some((t.index, c)),
                            _ => None,
                        })
                        .collect(),
                })
                .filter(|s| !s.trials.is_empty())
                .collect();
            if cells.is_empty() {
                continue;
            }
            let caption = titled(
                "Every search, step by step. Filled marks: carried within the limits; crosses: not. \
                 The bar is the bracket that was left",
                &group,
            );
            let keys: Vec<_> = cells.iter().map(|c| (series(c.position), c.label.clone())).collect();
            let picture = responsive(|w| searches(&cells, "Capacity searches", w));
            m.add(&figure(&caption, &keys, &picture)).add(&bracket_table(&cells));
        }
    }
    m
}

fn bracket_table(cells: &[Searches<'_>]) -> Markup {
    let mut table = Markup::new();
    table.open("table", &[]);
    head(&mut table, &[("Environment", false), ("Trial", true), ("Bracket, req/s", true), ("Steps", true)]);
    table.open("tbody", &[]);
    for cell in cells {
        for (index, outcome) in &cell.trials {
            table.open("tr", &[]).element("th", &[("scope", "row")], &cell.label);
            table.element("td", &[("class", "n")], &format!("{index:03}"));
            table.element("td", &[("class", "n")], &words(outcome));
            table.element("td", &[("class", "n")], &outcome.steps.len().to_string()).close("tr");
        }
    }
    table.close("tbody").close("table");
    details("As a table", &table)
}

pub(super) fn cpu(data: &RunData, summary: &Summary) -> Markup {
    let mut m = Markup::new();
    for group in data.groups() {
        // The measure at a given load: at the limit, time per request says little.
        let measured = |measure: &str| bars(data, summary, &group, measure);
        let kinds = data.plan.measures.iter();
        let first = |latency: bool| {
            kinds
                .clone()
                .filter(|k| matches!(k.kind, vtax_plan::model::MeasureKind::Latency(_)) == latency)
                .map(|k| (k.name.clone(), measured(&k.name)))
                .find(|(_, bars)| !bars.is_empty())
        };
        let Some((measure, bars)) = first(true).or_else(|| first(false)) else { continue };
        let caption = titled(
            &format!("CPU time per request by layer, {measure}; from the service outwards to the host"),
            &group,
        );
        let keys: Vec<_> = LAYERS
            .iter()
            .filter(|(layer, _)| bars.iter().any(|b| b.layers.iter().any(|l| l.0 == *layer)))
            .map(|(layer, _)| (layer_class(*layer), layer_label(*layer).to_owned()))
            .collect();
        let mut pictures = responsive(|w| stack(&bars, false, &caption, w));
        pictures.add(&responsive(|w| stack(&bars, true, "The same as shares", w)));
        m.add(&figure(&caption, &keys, &pictures)).add(&layer_table(&bars));
        m.add(&accounting_notes(data, &group, &measure));
    }
    m
}

/// What the accounting could not know, trial by trial.
fn accounting_notes(data: &RunData, group: &Group<'_>, measure: &str) -> Markup {
    let mut m = Markup::new();
    let own = |t: &&TrialRecord| t.measure == measure && group.cells.iter().any(|c| c.id == t.cell);
    let valid = data.trials.iter().filter(own).filter(|t| t.validity == Validity::Valid);
    for trial in valid {
        for note in trial.cpu.iter().flat_map(|c| &c.notes) {
            m.element("li", &[], &format!("trial {:03}, {}: {note}", trial.index, trial.cell));
        }
    }
    let mut all = Markup::new();
    if !m.is_empty() {
        all.open("details", &[]).element("summary", &[], "What the accounting could not know");
        all.open("ul", &[("class", "small-print")]).add(&m).close("ul").close("details");
    }
    all
}

fn bars(data: &RunData, summary: &Summary, group: &Group<'_>, measure: &str) -> Vec<Bar> {
    let mut bars = Vec::new();
    for cell in &group.cells {
        let Some(found) = summary.cells.iter().find(|c| c.cell == cell.id && c.measure == measure) else {
            continue;
        };
        let layers: Vec<_> = LAYERS
            .iter()
            .filter_map(|(layer, metric)| Some((*layer, found.metrics.get(*metric)?.mean)))
            .filter(|(_, time)| *time > 0.0)
            .collect();
        if !layers.is_empty() {
            bars.push(Bar { label: data.environment_label(cell), layers });
        }
    }
    bars
}

fn layer_table(bars: &[Bar]) -> Markup {
    let mut table = Markup::new();
    table.open("table", &[]);
    let mut columns = vec![("Layer", false)];
    columns.extend(bars.iter().map(|b| (b.label.as_str(), true)));
    head(&mut table, &columns);
    table.open("tbody", &[]);
    for (layer, _) in LAYERS {
        let of = |b: &Bar| b.layers.iter().find(|l| l.0 == layer).map(|l| l.1);
        if bars.iter().all(|b| of(b).is_none()) {
            continue;
        }
        table.open("tr", &[]).element("th", &[("scope", "row")], layer_label(layer));
        for bar in bars {
            let text = of(bar).map_or_else(String::new, |v| quantity(v, "ns"));
            table.element("td", &[("class", "n")], &text);
        }
        table.close("tr");
    }
    table.open("tr", &[]).element("th", &[("scope", "row")], "sum");
    for bar in bars {
        table.element("td", &[("class", "n")], &quantity(bar.total(), "ns"));
    }
    table.close("tr").close("tbody").close("table");
    details("As a table", &table)
}
