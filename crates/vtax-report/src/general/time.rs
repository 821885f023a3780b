//! Small multiples over time: goodput and latency of every trial, requests, probes.

use super::series::{self, Density, Points, Probed, TrialSeries};
use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::data::{Group, RunData};
use crate::html::parts::figure;
use crate::markup::Markup;
use crate::plot::panel::{Line, Vertical, common_scale, heat, lines};
use crate::plot::series as color;

/// Cells beyond this many have no small pictures: the page would be all pictures and no report.
const MOST_CELLS: usize = 36;

/// The chapter about what happened over time within trials.
#[derive(Debug)]
pub(crate) struct OverTime;

impl Chapter for OverTime {
    fn page(&self, context: &Context) -> Page {
        let (run, data) = (&context.run, &context.data);
        let mut page = Page::default();
        let intervals = series::intervals(run, data, &mut page.damage);
        let densities = series::densities(run, data, &mut page.damage);
        let seen = series::probes(run, data, &mut page.damage);
        page.put(Rank::Pictures, "time", "Over time", over_time(data, &intervals, &densities));
        page.put(Rank::Pictures, "probes", "What the probes saw", probes(data, &seen));
        page
    }
}

fn over_time(data: &RunData, intervals: &[TrialSeries], densities: &[Density]) -> Markup {
    let mut m = Markup::new();
    if data.plan.cells.len() > MOST_CELLS {
        return m;
    }
    for group in data.groups() {
        for measure in &data.plan.measures {
            m.add(&group_over_time(data, intervals, &group, &measure.name));
            m.add(&group_density(data, densities, &group, &measure.name));
        }
    }
    m
}

fn group_over_time(data: &RunData, all: &[TrialSeries], group: &Group<'_>, measure: &str) -> Markup {
    let mut latency: Vec<Vec<Line>> = Vec::new();
    let mut goodput: Vec<Vec<Line>> = Vec::new();
    for (position, cell) in group.cells.iter().enumerate() {
        let mut own = (Vec::new(), Vec::new());
        for s in all.iter().filter(|s| s.cell == cell.id && s.measure == measure) {
            let color = if s.valid { color(position) } else { "invalid" };
            let line = |class: &str, what: &str, points: &Points| Line {
                class: format!("{color} {class}"),
                label: format!("trial {:03}, {what}", s.index),
                labelled: false,
                points: points.clone(),
            };
            own.0.push(line("thin", "p99", &s.p99));
            own.0.push(line("thin faint", "median", &s.p50));
            own.1.push(line("thin", "answers per second", &s.goodput));
        }
        latency.push(own.0);
        goodput.push(own.1);
    }
    if latency.iter().all(Vec::is_empty) {
        return Markup::new();
    }
    let seconds = all.iter().filter(|s| s.measure == measure).map(|s| s.seconds).fold(0.0, f64::max);
    let mut grid = Markup::new();
    grid.open("div", &[("class", "grid")]);
    // A fault may be nothing that an environment can meet: it has no trials then.
    for (cell, own) in group.cells.iter().zip(&latency).filter(|(_, own)| !own.is_empty()) {
        let name = "latency: p99 strong, median faint";
        let scale = common_scale(latency.iter().flatten(), true);
        let vertical = Vertical { name, unit: "ns", scale };
        grid.add(&lines(&data.environment_label(cell), own, seconds, vertical));
    }
    for (cell, own) in group.cells.iter().zip(&goodput).filter(|(_, own)| !own.is_empty()) {
        // Each to its own scale: a VM's trials would lie flat on the floor of a native one's.
        let vertical = Vertical { name: "goodput", unit: "req/s", scale: common_scale(own, false) };
        grid.add(&lines(&data.environment_label(cell), own, seconds, vertical));
    }
    grid.close("div");
    let what = format!("Every trial, {measure}: one line each, dashed where it doesn't count");
    figure(&titled(&what, group), &[], &grid)
}

fn group_density(data: &RunData, all: &[Density], group: &Group<'_>, measure: &str) -> Markup {
    let of = |cell: &str| all.iter().find(|d| d.cell == cell && d.measure == measure);
    let ranges = || group.cells.iter().filter_map(|c| of(&c.id)?.range());
    let (Some(low), Some(high)) =
        (ranges().map(|r| r.0).reduce(f64::min), ranges().map(|r| r.1).reduce(f64::max))
    else {
        return Markup::new();
    };
    let scale = crate::plot::log_scale(low, high);
    let mut requests = 0;
    let mut grid = Markup::new();
    grid.open("div", &[("class", "grid")]);
    for (position, cell) in group.cells.iter().enumerate() {
        let Some(d) = of(&cell.id) else { continue };
        requests += d.requests;
        let vertical = Vertical { name: "latency", unit: "ns", scale };
        let title = data.environment_label(cell);
        grid.add(&heat(&title, color(position), &d.heat(low, high), d.seconds, vertical));
    }
    grid.close("div");
    let what = format!(
        "Every answered request of all valid trials, {measure}: {requests} of them, by time and latency; \
         the darker, the more"
    );
    figure(&titled(&what, group), &[], &grid)
}

fn titled(what: &str, group: &Group<'_>) -> String {
    if group.label.is_empty() { what.to_owned() } else { format!("{}: {what}", group.label) }
}

fn probes(data: &RunData, all: &[Probed]) -> Markup {
    let mut m = Markup::new();
    if data.plan.cells.len() > MOST_CELLS {
        return m;
    }
    for group in data.groups() {
        let own: Vec<(&Probed, String)> = group
            .cells
            .iter()
            .filter_map(|c| Some((all.iter().find(|p| p.cell == c.id)?, data.environment_label(c))))
            .collect();
        if own.is_empty() {
            continue;
        }
        let mut grid = Markup::new();
        grid.open("div", &[("class", "grid")]);
        type Pick = fn(&Probed) -> &Vec<(String, Points)>;
        let kinds: [(&str, &str, Pick); 3] = [
            ("CPUs busy", "", |p| &p.cpu),
            ("memory in use", "MiB", |p| &p.memory),
            ("network", "bit/s", |p| &p.network),
        ];
        for (name, unit, pick) in kinds {
            let rows: Vec<Vec<Line>> = own.iter().map(|(p, _)| node_lines(pick(p))).collect();
            let scale = common_scale(rows.iter().flatten(), false);
            for ((probed, label), row) in own.iter().zip(&rows) {
                let title = format!("{label}, trial {:03}", probed.trial);
                grid.add(&lines(&title, row, probed.seconds, Vertical { name, unit, scale }));
            }
        }
        grid.close("div");
        let what = "One trial of each environment as its nodes saw it; all trials are in probes.parquet";
        m.add(&figure(&titled(what, &group), &[], &grid));
    }
    m
}

fn node_lines(nodes: &[(String, Points)]) -> Vec<Line> {
    let line = |(i, (label, points)): (usize, &(String, Points))| Line {
        class: format!("n{} firm", i % 6),
        label: label.clone(),
        labelled: true,
        points: points.clone(),
    };
    nodes.iter().enumerate().map(line).collect()
}
