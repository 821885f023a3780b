//! The IMS benchmark's summary: capacity by environment, systems and parameters, the tables of steps.

use vtax_plan::model::Workload;
use vtax_store::ims::{ImsOutcome, ImsPhase};
use vtax_store::record::{TrialRecord, Validity};
use vtax_store::summary::{Comparison, MetricSummary};

use super::{figure, head, ims_metrics, scrolling};
use crate::format::{digits, range, tax, tax_range, utc, whole};
use crate::headline::word;
use crate::ims::parameters::{FIRST, all};
use crate::ims::steps::{Steps, fixed, steps};
use crate::ims::{Bench, Environment, Ims, Standing, cpus, outcome, standing, study};
use crate::markup::Markup;
use crate::plot::series;
use crate::report::Report;
use crate::summarise::invalid;
use crate::table::sign;

/// Class of a phase by how it stands to its limits.
pub(super) fn class(standing: Standing) -> &'static str {
    match standing {
        Standing::Prepared => "prepared",
        Standing::Passed => "passed",
        Standing::Failed => "failed",
    }
}

/// Says it without colour.
fn mark(standing: Standing) -> &'static str {
    match standing {
        Standing::Prepared => "",
        Standing::Passed => "✓ ",
        Standing::Failed => "✗ ",
    }
}

/// A heading that can be pointed at.
pub(super) fn heading(m: &mut Markup, bench: &Bench, part: &str, title: &str) {
    let id = format!("{}-{part}", bench.prefix);
    m.element("h3", &[("id", &id)], title);
}

/// `title: group`, where there are several benchmarks.
pub(super) fn titled(title: &str, bench: &Bench) -> String {
    if bench.label.is_empty() { title.to_owned() } else { format!("{title}: {}", bench.label) }
}

pub(super) fn summary(report: &Report, ims: &Ims) -> Markup {
    let mut m = Markup::new();
    for bench in &ims.benches {
        if bench.at_given_rate {
            heading(&mut m, bench, "rate", &titled("Load at the plan's rate", bench));
            m.add(&given_rates(report, bench));
        } else {
            heading(&mut m, bench, "doc", &titled("Design objective capacity", bench));
            m.add(&capacities(report, bench));
        }
        heading(&mut m, bench, "systems", &titled("Systems and parameters", bench));
        m.add(&systems(report, bench));
        for environment in &bench.environments {
            m.add(&steps_of(report, bench, environment));
        }
    }
    m
}

struct Found<'a> {
    value: Option<&'a MetricSummary>,
    comparison: Option<&'a Comparison>,
}

fn found<'a>(report: &'a Report, bench: &Bench, environment: &Environment) -> Found<'a> {
    let s = &report.summary;
    let cell = s.cells.iter().find(|c| c.cell == environment.cell && c.measure == bench.measure);
    let own = |c: &&Comparison| c.cell == environment.cell && c.measure == bench.measure && c.metric == "doc";
    Found { value: cell.and_then(|c| c.metrics.get("doc")), comparison: s.comparisons.iter().find(own) }
}

/// The study's table 4-1.
fn capacities(report: &Report, bench: &Bench) -> Markup {
    let data = &report.data;
    let of_study = |e: &Environment| data.cell(&e.cell).and_then(study::capacity);
    let with_study = bench.environments.iter().any(|e| of_study(e).is_some());
    let mut table = Markup::new();
    table.open("table", &[("class", "doc")]);
    let mut columns = vec![
        ("Environment", false),
        ("DOC, SAPS", true),
        ("Tax", true),
        ("Verdict", false),
        ("Requested, SAPS", true),
        ("Trials", true),
    ];
    if with_study {
        columns.extend([("Study, SAPS", true), ("Study, tax", true)]);
    }
    head(&mut table, &columns);
    table.open("tbody", &[]);
    for e in &bench.environments {
        table.open("tr", &[]).open("th", &[("scope", "row"), ("class", series(e.position))]);
        table.fixed("<i class=\"dot\"></i>").text(&e.label).close("th");
        capacity_cells(&mut table, &found(report, bench, e), e.position == 0);
        table.element("td", &[("class", "n")], &requested(report, e));
        let valid = e.trials.iter().filter(|i| data.trials[**i].validity == Validity::Valid).count();
        table.element("td", &[("class", "n")], &format!("{valid} of {}", e.trials.len()));
        if with_study {
            let study = of_study(e);
            table.element("td", &[("class", "n quiet")], &study.map_or_else(String::new, whole));
            let cost = study.map_or_else(String::new, |s| tax(study::NATIVE / s));
            table.element("td", &[("class", "n quiet")], &cost);
        }
        table.close("tr");
    }
    table.close("tbody").close("table");
    let mut m = scrolling(&table);
    m.fixed("<p class=\"small-print\">The design objective capacity is the load of the last step within the limits (ETSI TS 186 008). The figure is what the generator really started in that step, as the typical value over trials with its 95&nbsp;% interval; requested is what the step asked for.");
    if with_study {
        m.fixed(" The last columns are the study's, on hardware of its time: its loads don't compare with these, its taxes may.");
    }
    m.fixed("</p>");
    m
}

/// What a rate that the plan gives came to.
fn given_rates(report: &Report, bench: &Bench) -> Markup {
    let data = &report.data;
    let mut table = Markup::new();
    table.open("table", &[("class", "doc")]);
    let columns = [
        ("Environment", false),
        ("Requested, SAPS", true),
        ("Effective, SAPS", true),
        ("Inadequately handled", true),
        ("Trials", true),
    ];
    head(&mut table, &columns);
    table.open("tbody", &[]);
    for e in &bench.environments {
        let valid: Vec<&TrialRecord> =
            e.trials.iter().map(|i| &data.trials[*i]).filter(|t| t.validity == Validity::Valid).collect();
        let over = |of: fn(&ImsPhase) -> f64, text: fn(f64) -> String| {
            span(valid.iter().filter_map(|t| Some(of(outcome(t)?.decisive()?))), text)
        };
        table.open("tr", &[]).open("th", &[("scope", "row"), ("class", series(e.position))]);
        table.fixed("<i class=\"dot\"></i>").text(&e.label).close("th");
        for text in [
            over(|p| p.requested.0, whole),
            over(|p| p.effective.0, fixed),
            over(|p| 100.0 * p.ihs, |share| format!("{} %", fixed(share))),
            format!("{} of {}", valid.len(), e.trials.len()),
        ] {
            table.element("td", &[("class", "n")], &text);
        }
        table.close("tr");
    }
    table.close("tbody").close("table");
    let mut m = scrolling(&table);
    m.fixed("<p class=\"small-print\">From the least to the most of the valid trials. Response times and their tax are in the tables above, and below in full.</p>");
    m
}

/// From the least to the most of some figures.
fn span(figures: impl Iterator<Item = f64>, text: impl Fn(f64) -> String) -> String {
    let bounds = figures.fold(None, |bounds: Option<(f64, f64)>, f| {
        Some(bounds.map_or((f, f), |(low, high)| (low.min(f), high.max(f))))
    });
    match bounds.map(|(low, high)| (text(low), text(high))) {
        Some((low, high)) if low == high => low,
        Some((low, high)) => format!("{low}–{high}"),
        None => "none".to_owned(),
    }
}

fn capacity_cells(table: &mut Markup, found: &Found<'_>, baseline: bool) {
    table.open("td", &[("class", "n")]);
    match found.value {
        None => {
            table.element("span", &[("class", "quiet")], "no figure");
        }
        Some(v) => {
            let least = if v.at_least { "≥ " } else { "" };
            table.element("b", &[], &format!("{least}{}", digits(v.center)));
            if let Some(interval) = v.interval {
                table.element("small", &[], &format!(" {}", range(v.center, interval, "SAPS")));
            }
        }
    }
    table.close("td").open("td", &[("class", "n")]);
    match found.comparison {
        None if baseline => {
            table.element("span", &[("class", "quiet")], "baseline");
            table.close("td").element("td", &[], "");
        }
        None => {
            table.close("td").element("td", &[], "");
        }
        Some(c) => {
            let text = match (c.tax, c.at_least, c.at_most) {
                (Some(t), ..) => tax(t),
                (_, Some(t), _) => format!("≥ {}", tax(t)),
                (_, _, Some(t)) => format!("≤ {}", tax(t)),
                _ => String::new(),
            };
            table.element("b", &[], &text);
            if let Some((low, high)) = c.interval {
                table.element("small", &[], &format!(" {}", tax_range(low, high)));
            }
            let verdict = format!("{} {}", sign(c.verdict), word(c.verdict));
            table.close("td").element("td", &[("title", &c.reason)], &verdict);
        }
    }
}

/// What the deciding steps of the trials asked for.
fn requested(report: &Report, e: &Environment) -> String {
    let trials = e.trials.iter().map(|i| &report.data.trials[*i]);
    let valid = trials.filter(|t| t.validity == Validity::Valid);
    span(valid.filter_map(|t| Some(outcome(t)?.decisive()?.requested.0)), whole)
}

/// Who took part, and the parameters that matter most.
fn systems(report: &Report, bench: &Bench) -> Markup {
    let data = &report.data;
    let mut table = Markup::new();
    table.open("table", &[]);
    head(
        &mut table,
        &[("Role", false), ("System", false), ("Address", false), ("CPUs", false), ("Users", true)],
    );
    table.open("tbody", &[]);
    let mut row = |role: &str, system: &str, address: &str, cpus: &str, users: &str| {
        table.open("tr", &[]).element("th", &[("scope", "row")], role);
        for text in [system, address, cpus] {
            table.element("td", &[], text);
        }
        table.element("td", &[("class", "n")], users).close("tr");
    };
    for e in &bench.environments {
        let record = &data.trials[e.shown.record];
        let fact = |name: &str| record.facts.get(name).map_or("", String::as_str);
        let service = data.provenance.services.get(&e.cell).map(|p| p.version.clone());
        let service = service
            .or_else(|| record.facts.get("service.version").cloned())
            .unwrap_or_else(|| data.cell(&e.cell).map_or_else(String::new, |c| c.service.name.clone()));
        let system = format!("{} with {service}", e.label);
        row("SUT", &system, fact("address"), &cpus_text(record, "sut"), "");
    }
    let first = &bench.environments[0];
    let record = &data.trials[first.shown.record];
    let fact = |name: &str| record.facts.get(name).map_or("", String::as_str);
    if let Some(Workload::Sip(w)) = data.cell(&first.cell).map(|c| &c.workload) {
        let addresses = match fact("client_addresses") {
            "" if w.addresses > 1 => format!("{} addresses", w.addresses),
            text => text.to_owned(),
        };
        let name = format!("vtax {} (callers and callees)", data.provenance.vtax_version);
        let users = w.subscribers.count.to_string();
        row("Test system", &name, &addresses, &cpus_text(record, "client"), &users);
    }
    table.close("tbody").close("table");
    let mut m = scrolling(&table);
    m.element("p", &[("class", "small-print")], &when(report, bench));
    m.add(&parameters(report, bench));
    m
}

fn cpus_text(record: &TrialRecord, node: &str) -> String {
    cpus(record, node).map_or_else(String::new, |set| set.to_string())
}

/// Start and length of each shown trial.
fn when(report: &Report, bench: &Bench) -> String {
    let one = |e: &Environment| {
        let record = &report.data.trials[e.shown.record];
        let seconds = e.shown.seconds() as u64;
        let length = format!("{}h {:02}m {:02}s", seconds / 3600, seconds / 60 % 60, seconds % 60);
        format!(
            "{}: trial {:03}, started {}, {length} of load",
            e.label,
            record.index,
            utc(record.started_unix_ms)
        )
    };
    let all: Vec<String> = bench.environments.iter().map(one).collect();
    let which = "Shown in full is the valid trial of the median capacity; where none is valid, the last";
    format!("{which}. {}.", all.join("; "))
}

fn parameters(report: &Report, bench: &Bench) -> Markup {
    let Some(cell) = report.data.cell(&bench.environments[0].cell) else { return Markup::new() };
    let mut table = Markup::new();
    table.open("table", &[("class", "words-wrap")]);
    head(&mut table, &[("Parameter", false), ("Value", false), ("Meaning", false)]);
    table.open("tbody", &[]);
    for p in all(&report.data.plan, cell, &bench.measure) {
        if FIRST.contains(&p.name.as_str()) || p.name.starts_with("mix.") {
            table.open("tr", &[]).element("th", &[("scope", "row")], &p.name);
            table.element("td", &[], &p.value).element("td", &[], &p.meaning).close("tr");
        }
    }
    table.close("tbody").close("table");
    let mut m = scrolling(&table);
    let to = format!("#{}-parameters", bench.prefix);
    m.open("p", &[("class", "small-print")]).element("a", &[("href", &to)], "All parameters").close("p");
    m
}

/// The study's tables 4-2 to 4-4 and graphs 4-1 to 4-3 of one environment.
fn steps_of(report: &Report, bench: &Bench, e: &Environment) -> Markup {
    let mut m = Markup::new();
    let title = format!("{}: step by step", e.label);
    heading(&mut m, bench, &format!("steps-{}", e.position), &titled(&title, bench));
    let shown = &report.data.trials[e.shown.record];
    let counts =
        invalid(&shown.validity).map_or_else(String::new, |why| format!(" It doesn't count: {why}."));
    let caption = format!("Trial {:03}: {}.{counts}", shown.index, conclusion(&e.shown.outcome));
    m.element("p", &[], &caption);
    m.add(&table(&steps(&e.shown.outcome, Some(&e.shown.detail))));
    m.fixed("<p class=\"small-print\">Green: within the limits; red: beyond one, which the last line names; grey: preparation. IHS: inadequately handled scenarios among those that started in the step, its transient left out, and ended; not the mean over seconds.</p>");
    let caption = format!("SUT CPU and load over time, {}", e.label);
    let picture = ims_metrics::cpu_over_time(e, &caption);
    if !picture.is_empty() {
        m.add(&figure(&caption, &[], &picture));
    }
    let others: Vec<usize> = e.trials.iter().copied().filter(|i| *i != e.shown.record).collect();
    if !others.is_empty() {
        m.open("details", &[]);
        m.element("summary", &[], &format!("The other {} trials of {}", others.len(), e.label));
        for i in others {
            let record = &report.data.trials[i];
            let Some(outcome) = outcome(record) else { continue };
            let invalid =
                invalid(&record.validity).map_or_else(String::new, |why| format!(", invalid: {why}"));
            let text = format!("Trial {:03}{invalid}: {}.", record.index, conclusion(outcome));
            m.element("p", &[], &text).add(&table(&steps(outcome, None)));
        }
        m.close("details");
    }
    m
}

/// What a trial found, in a few words.
pub(super) fn conclusion(o: &ImsOutcome) -> String {
    match (o.doc, o.failed) {
        (Some(d), Some(f)) => format!(
            "design objective capacity {} SAPS (requested {}), {} SAPS broke a limit",
            fixed(d.effective.0),
            whole(d.requested.0),
            whole(f.0)
        ),
        (Some(d), None) => format!(
            "design objective capacity at least {} SAPS (requested {}): no step broke a limit",
            fixed(d.effective.0),
            whole(d.requested.0)
        ),
        (None, Some(f)) => format!("no step kept to the limits, not even {} SAPS", whole(f.0)),
        (None, None) => match o.decisive() {
            Some(p) => {
                format!("{} SAPS at the plan's rate of {}", fixed(p.effective.0), whole(p.requested.0))
            }
            None => match o.phases.iter().any(|p| standing(p) == Standing::Passed) {
                true => "it ended before a capacity was found".to_owned(),
                false => "it didn't get beyond its preparation".to_owned(),
            },
        },
    }
}

fn table(steps: &Steps) -> Markup {
    let mut m = Markup::new();
    m.open("table", &[("class", "steps")]);
    m.open("thead", &[]).open("tr", &[]).element("th", &[("scope", "col")], "");
    for c in &steps.columns {
        let class = format!("n {}", class(c.standing));
        m.open("th", &[("scope", "col"), ("class", &class)]).text(mark(c.standing)).text(&c.name);
        if c.decisive {
            m.element("small", &[], " DOC");
        }
        m.close("th");
    }
    m.close("tr").close("thead").open("tbody", &[]);
    for row in &steps.rows {
        m.open("tr", &[("class", if row.strong { "strong" } else { "" })]);
        m.open("th", &[("scope", "row")]).text(&format!("{} ", row.name));
        m.element("small", &[], row.unit);
        if !row.old.is_empty() {
            m.element("small", &[], &format!(" {}", row.old));
        }
        m.close("th");
        for (value, c) in row.values.iter().zip(&steps.columns) {
            let class = format!("n {}", class(c.standing));
            m.element("td", &[("class", &class)], &value.map_or_else(|| "—".to_owned(), fixed));
        }
        m.close("tr");
    }
    m.open("tr", &[("class", "why")]).element("th", &[("scope", "row")], "Limits");
    for c in &steps.columns {
        m.element("td", &[("class", class(c.standing))], &c.remark);
    }
    m.close("tr").close("tbody").close("table");
    wide(&m, steps.columns.len())
}

/// A table with a column per phase: many of them may use all of a wide window.
pub(super) fn wide(table: &Markup, phases: usize) -> Markup {
    if phases <= 6 {
        return scrolling(table);
    }
    let mut m = Markup::new();
    m.open("div", &[("class", "scroll bleed"), ("tabindex", "0")]).add(table).close("div");
    m
}
