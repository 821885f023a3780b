//! What each way to protect a guest keeps and what it costs; the interval of checkpoints against both.

use super::failover::{End, Failover};
use super::failovers::{Environment, Group};
use super::figures::{Figure, seen_of};
use super::plot::sweep::{Point, Reference, Sweep};
use super::protects::{Aspect, Mode, by_design};
use crate::format::{digits, duration, quantity, range, typical};
use crate::html::parts::{close_table, details, figure, heading, open_table, scrolling};
use crate::markup::Markup;
use crate::metric::enough;
use crate::plot::curves::{Curve, PAUSES, percentiles};
use crate::plot::{responsive, series as color};
use crate::rows::Row;

/// Both tables, the pauses and the interval. Where no guest is protected, nothing is said of what protection costs, and of
/// what is kept only where a host failed: routers and links have no guests.
pub(super) fn all(rows: &[Row], group: &Group) -> Markup {
    let rows: Vec<&Row> = rows.iter().filter(|r| r.primary && r.group == group.label).collect();
    let mut m = Markup::new();
    let protected = group.environments.iter().any(|e| e.mode > Mode::None);
    if protected || group.environments.iter().any(|e| e.failovers.iter().any(|f| f.host_failed)) {
        heading(&mut m, &group.prefix, "protects", "What each environment protects", &group.label);
        m.add(&protects(group));
    }
    if !protected {
        return m;
    }
    heading(&mut m, &group.prefix, "costs", "What protection costs", &group.label);
    let found = [costs(&rows, group), pauses(group), sweeps(&rows, group)];
    if found.iter().all(Markup::is_empty) {
        m.fixed("<p class=\"small-print\">Nothing is known of it: no trial counts.</p>");
    }
    found.iter().for_each(|part| {
        m.add(part);
    });
    m
}

/// `vm-remus (TCG)` and what its mode does.
fn named(m: &mut Markup, e: &Environment, more: usize) {
    m.open("th", &[("scope", "row"), ("class", color(e.position))]);
    m.fixed("<i class=\"dot\"></i>").text(&e.label);
    let others = if more > 0 { format!(" and {more} more of its mode") } else { String::new() };
    m.element("small", &[("title", e.mode.meaning())], &format!(" {}{others}", mode(e))).close("th");
}

fn mode(e: &Environment) -> String {
    match (e.interval_ns, e.mode) {
        (Some(ns), mode) => format!("{}, {}", mode.name(), crate::format::tick(ns, "ns")),
        (None, Mode::Native) => String::new(),
        (None, Mode::None) => "not protected".to_owned(),
        (None, mode) => mode.name().to_owned(),
    }
}

fn protects(group: &Group) -> Markup {
    let mut columns = vec![("If a host fails", false)];
    columns.extend(Aspect::ALL.map(|a| (a.label(), false)));
    let mut table = open_table("protects", &columns);
    for e in &group.environments {
        let alike =
            |o: &&Environment| o.mode == e.mode && o.has_disk == e.has_disk && o.counted().count() == 0;
        let others = group.environments.iter().filter(alike).filter(|o| o.position != e.position);
        // Intervals of one mode promise the same; without failovers of their own one row says it.
        if alike(&e) && others.clone().any(|o| o.position < e.position) {
            continue;
        }
        let more = if alike(&e) { others.count() } else { 0 };
        table.open("tr", &[]);
        named(&mut table, e, more);
        for aspect in Aspect::ALL {
            table.open("td", &[]).open("span", &[("class", "promise")]);
            table
                .element("span", &[("class", "tag")], "by design")
                .text(by_design(e.mode, aspect, e.has_disk));
            table.close("span");
            if let Some((good, n, what)) = measured(e, aspect) {
                let class = if good == n { "tag measured" } else { "tag failed" };
                let (seen, shows) = seen_of(good, n);
                table.open("span", &[("class", "seen")]).element("span", &[("class", class)], "measured");
                table.element("b", &[], &seen).text(&format!(" {what}"));
                table.element("small", &[], &format!(" ({shows})")).close("span");
            }
            table.close("td");
        }
        table.close("tr");
    }
    close_table(&mut table);
    let mut m = scrolling(&table);
    m.fixed("<p class=\"small-print\">“By design” is what the mode promises for the failure of one host, from how it works. “Measured” is what this run’s failovers showed, with the share of all such failovers that they allow to be claimed.</p>");
    m
}

/// How often a promise was kept, of how many failovers, and what was counted.
fn measured(e: &Environment, aspect: Aspect) -> Option<(u64, u64, &'static str)> {
    let failures: Vec<&Failover> = e.counted().filter(|f| f.host_failed).collect();
    let of = |known: &dyn Fn(&Failover) -> Option<bool>| {
        let answers: Vec<bool> = failures.iter().filter_map(|f| known(f)).collect();
        let good = answers.iter().filter(|good| **good).count() as u64;
        (!answers.is_empty()).then_some((good, answers.len() as u64))
    };
    let (found, what) = match aspect {
        Aspect::Availability => (of(&|f| Some(f.end == End::Survived)), "failures survived"),
        Aspect::Connections => (of(&|f| f.counts.kept_all()), "kept every connection"),
        Aspect::SplitBrain => (of(&|f| Some(f.times.fenced? <= f.times.promoted?)), "fenced first"),
        // Only a service that keeps its own count can tell: the soak test's does.
        Aspect::Memory | Aspect::Disk => (None, ""),
    };
    found.map(|(good, n)| (good, n, what))
}

/// One line of the table of costs.
struct Cost {
    label: String,
    meaning: &'static str,
    /// Value and detail, by environment; `None` where there is none.
    cells: Vec<Option<(String, String)>>,
}

fn costs(rows: &[&Row], group: &Group) -> Markup {
    let mut all = taxes(rows, group);
    all.extend(checkpoints(group));
    if all.is_empty() {
        return Markup::new();
    }
    let mut columns = vec![("", false)];
    columns.extend(group.environments.iter().map(|e| (e.label.as_str(), true)));
    let mut table = open_table("costs", &columns);
    for cost in &all {
        table.open("tr", &[]).element("th", &[("scope", "row"), ("title", cost.meaning)], &cost.label);
        for cell in &cost.cells {
            table.open("td", &[("class", "n")]);
            match cell {
                None => {
                    table.element("span", &[("class", "quiet")], "—");
                }
                Some((value, detail)) => {
                    table
                        .element("b", &[], value)
                        .open("small", &[])
                        .empty("br", &[])
                        .text(detail)
                        .close("small");
                }
            }
            table.close("td");
        }
        table.close("tr");
    }
    close_table(&mut table);
    let mut m = Markup::new();
    if let Some(measure) = &group.costs_of {
        let text = format!("What concerns checkpoints is from the trials of [{measure}].");
        m.element("p", &[("class", "small-print")], &text);
    }
    m.add(&scrolling(&table));
    m.fixed("<p class=\"small-print\">Typical values over trials with their 95 % intervals; “x” is the tax against the baseline, as in the first table. All of this was measured. A pause is the time in which the guest stands still for a checkpoint. Dirty pages are pages of 4 KiB that had changed since the checkpoint before; QEMU doesn’t count them, so all bytes of a checkpoint are taken for pages: at most that many.</p>");
    m
}

/// What the run measured anyway: capacity, latency, CPU time.
fn taxes(rows: &[&Row], group: &Group) -> Vec<Cost> {
    let of = |block: &[&Row]| Cost {
        label: named_block(block),
        meaning: "",
        cells: group
            .environments
            .iter()
            .map(|e| {
                let row = block.iter().find(|r| r.position == e.position)?;
                row.value.as_ref()?;
                let mut detail = row.interval_text();
                if !row.tax_text().is_empty() {
                    let separator = if detail.is_empty() { "" } else { ", " };
                    detail.push_str(&format!("{separator}{}", row.tax_text()));
                }
                Some((row.value_text(), detail))
            })
            .collect(),
    };
    blocks(rows).map(of).collect()
}

/// `latency, median`, and of which measure where that isn't clear.
fn named_block(block: &[&Row]) -> String {
    let (label, measure) = (block[0].label, block[0].measure.as_str());
    if label.split(',').next() == Some(measure) { label.to_owned() } else { format!("{label} [{measure}]") }
}

/// Rows of one metric and measure together.
fn blocks<'r, 'a>(rows: &'r [&'a Row]) -> impl Iterator<Item = &'r [&'a Row]> {
    rows.chunk_by(|a, b| (a.metric, &a.measure) == (b.metric, &b.measure))
}

/// A figure of what every trial has.
fn of_all(values: &[(u32, f64)]) -> Figure {
    Figure::new(values.iter().map(|(_, value)| Some(*value)))
}

fn checkpoints(group: &Group) -> Vec<Cost> {
    let per_second = |v: f64| format!("{}/s", digits(v));
    let bytes = |v: f64| quantity(v, "B");
    let bytes_per_second = |v: f64| format!("{}/s", quantity(v, "B"));
    let share = |v: f64| quantity(v, "1");
    type Line<'a> = (&'static str, &'static str, fn(&Environment) -> Figure, &'a dyn Fn(f64) -> String);
    let lines: [Line<'_>; 8] = [
        (
            "Checkpoints",
            "How often what changed was copied.",
            |e| of_all(&e.costs.checkpoint_rate),
            &per_second,
        ),
        (
            "Standing still",
            "Share of the time in which the guest was paused.",
            |e| of_all(&e.costs.stopped_share).at_most(1.0),
            &share,
        ),
        (
            "FT-link traffic",
            "What the link between the hosts carried.",
            |e| of_all(&e.costs.link_rate),
            &bytes_per_second,
        ),
        (
            "Copied per checkpoint",
            "Changed memory and the devices' state.",
            |e| of_all(&e.costs.bytes),
            &bytes,
        ),
        ("Dirty pages per checkpoint, at most", "Pages of 4 KiB.", |e| of_all(&e.costs.pages), &digits),
        ("CPU of all hosts' QEMUs", "In shares of one core.", |e| of_all(&e.costs.host_cpu), &share),
        (
            "CPU of vtax's supervision",
            "Heartbeats, supervisor, relay.",
            |e| of_all(&e.costs.supervision),
            &share,
        ),
        (
            "Protecting a running guest",
            "From the decision to its first checkpoint.",
            |e| of_all(&e.costs.armed_ns),
            &duration,
        ),
    ];
    let mut all: Vec<Cost> = lines
        .iter()
        .map(|(label, meaning, of, text)| {
            let cell = |e: &Environment| figure_cell(&of(e), text);
            Cost { label: (*label).to_owned(), meaning, cells: group.environments.iter().map(cell).collect() }
        })
        .collect();
    all.extend(percentiles_of_pauses(group));
    all.retain(|c| c.cells.iter().any(Option::is_some));
    all
}

fn percentiles_of_pauses(group: &Group) -> impl Iterator<Item = Cost> {
    let quantiles =
        [("Pause, median", 0.5), ("Pause, p95", 0.95), ("Pause, p99", 0.99), ("Pause, longest", 1.0)];
    quantiles.into_iter().map(|(label, q)| {
        let cell = |e: &Environment| {
            let h = &e.costs.pauses.0;
            // As for every percentile: at least ten values beyond it.
            let known = !h.is_empty() && (q == 1.0 || enough(h.len(), q));
            known.then(|| (duration(h.value_at_quantile(q) as f64), format!("of {}", h.len())))
        };
        Cost {
            label: label.to_owned(),
            meaning: "How long the guest stood still for a checkpoint, all trials together.",
            cells: group.environments.iter().map(cell).collect(),
        }
    })
}

fn figure_cell(f: &Figure, text: &dyn Fn(f64) -> String) -> Option<(String, String)> {
    let value = text(f.median?);
    let detail = match f.interval {
        Some((low, high)) => format!("{}–{}", text(low), text(high)),
        None => format!("n = {}: too few for an interval", f.n),
    };
    Some((value, detail))
}

/// How long checkpoints stop the guest, as percentiles.
fn pauses(group: &Group) -> Markup {
    let with = group.environments.iter().filter(|e| !e.costs.pauses.0.is_empty());
    let found: Vec<Curve<'_>> = with
        .map(|e| Curve { label: e.label.clone(), position: e.position, histogram: &e.costs.pauses.0 })
        .collect();
    if found.is_empty() {
        return Markup::new();
    }
    let title = "Pauses of checkpoints by percentile";
    let keys: Vec<_> = found.iter().map(|c| (color(c.position), c.label.clone())).collect();
    figure(title, &keys, &responsive(|w| percentiles(&found, title, PAUSES, w)))
}

/// References more than this far off ask for a logarithmic axis.
const FAR: f64 = 6.0;

/// Each primary figure against the interval, where a mode was measured with several.
fn sweeps(rows: &[&Row], group: &Group) -> Markup {
    let mut m = Markup::new();
    let mut swept: Vec<&Environment> =
        group.environments.iter().filter(|e| e.interval_ns.is_some()).collect();
    swept.retain(|e| e.mode == Mode::Remus);
    swept.sort_by(|a, b| a.interval_ns.unwrap_or_default().total_cmp(&b.interval_ns.unwrap_or_default()));
    swept.dedup_by(|a, b| a.interval_ns == b.interval_ns);
    if swept.len() < 2 {
        return m;
    }
    let mut pictures = Markup::new();
    for block in blocks(rows) {
        let value = |e: &Environment| block.iter().find(|r| r.position == e.position)?.value.as_ref();
        let points: Vec<Point> = swept
            .iter()
            .filter_map(|e| {
                let v = value(e)?;
                let (value, interval, at_least) = (v.center, v.interval, v.at_least);
                Some(Point { at_ns: e.interval_ns?, value, interval, at_least })
            })
            .collect();
        let Some(unit) = block.iter().find_map(|r| r.value.as_ref()).map(|v| v.unit.clone()) else {
            continue;
        };
        if points.len() < 2 {
            continue;
        }
        let references: Vec<Reference> = group
            .environments
            .iter()
            .filter(|e| e.interval_ns.is_none())
            .filter_map(|e| {
                let v = value(e)?;
                let (label, class) = (e.label.clone(), color(e.position));
                Some(Reference { label, class, value: v.center, at_least: v.at_least })
            })
            .collect();
        let largest = points.iter().map(|p| p.value).fold(0.0, f64::max);
        let smallest = points.iter().map(|p| p.value).fold(f64::INFINITY, f64::min);
        let far = |r: &Reference| r.value > largest * FAR || r.value * FAR < smallest;
        let log = largest > smallest * FAR || references.iter().any(far);
        let title = named_block(block);
        let class = color(swept[0].position);
        let sweep =
            Sweep { title: &title, unit: &unit, class, points: &points, references: &references, log };
        pictures.add(&sweep.draw(430.0));
    }
    if pictures.is_empty() {
        return m;
    }
    heading(&mut m, &group.prefix, "interval", "The interval between checkpoints", &group.label);
    m.fixed("<p class=\"small-print\">With a checkpoint every so often, what the guest says waits for the next one: on average half an interval, at most a whole one and the copy. Long intervals cost latency; short ones cost throughput, as the guest stands still more often. Points are typical values over trials with their 95 % intervals.</p>");
    let mut grid = Markup::new();
    grid.open("div", &[("class", "sweeps")]).add(&pictures).close("div");
    m.add(&figure("", &[], &grid)).add(&table(rows, &swept));
    m
}

/// The costs as numbers.
fn table(rows: &[&Row], swept: &[&Environment]) -> Markup {
    let blocks: Vec<&[&Row]> = blocks(rows).collect();
    let names: Vec<String> = blocks.iter().map(|b| named_block(b)).collect();
    let mut columns = vec![("Interval", false)];
    columns.extend(names.iter().map(|n| (n.as_str(), true)));
    let mut table = open_table("", &columns);
    for e in swept {
        table.open("tr", &[]);
        table.element("th", &[("scope", "row")], &format!("{} ({})", mode(e), e.label));
        for block in &blocks {
            let value = block.iter().find(|r| r.position == e.position).and_then(|r| r.value.as_ref());
            table.open("td", &[("class", "n")]);
            if let Some(v) = value {
                table.text(&typical(v.center, &v.unit, v.at_least));
                if let Some(i) = v.interval {
                    table.element("small", &[], &format!(" {}", range(v.center, i, &v.unit)));
                }
            }
            table.close("td");
        }
        table.close("tr");
    }
    close_table(&mut table);
    details("As a table", &table)
}
