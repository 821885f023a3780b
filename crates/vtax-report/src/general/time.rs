//! Small multiples over time: goodput and latency of every trial, requests, probes.

use vtax_plan::model::Cell;

use super::series::{self, Density, Points, Probed, TrialSeries};
use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::data::{Group, RunData};
use crate::html::parts::figure;
use crate::markup::Markup;
use crate::plot::panel::{Horizontal, Line, Vertical, common_scale, heat, lines};
use crate::plot::series as color;

/// Cells beyond this many have no small pictures: the page would be all pictures and no report.
const MOST_CELLS: usize = 36;
/// Name of the axis of a load's time.
const LOAD: &str = "seconds of load";

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

/// The trials of a cell as lines.
struct Own<'a> {
    cell: &'a Cell,
    latency: Vec<Line>,
    goodput: Vec<Line>,
    /// Whether any has answers enough for a 99th percentile.
    has_p99: bool,
    /// How long the longest took.
    seconds: f64,
}

impl<'a> Own<'a> {
    /// None where there are no trials: a fault may be nothing that an environment can meet.
    fn of(all: &[TrialSeries], cell: &'a Cell, position: usize, measure: &str) -> Option<Self> {
        let trials = || all.iter().filter(|s| s.cell == cell.id && s.measure == measure);
        trials().next()?;
        let has_p99 = trials().any(|s| !s.p99.is_empty());
        let mut own = Self { cell, latency: Vec::new(), goodput: Vec::new(), has_p99, seconds: 0.0 };
        for s in trials() {
            let color = if s.valid { color(position) } else { "invalid" };
            let line = |class: &str, what: &str, points: &Points| Line {
                class: format!("{color} {class}"),
                label: format!("trial {:03}, {what}", s.index),
                labelled: false,
                points: points.clone(),
            };
            own.latency.push(line("thin", "p99", &s.p99));
            own.latency.push(line(if has_p99 { "thin faint" } else { "thin" }, "median", &s.p50));
            own.goodput.push(line("thin", "answers per second", &s.goodput));
            own.seconds = own.seconds.max(s.seconds);
        }
        Some(own)
    }

    fn name_of_latency(&self) -> &'static str {
        match self.has_p99 {
            true => "latency: p99 strong, median faint",
            false => "latency: median; too few answers for p99",
        }
    }
}

/// Trials whose lengths are further apart than this factor share no axis: the shorter would be dots.
const SAME_AXIS: f64 = 3.0;

fn group_over_time(data: &RunData, all: &[TrialSeries], group: &Group<'_>, measure: &str) -> Markup {
    let cells = group.cells.iter().enumerate();
    let drawn: Vec<Own<'_>> = cells.filter_map(|(i, cell)| Own::of(all, cell, i, measure)).collect();
    if drawn.is_empty() {
        return Markup::new();
    }
    let longest = drawn.iter().map(|own| own.seconds).fold(0.0, f64::max);
    let shortest = drawn.iter().map(|own| own.seconds).fold(f64::INFINITY, f64::min);
    let apart = longest > shortest * SAME_AXIS;
    let over = |own: &Own<'_>| Horizontal { name: LOAD, seconds: if apart { own.seconds } else { longest } };
    let mut grid = Markup::new();
    grid.open("div", &[("class", "grid")]);
    let scale = common_scale(drawn.iter().flat_map(|own| &own.latency), true);
    for own in &drawn {
        let vertical = Vertical { name: own.name_of_latency(), unit: "ns", scale };
        grid.add(&lines(&data.environment_label(own.cell), &own.latency, over(own), vertical));
    }
    for own in &drawn {
        // Each to its own scale: a VM's trials would lie flat on the floor of a native one's.
        let scale = common_scale(&own.goodput, false);
        let vertical = Vertical { name: "goodput", unit: "req/s", scale };
        grid.add(&lines(&data.environment_label(own.cell), &own.goodput, over(own), vertical));
    }
    grid.close("div");
    let time = if apart { ", and each panel a length of time of its own" } else { "" };
    let what = format!(
        "Every trial, {measure}: one line each, dashed where it doesn't count. Latency has one scale in all panels, \
         goodput one of its own in each{time}"
    );
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
        let over = Horizontal { name: LOAD, seconds: d.seconds };
        grid.add(&heat(&title, color(position), &d.heat(low, high), over, vertical));
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
                let over = Horizontal { name: "seconds of the trial", seconds: probed.seconds };
                grid.add(&lines(&title, row, over, Vertical { name, unit, scale }));
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

#[cfg(test)]
mod tests {
    use vtax_fixture::{Options, create};

    use super::*;
    use crate::Report;

    /// Two cells of a made-up run, the first with a trial of one second, the other with one of so many and, where that is
    /// wanted, with a 99th percentile.
    fn drawn(seconds: f64, p99: bool) -> String {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { repetitions: 2, seconds: 1, rate: 100, ..Options::default() };
        let context = Report::read(&create(&dir.path().join("run"), &options).unwrap()).unwrap().context;
        let groups = context.data.groups();
        let course = |cell: usize, seconds: f64, p99: bool| TrialSeries {
            cell: groups[0].cells[cell].id.clone(),
            measure: "latency".to_owned(),
            valid: true,
            seconds,
            goodput: vec![(0.0, 5.0), (seconds, 5.0)],
            p50: vec![(0.0, 1e6), (seconds, 1e6)],
            p99: if p99 { vec![(0.0, 2e6), (seconds, 2e6)] } else { Vec::new() },
            ..TrialSeries::default()
        };
        let all = [course(0, 1.0, false), course(1, seconds, p99)];
        group_over_time(&context.data, &all, &groups[0], "latency").into_string()
    }

    #[test]
    fn a_line_is_named_only_where_it_is() {
        let page = drawn(2.0, false);
        assert!(!page.contains(" d=\"\"") && !page.contains("p99 strong"), "{page}");
        assert_eq!(page.matches("<desc>latency: median; too few answers").count(), 2, "{page}");
        let page = drawn(2.0, true);
        assert_eq!(page.matches("<desc>latency: p99 strong, median faint</desc>").count(), 1, "{page}");
        assert_eq!(page.matches("<title>trial 000, p99</title>").count(), 1, "{page}");
    }

    #[test]
    fn panels_say_how_their_axes_compare() {
        let (like, unlike) = (drawn(2.0, true), drawn(100.0, true));
        for page in [&like, &unlike] {
            assert!(page.contains("goodput one of its own in each"), "{page}");
            assert_eq!(page.matches(">seconds of load</text>").count(), 4, "{page}");
        }
        // A panel is 232 pixels wide.
        assert!(like.contains("h116\"") && !like.contains("a length of time of its own"), "{like}");
        assert!(unlike.contains("each panel a length of time of its own"), "{unlike}");
        assert_eq!(unlike.matches("h232\"").count(), 5, "{unlike}");
    }
}
