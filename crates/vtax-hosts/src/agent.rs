//! The host's end of the stream: starts vtax there and sends what it stores, as it is stored.

use std::fs::{File, FileType};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use vtax_agent::{Decoder, Kind};
use vtax_sys::PidFd;
use vtax_sys::inherit::Inherit;
use vtax_sys::sync::lock;

use crate::error::HostsError;
use crate::exit_code;
use crate::message::{FromHost, HostTask, PIECE, PROTOCOL, Record, ToHost, unix_ns};
use crate::outbox::Outbox;
use crate::watchdog::{self, Child};

/// How often the run's files are looked at.
const PAUSE: Duration = Duration::from_millis(100);

/// A time to begin is a second ahead; a clock that was set meanwhile must not make a host wait for ever.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Of what a program tells, the end that is looked at for its error.
const LOG_END: u64 = 64 << 10;

/// What the host's end needs to know of itself.
#[derive(Debug, Clone)]
pub struct HostAgent {
    /// vtax's own program.
    pub program: PathBuf,
    /// Its version, for this end's hello.
    pub version: String,
    /// A directory of its own, removed at the end.
    pub directory: PathBuf,
}

/// Serves a controller on a stream until the task is done and all of it is stored there.
///
/// Where the stream ends or nothing is heard for [`LEASE`](vtax_agent::LEASE), the task is killed, its directory removed and the
/// process ended.
///
/// # Errors
///
/// [`HostsError`] where the task can't be started or the stream fails.
pub fn serve(
    read: impl Read + Send + 'static,
    write: impl Write + Send + 'static,
    agent: &HostAgent,
) -> Result<(), HostsError> {
    let outbox = Arc::new(Outbox::new(write));
    let child: Child = Arc::new(Mutex::new(None));
    let done = converse(read, &outbox, &child, agent);
    // Whatever ended it: a run that still goes on is ended before its directory is removed.
    watchdog::end_task(&child, &agent.directory);
    done
}

/// Takes a task and sends what becomes of it.
fn converse(
    read: impl Read + Send + 'static,
    outbox: &Arc<Outbox<impl Write + Send + 'static>>,
    child: &Child,
    agent: &HostAgent,
) -> Result<(), HostsError> {
    let (start, started) = std::sync::mpsc::channel();
    let threads = watchdog::watch(outbox.clone(), child.clone(), agent.directory.clone()).and_then(|()| {
        let outbox = outbox.clone();
        let listen = move || listen(read, &outbox, &start);
        std::thread::Builder::new().name("listen".into()).spawn(listen).map(|_| ())
    });
    threads.map_err(|source| file("start threads for", &agent.directory, source))?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    outbox.tell(&FromHost::Hello { protocol: PROTOCOL, vtax: agent.version.clone(), host })?;
    let (task, at) =
        started.recv().map_err(|_| HostsError::Stream("it ended before it said what to do".to_owned()))?;
    if let Some(at) = at {
        std::thread::sleep(Duration::from_nanos(at.saturating_sub(unix_ns())).min(LONGEST_WAIT));
    }
    let at_unix_ns = unix_ns();
    // Where many hosts' ends share a processor, each is to see the moment before one of them goes on.
    std::thread::yield_now();
    outbox.tell(&FromHost::Begun { at_unix_ns })?;
    let mut sender = Sender::new(outbox, agent.directory.join("run"));
    let (code, error) = sender.work(agent, &task, child)?;
    sender.record(Vec::new(), &Record::Ended { code, error })?;
    outbox.wait_stored(sender.number)
}

/// A task, and the time before which it isn't begun.
type Start = (HostTask, Option<u64>);

/// Takes what the controller says.
fn listen<W: Write>(mut read: impl Read, outbox: &Outbox<W>, start: &std::sync::mpsc::Sender<Start>) {
    let mut decoder = Decoder::default();
    let mut bytes = vec![0; 64 << 10];
    loop {
        match read.read(&mut bytes) {
            Ok(0) => break,
            Ok(n) => {
                // Before a message is whole, which takes a slow line a while: a plan may be long.
                outbox.hear(|_| ());
                decoder.push(&bytes[..n]);
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        }
        while let Some(frame) = decoder.next_frame() {
            if frame.kind != Kind::Request {
                continue;
            }
            match serde_json::from_slice::<ToHost>(&frame.payload) {
                Ok(ToHost::Start { task, at_unix_ns }) => {
                    // The main thread takes one task only, and may be gone already.
                    let _ = start.send((task, at_unix_ns));
                }
                Ok(ToHost::Beat { at_unix_ns }) => {
                    outbox.tell_if_idle(&FromHost::Beat { of_unix_ns: at_unix_ns, at_unix_ns: unix_ns() });
                }
                Ok(ToHost::Stored { record }) => outbox.hear(|heard| heard.stored = heard.stored.max(record)),
                Ok(ToHost::Stop) => outbox.hear(|heard| heard.stop = true),
                // From a newer one, which the hello has told which version this is.
                Err(_) => {}
            }
        }
    }
    outbox.close();
}

fn file(what: &'static str, path: &Path, source: std::io::Error) -> HostsError {
    HostsError::File { what, path: path.to_owned(), source }
}

/// What of a journal's line matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    event: String,
    index: u32,
    cell: Option<String>,
    measure: String,
}

/// Sends records.
struct Sender<'a, W> {
    outbox: &'a Outbox<W>,
    /// Number of the last record.
    number: u32,
    /// The run directory here.
    run: PathBuf,
    /// How much of the journal was sent.
    journal: u64,
    /// When provenance was written that was sent last, and its length.
    provenance: Option<(i64, i64, u64)>,
}

impl<'a, W: Write> Sender<'a, W> {
    fn new(outbox: &'a Outbox<W>, run: PathBuf) -> Self {
        Self { outbox, number: 0, run, journal: 0, provenance: None }
    }

    /// Starts vtax and sends what it stores; its exit code and its last error.
    fn work(
        &mut self,
        agent: &HostAgent,
        task: &HostTask,
        child: &Child,
    ) -> Result<(Option<i32>, Option<String>), HostsError> {
        let log = agent.directory.join("log");
        let command = self.command(agent, task, &log)?;
        // This thread waits for it to the end, so it dies with this process, too.
        let started = Inherit { die_with_thread: true, ..Inherit::default() }.spawn(command);
        let mut process = started.map_err(|source| file("start", &agent.program, source))?;
        let handle = i32::try_from(process.id()).ok().and_then(|pid| PidFd::open(pid).ok());
        *lock(child) = handle;
        let mut stopped = false;
        let status: ExitStatus = loop {
            let ended = process.try_wait().map_err(|source| file("wait for", &agent.program, source))?;
            if let Some(status) = ended {
                break status;
            }
            if self.outbox.stop_asked() && !stopped {
                stopped = true;
                if let Some(child) = lock(child).as_ref() {
                    // One that has just ended needs no signal any more.
                    let _ = child.signal(Signal::INT);
                }
            }
            self.send_news()?;
            std::thread::sleep(PAUSE);
        };
        *lock(child) = None;
        self.send_rest()?;
        // One that was asked to stop before it listened to signals died of it.
        let died_of_it = stopped && status.signal() == Some(Signal::INT.as_raw());
        let killed = died_of_it.then_some(i32::from(exit_code::INTERRUPTED));
        Ok((status.code().or(killed), last_error(&log)))
    }

    fn command(&self, agent: &HostAgent, task: &HostTask, log: &Path) -> Result<Command, HostsError> {
        let create = |path: &Path| File::create(path).map_err(|source| file("create", path, source));
        std::fs::create_dir_all(&agent.directory)
            .map_err(|source| file("create", &agent.directory, source))?;
        let told = create(log)?;
        let copy = told.try_clone().map_err(|source| file("open", log, source))?;
        let mut command = Command::new(&agent.program);
        command.current_dir(&agent.directory).stdin(Stdio::null()).stderr(told);
        match task {
            HostTask::Run { plan, overrides, tags } => {
                let path = agent.directory.join("plan.yaml");
                std::fs::write(&path, plan).map_err(|source| file("write", &path, source))?;
                command.arg("run").arg("plan.yaml").arg("--out").arg(&self.run).stdout(copy);
                for (name, values) in [("--set", overrides), ("--tag", tags)] {
                    // In one word, so that no value is taken for an option.
                    command.args(values.iter().map(|value| format!("{name}={value}")));
                }
            }
            HostTask::Doctor => {
                std::fs::create_dir_all(&self.run).map_err(|source| file("create", &self.run, source))?;
                command.args(["doctor", "--json"]).stdout(create(&self.run.join("doctor.json"))?);
            }
        }
        Ok(command)
    }

    /// Sends whole new lines of the journal, before each that makes a trial count the trial's files, and before all of them what is
    /// known of the run by now: a host that is lost tells nothing more.
    fn send_news(&mut self) -> Result<(), HostsError> {
        let path = self.run.join("journal.jsonl");
        let Ok(mut journal) = File::open(&path) else { return Ok(()) };
        let failed = |source| file("read", &path, source);
        let mut bytes = Vec::new();
        journal.seek(SeekFrom::Start(self.journal)).map_err(failed)?;
        journal.read_to_end(&mut bytes).map_err(failed)?;
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        bytes.truncate(whole);
        if bytes.is_empty() {
            return Ok(());
        }
        if self.journal == 0 {
            self.send_file("plan.yaml")?;
            self.send_file("calibration.json")?;
        }
        self.send_provenance()?;
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            let known: Line = serde_json::from_slice(line).unwrap_or_default();
            if known.event == "trial-ended" {
                self.send_trial(known.index)?;
            }
            for piece in line.chunks(PIECE) {
                let offset = self.journal;
                let record = Record::Piece { path: "journal.jsonl".to_owned(), offset, sha256: None };
                self.record(piece.to_vec(), &record)?;
                self.journal += piece.len() as u64;
            }
            if known.event == "trial-ended" {
                let cell = known.cell.unwrap_or_default();
                let text = format!("trial {}: {cell}, {}", known.index, known.measure);
                self.outbox.tell(&FromHost::Told { text })?;
            }
        }
        Ok(())
    }

    /// Sends provenance unless it is what was sent last.
    fn send_provenance(&mut self) -> Result<(), HostsError> {
        const NAME: &str = "provenance.json";
        // Of before it is read: what is written meanwhile is sent again.
        let meta = std::fs::metadata(self.run.join(NAME)).ok();
        let written = meta.map(|meta| (meta.mtime(), meta.mtime_nsec(), meta.len()));
        if written == self.provenance {
            return Ok(());
        }
        self.send_file(NAME)?;
        self.provenance = written;
        Ok(())
    }

    /// Sends what there is of a run that has ended: provenance is completed by then, and a calibration may have been put there behind the
    /// first line of the journal.
    fn send_rest(&mut self) -> Result<(), HostsError> {
        self.send_news()?;
        ["provenance.json", "calibration.json", "doctor.json"]
            .iter()
            .try_for_each(|name| self.send_file(name))
    }

    fn send_trial(&mut self, index: u32) -> Result<(), HostsError> {
        let trial = format!("trials/{index:03}");
        let of_observations = names_in(&self.run.join(&trial), FileType::is_dir);
        let of_observations = of_observations.into_iter().filter(|name| is_of_observation(name));
        let mut directories = vec![trial.clone(), format!("{trial}/logs")];
        directories.extend(of_observations.map(|name| format!("{trial}/{name}")));
        for directory in directories {
            for name in names_in(&self.run.join(&directory), FileType::is_file) {
                self.send_file(&format!("{directory}/{name}"))?;
            }
        }
        Ok(())
    }

    /// Sends a file of the run as it is now; one that isn't there is none.
    fn send_file(&mut self, name: &str) -> Result<(), HostsError> {
        let path = self.run.join(name);
        let Ok(mut from) = File::open(&path) else { return Ok(()) };
        let mut digest = Sha256::new();
        let mut offset = 0;
        loop {
            let mut bytes = Vec::new();
            let read = Read::by_ref(&mut from).take(PIECE as u64).read_to_end(&mut bytes);
            let length = read.map_err(|source| file("read", &path, source))?;
            digest.update(&bytes);
            // A file that ends with a full piece is followed by an empty one.
            let last = length < PIECE;
            let sha256 = last.then(|| hex(digest.clone()));
            self.record(bytes, &Record::Piece { path: name.to_owned(), offset, sha256 })?;
            offset += length as u64;
            if last {
                return Ok(());
            }
        }
    }

    fn record(&mut self, bytes: Vec<u8>, record: &Record) -> Result<(), HostsError> {
        self.number += 1;
        self.outbox.send(self.number, bytes, record)
    }
}

/// Names of what is in a directory and of this kind, in order; none where there is no such directory.
fn names_in(directory: &Path, kind: impl Fn(&FileType) -> bool) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|found| kind(&found)))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}

/// Whether a trial's directory may have one of this name for the files of a later observation.
pub(crate) fn is_of_observation(name: &str) -> bool {
    let place = name.strip_prefix("observation-").unwrap_or_default();
    (1..=9).contains(&place.len()) && place.bytes().all(|b| b.is_ascii_digit())
}

/// A digest in hexadecimal digits.
pub(crate) fn hex(digest: Sha256) -> String {
    vtax_units::hex(&digest.finalize())
}

/// The last error that vtax told in its log.
fn last_error(log: &Path) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_END))).ok()?;
    let mut bytes = Vec::new();
    file.take(LOG_END).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    exit_code::last_error(&text).map(str::to_owned)
}

/// All that is sent of a run, as bytes; it has fewer records than may be under way. Once the journal's first lines are sent `meanwhile` happens,
/// and the run ends.
#[cfg(test)]
pub(crate) fn sent(run: &Path, meanwhile: impl FnOnce()) -> Vec<u8> {
    let outbox = Outbox::new(Vec::new());
    let mut sender = Sender::new(&outbox, run.to_owned());
    sender.send_news().expect("it can be read");
    meanwhile();
    sender.send_rest().expect("it can be read");
    sender.record(Vec::new(), &Record::Ended { code: Some(0), error: None }).expect("there is room");
    outbox.into_stream()
}

/// What is sent of a run whose host is lost: its news now, and those after each of these `events`.
#[cfg(test)]
pub(crate) fn sent_before_it_was_lost(run: &Path, events: &[&dyn Fn()]) -> Vec<u8> {
    let outbox = Outbox::new(Vec::new());
    let mut sender = Sender::new(&outbox, run.to_owned());
    sender.send_news().expect("it can be read");
    for event in events {
        event();
        sender.send_news().expect("it can be read");
    }
    outbox.into_stream()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::outbox::{SlowLine, frame};

    /// Who waited to answer a beat couldn't hear the next ones, and its lease would run out while a slow line takes a record.
    #[test]
    fn beats_are_heard_while_a_slow_line_takes_a_record() {
        let (begun, has_begun) = channel();
        let (let_go, go_on) = channel();
        let outbox = Arc::new(Outbox::new(SlowLine { begun, go_on }));
        let other = outbox.clone();
        let piece = Record::Ended { code: None, error: None };
        let sending = std::thread::spawn(move || other.send(1, Vec::new(), &piece));
        has_begun.recv().unwrap();
        let beat = |at_unix_ns| ToHost::Beat { at_unix_ns };
        let said = [beat(1), ToHost::Stored { record: 1 }, beat(2)];
        let said: Vec<u8> = said.iter().flat_map(|message| frame(Kind::Request, 0, message)).collect();
        listen(&said[..], &outbox, &channel().0);
        assert!(!sending.is_finished(), "it was waited for");
        outbox.wait_stored(1).unwrap();
        let_go.send(()).unwrap();
        sending.join().unwrap().unwrap();
    }
}
