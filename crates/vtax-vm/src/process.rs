//! A running QEMU: its console, its stderr and its end are watched by one thread.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal};
use vtax_sys::inherit::Inherit;
use vtax_sys::sync::{lock, wait_timeout};
use vtax_sys::watchers;
use vtax_units::Nanos;

use crate::error::Evidence;

/// How much of the console and of stderr is kept.
const KEPT_BYTES: usize = 64 << 10;
/// How long a killed QEMU may take to be gone: the kernel takes its memory back first.
pub(crate) const GONE_WITHIN: Duration = Duration::from_secs(20);
/// How many lines of each an error shows.
const SHOWN_LINES: usize = 12;
/// How far from the console's end an error looks for the beginning of what the kernel says as it dies.
const LOOKED_AT_LINES: usize = 80;
/// How it begins.
const KERNEL_DIES: [&str; 3] = ["BUG: ", "Oops: ", "general protection fault"];

/// What is known about a QEMU.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    console: Vec<u8>,
    stderr: Vec<u8>,
    status: Option<ExitStatus>,
    /// CPU time it had used at its end.
    cpu: Nanos,
}

impl Seen {
    pub(crate) fn console_has(&self, text: &str) -> bool {
        // The terminal discipline of the guest's console turns \n into \r\n.
        let text = text.trim_end().as_bytes();
        self.console.windows(text.len()).any(|window| window == text)
    }

    pub(crate) fn status(&self) -> Option<ExitStatus> {
        self.status
    }
}

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        // A thread that panicked with the lock held only appended bytes.
        lock(&self.seen)
    }
}

/// CPU time of a QEMU, also once it has ended.
#[derive(Debug, Clone)]
pub struct CpuMeter {
    pid: u32,
    shared: Arc<Shared>,
}

impl CpuMeter {
    /// CPU time so far, all threads included.
    #[must_use]
    pub fn read(&self) -> Nanos {
        let seen = self.shared.lock();
        if seen.status.is_some() {
            return seen.cpu;
        }
        vtax_sys::cpu_clock::process_cpu(self.pid).unwrap_or(seen.cpu)
    }
}

/// A running QEMU; it is killed when this goes out of scope.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    handle: OwnedFd,
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts `command`; its stderr and the other end of `console` are watched.
    ///
    /// # Errors
    ///
    /// What the system said.
    pub(crate) fn start(mut command: Command, inherit: Inherit, console: UnixStream) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // QEMU must die with us, and the kernel ties that to the thread that starts it: so that is
        // the watcher, which lives as long as QEMU does, and not the caller's.
        let inherit = Inherit { die_with_thread: true, ..inherit };
        let shared = Arc::new(Shared::default());
        let (sender, receiver) = mpsc::channel();
        let for_watcher = Arc::clone(&shared);
        let watcher = watchers::spawn("qemu-watch", move || match spawn(command, inherit) {
            Ok(started) => {
                let (child, handle, stderr) = started;
                let ours = handle.try_clone().map(|handle| (child.id(), handle));
                let _ = sender.send(ours);
                watch(child, &handle, stderr, console, &for_watcher);
            }
            Err(e) => drop(sender.send(Err(e))),
        })?;
        let (pid, handle) = receiver.recv().map_err(io::Error::other)??;
        Ok(Self { pid, handle, shared, watcher: Some(watcher) })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn meter(&self) -> CpuMeter {
        CpuMeter { pid: self.pid, shared: Arc::clone(&self.shared) }
    }

    /// Waits until `wanted` finds what it looks for; `None` once the deadline has passed.
    pub(crate) fn wait_for<T>(
        &self,
        deadline: Instant,
        mut wanted: impl FnMut(&Seen) -> Option<T>,
    ) -> Option<T> {
        let mut seen = self.shared.lock();
        loop {
            if let Some(found) = wanted(&seen) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            seen = wait_timeout(&self.shared.changed, seen, left);
        }
    }

    /// What a reader of an error needs to know.
    pub(crate) fn evidence(&self) -> Evidence {
        let seen = self.shared.lock();
        Evidence {
            status: seen.status.map(|status| status.to_string()),
            stderr: last_lines(&seen.stderr),
            console: console_end(&seen.console),
        }
    }

    /// Everything kept of the console, invalid UTF-8 replaced.
    pub(crate) fn console(&self) -> String {
        String::from_utf8_lossy(&self.shared.lock().console).into_owned()
    }

    /// Sends a signal; a process that has ended already is no error.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        match rustix::process::pidfd_send_signal(&self.handle, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Waits at most that long for the kernel to confirm the end; true where it has.
    pub(crate) fn ended_within(&self, within: Duration) -> bool {
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).unwrap_or_default();
            match poll(&mut [PollFd::new(&self.handle, PollFlags::IN)], Some(&left)) {
                Ok(n) => return n > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Kills QEMU and waits until it is gone. False where it still isn't after [`GONE_WITHIN`], as one isn't that waits for a disk which
    /// doesn't answer: whoever watches it then waits on alone.
    pub(crate) fn kill(&mut self) -> bool {
        let Some(watcher) = self.watcher.take() else { return self.ended_within(Duration::ZERO) };
        // Fails only where it has ended already.
        let _ = rustix::process::pidfd_send_signal(&self.handle, Signal::KILL);
        let gone = self.ended_within(GONE_WITHIN);
        if gone {
            let _ = watcher.join();
        }
        gone
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(command: Command, inherit: Inherit) -> io::Result<(Child, OwnedFd, Option<ChildStderr>)> {
    let mut child = inherit.spawn(command)?;
    let stderr = child.stderr.take();
    let pid = Pid::from_child(&child);
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => Ok((child, handle, stderr)),
        Err(e) => {
            child.kill()?;
            child.wait()?;
            Err(e.into())
        }
    }
}

/// Collects what comes until QEMU has ended and nothing more can come.
fn watch(
    mut child: Child,
    handle: &OwnedFd,
    stderr: Option<ChildStderr>,
    console: UnixStream,
    shared: &Shared,
) {
    let (mut stderr, mut console) = (stderr, Some(console));
    loop {
        let mut fds = vec![PollFd::new(handle, PollFlags::IN)];
        fds.extend(console.as_ref().map(|c| PollFd::from_borrowed_fd(c.as_fd(), PollFlags::IN)));
        fds.extend(stderr.as_ref().map(|s| PollFd::from_borrowed_fd(s.as_fd(), PollFlags::IN)));
        if poll(&mut fds, None).is_err() {
            continue;
        }
        let ended = !fds[0].revents().is_empty();
        drop(fds);
        collect(&mut console, shared, |seen| &mut seen.console);
        collect(&mut stderr, shared, |seen| &mut seen.stderr);
        if ended {
            // The kernel forgets it once the child has been waited for.
            let cpu = vtax_sys::cpu_clock::process_cpu(child.id());
            shared.lock().cpu = cpu.unwrap_or_default();
            let status = child.wait().ok();
            shared.lock().status = status;
            shared.changed.notify_all();
            return;
        }
    }
}

/// Reads what is there without waiting; a source that has ended is dropped.
fn collect<R: Read + AsFd>(source: &mut Option<R>, shared: &Shared, place: fn(&mut Seen) -> &mut Vec<u8>) {
    let mut chunk = [0; 4096];
    while let Some(reader) = source {
        let mut fds = [PollFd::from_borrowed_fd(reader.as_fd(), PollFlags::IN)];
        if !matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..)) {
            return;
        }
        match reader.read(&mut chunk) {
            Ok(n @ 1..) => {
                let mut seen = shared.lock();
                let kept = place(&mut seen);
                kept.extend_from_slice(&chunk[..n]);
                kept.drain(..kept.len().saturating_sub(KEPT_BYTES));
                shared.changed.notify_all();
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            _ => *source = None,
        }
    }
}

fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines = lines(&text);
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}

/// The last lines of a console. Where the guest's kernel died, its first words, which say of what, and its last.
fn console_end(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines = lines(&text);
    let end = &lines[lines.len().saturating_sub(LOOKED_AT_LINES)..];
    let dies = end.iter().position(|line| KERNEL_DIES.iter().any(|word| line.contains(word)));
    match (dies, end.last()) {
        (Some(at), Some(last)) if end.len() - at > SHOWN_LINES => {
            let mut shown = end[at..at + SHOWN_LINES - 1].to_vec();
            shown.push(last);
            shown.join("\n")
        }
        _ => last_lines(bytes),
    }
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (Process, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        (Process::start(command, Inherit::default(), ours).unwrap(), theirs)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[test]
    fn the_end_comes_with_all_that_was_said_before() {
        let (process, _console) = shell("for i in $(seq 20); do echo line $i >&2; done; exit 3");
        let meter = process.meter();
        let status = process.wait_for(soon(), Seen::status).unwrap();
        assert!(meter.read() > Nanos::ZERO, "what it used is known after its end");
        assert_eq!(status.code(), Some(3));
        let evidence = process.evidence();
        assert_eq!(evidence.status.as_deref(), Some("exit status: 3"));
        assert_eq!(evidence.stderr.lines().count(), SHOWN_LINES);
        assert!(evidence.stderr.ends_with("line 20"));
    }

    #[test]
    fn what_a_kernel_says_first_as_it_dies_is_shown() {
        let boot: String = (0..100).map(|n| format!("boot {n}\r\n")).collect();
        let shown = console_end(boot.as_bytes());
        assert_eq!((shown.lines().count(), shown.lines().last()), (SHOWN_LINES, Some("boot 99")));
        let registers: String = (0..30).map(|n| format!("R{n}\r\n")).collect();
        let died =
            format!("{boot}BUG: unable to handle page fault\r\nOops: 0011\r\n{registers}Kernel panic\r\n");
        let shown = console_end(died.as_bytes());
        assert_eq!(shown.lines().next(), Some("BUG: unable to handle page fault"));
        assert_eq!((shown.lines().count(), shown.lines().last()), (SHOWN_LINES, Some("Kernel panic")));
        // What went well long ago is no reason.
        assert!(console_end(format!("BUG: long ago\n{boot}").as_bytes()).starts_with("boot 88\n"));
        assert_eq!(console_end(b"Oops: 0\nend\n"), "Oops: 0\nend");
        assert_eq!(console_end(b""), "");
    }

    #[test]
    fn a_line_on_the_console_is_seen_and_only_its_end_is_kept() {
        let (process, mut console) = shell("sleep 60");
        io::Write::write_all(&mut console, &[b'.'; 2 * KEPT_BYTES]).unwrap();
        io::Write::write_all(&mut console, b"it boots\r\n").unwrap();
        let found = process.wait_for(soon(), |seen| seen.console_has("it boots\n").then_some(()));
        assert_eq!(found, Some(()));
        assert_eq!(process.console().len(), KEPT_BYTES);
        let missed = process.wait_for(Instant::now(), |seen| seen.console_has("no").then_some(()));
        assert_eq!(missed, None);
    }

    #[test]
    fn it_is_gone_once_dropped() {
        let (process, _console) = shell("exec sleep 60");
        let pid = process.pid();
        drop(process);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn it_is_killed_once() {
        let (mut process, _console) = shell("exec sleep 60");
        assert!(process.kill());
        assert!(process.wait_for(Instant::now(), Seen::status).is_some(), "its end was seen to the end");
        assert!(process.kill(), "it is gone");
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let error = Process::start(Command::new("/no/such"), Inherit::default(), ours).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
