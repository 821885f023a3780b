//! `--on`: a plan, or the doctor, on several hosts.

use std::cell::Cell;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use vtax_hosts::{
    Engine, HOSTS_VERSION, HostRecord, HostState, HostsError, HostsFile, Job, Kubernetes, KubernetesOptions,
    Machine, On, OnHosts, Slurm, SlurmOptions, Ssh, Together, parse_on, run_on,
};
use vtax_plan::estimate::{Assumptions, estimate};
use vtax_plan::model::Plan;
use vtax_sys::clock::unix_ms;
use vtax_sys::signals::SignalFd;

use crate::cmd::chosen::ChosenArgs;
use crate::cmd::run::shell_word;
use crate::exit::{Classify, Exit, Failure, Outcome, stored};
use crate::front::ENDING;
use crate::{cmd, out};

/// How often signals are looked at.
const PAUSE: Duration = Duration::from_millis(100);

/// Where it is done, if not here.
#[derive(Clone, clap::Args)]
pub(super) struct OnArgs {
    /// Where: a file of hosts or an Ansible inventory, `FILE:GROUP`, `ssh:a,b,c`, `slurm[:PARTITION]` or `k8s[:CONTEXT]` (docs/many-machines.md).
    #[arg(long, value_name = "WHERE")]
    on: Option<String>,
    /// How many hosts: of Slurm or Kubernetes so many nodes, of a list its first ones.
    #[arg(long, value_name = "N", requires = "on")]
    hosts: Option<usize>,
    /// ssh's configuration file, in place of your own; also for `nic` paths.
    #[arg(long, value_name = "FILE")]
    ssh_config: Option<PathBuf>,
    /// The image of Kubernetes' pods: it has a shell and what the plan needs.
    #[arg(long, value_name = "IMAGE", requires = "on")]
    image: Option<String>,
    /// Kubernetes' pods have the node's users, for clusters without user namespaces for pods: they ask for nothing, and runs have no
    /// namespaces in them.
    #[arg(long, requires = "on")]
    host_users: bool,
    /// No host begins before all have been reached or are lost; then all begin at once.
    #[arg(long, requires = "on")]
    together: bool,
    /// How many seconds to wait for nodes of Slurm or Kubernetes.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, requires = "on")]
    wait: u64,
}

impl OnArgs {
    /// True where it isn't to be done here.
    pub(super) fn is_given(&self) -> bool {
        self.on.is_some()
    }

    /// The same for a process of vtax's own that opens streams, with hosts for the roles of this plan.
    pub(super) fn for_roles(&self, plan: &Plan) -> Result<Vec<OsString>, Failure> {
        let asked = plan.hosts_asked();
        let wrong = |why: String| Err(anyhow::anyhow!(why)).bad_input();
        match (&self.on, self.hosts) {
            (None, _) if asked > 0 => {
                return wrong(format!(
                    "the plan asks for {asked} hosts, which --on gives: `--on ssh:a,b,c` or `--on slurm`"
                ));
            }
            (Some(_), Some(hosts)) if hosts != asked => {
                return wrong(format!("--hosts {hosts}: the plan asks for {asked}; leave it out"));
            }
            (Some(_), _) if self.together => {
                return wrong("--together: hosts with roles always begin at one moment".to_owned());
            }
            _ => {}
        }
        let given = Self { hosts: Some(asked), ..self.clone() };
        if self.on.is_some() {
            given.check()?;
        }
        let mut words: Vec<OsString> = vec!["--minutes".into(), minutes(plan).to_string().into()];
        let mut add = |name: &str, value: Option<OsString>| {
            words.extend(value.into_iter().flat_map(|value| [name.into(), value]));
        };
        add("--ssh-config", self.ssh_config.as_ref().map(Into::into));
        if let Some(on) = &self.on {
            add("--on", Some(on.into()));
            add("--hosts", Some(asked.to_string().into()));
            add("--image", self.image.as_ref().map(Into::into));
            add("--wait", Some(self.wait.to_string().into()));
            words.extend(self.host_users.then(|| "--host-users".into()));
        }
        Ok(words)
    }

    /// Looks at what is asked for, before anything is made.
    fn check(&self) -> Result<(), Failure> {
        let on = parse_on(self.on.as_deref().unwrap_or_default()).map_err(failed)?;
        let reason = match (&on, self.hosts) {
            (_, Some(0)) => "--hosts 0: at least one is needed",
            (On::Slurm { .. }, None) => "--on slurm needs --hosts N: how many nodes",
            (On::Kubernetes { .. }, None) => "--on k8s needs --hosts N: how many nodes",
            (On::Kubernetes { .. }, _) if self.image.is_none() => {
                "--on k8s needs --image IMAGE: what its pods are made of"
            }
            _ => return Ok(()),
        };
        Err(anyhow::anyhow!(reason)).bad_input()
    }

    /// Gets the hosts, unless `interrupted` says that nobody wants them any more. A job takes at most so many minutes. Without `--on` it has
    /// none, and reaches those that it is asked for by ssh.
    pub(super) fn engine(
        &self,
        minutes: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Box<dyn Engine>, HostsError> {
        let ssh = |hosts| Box::new(Ssh::new(hosts, self.ssh_config.clone()));
        let Some(on) = &self.on else { return Ok(ssh(Vec::new())) };
        let (count, wait) = (self.hosts.unwrap_or(1), Duration::from_secs(self.wait));
        match parse_on(on)? {
            On::Ssh(mut hosts) => {
                hosts.truncate(self.hosts.unwrap_or(usize::MAX));
                Ok(ssh(hosts))
            }
            On::Slurm { partition } => {
                say("vtax", &format!("waiting for {count} nodes of Slurm"));
                let options = SlurmOptions { partition, hosts: count, minutes, wait };
                Ok(Box::new(Slurm::allocate(&options, interrupted)?))
            }
            On::Kubernetes { context } => {
                say("vtax", &format!("waiting for {count} pods of Kubernetes"));
                let image = self.image.clone().unwrap_or_default();
                let host_users = self.host_users;
                let options = KubernetesOptions { context, image, hosts: count, minutes, wait, host_users };
                let told = |text: &str| say("vtax", text);
                Ok(Box::new(Kubernetes::allocate(&options, interrupted, &told)?))
            }
        }
    }

    /// The same, until a signal comes.
    fn engine_unless_stopped(&self, minutes: u64, signals: &SignalFd) -> Result<Box<dyn Engine>, Failure> {
        let asked = Cell::new(false);
        let interrupted = || {
            asked.set(asked.get() || matches!(signals.next(), Ok(Some(_))));
            asked.get()
        };
        self.engine(minutes, &interrupted).map_err(|error| match asked.get() {
            true => Failure { exit: Exit::Interrupted, error: error.into() },
            false => failed(error),
        })
    }
}

/// Whose fault a trouble with hosts is.
pub(super) fn failed(error: HostsError) -> Failure {
    let exit = if error.is_bad_input() { Exit::BadInput } else { Exit::HostCannot };
    Failure { exit, error: error.into() }
}

/// Tells how a host is getting on.
fn say(host: &str, text: &str) {
    // Nothing more can be said where even standard error is gone.
    let _ = writeln!(std::io::stderr().lock(), "{host}: {text}");
}

/// A run on several hosts, with its directory.
struct Run {
    directory: PathBuf,
    file: Mutex<HostsFile>,
}

impl Run {
    fn locked(&self) -> std::sync::MutexGuard<'_, HostsFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what became of a host.
    fn keep(&self, record: HostRecord) {
        let mut file = self.locked();
        match file.hosts.iter_mut().find(|host| host.directory == record.directory) {
            Some(host) => *host = record,
            None => file.hosts.push(record),
        }
        if let Err(error) = file.write(&self.directory) {
            say("vtax", &format!("hosts.json can't be written: {}", vtax_sys::chain(&error)));
        }
    }
}

/// `vtax run --on`, of a plan whose hosts have no roles.
pub(super) fn run(on: &OnArgs, chosen: &ChosenArgs) -> Outcome {
    on.check()?;
    let Some((run, minutes)) = begin(chosen)? else { return Ok(Exit::BadInput) };
    // Before any other thread: signals must be blocked in all of them.
    let signals = SignalFd::new(&ENDING).context("receive signals").host_cannot()?;
    let mut engine = on.engine_unless_stopped(minutes, &signals)?;
    let job = run.locked().job();
    let first = run.locked().hosts.is_empty();
    let hosts: Vec<(Machine, String)> = {
        let mut file = run.locked();
        file.asked = file.asked.max(engine.hosts().len());
        let open = engine.hosts().iter().filter(|host| !file.has(&host.name));
        open.map(|host| (host.clone(), file.directory_for(&host.name))).collect()
    };
    for (host, directory) in &hosts {
        run.keep(HostRecord {
            name: host.name.clone(),
            directory: directory.clone(),
            state: HostState::Running,
            why: None,
            clock_offset_ns: None,
            clock_within_ns: None,
            began_unix_ns: None,
        });
    }
    say("vtax", &format!("run directory: {}", run.directory.display()));
    let together = on.together.then(|| Together::new(hosts.len()));
    let todo = Todo { job: &job, directory: &run.directory, hosts: &hosts, together: together.as_ref() };
    let interrupted = work(engine.as_ref(), &todo, &signals, &|record| run.keep(record));
    let ended = engine.end().map_err(failed);
    let interrupted = interrupted?;
    ended?;
    // Those of a run that is gone on with didn't begin together with the earlier ones.
    conclude(&run, interrupted, together.is_some() && first)
}

/// The run to make or to go on with, and how many minutes Slurm is asked for; `None`: the plan is faulty, and was told so.
fn begin(chosen: &ChosenArgs) -> Result<Option<(Run, u64)>, Failure> {
    if let Some(directory) = chosen.resumed() {
        let file = HostsFile::read(directory).map_err(failed)?;
        let plan = vtax_plan::parse(&file.plan_file, file.plan.as_bytes(), &file.overrides).bad_input()?;
        let run = Run { directory: directory.to_owned(), file: Mutex::new(file) };
        return Ok(Some((run, minutes(&plan))));
    }
    let Some(found) = chosen.choose(|plan| plan)? else { return Ok(None) };
    check_whole(&found.plan).bad_input()?;
    let path = PathBuf::from(found.plan_file.unwrap_or_default());
    let plan = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()));
    let directory = found.directory;
    if std::fs::read_dir(&directory).is_ok_and(|mut entries| entries.next().is_some()) {
        let error = vtax_store::StoreError::Exists { path: directory };
        return Err(stored(error));
    }
    vtax_store::create_directory(&directory).map_err(stored)?;
    let file = HostsFile {
        version: HOSTS_VERSION,
        plan_file: path.display().to_string(),
        plan: plan.bad_input()?,
        overrides: chosen.overrides().to_vec(),
        tags: found.tags,
        started_unix_ms: unix_ms(),
        asked: 0,
        hosts: Vec::new(),
    };
    file.write(&directory).map_err(failed)?;
    Ok(Some((Run { directory, file: Mutex::new(file) }, minutes(&found.plan))))
}

/// Hosts get the text of a plan, and nothing that is beside it.
fn check_whole(plan: &Plan) -> anyhow::Result<()> {
    ensure!(
        !plan.has_files(),
        "the plan names files beside it, which don't go to other hosts: write the scenario into the plan, as `scenario: |`"
    );
    Ok(())
}

/// Twice what a plan takes at most under emulation, and time to begin: Slurm ends a job that takes longer.
fn minutes(plan: &Plan) -> u64 {
    let seconds = estimate(plan, &Assumptions::TCG).time_max.0 / 1_000_000_000;
    (seconds / 30).saturating_add(15)
}

/// What is to be done, by whom, and where it is kept.
struct Todo<'a> {
    job: &'a Job,
    directory: &'a Path,
    hosts: &'a [(Machine, String)],
    together: Option<&'a Together>,
}

/// Does a job on hosts until all have ended; true where it was interrupted. A second signal doesn't wait for them: their ends see
/// the end of the stream.
fn work(
    engine: &dyn Engine,
    todo: &Todo<'_>,
    signals: &SignalFd,
    ended: &(dyn Fn(HostRecord) + Sync),
) -> Result<bool, Failure> {
    let Todo { job, directory, hosts, together } = *todo;
    let program = std::env::current_exe().context("find vtax's own program").host_cannot()?;
    let stop = AtomicBool::new(false);
    let hosts: Vec<(&Machine, String)> = hosts.iter().map(|(host, place)| (host, place.clone())).collect();
    let on = OnHosts { engine, job, program: &program, together, directory, stop: &stop, told: &say, ended };
    let done = std::thread::scope(|scope| {
        let all = scope.spawn(|| run_on(&hosts, &on));
        while !all.is_finished() {
            while let Ok(Some(_)) = signals.next() {
                if stop.swap(true, Ordering::SeqCst) {
                    end_at_once();
                }
                say("vtax", "stopping; once more to end at once");
            }
            std::thread::sleep(PAUSE);
        }
        all.join()
    });
    match done {
        Ok(result) => result.map_err(failed)?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
    Ok(stop.load(Ordering::SeqCst))
}

#[expect(
    clippy::exit,
    reason = "whoever presses Ctrl-C twice wants no further waiting; hosts see the end of their streams"
)]
fn end_at_once() -> ! {
    std::process::exit(Exit::Interrupted.code().into())
}

/// Says what became of each host, and writes what they found together.
fn conclude(run: &Run, interrupted: bool, together: bool) -> Outcome {
    let hosts = run.locked().hosts.clone();
    let whole = hosts.iter().filter(|host| host.state == HostState::Complete).count();
    let mut text = String::new();
    for host in &hosts {
        let why = host.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        text += &format!("{:<9} {}{why}\n", host.state.word(), host.name);
    }
    if let Some((spread, within)) = run.locked().spread().filter(|_| together) {
        let [spread, within] = [spread, within].map(|ns| ns as f64 / 1e6);
        text += &format!("they began within {spread:.1} ms of each other, known to {within:.1} ms\n");
    }
    let found = vtax_hosts::run_directories(&run.directory).map_err(failed)?;
    match found.len() {
        0 => text += "no host has a run\n",
        1 => text += &format!("one host has a run: vtax report {}\n", shell_word(&found[0])),
        _ => match cmd::merge::merged(std::slice::from_ref(&run.directory), &[]) {
            Ok(merged) => {
                merged.write(&run.directory).map_err(cmd::merge::failed)?;
                let page = run.directory.join("merged.html");
                text += &format!("\n{}report: {}\n", merged.table(), page.display());
            }
            // The runs are there all the same, and each has a report of its own.
            Err(failure) => text += &format!("not merged: {failure}\n"),
        },
    }
    if run.locked().missing() > 0 {
        text += &format!("to go on: vtax run --resume {} --on WHERE\n", shell_word(&run.directory));
    }
    out::text(&text)?;
    Ok(match (interrupted, whole) {
        (true, _) => Exit::Interrupted,
        (false, 0) => Exit::HostCannot,
        (false, _) => Exit::Done,
    })
}

/// `vtax doctor --on`: the doctor on each host; JSON by host, or its lines under each host's name.
pub(super) fn doctor(on: &OnArgs, json: bool, render: impl Fn(&serde_json::Value) -> String) -> Outcome {
    on.check()?;
    let signals = SignalFd::new(&ENDING).context("receive signals").host_cannot()?;
    let mut engine = on.engine_unless_stopped(15, &signals)?;
    let scratch = Scratch::new()?;
    let hosts: Vec<(Machine, String)> =
        engine.hosts().iter().map(|host| (host.clone(), host.name.clone())).collect();
    let records = Mutex::new(Vec::new());
    let keep = |record: HostRecord| records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    let todo = Todo { job: &Job::Doctor, directory: &scratch.0, hosts: &hosts, together: None };
    let interrupted = work(engine.as_ref(), &todo, &signals, &keep);
    let ended = engine.end().map_err(failed);
    let interrupted = interrupted?;
    ended?;
    let mut records: Vec<HostRecord> = records.into_inner().unwrap_or_else(PoisonError::into_inner);
    records.sort_by(|a, b| a.name.cmp(&b.name));
    let mut all = serde_json::Map::new();
    let mut text = String::new();
    for record in &records {
        let told = std::fs::read(scratch.0.join(&record.directory).join("doctor.json")).ok();
        let found: Option<serde_json::Value> = told.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let why = || record.why.clone().unwrap_or_else(|| "it told nothing".to_owned());
        text += &match &found {
            Some(found) => format!("{}\n{}\n", record.name, render(found)),
            None => format!("{}: {}\n\n", record.name, why()),
        };
        all.insert(record.name.clone(), found.unwrap_or_else(|| serde_json::json!({ "problem": why() })));
    }
    if json {
        out::json(&all)?
    } else {
        out::text(&text)?
    }
    let good = records.iter().all(|record| record.state == HostState::Complete);
    Ok(match (interrupted, good) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Done,
        (false, false) => Exit::HostCannot,
    })
}

/// A directory that is removed again.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("vtax-doctor-{}-{}", std::process::id(), unix_ms()));
        std::fs::create_dir(&path).with_context(|| format!("create {}", path.display())).host_cannot()?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What can't be removed is a small directory in that for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
