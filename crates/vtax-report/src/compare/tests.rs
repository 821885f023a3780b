//! Made-up runs against each other.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use vtax_fixture as fixture;
use vtax_plan::model::{Measure, MeasureKind, Plan, ServiceKind, TrialKind};
use vtax_store::record::{Finding, InvalidReason, Observation, TrialRecord, Validity};
use vtax_store::summary::{Comparison, MetricSummary, Verdict};
use vtax_store::{Provenance, RunDir};
use vtax_units::{Rate, Share};

use super::*;
use crate::data;
use crate::families::named;
use crate::family::sip::trial::tests::mix_at;
use crate::judged::{PendingComparison, above_limit, close, compared};
use crate::metric::Value;

pub(super) fn made(dir: &Path) -> RunDir {
    let options = fixture::Options { repetitions: 4, seconds: 2, rate: 400, ..fixture::Options::default() };
    fixture::create(&dir.join("a"), &options).unwrap()
}

/// Another run of the same plan, changed.
pub(super) fn changed(
    of: &RunDir,
    path: &Path,
    setup: impl Fn(&mut Plan, &mut Provenance),
    trial: impl Fn(&mut TrialRecord) -> bool,
) -> Report {
    let (mut plan, mut provenance) = (of.plan().unwrap(), of.provenance().unwrap());
    setup(&mut plan, &mut provenance);
    let mut run = RunDir::create(path, &plan, &provenance).unwrap();
    for mut record in of.trials().unwrap() {
        if trial(&mut record) {
            let writer = run.begin_trial(&record.cell, &record.measure, record.repetition).unwrap();
            run.finish_trial(writer, record).unwrap();
        }
    }
    run.completed().unwrap();
    Report::read(run.run()).unwrap()
}

/// A run in which `cell` has this share of its capacity.
fn slower(of: &RunDir, path: &Path, cell: &'static str, share: f64) -> Report {
    changed(
        of,
        path,
        |_, _| {},
        |record| {
            if record.cell == cell
                && let Some(Finding::Capacity(c)) = record.finding_mut()
            {
                c.lower = Rate(c.lower.0 * share);
                c.upper = c.upper.map(|u| Rate(u.0 * share));
            }
            true
        },
    )
}

pub(super) fn gated(max_tax: f64) -> Options {
    Options { max_tax: Some(Share(max_tax)), ..Options::default() }
}

fn refused(a: &Report, b: &Report, options: &Options) -> String {
    compare(a, b, options).unwrap_err().to_string()
}

#[test]
fn a_run_equals_itself() {
    let dir = tempfile::tempdir().unwrap();
    let run = Report::read(&made(dir.path())).unwrap();
    for metrics in [vec![], vec![ALL_METRICS.to_owned()]] {
        let c = compare(&run, &run, &Options { metrics, ..gated(0.5) }).unwrap();
        assert!(c.rows.len() >= 12, "{}", c.rows.len());
        for row in &c.rows {
            let found = &row.comparison;
            assert!(matches!(found.verdict, Verdict::Equivalent | Verdict::Inconclusive), "{found:?}");
            assert_eq!(found.tax, Some(1.0));
        }
        assert!(c.passes() && c.changes.is_empty() && c.only.is_empty());
        // 800 requests have no 99th percentile.
        assert_eq!((c.warnings.len(), c.warnings[0].as_str()), (2, "A and B are the same run."));
        // A closed loop's, which `all` takes in, is no substitute for it.
        let of = if c.rows.iter().any(|r| r.comparison.metric == "latency_p99") {
            " of the measure latency"
        } else {
            ""
        };
        let said = format!("(latency_p99){of} is in neither run: ");
        assert!(c.warnings[1].contains(&said), "{:?}", c.warnings);
    }
}

/// A service of the user's own has no version line that tells one build from the next.
#[test]
fn files_that_changed_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let a = Report::read(&run).unwrap();
    let rebuilt = |_: &mut Plan, p: &mut Provenance| {
        for service in p.services.values_mut() {
            service.files.insert("/srv/app".to_owned(), "ab".repeat(32));
        }
    };
    let b = changed(&run, &dir.path().join("b"), rebuilt, |_| true);
    let changes = compare(&a, &b, &Options::default()).unwrap().changes;
    assert_eq!(changes, ["SHA-256 of /srv/app is none in A, abababababab in B"]);
}

/// What shows tests in CI must not be left without a file.
#[test]
fn a_refusal_is_an_error_in_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let a = Report::read(&run).unwrap();
    let none = |record: &mut TrialRecord| {
        record.validity =
            Validity::Invalid { reason: InvalidReason::Disturbed, detail: "<noise>".to_owned() };
        true
    };
    let b = changed(&run, &dir.path().join("b"), |_, _| {}, none);
    let CompareError::Refused(refusal) = compare(&a, &b, &Options::default()).unwrap_err() else { panic!() };
    let trials = b.context.data.trials.len();
    let expected = format!("in B, {trials} of {trials} trials don't count: {trials} disturbed.");
    assert!(refusal.to_string().contains(&expected), "{refusal}");
    let xml = refusal.junit();
    assert!(xml.contains("errors=\"1\"") && xml.contains("disturbed") && well_formed(&xml), "{xml}");
    assert!(refusal.markdown().contains("- in B, "), "{}", refusal.markdown());
}

#[test]
fn a_percentile_that_nobody_has_is_no_pass() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let with = |metrics: &[&str], strict| {
        let metrics = metrics.iter().map(|m| (*m).to_owned()).collect();
        Options { metrics, strict, ..gated(0.5) }
    };
    let report = Report::read(&run).unwrap();
    let c = compare(&report, &report, &with(&["capacity", "latency_p99"], false)).unwrap();
    // That of the closed loop, which has it, is compared, and doesn't stand in for the other.
    assert!(c.rows.iter().all(|r| ["capacity", "throughput"].contains(&r.comparison.measure.as_str())));
    assert!(c.passes() && c.gate.unwrap().cant_tell >= 1, "{:?}", c.gate);
    assert!(c.warnings.concat().contains("this percentile takes 1000"), "{:?}", c.warnings);
    assert!(!compare(&report, &report, &with(&["capacity", "latency_p99"], true)).unwrap().passes());
    let open = changed(&run, &dir.path().join("open"), |p, _| p.measures.truncate(2), |_| true);
    let c = compare(&open, &open, &with(&["capacity", "latency_p99"], false)).unwrap();
    assert!(c.rows.iter().all(|r| r.comparison.metric == "capacity"));
    assert!(c.passes() && c.gate.unwrap().cant_tell >= 1, "{:?}", c.gate);
    let alone = refused(&open, &open, &with(&["latency_p99"], true));
    assert!(alone.contains("this percentile takes 1000"), "{alone}");
}

/// CPU time per request of a closed loop has a tax in the report, though no place in its first table.
#[test]
fn what_is_named_is_compared_in_every_measure() {
    let dir = tempfile::tempdir().unwrap();
    let run = Report::read(&made(dir.path())).unwrap();
    let measures = |names: &[&str]| {
        let metrics = names.iter().map(|m| (*m).to_owned()).collect();
        let c = compare(&run, &run, &Options { metrics, ..Options::default() }).unwrap();
        let of_cpu = c.rows.iter().filter(|r| r.comparison.metric == "cpu_per_request");
        of_cpu.map(|r| r.comparison.measure.clone()).collect::<std::collections::BTreeSet<String>>()
    };
    assert_eq!(measures(&[]), ["latency".to_owned()].into());
    let everywhere = ["capacity", "latency", "throughput"].map(str::to_owned).into();
    assert_eq!(measures(&["cpu_per_request"]), everywhere);
    assert_eq!(measures(&[ALL_METRICS]), everywhere);
}

#[test]
fn the_gate_knows_three_answers() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let a = Report::read(&run).unwrap();
    let b = slower(&run, &dir.path().join("b"), "container.bridge.http", 0.7);
    let options = |max| Options { metrics: vec!["capacity".to_owned()], ..gated(max) };
    let c = compare(&a, &b, &options(0.1)).unwrap();
    let of = |c: &RunComparison, cell: &str| {
        c.rows.iter().find(|r| r.comparison.cell == cell).unwrap().gate.unwrap()
    };
    assert_eq!(of(&c, "container.bridge.http"), GateVerdict::Fail);
    assert_eq!(of(&c, "native.bridge.http"), GateVerdict::Pass);
    assert!(!c.passes());
    assert!(c.headline.contains("1 worse") && c.headline.contains("FAIL"), "{}", c.headline);
    // 1 / 0.7 itself: the interval holds it.
    let c = compare(&a, &b, &options(1.0 / 0.7 - 1.0)).unwrap();
    assert_eq!(of(&c, "container.bridge.http"), GateVerdict::CantTell);
    assert!(c.passes() && c.headline.contains("PASS"), "{}", c.headline);
    let strict = Options { strict: true, ..options(1.0 / 0.7 - 1.0) };
    let c = compare(&a, &b, &strict).unwrap();
    assert!(!c.passes() && c.junit().contains("type=\"cant-tell\""), "{}", c.junit());
    assert!(compare(&a, &b, &options(1.0)).unwrap().passes());
    // Without a limit nothing is held to one.
    assert!(compare(&a, &b, &Options::default()).unwrap().passes());
}

#[test]
fn every_reason_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let a = Report::read(&run).unwrap();
    let change = |plan: &mut Plan, _: &mut Provenance| {
        plan.budget.sut_cpus = Some(2);
        if let MeasureKind::Capacity(c) = &mut plan.measures[0].kind {
            c.limits.errors = Share(0.05);
        }
        for cell in &mut plan.cells {
            let ServiceKind::Http(web) = &mut cell.service.kind else { continue };
            web.workers = Some(4);
        }
        plan.cells[1].path.mtu = 9000;
        // Sureness may differ.
        (plan.seed, plan.repeat.max, plan.name) = (1, 99, "other".to_owned());
    };
    let b = changed(&run, &dir.path().join("b"), change, |record| {
        record.accelerator = record.accelerator.is_some().then(|| "kvm".to_owned());
        true
    });
    let text = refused(&a, &b, &Options::default());
    for part in [
        "budget.sut_cpus is 1 in A, 2 in B",
        "measures[capacity].limits.errors is \"1%\" in A, \"5%\" in B",
        "cells[*].service.kind.workers is not given in A, 4 in B",
        "cells[container.bridge.http].path.mtu is 1500 in A, 9000 in B",
        "vm.bridge.http ran under tcg in A, kvm in B",
        "to compare them: run the same plan",
        "to compare them: repeat one of them on a host",
    ] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert_eq!(text.matches("\n  - ").count(), 5, "{text}");
}

/// In a duet each side has half of the processors; searches stay single.
#[test]
fn a_duet_is_not_compared_with_single_trials() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let a = Report::read(&run).unwrap();
    let duet = |plan: &mut Plan, _: &mut Provenance| plan.repeat.trials = TrialKind::Duet;
    let other = |name: &str| changed(&run, &dir.path().join(name), duet, |_| true);
    let (b, c) = (other("b"), other("c"));
    let text = refused(&a, &b, &Options::default());
    for measure in ["latency", "throughput"] {
        let told = format!("other plan: repeat.trials of {measure} is single in A, duet in B");
        assert!(text.contains(&told), "{text}");
    }
    assert!(!text.contains("repeat.trials of capacity"), "{text}");
    assert!(compare(&b, &c, &Options::default()).is_ok());
    // Of a search alone it makes no difference.
    let capacity = |plan: &mut Plan, _: &mut Provenance| plan.measures.truncate(1);
    let both = |plan: &mut Plan, provenance: &mut Provenance| {
        capacity(plan, provenance);
        duet(plan, provenance);
    };
    let d = changed(&run, &dir.path().join("d"), capacity, |_| true);
    let e = changed(&run, &dir.path().join("e"), both, |_| true);
    assert!(compare(&d, &e, &Options::default()).is_ok());
}

/// A trial whose level changed by more than the margin is no steady one, so the margin chooses trials as well.
#[test]
fn another_margin_is_told_with_what_came_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let a = Report::read(&run).unwrap();
    let with = |name: &str, measures: usize| {
        let setup = |plan: &mut Plan, _: &mut Provenance| {
            plan.margin = Share(0.02);
            plan.measures.truncate(measures);
        };
        let b = changed(&run, &dir.path().join(name), setup, |_| true);
        compare(&a, &b, &Options::default()).unwrap().warnings.concat()
    };
    let told = "The margin is 5% in A, 2% in B; that of A was used.";
    let chosen = "so trials of latency and throughput were chosen by another rule in each.";
    let all = with("all", 3);
    assert!(all.contains(told) && all.contains(chosen), "{all}");
    // A search has no level.
    let search = with("search", 1);
    assert!(search.contains(told) && !search.contains(chosen), "{search}");
}

/// Every form of a comparison says this, wherever its lines end.
pub(super) fn every_form_says(c: &RunComparison, words: &str) {
    for text in [c.table(), c.markdown(), c.html()] {
        let said: Vec<&str> = text.split_whitespace().collect();
        assert!(said.join(" ").contains(words), "{text}");
    }
}

/// Two runs are one draw each of what differs between sessions: every form says so.
#[test]
fn what_two_sessions_can_not_tell_is_said() {
    every_form_says(&hostile(), "Intervals are of the trials of these two sessions.");
}

#[test]
fn open_and_closed_loops_never_meet() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let a = Report::read(&run).unwrap();
    let swapped = |plan: &mut Plan, _: &mut Provenance| plan.measures[1].kind = plan.measures[2].kind.clone();
    let b = changed(&run, &dir.path().join("b"), swapped, |_| true);
    let text = refused(&a, &b, &Options::default());
    assert!(text.contains("latency is an open loop in A, a closed loop in B"), "{text}");
    let open = changed(&run, &dir.path().join("open"), |p, _| p.measures.truncate(2), |_| true);
    let closed = changed(&run, &dir.path().join("closed"), |p, _| drop(p.measures.drain(..2)), |_| true);
    let text = refused(&open, &closed, &Options::default());
    assert!(text.contains("only an open loop in A, a closed loop in B"), "{text}");
}

#[test]
fn other_machines_are_shouted_about_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let a = Report::read(&run).unwrap();
    let setup = |_: &mut Plan, p: &mut Provenance| {
        p.host.cpu_model = "Other CPU".to_owned();
        p.packages.insert("crun".to_owned(), "1.9".to_owned());
    };
    let b = changed(&run, &dir.path().join("b"), setup, |_| true);
    let c = compare(&a, &b, &Options::default()).unwrap();
    let table = c.table();
    assert!(table.contains("WARNING: Other machine: CPU is Example CPU"), "{table}");
    assert!(table.contains("crun is 1.8.1-1+deb12u1 in A, 1.9 in B"), "{table}");
    assert!(c.markdown().contains("> **Warning:** Other machine"));
    let text = refused(&a, &b, &Options { same_machine: true, ..Options::default() });
    assert!(text.contains("other machine: CPU is") && text.contains("--same-machine"), "{text}");
}

#[test]
fn latency_under_another_load_is_no_comparison() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let a = Report::read(&run).unwrap();
    let b = changed(
        &run,
        &dir.path().join("b"),
        |_, _| {},
        |record| {
            if let Some(Finding::Latency { offered, .. }) = record.finding_mut() {
                offered.0 *= 1.1;
            }
            true
        },
    );
    let c = compare(&a, &b, &gated(10.0)).unwrap();
    for row in &c.rows {
        let latency = row.comparison.measure == "latency";
        assert_eq!(row.comparable, !latency, "{row:?}");
        assert_eq!(row.comparison.reason.contains("400 req/s in A, 440 req/s in B"), latency);
        assert_eq!(row.gate == Some(GateVerdict::CantTell), latency, "{row:?}");
    }
    assert!(c.table().contains("? not comparable"));
}

/// Response times of SIP at a given rate were compared whatever the rates.
#[test]
fn scenarios_under_another_load_are_no_comparison() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let at = |name: &str, rate: f64| {
        let mix = |record: &mut TrialRecord| {
            if record.measure == "latency" {
                record.observations = vec![Observation::whole(0, Finding::Ims(Box::new(mix_at(rate, 0.0))))];
            }
            true
        };
        changed(&run, &dir.path().join(name), |_, _| {}, mix)
    };
    let (a, same, other) = (at("mix", 400.0), at("same", 400.0), at("other", 440.0));
    let setups = |b: &Report| -> Vec<(bool, String)> {
        let rows = compare(&a, b, &Options::default()).unwrap().rows.into_iter();
        let setups = rows.filter(|row| row.comparison.metric == "ses1_p50");
        setups.map(|row| (row.comparable, row.comparison.reason)).collect()
    };
    let (like, apart) = (setups(&same), setups(&other));
    assert!(!like.is_empty() && like.iter().all(|(comparable, _)| *comparable), "{like:?}");
    let why = "400 req/s in A, 440 req/s in B";
    assert!(!apart.is_empty() && apart.iter().all(|(same, told)| !same && told.contains(why)), "{apart:?}");
}

/// A load of scenarios was told in requests per second.
#[test]
fn a_load_of_scenarios_has_its_own_unit() {
    let dir = tempfile::tempdir().unwrap();
    let measures = made(dir.path()).plan().unwrap().measures;
    let latency: Vec<Measure> = measures.into_iter().filter(|m| m.name == "latency").collect();
    let small =
        fixture::sip::Options { repetitions: 3, step: 4, steps: 3, ..fixture::sip::Options::default() };
    let run = fixture::sip::create(&dir.path().join("sip"), &small).unwrap();
    let at = |name: &str, rate: f64| {
        let setup = |plan: &mut Plan, _: &mut Provenance| {
            plan.measures.clone_from(&latency);
            plan.study = None;
        };
        let mix = |record: &mut TrialRecord| {
            "latency".clone_into(&mut record.measure);
            record.observations = vec![Observation::whole(0, Finding::Ims(Box::new(mix_at(rate, 0.0))))];
            true
        };
        changed(&run, &dir.path().join(name), setup, mix)
    };
    let c = compare(&at("slow", 400.0), &at("fast", 440.0), &Options::default()).unwrap();
    let setups = c.rows.iter().filter(|row| row.comparison.metric == "ses1_p50");
    let told: Vec<&str> = setups.map(|row| row.comparison.reason.as_str()).collect();
    let why = "400 SAPS in A, 440 SAPS in B; a load per second, the same in both, would make them comparable";
    assert!(!told.is_empty() && told.iter().all(|text| text.ends_with(why)), "{told:?}");
}

#[test]
fn what_only_one_has_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let a = Report::read(&run).unwrap();
    let b = changed(
        &run,
        &dir.path().join("b"),
        |p, _| drop(p.cells.pop()),
        |r| {
            // The service of B never started in the container.
            r.cell == "native.bridge.http"
        },
    );
    let c = compare(&a, &b, &gated(0.1)).unwrap();
    assert_eq!(c.only.len(), 1);
    assert!(c.table().contains("cell vm.bridge.http: only in A"), "{}", c.table());
    let container = c.rows.iter().find(|r| r.comparison.cell == "container.bridge.http").unwrap();
    assert_eq!((container.b.as_ref(), container.gate), (None, Some(GateVerdict::CantTell)));
    assert_eq!(container.comparison.reason, "no valid trial in B gave a figure");
    let back = compare(&b, &a, &gated(0.1)).unwrap();
    let container = back.rows.iter().find(|r| r.comparison.cell == "container.bridge.http").unwrap();
    assert_eq!(container.comparison.reason, "no valid trial in A gave a figure");
    let none = changed(&run, &dir.path().join("none"), |_, _| {}, |_| false);
    assert!(refused(&a, &none, &gated(0.1)).contains("no metric has a figure in both runs"));
    let metrics = vec!["speed".to_owned()];
    let text = refused(&a, &a, &Options { metrics, ..Options::default() });
    assert!(text.contains("no metric `speed`") && text.contains("`vtax explain`"), "{text}");
    // A handful that may have been meant, and not all that there are.
    for (name, meant) in [("latncy_p50", "mean `latency_p50`"), ("Cpu-per-request", "mean `cpu_per_request`")]
    {
        let metrics = vec!["capacity".to_owned(), name.to_owned()];
        let text = refused(&a, &a, &Options { metrics, ..Options::default() });
        assert!(text.contains(meant) && text.matches('`').count() <= 16, "{text}");
    }
}

#[test]
fn the_table_fits_and_json_reads_back() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let a = Report::read(&run).unwrap();
    let b = slower(&run, &dir.path().join("b"), "vm.bridge.http", 0.01);
    let c = compare(&a, &b, &gated(0.05)).unwrap();
    // A path is one word that nothing can break.
    for line in c.table().lines().filter(|l| !l.contains(dir.path().to_str().unwrap())) {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let again: RunComparison = serde_json::from_str(&c.json()).unwrap();
    // Not the rows as they are: the last bit of a number may go.
    let words = |c: &RunComparison| -> Vec<_> {
        c.rows.iter().map(|r| (r.comparison.cell.clone(), r.comparison.verdict, r.gate)).collect()
    };
    assert_eq!((words(&again), &again.a, again.gate), (words(&c), &c.a, c.gate));
}

/// Figures of five trials that agree.
fn figures(center: f64) -> MetricSummary {
    MetricSummary {
        unit: "req/s".to_owned(),
        better: vtax_store::summary::Better::Higher,
        n: 5,
        center,
        mean: center,
        sd: None,
        median: center,
        interval: None,
        at_least: false,
        values: vec![center; 5],
        trials: (0..5).collect(),
        percentiles: BTreeMap::new(),
    }
}

/// Two rows, one of which fails, with names that want to break out.
fn hostile() -> RunComparison {
    let side = |path: &str| Side {
        path: path.to_owned(),
        more: Vec::new(),
        started_unix_ms: 1_709_208_000_000,
        vtax: "0.1.0 (0123abc)".to_owned(),
        machine: "Example CPU, 2 CPUs, Linux 6.1.0".to_owned(),
        complete: true,
        valid_trials: 10,
        trials: 10,
    };
    let row = |cell: &str, tax: f64, gate, verdict, reason: &str| Row {
        group: String::new(),
        environment: cell.to_owned(),
        label: "capacity".to_owned(),
        a: Some(figures(24_000.0)),
        b: Some(figures(24_000.0 / tax)),
        comparable: true,
        comparison: Comparison {
            cell: cell.to_owned(),
            baseline: cell.to_owned(),
            measure: "capacity".to_owned(),
            metric: "capacity".to_owned(),
            tax: Some(tax),
            interval: Some((tax * 0.95, tax * 1.05)),
            verdict,
            reason: reason.to_owned(),
            ..Comparison::default()
        },
        gate: Some(gate),
    };
    let rows = vec![
        row("native", 1.5, GateVerdict::Fail, Verdict::Worse, "beyond"),
        row("a\"<b>&|\u{1b}[31m", 1.1, GateVerdict::CantTell, Verdict::Inconclusive, "too ]]> few\u{ffff}"),
    ];
    let gate = Some(gate(&rows, 0, Share(0.1), false));
    let mut c = RunComparison {
        version: COMPARISON_VERSION,
        plan: "quick".to_owned(),
        a: side("runs/a"),
        b: side("runs/b_<script>"),
        headline: String::new(),
        warnings: vec!["Other machine: CPU is x in A, y in B.".to_owned()],
        changes: Vec::new(),
        rows,
        missing: Vec::new(),
        only: vec![OnlyIn { run: "A".to_owned(), cell: None, measure: Some("latency".to_owned()) }],
        gate,
    };
    c.headline = table::headline(&c);
    c
}

#[test]
fn what_was_asked_for_and_is_in_neither_run_is_a_test_as_well() {
    let mut c = hostile();
    c.missing = vec!["latency, p99 (latency_p99) is in neither run.".to_owned()];
    for (strict, word) in [(true, "<failure type=\"cant-tell\""), (false, "<skipped")] {
        c.gate = c.gate.map(|gate| Gate { strict, ..gate });
        let xml = c.junit();
        assert!(well_formed(&xml) && xml.contains(&format!("tests=\"{}\"", c.rows.len() + 1)), "{xml}");
        let last = xml.split("<testcase").last().unwrap();
        assert!(last.contains("latency_p99") && last.contains(word), "{xml}");
    }
}

#[test]
fn junit_looks_like_this() {
    assert_eq!(hostile().junit(), include_str!("golden.xml"));
}

#[test]
fn markdown_looks_like_this() {
    assert_eq!(hostile().markdown(), include_str!("golden.md"));
}

/// Whether every tag is closed in order and nothing is left unescaped; enough of XML for what is written here.
fn well_formed(xml: &str) -> bool {
    let mut open = Vec::new();
    let body = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").unwrap_or_default();
    for piece in body.split('<').skip(1) {
        let Some((tag, text)) = piece.split_once('>') else { return false };
        let bad = |c: char| matches!(c, '\u{fffe}' | '\u{ffff}') || (c.is_control() && c != '\n');
        if text.contains('>') || tag.matches('"').count() % 2 != 0 || piece.contains(bad) {
            return false;
        }
        let name = tag.split([' ', '/']).find(|n| !n.is_empty()).unwrap_or_default();
        match (tag.strip_prefix('/'), tag.ends_with('/')) {
            (Some(name), _) if open.pop() != Some(name) => return false,
            (Some(_), _) | (None, true) => {}
            (None, false) => open.push(name),
        }
    }
    open.is_empty() && !body.is_empty()
}

fn values(numbers: &[f64], resolution: f64) -> Vec<Value> {
    numbers
        .iter()
        .map(|value| Value { metric: "capacity", value: *value, resolution, censored: false })
        .collect()
}

/// Of twenty bounds one lies beyond a limit by chance too easily: what fails a build is beyond it among all rows.
#[test]
fn a_bound_fails_only_where_it_is_beyond_among_all_rows() {
    let plan = empty_plan();
    let row = |candidate: &[f64], censored: bool| {
        let base = values(&[100.0, 102.0, 98.0, 101.0, 99.0], 0.0);
        let base = base.into_iter().map(|value| Value { censored, ..value }).collect();
        let side = |found| data::OneSide { found, ..data::OneSide::default() };
        let sides = (side(values(candidate, 0.0)), side(base));
        compared(["x", "x", "m"], named("capacity").unwrap(), (&sides.0, &sides.1), &plan)
    };
    let mut family = vec![row(&[80.0, 84.0, 78.0, 82.0, 79.0], true)];
    family.extend((0..19).map(|_| row(&[101.0, 99.0, 100.0, 98.0, 102.0], false)));
    close(&mut family, &plan, vtax_stats::ALPHA);
    let found = &family[0].comparison;
    let (least, (corrected, _)) = (found.at_least.unwrap(), found.corrected.unwrap());
    assert!(1.0 < corrected && corrected < least, "{found:?}");
    let held = |limit: f64| rows::held_to(found, Share(limit - 1.0), above_limit(&family, limit)[0]);
    assert_eq!(held(f64::midpoint(corrected, least)), GateVerdict::CantTell);
    assert_eq!(held(corrected - 1e-6), GateVerdict::Fail);
    // Where the candidate is the one that never met its limit, nothing says that it costs more.
    let bound = Comparison { at_least: None, at_most: Some(2.0), ..found.clone() };
    assert_eq!(rows::held_to(&bound, Share(0.0), false), GateVerdict::CantTell);
}

/// Whichever of two runs went on until it was sure, their interval is as wide, and turned around where they change places.
#[test]
fn looking_is_paid_for_on_either_side() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let (cell, fixed) = ("container.bridge.http", Report::read(&run).unwrap());
    // Its container has nine tenths of the capacity.
    let until_sure = |name: &str, min: u32| {
        let setup = |plan: &mut Plan, _: &mut Provenance| {
            (plan.repeat.min, plan.repeat.max) = (min, 9);
        };
        changed(&run, &dir.path().join(name), setup, |record| {
            if record.cell == cell
                && let Some(Finding::Capacity(c)) = record.finding_mut()
            {
                c.lower = Rate(c.lower.0 * 0.9);
                c.upper = c.upper.map(|u| Rate(u.0 * 0.9));
            }
            true
        })
    };
    let interval = |a: &Report, b: &Report| {
        let compared = compare(a, b, &Options::default()).unwrap();
        let capacity = |row: &&Row| row.comparison.metric == "capacity" && row.comparison.cell == cell;
        compared.rows.iter().find(capacity).unwrap().comparison.interval.unwrap()
    };
    let turned = |(low, high): (f64, f64)| (1.0 / high, 1.0 / low);
    let alike =
        |x: (f64, f64), y: (f64, f64)| (x.0 / y.0 - 1.0).abs() < 1e-9 && (x.1 / y.1 - 1.0).abs() < 1e-9;
    let (sure, later) = (until_sure("sure", 3), until_sure("later", 4));
    let (there, back) = (interval(&fixed, &sure), interval(&sure, &fixed));
    assert!(alike(there, turned(back)), "{there:?} {back:?}");
    // Four trials were to be made in any case: nothing to pay for. Where the other run was to make three, there is.
    let nothing = interval(&fixed, &later);
    assert!(there.0 < nothing.0 && nothing.1 < there.1, "{there:?} {nothing:?}");
    let (there, back) = (interval(&later, &sure), interval(&sure, &later));
    assert!(alike(there, turned(back)), "{there:?} {back:?}");
    // It is paid for however few trials the other run has: four of which one was looked for are wider by 2.5 / 4.
    let small = changed(&run, &dir.path().join("small"), |_, _| {}, |record| record.repetition < 3);
    let width = |b: &Report| {
        let (low, high) = interval(&small, b);
        (high / low).ln()
    };
    let times = width(&sure) / width(&later);
    assert!((times - (1.0 + 2.5 / 4.0)).abs() < 1e-9, "{times}");
}

/// A staircase in steps of 10/s that natively ended at 100 and in a machine at 30: it may have gone to anything below 110, and 40.
#[test]
fn a_capacity_told_by_its_lower_end_is_compared_by_the_middle() {
    let plan = empty_plan();
    let side = |value: f64, failed: f64| {
        let of = Value { metric: "doc", value, resolution: (failed / value).ln(), censored: false };
        data::OneSide { found: vec![of; 3], ..data::OneSide::default() }
    };
    let sides = (side(30.0, 40.0), side(100.0, 110.0));
    let mut family = [compared(["x", "x", "m"], named("doc").unwrap(), (&sides.0, &sides.1), &plan)];
    close(&mut family, &plan, vtax_stats::ALPHA);
    let [PendingComparison { comparison: found, .. }] = family;
    // sqrt(100 * 110) / sqrt(30 * 40), and 1.959964 / sqrt(12) of the hypotenuse of ln 1.1 and ln 4/3.
    let (tax, (low, high)) = (found.tax.unwrap(), found.interval.unwrap());
    assert!((tax - 3.027_650).abs() < 1e-5, "{found:?}");
    assert!(((tax / low).ln() - 0.171_468).abs() < 1e-5 && ((high / tax).ln() - 0.171_468).abs() < 1e-5);
}

/// Rows that all differ plainly correct nothing for each other where the question is a limit that none of them is beyond.
#[test]
fn a_level_for_differences_is_none_for_a_limit() {
    let plan = empty_plan();
    let row = |candidate: &[f64]| {
        let side = |found| data::OneSide { found, ..data::OneSide::default() };
        let base = side(values(&[100.0, 102.0, 98.0, 101.0, 99.0], 0.0));
        compared(["x", "x", "m"], named("capacity").unwrap(), (&side(values(candidate, 0.0)), &base), &plan)
    };
    let mut family = vec![row(&[86.0, 88.0, 87.0, 89.0, 85.0])];
    family.extend((0..19).map(|_| row(&[91.0, 89.0, 90.0, 92.0, 88.0])));
    close(&mut family, &plan, vtax_stats::ALPHA);
    let found = &family[0].comparison;
    assert!(found.corrected.unwrap().0 > 1.1, "{found:?}");
    assert_eq!(above_limit(&family, 1.1), [false; 20]);
    assert!(above_limit(&family[..1], 1.1)[0], "alone it is");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_same_figures_are_never_better_or_worse(
        numbers in prop::collection::vec(1e-3..1e9f64, 0..15),
        resolution in 0.0..0.2f64,
        turn in 0usize..15,
        seed: u64,
        margin in 0.0..0.2f64,
    ) {
        let plan = Plan { seed, margin: Share(margin), ..empty_plan() };
        let mut turned = numbers.clone();
        turned.rotate_left(turn % numbers.len().max(1));
        let (a, b) = (values(&numbers, resolution), values(&turned, resolution));
        let side = |found| data::OneSide { found, ..data::OneSide::default() };
        let mut family = [compared(["x", "x", "m"], named("capacity").unwrap(), (&side(b), &side(a)), &plan)];
        close(&mut family, &plan, vtax_stats::ALPHA);
        for max in [0.0, 0.1] {
            prop_assert_eq!(above_limit(&family, 1.0 + max), [false]);
        }
        let [PendingComparison { comparison: found, .. }] = family;
        prop_assert!(!matches!(found.verdict, Verdict::Better | Verdict::Worse), "{found:?}");
    }

    #[test]
    fn nothing_breaks_out(name in any::<String>(), reason in any::<String>(), plan in any::<String>()) {
        let mut c = hostile();
        c.plan = plan;
        c.b.path = name.clone();
        c.warnings.push(reason.clone());
        c.changes.push(name.clone());
        for row in &mut c.rows {
            row.environment.clone_from(&name);
            row.group.clone_from(&reason);
            row.comparison.cell.clone_from(&name);
            row.comparison.reason.clone_from(&reason);
        }
        prop_assert!(well_formed(&c.junit()), "{}", c.junit());
        let page = c.html();
        let body = page.split_once("</head>").unwrap().1.trim_end().trim_end_matches("</html>");
        prop_assert!(well_formed(&format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{body}")), "{}", body);
        // One line per row, with as many cells as its head.
        let markdown = c.markdown();
        let table: Vec<&str> = markdown.lines().filter(|l| l.starts_with('|')).collect();
        prop_assert_eq!(table.len(), 4);
        for line in table {
            prop_assert_eq!(line.replace("\\\\", "").replace("\\|", "").matches('|').count(), 8, "{}", line);
        }
        prop_assert!(!c.table().chars().any(|c| c.is_control() && c != '\n'));
    }
}

fn empty_plan() -> Plan {
    use vtax_plan::model::{Budget, PLAN_VERSION, Repeat};
    Plan {
        version: PLAN_VERSION,
        name: "empty".to_owned(),
        description: String::new(),
        seed: 1,
        cells: Vec::new(),
        measures: Vec::new(),
        repeat: Repeat {
            min: 1,
            max: 1,
            until: Share(0.05),
            budget: None,
            order: Default::default(),
            trials: Default::default(),
        },
        budget: Budget { sut_cpus: None, sut_memory: vtax_units::Bytes::from_mib(256), client_cpus: None },
        margin: Share(0.05),
        study: None,
        primary: None,
    }
}
