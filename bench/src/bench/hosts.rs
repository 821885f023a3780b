//! What many hosts cost this end: a thousand that all send a run, and their histograms added up.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};
use rustix::time::{ClockId, clock_gettime};
use vtax_hosts::{
    Engine, HostAgent, HostRecord, HostSpec, HostState, HostTask, HostsError, Machine, OnHosts, StartBarrier,
    run_on, serve,
};
use vtax_load::LatencyHistogram;
use vtax_sys::sync::{into_inner, lock};
use vtax_units::Nanos;

use crate::program::forget_peak;
use crate::sheet::{Row, Sheet};

const HOSTS: usize = 1_000;
/// Trials of each host, and the bytes of each trial's file.
const TRIALS: usize = 3;
const TRIAL_BYTES: usize = 200_000;
const MOST_CORES: f64 = 1.0;
const MOST_MIB: f64 = 1_024.0;
const MOST_MS: f64 = 50.0;

/// Histograms, and values in each.
const HISTOGRAMS: usize = 1_000;
const VALUES: usize = 1_000_000;
const MOST_SECONDS: f64 = 1.0;

/// Tells a host's end of the bench which program stands in for vtax there.
const STAND_IN: &str = "VTAX_BENCH_STAND_IN";
/// Stores a run as vtax does, without measuring anything. A host's trials take seconds, and hosts aren't in step.
const SCRIPT: &str = r#"#!/bin/sh
# run PLAN --out DIRECTORY ...
set -eu
run=$4
mkdir -p "$run/trials"
cp plan.yaml "$run/"
echo '{"event":"begun"}' >>"$run/journal.jsonl"
i=0
while [ $i -lt TRIALS ]; do
    sleep $(( ($$ + i) % 7 + 2 ))
    mkdir "$run/trials/00$i"
    cp "$(dirname "$0")/trial" "$run/trials/00$i/trial.json"
    echo "{\"event\":\"trial-ended\",\"index\":$i,\"cell\":\"a\",\"measure\":\"b\"}" >>"$run/journal.jsonl"
    i=$((i + 1))
done
"#;

/// Hosts that are processes here.
struct Local {
    hosts: Vec<Machine>,
    directory: PathBuf,
}

impl Local {
    fn new(program: &Path, directory: &Path) -> Result<Self> {
        let program = program.to_str().context("this program's path isn't UTF-8")?;
        let host = |i: usize| {
            let name = format!("h{i}");
            let spec = HostSpec {
                name: name.clone(),
                address: name.clone(),
                user: None,
                port: None,
                key: None,
                program: Some(program.to_owned()),
                network: None,
            };
            Machine { name, spec }
        };
        Ok(Self { hosts: (0..HOSTS).map(host).collect(), directory: directory.to_owned() })
    }
}

impl Engine for Local {
    fn hosts(&self) -> &[Machine] {
        &self.hosts
    }

    fn command(&self, _host: &Machine, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("TMPDIR", &self.directory);
        command.env(STAND_IN, self.directory.join("stand-in"));
        command
    }

    fn end(&mut self) -> Result<(), HostsError> {
        Ok(())
    }
}

/// The rows of this suite.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    many(sheet)?;
    sheet.add(Row::at_most(
        &format!("{HISTOGRAMS} histograms of {VALUES} values added up"),
        added()?,
        "s",
        MOST_SECONDS,
    ))
}

/// A run on many hosts, whose processor time and memory at this end are looked at. What the hosts use isn't: they are processes of
/// their own.
fn many(sheet: &mut Sheet) -> Result<()> {
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let there = directory.path().join("there");
    fs::create_dir(&there)?;
    fs::write(there.join("trial"), vec![b' '; TRIAL_BYTES])?;
    let stand_in = there.join("stand-in");
    fs::write(&stand_in, SCRIPT.replace("TRIALS", &TRIALS.to_string()))?;
    fs::set_permissions(&stand_in, Permissions::from_mode(0o700))?;
    let program = std::env::current_exe()?;
    let engine = Local::new(&program, &there)?;
    let hosts: Vec<(&Machine, String)> =
        engine.hosts().iter().map(|host| (host, host.name.clone())).collect();
    let task = HostTask::Run { plan: "vtax: 1\n".to_owned(), overrides: Vec::new(), tags: Vec::new() };
    let states: Mutex<Vec<HostRecord>> = Mutex::new(Vec::new());
    let on = OnHosts {
        engine: &engine,
        task: &task,
        program: &program,
        barrier: Some(&StartBarrier::new(HOSTS)),
        directory: directory.path(),
        stop: &AtomicBool::new(false),
        told: &|_, _| (),
        ended: &|record| lock(&states).push(record),
    };
    forget_peak();
    let (begun, used) = (Instant::now(), processor_seconds());
    run_on(&hosts, &on)?;
    let cores = (processor_seconds() - used) / begun.elapsed().as_secs_f64();
    let states = into_inner(states);
    let other = states.iter().find(|host| host.state != HostState::Complete);
    ensure!(other.is_none() && states.len() == HOSTS, "not every host has a whole run: {other:?}");
    sheet.add_all([
        Row::at_most(&format!("a run on {HOSTS} hosts, processors of this end"), cores, "CPUs", MOST_CORES),
        Row::at_most(&format!("a run on {HOSTS} hosts, memory of this end"), peak_mib()?, "MiB", MOST_MIB),
        Row::at_most(
            &format!("{HOSTS} hosts begin together, from first to last"),
            spread(&states)?,
            "ms",
            MOST_MS,
        ),
    ])
}

/// How far apart hosts began, in milliseconds. They have one clock here, so that what is wrong with what is known of theirs counts as well.
fn spread(states: &[HostRecord]) -> Result<f64> {
    let began = |host: &HostRecord| host.began_unix_ns?.checked_add_signed(host.clock_offset_ns?);
    let began: Option<Vec<u64>> = states.iter().map(began).collect();
    let began = began.context("a host that never began")?;
    let (first, last) = (began.iter().min().context("no host")?, began.iter().max().context("no host")?);
    Ok((last - first) as f64 / 1e6)
}

/// A host's end, as [`Local`] starts it.
pub(crate) fn host_end(directory: &str) -> Result<()> {
    let program = std::env::var_os(STAND_IN).context("only the bench itself starts this")?;
    let (read, write) = vtax_sys::inherit::standard_streams().context("the streams")?;
    let agent =
        HostAgent { program: program.into(), version: "stand-in".to_owned(), directory: directory.into() };
    Ok(serve(File::from(read), File::from(write), &agent)?)
}

/// Processor time of this process, its threads and no other.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The most memory that this process has had.
fn peak_mib() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().context("reading VmHWM")?;
    Ok(kib / 1_024.0)
}

/// How long it takes to add histograms up, the best of three.
fn added() -> Result<f64> {
    let mut rng = StdRng::seed_from_u64(1);
    let mut one = LatencyHistogram::new();
    for _ in 0..VALUES {
        one.record(Nanos(rng.random_range(20_000..50_000_000)));
    }
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let begun = Instant::now();
        let mut all = LatencyHistogram::new();
        for _ in 0..HISTOGRAMS {
            all.merge(&one)?;
        }
        best = best.min(begun.elapsed().as_secs_f64());
        ensure!(all.len() == (HISTOGRAMS * VALUES) as u64, "values were lost");
    }
    Ok(best)
}
