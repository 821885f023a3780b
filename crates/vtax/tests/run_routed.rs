//! `vtax run` over routers: every family of workloads reaches its service through them.

use std::sync::Mutex;

use serde_json::Value;
use vtax_sys::require::{Need, need};
use vtax_sys::sync::lock;
use vtax_testkit::runs::each_once;

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");

/// Two routers that speak OSPF, on the host or in a guest, whichever its kernel allows.
const PLAN: &str = "\
vtax: 1
name: routed
baseline: {environment: native, path: two}
environments: native
paths: [{routed: {name: two, topology: {custom: {routers: [west, east], links: [{between: [west, east]}], client: west, sut: east}}}}]
services: http
workload: {http: {target: /bytes/100, connections: 2}}
measure: {latency: {load: 50/s, warmup: 200ms, duration: 1s}}
repeat: {min: 1, max: 1, budget: 90s}
";

/// One at a time: each would take the other's CPUs, and its trials would be made again.
static MACHINE: Mutex<()> = Mutex::new(());

/// The first trial of the plan with other services, another workload and another measure.
fn trial(service: &str, workload: &str, measure: &str) -> Value {
    let _alone = lock(&MACHINE);
    let directory = tempfile::tempdir().expect("a directory");
    let changes = [
        format!("services=[{service}]"),
        format!("workload={{{workload}}}"),
        format!("measure=[{{{measure}}}]"),
        "margin=10%".to_owned(),
    ];
    let changes: Vec<&str> = changes.iter().map(String::as_str).collect();
    let trial = each_once(VTAX, directory.path(), PLAN, &changes, 1).swap_remove(0);
    let facts = trial["facts"].to_string();
    assert!(facts.contains("path.lab."), "it went through no router: {facts}");
    trial
}

const LATENCY: &str = "latency: {load: 20/s, warmup: 200ms, duration: 1500ms}";

#[test]
fn files_and_desktops_are_reached_through_routers() {
    if !need(&[Need::Root]) {
        return;
    }
    let ftp = trial("ftp", "ftp: {size: 10KB, transfers: 2, clients: 2}", LATENCY);
    let desktop = trial(
        "{tigervnc: {sessions: 1, width: 640, height: 480}}",
        "desktop: {actions: mix, rate: 4/s}",
        "latency: {load: 4/s, warmup: 500ms, duration: 2s}",
    );
    for found in [ftp, desktop] {
        let counts = &found["observations"][0]["result"]["load"]["counts"];
        assert!(counts["ok"].as_u64() > Some(0), "{found}");
    }
}

#[test]
fn calls_are_made_through_routers() {
    if !need(&[Need::Root]) {
        return;
    }
    let sip = "sip: {subscribers: 100, ring_time: 20ms, hold_time: {constant: 50ms}}";
    let found = trial("sip", sip, LATENCY);
    let phases = found["observations"][0]["result"]["phases"].as_array().expect("phases");
    let load = phases.iter().find(|phase| phase["name"] == "load").expect("the load");
    let metrics = load["metrics"].as_array().expect("metrics");
    let made = metrics.iter().find(|metric| metric["scenario"] == "calling").expect("calls");
    assert!(made["count"].as_u64() > Some(0), "{load}");
}

#[test]
fn volumes_and_network_tests_reach_through_routers() {
    if !need(&[Need::Root]) {
        return;
    }
    let storage = "storage: {operations: [write, read], size: 1MiB, record: 4KiB, depth: 4}";
    let found = trial("{tgt: {size: 16MiB, luns: 1}}", storage, "storage: {duration: 500ms}");
    for test in found["observations"].as_array().expect("tests") {
        assert_eq!(test["result"]["result"]["load"]["counts"]["ok"].as_u64(), Some(256), "{test}");
    }
}
