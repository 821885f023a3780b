//! The study beside ours, times without protection, what doesn't count, and every failover by itself.

use super::course::overlay;
use super::failover::{End, Failover};
use super::failovers::{Environment, Group, Overlay, Span};
use super::figures::{QUANTITIES, Quantity};
use super::protects::Mode;
use crate::context::Context;
use crate::family::sip::study::{Graph, Study};
use crate::format::{digits, duration, quantity, tax, tick, whole};
use crate::html::parts::{close_table, heading, open_table, scrolling};
use crate::html::table::PlainTable;
use crate::markup::Markup;

/// Rows shown of lists that a run may make long.
const MOST_ROWS: usize = 500;

pub(super) fn all(context: &Context, group: &Group) -> Markup {
    let mut m = beside_the_study(context, group);
    m.add(&unprotected(group)).add(&problems(group)).add(&left_out(group)).add(&each(group));
    m
}

/// What went wrong with the protection without being asked to.
fn problems(group: &Group) -> Markup {
    let mut m = Markup::new();
    let mut all: Vec<(&Environment, u32, &str)> = Vec::new();
    for e in &group.environments {
        all.extend(e.problems.iter().map(|(trial, problem)| (e, *trial, problem.as_str())));
    }
    if all.is_empty() {
        return m;
    }
    heading(&mut m, &group.prefix, "problems", "What went wrong with the protection", &group.label);
    let columns = [("Environment", false), ("Trial", true), ("What", false)];
    let mut table = PlainTable::new("", &columns);
    for (e, trial, problem) in all.iter().take(MOST_ROWS) {
        table.push(&e.label, [format!("{trial:03}").as_str(), problem]);
    }
    m.add(&scrolling(&table.finish())).add(&more(all.len()));
    m.fixed("<p class=\"small-print\">None of this was asked for by the plan, though some of it may follow from its faults. A trial that was to be protected all the time and wasn’t doesn’t count.</p>");
    m
}

/// The study's table 4-1 and what it read off its graphs of failovers.
fn beside_the_study(context: &Context, group: &Group) -> Markup {
    let mut m = Markup::new();
    let Some(study) = group.study else { return m };
    let overlays = || group.environments.iter().flat_map(|e| &e.overlays);
    let graphs: Vec<&Graph> = study.graphs().filter(|g| overlays().any(|o| g.shows(o.what.name))).collect();
    heading(&mut m, &group.prefix, "study", "The study’s figures beside these", &group.label);
    m.add(&capacity_table(context, group, study));
    if !graphs.is_empty() {
        m.add(&graph_table(group, study, &graphs));
    }
    m
}

/// Capacity in the study's three environments and ours in its layout.
fn capacity_table(context: &Context, group: &Group, study: &Study) -> Markup {
    let value = |e: &Environment| {
        let of = |metric: &str| {
            let cells = context.summary.cells.iter().filter(|c| c.cell == e.cell);
            cells.filter_map(|c| c.metrics.get(metric)).next().map(|m| (m.center, m.at_least, m.unit.clone()))
        };
        of("doc").or_else(|| of("capacity"))
    };
    let mut columns = vec![
        ("Design Objective Capacity (SAPS)", false),
        ("Native Environment", true),
        ("Virtual Environment", true),
    ];
    columns.push(("Virtual Environment with FT turned ON", true));
    let mut table = open_table("", &columns);
    table.open("tr", &[]).element("th", &[("scope", "row")], "The study (table 4-1)");
    let printed = study.capacities;
    let theirs = [printed.native, printed.virtualized, printed.fault_tolerant];
    for v in theirs {
        table.open("td", &[("class", "n")]).element("b", &[], &whole(v));
        table.element("small", &[], &format!(" {}", tax(theirs[0] / v))).close("td");
    }
    table.close("tr");
    let first = |mode: Mode| {
        let found = group.environments.iter().find(|e| e.mode == mode).and_then(&value);
        found.map(|(center, at_least, _)| (center, at_least))
    };
    let (native, vm) = (first(Mode::Native), first(Mode::None));
    for e in group.environments.iter().filter(|e| e.mode > Mode::None) {
        let Some((center, at_least, unit)) = value(e) else { continue };
        let label = format!("{} ({unit})", e.label);
        table.open("tr", &[]).element("th", &[("scope", "row")], &label);
        for known in [native, vm, Some((center, at_least))] {
            table.open("td", &[("class", "n")]);
            if let Some((v, at_least)) = known {
                let sign = if at_least { "≥ " } else { "" };
                table.element("b", &[], &format!("{sign}{}", digits(v)));
                // Of lower bounds no tax follows: the first table has what is known of it.
                let exact = native.filter(|(_, native_at_least)| !native_at_least && !at_least && v > 0.0);
                if let Some((native, _)) = exact {
                    table.element("small", &[], &format!(" {}", tax(native / v)));
                }
            } else {
                table.element("span", &[("class", "quiet")], "not measured");
            }
            table.close("td");
        }
        table.close("tr");
    }
    close_table(&mut table);
    let mut m = scrolling(&table);
    m.fixed("<p class=\"small-print\">The study ran a SIP proxy with a database on hardware of 2008, in virtual machines with the processor’s help and a lock-step product. Its loads don’t compare with these; what each step costs may, where the service and the mix are the same and no software emulation (TCG) is named.</p>");
    m
}

/// What the study read off each graph, and the same of ours.
fn graph_table(group: &Group, study: &Study, graphs: &[&Graph]) -> Markup {
    let environments: Vec<&Environment> =
        group.environments.iter().filter(|e| !e.overlays.is_empty()).collect();
    let theirs = format!("The study, {} failovers", study.failovers);
    let mut columns = vec![("Graph", false), (theirs.as_str(), false)];
    columns.extend(environments.iter().map(|e| (e.label.as_str(), false)));
    let mut table = open_table("graphs", &columns);
    for graph in graphs {
        table.open("tr", &[]).open("th", &[("scope", "row")]);
        table.text(&format!("{} ", graph.number)).element("small", &[], &graph.title).close("th");
        table.element("td", &[], &graph.found);
        for e in &environments {
            let own = e.overlays.iter().find(|o| graph.shows(o.what.name));
            table.element("td", &[], &own.map_or_else(|| "—".to_owned(), read_off));
        }
        table.close("tr");
    }
    close_table(&mut table);
    let mut m = scrolling(&table);
    let text = format!(
        "The study made {} failovers by hand and doesn’t say over which time its shares are taken. Ours: the highest of \
         the median course in the seconds shown above, per second for counts.",
        study.failovers
    );
    m.element("p", &[("class", "small-print")], &text);
    m
}

fn read_off(o: &Overlay) -> String {
    let columns = overlay(o.window, &o.courses);
    let known = |from: f64, to: f64| {
        let columns = columns.iter().filter(move |c| c.at >= from && c.at < to && c.median.is_finite());
        columns.map(|c| c.median).fold(f64::NEG_INFINITY, f64::max)
    };
    let text = |v: f64| match o.what.unit {
        "ms" => duration(v * 1e6),
        _ => format!("{}/s", digits(v)),
    };
    let (before, after) = (known(f64::NEG_INFINITY, 0.0), known(0.0, f64::INFINITY));
    match (before.is_finite(), after.is_finite()) {
        (true, true) => format!("at most {} after the fault, {} before", text(after), text(before)),
        (false, true) => format!("at most {} after the fault", text(after)),
        _ => "nothing seen".to_owned(),
    }
}

/// How long the guest ran alone, and how long no host ran it.
fn unprotected(group: &Group) -> Markup {
    let mut m = Markup::new();
    let spans: Vec<_> = group.environments.iter().flat_map(|e| e.spans.iter().map(move |s| (e, s))).collect();
    if spans.is_empty() {
        return m;
    }
    heading(&mut m, &group.prefix, "unprotected", "Without protection, and without service", &group.label);
    for e in &group.environments {
        let never = e.spans.iter().filter(|s| s.down && !s.ended).count();
        if never > 0 {
            let trials = if never == 1 { "a trial".to_owned() } else { format!("{never} trials") };
            let text = format!("{}: until the end of {trials} nobody ran the service.", e.label);
            m.element("p", &[("class", "warning")], &text);
        }
    }
    let columns = [
        ("Environment", false),
        ("Load with faults", true),
        ("Without protection", true),
        ("longest", true),
        ("Nobody ran it", true),
        ("longest", true),
    ];
    let mut table = open_table("", &columns);
    for e in group.environments.iter().filter(|e| !e.spans.is_empty()) {
        table.open("tr", &[]).element("th", &[("scope", "row")], &e.label);
        table.element("td", &[("class", "n")], &moment(e.loaded));
        for down in [false, true] {
            let lengths: Vec<f64> = e.spans.iter().filter(|s| s.down == down).map(Span::length).collect();
            let (sum, longest) = (lengths.iter().sum::<f64>(), lengths.iter().copied().fold(0.0, f64::max));
            let share = if e.loaded > 0.0 { sum / e.loaded } else { 0.0 };
            table.open("td", &[("class", "n")]).element("b", &[], &moment(sum));
            let times = format!(" {} in {}×", quantity(share.min(1.0), "1"), lengths.len());
            table.element("small", &[], &times).close("td");
            table.element("td", &[("class", "n")], &moment(longest));
        }
        table.close("tr");
    }
    close_table(&mut table);
    m.add(&scrolling(&table));
    m.fixed("<p class=\"small-print\">Without protection the guest runs alone: it answers, but the failure of its host would end it. Shares are of the load with faults, in which something is broken every few seconds: they say nothing about a service’s year. Trials that don’t count are among them.</p>");
    m.add(&every_span(&spans));
    m
}

fn every_span(spans: &[(&Environment, &Span)]) -> Markup {
    let columns =
        [("Environment", false), ("Trial", true), ("From", true), ("To", true), ("", false), ("Why", false)];
    let mut table = PlainTable::new("", &columns);
    for (e, span) in spans.iter().take(MOST_ROWS) {
        let trial = format!("{:03}", span.trial);
        let to = if span.ended { moment(span.to) } else { "the end".to_owned() };
        let what = if span.down { "nobody ran it" } else { "not protected" };
        table.push(&e.label, [trial.as_str(), &moment(span.from), &to, what, &span.reason]);
    }
    let mut m = Markup::new();
    let summary = format!("Every such time, from the start of the load of its trial ({})", spans.len());
    m.open("details", &[]).element("summary", &[], &summary).add(&scrolling(&table.finish()));
    m.add(&more(spans.len())).close("details");
    m
}

fn moment(seconds: f64) -> String {
    tick((seconds * 1e9).round(), "ns")
}

fn more(rows: usize) -> Markup {
    let mut m = Markup::new();
    if rows > MOST_ROWS {
        let text = format!("{} more are in the CSV files.", rows - MOST_ROWS);
        m.element("p", &[("class", "small-print")], &text);
    }
    m
}

fn of_group(group: &Group) -> impl Iterator<Item = (&Environment, &Failover)> {
    group.environments.iter().flat_map(|e| e.failovers.iter().map(move |f| (e, f)))
}

/// Failovers that don't count, and why.
fn left_out(group: &Group) -> Markup {
    let mut m = Markup::new();
    let excluded: Vec<_> = of_group(group).filter_map(|(e, f)| Some((e, f, f.excluded.as_ref()?))).collect();
    if excluded.is_empty() {
        return m;
    }
    heading(&mut m, &group.prefix, "left-out", "Failovers that don’t count", &group.label);
    let mut table =
        PlainTable::new("", &[("Environment", false), ("Trial", true), ("Fault", false), ("Why", false)]);
    for (e, f, why) in excluded.iter().take(MOST_ROWS) {
        let fault = format!("{} at {}", f.fault, moment(f.at));
        table.push(&e.label, [format!("{:03}", f.trial).as_str(), &fault, why]);
    }
    m.add(&scrolling(&table.finish())).add(&more(excluded.len()));
    m
}

/// Every failover in a line.
fn each(group: &Group) -> Markup {
    let mut m = Markup::new();
    let count = of_group(group).count();
    if count == 0 {
        return m;
    }
    // Most runs have no RAID and no fencing: what no fault of the run has is no column.
    let is_known = |q: &&Quantity| of_group(group).any(|(_, f)| (q.of)(f).is_some_and(f64::is_finite));
    let quantities: Vec<&Quantity> = QUANTITIES.iter().filter(is_known).collect();
    let mut columns = vec![("Environment", false), ("Trial", true), ("Fault", false), ("At", true)];
    columns.extend(quantities.iter().map(|q| (q.label, true)));
    columns.push(("Outcome", false));
    let mut table = open_table("sortable", &columns);
    for (e, f) in of_group(group).take(MOST_ROWS) {
        let class = if f.excluded.is_some() { "invalid" } else { "" };
        table.open("tr", &[("class", class)]).element("th", &[("scope", "row")], &e.label);
        table.element("td", &[("class", "n")], &format!("{:03}", f.trial));
        let at = f.at.to_string();
        table.element("td", &[], &f.fault);
        table.element("td", &[("class", "n"), ("data-v", &at)], &moment(f.at));
        for q in &quantities {
            let value = (q.of)(f).filter(|v| v.is_finite());
            // Rows are sorted by numbers: as texts, 1.03 s comes before 874 ms.
            let key = value.map_or_else(String::new, |v| v.to_string());
            let text = value.map(|v| match q.unit {
                "ns" => duration(v),
                _ => whole(v),
            });
            let text = text.unwrap_or_else(|| "—".to_owned());
            table.element("td", &[("class", "n"), ("data-v", &key)], &text);
        }
        let outcome = match (&f.excluded, &f.end) {
            (Some(why), _) => format!("doesn’t count: {why}"),
            (None, End::Survived) if f.outage == Some(false) => "survived, no outage".to_owned(),
            (None, End::Survived) => "survived".to_owned(),
            (None, End::Restored(what)) => format!("not by itself: no answer until {what}"),
            (None, End::Lost(why)) => format!("service lost: {why}"),
            (None, End::Unknown) => "not known".to_owned(),
        };
        table.element("td", &[], &outcome).close("tr");
    }
    close_table(&mut table);
    m.open("details", &[]).element("summary", &[], &format!("Every fault by itself ({count})"));
    m.add(&scrolling(&table)).add(&more(count)).close("details");
    m
}
