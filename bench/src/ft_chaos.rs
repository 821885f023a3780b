//! Random schedules of faults against protected guests: is what vtax says of each what the raw requests say?
//!
//! Each schedule is a plan of its own whose faults come 100 to 500 ms apart, and in every third one a QEMU is killed from outside.
//! What clients saw is counted again by `vtax_testkit::recount`, which shares no code with vtax.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use vtax_plan::model::FaultKind;
use vtax_store::RunDir;
use vtax_store::failover::{FailoverLoad, FailoverOutcome, FaultRecord, Recovered, Spell};
use vtax_store::record::{Finding, TrialRecord};
use vtax_testkit::recount::{Broken, Counted, Request, recount};
use vtax_units::Nanos;

use crate::place::{root, vtax};

/// Schedules unless asked for more or fewer, and the seed of the first.
const DEFAULT: (u64, u64) = (300, 1);
/// Length of each load in milliseconds; faults come from the first second on.
const LENGTH: u64 = 6_000;
/// How long a run may take to begin with its load: guests boot under emulation.
const READY_WITHIN: Duration = Duration::from_secs(240);

/// What had left a guest before it died may still be on its way for so long, in nanoseconds.
const ON_ITS_WAY: u64 = 20_000_000;

/// How guests are protected, and what may happen to them beside what may happen to all.
const MODES: [(&str, &[&str]); 4] = [
    ("kemari", &["kill: secondary-host", "cut: ft-link"]),
    ("{mode: remus, interval: 40ms}", &["kill: secondary-host", "cut: ft-link"]),
    ("{mode: snapshot, interval: 1s}", &["kill: secondary-host", "cut: ft-link"]),
    ("restart", &[]),
];

/// What may happen to any of them; what mends comes more often, or there would soon be nothing left to break.
const FAULTS: [&str; 6] = [
    "kill: primary-host",
    "hang: primary-host",
    "restore: hosts",
    "restore: hosts",
    "restore: hosts",
    "failover: planned",
];

/// Plays schedules: `--schedules N`, `--seed S`.
pub(crate) fn run(args: &[&str]) -> Result<()> {
    let (mut schedules, mut seed) = DEFAULT;
    for pair in args.chunks(2) {
        match pair {
            ["--schedules", n] => schedules = n.parse().context("--schedules: a number")?,
            ["--seed", n] => seed = n.parse().context("--seed: a number")?,
            _ => bail!("usage: ft-chaos [--schedules N] [--seed S]"),
        }
    }
    ensure!(vtax().is_file(), "{} is missing: run `make build` first", vtax().display());
    // Runs that differ stay there, to be looked at.
    let directory = root().join("target/ft-chaos");
    std::fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    let (began, mut told, mut different) = (Instant::now(), 0_u64, 0_u64);
    for number in 0..schedules {
        let seed = seed.wrapping_add(number);
        let out = directory.join(format!("run-{seed}"));
        let left = out.exists().then(|| std::fs::remove_dir_all(&out)).transpose();
        left.with_context(|| format!("removing {}", out.display()))?;
        let found = one(&directory, &out, seed).with_context(|| format!("schedule {seed}"))?;
        told += u64::from(found.failovers > 0);
        different += u64::from(!found.differences.is_empty());
        let minutes =
            began.elapsed().as_secs_f64() / 60.0 / (number + 1) as f64 * (schedules - number - 1) as f64;
        println!("{seed}: {} things broke, {}; about {minutes:.0} min left", found.failovers, found.words());
        if found.differences.is_empty() {
            std::fs::remove_dir_all(&out).with_context(|| format!("removing {}", out.display()))?;
        }
    }
    println!("{told} of {schedules} schedules told something, {different} differ from the raw requests");
    ensure!(different == 0, "{different} schedules differ; their runs are in {}", directory.display());
    ensure!(told * 2 >= schedules, "most schedules told nothing");
    Ok(())
}

/// What came of one schedule.
#[derive(Debug, Default)]
struct Found {
    failovers: usize,
    differences: Vec<String>,
}

impl Found {
    fn words(&self) -> String {
        match self.differences.as_slice() {
            [] => "no difference".to_owned(),
            some => format!("DIFFERENT:\n  {}", some.join("\n  ")),
        }
    }
}

fn one(directory: &Path, out: &Path, seed: u64) -> Result<Found> {
    let mut random = StdRng::seed_from_u64(seed);
    // Others may play in the same directory.
    let plan = directory.join(format!("plan-{seed}.yaml"));
    std::fs::write(&plan, schedule(&mut random)).with_context(|| format!("writing {}", plan.display()))?;
    let mut run = Command::new(vtax())
        .args(["run", "--out"])
        .arg(out)
        .arg(&plan)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {}", vtax().display()))?;
    if random.random_range(0..3) == 0 {
        let into_the_load = Duration::from_millis(random.random_range(500..LENGTH));
        kill_a_qemu(&mut run, out, into_the_load)?;
    }
    // A run in which nothing counts ends with an error, and is told all the same.
    run.wait().context("waiting for the run")?;
    std::fs::remove_file(&plan).with_context(|| format!("removing {}", plan.display()))?;
    let run = RunDir::open(out).context("opening the run")?;
    let mut found = Found::default();
    for record in run.trials().context("reading the run")? {
        if let Some(Finding::Failover(outcome)) = record.finding() {
            compare(&run, &record, outcome, &mut found)?;
        }
    }
    Ok(found)
}

/// A plan with faults 100 to 500 ms apart.
fn schedule(random: &mut StdRng) -> String {
    let (mode, own) = MODES[random.random_range(0..MODES.len())];
    let all: Vec<&str> = FAULTS.iter().chain(own).copied().collect();
    let mut faults = String::new();
    let mut at = random.random_range(1_000..1_500);
    while at < LENGTH - 500 {
        let fault = all[random.random_range(0..all.len())];
        // Writing to a string can't fail.
        let _ = writeln!(faults, "  - {{at: {at}ms, {fault}}}");
        at += random.random_range(100..500);
    }
    let hosts = random.random_range(2..=3);
    let mode = match mode.strip_prefix('{') {
        Some(options) => format!("{{hosts: {hosts}, {options}"),
        None => format!("{{hosts: {hosts}, mode: {mode}}}"),
    };
    format!(
        "vtax: 1\nname: chaos\nbaseline: vm\nenvironments:\n  - vm: {{name: vm, fault_tolerance: {mode}}}\n\
         services: http\nworkload:\n  http: {{target: /page/10, connections: 32, timeout: 1s}}\n\
         measure:\n  - failover: {{load: 200/s, warmup: 500ms, duration: {LENGTH}ms}}\nfaults:\n{faults}\
         repeat: {{min: 1, max: 1, budget: 10s}}\nbudget: {{sut_cpus: 1, sut_memory: 192MiB, client_cpus: 1}}\n"
    )
}

/// Kills one of the run's QEMUs so long after its load began; none where there is none by then.
fn kill_a_qemu(run: &mut Child, out: &Path, into_the_load: Duration) -> Result<()> {
    let began = Instant::now();
    let live = out.join("live.jsonl");
    let loaded = || {
        let text = std::fs::read_to_string(&live).unwrap_or_default();
        text.lines().last().is_some_and(|line| line.contains("\"phase\":\"measuring\""))
    };
    while !loaded() {
        if began.elapsed() > READY_WITHIN || run.try_wait().context("asking for the run")?.is_some() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(into_the_load);
    let mut family = vec![run.id()];
    let processes = processes();
    while let Some(more) = processes.iter().find(|p| family.contains(&p.parent) && !family.contains(&p.id)) {
        family.push(more.id);
    }
    let qemu = processes.iter().find(|p| p.name.starts_with("qemu") && family.contains(&p.id));
    if let Some(pid) = qemu.and_then(|p| rustix::process::Pid::from_raw(p.id as i32)) {
        // One that has just ended needs no kill.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    Ok(())
}

struct Process {
    id: u32,
    parent: u32,
    name: String,
}

fn processes() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let (head, rest) = stat.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        let parent = rest.split_whitespace().nth(1)?.parse().ok()?;
        Some(Process { id, parent, name })
    };
    entries.filter_map(of).collect()
}

/// Something that broke, as vtax says it.
struct Said<'a> {
    what: String,
    broken: Broken,
    first_answer: Option<u64>,
    fault: Option<&'a FaultRecord>,
}

/// Compares what a trial says with its raw requests.
fn compare(run: &RunDir, record: &TrialRecord, outcome: &FailoverOutcome, found: &mut Found) -> Result<()> {
    let mut requests = Vec::new();
    let read = run.trial(record.index).for_each_sample(|sample| {
        let ended = sample.start_ns + sample.latency_ns;
        requests.push(Request { asked: sample.start_ns, ended, answered: sample.outcome == 0 });
    });
    read.context("reading the requests")?;
    let never_sent = never_sent(run, record, outcome.duration.0)?;
    let said = said(outcome);
    let broken: Vec<Broken> = said.iter().map(|said| said.broken).collect();
    let counted = recount(&requests, outcome.duration.0, &broken, outcome.delayed_beyond.0);
    found.failovers += said.len();
    let mut wrong = |what: String| found.differences.push(format!("trial {}: {what}", record.index));
    for (said, counted) in said.iter().zip(counted) {
        if said.first_answer != counted.first_answer {
            wrong(format!("{}: {:?}, counted again {counted:?}", said.what, said.first_answer));
        }
        let Some(seen) = said.fault.and_then(|fault| fault.seen.as_ref()) else { continue };
        let during = |end: u64| said.broken.at < end && end <= seen.until.0;
        let missed: u64 = never_sent.iter().filter(|(end, _)| during(*end)).map(|(_, n)| n).sum();
        let again = Counted {
            first_answer: seen.first_answer.map(|t| t.0),
            until: seen.until.0,
            attempts: seen.attempts.saturating_sub(missed),
            failed: seen.failed.saturating_sub(missed),
            delayed: seen.delayed,
        };
        if again != counted {
            wrong(format!("{}: {again:?}, counted again {counted:?}", said.what));
        }
    }
    spells(outcome, &requests).into_iter().for_each(wrong);
    Ok(())
}

/// Everything that broke, in order of time.
fn said(outcome: &FailoverOutcome) -> Vec<Said<'_>> {
    let faults = outcome.faults.iter().filter(|f| f.seen.is_some()).map(|fault| {
        let at = fault.injected.unwrap_or_default().0;
        let dead = fault.recovered.as_ref().and_then(|back| dead(back, fault.fenced));
        Said {
            what: format!("{} at {} ms", fault.fault.kind.words(), at / 1_000_000),
            broken: Broken { at, dead, mended: mended(outcome, fault), armed: fault.armed.map(|t| t.0) },
            first_answer: fault.seen.as_ref().and_then(|seen| seen.first_answer).map(|t| t.0),
            fault: Some(fault),
        }
    });
    let unplanned = outcome.unplanned.iter().map(|failure| Said {
        what: format!("{} at {} ms", failure.what, failure.at.0 / 1_000_000),
        broken: Broken {
            at: failure.at.0,
            dead: failure.dead.map(|(from, to)| (from.0, to.0)),
            mended: None,
            armed: failure.armed.map(|t| t.0),
        },
        first_answer: failure.first_answer.map(|t| t.0),
        fault: None,
    });
    let mut all: Vec<Said<'_>> = faults.chain(unplanned).collect();
    all.sort_by_key(|said| said.broken.at);
    all
}

/// When what was hung or cut off was mended before anybody had noticed.
fn mended(outcome: &FailoverOutcome, fault: &FaultRecord) -> Option<u64> {
    let lasts = matches!(fault.fault.kind, FaultKind::Hang(_) | FaultKind::Cut(_));
    let at = fault.injected.filter(|_| lasts)?;
    let mends = outcome.faults.iter().filter(|f| f.fault.kind.mends()).filter_map(|f| f.injected);
    let first = mends.filter(|mended| *mended > at).min()?;
    fault.detected.is_none_or(|detected| detected > first).then_some(first.0)
}

/// When the guest did not run.
fn dead(back: &Recovered, fenced: Option<Nanos>) -> Option<(u64, u64)> {
    let from = back.stopped.map(|stopped| back.at.0.saturating_sub(stopped.0)).or(fenced.map(|t| t.0))?;
    Some((from.min(back.at.0), back.at.0))
}

/// Requests that were never sent for want of a connection: the end of each interval and their number. The journal has no
/// intervals, the trial's files do.
fn never_sent(run: &RunDir, record: &TrialRecord, length: u64) -> Result<Vec<(u64, u64)>> {
    let (mut starts, mut missed) = (Vec::new(), Vec::new());
    let read = run.trial(record.index).for_each_interval(|interval| {
        starts.push(interval.start.0);
        missed.push(interval.counts.missed);
    });
    read.context("reading the intervals")?;
    Ok(starts.into_iter().skip(1).chain([length]).zip(missed).collect())
}

/// What doesn't fit of the times without service and without protection.
fn spells(outcome: &FailoverOutcome, requests: &[Request]) -> Vec<String> {
    let mut wrong = Vec::new();
    // A generator that isn't run sends late, and takes notice of answers late.
    let FailoverLoad::Requests(load) = &outcome.load else { return wrong };
    let late_by = load.lateness.max().0;
    let answers = || requests.iter().filter(|r| r.answered).map(|r| r.ended);
    for Spell { from, to, reason } in &outcome.down {
        if let Some(to) = to
            && !answers().any(|came| came == to.0)
        {
            wrong.push(format!("down from {from} to {to} ({reason}), when nobody was answered"));
        }
        let late = from.0 + ON_ITS_WAY + late_by;
        if let Some(came) = answers().find(|came| *came > late && to.is_none_or(|to| *came < to.0)) {
            wrong.push(format!("down from {from} ({reason}), yet answered at {}", Nanos(came)));
        }
    }
    for fault in outcome.faults.iter().filter(|fault| fault.protected) {
        let Some(at) = fault.injected else { continue };
        let bare = outcome.unprotected.iter().find(|s| s.from < at && s.to.is_none_or(|to| to > at));
        if let Some(spell) = bare {
            let what = fault.fault.kind.words();
            wrong.push(format!("{what} at {at} met a protected guest, which it was not: {}", spell.reason));
        }
    }
    wrong
}
