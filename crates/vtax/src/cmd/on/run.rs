//! `vtax run --on`: a plan on several hosts, each with a run of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, anyhow};
use vtax_hosts::{
    HOSTS_LOCK, HOSTS_VERSION, HostRecord, HostState, HostsError, HostsFile, Machine, StartBarrier,
    lock_hosts,
};
use vtax_plan::PlanErrors;
use vtax_report::merged::{MergeOptions, Merged, merge};
use vtax_report::{Format, Report};
use vtax_store::{HOSTS_FILE, StoreError};
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
    /// What was made for it; `None`: it is gone on with.
    new: Option<New>,
    /// Locked as long as it is open.
    _lock: File,
}

/// What a new run has of its own besides its files.
struct New {
    /// Whether the directory was made for it.
    directory: bool,
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

    /// Removes a new run that got no hosts: what it has would be in the way of the same command.
    fn withdraw(&self) {
        let Some(new) = &self.new else { return };
        if holds_others(&self.directory, &[HOSTS_FILE, HOSTS_LOCK]) {
            return;
        }
        // Where something can't be removed, the next try says so. The lock goes last, so that nobody begins meanwhile.
        for name in [HOSTS_FILE, HOSTS_LOCK] {
            let _ = fs::remove_file(self.directory.join(name));
        }
        if new.directory {
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

/// Whether a directory has anything in it but files of these names.
fn holds_others(directory: &Path, names: &[&str]) -> bool {
    let is_one = |entry: &fs::DirEntry| names.iter().any(|name| entry.file_name() == *name);
    fs::read_dir(directory)
        .is_ok_and(|mut entries| entries.any(|entry| !entry.is_ok_and(|entry| is_one(&entry))))
}

/// `vtax run --on`, of a plan whose hosts have no roles.
pub(crate) fn run(on: &OnArgs, target: &RunTargetArgs) -> Outcome {
    on.check()?;
    let (run, minutes) = begin(target)?;
    // Before any other thread: signals must be blocked in all of them.
    let signals = SignalFd::new(&ENDING).context("receive signals").host_cannot()?;
    let mut engine = on.engine_unless_stopped(minutes, &signals).inspect_err(|_| run.withdraw())?;
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
    // Those of a run that is gone on with didn't begin together with the earlier ones.
    finish(&run, interrupted, ended, barrier.is_some() && first)
}

/// Tells what was found, and only then what failed besides: neither a host that can't be stored nor nodes that can't be given back keep the
/// others' figures from their reader.
fn finish(
    run: &Run,
    interrupted: Result<bool, Failure>,
    ended: Result<(), HostsError>,
    together: bool,
) -> Outcome {
    let concluded = conclude(run, matches!(interrupted, Ok(true)), together);
    interrupted?;
    ended?;
    concluded
}

/// The run to make or to go on with, and how many minutes Slurm is asked for.
fn begin(target: &RunTargetArgs) -> Result<(Run, u64), Failure> {
    if let Some(directory) = target.resumed() {
        // What is no run on several hosts gets no lock.
        HostsFile::read(directory)?;
        let lock = lock_hosts(directory)?;
        // Once more: another vtax may have written it until now.
        let file = HostsFile::read(directory)?;
        let plan = vtax_plan::parse(&file.plan_file, file.plan.as_bytes(), &file.overrides)?;
        let run = Run { directory: directory.to_owned(), file: Mutex::new(file), new: None, _lock: lock };
        return Ok((run, job_minutes(&plan)));
    }
    let found = target.resolve(|plan| plan)?;
    let path = PathBuf::from(found.plan_file.unwrap_or_default());
    let plan = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()));
    let plan = plan.bad_input()?;
    check_whole(&path, &plan, target.overrides())?;
    let directory = found.directory;
    let new = Some(New { directory: !directory.exists() });
    let lock = claim(&directory)?;
    let file = HostsFile {
        version: HOSTS_VERSION,
        plan_file: path.display().to_string(),
        plan,
        overrides: target.overrides().to_vec(),
        tags: found.tags,
        started_unix_ms: unix_ms(),
        asked: 0,
        hosts: Vec::new(),
    };
    file.write(&directory)?;
    Ok((Run { directory, file: Mutex::new(file), new, _lock: lock }, job_minutes(&found.plan)))
}

/// Makes the directory of a new run, where there may be an empty one, and locks it.
fn claim(directory: &Path) -> Result<File, Failure> {
    let free = || match holds_others(directory, &[HOSTS_LOCK]) {
        true => Err(StoreError::Exists { path: directory.to_owned() }),
        false => Ok(()),
    };
    free()?;
    vtax_store::create_directory(directory)?;
    let lock = lock_hosts(directory)?;
    // Once more: another vtax may have had it until now.
    free()?;
    Ok(lock)
}

/// What a plan is refused with that is read without its folder, and names a file there (`Folder` of vtax-plan).
const WITHOUT_FILES: &str = "this plan comes without the files beside it";

/// Refuses a plan that names files: hosts get its text, and nothing that is beside it.
fn check_whole(path: &Path, text: &str, overrides: &[String]) -> Result<(), Failure> {
    let Err(errors) = vtax_plan::parse(&path.to_string_lossy(), text.as_bytes(), overrides) else {
        return Ok(());
    };
    let names_files = match &errors {
        PlanErrors::Invalid(all) => all.iter().any(|one| one.message.contains(WITHOUT_FILES)),
        PlanErrors::Read { .. } | PlanErrors::TooLarge { .. } => false,
    };
    if !names_files {
        return Err(errors.into());
    }
    Err(anyhow!(
        "the plan names files beside it, which don't go to other hosts: write them into the plan (`scenario_file` as `scenario: |`, \
         `targets_file` as `requests`, `body_file` as `body`; injection files can't be)"
    ))
    .bad_input()
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

    /// Arguments as `vtax run` takes them.
    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        target: RunTargetArgs,
    }

    fn begun(words: &[&str]) -> Result<Run, Failure> {
        let cli = <Cli as clap::Parser>::try_parse_from([&["vtax"][..], words].concat()).unwrap();
        begin(&cli.target).map(|(run, _)| run)
    }

    fn plan_in(dir: &Path) -> String {
        let path = dir.join("plan.yaml");
        fs::write(&path, vtax_testkit::runs::SMALL_PLAN).unwrap();
        path.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_plan_that_names_files_goes_to_no_other_host() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("beside.txt"), "/bytes/100\n").unwrap();
        let (plan, out) = (plan_in(dir.path()), dir.path().join("run"));
        let targets = "workload={http: {targets_file: beside.txt, connections: 2}}";
        let refused = begun(&[&plan, "--set", targets, "--out", out.to_str().unwrap()]).err().unwrap();
        assert_eq!(refused.exit(), Exit::BadInput);
        assert!(refused.to_string().starts_with("the plan names files beside it"), "{refused}");
        assert!(!out.exists(), "nothing is begun");
        let of = |text: &str, overrides: &[&str]| {
            let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
            check_whole(Path::new(&plan), text, &overrides).err().map(|refused| refused.to_string())
        };
        let whole = vtax_testkit::runs::SMALL_PLAN;
        let body = "workload={http: {requests: {target: /bytes/100, method: POST, body_file: beside.txt}}}";
        assert!(of(whole, &[body]).unwrap().starts_with("the plan names files beside it"));
        assert_eq!(of(whole, &[]), None);
        assert!(!of("vtax: 1\nnme: x\n", &[]).unwrap().contains("names files"));
    }

    #[test]
    fn what_failed_besides_keeps_no_run_from_its_summary() {
        let dir = tempfile::tempdir().unwrap();
        let (plan, out) = (plan_in(dir.path()), dir.path().join("run"));
        let run = begun(&[&plan, "--out", out.to_str().unwrap()]).unwrap();
        fs::create_dir(out.join("hosts")).unwrap();
        let options = Options { repetitions: 4, seconds: 1, rate: 200, ..Options::default() };
        for name in ["a", "b"] {
            create(&out.join("hosts").join(name), &options).unwrap();
            run.keep(HostRecord {
                name: name.to_owned(),
                directory: format!("hosts/{name}"),
                state: HostState::Complete,
                why: None,
                clock_offset_ns: None,
                clock_within_ns: None,
                began_unix_ns: None,
            });
        }
        let summaries = ["a", "b"].map(|name| out.join("hosts").join(name).join("summary.json"));
        let refused = || HostsError::Refused { why: "they can't be given back".to_owned(), bad_input: false };
        let of_host = || Failure::new(Exit::HostCannot, refused());
        for (interrupted, ended) in [(Ok(false), Err(refused())), (Err(of_host()), Ok(()))] {
            for summary in &summaries {
                let _ = fs::remove_file(summary);
            }
            let failure = finish(&run, interrupted, ended, false).unwrap_err();
            assert!(failure.to_string().contains("given back"), "{failure}");
            assert!(summaries.iter().all(|summary| summary.exists()));
        }
        assert_eq!(finish(&run, Ok(true), Ok(()), false).unwrap(), Exit::Interrupted);
    }

    #[test]
    fn one_vtax_at_a_time_makes_a_run_or_goes_on_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let (plan, out) = (plan_in(dir.path()), dir.path().join("run"));
        let out = out.to_str().unwrap();
        let run = begun(&[&plan, "--out", out]).unwrap();
        let refused = begun(&["--resume", out]).err().unwrap();
        assert!(refused.to_string().contains("in use by another vtax"), "{refused}");
        assert_eq!(refused.exit(), Exit::BadInput);
        let exists = begun(&[&plan, "--out", out]).err().unwrap();
        assert!(exists.to_string().contains("already exists"), "{exists}");
        drop(run);
        // What other tests start has the lock too until it is another program.
        let again = (0..1_000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            begun(&["--resume", out]).ok()
        });
        assert!(again.is_some_and(|run| run.new.is_none()));
        // What is no run on several hosts gets no lock.
        assert!(begun(&["--resume", dir.path().to_str().unwrap()]).is_err());
        assert!(!dir.path().join(HOSTS_LOCK).exists());
    }

    #[test]
    fn a_new_run_without_hosts_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let (plan, out) = (plan_in(dir.path()), dir.path().join("run"));
        let new = || begun(&[&plan, "--out", out.to_str().unwrap()]).unwrap();
        new().withdraw();
        assert!(!out.exists());
        // An empty directory, and one that a vtax locked which then was killed.
        for name in [None, Some(HOSTS_LOCK)] {
            fs::create_dir_all(&out).unwrap();
            if let Some(name) = name {
                fs::write(out.join(name), "").unwrap();
            }
            new().withdraw();
            assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
        }
        fs::remove_dir(&out).unwrap();
        let run = new();
        fs::write(out.join("another's"), "").unwrap();
        run.withdraw();
        assert_eq!(fs::read_dir(&out).unwrap().count(), 3);
        let other = Run { new: None, ..run };
        fs::remove_file(out.join("another's")).unwrap();
        other.withdraw();
        assert!(out.join(HOSTS_FILE).exists(), "one that is gone on with stays");
    }
}
