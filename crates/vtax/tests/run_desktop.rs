//! `vtax run` with users of remote desktops: every server of them there is, plain, by a password, within TLS and behind a tunnel.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};

use serde_json::Value;
use vtax_sys::require::{Need, need, possible};
use vtax_sys::sync::lock;
use vtax_testkit::runs::each_once;

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");

const PLAN: &str = "\
vtax: 1
name: desktops
baseline: native
environments: native
services: tigervnc
workload:
  desktop: {actions: mix, rate: 5/s, timeout: 10s}
measure: [{latency: {load: 10/s, duration: 1s, warmup: 500ms}}]
repeat: {min: 1, max: 1, budget: 40s}
";

/// One at a time: machines are small, and virtual ones large.
static MACHINE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    lock(&MACHINE)
}

/// Runs the plan with changes that make so many cells; what came of each cell's last trial with a result, as others may have been
/// disturbed.
fn run(changes: &[&str], cells: usize) -> BTreeMap<String, Value> {
    let directory = tempfile::tempdir().expect("a directory");
    let trials = each_once(VTAX, directory.path(), PLAN, changes, cells);
    let has_result = |trial: &&Value| trial["observations"].as_array().is_some_and(|all| !all.is_empty());
    let measured = trials.iter().filter(has_result);
    let last: BTreeMap<String, Value> =
        measured.map(|trial| (trial["cell"].as_str().expect("a name").to_owned(), trial.clone())).collect();
    assert_eq!(last.len(), cells, "{trials:?}");
    last
}

/// Both users of a trial saw their desktops and answers on them. Where the machine was taken meanwhile, the second may have come too
/// late for a load of a second.
fn check((cell, trial): (&String, &Value)) {
    let load = &trial["observations"][0]["result"]["load"];
    let found = &load["details"]["desktop"];
    let fewest = if trial["validity"]["validity"] == "valid" { 2 } else { 1 };
    let connected = found["connected"].as_u64().unwrap_or_default();
    assert_eq!(found["sessions"].as_u64(), Some(2), "{cell}: {trial}");
    assert!((fewest..=2).contains(&connected), "{cell}: {trial}");
    assert!(load["counts"]["ok"].as_u64() > Some(0) && found["trouble"].is_null(), "{cell}: {trial}");
    assert!(found["picture"].as_str().is_some_and(|png| png.starts_with("iVBORw0KGgo")), "{cell}: {found}");
}

#[test]
fn every_server_of_desktops_serves_two_users() {
    if !need(&[Need::Root]) {
        return;
    }
    let _alone = alone();
    let tigervnc = "{tigervnc: {security: [none, password, x509, x509-password]}}";
    let x11vnc = "{x11vnc: {security: [none, password], width: 640, height: 480}}";
    let trials = run(&[&format!("services=[{tigervnc}, {x11vnc}]")], 6);
    trials.iter().for_each(check);
}

#[test]
fn both_are_served_through_a_tunnel_and_in_a_container() {
    if !need(&[Need::Root]) {
        return;
    }
    let _alone = alone();
    let services = "services=[{tigervnc: {tunnel: true}}, {x11vnc: {tunnel: true, security: password}}]";
    let trials = run(&[services, "environments=[native, container]"], 4);
    assert!(trials.keys().any(|cell| cell.starts_with("container")), "{trials:?}");
    trials.iter().for_each(check);
}

#[test]
fn desktops_live_in_a_virtual_machine() {
    if !need(&[Need::Root, Need::Vm]) {
        return;
    }
    let _alone = alone();
    // Under emulation a picture of the desktop takes seconds.
    let slow = ["workload.desktop.rate=1/s", "measure=[{latency: {load: 2/s, duration: 7s, warmup: 4s}}]"];
    let services = "services=[{tigervnc: {width: 640, height: 480}}, {x11vnc: {width: 640, height: 480}}]";
    let trials = run(&[&slow[..], &[services, "environments=[vm]", "baseline=vm"]].concat(), 2);
    trials.iter().for_each(check);
}

#[test]
fn desktops_without_room_are_told_what_they_lack() {
    if !need(&[Need::Root]) {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let (plan, out) = (directory.path().join("plan.yaml"), directory.path().join("run"));
    std::fs::write(&plan, PLAN).expect("written");
    let changes = ["services={tigervnc: {sessions: 8, ready_timeout: 15s}}", "budget.sut_memory=64MiB"];
    let mut command = Command::new(VTAX);
    command.arg("run").arg(&plan).arg("--out").arg(&out);
    let output = command.args(changes.iter().flat_map(|c| ["--set", c])).output().expect("vtax starts");
    // As it was before it was broken into lines.
    let said = String::from_utf8_lossy(&output.stdout);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let provenance = std::fs::read_to_string(out.join("provenance.json")).expect("a run");
    if !possible((!provenance.contains("memory 64MiB")).then_some("memory isn't limited")) {
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the system met its limit of memory, 64MiB (`budget.sut_memory`)"), "{said}");
}
