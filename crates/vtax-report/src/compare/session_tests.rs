//! Several made-up runs of each side.

use std::path::Path;

use vtax_fixture::sip;
use vtax_store::ims::Doc;
use vtax_store::record::Finding;
use vtax_store::summary::{MetricSummary, Verdict};
use vtax_store::{Provenance, RunDir};
use vtax_units::Rate;

use super::tests::{changed, every_form_says, gated, made};
use super::*;
use crate::families::named;

/// Runs of one plan whose container has these shares of its capacity, each in a session of its own.
fn sessions(of: &RunDir, dir: &Path, shares: &[f64]) -> Vec<Report> {
    let made = shares.iter().enumerate().map(|(number, share)| {
        let name = format!("{}", number + 1);
        let with = |p: &mut Provenance| p.run_id = format!("{}-{name}", dir.display());
        changed(
            of,
            &dir.join(&name),
            |_, p| with(p),
            |record| {
                if record.cell == "container.bridge.http"
                    && let Some(Finding::Capacity(c)) = record.finding_mut()
                {
                    c.lower = Rate(c.lower.0 * share);
                    c.upper = c.upper.map(|u| Rate(u.0 * share));
                }
                true
            },
        )
    });
    made.collect()
}

fn of_runs(a: &[Report], b: &[Report], options: &Options) -> Result<RunComparison, CompareError> {
    compare_runs(Runs::new(a).unwrap(), Runs::new(b).unwrap(), options)
}

/// Sessions that differ by 5 % among themselves say nothing of a service that did not change, however well the trials of any two of
/// them agree.
#[test]
fn what_differs_between_sessions_is_in_an_interval_of_several_runs() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let a = sessions(&run, &dir.path().join("main"), &[1.0, 0.95, 1.05, 0.9]);
    let b = sessions(&run, &dir.path().join("branch"), &[0.85, 0.97, 1.02, 0.9]);
    let options = Options { metrics: vec!["capacity".to_owned()], ..gated(0.02) };
    let in_container = |c: &RunComparison| {
        c.rows.iter().find(|row| row.comparison.cell == "container.bridge.http").unwrap().clone()
    };
    // One of each: a difference that is the sessions'.
    let one = in_container(&compare(&a[0], &b[0], &options).unwrap());
    assert_eq!((one.comparison.verdict, one.gate), (Verdict::Worse, Some(GateVerdict::Fail)));
    let c = of_runs(&a, &b, &options).unwrap();
    let row = in_container(&c);
    assert_eq!((row.comparison.verdict, row.gate), (Verdict::Inconclusive, Some(GateVerdict::CantTell)));
    let (low, high) = row.comparison.interval.unwrap();
    assert!(low < 0.95 && high > 1.1, "{low} to {high}");
    // Each run counts once, as the median of its trials.
    let figures = row.a.unwrap();
    let medians: Vec<f64> = a.iter().map(|run| figures_in_container(run).center).collect();
    assert_eq!((figures.n, figures.values), (4, medians));
    assert_eq!((c.a.runs(), c.b.runs(), c.a.trials), (4, 4, 4 * one_side(&a[0]).trials));
    every_form_says(&c, "Intervals are of 4 runs of A and 4 of B, each of which counts once");
    every_form_says(&c, &c.a.more[2]);
    let read: RunComparison = serde_json::from_str(&c.json()).unwrap();
    assert_eq!((read.a.more, read.b.more), (c.a.more, c.b.more));
    // A change that all sessions agree on is seen.
    let slower = sessions(&run, &dir.path().join("slower"), &[0.5, 0.49, 0.52, 0.47]);
    let row = in_container(&of_runs(&a, &slower, &options).unwrap());
    assert_eq!((row.comparison.verdict, row.gate), (Verdict::Worse, Some(GateVerdict::Fail)));
}

fn figures_in_container(run: &Report) -> MetricSummary {
    let cells = &run.context.summary.cells;
    let found = cells.iter().find(|c| c.cell == "container.bridge.http" && c.measure == "capacity");
    found.unwrap().metrics["capacity"].clone()
}

fn one_side(run: &Report) -> Side {
    Runs::one(run).side()
}

#[test]
fn runs_that_are_no_sessions_of_one_plan_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let a = sessions(&run, &dir.path().join("a"), &[1.0, 1.0, 1.0]);
    let refused = |a: &[Report], b: &[Report]| of_runs(a, b, &Options::default()).unwrap_err().to_string();
    let text = refused(&a, &sessions(&run, &dir.path().join("few"), &[1.0, 1.0]));
    assert!(text.contains("too few runs: 3 in A, 2 in B"), "{text}");
    assert!(text.contains("make at least three runs of each side"), "{text}");
    let text = refused(&a, &a);
    assert_eq!(text.matches("are the same run").count(), 3, "{text}");
    // Every run is held to the first, and named.
    let mut b = sessions(&run, &dir.path().join("b"), &[1.0, 1.0]);
    let other = dir.path().join("b/other");
    b.push(changed(&run, &other, |plan, _| plan.budget.sut_cpus = Some(7), |_| true));
    let text = refused(&a, &b);
    let [first, other] = [dir.path().join("a/1"), other].map(|path| path.display().to_string());
    assert!(text.contains(&format!("in {first}, 7 in {other}")), "{text}");
    // Within a side, too.
    assert!(refused(&b, &a).contains("budget.sut_cpus"));
}

#[test]
fn versions_that_differ_among_runs_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let a = sessions(&run, &dir.path().join("a"), &[1.0, 1.0, 1.0]);
    let b: Vec<Report> = ["2.2", "2.3", "2.2"]
        .iter()
        .enumerate()
        .map(|(number, version)| {
            let set = |p: &mut Provenance| {
                p.run_id = format!("b{number}");
                p.packages.insert("made-up".to_owned(), (*version).to_owned());
                let sockets = &mut p.nodes.entry("native/sut".to_owned()).or_default().sockets;
                sockets.insert("ipv4/tcp_congestion_control".to_owned(), "bbr".to_owned());
            };
            let name = format!("b{number}");
            changed(&run, &dir.path().join(name), |_, p| set(p), |_| true)
        })
        .collect();
    let changes = of_runs(&a, &b, &Options::default()).unwrap().changes;
    for told in [
        "made-up is none in A, 2.2 or 2.3 in B",
        "TCP congestion control of node native/sut is none in A, bbr in B",
    ] {
        assert!(changes.iter().any(|change| change == told), "{told}: {changes:?}");
    }
}

/// A change after which the service no longer starts in every run must not pass as if those runs hadn't been made.
#[test]
fn runs_without_a_figure_are_told_and_are_not_let_pass() {
    let dir = tempfile::tempdir().unwrap();
    let run = made(dir.path());
    let a = sessions(&run, &dir.path().join("a"), &[1.0, 1.01, 0.99, 1.0]);
    let mut b = sessions(&run, &dir.path().join("b"), &[1.0, 1.0, 0.99]);
    let broken = |record: &mut vtax_store::record::TrialRecord| record.cell != "container.bridge.http";
    let setup = |_: &mut vtax_plan::model::Plan, p: &mut Provenance| p.run_id = "broken".to_owned();
    b.push(changed(&run, &dir.path().join("b/broken"), setup, broken));
    let of = |b: &[Report], strict| {
        let options = Options { metrics: vec!["capacity".to_owned()], strict, ..gated(0.5) };
        let c = of_runs(&a, b, &options).unwrap();
        let row = c.rows.iter().find(|row| row.comparison.cell == "container.bridge.http").unwrap().clone();
        (row.gate, c)
    };
    let told = "(capacity) of container.bridge.http: 3 of 4 runs of B have a figure; the others are not in the interval.";
    let (held, c) = of(&b, false);
    assert_eq!((held, c.passes()), (Some(GateVerdict::Pass), true));
    let warned =
        |c: &RunComparison| c.warnings.iter().filter(|w| w.contains("are not in the interval")).count();
    assert!(c.warnings.iter().any(|w| w.ends_with(told)) && warned(&c) == 1, "{:?}", c.warnings);
    let (held, c) = of(&b, true);
    assert_eq!((held, c.passes(), warned(&c)), (Some(GateVerdict::CantTell), false, 1));
    every_form_says(&c, "within the limit, but not all runs have a figure");
    assert!(c.junit().contains("but not all runs have a figure"));
    // All of them have one.
    let (held, c) = of(&a_session_more(&run, dir.path()), true);
    assert_eq!((held, c.passes(), warned(&c)), (Some(GateVerdict::Pass), true, 0), "{:?}", c.warnings);
}

fn a_session_more(of: &RunDir, dir: &Path) -> Vec<Report> {
    sessions(of, &dir.join("whole"), &[1.0, 1.0, 0.99, 1.01])
}

/// A run's tax is of the middles of its trials' brackets: the widest one doesn't move that of the trial with the median.
#[test]
fn a_capacity_of_several_runs_is_compared_by_the_middles_of_trials() {
    let dir = tempfile::tempdir().unwrap();
    let small = sip::Options { repetitions: 3, step: 4, steps: 3, ..sip::Options::default() };
    let run = sip::create(&dir.path().join("run"), &small).unwrap();
    let bracketed = |name: &str| {
        changed(
            &run,
            &dir.path().join(name),
            |_, _| {},
            |record| {
                let (passed, failed) = if record.repetition == 0 { (50.0, 60.0) } else { (60.0, 70.0) };
                if let Some(Finding::Ims(ims)) = record.finding_mut() {
                    ims.doc = Some(Doc { requested: Rate(passed), effective: Rate(passed), phase: 4 });
                    ims.failed = Some(Rate(failed));
                }
                true
            },
        )
    };
    let runs = ["1", "2", "3"].map(bracketed);
    let (side, doc) = (Runs::new(&runs).unwrap(), named("doc").unwrap());
    let cell = &side.data().plan.cells[0].id;
    let taxed: Vec<f64> = side.values(cell, "ims", doc).iter().map(|value| value.for_tax()).collect();
    // The square root of 60 * 70; the median's lower end and the widest bracket make 65.7.
    assert!(taxed.len() == 3 && taxed.iter().all(|middle| (middle - 64.807_407).abs() < 1e-5), "{taxed:?}");
    // What is shown is the capacity of each run, which is a load that passed.
    let shown = side.figures(cell, "ims", doc).unwrap().values;
    assert!(shown.len() == 3 && shown.iter().all(|value| (value - 60.0).abs() < 1e-9), "{shown:?}");
}
