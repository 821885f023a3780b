//! Plans of the family `redis`: what their keys mean, and what is refused.

use vtax_plan::estimate::requirements;
use vtax_plan::model::{KeyAccess, Persistence, Plan, ServiceKind, Workload};
use vtax_plan::{PlanErrors, parse};
use vtax_units::{Bytes, Nanos, Share};

const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments: [native, container]
services: redis
workload: {redis: {}}
measure: [capacity, {latency: {load: 100/s}}, throughput]
";

fn plan(overrides: &[&str]) -> Plan {
    parse("p", PLAN.as_bytes(), overrides).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(overrides: &[&str]) -> String {
    match parse("p", PLAN.as_bytes(), overrides) {
        Err(errors @ PlanErrors::Invalid(_)) => errors.to_string(),
        other => panic!("{overrides:?} is refused: {other:?}"),
    }
}

#[test]
fn defaults_are_what_the_documentation_says() {
    let plan = plan(&[]);
    assert_eq!(plan.cells.len(), 2);
    let ServiceKind::Redis(redis) = &plan.cells[0].service.kind else { panic!("{:?}", plan.cells[0]) };
    assert_eq!((redis.port, redis.persistence, redis.io_threads), (6379, Persistence::None, 1));
    let Workload::Redis(workload) = &plan.cells[0].workload else { panic!("{:?}", plan.cells[0]) };
    let requests = &workload.requests;
    assert_eq!((requests.keys, requests.value, requests.reads), (10_000, Bytes(100), Share(0.9)));
    assert_eq!((requests.access, requests.pipeline), (KeyAccess::Uniform, 1));
    assert_eq!((workload.connections, workload.timeout), (64, Nanos::from_secs(2)));
    let needed: Vec<String> = requirements(&plan).into_iter().map(|r| r.text().to_string()).collect();
    assert!(needed.iter().any(|text| text.contains("package redis-server")), "{needed:?}");
}

#[test]
fn lists_make_cells() {
    let plan = plan(&[
        "workload.redis.value=[16B, 1KiB]",
        "workload.redis.pipeline=[1, 16]",
        "workload.redis.access=[uniform, zipf]",
        "services=[{redis: {persistence: [none, every-write]}}]",
    ]);
    assert_eq!(plan.cells.len(), 2 * 2 * 2 * 2 * 2);
    assert!(plan.cells.iter().any(|cell| cell.id.contains("pipeline-16") && cell.id.contains("every-write")));
}

/// Where all keys that are tried for a write were being written, it became a read without a word.
#[test]
fn keys_too_few_for_the_writes_under_way_are_told() {
    let told = |changes: &[&str]| {
        let plan = plan(changes);
        plan.cells[0].workload.model().caution(&plan.measures[0])
    };
    assert_eq!(told(&[]), None);
    // Of the usual 64 connections' requests a tenth writes.
    let few = told(&["workload.redis.keys=20"]).unwrap_or_default();
    assert!(few.contains("about 6 writes") && few.contains("only 20 keys"), "{few}");
    assert!(few.ends_with(": more `keys`, or fewer `connections`"), "{few}");
    assert_eq!(told(&["workload.redis.keys=26"]), None);
    let pipelined = told(&["workload.redis.keys=1000", "workload.redis.pipeline=100"]).unwrap_or_default();
    assert!(pipelined.contains("about 640 writes"), "{pipelined}");
    let written = ["workload.redis.keys=20", "workload.redis.reads=0%", "workload.redis.connections=16"];
    assert_eq!(told(&written), None, "one of sixteen keys is always free");
    assert_eq!(told(&["workload.redis.keys=1", "workload.redis.reads=100%"]), None);
}

#[test]
fn what_can_not_be_is_refused_with_the_reason() {
    for (change, reason) in [
        ("workload.redis.keys=0", "0 keys: there are 1 to"),
        ("workload.redis.value=15B", "15B is no length of a value: 16B to 16MiB"),
        ("workload.redis.pipeline=0", "0 is too few"),
        ("workload.redis.pipeline=1025", "1025 is too many"),
        ("workload.redis.connections=70000", "70000 is too many"),
        ("workload.redis.access=random", "access"),
        ("services=nginx", "does not speak what the workload `redis` speaks"),
        ("measure=[ims]", "the IMS benchmark is for SIP services"),
        ("measure=[network]", "`tcp`, `udp`, `ping`, `rr` or `voice`"),
    ] {
        let text = refused(&[change]);
        assert!(text.contains(reason), "{change}: {text}");
    }
    let text = match parse("p", PLAN.replace("redis: {}", "http: {target: /}").as_bytes(), &[] as &[&str]) {
        Err(errors) => errors.to_string(),
        Ok(_) => panic!("a Redis server speaks no HTTP"),
    };
    assert!(text.contains("its workload is `redis`"), "{text}");
}
