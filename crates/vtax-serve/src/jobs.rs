//! Runs that were started from the page: programs of their own, which go on when the server ends.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use rustix::process::Signal;
use vtax_report::pages::command_line;
use vtax_sys::PidFd;
use vtax_sys::clock::unix_ms;
use vtax_sys::sync::lock;

use crate::options::{Check, ServeError, StartOptions};
use crate::refusal::Refusal;

/// Most plans that are offered.
const PLANS: usize = 500;
/// How far below the directory of plans they are looked for.
const DEPTH: usize = 3;
/// Most changes of a plan, and the longest of them in bytes.
const CHANGES: usize = 64;
const CHANGE: usize = 512;
/// How much of a run's output is shown, in bytes.
const OUTPUT: u64 = 16 << 10;
/// Most runs that are remembered.
const REMEMBERED: usize = 100;

/// A plan with changes, as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The plan's path below the directory of plans.
    pub(crate) plan: String,
    /// Changes, as `--set` takes them.
    pub(crate) changes: Vec<String>,
}

/// A run that was started.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) number: u32,
    /// The command as a terminal takes it.
    pub(crate) command: String,
    /// The run's directory.
    pub(crate) directory: PathBuf,
    output: PathBuf,
    state: Mutex<JobState>,
}

/// How it is doing.
#[derive(Debug)]
enum JobState {
    Running(PidFd),
    Ended(Option<ExitStatus>),
}

impl Job {
    /// How it ended, in words; `None` while it runs.
    pub(crate) fn ended(&self) -> Option<String> {
        match &*lock(&self.state) {
            JobState::Running(_) => None,
            JobState::Ended(Some(status)) => Some(status.to_string()),
            JobState::Ended(None) => Some("its end is not known".to_owned()),
        }
    }

    /// The end of what it printed.
    pub(crate) fn output(&self) -> String {
        let end = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(&self.output)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(OUTPUT)))?;
            let mut end = Vec::new();
            file.take(OUTPUT).read_to_end(&mut end)?;
            Ok(end)
        };
        String::from_utf8_lossy(&end().unwrap_or_default()).into_owned()
    }
}

/// Starts programs on the CPUs that the server itself gives up.
type Starter = Sender<(Command, Sender<std::io::Result<Child>>)>;

/// What starts and stops runs.
#[derive(Debug)]
pub(crate) struct Jobs {
    plans: PathBuf,
    program: PathBuf,
    check: Check,
    /// Where runs are made.
    root: PathBuf,
    /// Where what they print is kept.
    outputs: PathBuf,
    starter: Mutex<Starter>,
    jobs: Mutex<Vec<Arc<Job>>>,
}

impl Jobs {
    /// `root` is where runs are made. Programs get the CPUs of the thread that starts them, and that thread those of
    /// the one that calls this: it is called before the server is bound to its own.
    pub(crate) fn new(options: StartOptions, root: &Path, cache: &Path) -> Result<Self, ServeError> {
        let plans = options
            .plans
            .canonicalize()
            .map_err(|source| ServeError::Root { path: options.plans.clone(), source })?;
        let (starter, asked) = channel::<(Command, Sender<std::io::Result<Child>>)>();
        std::thread::Builder::new()
            .name("starter".to_owned())
            .spawn(move || {
                for (mut command, answer) in asked {
                    // Who asked may be gone; then nobody waits for the answer.
                    let _ = answer.send(command.spawn());
                }
            })
            .map_err(|source| ServeError::System { operation: "start a thread", source })?;
        Ok(Self {
            plans,
            program: options.program,
            check: options.check,
            root: root.to_owned(),
            outputs: cache.to_owned(),
            starter: Mutex::new(starter),
            jobs: Mutex::default(),
        })
    }

    /// The plans that may be run, by their path below the directory of plans.
    pub(crate) fn plans(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![(PathBuf::new(), 0)];
        while let Some((place, depth)) = open.pop() {
            let Ok(entries) = std::fs::read_dir(self.plans.join(&place)) else { continue };
            for entry in entries.flatten() {
                let (inside, kind) = (place.join(entry.file_name()), entry.file_type());
                let is_plan = inside.extension().is_some_and(|e| e == "yaml" || e == "yml");
                match kind {
                    Ok(kind) if kind.is_dir() && depth + 1 < DEPTH => open.push((inside, depth + 1)),
                    Ok(kind) if kind.is_file() && is_plan && found.len() < PLANS => {
                        found.extend(inside.to_str().map(str::to_owned));
                    }
                    _ => {}
                }
            }
        }
        found.sort();
        found
    }

    /// What was asked for, where it is a plan that is offered, with changes that a command line takes.
    pub(crate) fn choice(&self, plan: &str, changes: &str) -> Result<Choice, Refusal> {
        if !self.plans().iter().any(|known| known == plan) {
            return Err(Refusal::missing("such plan below the directory of plans"));
        }
        let lines = changes.lines().map(str::trim).filter(|line| !line.is_empty());
        let changes: Vec<String> = lines.map(str::to_owned).collect();
        if changes.len() > CHANGES || changes.iter().any(|c| c.len() > CHANGE || c.contains('\0')) {
            let text = format!("At most {CHANGES} changes of at most {CHANGE} bytes are taken.");
            return Err(Refusal::unclear(text));
        }
        Ok(Choice { plan: plan.to_owned(), changes })
    }

    fn path(&self, choice: &Choice) -> PathBuf {
        self.plans.join(&choice.plan)
    }

    /// What `vtax check` says of it: what it would do, or what is wrong with it.
    pub(crate) fn check(&self, choice: &Choice) -> Result<String, String> {
        (self.check)(&self.path(choice), &choice.changes)
    }

    /// Arguments of the program that runs it into that directory.
    fn arguments(&self, choice: &Choice, directory: &Path) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        let mut arguments = vec!["run".to_owned(), text(&self.path(choice))];
        arguments.extend(choice.changes.iter().map(|change| format!("--set={change}")));
        arguments.extend(["--out".to_owned(), text(directory)]);
        arguments
    }

    /// The command that does the same in a terminal.
    pub(crate) fn command(&self, choice: &Choice, directory: &Path) -> String {
        let mut words = vec!["vtax".to_owned()];
        words.extend(self.arguments(choice, directory));
        command_line(&words)
    }

    /// Where a run of that plan would go now.
    pub(crate) fn directory(&self, choice: &Choice) -> Result<PathBuf, String> {
        let plan = vtax_plan::load(&self.path(choice), &choice.changes).map_err(|e| e.to_text(false))?;
        let now = vtax_units::utc(unix_ms() / 1000, "%Y%m%d-%H%M%S");
        Ok(self.root.join(format!("{}-{now}", plan.name)))
    }

    /// Starts it.
    pub(crate) fn start(&self, choice: &Choice) -> Result<Arc<Job>, Refusal> {
        let directory = self.directory(choice).map_err(Refusal::unclear)?;
        let mut jobs = lock(&self.jobs);
        if let Some(running) = jobs.iter().find(|job| job.ended().is_none()) {
            let text =
                format!("Run {} still goes on: two at a time would disturb each other.", running.number);
            return Err(Refusal::new(StatusCode::CONFLICT, text));
        }
        let number = jobs.last().map_or(1, |job| job.number + 1);
        let name = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let output = self.outputs.join(format!("{name}.log"));
        let child = self.spawn(&self.arguments(choice, &directory), &output)?;
        let held = i32::try_from(child.id()).ok().and_then(|pid| PidFd::open(pid).ok());
        let state = held.map_or(JobState::Ended(None), JobState::Running);
        let command = self.command(choice, &directory);
        let job = Arc::new(Job { number, command, directory, output, state: Mutex::new(state) });
        wait(child, Arc::clone(&job));
        jobs.push(Arc::clone(&job));
        if jobs.len() > REMEMBERED {
            jobs.remove(0);
        }
        Ok(job)
    }

    fn spawn(&self, arguments: &[String], output: &Path) -> Result<Child, Refusal> {
        let failed = |error: std::io::Error| {
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("The run can't be started: {error}."))
        };
        std::fs::create_dir_all(&self.outputs).map_err(failed)?;
        let out = File::create(output).map_err(failed)?;
        let err = out.try_clone().map_err(failed)?;
        let mut command = Command::new(&self.program);
        // A group of its own: Ctrl-C in the server's terminal is not meant for it.
        command.args(arguments).stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
        let (answer, answered) = channel();
        let sent = lock(&self.starter).send((command, answer));
        let child = sent.ok().and_then(|()| answered.recv().ok());
        child.ok_or_else(Refusal::bug)?.map_err(failed)
    }

    /// The jobs that were started, the newest first.
    pub(crate) fn all(&self) -> Vec<Arc<Job>> {
        lock(&self.jobs).iter().rev().map(Arc::clone).collect()
    }

    /// The one of that number.
    pub(crate) fn job(&self, number: u32) -> Result<Arc<Job>, Refusal> {
        let found = lock(&self.jobs).iter().find(|job| job.number == number).map(Arc::clone);
        found.ok_or_else(|| Refusal::missing("such run of this server"))
    }

    /// Asks it to stop, as Ctrl-C does: what it has measured is kept, and it can be resumed. Not by SIGINT, which whoever started
    /// this server in the background may have had it ignore, and its runs with it.
    pub(crate) fn stop(&self, number: u32) -> Result<Arc<Job>, Refusal> {
        let job = self.job(number)?;
        if let JobState::Running(process) = &*lock(&job.state) {
            process.signal(Signal::TERM).map_err(|error| {
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("It can't be stopped: {error}."))
            })?;
        }
        Ok(job)
    }
}

/// Has a thread wait for its end.
fn wait(mut child: Child, job: Arc<Job>) {
    std::thread::spawn(move || {
        let status = child.wait().ok();
        *lock(&job.state) = JobState::Ended(status);
    });
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const PLAN: &str = "vtax: 1\nname: t\nbaseline: native\nenvironments: [native, vm]\nservices: http\n\
                        workload: {http: {target: /page/1}}\nmeasure: [capacity]\nrepeat: {min: 2, max: 5}\n";

    /// Longer than a script takes for anything, also on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(120);

    /// Jobs whose program is this script, in place of vtax.
    fn jobs(dir: &Path, script: &str) -> Jobs {
        std::fs::create_dir_all(dir.join("plans/deep")).unwrap();
        std::fs::write(dir.join("plans/t.yaml"), PLAN).unwrap();
        std::fs::write(dir.join("plans/deep/other.yml"), PLAN).unwrap();
        std::fs::write(dir.join("secret.yaml"), PLAN).unwrap();
        std::os::unix::fs::symlink(dir.join("secret.yaml"), dir.join("plans/link.yaml")).unwrap();
        let program = dir.join("program");
        vtax_testkit::programs::make(&program, &format!("#!/bin/sh\n{script}\n"));
        let check: Check = |_, changes| Err(format!("{} changes", changes.len()));
        let options = StartOptions { plans: dir.join("plans"), program, check };
        Jobs::new(options, &dir.join("runs"), &dir.join("cache")).unwrap()
    }

    fn until_ended(job: &Job) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(ended) = job.ended() {
                return ended;
            }
            assert!(Instant::now() < deadline, "it doesn't end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn only_plans_of_the_directory_are_offered() {
        let dir = tempfile::tempdir().unwrap();
        let jobs = jobs(dir.path(), "exit 0");
        assert_eq!(jobs.plans(), ["deep/other.yml", "t.yaml"]);
        for wrong in ["link.yaml", "../secret.yaml", "/etc/passwd", "", "t", "./t.yaml", "deep/../t.yaml"] {
            assert!(jobs.choice(wrong, "").is_err(), "{wrong}");
        }
        let choice = jobs.choice("t.yaml", "\n  repeat.min=3 \r\n\n--out=/x\n").unwrap();
        assert_eq!(choice.changes, ["repeat.min=3", "--out=/x"]);
        assert_eq!(jobs.check(&choice), Err("2 changes".to_owned()));
        let command = jobs.command(&choice, Path::new("/r/a b"));
        assert!(command.contains(" --set=repeat.min=3 --set=--out=/x --out '/r/a b'"), "{command}");
        assert!(jobs.choice("t.yaml", &"a=b\n".repeat(CHANGES + 1)).is_err());
        assert!(jobs.choice("t.yaml", &"a".repeat(CHANGE + 1)).is_err());
    }

    #[test]
    fn one_run_at_a_time_and_it_can_be_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let script = "trap 'echo stopped; exit 130' TERM\necho \"$@\"\ni=0; while [ $i -lt 3000 ]; do sleep 0.1; i=$((i+1)); done";
        let jobs = jobs(dir.path(), script);
        let choice = jobs.choice("t.yaml", "repeat.min=3").unwrap();
        let job = jobs.start(&choice).unwrap();
        assert_eq!(jobs.start(&choice).unwrap_err().status, StatusCode::CONFLICT);
        let deadline = Instant::now() + PATIENCE;
        while !job.output().contains("--set=repeat.min=3") {
            assert!(Instant::now() < deadline, "{}", job.output());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(job.output().starts_with("run "), "{}", job.output());
        jobs.stop(job.number).unwrap();
        assert!(until_ended(&job).contains("130"));
        assert!(job.output().ends_with("stopped\n"));
        jobs.stop(job.number).unwrap();
        assert!(jobs.stop(99).is_err());
        assert_eq!(jobs.all().len(), 1);
    }

    #[test]
    fn a_plan_that_is_wrong_is_not_started() {
        let dir = tempfile::tempdir().unwrap();
        let jobs = jobs(dir.path(), "exit 0");
        let refusal = jobs.start(&jobs.choice("t.yaml", "repeat.min=nonsense").unwrap()).unwrap_err();
        assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
        assert!(refusal.text.contains("repeat"), "{}", refusal.text);
    }
}
