//! Other ends than `kill -9` of the run: one of its processes killed, all stopped for a while, a disk or its inodes full, few
//! descriptors, little memory, a second run, a loss of power.
//!
//! A sample here; `make torture` goes on with random moments, amounts and plans for as long as it is told (`VTAX_TORTURE`, in
//! seconds), lets several ends befall a run one after the other, and prints what was done in which phase and what came of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use vtax_sys::require::{Need, need};
use vtax_testkit::programs::family;
use vtax_testkit::residue::Snapshot;
use vtax_testkit::runs;

use super::{
    Moments, alone, arguments, controller_of, expect_nothing_left, finished_trials, is_complete, kill,
    program, strike,
};

/// What runs when it comes to its end.
struct Plan {
    /// In a word.
    name: &'static str,
    text: &'static str,
    /// Trials of a whole run, at least.
    trials: usize,
}

const SMALL: Plan = Plan {
    name: "small",
    text: "
vtax: 1
name: ends
baseline: native
environments: [native, container]
services: [http]
workload:
  http: {target: /bytes/100, connections: 4}
measure:
  - latency: {load: 200/s, duration: 300ms, warmup: 0s}
repeat: {min: 2, max: 2, budget: 20s}
",
    trials: 4,
};

/// About when a run of it is over, in milliseconds.
const SMALL_LASTS: u64 = 4500;

/// Guests boot, on a network that is made for them.
const GUEST: Plan = Plan {
    name: "guest",
    text: "
vtax: 1
name: ends
baseline: vm
environments: [vm]
paths: [bridge]
services: [http]
workload:
  http: {target: /bytes/100, connections: 4}
measure:
  - latency: {load: 200/s, duration: 300ms, warmup: 0s}
repeat: {min: 2, max: 2, budget: 20s}
",
    trials: 2,
};

/// A pair is armed, its host is killed, the other takes over.
const PAIR: Plan = Plan {
    name: "pair",
    text: "
vtax: 1
name: ends
baseline: pair
environments: {vm: {name: pair, memory: 192MiB, fault_tolerance: kemari}}
services: [http]
workload:
  http: {target: /bytes/100, connections: 4}
measure:
  - failover: {load: 40/s, warmup: 500ms, duration: 5s}
faults: [{at: 2s, kill: primary-host}, {at: 3s, restore: hosts}]
repeat: 1
budget: {sut_memory: 192MiB}
",
    trials: 1,
};

/// Of `make torture`. The small one more often: its ends are soon over.
const PLANS: [&Plan; 8] = [&SMALL, &GUEST, &SMALL, &PAIR, &SMALL, &GUEST, &SMALL, &SMALL];

/// Longest time until a run that goes on has come to its end, on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(240);

/// What befalls a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Killed,
    /// One of its processes, whichever.
    PartKilled,
    /// All of its processes for a while, or the one a user sees.
    Stopped,
    DiskFull,
    InodesGone,
    FewDescriptors,
    LittleMemory,
    SecondRun,
    /// Killed, and what wasn't yet on the disk for good is gone.
    PowerLoss,
}

impl End {
    const ALL: [Self; 9] = [
        Self::Killed,
        Self::PartKilled,
        Self::Stopped,
        Self::DiskFull,
        Self::InodesGone,
        Self::FewDescriptors,
        Self::LittleMemory,
        Self::SecondRun,
        Self::PowerLoss,
    ];
}

/// What a disk has room for that is not to be full.
const ROOMY: &str = "size=64m,nr_inodes=100000";

/// A place for a run: a small file system of its own, in the test's own mount namespace.
struct Place {
    directory: tempfile::TempDir,
    plan: &'static Plan,
    file: PathBuf,
    run: PathBuf,
    before: Snapshot,
}

impl Drop for Place {
    fn drop(&mut self) {
        let disk = self.directory.path().join("disk");
        let unmounted = Command::new("umount").arg("-l").arg(disk).status();
        // Where the test has failed already, that is what is told.
        if !std::thread::panicking() {
            assert!(unmounted.expect("it runs").success(), "the disk stays");
        }
    }
}

fn mount(arguments: &[&str]) {
    let status = Command::new("mount").args(arguments).status().expect("it runs");
    assert!(status.success(), "mount {arguments:?}");
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

impl Place {
    fn new(plan: &'static Plan) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = directory.path().join("disk");
        std::fs::create_dir(&disk).expect("a directory");
        mount(&["-t", "tmpfs", "-o", ROOMY, "none", path(&disk)]);
        let file = directory.path().join("plan.yaml");
        std::fs::write(&file, plan.text).expect("a plan");
        let run = disk.join("run");
        Self { run, file, plan, directory, before: Snapshot::take() }
    }

    /// Leaves on the disk the room that the options say.
    fn limit(&self, options: &str) {
        let disk = self.directory.path().join("disk");
        mount(&["-o", &format!("remount,{options}"), path(&disk)]);
    }

    /// The kibibytes and the inodes that are taken.
    fn taken(&self) -> (u64, u64) {
        let disk = rustix::fs::statvfs(self.directory.path().join("disk")).expect("its sizes");
        ((disk.f_blocks - disk.f_bfree) * disk.f_frsize / 1024, disk.f_files - disk.f_ffree)
    }

    /// Starts the run, or goes on with it, by a program that changes what it may.
    fn start(&self, prefix: &[String]) -> Child {
        if !self.run.join("journal.jsonl").exists() || finished_nothing(&self.run) {
            // It ended before its first line: there is no run to go on with, and nothing to lose.
            let _ = std::fs::remove_dir_all(&self.run);
        }
        let log = std::fs::File::create(self.directory.path().join("log")).expect("a file");
        let mut words = prefix.iter().map(std::ffi::OsString::from);
        let mut command = match words.next() {
            Some(first) => {
                let mut command = Command::new(first);
                command.args(words).arg(program());
                command
            }
            None => Command::new(program()),
        };
        command.args(arguments(&self.file, &self.run)).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(log).spawn().expect("vtax starts")
    }

    fn said(&self) -> String {
        let said = std::fs::read(self.directory.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }

    /// The phase that the run is in, as its own live file tells it.
    fn phase(&self) -> String {
        match (runs::phase(&self.run), is_complete(&self.run)) {
            (_, true) => "report".to_owned(),
            (phase, _) => phase.unwrap_or_else(|| "start".to_owned()),
        }
    }
}

fn wait(child: &mut Child, what: &str) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("it is a child") {
            return status;
        }
        assert!(Instant::now() < deadline, "{what}: it doesn't end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(name: &str, pids: &[u32]) {
    let pids = pids.iter().map(u32::to_string);
    // One that has ended meanwhile can't be told anything.
    let status = Command::new("kill").arg(name).args(pids).stderr(Stdio::null()).status();
    status.expect("kill runs");
}

/// Stops the process that a user sees, the one behind it, or all of them, for a while.
fn stop_for_a_while(front: u32, moments: &mut Moments, long: bool) {
    let pids = match moments.next(3) {
        0 => vec![front],
        1 => controller_of(front).into_iter().collect(),
        _ => family(front),
    };
    signal("-STOP", &pids);
    let time = if long && moments.next(8) == 0 { 60_000 } else { 500 + moments.next(3500) };
    std::thread::sleep(Duration::from_millis(time));
    signal("-CONT", &pids);
}

/// What is in a directory; nothing where there is none.
fn entries(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Ends all of them at once but the keeper, whose control groups a machine without power hasn't either. Cuts, at any byte, the last
/// line that the journal was given and what else wasn't on the disk for good.
fn lose_power(front: u32, run: &Path, moments: &mut Moments) {
    let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let mut all = family(front);
    all.retain(|pid| !name(pid).starts_with("rungroup-keep"));
    signal("-KILL", &all);
    std::thread::sleep(Duration::from_millis(200));
    let journal = run.join("journal.jsonl");
    let text = std::fs::read(&journal).unwrap_or_default();
    let before = &text[..text.len().saturating_sub(1)];
    let last = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let mut torn = vec![(journal, last as u64), (run.join("live.jsonl"), 0)];
    for trial in
        entries(&run.join("trials")).iter().filter(|path| path.extension().is_some_and(|e| e == "tmp"))
    {
        torn.extend(entries(trial).into_iter().map(|file| (file, 0)));
    }
    for (path, from) in torn {
        let Ok(file) = std::fs::File::options().write(true).open(path) else { continue };
        let length = file.metadata().expect("its length").len();
        file.set_len(from + moments.next(length - from + 1)).expect("it is cut");
    }
}

/// How long a whole run takes that nothing befalls, in milliseconds.
fn lasts(plan: &'static Plan) -> u64 {
    let place = Place::new(plan);
    let started = Instant::now();
    wait(&mut place.start(&[]), "the run that nothing befalls");
    assert!(is_complete(&place.run), "{}", place.said());
    started.elapsed().as_millis() as u64
}

/// Does it to a run within so many milliseconds, and looks what is left; the phase it was in and what came of it.
fn befall(end: End, place: &Place, within: u64, moments: &mut Moments, long: bool) -> (String, String) {
    let drawn = |moments: &mut Moments, from: u64, to: u64| from + moments.next(to - from);
    // First, so that it is no residue of the other's.
    let second = (end == End::SecondRun).then(|| Place::new(&SMALL));
    let before = Snapshot::take();
    let (taken, inodes) = place.taken();
    match end {
        End::DiskFull => place.limit(&format!("size={}k", taken + drawn(moments, 12, 600))),
        End::InodesGone => place.limit(&format!("nr_inodes={}", inodes + drawn(moments, 4, 50))),
        _ => {}
    }
    let limit = |what: &str, n: u64| vec!["prlimit".to_owned(), format!("--{what}={n}:{n}"), "--".to_owned()];
    let prefix = match end {
        End::FewDescriptors => limit("nofile", if long { drawn(moments, 16, 257) } else { 256 }),
        End::LittleMemory => limit("as", drawn(moments, 20, 400) << 20),
        _ => Vec::new(),
    };
    let kept = finished_trials(&place.run);
    let mut other = second.as_ref().map(|second| second.start(&[]));
    let mut front = place.start(&prefix);
    std::thread::sleep(Duration::from_millis(moments.next(within)));
    let phase = place.phase();
    let running = front.try_wait().expect("it is a child").is_none();
    match end {
        End::Killed if running => strike(moments.next(5) as usize, front.id()),
        End::PartKilled if running => {
            let all = family(front.id());
            kill(all[moments.next(all.len() as u64) as usize]);
        }
        End::Stopped if running => stop_for_a_while(front.id(), moments, long),
        End::PowerLoss if running => lose_power(front.id(), &place.run, moments),
        _ => {}
    }
    let status = wait(&mut front, "the run");
    if let (Some(other), Some(second)) = (&mut other, &second) {
        wait(other, "the second run");
        assert!(is_complete(&second.run), "the second run: {}", second.said());
    }
    expect_nothing_left(&before, 0, Duration::ZERO);
    place.limit(ROOMY);
    (phase, judge(end, place, status, kept))
}

/// Whether the end was clean and no trial is lost of those that were finished before; how it ended, in a word.
fn judge(end: End, place: &Place, status: ExitStatus, kept: usize) -> String {
    let (complete, said) = (is_complete(&place.run), place.said());
    let killed = matches!(end, End::Killed | End::PartKilled | End::LittleMemory | End::PowerLoss);
    let known = killed || matches!(status.code(), Some(0 | 3));
    assert!(known, "{end:?}: {status}: {said}");
    assert!(!said.contains("panicked"), "{end:?}: {said}");
    if matches!(end, End::Stopped | End::SecondRun) {
        assert!(complete, "{end:?}: {status}: {said}");
    }
    if !complete && matches!(end, End::DiskFull | End::InodesGone) {
        // Each trial has its line, and a busy machine repeats many; what is wrong is said once.
        let of_a_trial = |line: &&str| line.trim_start().starts_with(|first: char| first.is_ascii_digit());
        let others = said.lines().filter(|line| !of_a_trial(line)).count();
        assert!(said.contains("space") && others < 15, "{end:?}: {said}");
    }
    let now = finished_trials(&place.run);
    assert!(now >= kept, "{end:?}: {kept} trials were finished, {now} are left: {said}");
    match complete {
        true => "went to its end".to_owned(),
        false => format!("ended ({} of {} kept)", now.min(place.plan.trials), place.plan.trials),
    }
}

/// Lets the run go on to its end. What wanted only its report has it from `vtax report`.
fn expect_its_end(place: &Place) {
    let kept = finished_trials(&place.run);
    let mut again = place.start(&[]);
    let status = wait(&mut again, "the run that goes on");
    let told = place.said();
    assert!(is_complete(&place.run) && matches!(status.code(), Some(0 | 3)), "{status}: {told}");
    assert!(place.run.join("report.html").exists(), "{told}");
    assert!(finished_trials(&place.run) >= kept, "{kept} trials were finished: {told}");
    let trials = vtax_store::RunDir::open(&place.run).and_then(|run| run.trials()).expect("it is read");
    assert!(trials.len() >= place.plan.trials, "{} trials", trials.len());
    expect_nothing_left(&place.before, 0, Duration::ZERO);
}

/// Whether a journal has not even its first line.
fn finished_nothing(run: &Path) -> bool {
    !std::fs::read_to_string(run.join("journal.jsonl")).unwrap_or_default().contains('\n')
}

/// What was done, and what came of it: how often.
#[derive(Default)]
struct Tally {
    lines: BTreeMap<String, usize>,
    count: usize,
}

impl Tally {
    #[allow(clippy::print_stdout, reason = "what torture found is its purpose")]
    fn add(&mut self, line: String) {
        self.count += 1;
        println!("{:5}  {line}", self.count);
        *self.lines.entry(line).or_default() += 1;
    }
}

/// One end after the other befalls a run until it comes to its own, or there is no other; then it goes on to its own.
fn one_after_the_other(
    plan: &'static Plan,
    ends: impl Iterator<Item = End>,
    within: u64,
    moments: &mut Moments,
    long: bool,
    tally: &mut Tally,
) {
    let place = Place::new(plan);
    for end in ends {
        let begun = if place.run.join("journal.jsonl").exists() { "resumed" } else { "new" };
        let (phase, outcome) = befall(end, &place, within, moments, long);
        let end = format!("{end:?}");
        tally.add(format!("{end:<15} {:<6} {begun:<8} {phase:<42} {outcome}", plan.name));
        if is_complete(&place.run) {
            break;
        }
    }
    expect_its_end(&place);
}

#[test]
#[allow(clippy::print_stdout, reason = "what torture found is its purpose")]
fn whatever_befalls_a_run_leaves_nothing_and_loses_nothing() {
    if !need(&[Need::Root]) {
        return;
    }
    let name = "ends::whatever_befalls_a_run_leaves_nothing_and_loses_nothing";
    let Some(mut moments) = alone(name) else { return };
    let long: Option<u64> = std::env::var("VTAX_TORTURE").ok().map(|s| s.parse().expect("seconds"));
    let (started, mut tally) = (Instant::now(), Tally::default());
    let Some(seconds) = long else {
        let mut ends = End::ALL.into_iter().peekable();
        while ends.peek().is_some() {
            one_after_the_other(&SMALL, ends.by_ref().take(3), SMALL_LASTS, &mut moments, false, &mut tally);
        }
        return;
    };
    let within: BTreeMap<&str, u64> =
        [&SMALL, &GUEST, &PAIR].into_iter().map(|plan| (plan.name, lasts(plan))).collect();
    while started.elapsed().as_secs() < seconds {
        let plan = PLANS[moments.next(PLANS.len() as u64) as usize];
        let ends: Vec<End> =
            (0..=moments.next(5)).map(|_| End::ALL[moments.next(End::ALL.len() as u64) as usize]).collect();
        one_after_the_other(plan, ends.into_iter(), within[plan.name], &mut moments, true, &mut tally);
    }
    println!("{} ends in {:.0?}:", tally.count, started.elapsed());
    for (line, n) in &tally.lines {
        println!("{n:5}  {line}");
    }
}
