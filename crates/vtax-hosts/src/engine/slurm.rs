//! Hosts that Slurm gives: whole nodes, all at once, for as long as one `srun` lives.
//!
//! That `srun` holds the allocation: each of its tasks says where it is and then waits for the end of its input, which comes
//! when this process ends, however that comes about. On each node a step of its own then has its own input and output
//! (`--overlap`, as the waiting task has the node). `-u` is needed: without it Slurm holds back what has no line end.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use vtax_sys::launch::Launch;

use super::{Engine, Machine};
use crate::error::HostsError;
use crate::list::{HostSpec, is_word};

/// What each task of the allocation says, and how long it stays. Its input comes from one `srun` and goes to all.
const HOLD: &str = "echo \"vtax-has $SLURM_JOB_ID $SLURMD_NODENAME\"; exec cat";

/// How often it is asked whether to go on waiting.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest line that is read of it.
const LONGEST_LINE: u64 = 1_000;
/// After its input has ended `srun` is given so long to end, before it is killed.
const END_WITHIN: Duration = Duration::from_secs(20);

/// What is asked of Slurm.
#[derive(Debug, Clone)]
pub struct SlurmOptions {
    /// Partition; `None`: the default one.
    pub partition: Option<String>,
    /// How many nodes.
    pub hosts: usize,
    /// The most time that the job may take, in minutes. Slurm ends it then, whatever became of this process.
    pub minutes: u64,
    /// How long to wait for the nodes.
    pub wait: Duration,
}

/// An allocation.
#[derive(Debug)]
pub struct Slurm {
    hosts: Vec<Machine>,
    job: String,
    holder: Option<(Child, Option<ChildStdin>)>,
}

impl Slurm {
    /// Waits until Slurm has given all the nodes, or until it is `interrupted`, which is asked ten times a second. The job ends with
    /// the *thread* that calls this, however that ends.
    ///
    /// # Errors
    ///
    /// [`HostsError::Program`] where `srun` isn't there, refuses, or has no nodes in time.
    pub fn allocate(options: &SlurmOptions, interrupted: &dyn Fn() -> bool) -> Result<Self, HostsError> {
        let mut child = holding(options).spawn().map_err(|e| failed(format!("it can't be started: {e}")))?;
        let input = child.stdin.take();
        let errors = child.stderr.take().map(|errors| std::thread::spawn(move || end_of(errors)));
        let (tell, told) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                for (job, node) in nodes_told(output) {
                    if tell.send((job, node)).is_err() {
                        break;
                    }
                }
            });
        }
        let mut slurm = Self { hosts: Vec::new(), job: String::new(), holder: Some((child, input)) };
        match gather(&told, options, interrupted) {
            Ok((job, nodes)) => {
                slurm.job = job;
                slurm.hosts = nodes.into_iter().map(machine).collect();
                Ok(slurm)
            }
            Err(reason) => {
                // The reason why there are none is the better one.
                let _ = slurm.end();
                let said = errors.and_then(|reader| reader.join().ok()).unwrap_or_default();
                Err(failed(if said.is_empty() { reason } else { format!("{reason}: {said}") }))
            }
        }
    }

    /// The job's number.
    #[must_use]
    pub fn job(&self) -> &str {
        &self.job
    }
}

impl Engine for Slurm {
    fn hosts(&self) -> &[Machine] {
        &self.hosts
    }

    fn command(&self, host: &Machine, script: &str) -> Command {
        let mut command = Command::new("srun");
        command.arg(format!("--jobid={}", self.job)).args([
            "--overlap",
            "-u",
            "-Q",
            "-N1",
            "-n1",
            "--chdir=/tmp",
        ]);
        command.arg(format!("--nodelist={}", host.name)).args(["sh", "-c", script]);
        command
    }

    fn end(&mut self) -> Result<(), HostsError> {
        let Some((mut child, input)) = self.holder.take() else { return Ok(()) };
        drop(input);
        if self.hosts.is_empty() {
            // One that still waits for nodes reads no input. Where it has just ended, it needs no signal any more.
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        }
        let until = Instant::now() + END_WITHIN;
        while Instant::now() < until {
            if let Ok(Some(_)) = child.try_wait() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        // Its own helper process cancels the job then.
        let killed = child.kill().and_then(|()| child.wait());
        killed.map(|_| ()).map_err(|e| failed(format!("job {} may go on: {e}; scancel ends it", self.job)))
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // Whoever wants to know calls `end`.
        let _ = self.end();
    }
}

fn failed(reason: String) -> HostsError {
    HostsError::Program { program: "srun".to_owned(), reason }
}

fn machine(name: String) -> Machine {
    let spec = HostSpec { address: name.clone(), name: name.clone(), ..HostSpec::default() };
    Machine { name, spec }
}

fn holding(options: &SlurmOptions) -> Command {
    let SlurmOptions { partition, hosts, minutes, .. } = options;
    let mut command = Command::new("srun");
    // Without `--no-kill` a node that fails takes the whole job with it.
    command.arg(format!("--nodes={hosts}")).args([
        "--ntasks-per-node=1",
        "--exclusive",
        "--no-kill",
        "-u",
        "--chdir=/tmp",
    ]);
    command.arg(format!("--job-name=vtax-{}", std::process::id())).arg(format!("--time={minutes}"));
    command.args(partition.iter().map(|name| format!("--partition={name}")));
    command.args(["sh", "-c", HOLD]);
    // A group of its own: Ctrl-C at the terminal must not take the nodes away before their ends have come to an end.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    // While it waits for nodes, `srun` reads no input and doesn't notice its end. At SIGTERM it cancels its job.
    Launch { death_signal: Some(Signal::TERM), ..Launch::default() }.apply(&mut command);
    command
}

/// The job and the nodes, once there are as many as were asked for.
fn gather(
    told: &Receiver<(String, String)>,
    options: &SlurmOptions,
    interrupted: &dyn Fn() -> bool,
) -> Result<(String, Vec<String>), String> {
    let until = Instant::now() + options.wait;
    let mut nodes = BTreeMap::new();
    while nodes.len() < options.hosts {
        let left = until.saturating_duration_since(Instant::now());
        match told.recv_timeout(left.min(PAUSE)) {
            Ok((job, node)) => {
                nodes.insert(node, job);
            }
            Err(RecvTimeoutError::Timeout) if interrupted() => return Err("interrupted".to_owned()),
            Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                let (have, want) = (nodes.len(), options.hosts);
                return Err(format!("{have} of {want} nodes within {} s", options.wait.as_secs()));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err("it ended without giving the nodes".to_owned()),
        }
    }
    let job = nodes.values().next().cloned().unwrap_or_default();
    Ok((job, nodes.into_keys().collect()))
}

/// Jobs and nodes as tasks tell them. Other lines are a prolog's.
fn nodes_told(output: impl Read) -> impl Iterator<Item = (String, String)> {
    let mut reader = BufReader::new(output);
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        match reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(String::from_utf8_lossy(&line).into_owned()),
        }
    })
    .filter_map(|line| {
        let mut words = line.trim().strip_prefix("vtax-has ")?.split(' ');
        let (job, node) = (words.next()?, words.next()?);
        let number = !job.is_empty() && job.bytes().all(|b| b.is_ascii_digit());
        (number && is_word(node)).then(|| (job.to_owned(), node.to_owned()))
    })
}

/// The end of what a program said.
fn end_of(mut errors: impl Read) -> String {
    const KEPT: usize = 2_000;
    let mut kept = Vec::new();
    let mut bytes = [0; 4096];
    while let Ok(n @ 1..) = errors.read(&mut bytes) {
        kept.extend_from_slice(&bytes[..n]);
        let surplus = kept.len().saturating_sub(KEPT);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).trim().replace('\n', "; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_tell_where_they_are() {
        let output = "prolog says hello\nvtax-has 17 n2\nvtax-has x n3\nvtax-has 17 n1\nvtax-has 17 -w\n";
        let told: Vec<(String, String)> = nodes_told(output.as_bytes()).collect();
        let expected = [("17", "n2"), ("17", "n1")].map(|(job, node)| (job.to_owned(), node.to_owned()));
        assert_eq!(told, expected);
    }

    #[test]
    fn all_nodes_or_none() {
        let options =
            |wait| SlurmOptions { partition: None, hosts: 2, minutes: 5, wait: Duration::from_millis(wait) };
        let (tell, told) = channel();
        tell.send(("17".to_owned(), "n2".to_owned())).unwrap();
        assert!(gather(&told, &options(1), &|| false).unwrap_err().starts_with("1 of 2 nodes within"));
        for node in ["n2", "n1"] {
            tell.send(("17".to_owned(), node.to_owned())).unwrap();
        }
        let (job, nodes) = gather(&told, &options(1000), &|| false).unwrap();
        assert_eq!((job.as_str(), nodes), ("17", vec!["n1".to_owned(), "n2".to_owned()]));
        assert_eq!(gather(&told, &options(60_000), &|| true).unwrap_err(), "interrupted");
        drop(tell);
        assert!(gather(&told, &options(1000), &|| false).unwrap_err().contains("ended without"));
    }

    #[test]
    fn the_command_lines() {
        let options =
            SlurmOptions { partition: Some("p".to_owned()), hosts: 3, minutes: 90, wait: Duration::ZERO };
        let words = |command: Command| -> Vec<String> {
            command.get_args().map(|a| a.to_str().unwrap().to_owned()).collect()
        };
        let held = words(holding(&options));
        for word in ["--nodes=3", "--exclusive", "--no-kill", "-u", "--time=90", "--partition=p"] {
            assert!(held.iter().any(|w| w == word), "{word}: {held:?}");
        }
        let slurm = Slurm { hosts: vec![machine("n1".to_owned())], job: "17".to_owned(), holder: None };
        let step = words(slurm.command(&slurm.hosts[0], "true"));
        assert_eq!(step[..3], ["--jobid=17", "--overlap", "-u"]);
        assert_eq!(step[step.len() - 4..], ["--nodelist=n1", "sh", "-c", "true"]);
        assert_eq!(end_of("a\nb\n".as_bytes()), "a; b");
    }
}
