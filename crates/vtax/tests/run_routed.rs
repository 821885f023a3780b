//! `vtax run` over routers: every family of workloads reaches its service through them.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use vtax_sys::require::{Need, need, possible};
use vtax_sys::sync::lock;
use vtax_testkit::runs::{each_once, ended};

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

/// A process that has this word in its command line.
fn process_with(word: &str) -> Option<String> {
    let all = fs::read_dir("/proc").expect("processes").filter_map(Result::ok);
    let has_word = |line: Vec<u8>| line.split(|b| *b == 0).any(|one| one == word.as_bytes());
    let mut found = all.filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(has_word));
    found.find_map(|entry| entry.file_name().into_string().ok())
}

#[test]
fn a_trial_during_which_routes_change_by_themselves_does_not_count() {
    if !need(&[Need::Root]) {
        return;
    }
    let _alone = lock(&MACHINE);
    let directory = tempfile::tempdir().expect("a directory");
    let (plan, out) = (directory.path().join("plan.yaml"), directory.path().join("run"));
    // No other router of this machine has its name.
    let router = format!("w{}", std::process::id());
    fs::write(&plan, PLAN.replace("duration: 1s", "duration: 5s").replace("west", &router)).expect("written");
    let mut command = Command::new(VTAX);
    command.arg("run").arg(&plan).arg("--out").arg(&out).stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = command.spawn().expect("vtax starts");
    let until = Instant::now() + Duration::from_secs(120);
    // A route to nobody comes and goes at a router until the first trial has ended.
    while !fs::read_to_string(out.join("journal.jsonl")).is_ok_and(|text| text.contains("trial-ended")) {
        assert!(Instant::now() < until, "no trial has ended");
        assert!(run.try_wait().expect("it is a child").is_none(), "no trial was made");
        for what in ["add", "del"] {
            let Some(daemon) = process_with(&router) else { continue };
            let words = ["-t", &daemon, "-n", "ip", "route", what, "blackhole", "192.0.2.0/24"];
            // The daemon may have ended by now.
            let _ = Command::new("nsenter").args(words).stderr(Stdio::null()).status();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let pid = Pid::from_raw(run.id().cast_signed()).expect("a process");
    kill_process(pid, Signal::TERM).expect("it can be stopped");
    run.wait().expect("it ends");
    let trial = ended(&out).swap_remove(0);
    let in_guest = trial["facts"]["path.place"] == "guest";
    if !possible(in_guest.then_some("this kernel has routers in a guest only")) {
        return;
    }
    let validity = &trial["validity"];
    let changes = trial["facts"]["path.lab.route_changes"].as_str().expect("how often");
    assert!(changes.parse::<u64>().expect("a number") > 1, "{trial}");
    assert_eq!(validity["validity"], "invalid", "{trial}");
    // What held the generator up comes first.
    let detail = validity["detail"].as_str().expect("why");
    let of_generator = validity["reason"] == "generator-limited" || detail.contains("the load generator");
    assert!(of_generator || detail.contains("though nothing was broken on purpose"), "{detail}");
}
