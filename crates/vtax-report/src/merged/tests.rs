//! Made-up runs of one plan on several hosts.

use std::path::Path;

use vtax_fixture as fixture;
use vtax_plan::model::{Plan, TrialKind};
use vtax_store::record::{CapacityOutcome, Finding, InvalidReason};
use vtax_store::summary::Verdict;
use vtax_store::{Provenance, RunDir, RunWriter};
use vtax_units::Rate;

use super::*;

const CELL: &str = "container.bridge.http";

fn base(dir: &Path) -> RunDir {
    let options = fixture::Options { repetitions: 4, seconds: 2, rate: 400, ..fixture::Options::default() };
    fixture::create(&dir.join("base"), &options).unwrap()
}

/// What a host of that name tells of itself.
fn named(of: &RunDir, name: &str) -> Provenance {
    let mut provenance = of.provenance().unwrap();
    provenance.run_id = String::new();
    provenance.host.name = name.to_owned();
    provenance.host.kernel = format!("6.1.{}", name.len());
    provenance.facts.insert("host.microcode".to_owned(), "0x1".to_owned());
    provenance
}

/// The run as another host would have made it: its container has this share of its capacity there.
fn on_host(of: &RunDir, dir: &Path, names: (&str, &str), share: f64, plan: &Plan) -> Report {
    let mut run = still_going(of, dir, names, share, plan);
    run.completed().unwrap();
    Report::read(run.run()).unwrap()
}

/// The same before it is complete.
fn still_going(of: &RunDir, dir: &Path, names: (&str, &str), share: f64, plan: &Plan) -> RunWriter {
    with_capacity(of, dir, names, plan, |c| {
        c.lower = Rate(c.lower.0 * share);
        c.upper = c.upper.map(|u| Rate(u.0 * share));
    })
}

/// The run as another host would have made it, before it is complete: its searches in the container found something else.
fn with_capacity(
    of: &RunDir,
    dir: &Path,
    (name, directory): (&str, &str),
    plan: &Plan,
    change: impl Fn(&mut CapacityOutcome),
) -> RunWriter {
    let mut run = RunDir::create(dir.join(directory), plan, &named(of, name)).unwrap();
    for mut record in of.trials().unwrap() {
        if record.cell == CELL
            && let Some(Finding::Capacity(found)) = record.finding_mut()
        {
            change(found);
        }
        let writer = run.begin_trial(&record.cell, &record.measure, record.repetition).unwrap();
        run.finish_trial(writer, record).unwrap();
    }
    run
}

fn hosts(dir: &Path, shares: &[f64]) -> Vec<Report> {
    let base = base(dir);
    let plan = base.plan().unwrap();
    let host = |(i, share): (usize, &f64)| {
        let name = format!("n{}", i + 1);
        on_host(&base, dir, (&name, &name), *share, &plan)
    };
    shares.iter().enumerate().map(host).collect()
}

fn capacity(merged: &Merged) -> &MergedRow {
    merged.rows.iter().find(|r| r.cell == CELL && r.metric == "capacity").unwrap()
}

fn refusal(runs: &[Report]) -> String {
    merge(runs, &MergeOptions::default()).unwrap_err().to_string()
}

#[test]
fn each_host_and_the_overall_tax() {
    let dir = tempfile::tempdir().unwrap();
    let runs = hosts(dir.path(), &[0.5, 0.51, 0.49]);
    let merged = merge(&runs, &MergeOptions::default()).unwrap();
    let row = capacity(&merged);
    assert_eq!(row.hosts.iter().map(|h| h.host.as_str()).collect::<Vec<_>>(), ["n1", "n2", "n3"]);
    // The overall tax is the geometric mean of the hosts'.
    let mean = row.hosts.iter().map(|h| h.tax.unwrap().ln()).sum::<f64>() / 3.0;
    let tax = row.tax.unwrap();
    assert!((tax.ln() - mean).abs() < 1e-9, "{row:?}");
    let (low, high) = row.interval.unwrap();
    assert!(low < tax && tax < high && low > 1.5, "{row:?}");
    assert_eq!(row.verdict, Verdict::Worse, "{row:?}");
    assert!(row.hosts.iter().all(|h| h.rounds == 4 && h.interval.is_some() && h.candidate < h.baseline));
    // A host's own tax is what its own report says.
    for (host, run) in row.hosts.iter().zip(&runs) {
        let own =
            run.summary().comparisons.iter().find(|c| c.cell == CELL && c.metric == "capacity").unwrap();
        assert!((own.tax.unwrap() - host.tax.unwrap()).abs() < 1e-9, "{own:?} {host:?}");
        assert_eq!(own.interval, host.interval);
    }
    assert!(merged.warnings.is_empty() && merged.differences.is_empty(), "{merged:?}");
    assert_eq!(serde_json::from_str::<Merged>(&merged.json()).unwrap(), merged);
}

/// Where a run went on until it was sure, its own report widens its intervals; the merged one must not have narrower ones.
#[test]
fn a_host_has_the_interval_of_its_own_report() {
    let dir = tempfile::tempdir().unwrap();
    let base = base(dir.path());
    let mut plan = base.plan().unwrap();
    (plan.repeat.min, plan.repeat.max) = (3, 9);
    let on = |name, directory| on_host(&base, dir.path(), (name, directory), 0.5, &plan);
    let runs = [on("n1", "a"), on("n2", "b"), on("n2", "c")];
    let merged = merge(&runs, &MergeOptions::default()).unwrap();
    let own = runs[0].summary().comparisons.iter().find(|c| c.cell == CELL && c.metric == "capacity");
    let own = own.unwrap().interval.unwrap();
    let hosts = &capacity(&merged).hosts;
    assert_eq!(hosts[0].interval, Some(own));
    // Twice the rounds of another host have an interval of their own, which no report has.
    assert_eq!((hosts[0].rounds, hosts[1].rounds), (4, 8));
    assert!(hosts[1].interval.is_some_and(|interval| interval != own), "{hosts:?}");
}

/// CPU time per request of a closed loop has a tax in each host's report, though no place in its first table.
#[test]
fn what_is_named_is_merged_in_every_measure() {
    let dir = tempfile::tempdir().unwrap();
    let runs = hosts(dir.path(), &[0.5, 0.5]);
    let measures = |names: &[&str]| {
        let metrics = names.iter().map(|m| (*m).to_owned()).collect();
        let merged = merge(&runs, &MergeOptions { metrics }).unwrap();
        let of_cpu = merged.rows.iter().filter(|r| r.cell == CELL && r.metric == "cpu_per_request");
        of_cpu.map(|r| r.measure.clone()).collect::<Vec<String>>()
    };
    assert_eq!(measures(&[]), ["latency"]);
    assert_eq!(measures(&["cpu_per_request"]), ["capacity", "latency", "throughput"]);
    let none = MergeOptions { metrics: vec!["doc".to_owned()] };
    let refused = merge(&runs, &none).unwrap_err().to_string();
    assert!(refused.contains("both have a figure of doc"), "{refused}");
}

#[test]
fn every_form_names_hosts_and_the_odd_one() {
    let dir = tempfile::tempdir().unwrap();
    let merged = merge(&hosts(dir.path(), &[0.9, 0.9, 0.9, 0.2, 0.9]), &MergeOptions::default()).unwrap();
    assert_eq!(capacity(&merged).odd, ["n4"]);
    assert!(capacity(&merged).same.unwrap() < 0.01);
    assert!(
        merged.headline.contains("Over 5 hosts") && merged.headline.ends_with("n4 differs from the others.")
    );
    let (table, html) = (merged.table(), merged.html());
    for text in [&table, &html] {
        assert!(
            text.contains("n4")
                && text.contains("differs")
                && text.contains("all hosts") | text.contains("n5")
        );
    }
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    assert!(!html.contains("<script") && html.ends_with("</html>\n"));
    let out = dir.path().join("out");
    let written = merged.write(&out).unwrap();
    assert_eq!(written.len(), 4);
    let csv = std::fs::read_to_string(out.join("csv/taxes_by_host.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + merged.rows.iter().map(|r| r.hosts.len()).sum::<usize>());
    assert!(out.join("merged.json").exists() && out.join("merged.html").exists());
}

/// A search that ended early on one host found a bound there: that it lies far from what others found shows nothing.
#[test]
fn a_host_that_knows_only_a_bound_is_not_the_odd_one() {
    let dir = tempfile::tempdir().unwrap();
    let base = base(dir.path());
    let plan = base.plan().unwrap();
    let exact = |name| on_host(&base, dir.path(), (name, name), 0.9, &plan);
    let mut bound = with_capacity(&base, dir.path(), ("n4", "n4"), &plan, |c| {
        (c.lower, c.upper) = (Rate(c.lower.0 * 0.2), None);
    });
    bound.completed().unwrap();
    let runs = [exact("n1"), exact("n2"), exact("n3"), Report::read(bound.run()).unwrap()];
    let merged = merge(&runs, &MergeOptions::default()).unwrap();
    let row = capacity(&merged);
    assert_eq!((row.tax, row.interval, row.at_least, row.spread), (None, None, None, None));
    assert_eq!((row.another, row.same, row.odd.len()), (None, None, 0));
    assert!(row.at_most.is_some() && !merged.headline.contains("differ"), "{row:?}");
    // The host has what its own report has; the others' figures are exact.
    let (n1, n4) = (&row.hosts[0], &row.hosts[3]);
    let own = runs[3].summary().comparisons.iter().find(|c| c.cell == CELL && c.metric == "capacity");
    let most = own.unwrap().at_most.unwrap();
    assert_eq!((n4.tax, n4.interval, n4.at_least, n4.at_most), (None, None, None, Some(most)));
    assert_eq!((n4.baseline_at_least, n4.candidate_at_least), (false, true));
    assert!(n1.tax.is_some() && n1.interval.is_some() && n1.at_most.is_none() && !n1.candidate_at_least);
    let (most, html) = (format!("≤ {}", crate::format::tax(most)), merged.html());
    assert!(merged.table().contains(&most) && html.contains(&format!(">{most}<")), "{most}");
    let median = crate::format::typical(n4.candidate, &row.unit, true);
    assert!(html.contains(&format!(">{median}<")), "{median}");
    // Files have no ends that page and terminal hide.
    merged.write(&dir.path().join("out")).unwrap();
    let csv = std::fs::read_to_string(dir.path().join("out/csv/taxes_over_hosts.csv")).unwrap();
    let of_capacity = |line: &&str| line.starts_with(CELL) && line.contains(",capacity,capacity,");
    let cells: Vec<&str> = csv.lines().find(of_capacity).unwrap().split(',').collect();
    let known: Vec<usize> = (6..19).filter(|column| !cells[*column].is_empty()).collect();
    assert_eq!(known, [10, 12], "at_most and corrected_high alone: {cells:?}");
}

#[test]
fn that_no_difference_is_shown_is_said_only_where_no_host_is_odd() {
    let dir = tempfile::tempdir().unwrap();
    let merged = merge(&hosts(dir.path(), &[0.5, 0.51, 0.49]), &MergeOptions::default()).unwrap();
    let (spread, same) = (Some(1.01), Some(0.2));
    let alike = MergedRow { spread, same, odd: Vec::new(), ..capacity(&merged).clone() };
    assert!(table::said(&alike).contains("no difference between hosts is shown"), "{}", table::said(&alike));
    // Each alone is looked at by a test of its own, which may find what the one over all hosts doesn't.
    let said = table::said(&MergedRow { odd: vec!["n3".to_owned()], ..alike });
    assert!(said.contains("n3 differs from the others") && !said.contains("between hosts"), "{said}");
}

#[test]
fn two_hosts_are_too_few_and_runs_of_one_host_are_one() {
    let dir = tempfile::tempdir().unwrap();
    let base = base(dir.path());
    let plan = base.plan().unwrap();
    let on = |name, directory| on_host(&base, dir.path(), (name, directory), 0.5, &plan);
    let merged = merge(&[on("n1", "a"), on("n20", "b"), on("n1", "c")], &MergeOptions::default()).unwrap();
    assert_eq!(merged.hosts.iter().map(|h| h.runs.len()).collect::<Vec<_>>(), [2, 1]);
    let row = capacity(&merged);
    assert_eq!((row.hosts[0].rounds, row.hosts[1].rounds, row.interval), (8, 4, None));
    assert_eq!(row.verdict, Verdict::Inconclusive);
    assert!(row.reason.starts_with("too few hosts: 2, at least 3"), "{}", row.reason);
    assert!(merged.warnings.iter().any(|w| w.contains("2 runs are of n1, which counts as one host")));
    // n1 and n20 have different kernels here, and the same microcode.
    let kernel = merged.differences.iter().find(|d| d.what == "kernel").unwrap();
    assert_eq!(kernel.found["6.1.3"], ["n20"]);
    assert!(merged.differences.iter().all(|d| d.what != "microcode"));
}

#[test]
fn a_host_whose_run_is_not_complete_is_named_unless_another_of_its_runs_is() {
    let dir = tempfile::tempdir().unwrap();
    let base = base(dir.path());
    let plan = base.plan().unwrap();
    let whole = |name, directory| on_host(&base, dir.path(), (name, directory), 0.5, &plan);
    let lost = still_going(&base, dir.path(), ("n2", "lost"), 0.5, &plan);
    let warned = |runs: &[Report]| {
        let merged = merge(runs, &MergeOptions::default()).unwrap();
        merged.warnings.iter().any(|warning| warning.contains("lost is not complete"))
    };
    let mut runs = vec![whole("n1", "first"), Report::read(lost.run()).unwrap()];
    assert!(warned(&runs));
    runs.push(whole("n2", "again"));
    assert!(!warned(&runs));
}

/// A container whose service died in half of its trials has a tax of the other half.
#[test]
fn trials_that_were_left_out_for_their_outcome_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let base = base(dir.path());
    let plan = base.plan().unwrap();
    let merged = |reason: InvalidReason, number: u32| {
        let host = |name: &str| {
            let directory = format!("{name}-{number}");
            let mut run = RunDir::create(dir.path().join(directory), &plan, &named(&base, name)).unwrap();
            for mut record in base.trials().unwrap() {
                if record.cell == CELL && record.measure == "capacity" && record.repetition < 2 {
                    record.validity = Validity::Invalid { reason, detail: "made up".to_owned() };
                }
                let writer = run.begin_trial(&record.cell, &record.measure, record.repetition).unwrap();
                run.finish_trial(writer, record).unwrap();
            }
            run.completed().unwrap();
            Report::read(run.run()).unwrap()
        };
        merge(&["n1", "n2", "n3"].map(host), &MergeOptions::default()).unwrap().warnings
    };
    let died = merged(InvalidReason::ServiceFailed, 1);
    let said = format!(
        "Of 12 trials of {CELL} (capacity), 6 in which the service failed were left out: those that count may be its better ones."
    );
    assert_eq!(died.iter().filter(|warning| **warning == said).count(), 1, "{died:?}");
    assert!(merged(InvalidReason::Disturbed, 2).iter().all(|warning| !warning.contains("better ones")));
}

#[test]
fn what_a_host_left_out_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let base = base(dir.path());
    let plan = base.plan().unwrap();
    let without = |name: &str, left_out: fn(&str) -> bool| {
        let mut run = RunDir::create(dir.path().join(name), &plan, &named(&base, name)).unwrap();
        for record in base.trials().unwrap().into_iter().filter(|record| !left_out(&record.cell)) {
            let writer = run.begin_trial(&record.cell, &record.measure, record.repetition).unwrap();
            run.finish_trial(writer, record).unwrap();
        }
        run.note(Some(CELL), "left out: no user namespaces\nits console said more").unwrap();
        run.completed().unwrap();
        Report::read(run.run()).unwrap()
    };
    let on = |name| on_host(&base, dir.path(), (name, name), 0.5, &plan);
    let container = |cell: &str| cell == CELL;
    let merged =
        merge(&[on("n1"), without("n2", container), without("n3", container)], &MergeOptions::default())
            .unwrap();
    // A host's own report tells it in place of a verdict.
    let own = without("n6", container);
    let own = own.summary().comparisons.iter().find(|c| c.cell == CELL && c.metric == "capacity").unwrap();
    assert_eq!((own.verdict, own.reason.as_str()), (Verdict::Inconclusive, "left out: no user namespaces"));
    let said = format!("{CELL} has no figures from n2, n3 (left out: no user namespaces)");
    assert!(merged.warnings.contains(&said), "{:?}", merged.warnings);
    assert!(merged.table().contains("no user namespaces") && merged.html().contains(&said));
    assert_eq!(capacity(&merged).hosts.len(), 1);
    // Where that leaves nothing to compare, the refusal says it too.
    let candidates = |cell: &str| !cell.starts_with("native");
    let refused = refusal(&[without("n4", candidates), without("n5", candidates)]);
    let said = said.replace("n2, n3", "n4, n5");
    assert!(refused.contains("no host has a round") && refused.contains(&said), "{refused}");
}

#[test]
fn latency_is_added_up_not_averaged() {
    let dir = tempfile::tempdir().unwrap();
    let runs = hosts(dir.path(), &[0.9, 0.9, 0.9]);
    let merged = merge(&runs, &MergeOptions::default()).unwrap();
    let latency = merged.latency.iter().find(|l| l.cell == CELL).unwrap();
    let of = |run: &Report| run.context.data.latency[&(CELL.to_owned(), latency.measure.clone())].len();
    assert_eq!(latency.answers, runs.iter().map(of).sum::<u64>());
    assert_eq!((latency.hosts, latency.histogram.len()), (3, latency.answers));
    let (value, low, high) = latency.percentiles["99"];
    assert!(low <= value && value <= high && value > 0.0);
}

#[test]
fn what_cannot_be_taken_together_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let base = base(dir.path());
    let plan = base.plan().unwrap();
    let run = |directory| on_host(&base, dir.path(), (directory, directory), 0.5, &plan);
    let again = |directory| Report::read(&RunDir::open(dir.path().join(directory)).unwrap()).unwrap();
    let first = run("a");
    assert_eq!(refusal(&[again("a")]), "to merge takes at least two runs");
    assert!(refusal(&[again("a"), first]).contains("are the same run"));
    let mut other = plan.clone();
    other.budget.sut_cpus = Some(7);
    other.measures.pop();
    let other = on_host_without(&base, dir.path(), "b", &other);
    let text = refusal(&[again("a"), other]);
    for words in ["can't be merged", "budget.sut_cpus", "is in one of", "to merge them: run the same plan"] {
        assert!(text.contains(words), "`{words}` is not in: {text}");
    }
    let mut duet = plan.clone();
    duet.repeat.trials = TrialKind::Duet;
    let text = refusal(&[again("a"), on_host_without(&base, dir.path(), "d", &duet)]);
    assert!(text.contains("repeat.trials of latency is single in") && text.contains("duet in"), "{text}");
    let options = MergeOptions { metrics: vec!["speed".to_owned()] };
    assert!(merge(&[again("a"), run("c")], &options).unwrap_err().to_string().contains("no metric `speed`"));
}

/// A run without trials.
fn on_host_without(of: &RunDir, dir: &Path, directory: &str, plan: &Plan) -> Report {
    let mut provenance = of.provenance().unwrap();
    provenance.run_id = String::new();
    let run = RunDir::create(dir.join(directory), plan, &provenance).unwrap();
    Report::read(run.run()).unwrap()
}
