//! Taxes, intervals and verdicts of stored runs, computed again by a program that shares nothing with vtax.

use std::path::Path;
use std::process::Command;

use vtax_fixture::{Options, create, network, sip};
use vtax_report::write_all;
use vtax_store::RunDir;

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
        .expect("python3, which `vtax setup --tests` installs");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    said.split(' ').next().and_then(|n| n.parse().ok()).unwrap()
}

#[test]
fn a_web_run_comes_out_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { repetitions: 4, seconds: 3, rate: 400, ..Options::default() };
    assert!(recompute(&create(&dir.path().join("run"), &options).unwrap()) >= 6);
}

#[test]
fn a_network_run_with_borrowed_scatter_comes_out_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let run = network::create(&dir.path().join("run"), &network::Options::default()).unwrap();
    assert!(recompute(&run) >= 100);
    let summary = run.summary().unwrap();
    assert!(summary.comparisons.iter().any(|c| c.borrowed.is_some()));
}

#[test]
fn a_sip_run_comes_out_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let run = sip::create(&dir.path().join("run"), &sip::Options::default()).unwrap();
    assert!(recompute(&run) >= 1);
}
