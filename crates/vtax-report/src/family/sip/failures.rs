//! What failed in the IMS benchmark, how the generator fared, and everything needed to repeat it.

use std::collections::BTreeMap;

use super::bench::{Bench, Benches, Environment};
use super::connections;
use super::parameters::all;
use super::trial::standing;
use crate::context::Context;
use crate::format::{digits, fixed, whole};
use crate::html::parts::{close_table, head, heading, open_table, scrolling, wide};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::shell::shell;

pub(super) fn failures(ims: &Benches) -> Markup {
    let mut m = Markup::new();
    for bench in &ims.benches {
        heading(&mut m, &bench.prefix, "causes", "Inadequately handled, by cause", &bench.label);
        for e in &bench.environments {
            m.add(&causes(e));
        }
        heading(&mut m, &bench.prefix, "stray", "Stray messages and pools", &bench.label);
        m.add(&stray(bench)).add(&pools(bench)).add(&connections::of_bench(bench));
        heading(&mut m, &bench.prefix, "generator", "Whether the generator kept up", &bench.label);
        for e in &bench.environments {
            m.add(&generator(e));
        }
    }
    m
}

/// Counts by scenario and cause, a column per phase.
fn causes(e: &Environment) -> Markup {
    let phases = &e.shown.outcome.phases;
    let mut rows: BTreeMap<(usize, &str), Vec<u64>> = BTreeMap::new();
    let place = |s| vtax_plan::model::Scenario::ALL.iter().position(|o| *o == s).unwrap_or(usize::MAX);
    for (i, phase) in phases.iter().enumerate() {
        for s in &phase.scenarios {
            let unfinished = ("not ended when the load was over", s.unfinished);
            let causes = s.inadequate.iter().map(|(cause, n)| (cause.as_str(), *n)).chain([unfinished]);
            for (cause, n) in causes.filter(|(_, n)| *n > 0) {
                rows.entry((place(s.scenario), cause)).or_insert_with(|| vec![0; phases.len()])[i] += n;
            }
        }
    }
    let mut m = Markup::new();
    if rows.is_empty() {
        m.element("p", &[], &format!("{}: every scenario of every phase was handled adequately.", e.label));
        return m;
    }
    // Phases without a failure would be columns of zeros.
    let used: Vec<usize> = (0..phases.len()).filter(|i| rows.values().any(|n| n[*i] > 0)).collect();
    let mut table = Markup::new();
    let caption =
        format!("{}: scenarios by phase; {} of {} phases had any", e.label, used.len(), phases.len());
    table.open("table", &[("class", "steps causes")]).element("caption", &[], &caption);
    table.open("thead", &[]).open("tr", &[]);
    for name in ["Scenario", "Cause"] {
        table.element("th", &[("scope", "col")], name);
    }
    for p in used.iter().map(|i| &phases[*i]) {
        let class = format!("n {}", standing(p).class());
        table.element("th", &[("scope", "col"), ("class", &class)], &p.name);
    }
    table.close("tr").close("thead").open("tbody", &[]);
    for ((scenario, cause), counts) in rows {
        let name = vtax_plan::model::Scenario::ALL.get(scenario).map_or("", |s| s.name());
        table.open("tr", &[]).element("th", &[("scope", "row")], name).element("td", &[], cause);
        for n in used.iter().map(|i| counts[*i]) {
            let class = if n == 0 { "n quiet" } else { "n" };
            table.element("td", &[("class", class)], &n.to_string());
        }
        table.close("tr");
    }
    close_table(&mut table);
    m.add(&wide(&table, used.len()));
    m
}

fn stray(bench: &Bench) -> Markup {
    let mut kinds: Vec<&String> =
        bench.environments.iter().flat_map(|e| e.shown.outcome.stray.keys()).collect();
    kinds.sort();
    kinds.dedup();
    let mut m = Markup::new();
    if kinds.is_empty() {
        m.fixed("<p>No message arrived that belonged to nothing or couldn't be used.</p>");
        return m;
    }
    let mut columns = vec![("Messages that belonged to nothing or couldn't be used", false)];
    columns.extend(bench.environments.iter().map(|e| (e.label.as_str(), true)));
    let mut table = PlainTable::new("", &columns);
    for kind in kinds {
        let of = |e: &Environment| e.shown.outcome.stray.get(kind).copied().unwrap_or(0);
        table.push(kind, bench.environments.iter().map(|e| of(e).to_string()));
    }
    m.add(&scrolling(&table.finish()));
    m
}

fn pools(bench: &Bench) -> Markup {
    let mut columns = vec![("Subscribers at the end", false)];
    columns.extend(bench.environments.iter().map(|e| (e.label.as_str(), true)));
    let mut table = PlainTable::new("", &columns);
    let pool = |i: usize, e: &Environment| {
        let p = e.shown.outcome.pools;
        [p.unregistered, p.registered, p.busy][i]
    };
    for (i, name) in ["not registered", "registered", "busy"].into_iter().enumerate() {
        table.push(name, bench.environments.iter().map(|e| pool(i, e).to_string()));
    }
    scrolling(&table.finish())
}

/// How late scenarios were started, and how busy the generator was, by phase.
fn generator(e: &Environment) -> Markup {
    let mut table = Markup::new();
    table.open("table", &[]).element("caption", &[], &format!("{}: lateness of starts in ms", e.label));
    head(
        &mut table,
        &[
            ("Phase", false),
            ("Requested, SAPS", true),
            ("Effective, SAPS", true),
            ("Late, p50", true),
            ("p99", true),
            ("p99.9", true),
            ("Max", true),
            ("Workers", true),
            ("Busiest, %", true),
            ("Limited by", false),
        ],
    );
    table.open("tbody", &[]);
    for phase in &e.shown.detail.phases {
        let r = &phase.result;
        table.open("tr", &[]).element("th", &[("scope", "row")], &r.name);
        let mut put = |text: &str| {
            table.element("td", &[("class", "n")], text);
        };
        put(&whole(r.requested.0));
        put(&fixed(r.effective.0));
        match &phase.lateness {
            Some(s) => {
                let [p50, .., p99, p999] = s.percentiles;
                [p50, p99, p999, s.max].into_iter().for_each(|v| put(&digits(v)));
            }
            None => (0..4).for_each(|_| put("—")),
        }
        put(&r.generator.workers.to_string());
        put(&fixed(r.generator.busiest * 100.0));
        table.element("td", &[], r.generator.limited.as_deref().unwrap_or("nothing")).close("tr");
    }
    close_table(&mut table);
    scrolling(&table)
}

pub(super) fn appendix(context: &Context, ims: &Benches) -> Markup {
    let mut m = Markup::new();
    for bench in &ims.benches {
        heading(&mut m, &bench.prefix, "parameters", "All parameters", &bench.label);
        m.add(&parameters(context, bench));
        heading(&mut m, &bench.prefix, "commands", "Versions and command lines", &bench.label);
        m.add(&commands(context, bench));
    }
    m
}

fn parameters(context: &Context, bench: &Bench) -> Markup {
    let Some(cell) = context.data.cell(&bench.environments[0].cell) else { return Markup::new() };
    let mut table = open_table(
        "words-wrap",
        &[("Parameter", false), ("In the study's tool", false), ("Value", false), ("Meaning", false)],
    );
    for p in all(&context.data.plan, cell, &bench.measure) {
        table.open("tr", &[]).element("th", &[("scope", "row")], &p.name);
        table.element("td", &[("class", "quiet")], p.old).element("td", &[], &p.value);
        table.element("td", &[], &p.meaning).close("tr");
    }
    close_table(&mut table);
    scrolling(&table)
}

fn commands(context: &Context, bench: &Bench) -> Markup {
    let p = &context.data.provenance;
    let mut table =
        open_table("words-wrap", &[("System", false), ("Version", false), ("Command line", false)]);
    let mut row = |system: &str, version: &str, command: &[String]| {
        table.open("tr", &[]).element("th", &[("scope", "row")], system).element("td", &[], version);
        table.open("td", &[]).element("code", &[], &shell(command)).close("td").close("tr");
    };
    row("vtax (generator and SUT's host)", &p.vtax_version, &p.command_line);
    for e in &bench.environments {
        if let Some(service) = p.services.get(&e.cell) {
            row(&format!("SUT, {}", e.label), &service.version, &service.command);
        }
    }
    if let Some(qemu) = &p.qemu {
        row("QEMU", &qemu.version, &qemu.command);
    }
    for (name, version) in p.packages.iter().filter(|(n, _)| relevant(n)) {
        row(&format!("package {name}"), version, &[]);
    }
    close_table(&mut table);
    scrolling(&table)
}

fn relevant(package: &str) -> bool {
    ["kamailio", "mariadb", "mysql"].iter().any(|n| package.contains(n))
}
