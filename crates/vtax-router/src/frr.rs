//! FRR's daemons as private instances: a directory of configuration, of sockets and of logs for each router.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};
use vtax_sys::spawn::Spawn;
use vtax_sys::{NetNs, PidFd, mount};
use vtax_topology::blueprint::Node;
use vtax_topology::frr::Daemon;
use vtax_topology::state::complaints;
use vtax_units::Bytes;

use crate::build::directory;
use crate::error::{OnPath, Result, RouterError, While};
use crate::lab::CommandOutcome;
use crate::machine::{CONFIGURATION, DAEMONS, VTYSH};
use crate::vty::Vty;

/// Where daemons have their sockets: `/run` is the node's own.
const SOCKETS: &str = "/run/frr";
/// Time a daemon has to open its socket; under emulation ten start at once.
const STARTS_WITHIN: Duration = Duration::from_secs(90);
/// Time a short configuration may take to be handed over, and what each of its lines may take more: under emulation some milliseconds.
const CONFIGURED_WITHIN: Duration = Duration::from_secs(60);
const LINE_WITHIN: Duration = Duration::from_millis(30);
/// Time a daemon that has closed its sockets may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(1);
/// Time a killed process may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// How much of a process's last words is told.
const TAIL: u64 = 2_048;
/// How much a command may print: it is kept in memory.
const MOST_OUTPUT: u64 = 1 << 20;
/// How often is looked how much it has printed.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// All that daemons and commands inherit of the environment. Logs are in UTC.
const ENVIRONMENT: [(&str, &str); 4] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/"),
    ("LANG", "C.UTF-8"),
    ("TZ", "UTC"),
];

/// Gives FRR directories of its own, and users that are all the one there is: its daemons want to be `frr`, which a
/// user namespace with one user doesn't have. Only this node's mounts change.
pub(crate) fn prepare(scratch: &Path) -> Result<()> {
    // Its daemons keep their latest words in the second, for when they crash: nothing is left there.
    for own in [CONFIGURATION, "/var/tmp"] {
        mount::tmpfs(Path::new(own), "mode=755").during(|| "give FRR directories of its own".to_owned())?;
    }
    fs::create_dir_all(SOCKETS).on("make", Path::new(SOCKETS))?;
    let (users, groups) = (scratch.join("passwd"), scratch.join("group"));
    fs::write(&users, "root:x:0:0::/:/bin/sh\nfrr:x:0:0::/:/bin/false\n").on("write", &users)?;
    fs::write(&groups, "root:x:0:\nfrr:x:0:\nfrrvty:x:0:\n").on("write", &groups)?;
    for (file, place) in [(&users, "/etc/passwd"), (&groups, "/etc/group")] {
        mount::bind(file, Path::new(place), false).during(|| "give FRR users of its own".to_owned())?;
    }
    Ok(())
}

/// A running router.
#[derive(Debug)]
pub(crate) struct Router {
    name: String,
    daemons: Vec<(Daemon, Option<Process>)>,
}

#[derive(Debug)]
struct Process {
    handle: PidFd,
    output: File,
}

impl Process {
    fn start(spawn: Spawn, name: &str) -> Result<Self> {
        let output = memory(name)?;
        let null = Path::new("/dev/null");
        let input: OwnedFd = File::open(null).on("open", null)?.into();
        let copy = || output.try_clone().map(OwnedFd::from).on("duplicate", Path::new("output"));
        let spawn = ENVIRONMENT.iter().fold(spawn, |spawn, (name, value)| spawn.env(name, value));
        let spawn = spawn.fd(input, 0).fd(copy()?, 1).fd(copy()?, 2);
        let handle = spawn.start(|_| Ok(())).during(|| format!("start {name}"))?;
        Ok(Self { handle, output })
    }

    fn alive(&self) -> bool {
        matches!(self.handle.ended_within(Duration::ZERO), Ok(false))
    }

    fn kill(&self) -> Result<()> {
        self.handle.kill_and_reap(GONE_WITHIN).during(|| "end a daemon".to_owned())
    }

    /// Ends it with all that it has started: a shell's programs would go on printing.
    fn kill_all(&self) -> Result<()> {
        if let Some(pid) = rustix::process::Pid::from_raw(self.handle.pid()) {
            // It leads a group of its own, and its number is its own until it is reaped.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
        self.kill()
    }

    /// Bytes that it has printed.
    fn printed(&self) -> u64 {
        self.output.metadata().map_or(0, |data| data.len())
    }

    /// Waits for its end, no longer than `within` nor beyond `most` bytes of output.
    fn outcome(&self, within: Duration, most: u64) -> Result<CommandOutcome> {
        let what = || "wait for a command".to_owned();
        let until = Instant::now() + within;
        let limit = || format!("more than {}", Bytes(most));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.handle.ended_within(left.min(LOOK_EVERY)).during(what)? {
                break;
            }
            let too_much = self.printed() > most;
            if too_much || left.is_zero() {
                self.kill_all()?;
                let why = match too_much {
                    true => format!("it printed {}", limit()),
                    false => format!("it had no end after {} s", within.as_secs()),
                };
                let (status, output) = (format!("a kill, as {why}"), start_of(&self.output, most));
                return Ok(CommandOutcome { success: false, status, output });
            }
        }
        let ended = self.handle.wait().during(what)?;
        let output = start_of(&self.output, most);
        if self.printed() > most {
            let status = format!("{ended}, but it printed {}; the rest is left out", limit());
            return Ok(CommandOutcome { success: false, status, output });
        }
        Ok(CommandOutcome { success: ended.success(), status: ended.to_string(), output })
    }
}

/// A file in memory for what a process writes.
fn memory(name: &str) -> Result<File> {
    let make = || -> std::io::Result<File> {
        let memory = memfd_create(format!("vtax-{name}-output"), MemfdFlags::CLOEXEC)?;
        // Standard output and error are the same file.
        fcntl_setfl(&memory, OFlags::APPEND)?;
        Ok(File::from(memory))
    };
    make().on("create", Path::new("a file in memory"))
}

/// The last words in such a file.
fn tail(file: &File) -> String {
    let length = file.metadata().map_or(0, |data| data.len());
    let mut bytes = vec![0; length.min(TAIL) as usize];
    let read = file.read_at(&mut bytes, length.saturating_sub(TAIL)).unwrap_or(0);
    bytes.truncate(read);
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// What is in such a file, up to so many bytes.
fn start_of(file: &File, most: u64) -> String {
    let length = file.metadata().map_or(0, |data| data.len()).min(most);
    let mut bytes = vec![0; length as usize];
    let read = file.read_at(&mut bytes, 0).unwrap_or(0);
    bytes.truncate(read);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The socket of a router's daemon.
pub(crate) fn socket(router: &str, daemon: Daemon) -> PathBuf {
    Path::new(SOCKETS).join(router).join(format!("{}.vty", daemon.program()))
}

/// The log of a router's daemon.
pub(crate) fn log(router: &str, daemon: Daemon) -> PathBuf {
    Path::new(SOCKETS).join(router).join(format!("{}.log", daemon.program()))
}

/// Runs a program in a node to its end, or until it has had its time or printed too much.
pub(crate) fn run(
    space: &NetNs,
    program: &Path,
    words: &[String],
    within: Duration,
) -> Result<CommandOutcome> {
    let namespace = space.try_clone().during(|| "enter a node".to_owned())?;
    let name = words.first().map_or("command", String::as_str).to_owned();
    let process = Process::start(Spawn::new(program, words).join_net(namespace.into()), &name)?;
    process.outcome(within, MOST_OUTPUT)
}

impl Router {
    /// Starts a router's daemons in its namespace and hands them its configuration.
    pub(crate) fn start(node: &Node, daemons: &[Daemon], space: &NetNs) -> Result<Self> {
        let name = node.name.clone();
        let what = || format!("build node {name}");
        directory(Path::new(SOCKETS), &node.name).during(what)?;
        let own = directory(Path::new(CONFIGURATION), &node.name).during(what)?;
        // Without it the tool complains.
        let tool = own.join("vtysh.conf");
        fs::write(&tool, "service integrated-vtysh-config\n").on("write", &tool)?;
        for file in &node.files {
            let place = own.join(file.path.rsplit('/').next().unwrap_or_default());
            fs::write(&place, &file.text).on("write", &place)?;
        }
        let mut router =
            Self { name: node.name.clone(), daemons: daemons.iter().map(|daemon| (*daemon, None)).collect() };
        router.switch_on(space)?;
        Ok(router)
    }

    /// Its daemons.
    pub(crate) fn daemons(&self) -> impl Iterator<Item = Daemon> {
        self.daemons.iter().map(|(daemon, _)| *daemon)
    }

    /// Starts those of its daemons that don't run, and hands all of them the configuration.
    pub(crate) fn switch_on(&mut self, space: &NetNs) -> Result<()> {
        // All others look for zebra when they start.
        self.start_some(space, |daemon| daemon == Daemon::Zebra)?;
        self.start_some(space, |daemon| daemon != Daemon::Zebra)?;
        self.configure(space)
    }

    fn start_some(&mut self, space: &NetNs, which: impl Fn(Daemon) -> bool) -> Result<()> {
        let name = self.name.clone();
        let mut started = Vec::new();
        for (daemon, process) in self.daemons.iter_mut().filter(|(daemon, _)| which(*daemon)) {
            if process.as_ref().is_some_and(Process::alive) {
                continue;
            }
            if let Some(ended) = process.take() {
                // It ended by itself, or was ended: its zombie goes.
                let _ = ended.kill();
            }
            // A socket of one that is gone would be taken for its own.
            let _ = fs::remove_file(socket(&name, *daemon));
            *process = Some(start(&name, *daemon, space)?);
            started.push(*daemon);
        }
        started.into_iter().try_for_each(|daemon| {
            self.wait_for(daemon)?;
            log_finely(&name, daemon).map_err(|error| self.why(daemon, error))
        })
    }

    fn process(&self, daemon: Daemon) -> Option<&Process> {
        self.daemons.iter().find(|(other, _)| *other == daemon).and_then(|(_, process)| process.as_ref())
    }

    /// Waits until a daemon answers at its socket: its file is there some moments earlier.
    fn wait_for(&self, daemon: Daemon) -> Result<()> {
        let path = socket(&self.name, daemon);
        let from = Instant::now();
        while UnixStream::connect(&path).is_err() {
            if !self.process(daemon).is_some_and(Process::alive) {
                return Err(self.failed(daemon, "ended while it was starting".to_owned()));
            }
            let waited = from.elapsed();
            if waited >= STARTS_WITHIN {
                return Err(self.failed(daemon, format!("is not ready after {} s", STARTS_WITHIN.as_secs())));
            }
            // Rarer where it takes long: in an emulated guest each look takes time from those that start.
            std::thread::sleep((waited / 16).clamp(Duration::from_millis(5), Duration::from_millis(100)));
        }
        Ok(())
    }

    /// Why a daemon doesn't answer: it has ended, or this error. Its sockets are closed some moments before its end is seen.
    fn why(&self, daemon: Daemon, error: RouterError) -> RouterError {
        let process = self.process(daemon);
        let ended =
            process.is_some_and(|process| matches!(process.handle.ended_within(ENDS_WITHIN), Ok(true)));
        if ended { self.failed(daemon, "ended while it was starting".to_owned()) } else { error }
    }

    /// An error about a daemon, with its last words.
    fn failed(&self, daemon: Daemon, how: String) -> RouterError {
        let words = self.process(daemon).map(|process| tail(&process.output)).unwrap_or_default();
        let last: Vec<&str> = words.lines().rev().take(3).collect();
        let output = last.into_iter().rev().collect::<Vec<_>>().join("; ");
        RouterError::Daemon { router: self.name.clone(), daemon: daemon.program(), how, output }
    }

    /// Has FRR's own tool hand the configuration to the daemons, and tells what is refused.
    fn configure(&self, space: &NetNs) -> Result<()> {
        let words = ["vtysh", "-N", &self.name, "-b"].map(str::to_owned);
        let within = CONFIGURED_WITHIN + LINE_WITHIN * self.lines();
        let CommandOutcome { success, status, output } = run(space, Path::new(VTYSH), &words, within)?;
        let complaints = complaints(&output);
        if complaints.is_empty() {
            let output = output.trim().chars().take(500).collect();
            let (node, command) = (self.name.clone(), words.join(" "));
            let failed = || RouterError::Command { node, command, how: status, output };
            return if success { Ok(()) } else { Err(failed()) };
        }
        let told = complaints.iter().take(10).map(|(line, words)| match line {
            Some(line) => format!("line {line}: {words}"),
            None => words.clone(),
        });
        let what = format!("{} ({status})", told.collect::<Vec<_>>().join("; "));
        Err(RouterError::Configuration { router: self.name.clone(), what })
    }

    /// Lines of its configuration.
    fn lines(&self) -> u32 {
        let files = fs::read_dir(Path::new(CONFIGURATION).join(&self.name)).into_iter().flatten().flatten();
        let lines = |path: PathBuf| fs::read_to_string(path).map_or(0, |text| text.lines().count());
        u32::try_from(files.map(|file| lines(file.path())).sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// Why a daemon that should run doesn't; `None` where all do.
    pub(crate) fn dead(&self) -> Option<RouterError> {
        let ended = self.daemons.iter().find(|(_, process)| !process.as_ref().is_some_and(Process::alive));
        ended.map(|(daemon, _)| self.failed(*daemon, "ended".to_owned()))
    }

    /// Ends a daemon at once.
    pub(crate) fn stop(&mut self, daemon: Daemon) -> Result<()> {
        let found = self.daemons.iter_mut().find(|(other, _)| *other == daemon);
        match found.and_then(|(_, process)| process.take()) {
            Some(process) => process.kill(),
            None => Ok(()),
        }
    }

    /// Ends all its daemons at once.
    pub(crate) fn switch_off(&mut self) -> Result<()> {
        let running: Vec<Process> =
            self.daemons.iter_mut().filter_map(|(_, process)| process.take()).collect();
        for process in &running {
            // Reaping below says what is wrong.
            let _ = process.handle.kill();
        }
        running.iter().try_for_each(Process::kill)
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // The node's end takes what is left.
        let _ = self.switch_off();
    }
}

/// Has a daemon log to its file, with microseconds, which logs that are asked for at its start don't have.
fn log_finely(router: &str, daemon: Daemon) -> Result<()> {
    let mut vty = Vty::connect(&socket(router, daemon))?;
    let log = format!("log file {}", log(router, daemon).display());
    for command in ["configure terminal", "log timestamp precision 6", &log, "end"] {
        vty.ask(command)?;
    }
    Ok(())
}

/// Starts a daemon in the foreground, so that its process is the one that was started.
fn start(router: &str, daemon: Daemon, space: &NetNs) -> Result<Process> {
    let program = Path::new(DAEMONS).join(daemon.program());
    let words = [
        // Its whole place: LDP's starts itself again, twice, and would look for its name in PATH.
        program.display().to_string(),
        "-N".to_owned(),
        router.to_owned(),
        "-A".to_owned(),
        "127.0.0.1".to_owned(),
        // What it says until its log is opened.
        "--log".to_owned(),
        "stdout".to_owned(),
    ];
    let namespace = space.try_clone().during(|| format!("start {}", daemon.program()))?;
    Process::start(Spawn::new(&program, words).join_net(namespace.into()), daemon.program())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Process {
        Process::start(Spawn::new(Path::new("/bin/sh"), ["sh", "-c", script]), "sh").unwrap()
    }

    #[test]
    fn a_command_that_prints_without_end_is_ended_with_all_that_it_started() {
        let process = shell("yes; true");
        let done = process.outcome(LONG, 4_096).unwrap();
        assert_eq!(
            (done.success, done.status.as_str(), done.output.len()),
            (false, "a kill, as it printed more than 4KiB", 4_096)
        );
        // What was killed may still be in a last call.
        let until = Instant::now() + LONG;
        let writes = || {
            let printed = process.printed();
            std::thread::sleep(Duration::from_millis(50));
            process.printed() > printed
        };
        while writes() {
            assert!(Instant::now() < until, "what the shell started goes on");
        }
    }

    #[test]
    fn output_that_is_cut_is_told() {
        let of = |script: &str| shell(script).outcome(LONG, 100).unwrap();
        let cut = of("printf '%0101d' 0");
        let told = "exit code 0, but it printed more than 100B; the rest is left out";
        assert_eq!((cut.success, cut.status.as_str(), cut.output.len()), (false, told, 100));
        let (status, output) = ("exit code 3".to_owned(), "0".repeat(100));
        assert_eq!(of("printf '%0100d' 0; exit 3"), CommandOutcome { success: false, status, output });
    }

    #[test]
    fn of_a_daemon_that_does_not_answer_its_end_is_told() {
        let ended = shell("echo out of memory; exit 1");
        assert!(ended.handle.ended_within(LONG).unwrap());
        let daemons = vec![(Daemon::Ospfd, Some(ended)), (Daemon::Zebra, Some(shell("exec sleep 600")))];
        let router = Router { name: "r1".to_owned(), daemons };
        let reset = || RouterError::Unknown("connection reset".to_owned());
        let told = router.why(Daemon::Ospfd, reset()).to_string();
        assert!(told.starts_with("router r1: ospfd ended while it was starting"), "{told}");
        assert_eq!(router.why(Daemon::Zebra, reset()).to_string(), reset().to_string());
    }

    #[test]
    fn what_a_command_printed_before_its_time_was_over_is_told() {
        let process = shell("printf '%03000d' 7; exec sleep 600");
        let until = Instant::now() + LONG;
        while process.printed() < 3_000 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let done = process.outcome(Duration::ZERO, 4_096).unwrap();
        assert_eq!((done.success, done.status.as_str()), (false, "a kill, as it had no end after 0 s"));
        assert_eq!((done.output.len(), &done.output[2_999..]), (3_000, "7"));
    }
}
