//! This end of the stream to one host.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vtax_agent::{BEAT, ClockOffset, Decoder, Frame, Kind, LEASE};
use vtax_sys::sync::lock;
use vtax_units::drives_terminal;

use crate::barrier::BarrierSeat;
use crate::error::HostsError;
use crate::exit_code;
use crate::message::{FromHost, HostTask, PROTOCOL, Record, ToHost, unix_ns};
use crate::mirror::Mirror;
use crate::outbox::frame;
use crate::start::Stream;

const PAUSE: Duration = Duration::from_millis(100);

/// Beyond the lease, so long a host may take until it is heard first: a login, a step that is queued.
const START_WITHIN: Duration = Duration::from_secs(45);

/// A host that begins together with others has so many beats before, so that its clock is known well.
const BEATS: u32 = 8;

/// How long a host is waited for.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// So long nothing may be heard of it.
    silence: Duration,
    /// So long after its stream was opened one that begins together with others may take until it has answered its beats.
    arrival: Duration,
}

impl Patience {
    /// What is had with every host. Its beats may take it as long again as it may take until it is heard first.
    const USUAL: Self =
        Self { silence: LEASE, arrival: START_WITHIN.saturating_add(LEASE).saturating_mul(2) };
}

/// How a host's task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It ended by itself, and all of it is stored here.
    Ended {
        /// Its exit code; `None`: a signal ended it.
        code: Option<i32>,
        /// The last error that it told.
        error: Option<String>,
    },
    /// The host, the way to it or the program there is gone.
    Lost(String),
}

/// What [`attend`] has of a host besides what is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attended {
    /// How it ended.
    pub outcome: Outcome,
    /// Its clock by the narrowest beat of those around the time when its task began.
    pub clock: Option<ClockOffset>,
    /// When its task began, by this clock in nanoseconds since 1970.
    pub began_unix_ns: Option<u64>,
}

/// What is known of a host from what it said.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    clock: Option<ClockOffset>,
    /// When its hello came, by this clock.
    greeted: Option<u64>,
    /// Beats that came back of those sent since. Earlier ones have waited for the program to be started.
    beats: u32,
    /// When its task began, by its own clock.
    began: Option<u64>,
}

/// What the beating thread and the reading one share.
struct Shared<'a> {
    input: Mutex<Option<ChildStdin>>,
    carrier: Mutex<&'a mut Child>,
    heard: Mutex<Instant>,
    /// What came is being stored here, so that nothing else is read.
    storing: AtomicBool,
    known: Arc<Mutex<Known>>,
    over: AtomicBool,
    patience: Patience,
    /// When the stream was opened.
    opened: Instant,
    /// It is there as far as the others are concerned, or there are no others that wait for it.
    arrived: AtomicBool,
    /// Why it was given up.
    lost: Mutex<Option<String>>,
    /// It was told to begin.
    started: AtomicBool,
}

impl Shared<'_> {
    /// What can't be sent shows as silence.
    fn send(&self, message: &ToHost) {
        if let Some(input) = lock(&self.input).as_mut() {
            let _ = input.write_all(&frame(Kind::Request, 0, message)).and_then(|()| input.flush());
        }
    }

    /// Has the host begin, now or at a time of its own clock.
    fn start(&self, task: &HostTask, at_unix_ns: Option<u64>) {
        self.started.store(true, Ordering::SeqCst);
        self.send(&ToHost::Start { task: task.clone(), at_unix_ns });
    }

    /// Has a host that begins together with others begin, once they are there; what is left to wait for.
    fn start_with<'p>(&self, task: &HostTask, mut seat: BarrierSeat<'p>) -> Option<BarrierSeat<'p>> {
        let known = *lock(&self.known);
        let clock = known.clock.filter(|_| known.beats >= BEATS);
        if clock.is_some() {
            seat.arrive();
            self.arrived.store(true, Ordering::SeqCst);
        }
        match (clock, seat.at()) {
            (Some(clock), Some(at)) => {
                self.start(task, Some(clock.to_remote(at)));
                None
            }
            _ => Some(seat),
        }
    }

    /// Whether nothing was heard for too long. What a slow disk here takes to store what came is no silence of the host's.
    fn is_silent(&self) -> bool {
        // Before the time, which is new once nothing is stored any more.
        !self.storing.load(Ordering::SeqCst) && lock(&self.heard).elapsed() >= self.patience.silence
    }

    /// Why the host is to be given up; `None` as long as it is waited for.
    fn why_lost(&self) -> Option<String> {
        let Patience { silence, arrival } = self.patience;
        if self.is_silent() {
            return Some(format!("nothing was heard of it for {} s", silence.as_secs()));
        }
        let is_late = !self.arrived.load(Ordering::SeqCst) && self.opened.elapsed() >= arrival;
        is_late.then(|| {
            format!(
                "it didn't answer {BEATS} beats within {} s, and the others begin without it",
                arrival.as_secs()
            )
        })
    }

    /// Speaks to the host until the stream is over, and gives it up where it is no longer waited for. That is looked at apart from who
    /// speaks and who reads: both wait for a host that doesn't read.
    fn keep(&self, task: &HostTask, seat: Option<BarrierSeat<'_>>, stop: &AtomicBool) {
        std::thread::scope(|scope| {
            let speaking = scope.spawn(|| self.beat(task, seat, stop));
            while !speaking.is_finished() {
                if let Some(why) = self.why_lost() {
                    *lock(&self.lost) = Some(why);
                    // The reader then sees the end of the stream, and nothing more can be written to it.
                    let _ = lock(&self.carrier).kill();
                    break;
                }
                std::thread::sleep(PAUSE);
            }
        });
    }

    /// Has the host begin, renews the lease and passes the wish to stop on, until the stream is over.
    fn beat(&self, task: &HostTask, mut seat: Option<BarrierSeat<'_>>, stop: &AtomicBool) {
        if seat.is_none() {
            self.start(task, None);
        }
        let mut beaten: Option<Instant> = None;
        let mut stopping = false;
        while !self.over.load(Ordering::SeqCst) && lock(&self.lost).is_none() {
            let known = *lock(&self.known);
            let learning = seat.is_some() && known.greeted.is_some() && known.beats < BEATS;
            if learning || beaten.is_none_or(|at| at.elapsed() >= BEAT) {
                self.send(&ToHost::Beat { at_unix_ns: unix_ns() });
                beaten = Some(Instant::now());
            }
            if stop.load(Ordering::SeqCst) && !stopping {
                if seat.is_some() {
                    // It has nothing to stop, and ends with its input.
                    drop(lock(&self.input).take());
                } else {
                    self.send(&ToHost::Stop);
                }
                stopping = true;
            }
            if !stopping {
                seat = seat.and_then(|seat| self.start_with(task, seat));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Has a host do a task; what it stores comes into `directory`. `told` hears how it is getting on. With a `seat` it begins together with
/// the others. Once `stop` is set the host is asked to come to an end.
///
/// # Errors
///
/// [`HostsError`] where files can't be written here, or where the host sends what no vtax does.
pub(crate) fn attend(
    stream: Stream,
    task: &HostTask,
    directory: &Path,
    seat: Option<BarrierSeat<'_>>,
    stop: &AtomicBool,
    told: &(dyn Fn(&str) + Sync),
) -> Result<Attended, HostsError> {
    attend_with(Patience::USUAL, stream, task, directory, seat, stop, told)
}

/// As [`attend`], with so much patience.
fn attend_with(
    patience: Patience,
    stream: Stream,
    task: &HostTask,
    directory: &Path,
    seat: Option<BarrierSeat<'_>>,
    stop: &AtomicBool,
    told: &(dyn Fn(&str) + Sync),
) -> Result<Attended, HostsError> {
    let Stream { mut carrier, input, output, said } = stream;
    let mut reader = Reader::new(Mirror::new(directory.to_owned()), told);
    let shared = Shared {
        input: Mutex::new(Some(input)),
        carrier: Mutex::new(&mut carrier),
        // In the future, where no time has passed since.
        heard: Mutex::new(Instant::now() + START_WITHIN),
        storing: AtomicBool::new(false),
        known: Arc::clone(&reader.known),
        over: AtomicBool::new(false),
        patience,
        opened: Instant::now(),
        arrived: AtomicBool::new(seat.is_none()),
        lost: Mutex::new(None),
        started: AtomicBool::new(false),
    };
    let read = std::thread::scope(|scope| {
        scope.spawn(|| shared.keep(task, seat, stop));
        let heard = || *lock(&shared.heard) = Instant::now();
        let stored = |record| shared.send(&ToHost::Stored { record });
        let read = reader.read(output, heard, &shared.storing, stored);
        shared.over.store(true, Ordering::SeqCst);
        read
    });
    let lost = lock(&shared.lost).take();
    let begun = shared.started.load(Ordering::SeqCst);
    // With its input's end the other side ends whatever is left.
    drop(lock(&shared.input).take());
    drop(shared);
    let status = end(&mut carrier);
    read?;
    let Known { clock, began, .. } = *lock(&reader.known);
    let began_unix_ns = began.zip(clock).map(|(began, clock)| clock.to_local(began));
    let outcome = reader.ended.take().unwrap_or_else(|| {
        if !begun && stop.load(Ordering::SeqCst) {
            return Outcome::Ended { code: Some(exit_code::INTERRUPTED.into()), error: None };
        }
        let said = Stream::one_line_of(&said);
        let why = match (lost, reader.version) {
            (Some(why), _) => why,
            (None, None) => format!("vtax didn't start there ({status})"),
            (None, Some(_)) => format!("the way to it ended before its run did ({status})"),
        };
        Outcome::Lost(if said.is_empty() { why } else { format!("{why}: {said}") })
    });
    Ok(Attended { outcome, clock, began_unix_ns })
}

/// Waits a little for the carrier's own end, which comes with the host's, then kills it.
pub(crate) fn end(carrier: &mut Child) -> String {
    for _ in 0..50 {
        if let Ok(Some(status)) = carrier.try_wait() {
            return status.to_string();
        }
        std::thread::sleep(PAUSE);
    }
    // It is reaped in any case.
    let _ = carrier.kill();
    carrier.wait().map_or_else(|e| e.to_string(), |status| status.to_string())
}

/// Takes what a host sends.
struct Reader<'a> {
    mirror: Mirror,
    told: &'a (dyn Fn(&str) + Sync),
    /// Number of the last record that is stored.
    stored: u32,
    /// Bytes whose record comes next.
    bytes: Option<(u32, Vec<u8>)>,
    version: Option<String>,
    known: Arc<Mutex<Known>>,
    ended: Option<Outcome>,
}

impl<'a> Reader<'a> {
    fn new(mirror: Mirror, told: &'a (dyn Fn(&str) + Sync)) -> Self {
        Self { mirror, told, stored: 0, bytes: None, version: None, known: Arc::default(), ended: None }
    }

    /// Reads to the end of the task or of the stream. Says whenever the host was `heard`, while it is `storing` what came, and which
    /// record is `stored`.
    ///
    /// Any bytes are heard, as a slow line takes a while for a whole frame. That isn't so before the first frame: a login may say
    /// something too, and vtax has longer to start there.
    fn read(
        &mut self,
        mut output: impl Read,
        heard: impl Fn(),
        storing: &AtomicBool,
        stored: impl Fn(u32),
    ) -> Result<(), HostsError> {
        let mut decoder = Decoder::default();
        let mut bytes = vec![0; 64 << 10];
        let mut has_spoken = false;
        while self.ended.is_none() {
            match output.read(&mut bytes) {
                Ok(0) => break,
                Ok(n) => decoder.push(&bytes[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            }
            if has_spoken {
                heard();
            }
            while let Some(frame) = decoder.next_frame() {
                has_spoken = true;
                heard();
                storing.store(true, Ordering::SeqCst);
                let taken = self.take(frame);
                heard();
                storing.store(false, Ordering::SeqCst);
                if let Some(record) = taken? {
                    stored(record);
                }
            }
        }
        Ok(())
    }

    /// Takes a frame; the number of the record that is stored with it.
    fn take(&mut self, frame: Frame) -> Result<Option<u32>, HostsError> {
        let Frame { kind, id, payload } = frame;
        match kind {
            Kind::Event => {
                self.event(&payload)?;
                Ok(None)
            }
            Kind::Data => {
                self.bytes = Some((id, payload));
                Ok(None)
            }
            Kind::Reply => {
                let record = serde_json::from_slice(&payload)
                    .map_err(|e| HostsError::Stream(format!("a record that can't be read: {e}")))?;
                let bytes = self.bytes.take().filter(|(of, _)| *of == id).map(|(_, bytes)| bytes);
                let (Some(bytes), true) = (bytes, id == self.stored.saturating_add(1)) else {
                    return Err(HostsError::Stream(format!("record {id} came after record {}", self.stored)));
                };
                self.record(&bytes, record)?;
                self.stored = id;
                Ok(Some(id))
            }
            Kind::Request => Err(HostsError::Stream("a request from a host".to_owned())),
        }
    }

    fn record(&mut self, bytes: &[u8], record: Record) -> Result<(), HostsError> {
        if let Record::Ended { code, error } = record {
            let error = error.map(|text| harmless(&text));
            self.ended = Some(Outcome::Ended { code, error });
            return Ok(());
        }
        self.mirror.take(bytes, &record)
    }

    fn event(&mut self, payload: &[u8]) -> Result<(), HostsError> {
        // What a newer one tells besides is left out.
        let Ok(event) = serde_json::from_slice::<FromHost>(payload) else { return Ok(()) };
        match event {
            FromHost::Hello { protocol, vtax, host } => {
                let (vtax, host) = (harmless(&vtax), harmless(&host));
                if protocol != PROTOCOL {
                    return Err(HostsError::Stream(format!(
                        "{host} has vtax {vtax}, which speaks version {protocol} and not {PROTOCOL}: leave `program` out and \
                         this one is copied"
                    )));
                }
                (self.told)(&format!("begun with vtax {vtax} on {host}"));
                self.version = Some(vtax);
                lock(&self.known).greeted = Some(unix_ns());
            }
            FromHost::Beat { of_unix_ns, at_unix_ns } => {
                let seen = ClockOffset::from_round_trip(of_unix_ns, at_unix_ns, unix_ns());
                let mut known = lock(&self.known);
                // Later ones tell of a clock that has drifted since.
                let settled = known.began.is_some() && known.beats >= BEATS;
                if known.greeted.is_some_and(|at| of_unix_ns >= at) {
                    known.beats = known.beats.saturating_add(1);
                }
                let narrower =
                    |new: &ClockOffset| known.clock.is_none_or(|old| new.uncertainty_ns < old.uncertainty_ns);
                if let Some(clock) = seen.filter(|new| !settled && narrower(new)) {
                    known.clock = Some(clock);
                }
            }
            FromHost::Begun { at_unix_ns } => lock(&self.known).began = Some(at_unix_ns),
            FromHost::Told { text } => (self.told)(&harmless(&text)),
        }
        Ok(())
    }
}

/// A text from a host, which must not drive a terminal.
fn harmless(text: &str) -> String {
    const LONGEST: usize = 500;
    text.chars().map(|c| if drives_terminal(c) { '\u{fffd}' } else { c }).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use proptest::prelude::*;

    use super::*;
    use crate::barrier::StartBarrier;
    use crate::message::PIECE;

    /// Files of a run with one trial, of which a log has so many bytes.
    fn run_with(log: usize) -> Vec<(&'static str, Vec<u8>)> {
        let journal = b"{\"event\":\"opened\"}\n{\"event\":\"trial-ended\",\"index\":0,\"cell\":\"a\"}\n{\"event\":\"completed\"}\n";
        vec![
            ("plan.yaml", b"vtax: 1\n".to_vec()),
            ("provenance.json", b"{}".to_vec()),
            ("trials/000/events.jsonl", Vec::new()),
            ("trials/000/logs/sut: a b.log", vec![b'x'; log]),
            ("journal.jsonl", journal.to_vec()),
            ("trials/000/observation-1/intervals.jsonl", b"{}\n".to_vec()),
            ("trials/000/observation-12/samples.parquet", b"PAR1".to_vec()),
        ]
    }

    fn written(run: &Path, files: &[(&'static str, Vec<u8>)]) {
        for directory in ["logs", "observation-1", "observation-12"] {
            std::fs::create_dir_all(run.join("trials/000").join(directory)).unwrap();
        }
        for (name, bytes) in files {
            std::fs::write(run.join(name), bytes).unwrap();
        }
    }

    fn same(run: &Path, files: &[(&'static str, Vec<u8>)]) -> bool {
        files.iter().all(|(name, bytes)| std::fs::read(run.join(name)).is_ok_and(|found| found == *bytes))
    }

    /// What a reader makes of a stream: whether the run ended for it.
    fn taken(dir: &Path, bytes: &[u8]) -> Result<bool, HostsError> {
        let mut reader = reader(dir);
        let mut decoder = Decoder::default();
        for part in bytes.chunks(10_000) {
            decoder.push(part);
            while let Some(frame) = decoder.next_frame() {
                reader.take(frame)?;
            }
        }
        Ok(reader.ended.is_some())
    }

    #[test]
    fn a_run_arrives_as_it_was_stored() {
        for log in [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE] {
            let dir = tempfile::tempdir().unwrap();
            let (there, files) = (dir.path().join("there"), run_with(log));
            written(&there, &files);
            // A line that isn't whole yet isn't sent.
            let mut journal = files[4].1.clone();
            journal.extend_from_slice(b"{\"event\":\"res");
            std::fs::write(there.join("journal.jsonl"), journal).unwrap();
            assert!(taken(dir.path(), &crate::agent::sent(&there, || ())).unwrap(), "{log}");
            assert!(same(&dir.path().join("run"), &files), "{log}");
        }
    }

    /// A run puts its calibration behind the first line of its journal, and completes its provenance at its end.
    #[test]
    fn what_is_stored_late_arrives() {
        let dir = tempfile::tempdir().unwrap();
        let (there, files) = (dir.path().join("there"), run_with(1));
        written(&there, &files);
        let late = [("calibration.json", b"{\"a\":1}".to_vec()), ("provenance.json", b"{\"b\":2}".to_vec())];
        let bytes = crate::agent::sent(&there, || written(&there, &late));
        assert!(taken(dir.path(), &bytes).unwrap());
        assert!(same(&dir.path().join("run"), &late));
    }

    /// What is found out of services and programs gets into a run's provenance by and by, and a host may be lost at any moment.
    #[test]
    fn a_lost_host_has_the_provenance_of_its_last_news() {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("there");
        written(&there, &run_with(1));
        let go_on = || {
            let mut journal = std::fs::read(there.join("journal.jsonl")).unwrap();
            journal.extend_from_slice(b"{\"event\":\"note\"}\n");
            std::fs::write(there.join("journal.jsonl"), journal).unwrap();
        };
        let known = [("provenance.json", b"{\"services\":{}}".to_vec())];
        let learn = || {
            written(&there, &known);
            go_on();
        };
        let bytes = crate::agent::sent_before_it_was_lost(&there, &[&go_on, &learn, &go_on]);
        assert!(!taken(dir.path(), &bytes).unwrap(), "it never ended");
        assert!(same(&dir.path().join("run"), &known));
        let name = b"provenance.json";
        let sent = bytes.windows(name.len()).filter(|part| *part == name).count();
        assert_eq!(sent, 2, "at the beginning, and once it was another");
    }

    /// Gives a stream's bytes a hundred at a time.
    struct SlowStream<'a>(&'a [u8]);

    impl Read for SlowStream<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(&mut buffer[..100])
        }
    }

    #[test]
    fn a_host_on_a_slow_line_is_heard_while_a_frame_comes() {
        let dir = tempfile::tempdir().unwrap();
        let login = "Welcome. ".repeat(100).into_bytes();
        let hello = FromHost::Hello { protocol: PROTOCOL, vtax: "9".to_owned(), host: "h".to_owned() };
        let log = "x".repeat(PIECE).into_bytes();
        let told = [frame(Kind::Event, 0, &hello), data(1, &log).encode(), reply(1, &line(0)).encode()];
        let told = told.concat();
        let heard = std::cell::Cell::new(0_usize);
        let stored = std::cell::Cell::new(0);
        let count = || heard.set(heard.get() + 1);
        let (mut reader, storing) = (reader(dir.path()), AtomicBool::new(false));
        // A login's words are no sign of vtax, which has longer to start.
        reader.read(SlowStream(&login), count, &storing, |_| ()).unwrap();
        assert_eq!(heard.get(), 0);
        reader.read(SlowStream(&told), count, &storing, |record| stored.set(record)).unwrap();
        assert!(heard.get() > PIECE / 100, "{}", heard.get());
        assert_eq!(stored.get(), 1);
    }

    /// A disk here may take longer than the lease.
    #[test]
    fn a_host_is_not_silent_while_what_it_sent_is_stored() {
        let mut carrier = std::process::Command::new("true").spawn().unwrap();
        let shared = Shared {
            input: Mutex::new(None),
            carrier: Mutex::new(&mut carrier),
            heard: Mutex::new(Instant::now().checked_sub(2 * LEASE).unwrap()),
            storing: AtomicBool::new(false),
            known: Arc::default(),
            over: AtomicBool::new(false),
            patience: Patience::USUAL,
            opened: Instant::now(),
            arrived: AtomicBool::new(true),
            lost: Mutex::new(None),
            started: AtomicBool::new(false),
        };
        assert!(shared.is_silent());
        let dir = tempfile::tempdir().unwrap();
        let told = std::sync::atomic::AtomicU32::new(0);
        // It is told while the frame is taken.
        let tell = |_: &str| {
            assert!(!shared.is_silent());
            told.fetch_add(1, Ordering::SeqCst);
        };
        let mut reader = Reader::new(Mirror::new(dir.path().join("run")), &tell);
        let said = frame(Kind::Event, 0, &FromHost::Told { text: "it goes on".to_owned() });
        reader.read(said.as_slice(), || (), &shared.storing, |_| ()).unwrap();
        assert_eq!(told.load(Ordering::SeqCst), 1);
        assert!(shared.is_silent());
        lock(&shared.carrier).wait().unwrap();
    }

    #[test]
    fn a_clock_is_that_of_the_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let mut reader = reader(dir.path());
        let wide = ClockOffset { offset_ns: 1 << 50, uncertainty_ns: 1 << 60 };
        let take = |reader: &mut Reader<'_>, event: &FromHost| {
            let payload = serde_json::to_vec(event).unwrap();
            reader.take(Frame { kind: Kind::Event, id: 0, payload }).unwrap();
        };
        let beat = |reader: &mut Reader<'_>| {
            take(reader, &FromHost::Beat { of_unix_ns: unix_ns(), at_unix_ns: unix_ns() });
        };
        let known = Known { clock: Some(wide), greeted: Some(0), beats: BEATS, began: None };
        *lock(&reader.known) = known;
        beat(&mut reader);
        assert_ne!(lock(&reader.known).clock, Some(wide), "a narrower one before it began");
        *lock(&reader.known) = known;
        take(&mut reader, &FromHost::Begun { at_unix_ns: unix_ns() });
        beat(&mut reader);
        assert_eq!(lock(&reader.known).clock, Some(wide), "a clock drifts in a run's hours");
        // Without the others it begins before its clock is known well.
        *lock(&reader.known) = Known { beats: BEATS - 1, began: Some(1), ..known };
        beat(&mut reader);
        assert_ne!(lock(&reader.known).clock, Some(wide));
    }

    /// A host that says these bytes, then what the rest of the script says, and reads nothing.
    fn deaf(dir: &Path, says: &[u8], rest: &str) -> Stream {
        let file = dir.join("says");
        std::fs::write(&file, says).unwrap();
        let mut command = std::process::Command::new("sh");
        // The shell alone has its end of the input, so that it is closed once that is killed.
        command.args(["-c", &format!("cat \"$1\" </dev/null; {rest}"), "sh"]).arg(&file);
        let mut carrier = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (carrier.stdin.take().unwrap(), carrier.stdout.take().unwrap());
        Stream { carrier, input, output, said: Arc::default() }
    }

    fn hello(protocol: u32) -> Vec<u8> {
        let hello = FromHost::Hello { protocol, vtax: "9".to_owned(), host: "h".to_owned() };
        frame(Kind::Event, 0, &hello)
    }

    /// Waits little for a host that goes on for longer than any test may take.
    const IMPATIENT: Patience =
        Patience { silence: Duration::from_millis(500), arrival: Patience::USUAL.arrival };
    const GOES_ON: &str = "exec sleep 100";

    /// Its acknowledgements fill the stream, and whoever writes the next one waits.
    #[test]
    fn a_host_that_sends_and_reads_nothing_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let mut says = hello(PROTOCOL);
        // More than a pipe holds the acknowledgements of.
        for id in 1..=5_000_u32 {
            let (path, offset) = ("plan.yaml".to_owned(), u64::from(id) - 1);
            says.extend(data(id, b"x").encode());
            says.extend(reply(id, &Record::Piece { path, offset, sha256: None }).encode());
        }
        let (stream, stop) = (deaf(dir.path(), &says, GOES_ON), AtomicBool::new(false));
        let run = dir.path().join("run");
        let found = attend_with(IMPATIENT, stream, &HostTask::Doctor, &run, None, &stop, &|_| ()).unwrap();
        let Outcome::Lost(why) = &found.outcome else { panic!("{found:?}") };
        assert!(why.contains("nothing was heard"), "{why}");
    }

    #[test]
    fn a_host_that_breaks_the_protocol_and_reads_nothing_holds_up_nobody() {
        let dir = tempfile::tempdir().unwrap();
        // More than a pipe holds.
        let plan = "x".repeat(1 << 20);
        let task = HostTask::Run { plan, overrides: Vec::new(), tags: Vec::new() };
        let (stream, stop) = (deaf(dir.path(), &hello(PROTOCOL + 1), GOES_ON), AtomicBool::new(false));
        let run = dir.path().join("run");
        // Long enough for its first word on a busy machine.
        let patience = Patience { silence: Duration::from_secs(5), ..IMPATIENT };
        let error = attend_with(patience, stream, &task, &run, None, &stop, &|_| ()).unwrap_err();
        assert!(error.to_string().contains("which speaks version"), "{error}");
    }

    #[test]
    fn nobody_waits_for_a_host_that_sends_and_answers_no_beat() {
        let dir = tempfile::tempdir().unwrap();
        let barrier = StartBarrier::new(2);
        let (mut other, seat) = (barrier.seat(), barrier.seat());
        other.arrive();
        let goes_on = "n=0; while [ $n -lt 1000 ]; do n=$((n + 1)); printf x; sleep 0.1 </dev/null; done";
        let (stream, stop) = (deaf(dir.path(), &hello(PROTOCOL), goes_on), AtomicBool::new(false));
        let patience = Patience { arrival: Duration::from_millis(500), ..Patience::USUAL };
        let run = dir.path().join("run");
        let found =
            attend_with(patience, stream, &HostTask::Doctor, &run, Some(seat), &stop, &|_| ()).unwrap();
        let Outcome::Lost(why) = &found.outcome else { panic!("{found:?}") };
        assert!(why.contains("the others begin without it"), "{why}");
        assert!(other.at().is_some());
    }

    proptest! {
        /// Wherever a stream is cut or damaged: a run that is taken for whole is whole.
        #[test]
        fn what_is_whole_here_was_whole_there(at in 0.0..1.0f64, bit in 0u8..8, cut in any::<bool>()) {
            let dir = tempfile::tempdir().unwrap();
            let (there, files) = (dir.path().join("there"), run_with(300));
            written(&there, &files);
            let mut bytes = crate::agent::sent(&there, || ());
            let at = (bytes.len() as f64 * at) as usize;
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] ^= 1 << bit;
            }
            if taken(dir.path(), &bytes).unwrap_or(false) {
                prop_assert!(!cut && same(&dir.path().join("run"), &files));
            }
        }
    }

    fn reader(dir: &Path) -> Reader<'static> {
        Reader::new(Mirror::new(dir.join("run")), &|_| ())
    }

    fn data(id: u32, bytes: &[u8]) -> Frame {
        Frame { kind: Kind::Data, id, payload: bytes.to_vec() }
    }

    fn reply(id: u32, record: &Record) -> Frame {
        Frame { kind: Kind::Reply, id, payload: serde_json::to_vec(record).unwrap() }
    }

    fn line(offset: u64) -> Record {
        Record::Piece { path: "journal.jsonl".to_owned(), offset, sha256: None }
    }

    #[test]
    fn records_are_stored_in_order_and_without_gaps() {
        let dir = tempfile::tempdir().unwrap();
        let mut reader = reader(dir.path());
        assert_eq!(reader.take(data(1, b"a\n")).unwrap(), None);
        assert_eq!(reader.take(reply(1, &line(0))).unwrap(), Some(1));
        // The frame with the second one was damaged on its way, so the third comes next.
        reader.take(data(3, b"c\n")).unwrap();
        let error = reader.take(reply(3, &line(4))).unwrap_err().to_string();
        assert!(error.contains("record 3 came after record 1"), "{error}");
        assert_eq!(std::fs::read(dir.path().join("run/journal.jsonl")).unwrap(), b"a\n");
        assert!(reader.ended.is_none());
    }

    #[test]
    fn a_record_needs_its_own_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let mut one = reader(dir.path());
        assert!(one.take(reply(1, &line(0))).is_err());
        let mut two = reader(dir.path());
        two.take(data(2, b"b\n")).unwrap();
        assert!(two.take(reply(1, &line(0))).is_err());
        let mut end = reader(dir.path());
        end.take(data(1, b"")).unwrap();
        end.take(reply(1, &Record::Ended { code: Some(3), error: Some("no\x1b[2J".to_owned()) })).unwrap();
        assert_eq!(
            end.ended,
            Some(Outcome::Ended { code: Some(3), error: Some("no\u{fffd}[2J".to_owned()) })
        );
    }

    #[test]
    fn another_protocol_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let hello = FromHost::Hello { protocol: PROTOCOL + 1, vtax: "9".to_owned(), host: "h".to_owned() };
        let frame = Frame { kind: Kind::Event, id: 0, payload: serde_json::to_vec(&hello).unwrap() };
        let error = reader(dir.path()).take(frame).unwrap_err().to_string();
        assert!(error.contains("h has vtax 9"), "{error}");
    }
}
