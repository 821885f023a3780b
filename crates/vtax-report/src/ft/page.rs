//! Failovers: what they took, what clients saw around them, the study's graphs beside ours.

use super::course::overlay;
use super::failover::Failover;
use super::failovers::{Environment, Ft, Group, Overlay, Series};
use super::figures::{QUANTITIES, seen_of};
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
/// Lengths further apart than this don't share an axis.
const SAME_AXIS: f64 = 8.0;

/// Everything about the failovers of a run.
pub(super) fn failovers(context: &Context, ft: &Ft) -> Markup {
    let mut m = Markup::new();
    for group in &ft.groups {
        let all: Vec<Series<'_>> = group.environments.iter().flat_map(Environment::series).collect();
        if !all.is_empty() {
            heading(&mut m, &group.prefix, "failovers", "Failovers", &group.label);
            m.open("ul", &[("class", "lead")]);
            for series in &all {
                m.element("li", &[], &sentence(series));
            }
            m.close("ul");
            for (fault, series) in by_fault(&all) {
                m.add(&table(fault, &series));
            }
            m.add(&how_to_read()).add(&meanings());
            m.add(&lanes(&all));
        }
        m.add(&writes::section(group));
        m.add(&around(group));
        m.add(&costs::all(context.rows(), group));
        m.add(&facts::all(context, group));
    }
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

fn how_to_read() -> Markup {
    let mut m = Markup::new();
    m.fixed("<p class=\"small-print\">Each figure is the typical value (median) over the failovers, with the range that holds the typical value of all such failovers in 95 of 100 cases, and n, the failovers it rests on. From fewer than three nothing can be told about others: what was seen stands there instead. “47–100 of 100” after “5 of 5” says the same of shares: five successes show no more. Times hold for the failovers that the service survived.</p>");
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

/// What each row of the table is.
fn meanings() -> Markup {
    let mut m = Markup::new();
    m.open("details", &[]).element("summary", &[], "What each row means");
    m.open("dl", &[("class", "meanings words")]);
    for quantity in &QUANTITIES {
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

/// The parts of each series' failover of the median length, those of similar length in one picture.
fn lanes(all: &[Series<'_>]) -> Markup {
    let mut m = Markup::new();
    let mut rest: Vec<Lane> = all.iter().filter_map(|s| lane(s, several(all, s))).collect();
    while !rest.is_empty() {
        let shortest = rest.iter().map(Lane::longest).fold(f64::INFINITY, f64::min);
        // In the plan's order, so that neighbours are the same in every picture.
        let (these, others): (Vec<Lane>, Vec<Lane>) =
            rest.into_iter().partition(|l| l.longest() <= shortest * SAME_AXIS);
        rest = others;
        let title = "From the fault to the first answer";
        let drawn = responsive(|w| takeover(&these, title, w));
        let used = |class: &str| these.iter().any(|l| l.parts.iter().any(|p| p.class == class));
        let keys: Vec<(&'static str, String)> =
            PARTS.iter().filter(|p| used(p.0)).map(|p| (p.0, p.1.to_owned())).collect();
        let caption = "From the fault to the first answer: the bar is the failover of the median length, each dot one \
                       failover";
        m.add(&figure(caption, &keys, &drawn));
    }
    m
}

/// Failovers in which something failed.
fn unplanned<'a>(series: &'a Series<'_>) -> impl Iterator<Item = &'a Failover> {
    series.failovers.iter().copied().filter(|f| !f.planned)
}

fn lane(series: &Series<'_>, several: bool) -> Option<Lane> {
    let mut answered: Vec<(f64, &Failover)> =
        unplanned(series).filter_map(|f| Some((f.times.answered?, f))).collect();
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
            m.element("p", &[("class", "ft-environment"), ("id", &id)], &title);
            let events = events(series);
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
    let to = median(series, |f| f.times.answered)?;
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

/// The usual moments of failovers.
fn events(e: &Series<'_>) -> Vec<picture::Event> {
    let moments = [
        ("fault", Some(0.0)),
        ("noticed", median(e, |f| f.times.detected)),
        ("fenced", median(e, |f| f.times.fenced)),
        ("taken over", median(e, |f| f.times.promoted)),
        ("first answer", median(e, |f| f.times.answered)),
        ("latency normal", median(e, |f| f.times.normal)),
        ("protected again", median(e, |f| f.times.rearmed)),
    ];
    let numbered = (1..).zip(moments);
    numbered.filter_map(|(number, (name, at))| Some(picture::Event { number, name, at: at? })).collect()
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
