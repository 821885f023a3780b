//! What two runs have in common, and what forbids to compare them.

use std::collections::{BTreeMap, BTreeSet};

use vtax_plan::model::{Cell, Measure, MeasureKind, Plan};
use vtax_stats::MIN_TRIALS;
use vtax_store::StoreError;
use vtax_store::provenance::{HostFacts, Provenance};
use vtax_store::record::{JournalEntry, Validity};
use vtax_units::fact;

use super::difference::{Difference, Sides, differences, value};
use super::runs::Runs;
use super::{Cause, OnlyIn, Reason};
use crate::Report;
use crate::data::RunData;
use crate::summarise::rejected;

/// Every reason why these can't be compared, machines aside. Where a side has several runs they are named, as each of them has to be
/// comparable with all others.
pub(super) fn all_reasons(a: Runs<'_>, b: Runs<'_>) -> Result<Vec<Reason>, StoreError> {
    if !is_of_several(a, b) {
        return reasons(Sides::LETTERS, a.first(), b.first());
    }
    let of_sessions = |text| Reason { cause: Cause::Sessions, text };
    let mut found: Vec<Reason> = same_runs(a.all().chain(b.all())).into_iter().map(of_sessions).collect();
    if a.count().min(b.count()) < MIN_TRIALS {
        found.push(of_sessions(format!(
            "too few runs: {} in A, {} in B; where there are several each is one draw, and {MIN_TRIALS} of each are needed",
            a.count(),
            b.count()
        )));
    }
    for other in others(a, b) {
        found.extend(reasons_by_path(a.first(), other)?);
    }
    Ok(found)
}

fn is_of_several(a: Runs<'_>, b: Runs<'_>) -> bool {
    a.count() + b.count() > 2
}

/// All runs but the first of A.
fn others<'a>(a: Runs<'a>, b: Runs<'a>) -> impl Iterator<Item = &'a Report> {
    a.all().skip(1).chain(b.all())
}

/// A run's directory, as it was given.
pub(crate) fn path(run: &Report) -> String {
    run.context.run.path().display().to_string()
}

/// Runs that are there more than once.
pub(crate) fn same_runs<'a>(runs: impl Iterator<Item = &'a Report>) -> Vec<String> {
    let mut seen: BTreeMap<&str, &Report> = BTreeMap::new();
    let mut found = Vec::new();
    for run in runs {
        let id = run.context.data.provenance.run_id.as_str();
        let before = if id.is_empty() { None } else { seen.insert(id, run) };
        found.extend(before.map(|before| format!("{} and {} are the same run", path(before), path(run))));
    }
    found
}

/// Every reason why these two of several runs can't be compared, machines aside. They are called by their paths.
pub(crate) fn reasons_by_path(a: &Report, b: &Report) -> Result<Vec<Reason>, StoreError> {
    reasons(Sides { a: &path(a), b: &path(b) }, a, b)
}

/// Every reason why B can't be compared with A, machines aside.
fn reasons(sides: Sides<'_>, a: &Report, b: &Report) -> Result<Vec<Reason>, StoreError> {
    let mut reasons = Vec::new();
    let (version_a, version_b) = (journal_version(a)?, journal_version(b)?);
    if figures_of(version_a) != figures_of(version_b) {
        let versions = sides.values(&version_a.to_string(), &version_b.to_string());
        let text = format!("other format: the journal has version {versions}");
        reasons.push(Reason { cause: Cause::Format, text });
    }
    reasons.extend(loops(sides, &a.context.data.plan, &b.context.data.plan));
    let differing = plan_differences(sides, &a.context.data.plan, &b.context.data.plan);
    reasons.extend(
        differing.into_iter().map(|d| Reason { cause: Cause::Plan, text: format!("other plan: {d}") }),
    );
    for (cell, _) in common_cells(&a.context.data.plan, &b.context.data.plan) {
        let (in_a, in_b) = (accelerators(a, cell), accelerators(b, cell));
        if in_a != in_b && !in_a.is_empty() && !in_b.is_empty() {
            let text = format!("other accelerator: {} ran under {}", cell.id, sides.values(&in_a, &in_b));
            reasons.push(Reason { cause: Cause::Accelerator, text });
        }
    }
    Ok(reasons)
}

/// Under what a cell's trials ran, a resumed run perhaps under several; empty without a VM.
fn accelerators(report: &Report, cell: &Cell) -> String {
    let trials =
        report.context.data.trials.iter().filter(|t| t.cell == cell.id && t.validity == Validity::Valid);
    let found: BTreeSet<String> = trials.filter_map(|t| t.accelerator.clone()).collect();
    match found.is_empty() {
        true => report.context.data.accelerator(cell).unwrap_or_default(),
        false => found.into_iter().collect::<Vec<_>>().join(" and "),
    }
}

/// Journal versions from 2 on hold the same figures, warm-up cut off; version 1 did not cut it.
pub(crate) fn figures_of(version: u32) -> u32 {
    version.min(2)
}

fn journal_version(report: &Report) -> Result<u32, StoreError> {
    match report.context.run.journal()?.next().transpose()? {
        Some(JournalEntry::Opened { version, .. }) => Ok(version),
        // The journal's reader takes nothing else for a first line.
        _ => Ok(0),
    }
}

/// Cells of both plans, as A and as B have them.
fn common_cells<'a>(a: &'a Plan, b: &'a Plan) -> impl Iterator<Item = (&'a Cell, &'a Cell)> {
    a.cells.iter().filter_map(|c| Some((c, b.cells.iter().find(|d| d.id == c.id)?)))
}

fn common_measures<'a>(a: &'a Plan, b: &'a Plan) -> impl Iterator<Item = (&'a Measure, &'a Measure)> {
    a.measures.iter().filter_map(|m| Some((m, b.measures.iter().find(|n| n.name == m.name)?)))
}

fn is_closed(measure: &Measure) -> bool {
    matches!(measure.kind, MeasureKind::Throughput(_))
}

/// Open against closed loop: under one name, or because one plan knows only the one kind.
fn loops(sides: Sides<'_>, a: &Plan, b: &Plan) -> Vec<Reason> {
    let word = |closed| if closed { "a closed loop" } else { "an open loop" };
    let reason = |text| Reason { cause: Cause::Loop, text };
    if common_measures(a, b).next().is_none() && !a.measures.is_empty() && !b.measures.is_empty() {
        let closed = |p: &Plan| p.measures.iter().all(is_closed);
        let open = |p: &Plan| !p.measures.iter().any(is_closed);
        if (closed(a) && open(b)) || (open(a) && closed(b)) {
            let kinds = sides.values(word(closed(a)), word(closed(b)));
            return vec![reason(format!("open against closed loop: only {kinds}"))];
        }
    }
    common_measures(a, b)
        .filter(|(m, n)| is_closed(m) != is_closed(n))
        .map(|(m, n)| {
            let kinds = sides.values(word(is_closed(m)), word(is_closed(n)));
            reason(format!("open against closed loop: {} is {kinds}", m.name))
        })
        .collect()
}

/// Paths in the resolved plans whose difference changes what a figure means, with both values.
///
/// Left out: names of the plan, seed, how many repetitions and margin, which change how sure figures are;
/// labels; whether samples are kept.
pub(super) fn plan_differences(sides: Sides<'_>, a: &Plan, b: &Plan) -> Vec<String> {
    let mut found = Vec::new();
    differences(&value(&a.budget), &value(&b.budget), "budget", &mut found);
    for (m, n) in common_measures(a, b).filter(|(m, n)| is_closed(m) == is_closed(n)) {
        let kind = |measure: &Measure| {
            let mut kind = measure.kind.clone();
            if let MeasureKind::Latency(latency) = &mut kind {
                latency.samples = false;
            }
            value(&kind)
        };
        differences(&kind(m), &kind(n), &format!("measures[{}]", m.name), &mut found);
        // In a duet each side has half of the processors, and the other beside it.
        let (in_a, in_b) = (trials(a, m), trials(b, n));
        if in_a != in_b {
            let (a, b) = (in_a.to_owned(), in_b.to_owned());
            found.push(Difference { path: format!("repeat.trials of {}", m.name), a, b });
        }
    }
    let mut texts: Vec<String> = found.iter().map(|difference| difference.text(sides)).collect();

    // The same difference in many cells is said once.
    let mut of_cells: BTreeMap<Difference, Vec<&str>> = BTreeMap::new();
    let mut cells = 0;
    for (c, d) in common_cells(a, b) {
        cells += 1;
        let mut found = Vec::new();
        let parts = |c: &Cell| {
            [value(&c.environment), value(&c.path), value(&c.service), value(&c.workload), value(&c.systems)]
        };
        let names = ["environment", "path", "service", "workload", "systems"];
        for ((x, y), name) in parts(c).iter().zip(&parts(d)).zip(names) {
            differences(x, y, name, &mut found);
        }
        for difference in found {
            of_cells.entry(difference).or_default().push(&c.id);
        }
    }
    texts.extend(of_cells.iter().map(|(difference, ids)| {
        let scope = if ids.len() == cells { "*".to_owned() } else { ids.join(", ") };
        format!("cells[{scope}].{}", difference.text(sides))
    }));
    texts
}

/// How trials of a measure are made, as `repeat.trials` has it.
fn trials(plan: &Plan, measure: &Measure) -> &'static str {
    if plan.is_duet(measure) { "duet" } else { "single" }
}

/// Why a figure of one cell and measure doesn't mean the same in both plans: what is said of whole plans, of nothing but
/// that cell and, where it is `compared`, its baseline.
pub(crate) fn one_cell(a: &Plan, b: &Plan, (cell, measure): (&str, &str), compared: bool) -> Vec<String> {
    if b.cells.iter().all(|c| c.id != cell) {
        return vec![format!("it has no cell {cell}")];
    }
    let (a, b) = (reduced(a, cell, measure, compared), reduced(b, cell, measure, compared));
    if a.measures.len() != b.measures.len() {
        return vec![format!("it has no measure {measure}")];
    }
    let loops = loops(Sides::LETTERS, &a, &b).into_iter().map(|reason| reason.text);
    loops.chain(plan_differences(Sides::LETTERS, &a, &b)).collect()
}

/// The plan with one cell and one measure; of tests the measure that they are of.
fn reduced(plan: &Plan, cell: &str, measure: &str, compared: bool) -> Plan {
    let of = measure.split('/').next().unwrap_or(measure);
    let baseline = plan.cells.iter().find(|c| c.id == cell).and_then(|c| c.baseline.clone());
    let mut reduced = plan.clone();
    reduced.cells.retain(|c| c.id == cell || (compared && Some(&c.id) == baseline.as_ref()));
    reduced.measures.retain(|m| m.name == of);
    reduced
}

/// What tells the hardware of two machines apart.
pub(crate) fn hardware(a: &HostFacts, b: &HostFacts) -> Vec<String> {
    let soft = |difference: &String| SOFT.iter().any(|name| difference.starts_with(name));
    machine(Sides::LETTERS, a, b).into_iter().filter(|difference| !soft(difference)).collect()
}

/// What else of the machine differs.
pub(crate) fn system(a: &HostFacts, b: &HostFacts) -> Vec<String> {
    let soft = |difference: &String| SOFT.iter().any(|name| difference.starts_with(name));
    machine(Sides::LETTERS, a, b).into_iter().filter(soft).collect()
}

/// Facts of a machine that a new version or a setting changes.
const SOFT: [&str; 2] = ["kernel", "frequency governor"];

/// What tells the machines of these runs apart; each difference once.
pub(super) fn machines(a: Runs<'_>, b: Runs<'_>) -> Vec<String> {
    of_all(a, b, |sides, first, other| machine(sides, &first.provenance.host, &other.provenance.host))
}

/// What differs between the first run of A and each other one; each difference once. Where a side has several runs they are named.
fn of_all(
    a: Runs<'_>,
    b: Runs<'_>,
    differences: impl Fn(Sides<'_>, &RunData, &RunData) -> Vec<String>,
) -> Vec<String> {
    let mut found = Vec::new();
    for other in others(a, b) {
        let paths = (path(a.first()), path(other));
        let sides = if is_of_several(a, b) { Sides { a: &paths.0, b: &paths.1 } } else { Sides::LETTERS };
        for text in differences(sides, a.data(), &other.context.data) {
            if !found.contains(&text) {
                found.push(text);
            }
        }
    }
    found
}

/// What tells two machines apart, as far as it moves figures.
fn machine(sides: Sides<'_>, a: &HostFacts, b: &HostFacts) -> Vec<String> {
    let pairs = machine_facts(a).into_iter().zip(machine_facts(b));
    sides.differing(pairs.map(|((name, x), (_, y))| (name.to_owned(), x, y)))
}

/// A machine as far as it moves figures: what each fact is called, and what it is.
pub(crate) fn machine_facts(h: &HostFacts) -> [(&'static str, String); 8] {
    let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    [
        ("CPU", h.cpu_model.clone()),
        ("architecture", h.architecture.clone()),
        ("number of CPUs", h.cpus.to_string()),
        ("CPUs of a quota", h.cpu_quota.map_or_else(|| "none".to_owned(), |quota| quota.to_string())),
        ("threads per core", h.threads_per_core.map_or_else(|| "unknown".to_owned(), |t| t.to_string())),
        ("kernel", h.kernel.clone()),
        ("virtualization", or(&h.virtualization)),
        ("frequency governor", or(&h.governor)),
    ]
}

/// What makes the comparison doubtful.
pub(super) fn warnings(a: Runs<'_>, b: Runs<'_>, machine: &[String]) -> Vec<String> {
    let mut warnings = Vec::new();
    let place = |r: &Report| r.context.run.path().canonicalize().ok();
    // Several runs of which two are the same are refused.
    if place(a.first()).is_some_and(|p| place(b.first()) == Some(p)) {
        warnings.push("A and B are the same run.".to_owned());
    }
    if !machine.is_empty() {
        warnings.push(format!(
            "Other machine: {}. A difference may be the machine's, not the service's.",
            machine.join("; ")
        ));
    }
    let limits = of_all(a, b, |sides, first, other| {
        sides.differing_maps(&first.provenance.limits, &other.provenance.limits)
    });
    if !limits.is_empty() {
        warnings.push(format!("Budgets were kept by other means: {}.", limits.join("; ")));
    }
    for (name, runs) in [("A", a), ("B", b)] {
        for run in runs.all().filter(|run| !run.context.data.complete) {
            let name = match is_of_several(a, b) {
                true => path(run),
                false => name.to_owned(),
            };
            warnings.push(format!("Run {name} is not complete: trials are missing."));
        }
    }
    warnings.extend(of_all(a, b, |sides, first, other| {
        other_margin(sides, &first.plan, &other.plan).into_iter().collect()
    }));
    warnings
}

/// That the margins differ, and that each run chose its trials by its own: one in which the level changes by less is steady enough.
fn other_margin(sides: Sides<'_>, a: &Plan, b: &Plan) -> Option<String> {
    if a.margin == b.margin {
        return None;
    }
    let margins = sides.values(&a.margin.to_string(), &b.margin.to_string());
    let mut text = format!("The margin is {margins}; that of A was used.");
    let judged = |m: &Measure| matches!(m.kind, MeasureKind::Latency(_) | MeasureKind::Throughput(_));
    if common_measures(a, b).any(|(m, _)| judged(m)) {
        text.push_str(
            " A trial whose level changes by more than it doesn't count, so trials of latency and throughput \
             were chosen by another rule in each.",
        );
    }
    Some(text)
}

/// Sides without a trial that counts, with what became of theirs.
pub(super) fn nothing_counts(a: Runs<'_>, b: Runs<'_>) -> Vec<String> {
    let all_rejected = |(name, runs): (&str, Runs<'_>)| {
        let none = runs.all().all(|r| r.context.data.trials.iter().all(|t| t.validity != Validity::Valid));
        rejected(runs.data()).filter(|_| none).map(|why| format!("in {name}, {why}"))
    };
    [("A", a), ("B", b)].into_iter().filter_map(all_rejected).collect()
}

/// What differs between the sides and may be what makes the difference.
pub(super) fn all_changes(a: Runs<'_>, b: Runs<'_>) -> Vec<String> {
    let all = |runs: Runs<'_>| {
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for run in runs.all() {
            for (name, version) in programs(&run.context.data.provenance) {
                found.entry(name).or_default().insert(version);
            }
        }
        let joined = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>().join(" or ");
        found.into_iter().map(|(name, versions)| (name, joined(versions))).collect()
    };
    Sides::LETTERS.differing_maps(&all(a), &all(b))
}

/// What differs between the runs and may be what makes the difference.
pub(crate) fn changes(a: &Provenance, b: &Provenance) -> Vec<String> {
    Sides::LETTERS.differing_maps(&programs(a), &programs(b))
}

/// The programs that took part, each with its version, and how nodes send.
pub(crate) fn programs(p: &Provenance) -> BTreeMap<String, String> {
    let mut facts = p.packages.clone();
    let vtax = format!("{} {}", p.vtax_version, p.vtax_commit.as_deref().unwrap_or_default());
    facts.insert("vtax".to_owned(), vtax.trim_end().to_owned());
    for (name, program) in [("QEMU", &p.qemu), ("container runtime", &p.container_runtime)] {
        facts.extend(program.as_ref().map(|q| (name.to_owned(), q.version.clone())));
    }
    for (cell, service) in &p.services {
        if !service.version.is_empty() {
            facts.insert(format!("service of {cell}"), service.version.clone());
        }
        let short = |hash: &String| hash.chars().take(12).collect::<String>();
        facts.extend(service.files.iter().map(|(path, hash)| (format!("SHA-256 of {path}"), short(hash))));
    }
    for (node, n) in &p.nodes {
        facts.insert(format!("kernel of node {node}"), n.kernel.clone());
        let sends_by = n.sockets.get(fact::CONGESTION_CONTROL).cloned();
        facts.extend(sends_by.map(|name| (format!("TCP congestion control of node {node}"), name)));
    }
    facts.insert("distribution".to_owned(), p.host.distribution.clone());
    facts
}

/// Cells and measures of one plan only.
pub(super) fn only(a: &Plan, b: &Plan) -> Vec<OnlyIn> {
    let mut only = Vec::new();
    for (run, plan, other) in [("A", a, b), ("B", b, a)] {
        let run = run.to_owned();
        for cell in plan.cells.iter().filter(|c| other.cells.iter().all(|d| d.id != c.id)) {
            only.push(OnlyIn { run: run.clone(), cell: Some(cell.id.clone()), measure: None });
        }
        for measure in plan.measures.iter().filter(|m| other.measures.iter().all(|n| n.name != m.name)) {
            only.push(OnlyIn { run: run.clone(), cell: None, measure: Some(measure.name.clone()) });
        }
    }
    only
}
