//! One thread per service: reads its output and sees its end.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use vtax_sys::sync::{lock, wait_timeout, wait_timeout_while};
use vtax_sys::{PidFd, ProcessExit};

use crate::lines::{Allowance, Splitter, Tail};

/// Something a service did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// It wrote a line.
    Output {
        /// `stdout` or `stderr`.
        stream: &'static str,
        /// The line without its end, invalid UTF-8 replaced, at most 4 KiB.
        line: String,
    },
    /// It ended without being asked to, after it had been ready.
    Died {
        /// Which of its processes, where it has several, such as `mariadbd`.
        process: Option<&'static str>,
        /// How it ended.
        status: ProcessExit,
    },
}

/// Receives notices, on the watching thread.
pub(crate) type Sink = Box<dyn FnMut(Notice) + Send>;

/// Where a service is in its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Starting,
    Ready,
    Stopping,
}

/// What the watching thread and the others share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) ended: Option<ProcessExit>,
    /// A line contained the text that was waited for.
    pub(crate) found: bool,
    /// The streams are to be read to their end no longer.
    pub(crate) closing: bool,
    tail: Tail,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Enters a phase; how the service ended, where it already has.
    pub(crate) fn enter(&self, phase: Phase) -> Option<ProcessExit> {
        let mut state = self.lock();
        state.phase = phase;
        state.ended
    }

    /// Waits until something changes, at most `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        let state = self.lock();
        if state.ended.is_none() {
            // Woken early or late, the caller looks again.
            drop(wait_timeout(&self.changed, state, timeout));
        }
    }

    /// Waits for the service's end, at most `timeout`.
    pub(crate) fn wait_for_end(&self, timeout: Duration) -> Option<ProcessExit> {
        let state = self.lock();
        wait_timeout_while(&self.changed, state, timeout, |s| s.ended.is_none()).ended
    }

    /// Its last lines.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        self.lock().tail.lines()
    }
}

/// One of the service's streams.
struct Stream {
    name: &'static str,
    pipe: Option<OwnedFd>,
    splitter: Splitter,
}

/// What the watching thread works on.
pub(crate) struct Watch {
    process: Arc<PidFd>,
    streams: [Stream; 2],
    needle: Option<String>,
    allowance: Allowance,
    sink: Sink,
    shared: Arc<Shared>,
}

/// How long the watching thread sleeps at most; it bounds how late it sees that it is to close.
const LONGEST_SLEEP_MS: i64 = 100;
/// Reads from one stream before the other gets its turn, so that neither starves.
const READS_IN_TURN: usize = 16;

impl Watch {
    pub(crate) fn new(
        process: Arc<PidFd>,
        stdout: OwnedFd,
        stderr: OwnedFd,
        needle: Option<String>,
        sink: Sink,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&stdout, true)?;
        rustix::io::ioctl_fionbio(&stderr, true)?;
        let stream = |name, pipe| Stream { name, pipe: Some(pipe), splitter: Splitter::default() };
        let streams = [stream("stdout", stdout), stream("stderr", stderr)];
        Ok(Self { process, streams, needle, allowance: Allowance::new(Instant::now()), sink, shared })
    }

    /// Runs until the service has ended and its streams are at their end or no longer wanted.
    pub(crate) fn run(mut self) {
        let mut ended = false;
        loop {
            let open = self.streams.iter().any(|s| s.pipe.is_some());
            if ended && (!open || self.shared.lock().closing) {
                break;
            }
            self.sleep(ended);
            // The end is looked for before the last lines are read, so none can come after.
            let ends_now = !ended && self.process.ended_within(Duration::ZERO).unwrap_or(true);
            for index in 0..self.streams.len() {
                self.read(index);
            }
            if ends_now {
                ended = true;
                self.end();
            }
        }
        for index in 0..self.streams.len() {
            self.read(index);
            if let Some(line) = self.streams[index].splitter.finish() {
                self.line(self.streams[index].name, line);
            }
        }
    }

    /// Waits for output or for the end.
    fn sleep(&self, ended: bool) {
        let mut polled: Vec<PollFd<'_>> = self
            .streams
            .iter()
            .filter_map(|s| s.pipe.as_ref())
            .map(|p| PollFd::new(p, PollFlags::IN))
            .collect();
        if !ended {
            polled.push(PollFd::new(&*self.process, PollFlags::IN));
        }
        let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: LONGEST_SLEEP_MS * 1_000_000 };
        // An interrupted or failed poll costs one turn; the reads below don't block.
        if poll(&mut polled, Some(&timeout)).is_err_and(|e| e != Errno::INTR) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Reads what a stream has; the last, unfinished line is kept.
    fn read(&mut self, index: usize) {
        let mut buffer = [0; 8 << 10];
        for _ in 0..READS_IN_TURN {
            let Some(pipe) = &self.streams[index].pipe else { return };
            match rustix::io::read(pipe, &mut buffer) {
                Ok(0) => self.streams[index].pipe = None,
                Ok(n) => {
                    let (name, mut lines) = (self.streams[index].name, Vec::new());
                    self.streams[index].splitter.push(&buffer[..n], |line| lines.push(line));
                    for line in lines {
                        self.line(name, line);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.streams[index].pipe = None,
            }
        }
    }

    fn line(&mut self, stream: &'static str, line: String) {
        let found = self.needle.as_ref().is_some_and(|needle| line.contains(needle));
        self.shared.change(|state| {
            state.found |= found;
            state.tail.push(line.clone());
        });
        let Some(left_out) = self.allowance.admit(&line, Instant::now()) else { return };
        if left_out > 0 {
            let line = format!("({left_out} lines left out)");
            (self.sink)(Notice::Output { stream, line });
        }
        (self.sink)(Notice::Output { stream, line });
    }

    /// Reaps the service and tells of its end.
    fn end(&mut self) {
        // What fails is that it was reaped elsewhere.
        let status = self.process.wait().unwrap_or(ProcessExit::Unknown);
        for index in 0..self.streams.len() {
            if let Some(line) = self.streams[index].splitter.finish() {
                self.line(self.streams[index].name, line);
            }
        }
        let mut phase = Phase::Starting;
        self.shared.change(|state| {
            state.ended = Some(status);
            phase = state.phase;
        });
        if phase == Phase::Ready {
            (self.sink)(Notice::Died { process: None, status });
        }
    }
}
