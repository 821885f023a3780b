//! `vtax run` with `access: mounted`: real servers, and clients whose kernels mount what they have.

use std::sync::Mutex;

use serde_json::Value;
use vtax_sys::require::{Need, need};
use vtax_sys::sync::lock;
use vtax_testkit::runs::each_once;
use vtax_units::Nanos;

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");

const PLAN: &str = "\
vtax: 1
name: mounted
baseline: {environment: native, service: ganesha}
environments: native
services: [ganesha, samba, {tgt: {size: 48MiB, luns: 2, chap: mutual}}]
workload:
  storage:
    access: mounted
    operations: [write, read, re-read]
    size: 4MiB
    record: 64KiB
    processes: 2
    depth: 2
measure: [{storage: {duration: 500ms}}]
repeat: {min: 1, max: 1, budget: 90s}
budget: {sut_memory: 448MiB}
";

/// Bytes of both processes' files.
const BYTES: u64 = 8 << 20;

/// One guest of each kind at a time: clients that mount and systems have CPUs of their own. Who takes both takes them in this order.
static CLIENT: Mutex<()> = Mutex::new(());
static SYSTEM: Mutex<()> = Mutex::new(());

/// Runs the plan with changes that make so many cells; what came of each trial, by its cell.
fn run(changes: &[&str], cells: usize) -> Vec<(String, Value)> {
    run_plan(PLAN, changes, cells)
}

fn run_plan(plan: &str, changes: &[&str], cells: usize) -> Vec<(String, Value)> {
    let directory = tempfile::tempdir().expect("a directory");
    let trials = each_once(VTAX, directory.path(), plan, changes, cells).into_iter();
    trials.map(|trial| (trial["cell"].as_str().expect("a name").to_owned(), trial)).collect()
}

/// The last trial of a cell, as earlier ones may have been disturbed.
fn trial<'t>(trials: &'t [(String, Value)], cell: &str) -> &'t Value {
    let found = trials.iter().rev().find(|(name, _)| name == cell);
    found.map(|(_, trial)| trial).unwrap_or_else(|| panic!("no {cell} in {trials:?}"))
}

/// What every test must have, whatever serves; the test of this name.
fn looked_at<'t>(trial: &'t Value, name: &str, what: &str) -> &'t Value {
    let tests = trial["observations"].as_array().expect("a list");
    let test = tests.iter().find(|test| test["name"] == name);
    let test = test.unwrap_or_else(|| panic!("no {name}: {trial}"));
    // A machine that is busy with something else may delay what isn't counted here.
    let reason = test["validity"]["reason"].as_str();
    assert!(matches!(reason, None | Some("disturbed" | "generator-limited")), "{test}");
    let target = test["facts"]["storage.target"].as_str().unwrap_or_default();
    assert!(target.starts_with(what), "{target}: {test}");
    test
}

fn counted(test: &Value, name: &str) -> u64 {
    let counters = test["result"]["result"]["facts"]["counters"].as_array().expect("counters");
    let found = counters.iter().find(|pair| pair[0] == name).and_then(|pair| pair[1].as_u64());
    found.unwrap_or_else(|| panic!("no {name}: {test}"))
}

fn check(trial: &Value, what: &str) {
    let write = looked_at(trial, "write", what);
    assert!(counted(write, "bytes written to the server") >= BYTES, "{write}");
    assert!(counted(write, "syncs of the kernel's client") > 0, "one sync at the end: {write}");
    for name in ["read", "re-read"] {
        let read = looked_at(trial, name, what);
        assert_eq!(read["result"]["result"]["verified"]["records"], BYTES / (64 << 10), "{read}");
    }
}

#[test]
fn servers_in_user_space_are_mounted_and_every_read_is_verified() {
    if !need(&[Need::Root, Need::Vm]) {
        return;
    }
    let _client = lock(&CLIENT);
    let trials = run(&[], 3);
    check(trial(&trials, "native.bridge.ganesha"), "NFS 4.1, mounted");
    check(trial(&trials, "native.bridge.samba"), "SMB 3.1.1, mounted");
    // Number 0 is tgt's own controller, and no disk.
    check(trial(&trials, "native.bridge.tgt"), "ext4 on iSCSI, mounted (units seen: 1 2)");
}

#[test]
fn a_cold_cache_is_cold_on_both_ends_and_the_server_answers() {
    if !need(&[Need::Root, Need::Vm]) {
        return;
    }
    let _client = lock(&CLIENT);
    let trials = run(&["services=[{ganesha: {backend: disk}}]", "workload.storage.cache=cold"], 1);
    let trial = trial(&trials, "native.bridge.ganesha");
    let read = looked_at(trial, "re-read", "NFS 4.1, mounted");
    assert!(counted(read, "bytes read from the server") >= BYTES, "{read}");
    let who = read["facts"]["cache.answered"].as_str().unwrap_or_default();
    assert!(who.starts_with("the NFS server answered"), "{who}");
    let server = &read["result"]["server_cache"];
    let [held, of] = ["cached", "of"].map(|key| server[key].as_u64().expect("a number"));
    assert!(of >= BYTES && held * 20 <= of, "{server}");
}

#[test]
fn the_kernels_own_servers_serve_in_a_guest_and_hide_what_is_hidden() {
    if !need(&[Need::Root, Need::Vm]) {
        return;
    }
    let (_client, _system) = (lock(&CLIENT), lock(&SYSTEM));
    let lio = "{lio: {size: 48MiB, luns: 3, visible: 2, chap: mutual}}";
    let services = format!("services=[nfsd, {lio}]");
    // A guest's first files lie in its memory, and this build's agent is large.
    let trials = run(&[&services, "environments=[vm]", "baseline=vm", "budget.sut_memory=512MiB"], 2);
    check(trial(&trials, "vm.bridge.nfsd"), "NFS 4.1, mounted");
    // A hidden unit isn't seen.
    check(trial(&trials, "vm.bridge.lio"), "ext4 on iSCSI, mounted (units seen: 1 2)");
}

#[test]
fn the_disks_of_a_raid_but_one_have_all_that_was_written() {
    if !need(&[Need::Root, Need::Vm]) {
        return;
    }
    let _system = lock(&SYSTEM);
    let environment = "environments=[{vm: {disk: {size: 96MiB, raid5: {degraded: true}}}}]";
    let trials = run(&["services=[disk]", environment, "baseline=vm", "workload.storage.cache=cold"], 1);
    let trial = trial(&trials, "vm.bridge.disk");
    for name in ["read", "re-read"] {
        let read = looked_at(trial, name, "");
        assert_eq!(read["result"]["result"]["verified"]["records"], BYTES / (64 << 10), "{read}");
        assert_eq!(read["result"]["result"]["io"]["device"]["name"], "md0", "{read}");
    }
}

/// The smallest disks: beside a load that it notices, the kernel rebuilds at little more than 1 MB/s, and an emulated machine
/// that is busy needs several times as long.
const REBUILT: &str = "\
vtax: 1
name: rebuilt
baseline: vm
environments: {vm: {disk: {size: 64MiB, raid5: {members: 6}}}}
services: {tgt: {size: 16MiB, backend: disk}}
workload: {storage: {operations: mix-30, size: 8MiB, depth: 16}}
measure: {failover: {load: 40/s, warmup: 500ms, duration: 40s}}
faults: [{at: 1s, fail: disk}, {at: 3s, replace: disk}]
repeat: {min: 1, max: 1, budget: 3m}
budget: {sut_memory: 448MiB}
";

#[test]
fn a_disk_that_fails_and_is_replaced_under_load_loses_nothing() {
    if !need(&[Need::Root, Need::Vm]) {
        return;
    }
    let _system = lock(&SYSTEM);
    let trials = run_plan(REBUILT, &[], 1);
    let outcome = &trial(&trials, "vm.bridge.tgt")["observations"][0]["result"];
    let faults = outcome["faults"].as_array().unwrap_or_else(|| panic!("no faults: {outcome}"));
    let [failed, replaced] = &faults[..] else { panic!("two faults: {outcome}") };
    for fault in [failed, replaced] {
        assert!(fault["injected"].is_string() && fault["discounted"].is_null(), "{fault}");
        assert!(fault["seen"]["first_answer"].is_string(), "somebody answered afterwards: {fault}");
    }
    assert!(failed["rebuild"].is_null(), "{failed}");
    // All of a member is made anew, which takes some time, and is over before the load is.
    let took = replaced["rebuild"].as_str().unwrap_or_else(|| panic!("not whole again: {replaced}"));
    let took = took.parse::<Nanos>().expect("a time");
    assert!((Nanos::from_millis(10)..Nanos::from_secs(37)).contains(&took), "{took}");
    let back = &outcome["load"]["read_back"];
    assert_eq!(back["verified"]["records"], (8 << 20) / 4096, "{back}");
    for wrong in ["lost", "stale", "torn", "misplaced", "corrupt"] {
        assert_eq!(back["verified"][wrong], 0, "{wrong}: {back}");
    }
    assert_eq!(back["unread"], 0, "{back}");
}
