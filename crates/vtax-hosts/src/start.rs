//! vtax on a host: sent there where no list names one, and started as the host's end of a stream.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vtax_agent::ssh::{Program, hand_over, script};
use vtax_sys::sync::lock;
use vtax_units::drives_terminal;

use crate::engine::{Engine, Machine};
use crate::error::HostsError;
use crate::session::end;

/// Sending tens of megabytes over a slow line.
const SENT_WITHIN: Duration = Duration::from_secs(300);
/// The most that is kept of what a program says.
const SAID: usize = 4_000;

/// A host's end, started.
#[derive(Debug)]
pub(crate) struct Stream {
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
        one_line(&lock(said))
    }
}

/// Starts the host's end, for which this program is sent there unless the host has one. What goes wrong afterwards shows when its hello is
/// waited for.
///
/// # Errors
///
/// [`HostsError::Host`] where the host can't be reached, or vtax doesn't get there; [`HostsError::File`] where this program can't be read.
pub(crate) fn start_agent(engine: &dyn Engine, host: &Machine, program: &Path) -> Result<Stream, HostsError> {
    let wrong = |reason: String| HostsError::Host { host: host.name.clone(), reason };
    let failed = |source| HostsError::File { what: "cannot read", path: program.to_owned(), source };
    let (place, file) = match &host.spec.program {
        Some(path) => (Program::There(path), None),
        None => {
            let file = File::open(program).map_err(failed)?;
            (Program::Sent(file.metadata().map_err(failed)?.len()), Some(file))
        }
    };
    let mut command = engine.command(host, &script(place, "host-agent --dir \"$d/job\""));
    // A group of its own: Ctrl-C at the terminal is for vtax, which tells the hosts.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut carrier =
        command.spawn().map_err(|e| wrong(format!("{:?} can't be started: {e}", command.get_program())))?;
    let said = Arc::default();
    let errors = carrier.stderr.take().map(|errors| keep_end(errors, Arc::clone(&said)));
    let (Some(mut input), Some(mut output)) = (carrier.stdin.take(), carrier.stdout.take()) else {
        return Err(wrong("the carrier has no streams".to_owned()));
    };
    // In a thread of its own, which ends with the carrier: a host may stop to read.
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let there = hand_over(file, &mut input, &mut output);
        // Nobody waits any more where it took too long.
        let _ = tell.send(there.map(|()| (input, output)));
    });
    match told.recv_timeout(SENT_WITHIN) {
        Ok(Ok((input, output))) => Ok(Stream { carrier, input, output, said }),
        Ok(Err(why)) => {
            let status = end(&mut carrier);
            // What it left behind, such as a connection that ssh shares, may hold its output open.
            let reads = || errors.as_ref().is_some_and(|reader| !reader.is_finished());
            (0..20).take_while(|_| reads()).for_each(|_| std::thread::sleep(Duration::from_millis(50)));
            let said = Stream::one_line_of(&said);
            let why = if said.is_empty() { why.to_string() } else { said };
            Err(wrong(format!("it can't be reached, or vtax can't be copied ({status}): {why}")))
        }
        Err(_) => {
            // It is reaped in any case.
            let _ = carrier.kill();
            let _ = carrier.wait();
            Err(wrong(format!("vtax wasn't copied within {} s", SENT_WITHIN.as_secs())))
        }
    }
}

/// Reads a stream to its end in a thread and keeps the end of it.
fn keep_end(mut from: impl Read + Send + 'static, kept: Arc<Mutex<Vec<u8>>>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            let mut kept = lock(&kept);
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
    last.join("; ").chars().filter(|c| !drives_terminal(*c)).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    /// Whether a script ended well, and what there is in the place where directories are made.
    fn run(program: Program<'_>, arguments: &str, input: &[u8]) -> (bool, Vec<PathBuf>) {
        let place = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", &script(program, arguments)]).env("TMPDIR", place.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // It is gone at once where it was sent too much.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        let made = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
        (output.status.success(), made.collect())
    }

    /// Makes a program of a script. By another process: one that this process has open for writing may be kept so by what other
    /// tests start, and can't be run meanwhile.
    fn make(program: &Path, script: &str) {
        let write = "printf %s \"$2\" >\"$1\" && chmod 700 \"$1\"";
        let made = Command::new("sh").args(["-c", write, "sh"]).arg(program).arg(script).status();
        assert!(made.unwrap().success());
    }

    const PROGRAM: &[u8] = b"#!/bin/sh\ntouch \"$1\"; cat\n";

    #[test]
    fn a_stream_that_ends_early_leaves_nothing() {
        let all = PROGRAM.len();
        for sent in 0..=all {
            // With all of it the program is started, and ends with its input.
            let (good, made) = run(Program::Sent(all as u64), "\"$d/job\"", &PROGRAM[..sent]);
            assert_eq!((good, made), (sent == all, Vec::new()), "{sent}");
        }
    }

    #[test]
    fn a_program_that_is_there_runs_in_a_directory_of_its_own() {
        let (good, made) = run(Program::There("/bin/touch"), "\"$d/job\"", b"");
        assert!(good && made.is_empty(), "{made:?}");
        let (good, made) = run(Program::There("/bin/false"), "", b"");
        assert!(!good && made.is_empty(), "{made:?}");
    }

    #[test]
    fn a_signal_to_both_ends_the_program_and_its_directory() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("program");
        // It has its parent, the shell, get the signal as well.
        make(&program, "#!/bin/sh\nmkdir \"$1\"; kill -TERM $PPID $$\n");
        let script = script(Program::There(program.to_str().unwrap()), "\"$d/job\"");
        let status = Command::new("sh").args(["-c", &script]).env("TMPDIR", place.path()).status().unwrap();
        assert_eq!(status.code(), Some(128 + 15));
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1, "only the program");
    }

    #[test]
    fn the_end_of_what_is_said_is_one_line() {
        assert_eq!(one_line(b"a\n\nb\x1b[1m\nc \nd\n"), "b[1m; c; d");
        assert_eq!(one_line(b""), "");
    }
}
