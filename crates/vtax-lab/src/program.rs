//! Other people's programs that a path is made of: daemons that stay, and tools that run to their end.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vtax_sys::PidFd;
use vtax_sys::spawn::Spawn;
use vtax_units::CpuSet;
use vtax_vm::Cache;

use crate::error::{LabError, OnPath, Result, While};
use crate::process_io::{ENVIRONMENT, output_file, tail};

/// How long a killed daemon may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// More output of a tool than this is not read.
const MOST_OUTPUT: u64 = 1 << 20;

/// A program of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its name.
    pub(crate) name: &'static str,
    /// Debian's package.
    pub(crate) package: &'static str,
}

impl Program {
    /// Where it is: installed, or unpacked by `vtax setup` for a user who may not install it.
    pub(crate) fn find(self) -> Result<PathBuf> {
        let places = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        let installed = places.iter().map(|dir| Path::new(dir).join(self.name)).find(|p| p.is_file());
        let found = installed.or_else(|| Cache::of_user().program(self.package, self.name));
        found.ok_or(LabError::NotInstalled { program: self.name, package: self.package })
    }

    /// Its command line with these arguments, in a minimal environment.
    pub(crate) fn command<A: AsRef<str>>(self, args: impl IntoIterator<Item = A>) -> Result<Spawn> {
        let program = self.find()?;
        let words = std::iter::once(self.name.to_owned())
            .chain(args.into_iter().map(|a| a.as_ref().to_owned()))
            .collect::<Vec<_>>();
        let plain = Spawn::new(&program, words);
        Ok(ENVIRONMENT.iter().fold(plain, |spawn, (name, value)| spawn.env(name, value)))
    }

    /// Runs it to its end and returns what it printed.
    ///
    /// # Errors
    ///
    /// [`LabError::Tool`] where it fails, takes too long, or isn't there.
    pub(crate) fn run(self, spawn: Spawn, within: Duration) -> Result<String> {
        self.run_with(spawn, nothing()?, within)
    }

    /// As [`run`](Self::run), with this text to read.
    pub(crate) fn run_on(self, spawn: Spawn, text: &str, within: Duration) -> Result<String> {
        let place = Path::new("a file in memory");
        let mut file = output_file(self.name)?;
        file.write_all(text.as_bytes()).on("write", place)?;
        // From its start, by a position of its own.
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let input = File::open(&own).on("open", place)?;
        self.run_with(spawn, input.into(), within)
    }

    /// As [`run`](Self::run), with this on its standard input.
    pub(crate) fn run_with(self, spawn: Spawn, input: OwnedFd, within: Duration) -> Result<String> {
        let errors = output_file(self.name)?;
        let output = output_file(self.name)?;
        let process = start(spawn, (input, &output, &errors), self.name)?;
        let what = || format!("run {}", self.name);
        if !process.ended_within(within).during(what)? {
            process.kill_and_reap(GONE_WITHIN).during(what)?;
            return Err(self.failed(format!("no end after {} s", within.as_secs()), &errors));
        }
        let ended = process.wait().during(what)?;
        if !ended.success() {
            return Err(self.failed(ended.to_string(), &errors));
        }
        // ovs-vsctl ends well although the switch could not do what the database now says.
        let complaint = tail(&errors);
        if complaint.contains("Error detected") {
            return Err(self.failed("it ended, but".to_owned(), &errors));
        }
        read(&output)
    }

    fn failed(self, how: String, errors: &File) -> LabError {
        LabError::Tool { tool: self.name.to_owned(), how, output: tail(errors) }
    }
}

fn read(output: &File) -> Result<String> {
    let place = Path::new("a tool's output");
    let length = output.metadata().on("read", place)?.len().min(MOST_OUTPUT);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    output.read_exact_at(&mut bytes, 0).on("read", place)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// An input with nothing in it.
fn nothing() -> Result<OwnedFd> {
    let null = Path::new("/dev/null");
    Ok(File::open(null).on("open", null)?.into())
}

fn start(spawn: Spawn, (input, output, errors): (OwnedFd, &File, &File), name: &str) -> Result<PidFd> {
    let copy = |file: &File| file.try_clone().map(OwnedFd::from).on("duplicate", Path::new("output"));
    let spawn = spawn.fd(input, 0).fd(copy(output)?, 1).fd(copy(errors)?, 2);
    spawn.start(|_| Ok(())).during(|| format!("start {name}"))
}

/// A program that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    name: String,
    process: Option<PidFd>,
    output: File,
}

impl Daemon {
    /// Starts it on these CPUs; its words go to a file in memory.
    pub(crate) fn start(name: &str, spawn: Spawn, cpus: &CpuSet) -> Result<Self> {
        let output = output_file(name)?;
        let spawn = if cpus.is_empty() { spawn } else { spawn.cpus(cpus) };
        let process = start(spawn, (nothing()?, &output, &output), name)?;
        Ok(Self { name: name.to_owned(), process: Some(process), output })
    }

    /// Whether it is still there.
    pub(crate) fn alive(&self) -> bool {
        self.process.as_ref().is_some_and(|p| matches!(p.ended_within(Duration::ZERO), Ok(false)))
    }

    /// Its process id; 0 once it was ended.
    pub(crate) fn pid(&self) -> i32 {
        self.process.as_ref().map_or(0, PidFd::pid)
    }

    /// Waits for an end of its own, at most this long.
    pub(crate) fn ended_within(&self, within: Duration) -> bool {
        self.process.as_ref().is_none_or(|p| matches!(p.ended_within(within), Ok(true)))
    }

    /// Waits until `ready` holds. An end of its own is told with its last words.
    pub(crate) fn wait_ready(&self, within: Duration, ready: impl FnMut() -> bool) -> Result<()> {
        let mut ready = ready;
        let until = std::time::Instant::now() + within;
        while !ready() {
            if !self.alive() {
                return Err(self.told("it ended while it was starting".to_owned()));
            }
            if std::time::Instant::now() >= until {
                return Err(self.told(format!("not ready after {} s", within.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// An error about it, with its last words.
    pub(crate) fn told(&self, how: String) -> LabError {
        LabError::Tool { tool: self.name.clone(), how, output: tail(&self.output) }
    }

    /// Ends it at once, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let Some(process) = self.process.take() else { return Ok(()) };
        process.kill_and_reap(GONE_WITHIN).during(|| format!("end {}", self.name))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // `kill` returns the error; the controller's end takes what is left.
        let _ = self.kill();
    }
}
