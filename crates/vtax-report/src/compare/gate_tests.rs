//! What a gate must not let pass: what is in neither run, and what the better trials alone tell.

use std::path::Path;

use vtax_fixture as fixture;
use vtax_plan::model::{MeasureKind, Plan, Workload};
use vtax_store::record::{Finding, InvalidReason, TrialRecord, Validity};
use vtax_store::{Provenance, RunDir};
use vtax_units::Rate;

use super::tests::{changed, every_form_says, gated, made};
use super::*;
use crate::metric::LIFECYCLE;

const CONTAINER: &str = "container.bridge.http";
const VM: &str = "vm.bridge.http";
const BRIDGE: &str = "native.bridge.peer";

/// The run with some trials that don't count.
fn without(
    of: &RunDir,
    path: &Path,
    reason: InvalidReason,
    is_lost: impl Fn(&TrialRecord) -> bool,
) -> Report {
    let lose = |record: &mut TrialRecord| {
        if is_lost(record) {
            record.validity = Validity::Invalid { reason, detail: "made up".to_owned() };
        }
        true
    };
    changed(of, path, |_, _| {}, lose)
}

fn options(metrics: &[&str], strict: bool) -> Options {
    let metrics = metrics.iter().map(|name| (*name).to_owned()).collect();
    Options { metrics, strict, ..gated(0.5) }
}

/// A virtual machine that never worked, neither before nor after, had no row, and a strict gate passed.
#[test]
fn what_one_environment_has_in_neither_run_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let whole = Report::read(&run).unwrap();
    let c = compare(&whole, &whole, &options(&["capacity"], true)).unwrap();
    assert!(c.passes() && c.missing.is_empty(), "{:?}", c.missing);

    let of_vm = |record: &TrialRecord| record.cell == VM;
    let dead = without(&run, &dir.path().join("dead"), InvalidReason::ServiceFailed, of_vm);
    let text =
        "capacity (capacity) of vm.bridge.http (capacity) is in neither run: none of its trials counts.";
    for strict in [false, true] {
        let c = compare(&dead, &dead, &options(&["capacity"], strict)).unwrap();
        assert!(c.rows.iter().all(|row| row.comparison.cell != VM));
        assert_eq!(c.missing, [text]);
        assert!(c.warnings.iter().any(|warning| warning == text), "{:?}", c.warnings);
        assert_eq!((c.passes(), c.gate.unwrap().cant_tell), (!strict, 1));
        let name = "name=\"capacity (capacity) of vm.bridge.http (capacity)\"";
        assert!(c.junit().contains(name), "{}", c.junit());
    }
    // What a first table would have is asked for as well: all of it but the percentile that no environment has.
    let c = compare(&dead, &dead, &options(&[], true)).unwrap();
    assert!(c.missing.iter().all(|text| text.contains(VM)), "{:?}", c.missing);
    assert_eq!((c.missing.len(), c.passes()), (4, false), "{:?}", c.missing);
    // It was never tried.
    let none = changed(&run, &dir.path().join("none"), |_, _| {}, |record| record.cell != VM);
    let c = compare(&none, &none, &options(&["capacity"], true)).unwrap();
    assert_eq!(
        c.missing,
        ["capacity (capacity) of vm.bridge.http (capacity) is in neither run: it has no trial."]
    );
    // One of the two has it: a row says so.
    let c = compare(&whole, &dead, &options(&["capacity"], true)).unwrap();
    assert!(c.missing.is_empty() && !c.passes(), "{:?}", c.missing);
}

/// Why it was left out is known, where the run says it.
#[test]
fn an_environment_that_both_runs_left_out_is_told_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let of = made(dir.path());
    let mut run =
        RunDir::create(dir.path().join("b"), &of.plan().unwrap(), &of.provenance().unwrap()).unwrap();
    run.note(Some(VM), "left out: no QEMU\nits console said more").unwrap();
    for record in of.trials().unwrap().into_iter().filter(|record| record.cell != VM) {
        let writer = run.begin_trial(&record.cell, &record.measure, record.repetition).unwrap();
        run.finish_trial(writer, record).unwrap();
    }
    run.completed().unwrap();
    let b = Report::read(run.run()).unwrap();
    let c = compare(&b, &b, &options(&["capacity"], true)).unwrap();
    assert_eq!(
        c.missing,
        ["capacity (capacity) of vm.bridge.http (capacity) is in neither run: left out: no QEMU."]
    );
    assert!(!c.passes());
}

/// A measure that nothing came of in either run has no row at all.
#[test]
fn a_measure_of_which_no_trial_counts_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let of_latency = |record: &TrialRecord| record.measure == "latency";
    let lost = without(&run, &dir.path().join("lost"), InvalidReason::NothingSucceeded, of_latency);
    for strict in [false, true] {
        let c = compare(&lost, &lost, &options(&[], strict)).unwrap();
        assert_eq!(c.missing, ["latency is in neither run: none of its trials counts."]);
        assert_eq!(c.passes(), !strict);
    }
    // Another one was asked for.
    assert!(compare(&lost, &lost, &options(&["capacity"], true)).unwrap().passes());
}

/// `all` told the measure, and the metric's own name the metric: the gate counted one lack twice.
#[test]
fn a_lost_measure_whose_metric_is_named_beside_all_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let of_capacity = |record: &TrialRecord| record.measure == "capacity";
    let lost = without(&run, &dir.path().join("lost"), InvalidReason::NothingSucceeded, of_capacity);
    let told = |metrics: &[&str]| {
        let missing = compare(&lost, &lost, &options(metrics, true)).unwrap().missing;
        missing.into_iter().filter(|text| text.contains("capacity")).collect::<Vec<String>>()
    };
    let measure = "capacity is in neither run: none of its trials counts.";
    assert_eq!(told(&[ALL_METRICS]), [measure]);
    let metric = "capacity (capacity) is in neither run: no valid trial gave a figure.";
    assert_eq!(told(&[ALL_METRICS, "capacity"]), [metric]);
    // Another metric's name says nothing of it.
    assert!(told(&[ALL_METRICS, "latency_p50"]).iter().any(|text| text == measure));
}

fn of_eight(dir: &Path) -> RunDir {
    let eight = fixture::Options { repetitions: 8, seconds: 2, rate: 400, ..fixture::Options::default() };
    fixture::create(&dir.join("run"), &eight).unwrap()
}

/// A build whose service dies in most of its trials had only the others in its figures, and passed.
#[test]
fn trials_of_which_too_many_were_lost_are_told_and_not_let_pass() {
    let dir = tempfile::tempdir().unwrap();
    let run = of_eight(dir.path());
    let a = Report::read(&run).unwrap();
    let lost = |name: &str, reason: InvalidReason, below: u32| {
        let is_lost = |record: &TrialRecord| record.cell == CONTAINER && record.repetition < below;
        without(&run, &dir.path().join(name), reason, is_lost)
    };
    let of = |a: &Report, b: &Report, strict: bool| {
        let c = compare(a, b, &options(&[], strict)).unwrap();
        let is_capacity =
            |row: &&Row| row.comparison.cell == CONTAINER && row.comparison.metric == "capacity";
        let row = c.rows.iter().find(is_capacity).unwrap().clone();
        (row.gate, row.comparison.explanation, c)
    };
    let said = |n: u32, words: &str, side: &str| {
        format!(
            "Of 8 trials of {CONTAINER} (capacity) in {side}, {n} {words} were left out: those that count may be its better ones."
        )
    };
    let beyond = " That is more than in A, beyond chance, and speaks against B.";
    let b = lost("b", InvalidReason::ServiceFailed, 5);
    let five = said(5, "in which the service failed", "B") + beyond;
    let (held, explanation, c) = of(&a, &b, false);
    assert_eq!((held, explanation), (Some(GateVerdict::Pass), five.clone()));
    assert_eq!(c.warnings.iter().filter(|warning| **warning == five).count(), 1, "{:?}", c.warnings);
    // Once for all metrics of a measure.
    let of_latency = c.warnings.iter().filter(|warning| warning.contains("(latency) in B"));
    assert_eq!(of_latency.count(), 1, "{:?}", c.warnings);
    every_form_says(&c, &five);
    assert!(c.junit().contains(&five) && c.json().contains(&five));
    let (held, _, c) = of(&a, &b, true);
    assert_eq!((held, c.passes()), (Some(GateVerdict::CantTell), false));
    let why = "within the limit, but many trials of B were left out for what became of them";
    every_form_says(&c, why);
    assert!(c.junit().contains(why));
    // The better trials of the baseline are no easy measure.
    let (held, explanation, _) = of(&b, &a, true);
    assert_eq!(held, Some(GateVerdict::Pass));
    assert!(explanation.contains(&said(5, "in which the service failed", "A")), "{explanation}");
    // Two of eight are many, one isn't, and what disturbed a trial is the machine's doing.
    let (held, explanation, _) = of(&a, &lost("two", InvalidReason::NoSteadyState, 2), true);
    assert_eq!((held, explanation), (Some(GateVerdict::CantTell), said(2, "that never became steady", "B")));
    for (name, reason, below) in
        [("one", InvalidReason::NoSteadyState, 1), ("noise", InvalidReason::Disturbed, 4)]
    {
        let (held, explanation, _) = of(&a, &lost(name, reason, below), true);
        assert_eq!((held, explanation.as_str()), (Some(GateVerdict::Pass), ""), "{name}");
    }
}

/// Trials of a search that never met its limits count, and have no capacity.
#[test]
fn what_trials_that_count_have_no_figure_of_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let never = |record: &mut TrialRecord| {
        if record.cell == VM
            && let Some(Finding::Capacity(found)) = record.finding_mut()
        {
            (found.lower, found.upper) = (Rate(0.0), Some(Rate(10.0)));
        }
        true
    };
    let b = changed(&run, &dir.path().join("b"), |_, _| {}, never);
    let text =
        "capacity (capacity) of vm.bridge.http (capacity) is in neither run: no valid trial gave a figure.";
    // A warning, and no figure that the gate was asked for by name.
    let c = compare(&b, &b, &options(&[], true)).unwrap();
    assert!(c.warnings.iter().any(|warning| warning == text) && c.missing.is_empty(), "{:?}", c.warnings);
    let c = compare(&b, &b, &options(&["capacity"], true)).unwrap();
    assert_eq!(c.missing, [text]);
    assert!(!c.passes());
}

/// The worst loss leaves too few trials for an interval, and was told nowhere. One that the baseline has as well is none of B's doing.
#[test]
fn a_loss_of_nearly_all_trials_is_told_and_one_that_both_have_is_let_pass() {
    let dir = tempfile::tempdir().unwrap();
    let run = of_eight(dir.path());
    let a = Report::read(&run).unwrap();
    let lost = |name: &str, below: u32| {
        let is_lost = |record: &TrialRecord| record.cell == CONTAINER && record.repetition < below;
        without(&run, &dir.path().join(name), InvalidReason::ServiceFailed, is_lost)
    };
    let six = format!(
        "Of 8 trials of {CONTAINER} (capacity) in B, 6 in which the service failed were left out: those that count may be its better ones. \
         That is more than in A, beyond chance, and speaks against B."
    );
    let b = lost("six", 6);
    for strict in [false, true] {
        let c = compare(&a, &b, &options(&["capacity"], strict)).unwrap();
        assert_eq!(c.warnings.iter().filter(|text| **text == six).count(), 1, "{:?}", c.warnings);
        assert_eq!(c.passes(), !strict);
    }
    let two = lost("two", 2);
    let c = compare(&two, &two, &options(&["capacity"], true)).unwrap();
    assert!(c.passes(), "{:?}", c.rows);
    assert!(c.warnings.iter().any(|text| text.contains("in B, 2 in which")), "{:?}", c.warnings);
    // Of more than the baseline loses it isn't.
    let c = compare(&two, &lost("three", 3), &options(&["capacity"], true)).unwrap();
    assert!(!c.passes(), "{:?}", c.rows);
}

/// Two environments with tests of their paths.
fn of_tests(dir: &Path) -> RunDir {
    let options = fixture::network::Options {
        windows: vec![None],
        paths: ["direct", "bridge"].map(str::to_owned).into(),
        ..fixture::network::Options::default()
    };
    fixture::network::create(&dir.join("network"), &options).unwrap()
}

/// Each of a trial's tests told the loss of the trial again.
#[test]
fn trials_that_were_lost_as_a_whole_are_told_once_for_all_tests() {
    let dir = tempfile::tempdir().unwrap();
    let run = of_tests(dir.path());
    let is_lost = |record: &TrialRecord| record.cell == BRIDGE && record.repetition >= 2;
    let b = without(&run, &dir.path().join("b"), InvalidReason::ServiceFailed, is_lost);
    let c = compare(&Report::read(&run).unwrap(), &b, &options(&[], true)).unwrap();
    let told: Vec<&String> = c.warnings.iter().filter(|text| text.contains("(network")).collect();
    let told: Vec<&String> = told.into_iter().filter(|text| text.contains("better ones")).collect();
    let text = format!(
        "Of 4 trials of {BRIDGE} (network) in B, 2 in which the service failed were left out: those that count may be its better ones."
    );
    assert_eq!(told, [&text]);
}

/// What an environment's workload has no test of was missed there, where its trials didn't count.
#[test]
fn a_test_that_an_environment_does_not_have_is_not_missing() {
    let dir = tempfile::tempdir().unwrap();
    let run = of_tests(dir.path());
    let without_ping = |plan: &mut Plan, _: &mut Provenance| {
        for cell in plan.cells.iter_mut().filter(|cell| cell.id == BRIDGE) {
            if let Workload::Network(workload) = &mut cell.workload {
                workload.tests.retain(|test| test.name != "ping");
            }
        }
    };
    let dead = |record: &mut TrialRecord| {
        if record.cell == BRIDGE {
            let detail = "made up".to_owned();
            record.validity = Validity::Invalid { reason: InvalidReason::ServiceFailed, detail };
            record.observations.retain(|test| test.name != "ping");
        }
        true
    };
    let b = changed(&run, &dir.path().join("b"), without_ping, dead);
    let c = compare(&b, &b, &options(&[], true)).unwrap();
    let lacks = |test: &str| {
        let of = format!("of {BRIDGE} (network/{test})");
        c.missing.iter().any(|text| text.contains(&of))
    };
    assert!(lacks("rr") && lacks("voice") && !lacks("ping"), "{:?}", c.missing);
}

/// A first table has nothing of a test by UDP.
#[test]
fn a_test_that_no_first_table_has_is_missed_only_where_all_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let run = of_tests(dir.path());
    let lose = |record: &mut TrialRecord| {
        for test in record.observations.iter_mut().filter(|test| test.name == "udp") {
            let detail = "made up".to_owned();
            test.validity = Validity::Invalid { reason: InvalidReason::NothingSucceeded, detail };
        }
        true
    };
    let b = changed(&run, &dir.path().join("b"), |_, _| {}, lose);
    let missing = |metrics: &[&str]| compare(&b, &b, &options(metrics, true)).unwrap().missing;
    assert!(missing(&[]).is_empty(), "{:?}", missing(&[]));
    assert_eq!(missing(&[ALL_METRICS]), ["network/udp is in neither run: none of its trials counts."]);
}

/// What every trial tells was looked for where the plan has no trial, as no fault fits.
#[test]
fn an_environment_that_no_measure_is_for_has_no_lifecycle() {
    let dir = tempfile::tempdir().unwrap();
    let mut data = Report::read(&made(dir.path())).unwrap().context.data;
    let is_measured = |data: &RunData| missing::is_measured(data, &data.plan.cells[0], LIFECYCLE);
    assert!(is_measured(&data));
    let faults = fixture::ft::Options { repetitions: 1, ..fixture::ft::Options::default() };
    let of_faults = fixture::ft::create(&dir.path().join("ft"), &faults).unwrap();
    data.plan.measures = of_faults.plan().unwrap().measures;
    data.plan.measures.retain(|measure| measure.kind.failover().is_some());
    for measure in &mut data.plan.measures {
        if let MeasureKind::Failover(failover) = &mut measure.kind {
            failover.faults.clear();
        }
    }
    assert!(!data.plan.measures.is_empty() && !is_measured(&data));
}
