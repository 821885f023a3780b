//! `vtax run` with SIP: small benchmarks from the plan to the report.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use vtax_sys::require::{Need, need};
use vtax_testkit::runs::each_once;

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");

/// One at a time: each would take the other's CPUs, and its trials would be made again.
static MACHINE: Mutex<()> = Mutex::new(());

/// Runs a plan with so many measures; every trial that ended. On a busy machine none may count, but all have a result.
fn run(directory: &Path, measures: &str, workload: &str, count: usize) -> Vec<Value> {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = format!(
        "vtax: 1\nname: small\nbaseline: native\nenvironments: native\nservices: sip\n\
         workload: {{sip: {{subscribers: 400, ring_time: 20ms, hold_time: {{constant: 100ms}}, {workload}}}}}\n\
         measure: [{measures}]\nrepeat: 1\n"
    );
    let ended = each_once(VTAX, directory, &plan, &[], count);
    assert!(ended.iter().all(|trial| trial["observations"][0]["result"]["kind"] == "ims"), "{ended:?}");
    assert!(directory.join("run/trials/000/phases.jsonl").exists());
    ended
}

fn names(trial: &Value) -> Vec<&str> {
    let phases = trial["observations"][0]["result"]["phases"].as_array().expect("a list");
    phases.iter().map(|phase| phase["name"].as_str().expect("text")).collect()
}

#[test]
fn a_search_finds_a_capacity_and_a_rate_is_measured() {
    if !need(&[Need::Root]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let ims = "ims: {registration_rate: 400/s, registration_ihs_limit: 90%, ihs_limit: 90%, step: 600ms, \
               transient: 100ms, ramp: {search: {start: 16/s, max: 20/s, precision: 50%, step: 500ms}}}";
    // A search begins up to its precision lower: what it doubles to is above the most.
    let latency = "latency: {load: 20/s, warmup: 100ms, duration: 500ms}";
    let trials = run(directory.path(), &format!("{ims}, {latency}"), "addresses: 3", 2);
    let first = &trials[0];
    assert_eq!(first["measure"], "ims");
    assert_eq!(names(first), ["pre-registration", "search 1", "search 2", "confirmation"], "{first}");
    assert_eq!(first["observations"][0]["result"]["doc"]["requested"], "20/s");
    assert!(first["observations"][0]["result"]["probe_clocks"]["sut"].is_i64());
    let last = trials.last().expect("several");
    assert_eq!(
        (last["measure"].as_str(), names(last)),
        (Some("latency@20"), vec!["pre-registration", "load"])
    );
}

#[test]
fn a_staircase_over_tcp_ends_with_its_last_step() {
    if !need(&[Need::Root]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let ims = "ims: {registration_rate: 400/s, registration_ihs_limit: 90%, ihs_limit: 90%, stir: 400ms, stir_steps: 2, \
               stir_ihs_limit: 90%, step: 500ms, transient: 100ms, ramp: {steps: {initial: 20/s, increase: 10/s, count: 2}}}";
    // One failure of a few attempts must not end it.
    let mix = "transport: tcp, mix: {calling: {share: 50%, ihs_limit: 99%}, messaging: {share: 50%, ihs_limit: 99%}}";
    let trials = run(directory.path(), ims, mix, 1);
    assert_eq!(names(&trials[0]), ["pre-registration", "stir 1", "stir 2", "step 1", "step 2"]);
    assert_eq!(trials[0]["observations"][0]["result"]["doc"]["requested"], "30/s");
    assert!(trials[0]["observations"][0]["result"]["failed"].is_null());
}
