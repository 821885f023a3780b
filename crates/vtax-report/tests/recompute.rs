//! Taxes, intervals and verdicts of stored runs, computed again by a program that shares nothing with vtax.

use std::fs;
use std::path::Path;
use std::process::Command;

use vtax_fixture::{Options, create, network, sip};
use vtax_report::write_all;
use vtax_store::RunDir;
use vtax_sys::require::installed;

/// Has the run's summary computed again; gives how many comparisons agree.
fn recompute(run: &RunDir) -> usize {
    write_all(run).unwrap();
    let plan = run.plan().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recompute.py");
    let done = Command::new("python3")
        .arg(script)
        .arg(run.path())
        .args([plan.margin.0.to_string(), plan.repeat.min.to_string(), plan.repeat.max.to_string()])
        .output()
        .expect("python3 starts");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    said.split(' ').next().and_then(|n| n.parse().ok()).unwrap()
}

#[test]
fn a_web_run_comes_out_the_same() {
    if !installed(&["python3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let options = Options { repetitions: 4, seconds: 3, rate: 400, ..Options::default() };
    assert!(recompute(&create(&dir.path().join("run"), &options).unwrap()) >= 6);
}

#[test]
fn a_network_run_with_borrowed_scatter_comes_out_the_same() {
    if !installed(&["python3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let run = network::create(&dir.path().join("run"), &network::Options::default()).unwrap();
    assert!(recompute(&run) >= 100);
    let summary = run.summary().unwrap();
    assert!(summary.comparisons.iter().any(|c| c.borrowed.is_some()));
}

#[test]
fn a_sip_run_comes_out_the_same() {
    if !installed(&["python3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let run = sip::create(&dir.path().join("run"), &sip::Options::default()).unwrap();
    assert!(recompute(&run) >= 1);
}

/// A real run, kept in `tests/real`, computed again; gives its summary too.
fn real(name: &str) -> (usize, vtax_store::summary::Summary) {
    let dir = tempfile::tempdir().unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real").join(name);
    fs::create_dir(dir.path().join("trials")).unwrap();
    for file in ["journal.jsonl", "plan.yaml", "provenance.json"] {
        fs::copy(kept.join(file), dir.path().join(file)).unwrap();
    }
    let run = RunDir::open(dir.path()).unwrap();
    (recompute(&run), run.summary().unwrap())
}

#[test]
fn a_real_web_run_comes_out_the_same() {
    if !installed(&["python3"]) {
        return;
    }
    // 3 measures with up to 7 rounds, some with 5, and what all trials have: 14 comparisons in the first table, 17 others.
    assert_eq!(real("quick").0, 14 + 17);
}

#[test]
fn a_real_network_run_with_borrowed_scatter_comes_out_the_same() {
    if !installed(&["python3"]) {
        return;
    }
    let (computed, summary) = real("links");
    assert_eq!(computed, 60 + 108);
    assert!(summary.comparisons.iter().filter(|c| c.borrowed.is_some_and(|b| b.weight > 0.0)).count() > 100);
}

#[test]
fn a_real_run_with_bounds_comes_out_the_same() {
    if !installed(&["python3"]) {
        return;
    }
    // The native service was never driven to its limit: three costs are lower bounds.
    let (computed, summary) = real("ft");
    assert_eq!(computed, 3 + 6);
    assert_eq!(summary.comparisons.iter().filter(|c| c.at_least.is_some()).count(), 3);
}
