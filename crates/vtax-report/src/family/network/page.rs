//! Network tests over paths: the study's tables and figures with what was found here beside them.

use std::collections::BTreeMap;

use vtax_plan::model::NetworkTestKind;
use vtax_store::record::Validity;
use vtax_store::summary::Comparison;

use super::bench::{Bench, Link, Links, Test, Window};
use super::plot::{Row, WindowLine, by_window, scenarios};
use super::study::{self, Study};
use super::transfers::{Amount, Grid, SECONDS, amount, grid, in_30_s, one_of_several, only};
use crate::context::Context;
use crate::format::{quantity, tax, tax_range, tick};
use crate::html::parts::{badge, close_table, figure, heading, open_table, row_head, wide};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::plot::{responsive, series};
use crate::words::invalid;

pub(super) fn section(context: &Context, links: &Links<'_>) -> Markup {
    let mut m = Markup::new();
    let with_transfers = || links.benches.iter().filter(|b| b.transfers().next().is_some());
    for bench in with_transfers() {
        m.element("p", &[("class", "small-print")], &how(bench));
        if let Some(study) = bench.study {
            study.tables.iter().for_each(|table| _ = m.add(&study_table(bench, study, table)));
        }
        m.add(&comprehensive(bench));
        m.add(&systems(bench));
        m.add(&taxes(context, bench));
        m.add(&every(bench));
    }
    let of_study = with_transfers().find_map(|b| Some((b, b.study?)));
    of_study.into_iter().for_each(|(bench, study)| _ = m.add(&not_repeated(bench, study)));
    m
}

/// How the figures of the tables came about.
fn how(bench: &Bench<'_>) -> String {
    let of_study = bench.study.is_some();
    let megabyte = if of_study { " 1 MB is 1,048,576 bytes (section III.E of the study)." } else { "" };
    let tests = bench.study.map_or_else(String::new, |s| format!("; the study: {} tests", s.repetitions));
    let tcg = match bench.has_tcg() {
        true => {
            " TCG marks virtual machines under software emulation, whose figures say nothing about hardware virtualization."
        }
        false => "",
    };
    format!(
        "{}.{megabyte} Figures are means over the trials that count ({} of each path{tests}), by \
         the receiver's bytes, with standard deviations in parentheses.{}{}{tcg}",
        lengths(bench),
        trials(bench),
        kernels_differ(bench),
        without_offloads(bench),
    )
}

/// How long transfers were and what of them counts.
fn lengths(bench: &Bench<'_>) -> String {
    let times = bench.times().map(|(warmup, counted)| (warmup.as_secs_f64(), counted.as_secs_f64()));
    let to = if bench.study.is_some() { "the study's 30 s" } else { "30 s" };
    let scaled = match times {
        Some((_, SECONDS)) if bench.study.is_some() => {
            "Each transfer was of 30 s, as in the study".to_owned()
        }
        Some((_, SECONDS)) => "Each transfer was of 30 s".to_owned(),
        Some((_, seconds)) => {
            format!("Each transfer was of {}, and its amount is scaled to {to}", time(seconds))
        }
        None => format!("Transfers were of various times, and their amounts are scaled to {to}"),
    };
    match times {
        Some((warmup, _)) if warmup > 0.0 => {
            format!("{scaled}; a warm-up of {} before it isn't counted", time(warmup))
        }
        _ => format!("{scaled}; what was found to be warm-up isn't counted"),
    }
}

/// How many trials of a path count: `3`, `2 to 3`.
fn trials(bench: &Bench<'_>) -> String {
    let valid = |l: &Link<'_>| l.trials.iter().filter(|t| t.validity == Validity::Valid).count();
    let counts: Vec<usize> = bench.links.iter().map(valid).collect();
    match (counts.iter().min(), counts.iter().max()) {
        (Some(a), Some(b)) if a != b => format!("{a} to {b}"),
        (Some(a), _) => a.to_string(),
        _ => String::new(),
    }
}

/// Which congestion controls kernels chose, where these differ.
fn kernels_differ(bench: &Bench<'_>) -> String {
    let unasked =
        |t: &&Test<'_>| matches!(&t.test.kind, NetworkTestKind::Tcp(tcp) if tcp.socket.congestion.is_none());
    let chosen = bench.transfers().filter(unasked).map(|t| bench.congestions(&t.test.name));
    let Some(names) = chosen.max_by_key(BTreeMap::len).filter(|c| c.len() > 1) else { return String::new() };
    format!(
        " Kernels chose different congestion controls ({}): part of what sets environments apart; `congestion:` sets \
         one for all.",
        names.into_keys().collect::<Vec<_>>().join(", ")
    )
}

/// Which paths have no offloads, where only some have none.
fn without_offloads(bench: &Bench<'_>) -> String {
    let without: Vec<&str> =
        bench.links.iter().filter(|l| !l.has_offloads()).map(|l| l.label.as_str()).collect();
    if without.is_empty() || without.len() == bench.links.len() {
        return String::new();
    }
    format!(
        " Without segmentation offloads, unlike the rest: {}; `offloads: false` for a path of each kind compares \
         like with like.",
        without.join(", ")
    )
}

/// `2 s`, `200 ms`.
fn time(seconds: f64) -> String {
    tick(seconds * 1e9, "ns")
}

fn study_table(bench: &Bench<'_>, study: &Study, table: &study::Table) -> Markup {
    let mut m = Markup::new();
    let Some(grid) = grid(bench, study, table) else { return m };
    let part = format!("table-{}", table.number.to_lowercase());
    heading(&mut m, &bench.prefix, &part, &format!("Table {}: {}", table.number, table.title), &bench.label);
    let columns = grid.blocks.iter().map(|b| b.columns.len()).sum();
    m.add(&wide(&grid_table(bench, &grid), columns));
    let mut notes = Vec::new();
    if !table.missing.is_empty() {
        notes.push(format!("Not measured here: {} (see what is not repeated).", table.missing));
    }
    if table.together {
        notes.push("A mean over all transfers of a scenario.".to_owned());
    }
    if !table.note.is_empty() {
        notes.push(table.note.clone());
    }
    notes.extend(one_of_several(bench).map(|variant| only(&variant)));
    if !notes.is_empty() {
        m.element("p", &[("class", "small-print")], &notes.join(" "));
    }
    m
}

fn grid_table(bench: &Bench<'_>, grid: &Grid) -> Markup {
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
                let amount = amount_cell(bench, column.amounts[row].as_ref());
                m.open("td", &[("class", class)]).add(&amount).close("td");
            }
        }
        m.close("tr");
    }
    close_table(&mut m);
    m
}

fn amount_cell(bench: &Bench<'_>, amount: Option<&Amount>) -> Markup {
    let mut m = Markup::new();
    let Some(a) = amount else {
        m.element("span", &[("class", "quiet")], "—");
        return m;
    };
    let (mean, sd) = a.texts_of(bench);
    m.text(&mean);
    let remark = match (sd, a.count) {
        (Some(sd), _) => format!(" ({sd})"),
        (None, Some(1)) => " (one)".to_owned(),
        (None, _) => return m,
    };
    m.element("small", &[], &remark);
    m
}

/// Every transfer by path and window; figure 5 of the study, where the plan repeats it.
fn comprehensive(bench: &Bench<'_>) -> Markup {
    let windows = bench.windows();
    let groups = transfer_groups(bench, &windows);
    let mut m = Markup::new();
    if groups.iter().all(|(_, rows)| rows.iter().all(|r| r.printed)) {
        return m;
    }
    let (title, caption) = words_of_comprehensive(bench);
    heading(&mut m, &bench.prefix, "figure-5", &title, &bench.label);
    let keys: Vec<_> =
        windows.iter().enumerate().map(|(i, w)| (series(i), format!("window {}", w.name()))).collect();
    let picture = responsive(|w| scenarios(&groups, &title, bench.megabyte(), w));
    m.add(&figure(&caption, &keys, &picture));
    m
}

/// Title and caption of [`comprehensive`], which shows one variant of transfers.
fn words_of_comprehensive(bench: &Bench<'_>) -> (String, String) {
    let (all, some, caption) = match bench.study {
        Some(_) => (
            "Figure 5: all transfers by scenario and window",
            "Figure 5: transfers by scenario and window",
            "Filled: measured here. Outlined: printed in the study, on hardware of its time.",
        ),
        None => (
            "All transfers by path and window",
            "Transfers by path and window",
            "Means over the trials that count.",
        ),
    };
    match one_of_several(bench) {
        None => (all.to_owned(), caption.to_owned()),
        Some(variant) => (format!("{some}: {variant}"), format!("{caption} {}", only(&variant))),
    }
}

/// Rows of the picture, under headings.
fn transfer_groups(bench: &Bench<'_>, windows: &[Window]) -> Vec<(String, Vec<Row>)> {
    let Some(variant) = bench.variants().first().copied() else { return Vec::new() };
    let here = |link: &Link<'_>| measured_row(bench, link, windows, variant);
    let Some(study) = bench.study else {
        return vec![("Measured here".to_owned(), bench.links.iter().map(here).collect())];
    };
    let mut groups = Vec::new();
    for scenario in study.scenarios() {
        let repeats = |l: &&Link<'_>| study.scenario(l.cell).is_some_and(|s| s.name == scenario.name);
        let printed = study.figure_5(&scenario.name).map(|c| printed_row(study, c, windows));
        let own = bench.links.iter().filter(repeats).map(here);
        groups.push((scenario.name.clone(), printed.chain(own).filter(|r| !r.marks.is_empty()).collect()));
    }
    let others = bench.links.iter().filter(|l| study.scenario(l.cell).is_none()).map(here);
    groups.push(("Not in the study".to_owned(), others.collect::<Vec<Row>>()));
    groups.retain(|(_, rows)| rows.iter().any(|r| !r.marks.is_empty()));
    groups
}

fn measured_row(bench: &Bench<'_>, link: &Link<'_>, windows: &[Window], variant: &str) -> Row {
    let of = |(i, w): (usize, &Window)| {
        let a = amount(bench, [link], *w, variant)?;
        Some((i, a.mean, format!("{}, window {}: {}", link.label, w.name(), a.text_of(bench))))
    };
    let marks = windows.iter().enumerate().filter_map(of).collect();
    Row { label: link.label.clone(), printed: false, marks }
}

fn printed_row(study: &Study, column: &study::Column, windows: &[Window]) -> Row {
    let of = |(row, window): (usize, &u64)| {
        let i = windows.iter().position(|w| *w == Window::Bytes(*window))?;
        let (mean, sd) = column.value(row);
        let text = Amount { mean, sd, count: None }.text();
        Some((i, mean, format!("the study, {}, window {}: {text} MB", column.name, windows[i].name())))
    };
    let marks = study.windows.iter().enumerate().filter_map(of).collect();
    Row { label: format!("study: {}", column.name), printed: true, marks }
}

/// Whether all that varies besides the window is the congestion control.
fn are_congestion_controls(variants: &[&str]) -> bool {
    variants.iter().all(|variant| variant.starts_with("congestion ") && !variant.contains(", "))
}

/// Title and caption of [`systems`].
fn words_of_systems(bench: &Bench<'_>, variants: &[&str]) -> (&'static str, &'static str) {
    match (bench.study.is_some(), are_congestion_controls(variants)) {
        (true, true) => (
            "Figure 6: systems and congestion controls",
            "The study compared operating systems over one switch and printed the picture without its numbers. Here \
             they are kernels and their congestion controls.",
        ),
        (true, false) => (
            "Figure 6: by window and what else varies",
            "The study compared operating systems over one switch and printed the picture without its numbers. Here \
             it is what else the plan varies.",
        ),
        (false, true) => ("Systems and congestion controls", "Kernels and their congestion controls."),
        (false, false) => ("By window and what else varies", "Means over the trials that count."),
    }
}

/// Figure 6: the same link under other systems; here kernels and congestion controls, or what else varies.
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
                lines.push(WindowLine { label, position: lines.len(), values });
            }
        }
    }
    let mut m = Markup::new();
    let (title, caption) = words_of_systems(bench, &variants);
    heading(&mut m, &bench.prefix, "figure-6", title, &bench.label);
    let names: Vec<String> = windows.iter().map(|w| w.name()).collect();
    let keys: Vec<_> = lines.iter().map(|l| (series(l.position), l.label.clone())).collect();
    let picture = responsive(|w| by_window(&lines, &names, title, bench.megabyte(), w));
    m.add(&figure(caption, &keys, &picture));
    let mut columns = vec![("System", false)];
    columns.extend(names.iter().map(|n| (n.as_str(), true)));
    let mut table = open_table("beside", &columns);
    for link in &bench.links {
        for variant in &variants {
            let amounts: Vec<_> = windows.iter().map(|w| amount(bench, [link], *w, variant)).collect();
            if amounts.iter().all(Option::is_none) {
                continue;
            }
            let name = format!("{}, {variant}", link.label);
            table.open("tr", &[]).element("th", &[("scope", "row")], &name);
            for a in &amounts {
                table.open("td", &[("class", "n")]).add(&amount_cell(bench, a.as_ref())).close("td");
            }
            table.close("tr");
        }
    }
    close_table(&mut table);
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
         carries less than the baseline, below 1 more. All of them are read together, and so judged (Hommel).",
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
    m.add(&by_transfer(bench, "beside double", |link, test| transfer_cell(bench, link, test)));
    m
}

/// A table with a row for each path and a column for each transfer.
fn by_transfer(bench: &Bench<'_>, class: &str, cell: impl Fn(&Link<'_>, &Test<'_>) -> Markup) -> Markup {
    let tests: Vec<&Test<'_>> = bench.transfers().collect();
    let names: Vec<String> = tests.iter().map(|t| name_of(t)).collect();
    let mut columns = vec![("Path", false)];
    columns.extend(names.iter().map(|n| (n.as_str(), true)));
    let mut table = open_table(class, &columns);
    for link in &bench.links {
        row_head(&mut table, &link.label, link.position);
        for test in &tests {
            table.open("td", &[("class", "n")]).add(&cell(link, test)).close("td");
        }
        table.close("tr");
    }
    close_table(&mut table);
    wide(&table, tests.len())
}

fn transfer_cell(bench: &Bench<'_>, link: &Link<'_>, test: &Test<'_>) -> Markup {
    let mut m = Markup::new();
    match vtax_stats::describe(&link.goodputs(&test.test.name)) {
        Some(d) => {
            m.text(&quantity(d.mean, "bit/s"));
            let amount = Amount { mean: in_30_s(d.mean), sd: d.sd.map(in_30_s), count: Some(d.n) };
            m.element("small", &[], &amount.text_of(bench));
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

fn not_repeated(bench: &Bench<'_>, study: &Study) -> Markup {
    let mut m = Markup::new();
    heading(&mut m, &bench.prefix, "not-repeated", "What of the study is not repeated here", &bench.label);
    let mut table = PlainTable::new(
        "words-wrap",
        &[("In the study", false), ("Why not", false), ("What stands for it", false)],
    );
    for left_out in &study.not_repeated {
        table.push(&left_out.what, [&left_out.why, &left_out.instead]);
    }
    // Scenarios that could be repeated and aren't in this run, with the way to have them.
    let here = |s: &str| bench.links.iter().any(|l| study.scenario(l.cell).is_some_and(|own| own.name == s));
    for scenario in study.scenarios().filter(|s| !here(&s.name)) {
        let instead = format!("Name the path in the plan: {}.", scenario.way);
        table.push(&scenario.place, ["This run has no such path, or none of its trials began.", &instead]);
    }
    m.add(&table.finish());
    m
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_varies_is_no_congestion_control_unless_it_is() {
        assert!(are_congestion_controls(&["congestion cubic", "congestion bbr"]));
        assert!(!are_congestion_controls(&["congestion cubic", "congestion cubic, streams 4"]));
        assert!(!are_congestion_controls(&["streams 1", "streams 4"]));
    }
}
