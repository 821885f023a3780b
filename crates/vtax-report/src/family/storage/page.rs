//! Every test of the chapter in figures.

use vtax_store::record::{Observation, Validity};
use vtax_store::summary::MetricSummary;

use super::sweep::{Environment, Point, Sweep, has_intervals, noted, several};
use crate::context::Context;
use crate::format::{duration, quantity, range};
use crate::html::parts::{close_table, details, open_table};
use crate::markup::Markup;
use crate::metric::enough;

const COLUMNS: [(&str, bool); 9] = [
    ("Environment", false),
    ("Until durable (parent)", true),
    ("Sum of processes (children)", true),
    ("Slowest to fastest process", true),
    ("Time to durable", true),
    ("Operations", true),
    ("Median", true),
    ("p99", true),
    ("Who answered", false),
];

/// Every test of every environment: typical values over the trials that count, with their intervals.
pub(super) fn tests(context: &Context, sweeps: &[Sweep<'_>]) -> Markup {
    let mut table = open_table("every", &COLUMNS);
    let several = several(&context.data.plan);
    for (sweep, point) in sweeps.iter().flat_map(|sweep| sweep.points.iter().map(move |point| (sweep, point)))
    {
        let (span, title) = (COLUMNS.len().to_string(), point.title(several));
        table.open("tr", &[]).element("th", &[("colspan", &span), ("scope", "rowgroup")], title);
        table.close("tr");
        for environment in &sweep.environments {
            table.add(&row(context, point, environment));
        }
    }
    close_table(&mut table);
    let mut m = details("As a table", &table);
    let intervals = if has_intervals(sweeps) { "with their 95 % intervals" } else { "too few for intervals" };
    let note = format!(
        "Medians over trials, {intervals}; latency from the histograms of all trials together, from ten operations beyond a percentile on. \
         Slowest and fastest process are of the first trial that counts."
    );
    m.element("p", &[("class", "small-print")], &noted(&note, sweeps));
    m
}

fn row(context: &Context, point: &Point<'_>, environment: &Environment<'_>) -> Markup {
    let id = &environment.cell.id;
    let own = context.summary.cells.iter().find(|s| s.cell == *id && s.measure == point.measure);
    let of = |metric: &str| own.and_then(|own| own.metrics.get(metric));
    let mut m = Markup::new();
    m.open("tr", &[]).element("th", &[("scope", "row")], &environment.label);
    m.add(&figure(of("storage_throughput"), "B/s")).add(&figure(of("storage_children"), "B/s"));
    let first = first(context, id, point);
    let spread = first.and_then(|observation| spread(observation, point));
    m.element("td", &[("class", "n")], spread.as_deref().unwrap_or("-"));
    m.add(&figure(of("storage_durable"), "ns")).add(&figure(of("storage_rate"), "/s"));
    let latency = context.data.latency.get(&(id.clone(), point.measure.clone()));
    for quantile in [0.5, 0.99] {
        let known = latency.filter(|latency| enough(latency.len(), quantile));
        let text = known.map(|latency| duration(latency.value_at_quantile(quantile) as f64));
        m.element("td", &[("class", "n")], text.as_deref().unwrap_or("-"));
    }
    let answered = first.and_then(|observation| observation.storage()?.answered());
    m.element("td", &[], answered.as_deref().unwrap_or("-")).close("tr");
    m
}

fn figure(figure: Option<&MetricSummary>, unit: &str) -> Markup {
    let mut m = Markup::new();
    m.open("td", &[("class", "n")]);
    match figure {
        Some(figure) => {
            m.text(&quantity(figure.center, unit));
            let interval = figure.interval.map(|interval| range(figure.center, interval, unit));
            interval.into_iter().for_each(|text| _ = m.element("small", &[], &text));
        }
        None => _ = m.text("-"),
    }
    m.close("td");
    m
}

/// What the slowest and the fastest process had, where there are several.
fn spread(observation: &Observation, point: &Point<'_>) -> Option<String> {
    let result = &observation.storage()?.result;
    if result.processes.len() < 2 || !point.in_bytes() {
        return None;
    }
    let (low, high) = result.slowest_and_fastest();
    Some(format!("{} to {}", quantity(low, "B/s"), quantity(high, "B/s")))
}

/// A test in the first trial in which it counts.
pub(super) fn first<'a>(context: &'a Context, cell: &str, point: &Point<'_>) -> Option<&'a Observation> {
    let trials = context.data.trials.iter().filter(|trial| trial.measure == point.of_measure());
    let trials = trials.filter(|trial| trial.cell == cell && trial.validity == Validity::Valid);
    let counts = |o: &&Observation| o.name == point.test.name && o.validity == Validity::Valid;
    trials.flat_map(|trial| trial.observations.iter().filter(counts)).next()
}
