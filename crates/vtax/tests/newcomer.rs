//! The first minute: what a newcomer types, what packages install, and the gate for CI.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use vtax_fixture::{Options, create};
use vtax_testkit::programs;
use vtax_testkit::runs::{SMALL_PLAN, each_once};
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

fn name(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn alone_in_a_script_it_says_how_it_is_called() {
    let output = vtax(&[]);
    expect(&output, 2, &["Usage: vtax", "Examples:", "vtax init"]);
    assert!(output.stdout.is_empty(), "a script reads nothing");
}

#[test]
fn the_version_is_told_in_short_and_at_length() {
    let short = vtax(&["--version"]);
    expect(&short, 0, &[&format!("vtax {}", env!("CARGO_PKG_VERSION"))]);
    assert_eq!(text(&short).lines().count(), 1);
    expect(&vtax(&["-V", "--verbose"]), 0, &["commit: ", "built: ", "journal and run directory: "]);
}

#[test]
fn a_first_plan_is_written_accepted_and_never_overwritten() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("mine.yaml");
    let options = ["--service", "redis", "--against", "vm", "--time", "5m"];
    expect(&vtax(&[&["init", name(&file)], &options[..]].concat()), 0, &["vtax check ", "vtax run "]);
    let written = std::fs::read_to_string(&file).expect("a plan");
    assert!(written.contains("# ") && written.contains("services: redis"), "{written}");
    expect(
        &vtax(&["check", name(&file)]),
        0,
        &["2 cells", "no trial beyond `repeat.min` starts after 5 min"],
    );
    expect(&vtax(&["init", name(&file)]), 2, &["is there already"]);
    let missing = directory.path().join("sub/dir");
    let told = format!("there is no directory {0}: `mkdir -p {0}` makes it", missing.display());
    expect(&vtax(&["init", name(&missing.join("x.yaml")), "--yes"]), 2, &[&told]);
    assert_eq!(std::fs::read_to_string(&file).expect("it stays"), written);
    let own = directory.path().join("own.yaml");
    expect(&vtax(&["init", name(&own), "--run", "sh -c 'exit 0'", "--ask", "latency"]), 0, &[]);
    expect(&vtax(&["check", name(&own)]), 0, &["3 cells"]);
    expect(&vtax(&["init", name(&own), "--run", "sh 'a"]), 2, &["is not closed"]);
    let new = directory.path().join("new.yaml");
    let refused = |options: &[&str], words: &str| {
        expect(&vtax(&[&["init", name(&new)], options].concat()), 2, &[words]);
        assert!(!new.exists());
    };
    refused(&["--run", "ngnix"], "this host has no program `ngnix`");
    refused(&["--service", "sip", "--p99", "5ms"], "--p99 is for capacity");
    refused(&["--ask", "latency", "--p99", "5ms"], "--p99 is for capacity");
    refused(&["--service", "http", "--port", "80"], "--port");
    expect(
        &vtax(&["init", "--name", "a b", name(&directory.path().join("c.yaml"))]),
        2,
        &["1 to 60 letters"],
    );
}

/// Each step is tried whatever became of those before, and all that is missing is told together.
#[test]
fn a_setup_whose_packages_cannot_be_fetched_tells_what_is_still_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    for program in ["apt-get", "apt-cache"] {
        programs::make(&directory.path().join(program), "#!/bin/sh\necho no network >&2\nexit 100\n");
    }
    let setup = Command::new(VTAX)
        .args(["setup", "--renew", "--no-fault-tolerance"])
        // Beside the system's own `sbin` nothing else is found.
        .env("PATH", directory.path())
        .env("VTAX_CACHE", directory.path().join("cache"))
        .output()
        .expect("vtax starts");
    expect(&setup, 3, &[]);
    let said = String::from_utf8_lossy(&setup.stdout);
    // Where `sbin` is `bin`, QEMU is found there if this host has it.
    let has_qemu = ["/usr/local/sbin", "/usr/sbin", "/sbin"]
        .iter()
        .any(|directory| Path::new(directory).join("qemu-system-x86_64").exists());
    let mut words = Vec::new();
    if cfg!(target_arch = "x86_64") {
        words.push("no guest kernel: ");
    }
    if cfg!(target_arch = "x86_64") && !has_qemu {
        words.extend(["still missing, and ", "qemu-system-x86"]);
    }
    for word in words {
        assert!(said.contains(word), "`{word}` is not in:\n{}", text(&setup));
    }
}

#[test]
fn words_are_explained_from_the_documentation() {
    expect(&vtax(&["explain", "tax"]), 0, &["docs/methodology.md#tax", "above 1"]);
    expect(&vtax(&["explain", "latency_p99"]), 0, &["99 of 100 requests"]);
    expect(&vtax(&["explain", "closed", "loop"]), 0, &["docs/words.md"]);
    expect(&vtax(&["explain", "latncy_p99"]), 2, &["error: ", "did you mean", "`vtax explain` lists"]);
    expect(&vtax(&["explain"]), 0, &["docs/words.md\n  Words, plan, environment, ", "docs/ims.md\n"]);
}

#[test]
fn shells_complete_and_manual_pages_are_there() {
    for shell in ["bash", "zsh", "fish"] {
        let script = vtax(&["completions", shell]);
        expect(&script, 0, &["doctor", "compare"]);
        assert!(script.stdout.len() > 1_000);
    }
    let directory = tempfile::tempdir().expect("a directory");
    expect(&vtax(&["man", name(directory.path())]), 0, &[]);
    for page in ["vtax.1", "vtax-run.1", "vtax-doctor.1"] {
        let page = std::fs::read_to_string(directory.path().join(page)).expect("a page");
        assert!(page.contains(".TH"), "{page}");
    }
    assert!(!directory.path().join("vtax-agent.1").exists(), "nobody calls it by hand");
}

#[test]
fn what_it_is_made_of_is_told() {
    let list = vtax(&["licences", "--list"]);
    expect(&list, 0, &["  serde ", "  clap ", "MIT"]);
    assert!(!text(&list).contains("===="));
    expect(&vtax(&["licences"]), 0, &["\n==== ", "Permission is hereby granted"]);
}

/// As CI calls it, with runs that were made up instead of measured.
#[test]
fn a_smoke_test_names_what_fails_and_takes_no_time() {
    if !vtax_sys::require::need(&[vtax_sys::require::Need::Ns]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let write = |file: &str, services: &str| {
        let file = directory.path().join(file);
        let plan = SMALL_PLAN.replace("[http]", services).replace("duration: 1s", "duration: 10m");
        std::fs::write(&file, plan.replace("repeat: 3", "repeat: 9")).expect("written");
        file
    };
    let smoke_test = |plan: &Path, out: &str, changes: &[&str]| {
        let out = directory.path().join(out);
        vtax(&[&["run", name(plan), "--smoke-test", "--out", name(&out)], changes].concat())
    };
    let works = write("works.yaml", "[http]");
    let changed = ["--set", "seed=7"];
    let ended = format!("vtax run {} --set seed=7", name(&works));
    expect(
        &smoke_test(&works, "works", &changed),
        0,
        &["2 of 2 trials work", "the whole run takes about 3 h", &ended],
    );
    let run = vtax_store::RunDir::open(directory.path().join("works")).expect("a run");
    assert_eq!(run.plan().expect("its plan").name, "small-smoke-test");
    let again = ["a smoke test isn't gone on with", "vtax run PLAN --smoke-test"];
    expect(&vtax(&["run", "--resume", name(run.path())]), 2, &again);
    let fails = write("fails.yaml", "[http, command: {name: ends, run: [\"false\"], port: 8000}]");
    let failed = ["2 of 4 trials work", "these fail\n  native.bridge.ends  latency@50", "other.bridge.ends"];
    expect(&smoke_test(&fails, "fails", &[]), 1, &failed);
}

/// The journal of a run of which no trial counts, though what they observed is valid in itself.
fn without_a_trial_that_counts(journal: &str) -> String {
    let (valid, observed) = (r#""validity":"valid""#, r#""observations":"#);
    let invalid = r#""validity":"invalid","reason":"disturbed","detail":"a neighbour""#;
    let disturbed = |line: &str| match line.split_once(observed) {
        Some((trial, rest)) => format!("{}{observed}{rest}\n", trial.replace(valid, invalid)),
        None => format!("{line}\n"),
    };
    let disturbed: String = journal.lines().map(disturbed).collect();
    assert!(disturbed.contains(invalid) && disturbed.contains(valid));
    disturbed
}

#[test]
fn the_gate_makes_a_baseline_passes_what_is_equal_and_says_what_it_compared() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let options = Options { repetitions: 6, seconds: 1, rate: 200, ..Options::default() };
    create(&path("measured"), &options).expect("a run");
    // Copies the run where it is asked to measure one, into a directory that must not be there, and ends as it is told.
    let program = format!(
        "#!/bin/sh\nif [ \"$1\" = run ]; then\n  [ \"$2\" = plan.yaml ] && [ \"$3\" = --out ] && [ ! -e \"$4\" ] || exit 9\n  \
         cp -r {} \"$4\"\n  exit \"$RUN_ENDS\"\nelse\n  exec {VTAX} \"$@\"\nfi\n",
        path("measured").display()
    );
    programs::make(&path("vtax"), &program);
    let gate_at = |baseline: PathBuf, metrics: &str, ends: &str| {
        Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/gate.sh"))
            .env("VTAX", path("vtax"))
            .env("VTAX_PLAN", "plan.yaml")
            .env("VTAX_BASELINE", baseline)
            .env("VTAX_MAX_TAX", "50%")
            .env("VTAX_METRICS", metrics)
            .env("VTAX_OUT", path("out"))
            .env("GITHUB_STEP_SUMMARY", path("summary.md"))
            .env("RUN_ENDS", ends)
            .output()
            .expect("sh runs")
    };
    let gate_of_run = |metrics: &str, ends: &str| gate_at(path("baseline"), metrics, ends);
    let gate = |metrics: &str| gate_of_run(metrics, "0");
    // A run of which no trial counts becomes no baseline.
    expect(&gate_of_run("", "3"), 3, &["is no baseline", "remove it and try again"]);
    std::fs::remove_dir_all(path("baseline")).expect("removed");
    expect(&gate(""), 0, &["this run becomes it"]);
    assert!(path("baseline/journal.jsonl").is_file() && !path("out/vtax.xml").exists());
    // The second build finds what the first one left.
    for _ in 0..2 {
        expect(&gate("latency_p50, capacity"), 0, &["capacity"]);
        assert!(std::fs::read_to_string(path("out/vtax.xml")).expect("JUnit").contains("<testcase"));
        assert!(std::fs::read_to_string(path("summary.md")).expect("a summary").contains('|'));
    }
    // A baseline in the place of the change's run would be removed, however its path is spelled.
    for spelled in ["out/run", "out/./run/", "baseline/../out/run"] {
        expect(&gate_at(path(spelled), "capacity", "0"), 2, &["can't be the same directory"]);
        assert!(path("out/run/journal.jsonl").is_file(), "{spelled}");
    }
    // The exit code is that of the comparison.
    let journal = std::fs::read_to_string(path("baseline/journal.jsonl")).expect("a journal");
    let write = |text: &str| std::fs::write(path("baseline/journal.jsonl"), text).expect("written");
    let cut: String =
        journal.lines().filter(|l| !l.contains("\"completed\"")).map(|l| format!("{l}\n")).collect();
    write(&cut);
    // What was cut short was made by the unchanged service, and isn't gone on with by the changed one.
    expect(&gate("capacity"), 2, &["is incomplete", "remove it", "run --resume"]);
    assert_eq!(std::fs::read_to_string(path("baseline/journal.jsonl")).expect("a journal"), cut);
    // Nor is anything of the build before published as this one's.
    assert!(["out/run", "out/vtax.xml", "out/vtax.md"].into_iter().all(|left| !path(left).exists()));
    write(&without_a_trial_that_counts(&journal));
    expect(&gate("capacity"), 2, &["no trial of the baseline", "Remove it and try again"]);
    assert!(!path("out/run").exists());
    write(&journal);
    // Before anything is measured.
    expect(&gate("capacity, no-such-metric"), 2, &["no-such-metric"]);
    assert!(!path("out/run").exists());
    let none = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/gate.sh")).output();
    expect(&none.expect("sh runs"), 2, &["name the plan"]);
}

/// 1 says that the change costs too much, and nothing else does.
#[test]
fn a_gate_whose_files_cannot_be_written_is_no_verdict() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    // A comparison that passes, and a run that only leaves a trace.
    let program = "#!/bin/sh\nif [ \"$1\" = run ]; then\n  mkdir -p \"$4\" && touch \"$4/measured\"\nelse\n  \
                   while [ \"$1\" != --markdown ]; do shift; done\n  echo '| passed |' > \"$2\"\nfi\n";
    programs::make(&path("vtax"), program);
    std::fs::create_dir(path("baseline")).expect("made");
    let journal = r#"{"event":"completed"} {"validity":"valid"}"#;
    std::fs::write(path("baseline/journal.jsonl"), journal).expect("written");
    let gate = |out: &str, summary: &str| {
        Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/gate.sh"))
            .env("VTAX", path("vtax"))
            .env("VTAX_PLAN", "plan.yaml")
            .env("VTAX_BASELINE", path("baseline"))
            .env("VTAX_METRICS", "")
            .env("VTAX_OUT", path(out))
            .env("GITHUB_STEP_SUMMARY", path(summary))
            .output()
            .expect("sh runs")
    };
    // Below a file there is no directory; a directory in the place of a file isn't removed.
    expect(&gate("vtax/out", "summary.md"), 2, &[]);
    std::fs::create_dir_all(path("taken/vtax.xml")).expect("made");
    expect(&gate("taken", "summary.md"), 2, &[]);
    assert!(!path("taken/run").exists(), "nothing was measured");
    expect(&gate("out", "missing/summary.md"), 0, &["gate: the summary can't be written"]);
    assert!(path("out/run/measured").exists());
    expect(&gate("out", "summary.md"), 0, &[]);
    assert_eq!(std::fs::read_to_string(path("summary.md")).expect("a summary"), "| passed |\n");
}

/// What a command of a shell's prints on a terminal of this kind; `None` where none can be had.
fn on_terminal(kind: &str, command: &str) -> Option<String> {
    if !vtax_sys::require::installed(&["script"]) {
        return None;
    }
    let output = |command: &str| {
        let mut script = Command::new("script");
        script.args(["-qec", command, "/dev/null"]).env("TERM", kind).stdin(Stdio::null());
        script.output().ok()
    };
    let works = output("test -t 2").is_some_and(|output| output.status.success());
    if !vtax_sys::require::possible((!works).then_some("script(1) gives no terminal")) {
        return None;
    }
    output(command).map(|output| text(&output))
}

#[test]
fn a_dumb_terminal_gets_the_lines_that_a_pipe_gets() {
    let directory = tempfile::tempdir().expect("a directory");
    let plan = directory.path().join("plan.yaml");
    let once = SMALL_PLAN.replace("repeat: 3", "repeat: {min: 1, max: 1, budget: 2s}");
    std::fs::write(&plan, once).expect("written");
    let run = format!("{VTAX} run {} --out {}", name(&plan), name(&directory.path().join("run")));
    let nobody = format!("127.0.0.1:{}", vtax_sys::free_port());
    let load = format!("{VTAX} load http http://{nobody}/ --rate 50/s --duration 2s --interval 500ms");
    let of_run = ["run directory: ", "at least 2 trials to go"];
    for (command, words) in [(run.as_str(), &of_run[..]), (load.as_str(), &[" ok/s "][..])] {
        let Some(said) = on_terminal("dumb", command) else { return };
        for word in words {
            assert!(said.contains(word), "`{word}` is not in:\n{said}");
        }
    }
}

/// It looks at everything, which takes its time: once for both.
#[test]
fn the_doctor_proves_its_lines_and_who_waits_is_told_what_it_does() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("found.json");
    let doctor = format!("{VTAX} doctor --json > {}; echo \"it ended with $?.\"", name(&file));
    let found = if let Some(said) = on_terminal("xterm", &doctor) {
        let words = ["doctor: trying namespaces", "doctor: proving fault-tolerant pairs", "doctor: booting "];
        for word in words.into_iter().chain(["it ended with 0."]) {
            assert!(said.contains(word), "`{word}` is not in:\n{said}");
        }
        std::fs::read(file).expect("a file")
    } else {
        let output = vtax(&["doctor", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        output.stdout
    };
    let found: Value = serde_json::from_slice(&found).expect("JSON");
    let points = found.as_array().expect("a list");
    assert!(points.len() > 8, "{found}");
    for point in points {
        let fine = point["state"] == "ok";
        assert!(fine || point["fix"].as_str().is_some_and(|f| !f.is_empty()), "no way out: {point}");
    }
}

/// A root that is read-only, temporary files that can't be executed, and a home that can't be written. Not at `/tmp`: the checkout may be
/// there.
const BARE: &str = "unshare -Urm sh -c 'mount -t tmpfs -o noexec none /mnt && mkdir /mnt/home && mount -t tmpfs -o ro none /mnt/home \
    && mount -o remount,bind,ro / && TMPDIR=/mnt HOME=/mnt/home XDG_CACHE_HOME= VTAX_CACHE= exec \"$0\" \"$@\"'";

/// Emulated: each machine is this one, seen from namespaces that make it so.
#[test]
fn doctor_tells_of_machines_that_lack_something() {
    if !vtax_sys::require::need(&[vtax_sys::require::Need::Ns]) {
        return;
    }
    let script = format!("exec {BARE} \"$0\" doctor --all");
    let output = Command::new("sh").args(["-c", &script, VTAX]).output().expect("sh runs");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let point = |name: &str| said.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    assert!(
        point("temporary files").starts_with("degraded") && point("temporary files").contains("noexec"),
        "{said}"
    );
    assert!(point(" cache ").starts_with("degraded") && said.contains("fix: set VTAX_CACHE"), "{said}");
    // One CPU.
    let output =
        Command::new("taskset").args(["-c", "0", VTAX, "doctor", "--all"]).output().expect("taskset runs");
    let said = text(&output);
    let cpus = said.lines().find(|line| line.split_whitespace().nth(1) == Some("CPUs")).unwrap_or_default();
    assert!(cpus.starts_with("degraded") && cpus.contains("share it"), "{said}");
}

/// A machine that lacks something, what a run says there, and a command that runs the rest of its line there.
const MACHINES: &[(&str, &str, &str)] = &[
    (
        "read-only root, temporary files that can't be executed, no place for a cache",
        "native.bridge.http",
        BARE,
    ),
    (
        "a container without privileges: no capability, no namespace, no control groups",
        "client and system under test share this host's loopback",
        "unshare -Urm sh -c 'umount -R -l /sys/fs/cgroup; \
         echo 0 > /proc/sys/user/max_user_namespaces \
         && exec setpriv --inh-caps=-all --bounding-set=-all --no-new-privs \"$0\" \"$@\"'",
    ),
    ("one CPU", "vtax may use one CPU", "taskset -c 0"),
    (
        "another language and time zone, few descriptors",
        "native.bridge.http",
        "sh -c 'ulimit -n 256; LC_ALL=tr_TR.UTF-8 LANG=tr_TR.UTF-8 TZ=Pacific/Chatham exec \"$0\" \"$@\"'",
    ),
];

/// The run itself, of which `doctor` only tells.
#[test]
fn a_plan_runs_on_machines_that_lack_something() {
    if !vtax_sys::require::need(&[vtax_sys::require::Need::Ns]) {
        return;
    }
    // With its budget spent from the start, what is disturbed isn't made again and again.
    let plan = SMALL_PLAN
        .replace("repeat: 3", "repeat: {min: 1, max: 1, budget: 1s}")
        .replace("duration: 1s", "duration: 300ms");
    // Without namespaces the service is on this host's loopback, beside those of other tests.
    let plan = plan.replace("[http]", &format!("[{{http: {{port: {}}}}}]", vtax_sys::free_port()));
    // They mostly wait, and only the one without namespaces uses this host's loopback and the port.
    std::thread::scope(|scope| {
        MACHINES.iter().for_each(|machine| drop(scope.spawn(|| runs_on(machine, &plan))));
    });
}

fn runs_on((machine, told, command): &(&str, &str, &str), plan: &str) {
    // The plan comes by standard input, as a file beside it may be hidden there. What was stored is told before the machine ends.
    let script = format!(
        "exec {command} sh -c 'dir=$(mktemp -d ${{TMPDIR:-/tmp}}/small-XXXXXX); cat > $dir/plan.yaml && \"$0\" run $dir/plan.yaml --out $dir/run; \
             code=$?; grep -c trial-ended $dir/run/journal.jsonl; tail -n 1 $dir/run/journal.jsonl; \
             \"$0\" report $dir/run > /dev/null && echo reported; rm -rf $dir; exit $code' {VTAX}"
    );
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh runs");
    child.stdin.take().expect("a pipe").write_all(plan.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output);
    // 3: no trial counts, as on a machine that is busy with other tests; some of those are made again.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{machine}: {said}");
    let trials = said.lines().filter_map(|line| line.parse::<u32>().ok()).next();
    assert!(trials.is_some_and(|trials| trials >= 2), "{machine}: {said}");
    for word in [*told, "\"event\":\"completed\"", "reported"] {
        assert!(said.contains(word), "{machine}: `{word}` is not in:\n{said}");
    }
}

/// The share of a CPU that a trial's generator took.
fn generators_share(trial: &Value) -> f64 {
    let load = &trial["observations"][0]["result"]["load"];
    let time = |value: &Value| {
        let time = value.as_str().and_then(|text| text.parse::<Nanos>().ok());
        time.unwrap_or_else(|| panic!("no time: {trial:#}")).as_secs_f64()
    };
    let generator = &load["generator"];
    (time(&generator["cpu_user"]) + time(&generator["cpu_system"])) / time(&load["duration"])
}

/// How much others took of the CPUs of a trial's system, a busy machine decides; that vtax's own generator is none of them, it doesn't.
#[test]
fn on_one_cpu_the_generator_is_no_other_process() {
    if !vtax_sys::require::need(&[vtax_sys::require::Need::Ns]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("vtax-on-one-cpu");
    programs::make(&program, &format!("#!/bin/sh\nexec taskset -c 0 {VTAX} \"$@\"\n"));
    let has_result = |trial: &Value| trial["observations"].as_array().is_some_and(|all| !all.is_empty());
    // As fast as it must be for this machine's generator to need a tenth of a CPU: less could be other processes that aren't told.
    let mut measured = Vec::new();
    for rate in [1_000, 4_000, 16_000] {
        let place = tempfile::tempdir().expect("a directory");
        let plan = SMALL_PLAN.replace("50/s", &format!("{rate}/s"));
        measured = each_once(name(&program), place.path(), &plan, &[], 2);
        measured.retain(has_result);
        if measured.iter().all(|trial| generators_share(trial) > 0.1) {
            break;
        }
    }
    assert!(!measured.is_empty(), "no trial has a result");
    for trial in &measured {
        let facts = &trial["facts"];
        let share = |fact: &str| facts[fact].as_str().and_then(|text| text.parse::<f64>().ok()).expect(fact);
        let told = |noise: &str| noise.split_once("other processes used ")?.1.split(' ').next()?.parse().ok();
        // From 3 % on it is told.
        let others = facts["noise"].as_str().and_then(told).map_or(0.03, |percent: f64| percent / 100.0);
        let own = share("host.sut_cpus_busy") - others;
        assert!(own > share("host.sut_cpus_used") + generators_share(trial) / 4.0, "{facts:#}");
    }
}
