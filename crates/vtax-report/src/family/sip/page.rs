//! The IMS benchmark's summary: capacity by environment, systems and parameters, the tables of steps.

use vtax_plan::model::Workload;
use vtax_store::ims::ImsPhase;
use vtax_store::record::{TrialRecord, Validity};
use vtax_store::summary::{Comparison, MetricSummary};
use vtax_units::fact;

use super::bench::{Bench, Benches, Environment, cpus};
use super::measurements::cpu_over_time;
use super::parameters::{FIRST, all};
use super::steps::{Steps, steps};
use super::study;
use super::trial::{Standing, describe_outcome, outcome};
use crate::context::Context;
use crate::format::{digits, fixed, known_tax, range, tax, tax_range, utc, whole};
use crate::html::parts::{close_table, figure, heading, open_table, scrolling, wide};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::plot::series;
use crate::words::{invalid, sign, word};

/// Says it without colour.
fn mark(standing: Standing) -> &'static str {
    match standing {
        Standing::Prepared | Standing::Unlimited => "",
        Standing::Passed => "✓ ",
        Standing::Failed => "✗ ",
    }
}

pub(super) fn summary(context: &Context, ims: &Benches) -> Markup {
    let mut m = Markup::new();
    for bench in &ims.benches {
        if bench.at_given_rate {
            heading(&mut m, &bench.prefix, "rate", "Load at the plan's rate", &bench.label);
            m.add(&given_rates(context, bench));
        } else {
            heading(&mut m, &bench.prefix, "doc", "Design objective capacity", &bench.label);
            m.add(&capacities(context, bench));
        }
        heading(&mut m, &bench.prefix, "systems", "Systems and parameters", &bench.label);
        m.add(&systems(context, bench));
        for environment in &bench.environments {
            m.add(&steps_of(context, bench, environment));
        }
    }
    m
}

struct Found<'a> {
    value: Option<&'a MetricSummary>,
    comparison: Option<&'a Comparison>,
}

fn found<'a>(context: &'a Context, bench: &Bench, environment: &Environment) -> Found<'a> {
    let s = &context.summary;
    let cell = s.cells.iter().find(|c| c.cell == environment.cell && c.measure == bench.measure);
    let own = |c: &&Comparison| c.cell == environment.cell && c.measure == bench.measure && c.metric == "doc";
    Found { value: cell.and_then(|c| c.metrics.get("doc")), comparison: s.comparisons.iter().find(own) }
}

/// The study's table 4-1.
fn capacities(context: &Context, bench: &Bench) -> Markup {
    let data = &context.data;
    let study = study::of(&data.plan);
    let of_study = |e: &Environment| study?.capacity(data.cell(&e.cell)?);
    let with_study = bench.environments.iter().any(|e| of_study(e).is_some());
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
    let mut table = open_table("doc", &columns);
    for e in &bench.environments {
        table.open("tr", &[]).open("th", &[("scope", "row"), ("class", series(e.position))]);
        table.fixed("<i class=\"dot\"></i>").text(&e.label).close("th");
        capacity_cells(&mut table, &found(context, bench, e), e.position == 0);
        table.element("td", &[("class", "n")], &requested(context, e));
        let valid = e.trials.iter().filter(|i| data.trials[**i].validity == Validity::Valid).count();
        table.element("td", &[("class", "n")], &format!("{valid} of {}", e.trials.len()));
        if with_study {
            let own = of_study(e);
            table.element("td", &[("class", "n quiet")], &own.map_or_else(String::new, whole));
            let cost = own.zip(study).map_or_else(String::new, |(v, s)| tax(s.capacities.native / v));
            table.element("td", &[("class", "n quiet")], &cost);
        }
        table.close("tr");
    }
    close_table(&mut table);
    let mut m = scrolling(&table);
    m.fixed("<p class=\"small-print\">The design objective capacity is the load of the last step within the limits (ETSI TS 186 008). The figure is what the generator really started in that step, as the typical value over trials with its 95&nbsp;% interval; requested is what the step asked for.");
    if with_study {
        m.fixed(" The last columns are the study's, on hardware of its time: its loads don't compare with these, its taxes may.");
    }
    m.fixed("</p>");
    m
}

/// What a rate that the plan gives came to.
fn given_rates(context: &Context, bench: &Bench) -> Markup {
    let data = &context.data;
    let columns = [
        ("Environment", false),
        ("Requested, SAPS", true),
        ("Effective, SAPS", true),
        ("Inadequately handled", true),
        ("Trials", true),
    ];
    let mut table = open_table("doc", &columns);
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
    close_table(&mut table);
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
            table.element("b", &[], &known_tax(c.tax, c.at_least, c.at_most));
            if let Some((low, high)) = c.interval {
                table.element("small", &[], &format!(" {}", tax_range(low, high)));
            }
            let verdict = format!("{} {}", sign(c.verdict), word(c.verdict));
            table.close("td").element("td", &[("title", &c.reason)], &verdict);
        }
    }
}

/// What the deciding steps of the trials asked for.
fn requested(context: &Context, e: &Environment) -> String {
    let trials = e.trials.iter().map(|i| &context.data.trials[*i]);
    let valid = trials.filter(|t| t.validity == Validity::Valid);
    span(valid.filter_map(|t| Some(outcome(t)?.decisive()?.requested.0)), whole)
}

/// Who took part, and the parameters that matter most.
fn systems(context: &Context, bench: &Bench) -> Markup {
    let data = &context.data;
    let mut table = PlainTable::new(
        "",
        &[("Role", false), ("System", false), ("Address", false), ("CPUs", false), ("Users", true)],
    );
    for e in &bench.environments {
        let record = &data.trials[e.shown.record];
        let of_trial = |name: &str| record.facts.get(name).map_or("", String::as_str);
        let service = data.provenance.services.get(&e.cell).map(|p| p.version.clone());
        let service = service
            .or_else(|| record.facts.get(fact::SERVICE_VERSION).cloned())
            .unwrap_or_else(|| data.cell(&e.cell).map_or_else(String::new, |c| c.service.name.clone()));
        let system = format!("{} with {service}", e.label);
        table.push("SUT", [system.as_str(), of_trial(fact::ADDRESS), &cpus_text(record, "sut"), ""]);
    }
    let first = &bench.environments[0];
    let record = &data.trials[first.shown.record];
    let of_trial = |name: &str| record.facts.get(name).map_or("", String::as_str);
    if let Some(Workload::Sip(w)) = data.cell(&first.cell).map(|c| &c.workload) {
        let addresses = match of_trial(fact::CLIENT_ADDRESSES) {
            "" if w.addresses > 1 => format!("{} addresses", w.addresses),
            text => text.to_owned(),
        };
        let name = format!("vtax {} (callers and callees)", data.provenance.vtax_version);
        let users = w.subscribers.count.to_string();
        table.push("Test system", [name, addresses, cpus_text(record, "client"), users]);
    }
    let mut m = scrolling(&table.finish());
    m.element("p", &[("class", "small-print")], &when(context, bench));
    m.add(&parameters(context, bench));
    m
}

fn cpus_text(record: &TrialRecord, node: &str) -> String {
    cpus(record, node).map_or_else(String::new, |set| set.to_string())
}

/// Start and length of each shown trial.
fn when(context: &Context, bench: &Bench) -> String {
    let one = |e: &Environment| {
        let record = &context.data.trials[e.shown.record];
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
    let figure = if bench.at_given_rate { "rate" } else { "capacity" };
    format!(
        "Shown in full is the valid trial of the median {figure}; where none is valid, the last. {}.",
        all.join("; ")
    )
}

fn parameters(context: &Context, bench: &Bench) -> Markup {
    let Some(cell) = context.data.cell(&bench.environments[0].cell) else { return Markup::new() };
    let mut table =
        PlainTable::new("words-wrap", &[("Parameter", false), ("Value", false), ("Meaning", false)]);
    for p in all(&context.data.plan, cell, &bench.measure) {
        if FIRST.contains(&p.name.as_str()) || p.name.starts_with("mix.") {
            table.push(&p.name, [&p.value, &p.meaning]);
        }
    }
    let mut m = scrolling(&table.finish());
    let to = format!("#{}-parameters", bench.prefix);
    m.open("p", &[("class", "small-print")]).element("a", &[("href", &to)], "All parameters").close("p");
    m
}

/// The study's tables 4-2 to 4-4 and graphs 4-1 to 4-3 of one environment.
fn steps_of(context: &Context, bench: &Bench, e: &Environment) -> Markup {
    let mut m = Markup::new();
    let title = format!("{}: step by step", e.label);
    heading(&mut m, &bench.prefix, &format!("steps-{}", e.position), &title, &bench.label);
    let shown = &context.data.trials[e.shown.record];
    let counts =
        invalid(&shown.validity).map_or_else(String::new, |why| format!(" It doesn't count: {why}."));
    let caption = format!("Trial {:03}: {}.{counts}", shown.index, describe_outcome(&e.shown.outcome));
    m.element("p", &[], &caption);
    m.add(&table(&steps(&e.shown.outcome, Some(&e.shown.detail))));
    m.fixed("<p class=\"small-print\">").fixed(match bench.at_given_rate {
        true => "Grey: preparation, and the plan's rate, which has no limit.",
        false => "Green: within the limits; red: beyond one, which the last line names; grey: preparation.",
    });
    m.fixed(" IHS: inadequately handled scenarios among those that started in the step, its transient left out, and ended; not the mean over seconds.</p>");
    let caption = format!("SUT CPU and load over time, {}", e.label);
    let picture = cpu_over_time(e, &caption);
    if !picture.is_empty() {
        m.add(&figure(&caption, &[], &picture));
    }
    let others: Vec<usize> = e.trials.iter().copied().filter(|i| *i != e.shown.record).collect();
    if !others.is_empty() {
        m.open("details", &[]);
        let how_many = match others.len() {
            1 => "The other trial".to_owned(),
            n => format!("The other {n} trials"),
        };
        m.element("summary", &[], &format!("{how_many} of {}", e.label));
        for i in others {
            let record = &context.data.trials[i];
            let Some(outcome) = outcome(record) else { continue };
            let invalid =
                invalid(&record.validity).map_or_else(String::new, |why| format!(", invalid: {why}"));
            let text = format!("Trial {:03}{invalid}: {}.", record.index, describe_outcome(outcome));
            m.element("p", &[], &text).add(&table(&steps(outcome, None)));
        }
        m.close("details");
    }
    m
}

fn table(steps: &Steps) -> Markup {
    let mut m = Markup::new();
    m.open("table", &[("class", "steps")]);
    m.open("thead", &[]).open("tr", &[]).element("th", &[("scope", "col")], "");
    for c in &steps.columns {
        let class = format!("n {}", c.standing.class());
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
            let class = format!("n {}", c.standing.class());
            m.element("td", &[("class", &class)], &value.map_or_else(|| "—".to_owned(), fixed));
        }
        m.close("tr");
    }
    m.open("tr", &[("class", "why")]).element("th", &[("scope", "row")], "Limits");
    for c in &steps.columns {
        m.element("td", &[("class", c.standing.class())], &c.remark);
    }
    m.close("tr");
    close_table(&mut m);
    wide(&m, steps.columns.len())
}
