//! `vtax run` with fault tolerance: a protected guest loses its host under load, and what can't be protected
//! is said.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use vtax_sys::require::{Need, need, possible, watched};
use vtax_testkit::runs::ended;

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");

/// Requests may wait for long: where other pairs share the CPU, a guest was silent for six seconds, and one that is given up takes its
/// connection along.
const HTTP: &str = "services: http\nworkload: {http: {target: /bytes/100, connections: 4, timeout: 30s}}\n";

/// Runs a plan with one protected environment and this service and workload; the exit code, what was printed, and the run
/// directory.
fn run(directory: &Path, fault_tolerance: &str, of: &str) -> (Option<i32>, String, PathBuf) {
    let plan = format!(
        "vtax: 1\nname: small\nbaseline: guest\n\
         environments: {{vm: {{name: guest, memory: 384MiB, fault_tolerance: {fault_tolerance}}}}}\n\
         {of}measure: {{failover: {{load: 40/s, warmup: 500ms, duration: 5s}}}}\n\
         faults: [{{at: 2s, kill: primary-host}}, {{at: 3s, restore: hosts}}]\n\
         repeat: 1\nbudget: {{sut_memory: 384MiB}}\n"
    );
    let file = directory.join("plan.yaml");
    std::fs::write(&file, plan).expect("written");
    let out = directory.join("run");
    let output = Command::new(VTAX).arg("run").arg(&file).arg("--out").arg(&out).output().expect("it starts");
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text, out)
}

/// Nanoseconds of a duration in the journal, such as `4105805268ns` or `5s`.
fn time(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is no time"));
    text.parse::<vtax_units::Nanos>().expect("a duration").0
}

/// The trial that counts of such a run: those before it were disturbed, or their load came late. `None`, which is told, where that is
/// so of all, on a machine that kept others from running too.
fn counted(run: impl FnOnce() -> (Option<i32>, String, PathBuf)) -> Option<(Value, String, PathBuf)> {
    let ((code, text, out), busy) = watched(run);
    assert!(out.join("journal.jsonl").exists(), "{text}");
    let trials = ended(&out);
    let valid = |trial: &Value| trial["validity"]["validity"] == "valid";
    let taken = |reason: &Value| reason == "disturbed" || reason == "generator-limited";
    let disturbed = |trial: &Value| taken(&trial["validity"]["reason"]);
    assert!(trials.iter().all(|trial| valid(trial) || disturbed(trial)), "{text}\n{trials:?}");
    let none = busy && code == Some(3) && !trials.is_empty() && trials.iter().all(disturbed);
    if !possible(none.then_some("this machine is too busy for a failover that counts")) {
        return None;
    }
    assert_eq!(code, Some(0), "{text}");
    Some((trials.into_iter().find(valid).expect("a trial that counts"), text, out))
}

/// Every request of this trial is kept.
fn assert_samples(run: &Path, trial: &Value) {
    let number = trial["index"].as_u64().expect("its number");
    assert!(run.join(format!("trials/{number:03}/samples.parquet")).exists(), "{number}");
}

/// The trial that counts, with requests of HTTP.
fn measured(fault_tolerance: &str) -> Option<Value> {
    let directory = tempfile::tempdir().expect("a directory");
    counted(|| run(directory.path(), fault_tolerance, HTTP)).map(|(trial, ..)| trial)
}

#[test]
fn a_protected_service_outlives_its_host() {
    if !need(&[Need::Root, Need::Vm]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let Some((trial, _, out)) = counted(|| run(directory.path(), "kemari", HTTP)) else { return };
    let outcome = &trial["observations"][0]["result"];
    let fault = &outcome["faults"][0];
    assert_eq!((&outcome["kind"], &fault["protected"]), (&"failover".into(), &true.into()), "{trial}");
    assert_eq!(fault["recovered"]["how"], "promoted", "{fault}");
    let order =
        [&fault["injected"], &fault["detected"], &fault["fenced"], &fault["recovered"]["at"]].map(time);
    assert!(order.is_sorted(), "{fault}");
    let first = time(&fault["seen"]["first_answer"]);
    assert!(first >= order[3], "{fault}");
    // Memory and connections went along.
    assert_eq!(fault["seen"]["connections"]["lost"], 0, "{fault}");
    assert_eq!(trial["protection"]["mode"], "kemari");
    assert!(trial["protection"]["checkpoints"][0]["count"].as_u64().expect("a number") > 10, "{trial}");
    assert_samples(&out, &trial);
}

/// What clients and checkpoints send goes over one card of each host, and a failover moves the guest to the other host's.
#[test]
fn a_host_has_one_card_for_the_service_and_checkpoints() {
    if !need(&[Need::Root, Need::Vm]) {
        return;
    }
    let Some(trial) = measured("{mode: kemari, cards: shared, link: 2gbit}") else { return };
    let fault = &trial["observations"][0]["result"]["faults"][0];
    assert_eq!(
        (&fault["protected"], &fault["recovered"]["how"]),
        (&true.into(), &"promoted".into()),
        "{fault}"
    );
    let counts = &trial["observations"][0]["result"]["load"]["counts"];
    assert_eq!(fault["seen"]["connections"]["lost"], 0, "{fault}\n{counts}\n{}", trial["protection"]);
    assert!(trial["protection"]["link_bytes"].as_u64().expect("a number") > 1_000_000, "{trial}");
}

/// The first of two pairs loses its host; the other stays protected, and what is told of clients is told of the first's.
#[test]
fn one_of_two_pairs_loses_its_host() {
    if !need(&[Need::Root, Need::Vm]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let one_by_one = format!("{HTTP}consolidation: {{start: one-by-one}}\n");
    let Some((trial, ..)) = counted(|| run(directory.path(), "kemari, count: 2", &one_by_one)) else {
        return;
    };
    let fact = |name: &str| trial["facts"][name].as_str().and_then(|text| text.parse::<u64>().ok());
    let fact = |name: &str| fact(name).unwrap_or_else(|| panic!("no {name}: {trial}"));
    let second_started = fact("sut-2.up_ns") - fact("sut-2.boot_ns");
    // What the first needed once it was spoken to is in its boot, and is a small part of it.
    assert!(second_started > fact("sut.boot_ns") / 2, "the second waited for the first to boot: {trial}");
    assert!(fact("sut.up_ns") >= second_started, "all are spoken to when the last is started: {trial}");
    let outcome = &trial["observations"][0]["result"];
    let fault = &outcome["faults"][0];
    assert_eq!(
        (&fault["protected"], &fault["recovered"]["how"]),
        (&true.into(), &"promoted".into()),
        "{fault}"
    );
    assert_eq!(outcome["offered"], "20/s", "its part of 40/s");
    assert!(fault["seen"]["attempts"].as_u64().expect("a number") > 0, "{fault}");
    let other = &trial["further_protection"]["sut-2"];
    assert_eq!(
        (&other["mode"], &other["problems"]),
        (&"kemari".into(), &Value::Array(Vec::new())),
        "{other}"
    );
    assert!(other["checkpoints"][0]["count"].as_u64().expect("a number") > 10, "{other}");
    // Its other host runs nothing that the first's failure could have started.
    assert_eq!(other["armed_in"].as_array().map(Vec::len), Some(1), "{other}");
}

#[test]
fn a_host_that_is_too_small_ends_the_run_with_what_to_do() {
    if !need(&[Need::Root, Need::Vm]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (code, text, _) = run(directory.path(), "{mode: kemari, secondary_memory: 64MiB}", HTTP);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("raise `secondary_memory`"), "{text}");
}

/// tgt acknowledges writes before they are on its disk, but the copy of the guest has everything that its clients were told.
#[test]
fn acknowledged_writes_outlive_the_host() {
    if !need(&[Need::Root, Need::Vm]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let storage = "services: {tgt: {size: 2MiB, ready_timeout: 120s}}\n\
                   workload: {storage: {operations: mix-30, size: 2MiB, depth: 32, timeout: 30s}}\n";
    let Some((trial, text, out)) = counted(|| run(directory.path(), "kemari", storage)) else { return };
    let outcome = &trial["observations"][0]["result"];
    assert_eq!(outcome["faults"][0]["recovered"]["how"], "promoted", "{outcome}");
    let load = &outcome["load"];
    let back = &load["read_back"];
    // 40 a second for 5.5 s, 70 % of them writes: most were acknowledged.
    assert!(back["acknowledged"].as_u64().expect("a number") > 80, "{back}");
    assert_eq!(back["verified"]["records"], 512, "{back}");
    for wrong in ["lost", "stale", "torn", "misplaced", "corrupt"] {
        assert_eq!((&back["verified"][wrong], &load["verified"][wrong]), (&0.into(), &0.into()), "{load}");
    }
    assert_eq!(back["unread"], 0, "{back}");
    assert!(text.contains("acknowledged writes") && text.contains("passed"), "{text}");
    assert_samples(&out, &trial);
}
