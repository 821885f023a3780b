//! Failovers: what they took, what clients saw around them, the study's graphs beside ours.

use super::course::overlay;
use super::failover::{End, Failover};
use super::failovers::{Environment, Ft, Group, Overlay, Series};
use super::figures::{QUANTITIES, Quantity, seen_of};
use super::overview::overview;
use super::plot::around as picture;
use super::plot::takeover::{Lane, Part, takeover};
use super::words::sentence;
use super::{costs, facts, writes};
use crate::context::Context;
use crate::html::parts::{close_table, figure, heading, open_table, scrolling};
use crate::markup::Markup;
use crate::plot::scale::Scale;
use crate::plot::{responsive, series as color};

/// More failovers than this can't be told apart in a picture.
const MOST_TOTALS: usize = 200;

/// More sentences than this nobody reads one after the other.
const MOST_SENTENCES: usize = 6;

/// Everything about the failovers of a run.
pub(super) fn failovers(context: &Context, ft: &Ft) -> Markup {
    let mut m = Markup::new();
    for group in &ft.groups {
        let all: Vec<Series<'_>> = group.environments.iter().flat_map(Environment::series).collect();
        if !all.is_empty() {
            heading(&mut m, &group.prefix, "failovers", "Failovers", &group.label);
            m.add(&outcomes(&all)).add(&how_to_read(&all)).add(&meanings(&all));
            m.add(&lanes(&all));
        }
        m.add(&writes::section(group));
        m.add(&around(group));
        m.add(&costs::all(context.rows(), group));
        m.add(&facts::all(context, group));
    }
    m
}

/// What came of the faults: in sentences and tables, below a table of them all where they are of many kinds.
fn outcomes(all: &[Series<'_>]) -> Markup {
    let mut m = Markup::new();
    let faults = by_fault(all);
    if all.len() <= MOST_SENTENCES || faults.len() == 1 {
        m.add(&sentences(all.iter()));
        for (fault, series) in &faults {
            m.add(&table(fault, series));
        }
        return m;
    }
    m.add(&overview(&faults));
    for (fault, series) in &faults {
        m.open("details", &[]).element("summary", &[], &format!("{fault}, in words and with all figures"));
        m.add(&sentences(series.iter().copied())).add(&table(fault, series)).close("details");
    }
    m
}

fn sentences<'s, 'a: 's>(all: impl Iterator<Item = &'s Series<'a>>) -> Markup {
    let mut m = Markup::new();
    m.open("ul", &[("class", "lead")]);
    for series in all {
        m.element("li", &[], &sentence(series));
    }
    m.close("ul");
    m
}

/// Whether an environment met several kinds of faults.
fn several(all: &[Series<'_>], series: &Series<'_>) -> bool {
    all.iter().filter(|s| s.environment.cell == series.environment.cell).count() > 1
}

/// What met the same kind of fault stands side by side.
fn by_fault<'s, 'a>(all: &'s [Series<'a>]) -> Vec<(&'a str, Vec<&'s Series<'a>>)> {
    let mut faults: Vec<(&str, Vec<&Series<'_>>)> = Vec::new();
    for series in all {
        match faults.iter_mut().find(|f| f.0 == series.fault) {
            Some(known) => known.1.push(series),
            None => faults.push((series.fault, vec![series])),
        }
    }
    // What was tried most often is what the plan is about.
    faults.sort_by_key(|f| std::cmp::Reverse(f.1.iter().map(|s| s.count()).sum::<u64>()));
    faults
}

fn table(fault: &str, all: &[&Series<'_>]) -> Markup {
    let mut columns = vec![(fault, false)];
    columns.extend(all.iter().map(|s| (s.environment.label.as_str(), true)));
    let mut m = open_table("failovers", &columns);
    shares(&mut m, all, "Service survived", |s| Some((s.survived(), s.count())));
    let restored = all.iter().any(|s| s.restored().next().is_some());
    shares(&mut m, all, "No answer before the restore", |s| {
        restored.then(|| (s.restored().count() as u64, s.count()))
    });
    let calm = all.iter().any(|s| s.calm().next().is_some());
    shares(&mut m, all, "No outage seen", |s| calm.then(|| (s.calm().count() as u64, s.count())));
    for quantity in &QUANTITIES {
        let figures: Vec<_> = all.iter().map(|s| s.figure(quantity)).collect();
        if figures.iter().all(|f| f.median.is_none()) {
            continue;
        }
        m.open("tr", &[]).element("th", &[("scope", "row"), ("title", quantity.meaning)], quantity.label);
        for f in &figures {
            m.open("td", &[("class", "n")]);
            match f.median {
                None => {
                    m.element("span", &[("class", "quiet")], "—");
                }
                Some(_) => {
                    let class = if f.unknown() { "quiet" } else { "" };
                    m.element("b", &[("class", class)], &f.text(quantity.unit));
                    m.element("small", &[], &f.detail(quantity.unit));
                }
            }
            m.close("td");
        }
        m.close("tr");
    }
    shares(&mut m, all, "Failovers that kept every connection", |s| {
        s.connections().map(|c| (c.unharmed, c.failovers))
    });
    close_table(&mut m);
    scrolling(&m)
}

fn how_to_read(all: &[Series<'_>]) -> Markup {
    let mut m = Markup::new();
    m.fixed("<p class=\"small-print\">Each figure is the median over the failovers, n of them. Six or more have a 95 % interval; fewer have the smallest and the largest value that was seen. Shares always have an interval: after five successes of five, the true share may be anything from 47 to 100 of 100. Times are of the failovers that the service survived, but for the first answer after a restore.");
    if all.iter().any(|s| s.restored().next().is_some()) {
        m.fixed(" A service survives what it recovers from by itself: where nobody was answered before the plan restored what it had broken, how long that took is the plan’s choice.");
    }
    if all.iter().any(|s| s.calm().next().is_some()) {
        m.fixed(" No outage was seen where no request waited clearly longer than those before: then there is no first answer, as its time would only say how often somebody asked.");
    }
    m.fixed("</p>");
    m
}

/// A row of how often something went well.
fn shares(m: &mut Markup, all: &[&Series<'_>], label: &str, of: impl Fn(&Series<'_>) -> Option<(u64, u64)>) {
    let found: Vec<_> = all.iter().map(|s| of(s)).collect();
    if found.iter().all(Option::is_none) {
        return;
    }
    m.open("tr", &[("class", "sum")]).element("th", &[("scope", "row")], label);
    for share in found {
        m.open("td", &[("class", "n")]);
        if let Some((good, n)) = share {
            let (seen, shows) = seen_of(good, n);
            m.element("b", &[], &seen).element("small", &[], &shows);
        }
        m.close("td");
    }
    m.close("tr");
}

/// What each row of the tables is.
fn meanings(all: &[Series<'_>]) -> Markup {
    let mut m = Markup::new();
    m.open("details", &[]).element("summary", &[], "What each row means");
    m.open("dl", &[("class", "meanings words")]);
    let is_shown = |quantity: &&Quantity| all.iter().any(|s| s.figure(quantity).median.is_some());
    for quantity in QUANTITIES.iter().filter(is_shown) {
        m.element("dt", &[], quantity.label).element("dd", &[], quantity.meaning);
    }
    m.close("dl").close("details");
    m
}

const PARTS: [(&str, &str); 4] = [
    ("part-silence", "until noticed"),
    ("part-fence", "fencing"),
    ("part-takeover", "take-over"),
    ("part-answer", "until the first answer"),
];

/// The parts of each series' failover of the median length, what met the same fault together.
fn lanes(all: &[Series<'_>]) -> Markup {
    let mut m = Markup::new();
    let groups = by_fault(all);
    let ordered = groups.iter().flat_map(|(_, series)| series.iter());
    let lanes: Vec<Lane> = ordered.filter_map(|s| lane(s, several(all, s))).collect();
    if lanes.is_empty() {
        return m;
    }
    let title = "From the fault to the first answer";
    let is_log = Lane::are_far_apart(&lanes);
    let drawn = responsive(|w| takeover(&lanes, title, is_log, w));
    let used = |class: &str| lanes.iter().any(|l| l.parts.iter().any(|p| p.class == class));
    let keys: Vec<(&'static str, String)> =
        PARTS.iter().filter(|p| used(p.0)).map(|p| (p.0, p.1.to_owned())).collect();
    let scale = if is_log { "; the axis is logarithmic: each step of it is a factor" } else { "" };
    let bars = "the bar is the failover of the median length, each dot one failover";
    let caption = format!("{title}: {bars}{scale}");
    m.add(&figure(&caption, &keys, &drawn));
    m
}

/// Failovers in which something failed and the service recovered by itself.
fn unplanned<'a>(series: &'a Series<'_>) -> impl Iterator<Item = &'a Failover> {
    series.failovers.iter().copied().filter(|f| !f.planned && f.end == End::Survived)
}

fn lane(series: &Series<'_>, several: bool) -> Option<Lane> {
    let mut answered: Vec<(f64, &Failover)> =
        unplanned(series).filter_map(|f| Some((f.answered()?, f))).collect();
    answered.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (total, median) = *answered.get(answered.len().checked_sub(1)? / 2)?;
    let t = &median.times;
    let fenced = t.fenced.or(t.detected);
    let moments = [Some(0.0), t.detected, fenced, t.promoted, Some(total)];
    let mut parts = Vec::new();
    let mut from = 0.0;
    for ((class, name), to) in PARTS.iter().zip(moments.into_iter().skip(1)) {
        // A moment that is not known, or out of order, lengthens the next part instead of drawing it backwards.
        let Some(to) = to.filter(|to| *to >= from && *to <= total) else { continue };
        if to > from {
            parts.push(Part { class, name, from, to });
        }
        from = to;
    }
    let totals = answered.iter().map(|a| a.0).take(MOST_TOTALS).collect();
    Some(Lane { label: series.label(several), parts, totals })
}

/// The study's graphs 4-4 to 4-10: each quantity around the fault, failovers laid over each other.
fn around(group: &Group) -> Markup {
    let mut m = Markup::new();
    let drawn: Vec<&Environment> = group.environments.iter().filter(|e| !e.overlays.is_empty()).collect();
    if drawn.is_empty() {
        return m;
    }
    heading(&mut m, &group.prefix, "around", "What clients saw around the fault", &group.label);
    m.fixed("<p class=\"small-print\">All failovers of an environment laid over each other with the fault at 0: the line is their median, the band runs from the lowest to the highest of them, red is the time in which nobody answered (median). Requests stand where they were meant to start, so that one that waited shows its delay where it began.");
    if group.study.is_some() {
        m.fixed(" The pictures are the study’s graphs 4-4 to 4-10, which it shows over the whole test; here they are over seconds.");
    }
    m.fixed("</p>");
    for e in drawn {
        let all = e.series();
        for (i, series) in all.iter().enumerate() {
            let id = format!("{}-around-{}-{}", group.prefix, e.position, i + 1);
            let title = series.label(true);
            m.element("h4", &[("class", "ft-environment"), ("id", &id)], &title);
            let events = events(series, shown_until(e, series));
            m.add(&event_key(&events));
            m.open("div", &[("class", "courses")]);
            for o in e.overlays.iter().filter(|o| o.fault == series.fault) {
                m.add(&course(series, o, group, &events));
            }
            m.close("div");
        }
    }
    m
}

fn course(series: &Series<'_>, o: &Overlay, group: &Group, events: &[picture::Event]) -> Markup {
    let columns = overlay(o.window, &o.courses);
    let title = match group.study.and_then(|study| study.graph(o.what.name)) {
        Some(g) => format!("{} (study: graph {})", o.what.title, g.number),
        None => o.what.title.to_owned(),
    };
    let count = o.courses.len();
    picture::Failover {
        title: &title,
        name: o.what.axis,
        unit: o.what.unit,
        scale: scale(group, o),
        class: color(series.environment.position),
        window: (o.window.from, o.window.to),
        outage: outage(series),
        columns: &columns,
        events,
        count,
    }
    .draw()
}

/// When nobody answered, in seconds since the fault: from that on, or from the last answer of a guest that is moved on
/// purpose.
fn outage(series: &Series<'_>) -> Option<(f64, f64)> {
    let to = median(series, Failover::answered)?;
    let silence = median(series, |f| f.silence_ns.filter(|_| f.planned));
    Some((silence.map_or(0.0, |ns| to - ns / 1e9).min(to), to))
}

/// The same scale for the same quantity in every environment, so that pictures can be compared.
fn scale(group: &Group, o: &Overlay) -> Scale {
    let same =
        group.environments.iter().flat_map(|e| &e.overlays).filter(|other| other.what.name == o.what.name);
    let columns = same.flat_map(|other| overlay(other.window, &other.courses));
    let values: Vec<f64> =
        columns.flat_map(|c| [c.low, c.median, c.high]).filter(|v| v.is_finite()).collect();
    match o.what.unit {
        // As the study's graphs: delays of a failover are a hundred times the usual ones.
        "ms" => Scale::log_around(values),
        _ => Scale::from_zero(values.into_iter().fold(0.0, f64::max)),
    }
}

fn median(series: &Series<'_>, of: impl Fn(&Failover) -> Option<f64>) -> Option<f64> {
    let known = series.failovers.iter().filter_map(|f| of(f));
    let values: Vec<f64> = known.filter(|v| v.is_finite()).collect();
    vtax_stats::quantile(&values, 0.5)
}

/// The last moment that the pictures of a series show, in seconds since the fault.
fn shown_until(e: &Environment, series: &Series<'_>) -> f64 {
    e.overlays.iter().filter(|o| o.fault == series.fault).map(|o| o.window.to).fold(0.0, f64::max)
}

/// The usual moments of failovers, in the order of time. What is restored long after all was well is none of them.
fn events(e: &Series<'_>, until: f64) -> Vec<picture::Event> {
    let moments = [
        ("fault", Some(0.0)),
        ("noticed", median(e, |f| f.times.detected)),
        ("fenced", median(e, |f| f.times.fenced)),
        ("taken over", median(e, |f| f.times.promoted)),
        ("restored", median(e, |f| f.times.restored).filter(|at| *at <= until)),
        ("first answer", median(e, Failover::answered)),
        ("latency normal", median(e, Failover::normal)),
        ("protected again", median(e, |f| f.times.rearmed)),
    ];
    let known = moments.into_iter().filter_map(|(name, at)| Some((name, at?)));
    let mut known: Vec<(&str, f64)> = known.collect();
    known.sort_by(|one, other| one.1.total_cmp(&other.1));
    (1..).zip(known).map(|(number, (name, at))| picture::Event { number, name, at }).collect()
}

fn event_key(events: &[picture::Event]) -> Markup {
    let mut m = Markup::new();
    m.open("ul", &[("class", "event-key")]);
    for event in events {
        let at = if event.at == 0.0 {
            String::new()
        } else {
            format!(" {}", crate::format::duration(event.at * 1e9))
        };
        m.open("li", &[]).element("b", &[], &event.number.to_string());
        m.text(event.name).text(&at).close("li");
    }
    m.close("ul");
    m
}
