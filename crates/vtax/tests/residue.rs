//! `kill -9` at any moment leaves nothing behind, loses no finished trial, and the run can be
//! resumed to its end. The same of other ends: `residue_support/ends.rs`.

#[path = "residue_support/ends.rs"]
mod ends;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use vtax_sys::require::{Need, need};
use vtax_sys::sync::lock;
use vtax_testkit::residue::Snapshot;

/// Time after a kill within which the kernel and the keeper must have removed everything.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// A plan whose run is killed again and again.
struct Case {
    plan: &'static str,
    /// Kills during set-up, load and tear-down. Races are rare: `make torture` goes on with kills for as long as it is told.
    kills: usize,
    cells: usize,
    /// Trials of each cell. Where all were made between two kills, another run begins: the last is resumed to its end, and should
    /// not take long.
    repeat: usize,
    /// Longest time a run is let go on before it is killed, on a machine that is fast enough.
    longest_ms: u64,
    /// Whether that is long enough for some trials to end between two kills.
    ends: bool,
}

/// A guest's trial takes some 4 s.
const ONE: Case = Case { plan: PLAN, kills: 9, cells: 3, repeat: 2, longest_ms: 4500, ends: true };
/// Guests boot at the same time, on CPUs that may be few: most kills meet them before they are up.
const SEVERAL: Case = Case { plan: SYSTEMS, kills: 3, cells: 1, repeat: 1, longest_ms: 20_000, ends: false };
/// What a machine lacks is left out, so that a cell is all that is sure.
const MIDDLES: Case = Case { plan: PATHS, kills: 6, cells: 1, repeat: 1, longest_ms: 4500, ends: false };

const PLAN: &str = "
vtax: 1
name: residue
baseline: native
environments: [native, container, vm]
services: [http]
workload:
  http: {target: /bytes/100, connections: 4}
measure:
  - latency: {load: 200/s, duration: 300ms, warmup: 0s}
";

/// Six guests, in a test's sample three, that share their memory, whose files are without names and whose group is around theirs.
const SYSTEMS: &str = "
vtax: 1
name: residue
baseline: vm
environments: [vm: {count: 6}]
services: [http]
workload:
  http: {target: /bytes/100, connections: 6}
consolidation: {memory: limited}
budget: {sut_memory: 1536MiB}
measure:
  - latency: {load: 200/s, duration: 300ms, warmup: 0s}
";

/// Hosts in the middle of paths, programs of others' on them, and user-mode Linux, whose processes are this host's.
const PATHS: &str = "
vtax: 1
name: residue
baseline: {environment: native, path: bridge}
environments: [native, uml]
paths: [bridge, nat, vxlan, macvlan, pasta, slirp4netns]
services: [http]
workload:
  http: {target: /bytes/100, connections: 4}
measure:
  - latency: {load: 200/s, duration: 300ms, warmup: 0s}
";

/// The program: the one that was built for the tests, or the one that `VTAX_BIN` names.
fn program() -> PathBuf {
    std::env::var_os("VTAX_BIN").map_or_else(|| env!("CARGO_BIN_EXE_vtax").into(), PathBuf::from)
}

fn vtax(arguments: &[&str]) -> Child {
    Command::new(program())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("vtax starts")
}

/// A generator of moments: the same ones each time, so that what failed can be seen again; others in each `make torture`.
struct Moments(u64);

impl Moments {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// Trials of which the journal has the whole line: one without its newline was torn, and is none that was finished.
fn finished_trials(run: &Path) -> usize {
    let journal = std::fs::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
    let whole = journal.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.filter(|line| line.contains("\"trial-ended\"")).count()
}

/// The front process's only child that isn't the keeper is the controller.
fn controller_of(front: u32) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()).find(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((name, rest)) = stat.rsplit_once(')') else { return false };
        name.ends_with("(vtax") && rest.split_whitespace().nth(1) == Some(&front.to_string())
    })
}

fn kill(pid: u32) {
    let status = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
    status.expect("kill runs");
}

/// The moments of this test inside a PID namespace of its own, where every process there is was started by it.
/// Outside, it runs the test there and passes the verdict on. Not two at a time: each would wait until the other
/// leaves the CPUs alone, and hardly a trial would finish between two kills.
fn alone(test: &str) -> Option<Moments> {
    const SEED: u64 = 0x5eed;
    /// Held outside while a test runs inside.
    static ALONE: Mutex<()> = Mutex::new(());
    /// Carries the seed: process numbers inside are always the same.
    const MARK: &str = "VTAX_TEST_ALONE";
    if let Ok(seed) = std::env::var(MARK) {
        return Some(Moments(seed.parse().expect("a seed")));
    }
    let _alone = lock(&ALONE);
    let seed = if is_torture() { u64::from(std::process::id()) << 20 | SEED } else { SEED };
    let status = Command::new("unshare")
        .args(["--pid", "--mount", "--fork", "--kill-child", "--mount-proc"])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(MARK, seed.to_string())
        .status();
    let passed = status.expect("unshare runs").success();
    assert!(passed, "the test failed in its own PID namespace, with the seed {seed}");
    None
}

#[test]
fn kill_at_any_moment_leaves_nothing_and_loses_nothing() {
    if !need(&[Need::Root, Need::Vm]) {
        return;
    }
    let Some(mut moments) = alone("kill_at_any_moment_leaves_nothing_and_loses_nothing") else { return };
    for case in [&ONE, &SEVERAL, &MIDDLES] {
        kill_at_any_moment(case, &mut moments);
    }
}

/// Whether this is `make torture`, of which the suite has a sample.
fn is_torture() -> bool {
    std::env::var_os("VTAX_TORTURE").is_some()
}

fn kill_at_any_moment(case: &Case, moments: &mut Moments) {
    let directory = tempfile::tempdir().expect("a directory");
    let (plan, run) = (directory.path().join("plan.yaml"), directory.path().join("run"));
    let Case { plan: text, repeat, .. } = case;
    // Emulated, six guests take minutes to their end.
    let text = if is_torture() { (*text).to_owned() } else { text.replace("count: 6", "count: 3") };
    // With its budget spent, a run doesn't make what is disturbed again and again.
    let text = format!("{text}repeat: {{min: {repeat}, max: {repeat}, budget: 2s}}\n");
    std::fs::write(&plan, text).expect("the plan is written");
    let before = Snapshot::take();
    let longest_ms = longest(case, &plan, &run, &before);
    let (mut number, mut kept, mut ever) = (0, 0, 0);
    while number < case.kills {
        if is_complete(&run) {
            expect_completed(case, &plan, &run);
            std::fs::remove_dir_all(&run).expect("it can be removed");
            kept = 0;
        }
        let mut front = vtax(&arguments(&plan, &run));
        let after = Duration::from_millis(moments.next(longest_ms));
        std::thread::sleep(after);
        // The last but one meets a run that has something to lose, however slow the machine has become.
        if case.ends && ever == 0 && number + 2 == case.kills {
            until_a_trial_ends(&run, &mut front);
        }
        if front.try_wait().expect("it is a child").is_none() {
            strike(number, front.id());
            number += 1;
        } else {
            assert!(is_complete(&run), "a run that nobody killed ended before its end");
        }
        front.wait().expect("it ended");
        expect_nothing_left(&before, number, after);
        let finished = finished_trials(&run);
        assert!(finished >= kept, "kill {number} lost a trial: {finished} of {kept} are left");
        (kept, ever) = (finished, ever.max(finished));
        // A kill before the first line of the journal leaves no run to resume, and nothing to lose.
        if !run.join("journal.jsonl").exists() {
            let _ = std::fs::remove_dir_all(&run);
        }
    }
    assert!(ever > 0 || !case.ends, "no trial was ever finished between two kills");
    expect_completed(case, &plan, &run);
    expect_nothing_left(&before, case.kills, Duration::ZERO);
}

/// Waits until a run has a trial, or its end.
fn until_a_trial_ends(run: &Path, front: &mut Child) {
    let until = Instant::now() + Duration::from_secs(240);
    while finished_trials(run) == 0
        && Instant::now() < until
        && front.try_wait().expect("it is a child").is_none()
    {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Longest time in milliseconds that a run is let go on before it is killed: where trials should end, long enough for one on this
/// machine. Another run tells that, which is killed and goes.
fn longest(case: &Case, plan: &Path, run: &Path, before: &Snapshot) -> u64 {
    if !case.ends {
        return case.longest_ms;
    }
    let started = Instant::now();
    let mut front = vtax(&arguments(plan, run));
    while finished_trials(run) == 0 {
        assert!(front.try_wait().expect("it is a child").is_none(), "a run ends before its first trial");
        assert!(started.elapsed() < Duration::from_secs(240), "no trial ends");
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = started.elapsed();
    kill(front.id());
    front.wait().expect("it ended");
    expect_nothing_left(before, 0, took);
    std::fs::remove_dir_all(run).expect("it can be removed");
    case.longest_ms.max(took.as_millis() as u64 * 3 / 2)
}

/// Begins the run, or goes on with it where there is one.
fn arguments<'a>(plan: &'a Path, run: &'a Path) -> Vec<&'a str> {
    let [plan, out] = [plan, run].map(|path| path.to_str().expect("UTF-8"));
    if run.join("journal.jsonl").exists() {
        vec!["run", "--resume", out]
    } else {
        vec!["run", plan, "--out", out]
    }
}

/// Mostly the process a user would kill; now and then the one behind it, or both at once.
fn strike(number: usize, front: u32) {
    match number % 5 {
        3 => controller_of(front).into_iter().for_each(kill),
        4 => [controller_of(front), Some(front)].into_iter().flatten().for_each(kill),
        _ => kill(front),
    }
}

fn is_complete(run: &Path) -> bool {
    let journal = std::fs::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
    journal.contains("\"event\":\"completed\"")
}

/// Resumes the run to its end. On a machine that is busy with something else no trial of 300 ms may count; the exit
/// code then says so, and the run is complete all the same.
fn expect_completed(case: &Case, plan: &Path, run: &Path) {
    let last = Command::new(program()).args(arguments(plan, run)).output();
    let last = last.expect("vtax starts");
    let said = String::from_utf8_lossy(&last.stderr);
    assert!(is_complete(run), "{}: {said}", last.status);
    let trials = vtax_store::RunDir::open(run).and_then(|run| run.trials()).expect("a run that can be read");
    let found = trials.iter().any(|trial| trial.validity == vtax_store::record::Validity::Valid);
    assert_eq!(last.status.code(), Some(if found { 0 } else { 3 }), "{said}");
    assert!(run.join("report.html").exists());
    assert!(trials.len() >= case.cells * case.repeat, "{} trials: {said}", trials.len());
}

fn expect_nothing_left(before: &Snapshot, number: usize, after: Duration) {
    let deadline = Instant::now() + GONE_WITHIN;
    loop {
        // The test is PID 1 here: the dead that nobody else waits for are its own to bury.
        let _ = vtax_sys::signals::reap_all();
        let residue = Snapshot::take().since(before);
        let left: Vec<_> = residue.iter().filter(|(kind, what)| is_ours(kind, what)).collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "kill {number} after {after:?} left behind:\n{left:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Control groups are the whole machine's; a group's name ends with its owner's PID namespace.
fn is_ours(kind: &str, what: &str) -> bool {
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let namespace = namespace.to_string_lossy().replace(|c: char| !c.is_ascii_digit(), "");
    match kind {
        "control group" => what.contains(&format!("-{namespace}")),
        _ => true,
    }
}
