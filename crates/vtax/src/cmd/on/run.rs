//! `vtax run --on`: a plan on several hosts, each with a run of its own.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, ensure};
use vtax_hosts::{HOSTS_VERSION, HostRecord, HostState, HostsFile, Machine, StartBarrier};
use vtax_plan::model::Plan;
use vtax_report::merged::{MergeOptions, Merged, merge};
use vtax_report::{Format, Report};
use vtax_store::StoreError;
use vtax_sys::clock::unix_ms;
use vtax_sys::signals::SignalFd;
use vtax_sys::sync::lock;

use super::args::{OnArgs, job_minutes};
use super::{Todo, say, work};
use crate::cmd::files::open_report;
use crate::cmd::run::shell_word;
use crate::cmd::run_target::RunTargetArgs;
use crate::exit::{Classify, Exit, Failure, Outcome};
use crate::front::ENDING;
use crate::out;

/// A run on several hosts, with its directory.
struct Run {
    directory: PathBuf,
    file: Mutex<HostsFile>,
}

impl Run {
    fn locked(&self) -> std::sync::MutexGuard<'_, HostsFile> {
        lock(&self.file)
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
pub(crate) fn run(on: &OnArgs, target: &RunTargetArgs) -> Outcome {
    on.check()?;
    let (run, minutes) = begin(target)?;
    // Before any other thread: signals must be blocked in all of them.
    let signals = SignalFd::new(&ENDING).context("receive signals").host_cannot()?;
    let mut engine = on.engine_unless_stopped(minutes, &signals)?;
    let task = run.locked().task();
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
    let barrier = on.together.then(|| StartBarrier::new(hosts.len()));
    let todo = Todo { task: &task, directory: &run.directory, hosts: &hosts, barrier: barrier.as_ref() };
    let interrupted = work(engine.as_ref(), &todo, &signals, &|record| run.keep(record));
    let ended = engine.end();
    let interrupted = interrupted?;
    ended?;
    // Those of a run that is gone on with didn't begin together with the earlier ones.
    conclude(&run, interrupted, barrier.is_some() && first)
}

/// The run to make or to go on with, and how many minutes Slurm is asked for.
fn begin(target: &RunTargetArgs) -> Result<(Run, u64), Failure> {
    if let Some(directory) = target.resumed() {
        let file = HostsFile::read(directory)?;
        let plan = vtax_plan::parse(&file.plan_file, file.plan.as_bytes(), &file.overrides)?;
        let run = Run { directory: directory.to_owned(), file: Mutex::new(file) };
        return Ok((run, job_minutes(&plan)));
    }
    let found = target.resolve(|plan| plan)?;
    check_whole(&found.plan).bad_input()?;
    let path = PathBuf::from(found.plan_file.unwrap_or_default());
    let plan = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()));
    let directory = found.directory;
    if std::fs::read_dir(&directory).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(StoreError::Exists { path: directory }.into());
    }
    vtax_store::create_directory(&directory)?;
    let file = HostsFile {
        version: HOSTS_VERSION,
        plan_file: path.display().to_string(),
        plan: plan.bad_input()?,
        overrides: target.overrides().to_vec(),
        tags: found.tags,
        started_unix_ms: unix_ms(),
        asked: 0,
        hosts: Vec::new(),
    };
    file.write(&directory)?;
    Ok((Run { directory, file: Mutex::new(file) }, job_minutes(&found.plan)))
}

/// Hosts get the text of a plan, and nothing that is beside it.
fn check_whole(plan: &Plan) -> anyhow::Result<()> {
    ensure!(
        !plan.has_files(),
        "the plan names files beside it, which don't go to other hosts: write the scenario into the plan, as `scenario: |`"
    );
    Ok(())
}

/// Judges each host's run and keeps its summary with it, as a run's own end does: `vtax serve` lists it by that. One that can't be read or
/// written to doesn't keep the others from theirs; the first such failure is told.
fn summarised(directories: &[PathBuf]) -> Result<Vec<Report>, Failure> {
    let one = |directory: &Path| -> Result<Report, Failure> {
        let report = open_report(directory)?;
        report.write(Format::Json, directory)?;
        Ok(report)
    };
    // A failure ends the second of these two, and not the first.
    let all: Vec<Result<Report, Failure>> = directories.iter().map(|directory| one(directory)).collect();
    all.into_iter().collect()
}

fn merged(reports: &[Report]) -> Result<Merged, Failure> {
    Ok(merge(reports, &MergeOptions::default())?)
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
    let found = vtax_hosts::run_directories(&run.directory)?;
    let reports = summarised(&found);
    match (found.as_slice(), reports) {
        ([], _) => text += "no host has a run\n",
        ([one], reports) => {
            text += &format!("one host has a run: vtax report {}\n", shell_word(one));
            if let Err(failure) = reports {
                text += &format!("it has no summary: {failure}\n");
            }
        }
        (_, reports) => match reports.and_then(|reports| merged(&reports)) {
            Ok(merged) => {
                merged.write(&run.directory)?;
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
    out::printable(&text)?;
    Ok(match (interrupted, whole) {
        (true, _) => Exit::Interrupted,
        (false, 0) => Exit::HostCannot,
        (false, _) => Exit::Done,
    })
}

#[cfg(test)]
mod tests {
    use vtax_fixture::{Options, create};
    use vtax_store::{RunBrief, RunDir};

    use super::*;

    /// What a host's end stored, which made no report there.
    #[test]
    fn each_run_gets_its_summary_and_one_that_cannot_be_read_keeps_none_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { repetitions: 4, seconds: 1, rate: 200, ..Options::default() };
        let [first, last] = ["a", "c"].map(|name| create(&dir.path().join(name), &options).unwrap());
        let path = |run: &RunDir| run.path().to_owned();
        let brief = |run: &RunDir| RunBrief::read(run.path()).unwrap();
        assert!(brief(&first).headline.is_empty());
        let failure = summarised(&[path(&first), dir.path().join("b"), path(&last)]).unwrap_err();
        assert!(failure.to_string().contains("not a run directory"), "{failure}");
        for run in [&first, &last] {
            assert!(!brief(run).headline.is_empty());
        }
        assert_eq!(summarised(&[path(&first)]).unwrap().len(), 1);
    }
}
