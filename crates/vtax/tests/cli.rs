//! The command as its users meet it: exit codes, errors that name thing and way out, small runs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use vtax_fixture::{Options, create};
use vtax_sys::require::{Need, need, possible};
use vtax_testkit::programs::{self, Killed};
use vtax_testkit::runs::until_measuring;
use vtax_units::Nanos;

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");

fn vtax(arguments: &[&str]) -> Output {
    Command::new(VTAX).args(arguments).output().expect("vtax starts")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn expect(output: &Output, code: i32, words: &[&str]) {
    let text = text(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in:\n{text}");
    }
}

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        // Tests without root work in it too.
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).expect("opened");
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }
}

/// A plan that takes a second: latency at a low rate, so that a busy machine can carry it.
fn plan(environments: &str, services: &str) -> String {
    format!(
        "vtax: 1\nname: small\nbaseline: native\nenvironments: {environments}\nservices: {services}\n\
         workload:\n  http: {{target: /bytes/100, connections: 2}}\n\
         measure:\n  - latency: {{load: 50/s, warmup: 0s, duration: 300ms}}\nrepeat: 1\n"
    )
}

/// The same, which makes few of its trials again where a busy machine disturbs them: its budget is spent from the start.
fn brief_plan(environments: &str, services: &str) -> String {
    plan(environments, services).replace("repeat: 1", "repeat: {min: 1, max: 1, budget: 1s}")
}

const OWN_HTTP: &str = r#"[{command: {name: own, run: [/proc/self/exe, none], port: 9000, ready: port}}]"#;

fn journal(run: &Path) -> String {
    std::fs::read_to_string(run.join("journal.jsonl")).expect("a journal")
}

#[test]
fn bad_arguments_and_plans_are_bad_input() {
    let scratch = Scratch::new();
    expect(&vtax(&["run"]), 2, &["required", "--resume"]);
    expect(&vtax(&["fly"]), 2, &["fly"]);
    expect(&vtax(&["run", "/nowhere.yaml"]), 2, &["error: cannot read /nowhere.yaml: No such file"]);
    expect(&vtax(&["import", "har", "/nowhere.har"]), 2, &["error: cannot read /nowhere.har: No such file"]);
    let bad = scratch.file("bad.yaml", &plan("[natve]", "[htpp]"));
    let words = ["bad.yaml:4:16", "did you mean `native`?", "bad.yaml:5:", "did you mean `http`?"];
    expect(&vtax(&["run", &bad]), 2, &words);
    expect(&vtax(&["check", &bad]), 2, &words);
    // Nobody scrolls in a pipe: all are told.
    let unknown: String = (1..=30).map(|number| format!("wrong{number}: 1\n")).collect();
    let many = vtax(&["check", &scratch.file("many.yaml", &(plan("[native]", "[http]") + &unknown))]);
    expect(&many, 2, &["wrong1", "wrong30"]);
    assert!(!text(&many).contains("--verbose shows more"), "{}", text(&many));
    let good = scratch.file("good.yaml", &plan("[native]", "[http]"));
    expect(&vtax(&["check", &good, "--set", "repeet=3"]), 2, &["--set", "did you mean `repeat`?"]);
    // What only a plan has isn't passed over for a study.
    let study = scratch.name("");
    for option in [&["--json"][..], &["--set", "repeat=3"]] {
        expect(&vtax(&[&["check", &study][..], option].concat()), 2, &[option[0], "is a study"]);
    }
}

/// Whoever looks for errors finds all of them by one word.
#[test]
fn errors_begin_alike() {
    let scratch = Scratch::new();
    let bad = scratch.file("bad.yaml", &plan("[natve]", "[http]"));
    let nobody = format!("127.0.0.1:{}", vtax_sys::free_port());
    let cases: [&[&str]; 7] = [
        &["fly"],
        &["run", "/nowhere.yaml"],
        &["check", &bad],
        &["report", "/nowhere"],
        &["compare", "/nowhere", "/nowhere"],
        &["load", "tcp", &nobody],
        &["load", "redis", &nobody, "--rate", "50/s", "-q"],
    ];
    for arguments in cases {
        let output = vtax(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("error: "), "{arguments:?}: {said}");
    }
}

#[test]
fn help_offers_what_is_taken_and_shows_how() {
    // Without its line breaks, which are anywhere.
    let help = |arguments: &[&str]| {
        let output = vtax(&[arguments, &["--help"]].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        text(&output).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let after = |text: &str, word: &str| text.split_once(word).map(|(_, rest)| rest.to_owned());
    let all = help(&[]);
    assert!(after(&all, "Examples:").is_some_and(|examples| examples.contains("vtax run ")), "{all}");
    for command in ["http", "redis", "ftp", "desktop", "sip", "storage", "tcp", "udp", "rr", "ping", "voice"]
    {
        let text = help(&["load", command]);
        let usage = after(&text, "Usage: ").expect("a usage line");
        let usage = usage.split(" Arguments: ").next().and_then(|usage| usage.split(" Options: ").next());
        // A dozen options as alternatives would be no help.
        let short = usage.is_some_and(|usage| usage.contains("[OPTIONS]") && usage.matches('|').count() < 3);
        assert!(short, "{usage:?}");
    }
    // What `load udp` can't do, it doesn't offer.
    let udp = help(&["load", "udp"]);
    assert!(udp.contains("segmentation offload") && !udp.contains("Both at once"), "{udp}");
    expect(&vtax(&["load", "udp", "127.0.0.1", "--direction", "both"]), 2, &["invalid value", "up", "down"]);
    // Unless it is told to, a server can't be reached by anybody else.
    let tcp = help(&["load", "tcp"]);
    for word in ["of this host alone unless --listen", "as iperf3", "Both at once"] {
        assert!(tcp.contains(word), "`{word}` is not in: {tcp}");
    }
    // A request fails after the same time as in a plan.
    let schema: serde_json::Value = serde_json::from_slice(&vtax(&["schema"]).stdout).expect("JSON");
    for (command, workload) in [("http", "HttpWorkload"), ("redis", "RedisWorkload")] {
        let timeout = after(&help(&["load", command]), "--timeout <").expect("the option");
        let default = after(&timeout, "[default: ").and_then(|d| d.split(']').next().map(str::to_owned));
        assert_eq!(
            default.as_deref(),
            schema["$defs"][workload]["properties"]["timeout"]["default"].as_str()
        );
        assert!(default.is_some());
    }
}

#[test]
fn check_tells_what_a_service_lacks_or_its_environments_do_not_see() {
    let scratch = Scratch::new();
    let server = scratch.file("server.sh", "exit 0\n");
    let check = |run: &str| {
        let service = OWN_HTTP.replace("[/proc/self/exe, none]", run);
        vtax(&["check", &scratch.file("plan.yaml", &plan("[native]", &service))])
    };
    let missing = "missing on this host";
    expect(
        &check("[no-such-server]"),
        0,
        &[missing, "no-such-server is not installed", "the first of `run`"],
    );
    expect(&check("[/nowhere/server]"), 0, &[missing, "this host has no /nowhere/server"]);
    assert!(!text(&check("[sh, -c, 'exit 0']")).contains(missing));
    if server.starts_with("/tmp/") {
        for run in [format!("[{server}]"), format!("[sh, {server}]")] {
            expect(&check(&run), 0, &[missing, &server, "below /tmp, of which each environment has its own"]);
        }
    }
    // Tests run in the crate's directory.
    expect(&check("[./Cargo.toml]"), 0, &[missing, "is a relative path"]);
}

#[test]
fn check_tells_what_testbeds_need_and_is_not_installed() {
    let scratch = Scratch::new();
    let file = scratch.file("plan.yaml", &plan("[native, vm]", "http"));
    let check = |arguments: &[&str]| {
        let mut command = Command::new(VTAX);
        command.args(["check", &file]).args(arguments);
        command.env("PATH", scratch.path("bin")).env("VTAX_CACHE", scratch.path("cache"));
        command.output().expect("vtax starts")
    };
    let lacks_qemu = "guests: QEMU can't be used: no qemu-system-x86_64 in PATH; install it with";
    expect(&check(&[]), 0, &["missing on this host", lacks_qemu]);
    expect(&check(&["--json"]), 0, &[lacks_qemu]);
    expect(&check(&["--strict"]), 3, &[lacks_qemu]);
    expect(&check(&["--strict", "--json"]), 3, &[lacks_qemu]);
    expect(&check(&["--strict", "--set", "environments=[native]"]), 0, &["workload"]);
    let native = text(&check(&["--set", "environments=[native]"]));
    assert!(!native.contains("missing on this host"), "nothing that it doesn't need: {native}");
}

#[test]
fn a_directory_that_is_no_run_or_a_damaged_or_newer_one_is_named() {
    let scratch = Scratch::new();
    let run = scratch.name("run");
    expect(&vtax(&["report", &run]), 2, &[&run, "does not exist"]);
    expect(&vtax(&["run", "--resume", &scratch.name("")]), 2, &["no journal.jsonl"]);
    std::fs::create_dir(&run).expect("made");
    let opened = "{\"event\":\"opened\",\"version\":99,\"at_unix_ms\":0}\n";
    std::fs::write(scratch.path("run/journal.jsonl"), opened).expect("written");
    expect(&vtax(&["report", &run]), 2, &["journal.jsonl", "newer vtax"]);
    std::fs::write(scratch.path("run/journal.jsonl"), "garbage\n{}\n").expect("written");
    expect(&vtax(&["report", &run]), 2, &["journal.jsonl", "damaged"]);
}

#[test]
fn a_run_never_overwrites() {
    let scratch = Scratch::new();
    let plan = scratch.file("plan.yaml", &plan("[native]", "[http]"));
    scratch.file("precious", "");
    let refused = vtax(&["run", &plan, "--out", &scratch.name("")]);
    expect(&refused, 2, &["not empty", "choose another --out"]);
    assert!(!text(&refused).contains("--resume"), "there is no run in it: {}", text(&refused));
    assert!(scratch.path("precious").exists());
}

#[test]
fn a_strict_run_that_measures_nothing_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let service = OWN_HTTP.replace("[/proc/self/exe, none]", "[no-such-server]");
    let plan = scratch.file("plan.yaml", &plan("[native]", &service));
    let run = || vtax(&["run", &plan, "--strict", "--out", &scratch.name("run")]);
    for _ in 0..2 {
        expect(&run(), 3, &["no-such-server is not installed"]);
        assert!(!scratch.path("run").exists());
    }
    // What was there before stays, empty as it was.
    std::fs::create_dir(scratch.path("run")).expect("made");
    expect(&run(), 3, &["no-such-server is not installed"]);
    assert_eq!(std::fs::read_dir(scratch.path("run")).expect("it stays").count(), 0);
}

#[test]
fn a_service_that_is_not_there_dies_or_never_gets_ready_is_named() {
    if !need(&[Need::Root]) {
        return;
    }
    let cases = [
        (r#"[/nowhere/server]"#, "5s", 3, vec!["/nowhere/server"]),
        (
            r#"[/bin/sh, -c, "echo no database today >&2; exit 3"]"#,
            "5s",
            1,
            vec!["exit code 3", "no database today"],
        ),
        (r#"[/bin/sleep, "60"]"#, "300ms", 1, vec!["not ready", "300"]),
    ];
    for (number, (command, within, code, words)) in cases.into_iter().enumerate() {
        let scratch = Scratch::new();
        let service = OWN_HTTP
            .replace("[/proc/self/exe, none]", command)
            .replace("}}]", &format!(", ready_timeout: {within}}}}}]"));
        let plan = scratch.file("plan.yaml", &plan("[native]", &service));
        let output = vtax(&["run", &plan, "--out", &scratch.name("run")]);
        assert_eq!(output.status.code(), Some(code), "case {number}: {}", text(&output));
        expect(&output, code, &words);
        // What a failed trial took counts, too: a resumed run's budget is less by it.
        let run = vtax_store::RunDir::open(scratch.path("run")).expect("a run");
        for trial in run.trials().expect("its trials") {
            let waited = if within == "300ms" { Nanos::from_millis(300) } else { Nanos(1) };
            assert!(trial.timings.service >= waited, "case {number}: {:?}", trial.timings);
            assert!(trial.timings.testbed > Nanos::ZERO, "case {number}: {:?}", trial.timings);
        }
    }
}

#[test]
fn the_web_service_works_for_root_in_a_container_too() {
    if !need(&[Need::Root]) {
        return;
    }
    let scratch = Scratch::new();
    let plan = scratch.file("plan.yaml", &brief_plan("[native, container]", "[http]"));
    let output = vtax(&["run", &plan, "--out", &scratch.name("run")]);
    // 3 where a busy machine let no trial count.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output));
    expect(&output, output.status.code().unwrap_or(-1), &["report.html"]);
    let journal = journal(&scratch.path("run"));
    assert_eq!(
        journal.matches("\"result\":{\"kind\":\"latency\"").count(),
        journal.matches("trial-ended").count(),
        "{journal}"
    );
    for file in ["summary.json", "report.html", "report.xlsx", "provenance.json", "plan.yaml", "trials/000"] {
        assert!(scratch.path("run").join(file).exists(), "{file} is missing");
    }
}

#[test]
fn a_program_gets_what_a_run_found_as_json_and_nothing_else() {
    if !need(&[Need::Ns]) {
        return;
    }
    let scratch = Scratch::new();
    let plan = scratch.file("plan.yaml", &plan("[native]", "[http]"));
    let run = scratch.name("run");
    let tags = ["--tag", "nightly", "--tag", "rack-3"];
    let output = vtax(&[&["run", &plan, "--out", &run, "--json", "--quiet"], &tags[..]].concat());
    // 3 where a busy machine let no trial count.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output));
    assert!(output.stderr.is_empty(), "{}", text(&output));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((found["run"].as_str(), found["ended"].as_str()), (Some(run.as_str()), Some("completed")));
    let kept = std::fs::read(scratch.path("run/summary.json")).expect("a summary");
    let kept: serde_json::Value = serde_json::from_slice(&kept).expect("JSON");
    assert_eq!(found["summary"], kept);
    let brief = vtax_store::RunBrief::read(&scratch.path("run")).expect("a run");
    assert_eq!(brief.tags, ["nightly", "rack-3"]);
}

/// A user without any right: user namespaces, no control groups, no tap.
#[test]
fn a_plain_user_measures_natively_and_is_told_what_is_missing() {
    if !need(&[Need::Root, Need::Ns]) {
        return;
    }
    let scratch = Scratch::new();
    let binary = scratch.name("vtax");
    programs::install(Path::new(VTAX), Path::new(&binary));
    let plan = scratch.file("plan.yaml", &brief_plan("[native, container]", "[http]"));
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "env"])
        .arg(format!("HOME={}", scratch.name("")))
        .args([&binary, "run", &plan, "--out", &scratch.name("run")])
        .output()
        .expect("setpriv runs");
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output));
    assert!(journal(&scratch.path("run")).contains("native.bridge.http"), "{}", text(&output));
    assert!(text(&output).contains("by affinity"), "{}", text(&output));
}

/// Namespaces refused altogether: native over loopback, with the reason.
#[test]
fn without_namespaces_loopback_is_measured() {
    if !need(&[Need::Root, Need::Ns]) {
        return;
    }
    let scratch = Scratch::new();
    let binary = scratch.name("vtax");
    programs::install(Path::new(VTAX), Path::new(&binary));
    // The service is on this host's loopback, beside those of other tests.
    let service = format!("[{{http: {{port: {}}}}}]", vtax_sys::free_port());
    let plan = scratch.file("plan.yaml", &brief_plan("[native, vm]", &service));
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces; \
                  exec setpriv --inh-caps=-all --bounding-set=-all --no-new-privs \"$@\"";
    let output = Command::new("unshare")
        .args(["-Ur", "sh", "-c", forbid, "sh", &binary, "run", &plan, "--out", &scratch.name("run")])
        .output()
        .expect("unshare runs");
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output));
    let told = text(&output);
    assert!(told.contains("namespaces are refused") && told.contains("max_user_namespaces"), "{told}");
    assert!(journal(&scratch.path("run")).contains("\"kind\":\"latency\""), "{told}");
    assert!(!scratch.path("run/nodes.tmp").exists(), "the nodes' directories are left");
}

#[test]
fn ctrl_c_stops_cleanly_and_the_run_can_be_resumed() {
    if need(&[Need::Root]) {
        stopped_by("-INT", &[], |front| vec![front.to_string()]);
    }
}

/// Who hears nothing presses again, and that loses the report.
#[test]
fn a_quiet_run_says_that_it_is_stopping() {
    if need(&[Need::Root]) {
        stopped_by("-INT", &["--quiet"], |front| vec![front.to_string()]);
    }
}

/// As `systemctl stop` and `scancel` do.
#[test]
fn a_signal_to_each_process_stops_as_cleanly() {
    if need(&[Need::Root]) {
        stopped_by("-TERM", &[], |front| {
            let children = std::fs::read_to_string(format!("/proc/{front}/task/{front}/children"));
            let children = children.expect("its children");
            let all: Vec<_> =
                children.split_whitespace().map(str::to_owned).chain([front.to_string()]).collect();
            assert_eq!(
                all.len(),
                3,
                "the front process, the controller, and who watches over control groups"
            );
            all
        });
    }
}

fn stopped_by(signal: &str, more: &[&str], whom: impl Fn(u32) -> Vec<String>) {
    let scratch = Scratch::new();
    let slow = plan("[native]", "[http]").replace("300ms", "3s");
    let slow = slow.replace("repeat: 1", "repeat: {min: 2, max: 2, budget: 4s}");
    let plan = scratch.file("plan.yaml", &slow);
    let run = scratch.name("run");
    let front = Command::new(VTAX)
        .args(["run", &plan, "--out", &run])
        .args(more)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("vtax starts");
    let front = Killed::new(front);
    until_measuring(&scratch.path("run"));
    let signalled = Command::new("kill").arg(signal).args(whom(front.id())).status().expect("kill runs");
    assert!(signalled.success());
    let output = front.output().expect("it ends");
    expect(&output, 130, &["interrupted", "vtax run --resume"]);
    let told = "stopping: taking the testbed down, then the report; once more to end at once";
    assert_eq!(text(&output).matches(told).count(), 1, "{}", text(&output));
    let output = vtax(&["run", "--resume", &run]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output));
    assert!(journal(&scratch.path("run")).contains("\"event\":\"completed\""), "{}", text(&output));
}

#[test]
fn a_full_disk_is_named_and_finished_trials_stay() {
    if !need(&[Need::Root]) {
        return;
    }
    let scratch = Scratch::new();
    let long = plan("[native]", "[http]").replace("repeat: 1", "repeat: 200");
    let plan = scratch.file("plan.yaml", &long);
    // A small file system in a mount namespace of its own; what is on it is saved before it goes.
    let script = "mount -t tmpfs -o size=600k tmpfs $1; run=$2; kept=$3; shift 3; \"$@\"; \
                  code=$?; cp -r $run $kept; exit $code";
    let (small, run, kept) = (scratch.name("small"), scratch.name("small/run"), scratch.name("kept"));
    std::fs::create_dir(&small).expect("made");
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh", &small, &run, &kept])
        .args([VTAX, "run", &plan, "--out", &run])
        .output()
        .expect("unshare runs");
    expect(&output, 3, &["No space left on device", "small/run"]);
    let kept = journal(&scratch.path("kept"));
    let finished = kept.matches("trial-ended").count();
    assert!(finished >= 1, "{}", text(&output));
    let trials = std::fs::read_dir(scratch.path("kept/trials")).expect("trials").count();
    assert!(trials >= finished, "{finished} trials are in the journal, {trials} on disk");
}

#[test]
fn a_cache_that_others_may_write_to_is_refused() {
    let scratch = Scratch::new();
    let cache = scratch.path("cache");
    std::fs::create_dir(&cache).expect("a directory");
    std::fs::set_permissions(&cache, PermissionsExt::from_mode(0o777)).expect("its mode");
    let output = Command::new(VTAX).arg("doctor").env("VTAX_CACHE", &cache).output().expect("vtax starts");
    expect(&output, 3, &["everyone may write to it", "set VTAX_CACHE"]);
}

/// The first of a few tries in which trials counted, and its number; `None`, which is told, where a busy machine let none.
fn unless_busy(run: impl Fn(usize) -> Output) -> Option<(usize, Output)> {
    for number in 0..3 {
        let output = run(number);
        if output.status.code() != Some(3) {
            return Some((number, output));
        }
    }
    let _ = possible(Some("of three runs no trial counts, as this machine is too busy"));
    None
}

#[test]
fn a_calibration_is_kept_found_and_taken_along() {
    if !need(&[Need::Ns]) {
        return;
    }
    let scratch = Scratch::new();
    let cache = scratch.name("cache");
    let vtax = |arguments: &[&str]| {
        Command::new(VTAX).args(arguments).env("VTAX_CACHE", &cache).output().expect("vtax starts")
    };
    // A duet: what a busy machine does to one side, it does to the other.
    let text = plan("[native]", "[http]").replace("repeat: 1", "repeat: {min: 3, max: 3, trials: duet}");
    let text = text.replace("latency: {load: 50/s, ", "throughput: {");
    let file = scratch.file("plan.yaml", &text);
    expect(&vtax(&["check", &file]), 0, &["not calibrated on this host"]);
    expect(&vtax(&["calibrate", "/nowhere.yaml"]), 2, &["/nowhere.yaml"]);
    let made = unless_busy(|number| {
        let run = scratch.name(&format!("calibration-{number}"));
        let made = vtax(&["calibrate", &file, "--out", &run, "--json"]);
        assert!(journal(Path::new(&run)).contains("\"partner\":{\"index\":"), "trials are pairs");
        if made.status.code() == Some(3) {
            expect(&made, 3, &["no trial counts"]);
        }
        made
    });
    let Some((_, made)) = made else { return };
    expect(&made, 0, &[]);
    let json: serde_json::Value = serde_json::from_slice(&made.stdout).expect("JSON");
    let key = json["key"].as_str().expect("a key");
    let throughput =
        json["effects"].as_array().expect("effects").iter().find(|e| e["metric"] == "throughput");
    assert_eq!(throughput.expect("one for the rate")["cell"], "native.bridge.http");
    assert!(Path::new(&cache).join(format!("calibration/{key}.json")).is_file());
    expect(&vtax(&["check", &file]), 0, &["calibrated on this host less than a day ago"]);
    let other = [file.as_str(), "--set", "measure.throughput.duration=400ms"];
    expect(&vtax(&[&["check"], &other[..]].concat()), 0, &["not calibrated on this host"]);
    let itself = json["run"].as_str().expect("its run");
    let other_kind = ["is a calibration and no ordinary run", "vtax calibrate --resume"];
    expect(&vtax(&["run", "--resume", itself]), 2, &other_kind);
    // Candidates may differ.
    let again = scratch.name("run");
    let environments = "environments=[native, native: {name: other}]";
    let ran = vtax(&["run", &file, "--set", environments, "--out", &again]);
    assert!(String::from_utf8_lossy(&ran.stderr).contains("testbed calibrated"), "{ran:?}");
    let taken = std::fs::read_to_string(Path::new(&again).join("calibration.json")).expect("taken along");
    assert!(taken.contains(key));
    let refused = vtax(&["calibrate", "--resume", &again]);
    expect(&refused, 2, &["is an ordinary run and no calibration", "vtax run --resume"]);
}

#[test]
fn two_versions_of_a_service_are_a_duet() {
    if !need(&[Need::Ns]) {
        return;
    }
    let scratch = Scratch::new();
    let version = |name: &str| {
        format!(
            "{{command: {{name: {name}, run: [{VTAX}, service, http, --listen, \"{{address}}:{{port}}\"], port: 8000}}}}"
        )
    };
    let text = plan("[native]", &format!("[{}, {}]", version("v1"), version("v2")))
        .replace("baseline: native", "baseline: {environment: native, service: v1}")
        .replace("latency: {load: 50/s, ", "throughput: {")
        .replace("repeat: 1", "repeat: {min: 3, max: 3, trials: duet}");
    let file = scratch.file("plan.yaml", &text);
    expect(&vtax(&["check", &file]), 0, &["native.bridge.v2  against native.bridge.v1"]);
    let made = unless_busy(|number| vtax(&["run", &file, "--out", &scratch.name(&format!("run-{number}"))]));
    let Some((number, output)) = made else { return };
    let run = scratch.name(&format!("run-{number}"));
    expect(&output, 0, &["v2"]);
    let journal = journal(Path::new(&run));
    assert_eq!(journal.matches("\"partner\":{\"index\":").count() % 2, 0, "trials are pairs");
    let summary = std::fs::read(Path::new(&run).join("summary.json")).expect("a summary");
    let summary: serde_json::Value = serde_json::from_slice(&summary).expect("JSON");
    let compared = summary["comparisons"].as_array().expect("comparisons");
    let of_services =
        |c: &&serde_json::Value| c["cell"] == "native.bridge.v2" && c["baseline"] == "native.bridge.v1";
    assert!(!compared.is_empty() && compared.iter().all(|c| of_services(&c)), "{compared:?}");
    let headline = summary["headline"].as_str().expect("a headline");
    // Which verdict it is depends on the machine.
    assert!(headline.contains(" v1 in throughput: v2, "), "{headline}");
}

#[test]
fn runs_are_exported_and_what_is_wrong_is_named() {
    let scratch = Scratch::new();
    let options = Options { repetitions: 4, seconds: 1, rate: 200, ..Options::default() };
    create(&scratch.path("run"), &options).expect("a run");
    let (run, figures) = (scratch.name("run"), scratch.name("figures.parquet"));
    expect(&vtax(&["export", "parquet", &run, &run, "--out", &figures]), 0, &["figures.parquet: ", " rows"]);
    assert!(std::fs::read(&figures).expect("a file").starts_with(b"PAR1"));
    let otlp = scratch.name("new/otlp");
    expect(&vtax(&["export", "otlp", &run]), 2, &["required", "--out <DIR>"]);
    expect(&vtax(&["export", "otlp", &run, "--out", &otlp]), 0, &["metrics.json", "traces.json"]);
    let traces = std::fs::read_to_string(scratch.path("new/otlp/traces.json")).expect("traces");
    assert!(traces.contains("resourceSpans"), "{traces}");
    expect(&vtax(&["export", "otlp", &run, "--to", "https://localhost"]), 2, &["only http://"]);
    let bare = ["export", "otlp", &run, "--to", "localhost:4318"];
    expect(&vtax(&bare), 2, &["write http://localhost:4318"]);
    let none = scratch.name("none");
    expect(&vtax(&["export", "parquet", &none, "--out", &figures]), 2, &["not a run directory"]);
    assert!(std::fs::read(&figures).expect("it is still there").starts_with(b"PAR1"));
}

#[test]
fn a_page_is_served_to_who_has_the_link() {
    let scratch = Scratch::new();
    let (runs, none) = (scratch.name("."), scratch.name("none"));
    expect(&vtax(&["serve", &none]), 2, &["cannot read", "none"]);
    let here = |arguments: &[&str]| {
        let mut command = Command::new(VTAX);
        command.arg("serve").args(arguments).args(["--listen", "127.0.0.1:0"]).current_dir(&runs);
        command.output().expect("vtax starts")
    };
    expect(&here(&[]), 2, &["there are no runs here: `vtax run PLAN` makes one", "name the directory"]);
    expect(&here(&[".", "--allow-run"]), 2, &["no directory `plans` here", "--plans DIR"]);
    expect(&vtax(&["serve", &runs, "--listen", "0.0.0.0:0"]), 2, &["--tls-cert", "--plain-text"]);
    let mut server = Command::new(VTAX)
        .args(["serve", &runs, "--listen", "127.0.0.1:0", "--token-file", &scratch.name("token")])
        .env("VTAX_CACHE", scratch.path("cache"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("vtax starts");
    let mut link = String::new();
    let read = BufReader::new(server.stdout.take().expect("its output")).read_line(&mut link);
    let answer = |link: &str| -> Option<String> {
        let (host, path) = link.trim().strip_prefix("http://")?.split_once('/')?;
        let mut stream = TcpStream::connect(host).ok()?;
        let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    let (with, without) = (answer(&link), answer(link.split("?token=").next().unwrap_or_default()));
    server.kill().expect("it ran");
    server.wait().expect("it ended");
    assert!(read.is_ok() && with.as_ref().is_some_and(|a| a.starts_with("HTTP/1.1 303 ")), "{link}{with:?}");
    assert!(without.as_ref().is_some_and(|a| a.starts_with("HTTP/1.1 401 ")), "{without:?}");
    let token = std::fs::read_to_string(scratch.path("token")).expect("a token");
    assert!(link.trim().ends_with(token.trim()), "{link}");
}
