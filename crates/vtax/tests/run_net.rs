//! `vtax run` with network tests: a small links plan from the plan to the report.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard};

use serde_json::Value;
use vtax_sys::require::{Need, installed, need};
use vtax_sys::sync::lock;
use vtax_testkit::runs::{each_once, trials};
use vtax_units::Nanos;

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");

const PLAN: &str = "\
vtax: 1
name: small
baseline: {environment: native, path: direct}
environments: native
paths: [direct, bridge]
workload:
  - tcp: {window: [8K, auto]}
  - udp: {rate: 10mbit}
  - ping: {probe: [icmp, udp], rate: 200/s}
  - rr
  - voice: {streams: 5}
measure:
  - network: {warmup: 50ms, duration: 400ms}
repeat: {min: 1, max: 1, budget: 1s}
";

fn vtax(args: &[&str], paths: &[&Path]) -> Output {
    Command::new(VTAX).args(args).args(paths).output().expect("it starts")
}

fn tests(trial: &Value) -> Vec<&Value> {
    let mut tests: Vec<&Value> = trial["observations"].as_array().expect("a list").iter().collect();
    tests.sort_by_key(|test| test["name"].as_str().map(str::to_owned));
    tests
}

/// One at a time: each has the machine's CPUs for its generator.
static MACHINE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    lock(&MACHINE)
}

#[test]
fn every_test_is_made_on_the_testbed_of_a_trial_and_its_bytes_are_checked() {
    if !need(&[Need::Root]) {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let trials = each_once(VTAX, directory.path(), PLAN, &["measure.network.capture=true"], 2);
    for path in ["direct", "bridge"] {
        assert!(trials.iter().any(|trial| trial["cell"] == format!("native.{path}.peer")), "{path}");
    }
    for trial in &trials {
        let names: Vec<&str> = tests(trial).iter().filter_map(|test| test["name"].as_str()).collect();
        let expected =
            ["ping.probe-icmp", "ping.probe-udp", "rr", "tcp.window-8K", "tcp.window-auto", "udp", "voice"];
        assert_eq!(names, expected, "{trial}");
        for test in tests(trial) {
            // A generator that shares its CPU with a compiler may be too slow for its rate, and a receiver
            // that got no CPU may count nothing until the test is over.
            let reason = test["validity"]["reason"].as_str();
            assert!(matches!(reason, None | Some("generator-limited" | "nothing-succeeded")), "{test}");
            let checks = test["result"]["checks"].as_array().expect("a list");
            let echo = test["result"]["result"]["kind"] == "ping";
            assert_eq!(checks.is_empty(), echo, "{test}");
            assert!(test["facts"]["capture.failed"].is_null(), "{test}");
            let captured = checks.iter().any(|check| check["by"] == "capture");
            assert!(echo || captured || !test["facts"]["capture.dropped"].is_null(), "{test}");
            for check in checks {
                let [found, least, most] =
                    ["found", "least", "most"].map(|key| check[key].as_f64().expect("a number"));
                assert!(found >= least * 0.995 && found <= most * 1.005, "{check}");
            }
        }
        let small = tests(trial)[3];
        let facts = &small["result"]["result"]["up"]["receiver"]["connections"][0];
        assert_eq!(facts["receive_buffer"], 16_384, "what the kernel gave is told: {facts}");
    }
    assert_compared_and_resumed(directory.path());
}

/// Nothing is missing, so nothing is made again.
fn assert_resumed(directory: &Path, trials: usize) {
    let output = vtax(&["run", "--resume"], &[&directory.join("run")]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    let journal = std::fs::read_to_string(directory.join("run/journal.jsonl")).expect("still there");
    assert_eq!(journal.lines().filter(|line| line.contains("\"trial-ended\"")).count(), trials);
}

/// A run of other tests under the same names of cells is no run to compare with. That one came to its end by itself, so to resume it
/// makes no trial.
fn assert_compared_and_resumed(directory: &Path) {
    let other = tempfile::tempdir().expect("a directory");
    let changes = ["workload=[{tcp: {window: 16K}}]", "paths=[direct, bridge]"];
    let whole = trials(VTAX, other.path(), PLAN, &changes);
    let output = vtax(&["compare"], &[&directory.join("run"), &other.path().join("run")]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("workload"), "{output:?}");
    assert_resumed(other.path(), whole.len());
}

#[test]
fn a_transfer_outlives_a_short_cut_and_the_silence_is_told() {
    if !need(&[Need::Root]) {
        return;
    }
    let _alone = alone();
    let cut = "measure.network={warmup: 0s, duration: 1200ms, cut: {at: 200ms, lasting: 300ms}}";
    let changes = ["repeat.budget=2s", "workload=tcp", "paths=[direct]", "baseline=native", cut];
    let silences = || -> Vec<u64> {
        let directory = tempfile::tempdir().expect("a directory");
        let told = |trial: &Value| {
            let test = tests(trial)[0];
            let reason = test["validity"]["reason"].as_str();
            // On a busy machine the test may be over before it is cut, or carry nothing: it is made again.
            if !test["facts"]["cut.failed"].is_null() || reason == Some("nothing-succeeded") {
                return 0;
            }
            assert!(matches!(reason, None | Some("disturbed")), "{test}");
            test["facts"]["cut.silence_ns"].as_str().expect("told").parse().expect("a number")
        };
        each_once(VTAX, directory.path(), PLAN, &changes, 1).iter().map(told).collect()
    };
    // On a busy machine a cut may come when the transfer is over.
    let mut made: Vec<Vec<u64>> = Vec::new();
    let within = |silence: &u64| (200_000_000..1_200_000_000).contains(silence);
    while made.len() < 4 && !made.last().is_some_and(|trials| trials.iter().all(within)) {
        made.push(silences());
    }
    assert!(made.last().is_some_and(|trials| !trials.is_empty() && trials.iter().all(within)), "{made:?}");
}

const IN_USER_SPACE: &str = "\
vtax: 1
name: small
baseline: {environment: native, path: bridge}
environments: native
paths: [bridge, pasta]
services: http
workload: {http: {target: /bytes/100, connections: 4}}
measure:
  - latency: {load: 2000/s, warmup: 0s, duration: 1s}
repeat: 1
";

/// No CPU relays a request and its answer in less.
const LEAST_NS: u64 = 1_000;

/// It runs on the system's CPUs, so that it would be taken for a stranger that disturbs every trial, and its time would be nobody's.
#[test]
fn a_network_in_user_space_is_part_of_what_its_system_costs() {
    if !need(&[Need::Root]) || !installed(&["pasta"]) {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let trials = each_once(VTAX, directory.path(), IN_USER_SPACE, &[], 2);
    let mut seen = 0;
    for trial in trials.iter().filter(|trial| trial["cell"] == "native.pasta.http") {
        let Some(layers) = trial["observations"][0]["cpu"]["layers"].as_array() else { continue };
        let supervisor = layers.iter().find(|layer| layer["layer"] == "supervisor").expect("the layer");
        let counted: Nanos = serde_json::from_value(supervisor["time"].clone()).expect("a time");
        let all = trial["facts"]["path.pasta.cpu_ns"].as_str().expect("told");
        let all: u64 = all.parse().expect("a number");
        let answered = trial["observations"][0]["cpu"]["requests"].as_u64().expect("a number");
        // It reads and writes each request and each answer once, which takes four system calls. Its time outside of the load, such as
        // while the trial waits for the machine, is no part of that.
        assert!(answered > 0, "{trial}");
        let least = answered * LEAST_NS;
        assert!(
            (least..=all).contains(&counted.0),
            "{counted:?} of {all} ns, for {answered} requests: {trial}"
        );
        seen += 1;
    }
    assert!(seen > 0, "no trial has an account: {trials:?}");
}
