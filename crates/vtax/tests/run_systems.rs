//! `vtax run` on several systems: from the plan to the record of each and the report.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use vtax_sys::require::{Need, installed, need};
use vtax_testkit::runs::phase;

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");

const PLAN: &str = "\
vtax: 1
name: small
baseline: {environment: native, count: 1}
environments: [{native: {count: [1, 3]}}]
services: http
workload: {http: {target: /bytes/100, connections: 6, timeout: 5s}}
measure:
  - latency: {load: 150/s, warmup: 50ms, duration: 600ms}
repeat: {min: 1, max: 1, budget: 5s}
";

fn vtax(args: &[&str], paths: &[&Path]) -> Output {
    Command::new(VTAX).args(args).args(paths).output().expect("it starts")
}

/// Runs a plan with changes; every trial that ended. On a busy machine none may count, but all have a result.
fn run(directory: &Path, changes: &[&str]) -> Vec<Value> {
    let (file, out) = (directory.join("plan.yaml"), directory.join("run"));
    std::fs::write(&file, PLAN).expect("written");
    let mut args = vec!["run"];
    for change in changes {
        args.extend(["--set", change]);
    }
    let output = vtax(&args, &[&file, Path::new("--out"), &out]);
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{text}");
    let journal = std::fs::read_to_string(out.join("journal.jsonl")).expect("written");
    let lines = journal.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let ended: Vec<Value> = lines.filter(|line| line["event"] == "trial-ended").collect();
    assert!(!ended.is_empty(), "{text}");
    let page = std::fs::read_to_string(out.join("report.html")).expect("a report");
    assert!(page.contains("id=\"consolidation\"") || ended.iter().all(|t| !is_valid(t)), "{text}");
    ended
}

/// What `run` gives, made again where the machine was too busy for it to be whole.
fn undisturbed(run: impl Fn(&Path) -> Vec<Value>, whole: impl Fn(&Value) -> bool) -> Vec<Value> {
    let made = || run(tempfile::tempdir().expect("a directory").path());
    (0..4).map(|_| made()).find(|trials| trials.iter().all(&whole)).unwrap_or_else(made)
}

fn is_valid(trial: &Value) -> bool {
    trial["validity"]["validity"] == "valid"
}

fn of_cell<'t>(trials: &'t [Value], cell: &str) -> Vec<&'t Value> {
    let own: Vec<&Value> = trials.iter().filter(|trial| trial["cell"] == cell).collect();
    assert!(!own.is_empty(), "no trial of {cell}");
    own
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// CPU time of an observation in nanoseconds, as the journal writes durations.
fn cpu(observation: &Value) -> Vec<String> {
    let layers = observation["cpu"]["layers"].as_array().expect("layers");
    layers.iter().map(|layer| layer["layer"].as_str().expect("a word").to_owned()).collect()
}

#[test]
fn each_system_has_a_record_and_the_whole_is_their_sum() {
    if !need(&[Need::Root]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let trials = run(directory.path(), &[]);
    for trial in of_cell(&trials, "native.bridge.http.count-3") {
        let observations = trial["observations"].as_array().expect("a list");
        let [whole, members @ ..] = observations.as_slice() else { panic!("{trial}") };
        assert!(whole["member"].is_null(), "{whole}");
        let names: Vec<&str> = members.iter().filter_map(|o| o["member"].as_str()).collect();
        assert_eq!(names, ["sut", "sut-2", "sut-3"], "{trial}");
        assert_eq!(trial["facts"]["systems.count"], "3");
        assert!(trial["facts"]["sut-3.boot_ns"].is_string(), "{trial}");
        if !is_valid(trial) {
            // A machine that is busy with something else: what was cut off, or not recorded, needn't add up.
            continue;
        }
        let counts = |o: &Value, key: &str| number(&o["result"]["load"]["counts"][key]);
        for key in ["intended", "sent", "ok"] {
            let sum: u64 = members.iter().map(|member| counts(member, key)).sum();
            assert_eq!(counts(whole, key), sum, "{key}");
        }
        assert!(members.iter().all(|member| counts(member, "ok") > 0), "{trial}");
        let requests: u64 = members.iter().map(|member| number(&member["cpu"]["requests"])).sum();
        assert_eq!(number(&whole["cpu"]["requests"]), requests, "{trial}");
        assert_eq!(cpu(whole), cpu(&members[0]));
    }
    for trial in of_cell(&trials, "native.bridge.http.count-1") {
        assert_eq!(trial["observations"].as_array().map(Vec::len), Some(1), "one system is the whole");
        assert!(trial["facts"]["systems.count"].is_null());
    }
}

#[test]
fn a_neighbour_is_loaded_beside_what_is_measured() {
    if !need(&[Need::Root]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let beside = "{name: tenant, service: http, workload: {http: {target: /page/5}}";
    let systems = format!(
        "systems=[{{name: quiet, beside: {beside}, load: idle}}}}, {{name: busy, beside: {beside}, load: 50/s}}}}]"
    );
    let changes = ["environments=native", "baseline={environment: native, systems: quiet}", systems.as_str()];
    let trials = run(directory.path(), &changes);
    let members = |trial: &Value| -> Vec<String> {
        let all = trial["observations"].as_array().expect("a list").iter();
        all.filter_map(|o| Some(format!("{} {}", o["member"].as_str()?, o["facts"]["role"].as_str()?)))
            .collect()
    };
    for trial in of_cell(&trials, "native.bridge.http.quiet") {
        assert_eq!(members(trial), ["sut system"], "{trial}");
    }
    for trial in of_cell(&trials, "native.bridge.http.busy") {
        assert_eq!(members(trial), ["sut system", "sut-2 neighbour"], "{trial}");
        let neighbour = &trial["observations"][2];
        assert_eq!(neighbour["facts"]["name"], "tenant");
        assert!(number(&neighbour["result"]["load"]["counts"]["ok"]) > 0 || !is_valid(trial), "{trial}");
    }
}

#[test]
fn a_server_of_storage_has_a_neighbour_during_each_of_its_tests() {
    if !need(&[Need::Root]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let changes = [
        "environments=native",
        "baseline=native",
        "services=[{tgt: {size: 4MiB}}]",
        "workload={storage: {operations: [write, read], size: 1MiB, record: 64KiB}}",
        "measure=[{storage: {duration: 300ms}}]",
        "systems={name: busy, beside: {service: http, workload: {http: {target: /bytes/100000}}, load: closed}}",
    ];
    for trial in vtax_testkit::runs::trials(VTAX, directory.path(), PLAN, &changes) {
        let tests = trial["observations"].as_array().expect("a list");
        let names: Vec<&str> = tests.iter().filter_map(|test| test["name"].as_str()).collect();
        assert_eq!(names, ["write", "read"], "{trial}");
        for test in tests {
            let beside = test["facts"]["beside.sut-2"].as_str().unwrap_or_else(|| panic!("{test}"));
            assert!(beside.contains(" answers/s, 0 failed"), "{beside}");
            assert!(test["result"]["result"]["beside"].is_null(), "{test}");
        }
        assert_eq!(tests[1]["result"]["result"]["verified"]["records"], 16, "{trial}");
    }
}

#[test]
fn a_neighbour_writes_to_the_disk_that_volumes_are_on() {
    if !need(&[Need::Root]) {
        return;
    }
    let tenant = "{name: tenant, service: {ftp: {backend: disk}}, \
                  workload: {ftp: {retr: 0, stor: 1, size: 1MiB, clients: 2}}, load: closed}";
    let changes = [
        "environments=native",
        "baseline=native",
        "services=[{tgt: {size: 4MiB, backend: disk}}]",
        "workload={storage: {operations: [write, random-read], size: 1MiB, record: 64KiB, cache: cold}}",
        "measure=[{storage: {duration: 300ms}}]",
        &format!("systems={{name: disk, beside: {tenant}}}"),
    ];
    let beside = |test: &Value| {
        let beside = test["facts"]["beside.sut-2"].as_str().unwrap_or_else(|| panic!("{test}"));
        (beside.contains(" answers/s, 0 failed") && !beside.starts_with("0.0 "), beside.to_owned())
    };
    let tests = |trial: &Value| trial["observations"].as_array().expect("a list").clone();
    let run = |directory: &Path| vtax_testkit::runs::trials(VTAX, directory, PLAN, &changes);
    for trial in undisturbed(run, |trial| tests(trial).iter().all(|test| beside(test).0)) {
        for test in tests(&trial) {
            let (wrote, beside) = beside(&test);
            assert!(wrote, "{beside}");
        }
        let told = std::path::Path::new("/proc/pressure/io").exists();
        assert_eq!(trial["facts"]["host.disk_wait"].is_string(), told, "{trial}");
    }
}

/// A call of two messages, after a scenario.
fn call() -> String {
    let send = |cseq: &str| {
        format!(
            "<send retrans=\"500\"><![CDATA[\n{cseq} sip:[service]@[remote_ip]:[remote_port] SIP/2.0\n\
             Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]\n\
             From: <sip:caller@[local_ip]:[local_port]>;tag=[pid]c[call_number]\n\
             To: <sip:[service]@[remote_ip]:[remote_port]>\n\
             Call-ID: [call_id]\nCSeq: 1 {cseq}\nContent-Length: 0\n\n]]></send>"
        )
    };
    let text =
        format!("<scenario name=\"ask\">{}<recv response=\"200\" rtd=\"true\"/></scenario>", send("OPTIONS"));
    // A YAML string in double quotes.
    serde_json::to_string(&text).expect("JSON")
}

#[test]
fn calls_are_made_to_several_systems_and_a_neighbour_at_once() {
    if !need(&[Need::Root]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let calls = format!("{{sip: {{scenario: {}, recv_timeout: 3s, drain: 3s}}}}", call());
    let workload = format!("workload={calls}");
    let systems = format!(
        "systems={{name: mixed, beside: [{{name: web, service: http, workload: {{http: {{target: /page/5}}}}, load: 50/s}}, \
         {{name: phone, service: uas, workload: {calls}, load: 30/s}}]}}"
    );
    let changes = [
        "environments=[{native: {count: 2}}]",
        "baseline=native",
        "services=uas",
        workload.as_str(),
        systems.as_str(),
    ];
    for trial in run(directory.path(), &changes) {
        let observations = trial["observations"].as_array().expect("a list");
        let [whole, members @ ..] = observations.as_slice() else { panic!("{trial}") };
        let told: Vec<&str> = members.iter().filter_map(|o| o["facts"]["role"].as_str()).collect();
        assert_eq!(told, ["system", "system", "neighbour", "neighbour"], "{trial}");
        let ok = |o: &Value| number(&o["result"]["load"]["counts"]["ok"]);
        assert!(members.iter().all(|member| ok(member) > 0), "{trial}");
        if is_valid(&trial) {
            assert_eq!(ok(whole), ok(&members[0]) + ok(&members[1]), "{trial}");
        }
        let of_calls = |o: &Value| number(&o["result"]["load"]["details"]["script"]["succeeded"]);
        assert_eq!(of_calls(whole), of_calls(&members[0]) + of_calls(&members[1]), "{trial}");
        assert!(members[2]["result"]["load"]["details"]["script"].is_null(), "{trial}");
    }
}

#[test]
fn more_systems_than_memory_are_refused_before_anything_is_started() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("plan.yaml");
    std::fs::write(&file, PLAN).expect("written");
    let change = "environments=[{native: {count: [1, 60]}}]";
    let output = vtax(&["check", "--set", change], &[&file]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("60 systems of at least 16MiB need 960MiB of memory"), "{text}");
}

/// Ctrl-C is answered while systems stand one after the other, minutes apart.
#[test]
fn a_run_ends_between_the_starts_of_two_systems() {
    if !need(&[Need::Root]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (file, out) = (directory.path().join("plan.yaml"), directory.path().join("run"));
    std::fs::write(&file, PLAN).expect("written");
    let changes = [
        "baseline={environment: native, count: 2}",
        "environments={native: {count: 2}}",
        "consolidation.start=10min",
    ];
    let mut command = Command::new(VTAX);
    command.arg("run").args(changes.iter().flat_map(|change| ["--set", change]));
    let mut run = command.args([&file, Path::new("--out"), &out]).spawn().expect("vtax starts");
    let until = Instant::now() + Duration::from_secs(120);
    let mut asked = false;
    let status = loop {
        if let Some(status) = run.try_wait().expect("a child") {
            break status;
        }
        if !asked && phase(&out).as_deref() == Some("building the testbed") {
            kill_process(Pid::from_child(&run), Signal::INT).expect("it runs");
            asked = true;
        }
        if Instant::now() > until {
            run.kill().expect("it runs");
            panic!("no end; asked: {asked}, phase: {:?}", phase(&out));
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(asked && status.code() == Some(130), "{status}");
}

/// The services of a plan: vtax's own web server as a command, which ends by itself after five seconds on the neighbour. Its
/// program is copied into `seen`, a directory that systems see.
fn one_that_dies(seen: &Path) -> String {
    let program = seen.join("vtax");
    vtax_testkit::programs::install(Path::new(VTAX), &program);
    let program = program.display();
    let run = format!("[timeout, \"5\", {program}, service, http, --listen, \"{{address}}:{{port}}\"]");
    let service = format!("{{command: {{run: {run}, port: 8080}}}}");
    let beside = format!(
        "{{name: mortal, service: {service}, workload: {{http: {{target: /bytes/10}}}}, load: 50/s}}"
    );
    format!("systems={{name: busy, beside: {beside}}}")
}

/// The counts of a member of a trial.
fn counts<'t>(trial: &'t Value, member: &str) -> &'t Value {
    let observations = trial["observations"].as_array().expect("a list");
    let found = observations.iter().find(|o| o["member"] == member);
    &found.unwrap_or_else(|| panic!("no {member} in {trial}"))["result"]["load"]["counts"]
}

#[test]
fn a_system_that_dies_is_named_and_the_others_go_on() {
    if !need(&[Need::Root]) {
        return;
    }
    // Systems have a /tmp of their own, and the checkout may be below this one's.
    let seen = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let systems = one_that_dies(seen.path());
    let changes = [
        "environments=[{native: {count: 2}}]",
        "baseline=native",
        systems.as_str(),
        "measure=[{latency: {load: 100/s, warmup: 0s, duration: 10s}}]",
        "repeat.budget=20s",
    ];
    let run = |directory: &Path| vtax_testkit::runs::each_once(VTAX, directory, PLAN, &changes, 1);
    // 10 s of 50 requests a second each; the neighbour answered for five at most, its start included.
    let ok = |trial: &Value, member: &str| number(&counts(trial, member)["ok"]);
    let go_on = |trial: &Value| ["sut", "sut-2"].iter().all(|member| ok(trial, member) > 100);
    for trial in undisturbed(run, go_on) {
        let validity = &trial["validity"];
        assert_eq!(
            (&validity["validity"], &validity["reason"]),
            (&"invalid".into(), &"service-failed".into())
        );
        assert!(validity["detail"].as_str().is_some_and(|detail| detail.contains("sut-3")), "{validity}");
        assert!(go_on(&trial), "{trial}");
        assert!(ok(&trial, "sut-3") < ok(&trial, "sut"), "{trial}");
    }
}

#[test]
fn two_runs_at_the_same_time_have_the_same_names_and_do_not_meet() {
    if !need(&[Need::Root]) {
        return;
    }
    let directories = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let changes = ["environments=[{native: {count: 3}}]", "baseline=native"];
    let found: Vec<Vec<Value>> = std::thread::scope(|scope| {
        let run = |directory: &tempfile::TempDir| {
            let directory = directory.path().to_owned();
            scope.spawn(move || vtax_testkit::runs::each_once(VTAX, &directory, PLAN, &changes, 1))
        };
        let running: Vec<_> = directories.iter().map(run).collect();
        running.into_iter().map(|run| run.join().expect("it comes to an end")).collect()
    });
    let addresses =
        |trials: &[Value]| trials.iter().map(|t| t["facts"]["address"].clone()).collect::<Vec<_>>();
    assert_eq!(addresses(&found[0])[0], addresses(&found[1])[0]);
    for trial in found.iter().flatten() {
        // What one run's systems were asked for came from that run alone, also where the machine was too busy for it to count.
        assert_ne!(trial["validity"]["reason"], "testbed-failed", "{trial}");
        let counts = &trial["observations"][0]["result"]["load"]["counts"];
        assert!(number(&counts["ok"]) > 0 && number(&counts["ok"]) <= number(&counts["intended"]), "{trial}");
    }
}

#[test]
fn systems_that_ask_for_their_addresses_say_how_long_it_took() {
    if !need(&[Need::Root]) || !installed(&["dnsmasq"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let changes =
        ["environments=[{native: {count: 2}}]", "baseline=native", "paths=[{bridge: {addresses: dhcp}}]"];
    for trial in vtax_testkit::runs::each_once(VTAX, directory.path(), PLAN, &changes, 1) {
        for system in ["sut", "sut-2"] {
            let fact = |name: &str| {
                let fact = trial["facts"][format!("{system}.{name}")].as_str();
                fact.and_then(|fact| fact.parse::<u64>().ok()).unwrap_or_else(|| panic!("{name}: {trial}"))
            };
            assert!(fact("lease_ns") > 0 && fact("lease_ns") <= fact("boot_ns"), "{trial}");
        }
        assert!(
            trial["facts"]["sut.lease"]
                .as_str()
                .is_some_and(|lease| lease.contains(" of 10.97.255.254 for "))
        );
        assert!(trial["facts"]["client.lease"].is_null(), "the client is no system under test");
    }
}

#[test]
fn a_system_with_several_cards_says_what_each_carried() {
    if !need(&[Need::Root]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let cards = "paths=[{gigabit: {wires: own, cards: 2}}]";
    // Connections are kept open, each on a card of its own: of 32 all are on one in one of two billion runs. An open loop
    // would use as many as it needs, which may be one.
    let closed = "measure=[{throughput: {warmup: 50ms, duration: 600ms}}]";
    let trials = run(directory.path(), &[cards, "workload.http.connections=32", closed]);
    for trial in of_cell(&trials, "native.gigabit.http.count-3") {
        for system in ["sut", "sut-2", "sut-3"] {
            let told = trial["facts"][format!("{system}.cards")].as_str();
            let told = told.unwrap_or_else(|| panic!("{trial}"));
            assert!(told.starts_with("eth0 ") && told.contains("; eth1 "), "{told}");
        }
    }
    for trial in of_cell(&trials, "native.gigabit.http.count-1").into_iter().filter(|trial| is_valid(trial)) {
        let told = trial["facts"]["sut.cards"].as_str().unwrap_or_default();
        assert!(!told.contains(" 0 %"), "{told}");
    }
}

#[test]
fn a_protected_machine_is_measured_beside_plain_ones() {
    if !need(&[Need::Root, Need::Vm]) {
        return;
    }
    let beside = |name: &str| {
        format!(
            "{{name: {name}, environment: {{vm: {{memory: 384MiB}}}}, service: http, \
             workload: {{http: {{target: /bytes/10}}}}, load: 20/s}}"
        )
    };
    let systems =
        format!("systems={{name: three, beside: [{}, {}, {}]}}", beside("a"), beside("b"), beside("c"));
    let changes = [
        "environments=[{vm: {name: guest, memory: 384MiB, fault_tolerance: kemari}}]",
        "baseline=guest",
        "budget={sut_memory: 1536MiB}",
        systems.as_str(),
        "measure=[{latency: {load: 30/s, warmup: 500ms, duration: 4s}}]",
    ];
    let run = |directory: &Path| vtax_testkit::runs::each_once(VTAX, directory, PLAN, &changes, 1);
    let answered = |observation: &Value| number(&observation["result"]["load"]["counts"]["ok"]) > 0;
    // In four seconds a guest whose CPU was taken may answer nobody.
    let all_answer = |trial: &Value| {
        let observations = trial["observations"].as_array();
        observations.is_some_and(|all| !all.is_empty() && all.iter().all(answered))
    };
    for trial in undisturbed(run, all_answer) {
        assert_ne!(trial["validity"]["reason"], "testbed-failed", "{trial}");
        let observations = trial["observations"].as_array().expect("a list");
        let members: Vec<&str> = observations.iter().filter_map(|o| o["member"].as_str()).collect();
        assert_eq!(members, ["sut", "sut-2", "sut-3", "sut-4"], "{trial}");
        assert!(observations.iter().all(answered), "{trial}");
        // No other has checkpoints.
        assert_eq!(trial["protection"]["mode"], "kemari");
        assert!(trial["protection"]["checkpoints"][0]["count"].as_u64().expect("a number") > 10, "{trial}");
        assert!(trial["facts"]["sut-4.ft.host-a"].is_string(), "{trial}");
    }
}
