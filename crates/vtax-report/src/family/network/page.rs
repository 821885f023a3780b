//! Network tests over paths: the study's tables and figures with what was found here beside them.

use std::collections::BTreeMap;

use vtax_plan::model::NetworkTestKind;
use vtax_store::record::Validity;
use vtax_store::summary::Comparison;

use super::bench::{Bench, Link, Links, Test, Window};
use super::plot::{Line, Row, by_window, scenarios};
use super::study::{self, NOT_REPEATED, Scenario, TABLES};
use super::transfers::{Amount, Grid, amount, grid, in_30_s, megabytes};
use crate::context::Context;
use crate::format::{digits, quantity, tax, tax_range, tick};
use crate::html::parts::{badge, figure, head, heading, row_head, wide};
use crate::markup::Markup;
use crate::plot::{responsive, series};
use crate::words::invalid;

pub(super) fn section(context: &Context, links: &Links<'_>) -> Markup {
    let mut m = Markup::new();
    let with_transfers = || links.benches.iter().filter(|b| b.transfers().next().is_some());
    for bench in with_transfers() {
        m.element("p", &[("class", "small-print")], &how(bench));
        for table in &TABLES {
            m.add(&study_table(bench, table));
        }
        m.add(&comprehensive(bench));
        m.add(&systems(bench));
        m.add(&taxes(context, bench));
        m.add(&every(bench));
    }
    let repeats = |b: &&Bench<'_>| b.links.iter().any(|l| Scenario::of(l.cell).is_some());
    with_transfers().find(repeats).into_iter().for_each(|bench| _ = m.add(&not_repeated(bench)));
    m
}

/// How the figures of the tables came about.
fn how(bench: &Bench<'_>) -> String {
    let times = bench.times().map(|(warmup, counted)| (warmup.as_secs_f64(), counted.as_secs_f64()));
    let valid = |l: &Link<'_>| l.trials.iter().filter(|t| t.validity == Validity::Valid).count();
    let counts: Vec<usize> = bench.links.iter().map(valid).collect();
    let trials = match (counts.iter().min(), counts.iter().max()) {
        (Some(a), Some(b)) if a != b => format!("{a} to {b}"),
        (Some(a), _) => a.to_string(),
        _ => String::new(),
    };
    let warmup = match times {
        Some((warmup, _)) if warmup > 0.0 => {
            format!("a warm-up of {} before it isn't counted", time(warmup))
        }
        _ => "what was found to be warm-up isn't counted".to_owned(),
    };
    let scaled = match times {
        Some((_, study::SECONDS)) => "Each transfer was of 30 s, as in the study".to_owned(),
        Some((_, seconds)) => {
            format!("Each transfer was of {}, and its amount is scaled to the study's 30 s", time(seconds))
        }
        None => {
            "Transfers were of various times, and their amounts are scaled to the study's 30 s".to_owned()
        }
    };
    let tcg = match bench.has_tcg() {
        true => {
            " TCG marks virtual machines under software emulation, whose figures say nothing about hardware virtualization."
        }
        false => "",
    };
    let unasked =
        |t: &&Test<'_>| matches!(&t.test.kind, NetworkTestKind::Tcp(tcp) if tcp.socket.congestion.is_none());
    let chosen = bench.transfers().filter(unasked).map(|t| bench.congestions(&t.test.name));
    let differ = match chosen.max_by_key(BTreeMap::len).filter(|c| c.len() > 1) {
        None => String::new(),
        Some(names) => format!(
            " Kernels chose different congestion controls ({}): part of what sets environments apart; `congestion:` sets \
             one for all.",
            names.into_keys().collect::<Vec<_>>().join(", ")
        ),
    };
    let without: Vec<&str> =
        bench.links.iter().filter(|l| !l.has_offloads()).map(|l| l.label.as_str()).collect();
    let plain = match without.len() {
        n if n == 0 || n == bench.links.len() => String::new(),
        _ => format!(
            " Without segmentation offloads, unlike the rest: {}; `offloads: false` for a path of each kind compares \
             like with like.",
            without.join(", ")
        ),
    };
    format!(
        "{scaled}; {warmup}. 1 MB is 1,048,576 bytes (section III.E of the study). Figures are \
         means over the trials that count ({trials} of each path; the study: {} tests), by the receiver's bytes, with \
         standard deviations in parentheses.{differ}{plain}{tcg}",
        study::REPETITIONS
    )
}

/// `2 s`, `200 ms`.
fn time(seconds: f64) -> String {
    tick(seconds * 1e9, "ns")
}

fn study_table(bench: &Bench<'_>, table: &study::Table) -> Markup {
    let mut m = Markup::new();
    let Some(grid) = grid(bench, table) else { return m };
    let part = format!("table-{}", table.number.to_lowercase());
    heading(&mut m, &bench.prefix, &part, &format!("Table {}: {}", table.number, table.title), &bench.label);
    let columns = grid.blocks.iter().map(|b| b.columns.len()).sum();
    m.add(&wide(&grid_table(&grid), columns));
    let mut notes = Vec::new();
    if !table.missing.is_empty() {
        notes.push(format!("Not measured here: {} (see what is not repeated).", table.missing));
    }
    if table.number == "VI" {
        notes.push(
            "A mean over all transfers of a scenario. The study's baseline differs from the mean of its own \
             tables II and V."
                .to_owned(),
        );
    }
    if !notes.is_empty() {
        m.element("p", &[("class", "small-print")], &notes.join(" "));
    }
    m
}

fn grid_table(grid: &Grid) -> Markup {
    let mut m = Markup::new();
    m.open("table", &[("class", "beside")]).open("thead", &[]).open("tr", &[]).element("th", &[], "");
    for (block, class) in grid.blocks.iter().zip(["n printed", "n"]) {
        let span = block.columns.len().to_string();
        m.element("th", &[("scope", "colgroup"), ("colspan", &span), ("class", class)], block.name);
    }
    m.close("tr").open("tr", &[]).element("th", &[("scope", "col")], "Window");
    for (block, class) in grid.blocks.iter().zip(["n printed", "n"]) {
        for column in &block.columns {
            m.element("th", &[("scope", "col"), ("class", class)], &column.name);
        }
    }
    m.close("tr").close("thead").open("tbody", &[]);
    for (row, window) in grid.windows.iter().enumerate() {
        m.open("tr", &[]).element("th", &[("scope", "row")], window);
        for (block, class) in grid.blocks.iter().zip(["n printed", "n"]) {
            for column in &block.columns {
                m.open("td", &[("class", class)]).add(&amount_cell(column.amounts[row].as_ref())).close("td");
            }
        }
        m.close("tr");
    }
    m.close("tbody").close("table");
    m
}

fn amount_cell(amount: Option<&Amount>) -> Markup {
    let mut m = Markup::new();
    let Some(a) = amount else {
        m.element("span", &[("class", "quiet")], "—");
        return m;
    };
    let (mean, sd) = a.texts();
    m.text(&mean);
    let remark = match (sd, a.count) {
        (Some(sd), _) => format!(" ({sd})"),
        (None, Some(1)) => " (one)".to_owned(),
        (None, _) => return m,
    };
    m.element("small", &[], &remark);
    m
}

/// Figure 5: every transfer by scenario and window.
fn comprehensive(bench: &Bench<'_>) -> Markup {
    let windows = bench.windows();
    let Some(variant) = bench.variants().first().copied() else { return Markup::new() };
    let number = |study_row: usize| windows.iter().position(|w| w.of_study() == Some(study_row));
    let here = |link: &Link<'_>| {
        let of = |(i, w): (usize, &Window)| {
            let a = amount(bench, [link], *w, variant)?;
            Some((i, a.mean, format!("{}, window {}: {} MB", link.label, w.name(), a.text())))
        };
        Row {
            label: link.label.clone(),
            printed: false,
            marks: windows.iter().enumerate().filter_map(of).collect(),
        }
    };
    let printed = |c: &study::Column| {
        let of = |(row, value): (usize, &study::Printed)| {
            let i = number(row)?;
            let text = Amount { mean: value.0, sd: value.1, count: None }.text();
            Some((i, value.0, format!("the study, {}, window {}: {text} MB", c.name, windows[i].name())))
        };
        Row {
            label: format!("study: {}", c.name),
            printed: true,
            marks: c.values.iter().enumerate().filter_map(of).collect(),
        }
    };
    let mut groups = Vec::new();
    for scenario in Scenario::ALL {
        let own = bench.links.iter().filter(|l| Scenario::of(l.cell) == Some(scenario)).map(here);
        let rows: Vec<Row> = study::figure_5()
            .filter(|(s, _)| *s == scenario)
            .map(|(_, c)| printed(c))
            .chain(own)
            .filter(|r| !r.marks.is_empty())
            .collect();
        groups.push((scenario.name().to_owned(), rows));
    }
    let others: Vec<Row> = bench.links.iter().filter(|l| Scenario::of(l.cell).is_none()).map(here).collect();
    groups.push(("Not in the study".to_owned(), others));
    groups.retain(|(_, rows)| rows.iter().any(|r| !r.marks.is_empty()));
    if groups.iter().all(|(_, rows)| rows.iter().all(|r| r.printed)) {
        return Markup::new();
    }
    let mut m = Markup::new();
    heading(
        &mut m,
        &bench.prefix,
        "figure-5",
        "Figure 5: all transfers by scenario and window",
        &bench.label,
    );
    let keys: Vec<_> =
        windows.iter().enumerate().map(|(i, w)| (series(i), format!("window {}", w.name()))).collect();
    let picture = responsive(|w| scenarios(&groups, "All transfers by scenario and window", "MB", w));
    let caption = "Filled: measured here. Outlined: printed in the study, on hardware of its time.";
    m.add(&figure(caption, &keys, &picture));
    m
}

/// Figure 6: the same link under other systems; here kernels and congestion controls.
fn systems(bench: &Bench<'_>) -> Markup {
    let (windows, variants) = (bench.windows(), bench.variants());
    if variants.len() < 2 {
        return Markup::new();
    }
    let mut lines = Vec::new();
    for link in &bench.links {
        for variant in &variants {
            let values: Vec<Option<f64>> =
                windows.iter().map(|w| Some(amount(bench, [link], *w, variant)?.mean)).collect();
            if values.iter().any(Option::is_some) {
                let label = format!("{}, {variant}", link.label);
                lines.push(Line { label, position: lines.len(), values });
            }
        }
    }
    let mut m = Markup::new();
    heading(&mut m, &bench.prefix, "figure-6", "Figure 6: systems and congestion controls", &bench.label);
    let names: Vec<String> = windows.iter().map(|w| w.name()).collect();
    let keys: Vec<_> = lines.iter().map(|l| (series(l.position), l.label.clone())).collect();
    let picture = responsive(|w| by_window(&lines, &names, "Transfers by system and window", "MB", w));
    let caption = "The study compared operating systems over one switch and printed the picture without its \
                   numbers. Here they are kernels and their congestion controls.";
    m.add(&figure(caption, &keys, &picture));
    let mut table = Markup::new();
    table.open("table", &[("class", "beside")]);
    let mut columns = vec![("System", false)];
    columns.extend(names.iter().map(|n| (n.as_str(), true)));
    head(&mut table, &columns);
    table.open("tbody", &[]);
    for link in &bench.links {
        for variant in &variants {
            let amounts: Vec<_> = windows.iter().map(|w| amount(bench, [link], *w, variant)).collect();
            if amounts.iter().all(Option::is_none) {
                continue;
            }
            let name = format!("{}, {variant}", link.label);
            table.open("tr", &[]).element("th", &[("scope", "row")], &name);
            for a in &amounts {
                table.open("td", &[("class", "n")]).add(&amount_cell(a.as_ref())).close("td");
            }
            table.close("tr");
        }
    }
    table.close("tbody").close("table");
    m.add(&wide(&table, names.len()));
    m
}

/// The tax of each path, by test.
fn taxes(context: &Context, bench: &Bench<'_>) -> Markup {
    let mut m = Markup::new();
    let Some(baseline) = bench.links.iter().find(|l| l.position == 0) else { return m };
    heading(&mut m, &bench.prefix, "taxes", "What each path costs in TCP goodput", &bench.label);
    m.add(&by_transfer(bench, "beside taxes", |link, test| match link.position {
        0 => baseline_cell(link, test),
        _ => tax_cell(context, link, test),
    }));
    let text = format!(
        "The baseline's goodput over the path's ({}), taken within rounds, with its 95 % interval: above 1 the path \
         carries less than the baseline, below 1 more. All of them are read together, and so judged (Holm).",
        baseline.label
    );
    m.element("p", &[("class", "small-print")], &text);
    m
}

/// `4K`, with what else varies.
fn name_of(test: &Test<'_>) -> String {
    let window = test.window.map_or_else(|| test.test.name.clone(), Window::name);
    if test.variant.is_empty() { window } else { format!("{window}, {}", test.variant) }
}

fn baseline_cell(link: &Link<'_>, test: &Test<'_>) -> Markup {
    let mut m = Markup::new();
    let goodputs = link.goodputs(&test.test.name);
    match vtax_stats::describe(&goodputs) {
        Some(d) => m.element("span", &[("class", "quiet")], &quantity(d.mean, "bit/s")),
        None => m.element("span", &[("class", "quiet")], "—"),
    };
    m
}

fn tax_cell(context: &Context, link: &Link<'_>, test: &Test<'_>) -> Markup {
    let mut m = Markup::new();
    let of =
        |c: &&Comparison| c.cell == link.cell.id && c.measure == test.measure && c.metric == "tcp_goodput";
    let Some(c) = context.summary.comparisons.iter().find(of) else {
        m.element("span", &[("class", "quiet")], "—");
        return m;
    };
    match c.tax {
        Some(t) => m.element("b", &[], &tax(t)),
        None => m.element("span", &[("class", "quiet"), ("title", &c.reason)], "no tax"),
    };
    if let Some((low, high)) = c.interval {
        m.element("small", &[], &format!(" {}", tax_range(low, high)));
    }
    m.add(&badge(c.verdict));
    m
}

/// Every path by every transfer, in bits per second.
fn every(bench: &Bench<'_>) -> Markup {
    let mut m = Markup::new();
    heading(&mut m, &bench.prefix, "transfers", "Every path, every transfer", &bench.label);
    m.add(&by_transfer(bench, "beside double", transfer_cell));
    m
}

/// A table with a row for each path and a column for each transfer.
fn by_transfer(bench: &Bench<'_>, class: &str, cell: impl Fn(&Link<'_>, &Test<'_>) -> Markup) -> Markup {
    let tests: Vec<&Test<'_>> = bench.transfers().collect();
    let mut table = Markup::new();
    table.open("table", &[("class", class)]);
    let names: Vec<String> = tests.iter().map(|t| name_of(t)).collect();
    let mut columns = vec![("Path", false)];
    columns.extend(names.iter().map(|n| (n.as_str(), true)));
    head(&mut table, &columns);
    table.open("tbody", &[]);
    for link in &bench.links {
        row_head(&mut table, &link.label, link.position);
        for test in &tests {
            table.open("td", &[("class", "n")]).add(&cell(link, test)).close("td");
        }
        table.close("tr");
    }
    table.close("tbody").close("table");
    wide(&table, tests.len())
}

fn transfer_cell(link: &Link<'_>, test: &Test<'_>) -> Markup {
    let mut m = Markup::new();
    match vtax_stats::describe(&link.goodputs(&test.test.name)) {
        Some(d) => {
            m.text(&quantity(d.mean, "bit/s"));
            let sd = d.sd.map_or_else(String::new, |sd| format!(" ({})", digits(in_30_s(sd))));
            m.element("small", &[], &format!("{} MB{sd}", megabytes(in_30_s(d.mean))));
        }
        None => {
            let why = why_none(link, test);
            let short = why.split(':').next().unwrap_or_default();
            m.element("span", &[("class", "quiet"), ("title", &why)], "none");
            m.element("small", &[], short);
        }
    }
    m
}

/// Why a test of a link has no figure.
fn why_none(link: &Link<'_>, test: &Test<'_>) -> String {
    let reasons =
        link.all(&test.test.name).filter_map(|(t, o)| invalid(&t.validity).or_else(|| invalid(&o.validity)));
    reasons.last().unwrap_or_else(|| "it was not made".to_owned())
}

fn not_repeated(bench: &Bench<'_>) -> Markup {
    let mut m = Markup::new();
    heading(&mut m, &bench.prefix, "not-repeated", "What of the study is not repeated here", &bench.label);
    let mut table = Markup::new();
    table.open("table", &[("class", "words-wrap")]);
    head(&mut table, &[("In the study", false), ("Why not", false), ("What stands for it", false)]);
    table.open("tbody", &[]);
    for [what, why, instead] in NOT_REPEATED {
        table.open("tr", &[]).element("th", &[("scope", "row")], what);
        table.element("td", &[], why).element("td", &[], instead).close("tr");
    }
    for (scenario, table_number) in missing(bench) {
        table.open("tr", &[]).element("th", &[("scope", "row")], scenario);
        let instead = format!("Name the path in the plan: {table_number}.");
        table.element("td", &[], "This run has no such path, or none of its trials began.");
        table.element("td", &[], &instead).close("tr");
    }
    table.close("tbody").close("table");
    m.add(&table);
    m
}

/// Scenarios that could be repeated and aren't in this run, with the way to have them.
fn missing(bench: &Bench<'_>) -> Vec<(&'static str, &'static str)> {
    let ways = [
        (Scenario::Physical, "Table II: the physical baseline", "gigabit, with a native environment"),
        (Scenario::VmVm, "Table III: virtual machines", "vm-vm, with a vm environment"),
        (Scenario::Sdn, "Table IV: SDN", "sdn"),
        (Scenario::Bridged, "Table V: bridged", "bridged, with a vm environment"),
        (Scenario::Mininet, "Table V: Mininet", "mininet, with a native environment"),
    ];
    let here = |s: Scenario| bench.links.iter().any(|l| Scenario::of(l.cell) == Some(s));
    ways.into_iter().filter(|(s, ..)| !here(*s)).map(|(_, what, way)| (what, way)).collect()
}
