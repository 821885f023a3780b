//! vtax on a host: copied there where no list names one, and started as the host's end of a stream.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use vtax_agent::ssh::{directory_told, receive};

use crate::engine::{Engine, Machine};
use crate::error::HostsError;

/// Copying tens of megabytes over a slow line.
const COPY_WITHIN: Duration = Duration::from_secs(300);
/// The most that is kept of what a program says.
const SAID: usize = 4_000;

/// As [`receive`], with a vtax that is there.
const PREPARE: &str = "umask 077; d=$(mktemp -d \"${TMPDIR:-/tmp}/vtax-XXXXXXXX\") && echo \"vtax-in $d\"";

/// A host's end, started.
#[derive(Debug)]
pub struct Stream {
    /// The program that carries the stream; killing it ends the stream.
    pub(crate) carrier: Child,
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
    /// The end of what the carrier and the host's end say besides.
    pub(crate) said: Arc<Mutex<Vec<u8>>>,
}

impl Stream {
    /// The end of what was said besides, on one line.
    pub(crate) fn one_line_of(said: &Mutex<Vec<u8>>) -> String {
        one_line(&said.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Copies this program to a host, unless one is there; returns the directory that was made for it.
///
/// # Errors
///
/// [`HostsError::Host`] where it can't be.
pub fn copy_program(engine: &dyn Engine, host: &Machine, program: &Path) -> Result<String, HostsError> {
    let wrong = |reason: String| HostsError::Host { host: host.name.clone(), reason };
    let there = host.spec.program.is_some();
    let input = if there { Path::new("/dev/null") } else { program };
    let failed = |source| HostsError::File { what: "cannot read", path: input.to_owned(), source };
    let file = File::open(input).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let script = if there { PREPARE.to_owned() } else { receive(length) };
    let mut command = engine.command(host, &script);
    // A group of its own: Ctrl-C at the terminal is for vtax, which tells the hosts.
    command.stdin(file).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child =
        command.spawn().map_err(|e| wrong(format!("{:?} can't be started: {e}", command.get_program())))?;
    let (told, said) = (Arc::default(), Arc::default());
    let readers = [
        child.stdout.take().map(|output| keep_end(output, Arc::clone(&told))),
        child.stderr.take().map(|errors| keep_end(errors, Arc::clone(&said))),
    ];
    let until = Instant::now() + COPY_WITHIN;
    let status = loop {
        match child.try_wait().map_err(|e| wrong(e.to_string()))? {
            Some(status) => break status,
            None if Instant::now() >= until => {
                // It is reaped below, by the handle's end, whatever the signal did.
                let _ = child.kill();
                let _ = child.wait();
                return Err(wrong(format!("vtax wasn't copied within {} s", COPY_WITHIN.as_secs())));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    for reader in readers.into_iter().flatten() {
        // One that panicked has read nothing, which shows below.
        let _ = reader.join();
    }
    let text = |kept: &Mutex<Vec<u8>>| kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if !status.success() {
        return Err(wrong(format!(
            "it can't be reached, or vtax can't be copied ({status}): {}",
            one_line(&text(&said))
        )));
    }
    let told = String::from_utf8_lossy(&text(&told)).into_owned();
    directory_told(&told)
        .ok_or_else(|| wrong(format!("it said `{}` instead of a directory", told.escape_debug())))
}

/// Starts the host's end in the directory of [`copy_program`]. What goes wrong shows when its hello is waited for.
///
/// # Errors
///
/// [`HostsError::Host`] where the carrier can't be started.
pub fn start_agent(engine: &dyn Engine, host: &Machine, directory: &str) -> Result<Stream, HostsError> {
    let wrong = |reason: String| HostsError::Host { host: host.name.clone(), reason };
    let program = host.spec.program.clone().unwrap_or_else(|| format!("{directory}/vtax"));
    let mut command = engine.command(host, &stay(directory, &program));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut carrier =
        command.spawn().map_err(|e| wrong(format!("{:?} can't be started: {e}", command.get_program())))?;
    let said = Arc::default();
    if let Some(errors) = carrier.stderr.take() {
        keep_end(errors, Arc::clone(&said));
    }
    match (carrier.stdin.take(), carrier.stdout.take()) {
        (Some(input), Some(output)) => Ok(Stream { carrier, input, output, said }),
        _ => Err(wrong("the carrier has no streams".to_owned())),
    }
}

/// The shell stays and removes the directory, should the program be killed; a signal that goes to both ends only the program. A run that
/// dies with it may still make a file.
fn stay(directory: &str, program: &str) -> String {
    format!(
        "trap : HUP INT TERM; d={directory}; \"{program}\" host-agent --dir \"$d/job\"; s=$?; \
         rm -rf \"$d\" || {{ sleep 1; rm -rf \"$d\"; }}; exit $s"
    )
}

/// Reads a stream to its end in a thread and keeps the end of it.
fn keep_end(mut from: impl Read + Send + 'static, kept: Arc<Mutex<Vec<u8>>>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(&bytes[..n]);
            let surplus = kept.len().saturating_sub(SAID);
            kept.drain(..surplus);
        }
    })
}

fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(3)..];
    last.join("; ").chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn scripts_fit_between_single_quotes() {
        for script in [&receive(5), PREPARE, &stay("/tmp/vtax-1", "/bin/true")] {
            assert!(!script.contains('\''), "{script}");
        }
    }

    /// What a script said, its end, and what there is in the place where directories are made.
    fn run(script: &str, input: &[u8]) -> (String, bool, Vec<PathBuf>) {
        let place = tempfile::tempdir().unwrap();
        let given = place.path().join("input");
        std::fs::write(&given, input).unwrap();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]).env("TMPDIR", place.path()).stdin(File::open(&given).unwrap());
        let output = command.output().unwrap();
        let made = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
        let made = made.filter(|path| *path != given).collect();
        (String::from_utf8(output.stdout).unwrap(), output.status.success(), made)
    }

    #[test]
    fn a_program_that_came_in_part_leaves_nothing() {
        let (told, good, made) = run(&receive(5), b"hello");
        assert!(good && made.len() == 1);
        assert_eq!(directory_told(&told).as_deref(), made[0].to_str());
        for input in [&b""[..], b"hell", b"hello!"] {
            let (told, good, made) = run(&receive(5), input);
            assert!(told.is_empty() && !good && made.is_empty(), "{told} {made:?}");
        }
    }

    #[test]
    fn a_signal_to_both_ends_the_program_and_its_directory() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("vtax-1");
        std::fs::create_dir(&directory).unwrap();
        let program = place.path().join("program");
        // It has its parent, the shell, get the signal as well.
        std::fs::write(&program, "#!/bin/sh\nmkdir \"$3\"; kill -TERM $PPID $$\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let script = stay(directory.to_str().unwrap(), program.to_str().unwrap());
        let status = std::process::Command::new("sh").args(["-c", &script]).status().unwrap();
        assert_eq!(status.code(), Some(128 + 15));
        assert!(!directory.exists());
    }

    #[test]
    fn the_end_of_what_is_said_is_one_line() {
        assert_eq!(one_line(b"a\n\nb\x1b[1m\nc \nd\n"), "b[1m; c; d");
        assert_eq!(one_line(b""), "");
    }
}
