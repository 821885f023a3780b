//! What benchmarks against a peer share: programs on a CPU of their own, run to their ends.

use std::fs::{self, File};
use std::io::Seek;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use vtax_sys::reap::{self, Reaped};

/// How `vtax load` ends where the generator was at its limit (README, "Commands").
pub(crate) const GENERATOR_LIMITED: i32 = 3;

/// A command bound to a CPU from its first instruction on.
pub(crate) fn pinned(cpu: &str, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", cpu, program]);
    command
}

/// Runs to the end; what it printed and what it used.
///
/// # Errors
/// It can't be started, or ends with another status than 0.
pub(crate) fn run(command: &mut Command, name: &str) -> Result<(String, Reaped)> {
    run_to(command, name, &[0])
}

/// Runs a load of vtax's own to the end; what it found and what it used. Its figures count here also where the
/// generator was at its limit: what a request costs it is the question.
///
/// # Errors
/// As [`run`], or it printed no JSON.
pub(crate) fn run_load(command: &mut Command) -> Result<(serde_json::Value, Reaped)> {
    run_load_to(command, &[0, GENERATOR_LIMITED])
}

/// The same, to one of these ends.
///
/// # Errors
/// As [`run_load`].
pub(crate) fn run_load_to(command: &mut Command, codes: &[i32]) -> Result<(serde_json::Value, Reaped)> {
    let (output, reaped) = run_to(command, "vtax load", codes)?;
    Ok((serde_json::from_str(&output).context("reading what vtax load printed")?, reaped))
}

/// As [`run`], to one of these ends.
///
/// # Errors
/// It can't be started, or ends otherwise.
pub(crate) fn run_to(command: &mut Command, name: &str, codes: &[i32]) -> Result<(String, Reaped)> {
    forget_peak();
    // A file, as nobody reads a second pipe meanwhile.
    let mut errors = tempfile::tempfile().context("making a temporary file")?;
    let started = command.stdout(Stdio::piped()).stderr(errors.try_clone()?).spawn();
    let mut child = started.with_context(|| format!("starting {name}"))?;
    let output = std::io::read_to_string(child.stdout.take().context("no pipe")?)?;
    let reaped = reap::wait(child)?;
    if !reaped.status.code().is_some_and(|code| codes.contains(&code)) {
        errors.rewind()?;
        let errors = std::io::read_to_string(errors)?;
        bail!("{name}: {}; is it installed? (`target/vtax setup --tests`)\n{output}{errors}", reaped.status);
    }
    Ok((output, reaped))
}

/// Runs wrk on a CPU with so many connections for so many seconds; the requests per second of its CPU time. OpenSSL, which it uses, can
/// be told things by a configuration file.
///
/// # Errors
/// As [`run`], or it printed no requests.
pub(crate) fn wrk_per_cpu_second(
    cpu: &str,
    url: &str,
    connections: u32,
    seconds: u32,
    openssl: Option<&Path>,
) -> Result<f64> {
    let mut command = pinned(cpu, "wrk");
    command.envs(openssl.map(|path| ("OPENSSL_CONF", path)));
    command.args(["-t1", &format!("-c{connections}"), &format!("-d{seconds}s"), url]);
    let (output, reaped) = run(&mut command, "wrk")?;
    let line =
        output.lines().find(|line| line.contains(" requests in ")).context("wrk printed no requests")?;
    let requests: f64 = line.split_whitespace().next().context("wrk printed no number")?.parse()?;
    Ok(requests / reaped.cpu.total().as_secs_f64())
}

/// Sets this process's own peak of resident memory back to what it has now (`proc_pid_clear_refs(5)`): the kernel begins a program's
/// peak with that of the process that started it.
pub(crate) fn forget_peak() {
    // Without it, memory is told as too much rather than too little.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// A server for as long as this lives. What it says is kept, and quoted where it fails.
pub(crate) struct Server {
    name: String,
    child: Child,
    directory: TempDir,
}

impl Server {
    /// Starts it.
    ///
    /// # Errors
    /// It can't be started.
    pub(crate) fn start(command: &mut Command, name: &str) -> Result<Self> {
        let directory = tempfile::tempdir().context("making a temporary directory")?;
        let file = |stream: &str| File::create(directory.path().join(stream));
        let started = command.stdin(Stdio::null()).stdout(file("stdout")?).stderr(file("stderr")?).spawn();
        let child = started.with_context(|| format!("starting {name}"))?;
        Ok(Self { name: name.to_owned(), child, directory })
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it is ready, which may be seen by its standard output.
    ///
    /// # Errors
    /// It ended, or isn't ready within 10 s; with what it said.
    pub(crate) fn wait(&mut self, ready: impl Fn(&str) -> bool) -> Result<()> {
        for _ in 0..200 {
            if ready(&self.said("stdout")) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}\n{}{}", self.name, self.said("stdout"), self.said("stderr"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        bail!("{} was not ready within 10 s\n{}{}", self.name, self.said("stdout"), self.said("stderr"))
    }

    /// What it said so far to `stdout` or `stderr`.
    pub(crate) fn said(&self, stream: &str) -> String {
        let text = fs::read(self.directory.path().join(stream)).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An X server removes what it has in /tmp.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        for _ in 0..500 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The middle of the values, the upper one of two; NaN where there are none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_program_said_is_quoted_where_it_fails() {
        let error = run(&mut shell("echo some; echo the port is taken >&2; exit 3"), "a peer").unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("a peer: exit status: 3"), "{error}");
        assert!(error.contains("some\n") && error.contains("the port is taken"), "{error}");
        assert_eq!(run(&mut shell("echo fine; echo no matter >&2"), "a peer").unwrap().0, "fine\n");
    }

    #[test]
    fn what_a_server_said_is_quoted_where_it_ends() {
        let mut server = Server::start(&mut shell("echo the port is taken >&2; exit 3"), "a server").unwrap();
        let error = server.wait(|_| false).unwrap_err().to_string();
        assert!(error.starts_with("a server ended with exit status: 3\n"), "{error}");
        assert!(error.contains("the port is taken"), "{error}");
        let mut server = Server::start(&mut shell("echo ready; exec sleep 60"), "a server").unwrap();
        server.wait(|said| said.contains("ready")).unwrap();
    }
}
