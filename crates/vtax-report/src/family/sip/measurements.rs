//! Every measurement of the IMS benchmark: a table by step, and pictures of its course and distribution.

use std::collections::BTreeSet;

use vtax_plan::model::ArrivalProcess;
use vtax_store::ims::{ImsPhase, ImsPhaseKind};

use super::bench::{Bench, Benches, Environment};
use super::detail::{Measurement, Shape};
use super::stats::{QUANTILES, Stats};
use super::trial::standing;
use super::what::{Topic, What};
use crate::format::{digits, whole};
use crate::html::parts::{close_table, head, heading, key, scrolling};
use crate::markup::Markup;
use crate::plot::scale::Scale;
use crate::plot::shape::{Bin, Moment, bands, count_bars, exceedance, poisson_share};
use crate::plot::timeline::{SMALL, Timeline, Track, Zone, columns};
use crate::plot::xy::{Axis, Series, Stroke, outline, xy};
use crate::plot::{responsive, series};

/// Height of a small picture.
const HEIGHT: f64 = 210.0;
/// Most steps whose values are marked one by one.
const MOST_MARKS: usize = 24;
/// Steps whose distributions are drawn: class of their colour, and which they are.
const PICKED: [(&str, &str); 4] =
    [("k0", "first step"), ("k1", "halfway to the DOC"), ("k2", AT_DOC), ("k3", "first beyond a limit")];
/// What the step is that stands for a trial: the one of its capacity, else the one at the rate that the plan gives.
const AT_DOC: &str = "at the DOC";
const AT_RATE: &str = "at the plan's rate";

pub(super) fn metrics(ims: &Benches, arrivals: impl Fn(&Bench) -> Option<ArrivalProcess>) -> Markup {
    let mut m = Markup::new();
    for bench in &ims.benches {
        let poisson = arrivals(bench) == Some(ArrivalProcess::Poisson);
        let whats: BTreeSet<What> =
            bench.environments.iter().flat_map(|e| &e.shown.detail.measurements).map(|m| m.what).collect();
        if whats.is_empty() {
            continue;
        }
        for (number, topic) in (1..).zip(Topic::ALL) {
            let own: Vec<What> = whats.iter().copied().filter(|w| w.topic() == topic).collect();
            if own.is_empty() {
                continue;
            }
            heading(&mut m, &bench.prefix, topic.id(), &format!("{number} {}", topic.title()), &bench.label);
            for what in own {
                m.add(&measurement(bench, what, poisson));
            }
        }
    }
    m
}

/// One measurement in all environments; only what opens a chapter is open.
fn measurement(bench: &Bench, what: What, poisson: bool) -> Markup {
    let shown: Vec<(&Environment, &Measurement)> =
        bench.environments.iter().filter_map(|e| Some((e, of(e, what)?))).collect();
    let mut m = Markup::new();
    let id = format!("{}-{}", bench.prefix, what.id());
    let open: &[_] = match what {
        What::Saps => &[("id", id.as_str()), ("class", "measurement"), ("open", "")],
        _ => &[("id", id.as_str()), ("class", "measurement")],
    };
    m.open("details", open).open("summary", &[]).text(&what.title());
    m.element("small", &[], &format!(" {}", gist(&shown, what))).close("summary");
    m.element("p", &[], &what.sentence());
    for (e, found) in &shown {
        m.add(&step_table(e, found));
    }
    m.add(&compared(&shown, what));
    for (e, found) in &shown {
        m.add(&pictures(e, found, poisson));
    }
    m.close("details");
    m
}

fn of(e: &Environment, what: What) -> Option<&Measurement> {
    e.shown.detail.measurements.iter().find(|m| m.what == what)
}

/// What a closed entry tells: the mean at the capacity of each environment, or at the plan's rate.
fn gist(shown: &[(&Environment, &Measurement)], what: What) -> String {
    let one = |(e, m): &(&Environment, &Measurement)| {
        let (_, place, _) = picked(e).into_iter().find(|p| p.0 == 2)?;
        let stats = (*m.steps.get(place)?)?;
        let tail = match what {
            What::Delay(..) => format!(" p95 {},", digits(stats.percentiles[2])),
            _ => String::new(),
        };
        Some(format!("{}:{tail} mean {} {}", e.label, digits(stats.mean), what.unit()))
    };
    let all: Vec<String> = shown.iter().filter_map(one).collect();
    let at = if have_capacities(shown) { AT_DOC } else { AT_RATE };
    if all.is_empty() { String::new() } else { format!("{at} {}", all.join("; ")) }
}

/// Whether a capacity was looked for and found; else what stands for environments is the plan's rate.
fn have_capacities(shown: &[(&Environment, &Measurement)]) -> bool {
    shown.iter().any(|(e, _)| e.shown.outcome.doc.is_some())
}

/// Mean, variance, deviation, extremes and percentiles of every step.
fn step_table(e: &Environment, m: &Measurement) -> Markup {
    let unit = m.what.unit();
    let mut table = Markup::new();
    table.open("table", &[("class", "by-step")]);
    table.element("caption", &[], &format!("{}, {unit}", e.label));
    let variance = format!("Variance, {unit}²");
    let mut columns: Vec<(&str, bool)> = vec![
        ("Step", false),
        ("Requested, SAPS", true),
        (m.what.values(), true),
        ("Mean", true),
        (&variance, true),
        ("SD", true),
        ("Min", true),
    ];
    columns.extend(QUANTILES.map(|(name, _)| (name, true)));
    columns.push(("Max", true));
    head(&mut table, &columns);
    table.open("tbody", &[]);
    for (phase, stats) in e.shown.outcome.phases.iter().zip(&m.steps) {
        let Some(stats) = stats else { continue };
        table.open("tr", &[("class", standing(phase).class())]);
        // Their style is the table's: a class for each of thousands of cells would be half of the page.
        table.element("th", &[], &phase.name).element("td", &[], &whole(phase.requested.0));
        table.element("td", &[], &stats.count.to_string());
        for v in [stats.mean, stats.variance, stats.sd()] {
            table.element("td", &[], &digits(v));
        }
        table.element("td", &[], &whole(stats.min));
        for ((_, q), v) in QUANTILES.iter().zip(stats.percentiles) {
            let quiet: &[_] = if stats.resolves(*q) { &[] } else { &[("class", "quiet")] };
            table.element("td", quiet, &whole(v));
        }
        table.element("td", &[], &whole(stats.max)).close("tr");
    }
    close_table(&mut table);
    scrolling(&table)
}

/// Steps whose distributions are drawn: place in [`PICKED`], index of the phase, the phase.
fn picked(e: &Environment) -> Vec<(usize, usize, &ImsPhase)> {
    let mut measured: Vec<(usize, &ImsPhase)> = e.shown.measured().collect();
    measured.sort_by(|a, b| a.1.requested.0.total_cmp(&b.1.requested.0));
    let outcome = &e.shown.outcome;
    let decisive = match outcome.doc {
        Some(doc) => Some(doc.phase as usize),
        // A given rate has one step, and that is the one to look at.
        None => outcome.phases.iter().rposition(|p| p.kind == ImsPhaseKind::Fixed),
    };
    let at = |i: usize| measured.iter().find(|m| m.0 == i).copied();
    let doc = decisive.and_then(at);
    let rate = doc.map_or(0.0, |d| d.1.requested.0);
    let below: Vec<(usize, &ImsPhase)> =
        measured.iter().copied().filter(|(_, p)| p.passed && p.requested.0 < rate).collect();
    let beyond = measured.iter().copied().find(|(_, p)| !p.passed);
    let halfway = below.iter().copied().find(|(_, p)| p.requested.0 >= rate / 2.0);
    let first = below.first().copied();
    let halfway = halfway.filter(|h| first.is_some_and(|f| f.0 != h.0));
    let all = [first, halfway, doc, beyond].into_iter().enumerate();
    all.filter_map(|(i, found)| found.map(|(place, phase)| (i, place, phase))).collect()
}

/// What a step whose distributions are drawn is, by its place in [`PICKED`].
fn which(e: &Environment, place: usize) -> &'static str {
    match PICKED[place].1 {
        AT_DOC if e.shown.outcome.doc.is_none() => AT_RATE,
        other => other,
    }
}

/// The environments in one picture each: by load, and how probable at their capacities.
fn compared(shown: &[(&Environment, &Measurement)], what: What) -> Markup {
    let mut grid = Markup::new();
    grid.add(&by_load(shown, what));
    if shown.len() > 1 {
        grid.add(&at_capacity(shown, what));
    }
    let mut m = Markup::new();
    if grid.is_empty() {
        return m;
    }
    let keys: Vec<_> = shown.iter().map(|(e, _)| (series(e.position), e.label.clone())).collect();
    m.open("figure", &[]).add(&key(&keys));
    m.open("div", &[("class", "pair")]).add(&grid).close("div").close("figure");
    m
}

fn by_load(shown: &[(&Environment, &Measurement)], what: What) -> Markup {
    let mut lines = Vec::new();
    for (e, m) in shown {
        let color = series(e.position);
        let mut steps: Vec<(f64, Stats)> = e
            .shown
            .measured()
            .filter_map(|(i, p)| Some((p.requested.0, (*m.steps.get(i)?)?)))
            .filter(|(rate, _)| *rate > 0.0)
            .collect();
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        // A confirmation repeats a rate: the longer step is the better witness.
        steps.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same && later.1.count > kept.1.count {
                *kept = *later;
            }
            same
        });
        let mut put = |class: &str, name: &str, stroke, of: &dyn Fn(&Stats) -> f64| {
            let points: Vec<(f64, f64)> = steps.iter().map(|(rate, s)| (*rate, of(s))).collect();
            if !points.is_empty() {
                let label = format!("{}, {name}", e.label);
                lines.push(Series { class: format!("{color} {class}"), label, stroke, points });
            }
        };
        // Marks that touch each other only hide the line.
        let marked = if steps.len() > MOST_MARKS { Stroke::Line } else { Stroke::Marked(e.position) };
        match what {
            What::Delay(..) => {
                put("firm", "median", marked, &|s| s.percentiles[0]);
                put("thin dashed", "p95", Stroke::Line, &|s| s.percentiles[2]);
            }
            _ => put("firm", "mean", marked, &|s| s.mean),
        }
    }
    if lines.iter().map(|l| l.points.len()).max().unwrap_or(0) < 2 {
        return Markup::new();
    }
    let rates: Vec<f64> = lines.iter().flat_map(|l| l.points.iter().map(|p| p.0)).collect();
    let (low, high) = extremes(&rates);
    let scale = if high > 8.0 * low { Scale::log_around(rates) } else { Scale::Linear { low, high } };
    let name = if what.logarithmic() { "median; dashed: p95" } else { "mean" };
    let values = lines.iter().flat_map(|l| l.points.iter().map(|p| p.1));
    let x = Axis { name: "requested load, SAPS", unit: "", scale, ticks: &[] };
    let y = Axis { name, unit: what.unit(), scale: vertical(what, values), ticks: &[] };
    xy("By load", &format!("{} by requested load", what.title()), (SMALL, HEIGHT), x, y, &lines)
}

fn extremes(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    if low < high { (low, high) } else { (low * 0.9, low * 1.1 + 1e-9) }
}

fn vertical(what: What, values: impl IntoIterator<Item = f64>) -> Scale {
    if what.logarithmic() {
        return Scale::log_around(values);
    }
    match what {
        What::SutCpu | What::HypervisorCpu => Scale::Linear { low: 0.0, high: 100.0 },
        _ => Scale::from_zero(values.into_iter().filter(|v| v.is_finite()).fold(0.0, f64::max)),
    }
}

fn at_capacity(shown: &[(&Environment, &Measurement)], what: What) -> Markup {
    let mut lines = Vec::new();
    for (e, m) in shown {
        let Some((_, place, phase)) = picked(e).into_iter().find(|p| p.0 == 2) else { continue };
        let label = format!("{}, {}", e.label, phase.name);
        let points = probability(m, place);
        if !points.is_empty() {
            let class = format!("{} firm", series(e.position));
            lines.push(Series { class, label, stroke: Stroke::Line, points });
        }
    }
    if lines.len() < 2 {
        Markup::new()
    } else {
        let title = match have_capacities(shown) {
            true => "Probability of more, at each DOC",
            false => "Probability of more, at the plan's rate",
        };
        probabilities(title, what, &lines)
    }
}

fn probability(m: &Measurement, place: usize) -> Vec<(f64, f64)> {
    match m.shapes.get(place) {
        Some(Shape::Delays(bins)) => bins.exceedance(),
        Some(Shape::Seconds(places)) => exceedance(m.values(places.clone()), 60),
        Some(Shape::None) | None => Vec::new(),
    }
}

fn probabilities(title: &str, what: What, lines: &[Series]) -> Markup {
    let points = || lines.iter().flat_map(|l| &l.points);
    let least = points().map(|p| p.1).filter(|p| *p > 0.0).fold(1.0, f64::min).min(0.1);
    let values: Vec<f64> = points().map(|p| p.0).collect();
    let (low, high) = extremes(&values);
    let scale = match what {
        w if w.logarithmic() => Scale::log_around(values),
        What::Ihs(_) | What::Retransmissions(_) => Scale::from_zero(high),
        _ => Scale::Linear { low, high },
    };
    let x = Axis { name: &unit_name(what), unit: what.unit(), scale, ticks: &[] };
    let y = Axis {
        name: "share above",
        unit: "%",
        scale: Scale::Log { low: least * 80.0, high: 100.0 },
        ticks: &[],
    };
    let percent: Vec<Series> = lines
        .iter()
        .map(|l| Series {
            class: l.class.clone(),
            label: l.label.clone(),
            stroke: l.stroke,
            // What nothing exceeds ends the line at the floor.
            points: l.points.iter().map(|p| (p.0, p.1 * 100.0)).collect(),
        })
        .collect();
    xy(title, &format!("{}: probability of exceedance", what.title()), (SMALL, HEIGHT), x, y, &percent)
}

fn unit_name(what: What) -> String {
    match what {
        What::Saps => "attempts in a second".to_owned(),
        What::Retransmissions(_) => "retransmissions in a second".to_owned(),
        What::Ihs(_) => "inadequate in a second".to_owned(),
        What::SutCpu | What::HypervisorCpu | What::GeneratorCpu => "CPU".to_owned(),
        What::SutMemory | What::SutUsed | What::GeneratorMemory => "memory".to_owned(),
        What::Delay(..) => "time".to_owned(),
    }
}

/// The four forms of one environment: over time, mean per second, histogram, probability.
fn pictures(e: &Environment, m: &Measurement, poisson: bool) -> Markup {
    let what = m.what;
    let mut grid = Markup::new();
    let over_time = match what {
        What::Delay(..) => "Over time: mean, up to the largest",
        What::Saps => "Over time: every second; dashed: requested",
        What::Ihs(_) | What::Retransmissions(_) => "Over time: every second",
        _ => "Over time",
    };
    grid.add(&course(e, m, over_time, m.moments(), true));
    if matches!(what, What::Delay(..) | What::Saps) {
        grid.add(&course(e, m, "Mean per second", m.means(), false));
    }
    let picks = picked(e);
    let mut keys = Vec::new();
    let (mut bars, mut curves) = (Vec::new(), Vec::new());
    for (i, place, phase) in &picks {
        let color = PICKED[*i].0;
        let label = format!("{}: {}, {} SAPS", which(e, *i), phase.name, whole(phase.requested.0));
        let own = histogram(m, *place, phase, poisson, color, &label);
        let points = probability(m, *place);
        if own.is_empty() || points.is_empty() {
            continue;
        }
        bars.extend(own);
        curves.push(Series {
            class: format!("{color} firm"),
            label: label.clone(),
            stroke: Stroke::Line,
            points,
        });
        keys.push((color, label));
    }
    if !bars.is_empty() {
        grid.add(&histograms(what, &bars, poisson)).add(&probabilities("Probability of more", what, &curves));
    }
    let mut figure = Markup::new();
    // A single step needs no key, but its name.
    let caption = match keys.as_slice() {
        [(_, only)] => format!("{}; distributions {only}", e.label),
        _ => e.label.clone(),
    };
    figure.open("figure", &[]).element("figcaption", &[], &caption).add(&key(&keys));
    figure.open("div", &[("class", "pair")]).add(&grid).close("div").close("figure");
    figure
}

fn histogram(
    m: &Measurement,
    place: usize,
    phase: &ImsPhase,
    poisson: bool,
    color: &'static str,
    label: &str,
) -> Vec<Series> {
    let (bars, total) = match m.shapes.get(place) {
        Some(Shape::Delays(bins)) => (bins.bars(2), bins.total()),
        Some(Shape::Seconds(places)) => {
            // Rice's rule: as many bars as the seconds can fill.
            let total = m.values(places.clone()).filter(|v| v.is_finite()).count();
            let bars = count_bars(m.values(places.clone()), (2.0 * (total as f64).cbrt()).ceil() as usize);
            let total = bars.iter().map(|b| b.2).sum();
            (bars, total)
        }
        Some(Shape::None) | None => return Vec::new(),
    };
    let share = |count: u64| count as f64 / (total as f64).max(1.0) * 100.0;
    let mut all = vec![Series {
        class: color.to_owned(),
        label: label.to_owned(),
        stroke: Stroke::Bars,
        points: outline(bars.iter().map(|(a, b, n)| (*a, *b, share(*n)))),
    }];
    if poisson && m.what == What::Saps {
        // The mean of each bar's place, and what a Poisson process of the requested load puts there.
        let rate = phase.requested.0;
        let expected =
            |(a, b, _): &(f64, f64, u64)| (f64::midpoint(*a, *b), poisson_share(rate, *a, *b) * 100.0);
        all.push(Series {
            class: format!("{color} thin dashed"),
            label: format!("Poisson, {} SAPS", digits(rate)),
            stroke: Stroke::Line,
            points: bars.iter().map(expected).collect(),
        });
    }
    all
}

fn histograms(what: What, lines: &[Series], poisson: bool) -> Markup {
    let points = || lines.iter().flat_map(|l| &l.points);
    let values: Vec<f64> = points().map(|p| p.0).collect();
    let (low, high) = extremes(&values);
    let scale = if what.logarithmic() { Scale::log_around(values) } else { Scale::Linear { low, high } };
    let x = Axis { name: &unit_name(what), unit: what.unit(), scale, ticks: &[] };
    let most = points().map(|p| p.1).fold(0.0, f64::max);
    let name = match what {
        What::Delay(..) => "share of values",
        What::Saps if poisson => "share of seconds; dashed: Poisson",
        What::Saps | What::Ihs(_) | What::Retransmissions(_) => "share of seconds",
        _ => "share of samples",
    };
    let y = Axis { name, unit: "%", scale: Scale::from_zero(most), ticks: &[] };
    xy("Histogram", &format!("{}: histogram", what.title()), (SMALL, HEIGHT), x, y, lines)
}

fn zones(e: &Environment) -> Vec<Zone> {
    let phases = &e.shown.outcome.phases;
    let first = phases.first().map_or(0, |p| p.started_unix_ms);
    let zone = |p: &ImsPhase| {
        let from = p.started_unix_ms.saturating_sub(first) as f64 / 1000.0;
        let label = p.name.strip_prefix("step ").unwrap_or(&p.name).to_owned();
        Zone { from, to: from + p.duration.as_secs_f64(), class: standing(p).class(), label }
    };
    phases.iter().map(zone).collect()
}

fn highest(bins: &[Option<Bin>], of: impl Fn(&Bin) -> f64) -> f64 {
    bins.iter().flatten().map(of).filter(|v| v.is_finite()).fold(0.0, f64::max)
}

/// Longest gap in seconds that belongs to a course: the generator tells every second, and between the
/// steps of a search there is a pause; probes look less often.
fn gap(what: What) -> f64 {
    match what {
        What::Saps | What::Ihs(_) | What::Retransmissions(_) | What::Delay(..) => 2.0,
        _ => 5.0,
    }
}

fn course(
    e: &Environment,
    m: &Measurement,
    title: &str,
    moments: impl Iterator<Item = Moment>,
    band: bool,
) -> Markup {
    let seconds = e.shown.seconds();
    let bins = bands(moments, seconds, columns(SMALL, seconds));
    if bins.iter().all(Option::is_none) {
        return Markup::new();
    }
    let drawn = |b: &Bin| if band { [b.low, b.high] } else { [b.mean, b.mean] };
    let scale = vertical(m.what, bins.iter().flatten().flat_map(drawn));
    let axis = match m.what.unit() {
        "ms" => "time".to_owned(),
        unit => unit.to_owned(),
    };
    let gap = gap(m.what);
    let left = Track { class: series(e.position), name: &axis, unit: m.what.unit(), scale, bins, band, gap };
    let description = format!("{}, {}", m.what.title(), e.label);
    let zones = zones(e);
    let rates = e.shown.outcome.phases.iter().map(|p| p.requested.0);
    let goal: Vec<(f64, f64, f64)> = match m.what {
        What::Saps => zones.iter().zip(rates).map(|(z, rate)| (z.from, z.to, rate)).collect(),
        _ => Vec::new(),
    };
    let timeline = Timeline {
        title,
        description: &description,
        seconds,
        zones: &zones,
        left,
        right: None,
        goal: &goal,
        heading: true,
    };
    timeline.draw(SMALL, HEIGHT)
}

/// The study's graphs 4-1 to 4-3: load at the left axis, CPU at the right one.
pub(super) fn cpu_over_time(e: &Environment, title: &str) -> Markup {
    let (Some(saps), Some(cpu)) = (of(e, What::Saps), of(e, What::SutCpu)) else { return Markup::new() };
    let (seconds, zones) = (e.shown.seconds(), zones(e));
    responsive(|width| {
        let n = columns(width, seconds);
        let load = bands(saps.moments(), seconds, n);
        let left = Track {
            class: "load",
            name: "attempts per second",
            unit: "SAPS",
            scale: Scale::from_zero(highest(&load, |b| b.high)),
            bins: load,
            band: true,
            gap: gap(What::Saps),
        };
        let right = Track {
            class: "k1",
            name: "SUT CPU",
            unit: "%",
            scale: Scale::Linear { low: 0.0, high: 100.0 },
            bins: bands(cpu.moments(), seconds, n),
            band: true,
            gap: gap(What::SutCpu),
        };
        let timeline = Timeline {
            title,
            description: "Scenario attempts per second and CPU of the system under test.",
            seconds,
            zones: &zones,
            left,
            right: Some(right),
            goal: &[],
            heading: false,
        };
        timeline.draw(width, 270.0)
    })
}
