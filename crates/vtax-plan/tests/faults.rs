//! Fault tolerance in plans: what is understood, what is refused and where.

use vtax_plan::model::{
    EnvironmentKind, FailoverMeasure, FaultKind, FaultTarget, FaultTolerance, FtMode, Load, MeasureKind, Plan,
};
use vtax_plan::{PlanErrors, parse};
use vtax_units::{BitRate, Bytes, Nanos, Rate};

const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments:
  - native
  - vm
  - vm: {fault_tolerance: kemari}
services: http
workload: {http: {target: /bytes/100}}
measure:
  - failover: {load: 100/s, duration: 20s}
faults:
  - {at: 5s, every: 6s, times: 2, kill: primary-host}
  - {at: 6s, every: 6s, restore: hosts}
";

fn plan(set: &[&str]) -> Plan {
    parse("p", PLAN.as_bytes(), set).unwrap_or_else(|e| panic!("{}", e.to_text(false)))
}

/// Messages with their lines; those of `--set` have line 1.
fn errors(text: &str, set: &[&str]) -> Vec<(usize, String)> {
    match parse("p", text.as_bytes(), set) {
        Ok(_) => panic!("no error with {set:?}"),
        Err(PlanErrors::Invalid(all)) => all.iter().map(|d| (d.line, d.message.to_owned())).collect(),
        Err(other) => panic!("{other}"),
    }
}

fn refused(text: &str, set: &[&str], line: usize, words: &str) {
    let found = errors(text, set);
    assert!(found.iter().any(|(l, m)| *l == line && m.contains(words)), "{words:?} at {line}: {found:?}");
}

fn failover(plan: &Plan) -> &FailoverMeasure {
    let MeasureKind::Failover(failover) = &plan.measures[0].kind else { panic!("no failover") };
    failover
}

fn tolerance(plan: &Plan, cell: usize) -> Option<&FaultTolerance> {
    match &plan.cells[cell].environment.kind {
        EnvironmentKind::Vm(vm) => vm.fault_tolerance.as_ref(),
        _ => None,
    }
}

#[test]
fn all_virtual_machines_of_a_plan_are_built_alike() {
    let plan = plan(&[]);
    assert_eq!(tolerance(&plan, 0), None);
    assert_eq!(tolerance(&plan, 1), Some(&FaultTolerance::new(FtMode::None)));
    assert_eq!(tolerance(&plan, 2), Some(&FaultTolerance::new(FtMode::Kemari)));
    assert_eq!(plan.cells[2].environment.name, "vm-kemari");
    let plain = parse(
        "p",
        PLAN.as_bytes(),
        &["environments=[native, vm]", "measure=latency", "faults=[]", "measure={latency: {load: 1/s}}"],
    );
    assert!(plain.is_err(), "an empty list of faults is refused");
    let plain = PLAN.replace("  - vm: {fault_tolerance: kemari}\n", "");
    let plain = plain.split("faults:").next().unwrap().replace("failover", "latency");
    let plain = parse("p", plain.as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(tolerance(&plain, 1), None);
}

#[test]
fn options_and_lists_of_protection() {
    let set = "environments=[native, {vm: {fault_tolerance: {mode: remus, interval: [25ms, 100ms], link: 1gbit, \
               disk: 64MiB, hosts: 3, secondary_memory: 1GiB, heartbeat: 10ms, patience: 200ms}}}]";
    let plan = plan(&[set]);
    assert_eq!(plan.cells.len(), 3);
    assert_eq!(plan.cells[1].id, "vm-remus.bridge.http.interval-25ms");
    let wanted = FaultTolerance {
        mode: FtMode::Remus { interval: Nanos::from_millis(100) },
        hosts: 3,
        cards: vtax_plan::model::HostCards::Own,
        link: Some(BitRate(1_000_000_000)),
        disk: Some(Bytes::from_mib(64)),
        secondary_memory: Some(Bytes::from_mib(1024)),
        heartbeat: Nanos::from_millis(10),
        patience: Nanos::from_millis(200),
    };
    assert_eq!(tolerance(&plan, 2), Some(&wanted));
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
}

#[test]
fn faults_are_written_out_in_order_of_time() {
    let plan = plan(&[]);
    let measure = failover(&plan);
    assert_eq!(measure.load, Load::Rate(Rate(100.0)));
    let times: Vec<(u64, FaultKind)> =
        measure.faults.iter().map(|f| (f.at.0 / 1_000_000_000, f.kind)).collect();
    let (kill, restore) = (FaultKind::Kill(FaultTarget::PrimaryHost), FaultKind::Restore(FaultTarget::Hosts));
    assert_eq!(times, [(5, kill), (6, restore), (11, kill), (12, restore), (18, restore)]);
    // Nothing breaks in the other two.
    let measured: Vec<bool> = plan.cells.iter().map(|c| plan.is_measured(c, &plan.measures[0])).collect();
    assert_eq!(measured, [false, false, true]);
    assert!(measure.applies_to(&plan.cells[2]) && measure.faults_of(&plan.cells[0]).count() == 0);
}

#[test]
fn a_killed_system_fits_everywhere() {
    let plan = plan(&["faults=[{at: 1s, kill: sut}, {at: 2s, cut: path}]"]);
    assert!(plan.cells.iter().all(|c| plan.is_measured(c, &plan.measures[0])));
}

#[test]
fn faults_that_can_not_be_are_pointed_at() {
    refused(PLAN, &["faults=[{at: 20s, kill: primary-host}]"], 1, "when the load of `failover` is over");
    refused(PLAN, &["faults=[{at: 5s, every: 10s, times: 3, kill: sut}]"], 1, "number 3 of this fault");
    refused(PLAN, &["faults=[{at: 5s, times: 3, kill: sut}]"], 1, "without `every`");
    refused(PLAN, &["faults=[{at: 5s}]"], 1, "does nothing");
    refused(PLAN, &["faults=[{at: 5s, kill: sut, hang: sut}]"], 1, "two things");
    refused(PLAN, &["faults=[{at: 5s, kill: ft-link}]"], 1, "unknown thing to kill: `ft-link`");
    refused(PLAN, &["faults=[{kill: sut}]"], 1, "needs the key `at`");
    refused(PLAN, &["faults=[{at: 1s, every: 100ms, times: 1001, kill: sut}]"], 1, "too many");
    let late = PLAN.replace("{at: 5s, every: 6s, times: 2, kill: primary-host}", "{at: 21s, kill: sut}");
    refused(&late, &[], 13, "when the load of `failover` is over");
    // No environment has such a host.
    let plain = PLAN.replace("  - vm: {fault_tolerance: kemari}\n", "");
    refused(&plain, &[], 12, "`kill: primary-host` can't happen in any environment");
    let restart = PLAN.replace("kemari", "restart").replace("primary-host", "secondary-host");
    refused(&restart, &[], 13, "no other host keeps a copy");
    // Nobody looks, or nothing happens.
    refused(PLAN, &["measure={latency: {load: 1/s}}"], 13, "nothing is measured while these faults happen");
    let none = PLAN.split("faults:").next().unwrap();
    refused(none, &[], 11, "has no faults");
}

#[test]
fn protection_that_can_not_be_is_pointed_at() {
    let with = |options: &str| format!("environments=[native, {{vm: {{fault_tolerance: {options}}}}}]");
    refused(PLAN, &[&with("kemary")], 1, "unknown mode: `kemary`");
    refused(PLAN, &[&with("{interval: 40ms}")], 1, "needs the key `mode`");
    refused(PLAN, &[&with("{mode: kemari, interval: 40ms}")], 1, "means nothing to `kemari`");
    refused(PLAN, &[&with("{mode: remus, interval: 1ms}")], 1, "`interval` must be at least 5ms");
    refused(PLAN, &[&with("{mode: kemari, hosts: 4}")], 1, "there are two, or three");
    refused(PLAN, &[&with("{mode: kemari, patience: 30ms}")], 1, "before two beats");
    refused(PLAN, &[&with("{mode: restart, disk: 1GiB}")], 1, "`restart` replicates no disk");
    // Both were taken, and the disk wasn't there.
    for disks in [
        "environments=[native, {vm: {disk: {size: 1GiB}, fault_tolerance: kemari}}]",
        "environments=[native, {vm: {disk: {bus: ide}}}, {vm: {fault_tolerance: kemari}}]",
    ] {
        refused(PLAN, &[disks], 1, "has no disk of its own that tests of storage could use");
    }
    refused(PLAN, &[&with("{mode: kemari, link: 100kbit}")], 1, "below 1mbit");
    let duet = ["repeat.trials=duet", "measure=[{latency: {load: 1/s}}, {failover: {load: 1/s}}]"];
    let found = errors(PLAN, &duet);
    assert!(found.iter().any(|(_, m)| m.contains("measured one at a time")), "{found:?}");
}
