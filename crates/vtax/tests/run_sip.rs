//! `vtax run` with SIP: small benchmarks from the plan to the report.

use std::path::Path;
use std::sync::Mutex;

use serde_json::Value;
use vtax_sys::require::{Need, need};
use vtax_sys::sync::lock;
use vtax_testkit::runs::each_once;

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");

/// One at a time: each would take the other's CPUs, and its trials would be made again.
static MACHINE: Mutex<()> = Mutex::new(());

/// Runs a plan with so many measures; every trial that ended. On a busy machine none may count, but all have a result.
fn run(directory: &Path, measures: &str, workload: &str, count: usize) -> Vec<Value> {
    let _alone = lock(&MACHINE);
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

const SCENARIO: &str = "\
<scenario name=\"short\">
  <send retrans=\"500\" start_rtd=\"setup\"><![CDATA[
    INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:me@[local_ip]:[local_port]>;tag=[call_number]
    To: <sip:[service]@[remote_ip]:[remote_port]>
    Call-ID: [call_id]
    CSeq: 1 INVITE
    Contact: <sip:me@[local_ip]:[local_port]>
    Content-Length: 0
  ]]></send>
  <recv response=\"180\" optional=\"true\"/>
  <recv response=\"200\" rtd=\"setup\" counter=\"answered\"/>
  <send><![CDATA[
    ACK sip:[service]@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:me@[local_ip]:[local_port]>;tag=[call_number]
    To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]
    Call-ID: [call_id]
    CSeq: 1 ACK
    Content-Length: 0
  ]]></send>
  <pause milliseconds=\"20\"/>
  <send retrans=\"500\"><![CDATA[
    BYE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:me@[local_ip]:[local_port]>;tag=[call_number]
    To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]
    Call-ID: [call_id]
    CSeq: 2 BYE
    Content-Length: 0
  ]]></send>
  <recv response=\"200\"/>
</scenario>
";

/// The scenario is a file beside the plan, which the run keeps: it goes on without the file.
#[test]
fn a_scenario_of_sipps_is_a_load_of_a_plan() {
    if !need(&[Need::Root]) {
        return;
    }
    let _alone = lock(&MACHINE);
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("short.xml"), SCENARIO).expect("a scenario");
    let plan = "vtax: 1\nname: calls\nbaseline: native\nenvironments: [native, container]\nservices: uas\n\
                workload: {sip: {scenario_file: short.xml, auth_password: hush-42, drain: 1s}}\n\
                measure: [{capacity: {start: 20/s, max: 40/s, step: 400ms, precision: 50%, limits: {errors: 50%, p99: 5s}}}, \
                {latency: {load: 50/s, warmup: 200ms, duration: 1s}}]\nrepeat: 1\n";
    let ended = each_once(VTAX, directory.path(), plan, &["workload.sip.calls=100"], 4);
    let loads: Vec<&Value> = ended
        .iter()
        .filter(|t| t["measure"] == "latency@50")
        .map(|t| &t["observations"][0]["result"]["load"])
        .collect();
    assert!(loads.len() >= 2, "{ended:?}");
    for load in loads {
        let found = &load["details"]["script"];
        assert!(load["counts"]["ok"].as_u64() > Some(10), "{load}");
        assert_eq!((&found["scenario"], &found["timers"][0]["name"]), (&"short".into(), &"setup".into()));
        assert!(
            found["counters"]["answered"].as_u64() > Some(10) && found["failed"] == serde_json::json!({}),
            "{found}"
        );
    }
    let searches: Vec<&Value> = ended.iter().filter(|t| t["measure"] == "capacity").collect();
    assert!(searches.iter().all(|t| t["observations"][0]["result"]["kind"] == "capacity"), "{searches:?}");
    let run = directory.path().join("run");
    let read = |name: &str| std::fs::read_to_string(run.join(name)).expect("a file");
    assert!(read("plan.yaml").contains("INVITE sip:[service]"));
    let page = read("report.html");
    // Of trials that don't count, as those of a busy machine, there is no figure.
    let count = |t: &Value| t["measure"] == "latency@50" && t["validity"]["validity"] == "valid";
    for section in ["id=\"calls\"", "id=\"calls-times\""] {
        assert_eq!(page.contains(section), ended.iter().any(count), "{section}");
    }
    for file in ["report.html", "provenance.json", "journal.jsonl", "summary.json"] {
        assert!(!read(file).contains("hush-42"), "{file}");
    }
}
