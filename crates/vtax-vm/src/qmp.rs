//! A client of the QEMU Machine Protocol (QEMU, `docs/interop/qmp-spec`): commands from any thread, events to a
//! handler at once.
//!
//! One JSON object per line: a greeting, answers with the command's id, and events at any time. Lines are bounded in
//! size and answers in time; what isn't a JSON object is skipped.
//!
//! A QEMU of a protected pair reports several hundred events a second (each checkpoint stops and resumes the guest),
//! and a failover must not wait for a thread that is busy with another command.

use std::collections::HashMap;
use std::fmt::Debug;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde_json::{Value, json};
use vtax_sys::sync::lock;
use vtax_sys::watchers;
use vtax_units::Nanos;

use crate::error::{Result, VmError};

/// A line longer than this ends the connection: QEMU's longest answers are some 100 KiB.
const LONGEST_LINE: usize = 4 << 20;
/// How late events may be heard where that does no harm and nobody asks for them.
const NAP: Duration = Duration::from_secs(1);
/// Most pieces that are taken at once from a QEMU that reports all the time.
const MOST_PIECES: usize = 4;
/// Time for the greeting and for a command to be sent.
const GREETING: Duration = Duration::from_secs(10);

/// An event that QEMU reported.
#[derive(Debug, Clone, PartialEq)]
pub struct QmpEvent {
    /// Its name, such as `COLO_EXIT`.
    pub name: String,
    /// Its data; `Null` where it has none.
    pub data: Value,
    /// When it happened, by QEMU's clock: time since 1970.
    pub when: Nanos,
    /// When it arrived here.
    pub arrived: Instant,
}

/// Called with each event on the connection's own thread: must be quick. `None`: QEMU is gone.
pub type EventHandler = Box<dyn Fn(Option<QmpEvent>) + Send>;

type Answer = std::result::Result<Value, String>;

#[derive(Debug, Default)]
struct Pending {
    /// Why the connection ended, once it has.
    gone: Option<&'static str>,
    next_id: u64,
    calls: HashMap<u64, Sender<Answer>>,
}

/// What callers and the connection's thread share.
#[derive(Debug)]
struct Shared {
    /// For requests.
    stream: Mutex<Requests>,
    pending: Mutex<Pending>,
    /// Written where a call was added, or events are wanted at once again, while they may wait.
    asked: OwnedFd,
    /// Events may wait.
    patient: AtomicBool,
}

/// Where requests go. What is sent is run in this order.
#[derive(Debug)]
struct Requests {
    stream: UnixStream,
    /// A guest that starts to run is stopped, and who is told.
    holder: Option<Arc<dyn Holder>>,
    /// Orders to stop it that have no answer yet.
    stopping: u32,
}

/// Who holds a guest that must not run. Called on the connection's own thread: must be quick.
pub trait Holder: Debug + Send + Sync {
    /// It has started to run, and is being stopped.
    fn runs(&self);
    /// It stands still.
    fn stands_still(&self);
}

/// The number of the order to stop a guest that is held. Calls have small ones.
const STOP_ID: u64 = u64::MAX;

impl Shared {
    fn new(stream: UnixStream) -> std::io::Result<Self> {
        let asked = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let stream = Mutex::new(Requests { stream, holder: None, stopping: 0 });
        Ok(Self { stream, pending: Mutex::default(), asked, patient: AtomicBool::new(false) })
    }

    /// Stops a guest that has started to run, where it is to be held.
    fn stop_if_held(&self) {
        let mut requests = lock(&self.stream);
        let Some(holder) = requests.holder.clone() else { return };
        requests.stopping += 1;
        let order = format!("{{\"execute\": \"stop\", \"id\": {STOP_ID}}}\n");
        // Fails only where QEMU is gone, which the connection's thread finds out.
        let _ = requests.stream.write_all(order.as_bytes());
        drop(requests);
        holder.runs();
    }

    /// QEMU has carried out an order to stop the guest.
    fn stopped(&self) {
        let mut requests = lock(&self.stream);
        requests.stopping = requests.stopping.saturating_sub(1);
        let holder = requests.holder.clone().filter(|_| requests.stopping == 0);
        drop(requests);
        if let Some(holder) = holder {
            holder.stands_still();
        }
    }

    fn wake(&self) {
        // Fails only where it is written already.
        let _ = rustix::io::write(&self.asked, &1_u64.to_ne_bytes());
    }
}

/// A connection to one QEMU.
#[derive(Debug)]
pub struct Qmp {
    shared: Arc<Shared>,
    intake: Arc<Mutex<Intake>>,
}

impl Qmp {
    /// Waits for QEMU's greeting on `stream` and enters command mode. `handler` is called with each event.
    ///
    /// # Errors
    ///
    /// [`VmError::Qmp`] where there is no greeting in time or QEMU refuses.
    pub fn connect(stream: UnixStream, handler: EventHandler) -> Result<Self> {
        // Of the socket, and so of the reader's copies as well; those only read.
        stream.set_write_timeout(Some(GREETING)).map_err(|e| broken("greeting", e.to_string()))?;
        let copy = || stream.try_clone().map_err(|e| broken("greeting", e.to_string()));
        let shared = Shared::new(copy()?).map_err(VmError::io("create", "eventfd"))?;
        let shared = Arc::new(shared);
        // The greeting counts as the answer to number 0.
        let (greeted, greeting) = channel();
        lock(&shared.pending).calls.insert(0, greeted);
        lock(&shared.pending).next_id = 1;
        let intake = Arc::new(Mutex::new(Intake::new(copy()?, Arc::clone(&shared), handler)));
        let reader = Reader { stream, shared: Arc::clone(&shared), intake: Arc::clone(&intake) };
        watchers::spawn("qmp", move || reader.run()).map_err(VmError::io("start", "thread"))?;
        let qmp = Self { shared, intake };
        match greeting.recv_timeout(GREETING) {
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => return Err(broken("greeting", "none within 10 s")),
            Err(RecvTimeoutError::Disconnected) => return Err(broken("greeting", qmp.end())),
        }
        qmp.execute("qmp_capabilities", Value::Null, GREETING)?;
        Ok(qmp)
    }

    /// Whether events may wait until they are [heard](Self::hear), for a second at most. To be woken by each takes much
    /// CPU time where there are many. Answers, and the end of QEMU, come at once all the same.
    pub fn set_patient(&self, patient: bool) {
        if self.shared.patient.swap(patient, Ordering::Relaxed) && !patient {
            self.shared.wake();
        }
    }

    /// Takes the events that wait, on the caller's thread, for one that is awake anyway. Where the connection's own
    /// thread is about to take them, they are left to it.
    pub fn hear(&self) {
        if !self.shared.patient.load(Ordering::Relaxed) {
            return;
        }
        let Ok(mut intake) = self.intake.try_lock() else { return };
        // What is wrong with the stream, its own thread finds out.
        let _ = (0..MOST_PIECES).find(|_| intake.take_piece(RecvFlags::DONTWAIT) != Ok(true));
    }

    /// Has a guest that starts to run stopped at once, by the connection's own thread, and `holder` told: none of its events may
    /// [wait](Self::set_patient) then. `None`: from now on nothing stops it, and commands find the guest as it was left.
    pub fn set_holder(&self, holder: Option<Arc<dyn Holder>>) {
        lock(&self.shared.stream).holder = holder;
    }

    /// A way to send QEMU commands whose answers nobody waits for.
    pub fn orders(&self) -> Orders {
        Orders(Arc::clone(&self.shared))
    }

    /// Runs one command and returns what it returns.
    ///
    /// # Errors
    ///
    /// [`VmError::Qmp`] with QEMU's own words, or that it didn't answer within `patience`.
    pub fn execute(&self, command: &str, arguments: Value, patience: Duration) -> Result<Value> {
        self.send(command, arguments, None, patience)
    }

    /// Hands QEMU a descriptor under a name, which later commands refer to. A descriptor that had the
    /// name is closed.
    ///
    /// # Errors
    ///
    /// As [`execute`](Self::execute).
    pub fn pass(&self, name: &str, descriptor: &OwnedFd, patience: Duration) -> Result<()> {
        self.send("getfd", json!({ "fdname": name }), Some(descriptor), patience).map(drop)
    }

    fn send(
        &self,
        command: &str,
        arguments: Value,
        fd: Option<&OwnedFd>,
        patience: Duration,
    ) -> Result<Value> {
        let (sender, answer) = channel();
        let id = {
            let mut pending = lock(&self.shared.pending);
            if let Some(reason) = pending.gone {
                return Err(broken(command, reason));
            }
            let id = pending.next_id;
            pending.next_id += 1;
            pending.calls.insert(id, sender);
            id
        };
        if self.shared.patient.load(Ordering::Relaxed) {
            self.shared.wake();
        }
        let mut request = json!({ "execute": command, "id": id });
        if !arguments.is_null() {
            request["arguments"] = arguments;
        }
        let line = format!("{request}\n");
        let sent = {
            let mut requests = lock(&self.shared.stream);
            match fd {
                None => requests.stream.write_all(line.as_bytes()),
                Some(fd) => send_with(&requests.stream, line.as_bytes(), fd),
            }
        };
        if let Err(e) = sent {
            lock(&self.shared.pending).calls.remove(&id);
            return Err(broken(command, format!("not sent: {e}")));
        }
        match answer.recv_timeout(patience) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(refused)) => Err(broken(command, refused)),
            Err(RecvTimeoutError::Disconnected) => Err(broken(command, self.end())),
            Err(RecvTimeoutError::Timeout) => {
                lock(&self.shared.pending).calls.remove(&id);
                Err(broken(command, format!("no answer within {} s", patience.as_secs_f64())))
            }
        }
    }

    /// Why the connection ended.
    fn end(&self) -> &'static str {
        lock(&self.shared.pending).gone.unwrap_or(CLOSED)
    }
}

/// Sends one QEMU commands and waits for no answer. It keeps working for as long as the connection does.
#[derive(Debug, Clone)]
pub struct Orders(Arc<Shared>);

impl Orders {
    /// Sends one command. That QEMU is gone, or refuses, is not told.
    pub fn give(&self, command: &str, arguments: &Value) {
        let line = format!("{}\n", json!({ "execute": command, "arguments": arguments }));
        let _ = lock(&self.0.stream).stream.write_all(line.as_bytes());
    }
}

impl Drop for Qmp {
    fn drop(&mut self) {
        // The reader thread holds a copy of the stream, so closing this one would not end it.
        let _ = lock(&self.shared.stream).stream.shutdown(std::net::Shutdown::Both);
    }
}

const CLOSED: &str = "QEMU closed the connection";
const TOO_LONG: &str = "an answer of more than 4 MiB";

fn broken(command: &str, reason: impl Into<String>) -> VmError {
    VmError::Qmp { command: command.to_owned(), reason: reason.into() }
}

/// One write with a descriptor beside it (`unix(7)`, SCM_RIGHTS).
fn send_with(stream: &UnixStream, line: &[u8], fd: &OwnedFd) -> std::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let sent = rustix::net::sendmsg(stream, &[IoSlice::new(line)], &mut control, SendFlags::NOSIGNAL)?;
    // The rest of a line that didn't fit goes without the descriptor.
    let mut rest = stream;
    rest.write_all(&line[sent..])
}

/// What comes from QEMU, and who is told of it.
struct Intake {
    stream: UnixStream,
    shared: Arc<Shared>,
    handler: EventHandler,
    /// The last piece that was read.
    piece: Box<[u8]>,
    /// The beginning of a line.
    received: Vec<u8>,
    /// No line ends before this; a long one is not searched again with each of its parts.
    searched: usize,
}

impl Debug for Intake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Intake").field("received", &self.received.len()).finish_non_exhaustive()
    }
}

/// The thread of a connection.
struct Reader {
    stream: UnixStream,
    shared: Arc<Shared>,
    intake: Arc<Mutex<Intake>>,
}

impl Reader {
    fn run(self) {
        let reason = loop {
            self.nap();
            // Who would take what waits doesn't wait for this lock.
            if let Err(reason) = lock(&self.intake).take_piece(RecvFlags::empty()) {
                break reason;
            }
        };
        {
            let mut pending = lock(&self.shared.pending);
            pending.gone = Some(reason);
            // Dropping the senders wakes the callers that wait.
            pending.calls.clear();
        }
        (lock(&self.intake).handler)(None);
    }

    /// Lets events gather, where that is allowed and no call waits for its answer.
    fn nap(&self) {
        let patient = self.shared.patient.load(Ordering::Relaxed);
        if !patient || !lock(&self.shared.pending).calls.is_empty() {
            return;
        }
        // Only the end of the stream is waited for, not what comes on it.
        let asked = &self.shared.asked;
        let mut woken_by = [PollFd::new(&self.stream, PollFlags::RDHUP), PollFd::new(asked, PollFlags::IN)];
        let timeout = Timespec::try_from(NAP).unwrap_or_default();
        // An early end does no harm.
        let _ = poll(&mut woken_by, Some(&timeout));
        let _ = rustix::io::read(asked, &mut [0; 8]);
    }
}

impl Intake {
    fn new(stream: UnixStream, shared: Arc<Shared>, handler: EventHandler) -> Self {
        let piece = vec![0; 16 << 10].into_boxed_slice();
        Self { stream, shared, handler, piece, received: Vec::new(), searched: 0 }
    }

    /// Takes what has come, and each line that ends with it; whether there was anything. The reason for the
    /// connection's end where it has ended.
    fn take_piece(&mut self, flags: RecvFlags) -> std::result::Result<bool, &'static str> {
        let length = match rustix::net::recv(&self.stream, &mut *self.piece, flags) {
            Ok((0, _)) => return Err(CLOSED),
            Ok((length, _)) => length,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(false),
            Err(_) => return Err(CLOSED),
        };
        self.received.extend_from_slice(&self.piece[..length]);
        let mut start = 0;
        while let Some(length) = self.received[self.searched..].iter().position(|&b| b == b'\n') {
            let end = self.searched + length;
            self.take(&self.received[start..end]);
            start = end + 1;
            self.searched = start;
        }
        self.received.drain(..start);
        self.searched = self.received.len();
        if self.received.len() > LONGEST_LINE { Err(TOO_LONG) } else { Ok(true) }
    }

    /// A line that is no JSON object, or answers no call that waits, is dropped.
    fn take(&self, line: &[u8]) {
        if let Some(event) = bare_event(line) {
            return self.report(event);
        }
        let Ok(mut message @ Value::Object(_)) = serde_json::from_slice::<Value>(line) else { return };
        if let Some(name) = message.get("event").and_then(Value::as_str) {
            let name = name.to_owned();
            let when = timestamp(&message);
            let data = message.get_mut("data").map(Value::take).unwrap_or_default();
            return self.report(QmpEvent { name, data, when, arrived: Instant::now() });
        }
        let id = match message.get("QMP") {
            Some(_) => Some(0),
            None => message.get("id").and_then(Value::as_u64),
        };
        if id == Some(STOP_ID) {
            return self.shared.stopped();
        }
        let Some(call) = id.and_then(|id| lock(&self.shared.pending).calls.remove(&id)) else { return };
        let answer = match message.get("error") {
            Some(error) => {
                let text = error.get("desc").and_then(Value::as_str);
                Err(text.unwrap_or("refused without a description").to_owned())
            }
            None => Ok(message.get_mut("return").map(Value::take).unwrap_or_default()),
        };
        // The caller may have stopped waiting; the answer is of no use then.
        let _ = call.send(answer);
    }

    fn report(&self, event: QmpEvent) {
        if event.name == "RESUME" {
            self.shared.stop_if_held();
        }
        (self.handler)(Some(event));
    }
}

/// An event without data in the words QEMU uses for it. There are hundreds of them a second (each checkpoint
/// stops and resumes two guests), too many to be made a tree of values; anything else is read as JSON.
fn bare_event(line: &[u8]) -> Option<QmpEvent> {
    let text = std::str::from_utf8(line).ok()?.trim_end();
    let (seconds, rest) = text.strip_prefix("{\"timestamp\": {\"seconds\": ")?.split_once(", ")?;
    let (microseconds, rest) = rest.strip_prefix("\"microseconds\": ")?.split_once("}, ")?;
    let name = rest.strip_prefix("\"event\": \"")?.strip_suffix("\"}")?;
    let plain = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    let when = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    let when = Nanos(when.checked_add(microseconds.parse::<u64>().ok()?.checked_mul(1000)?)?);
    plain.then(|| QmpEvent { name: name.to_owned(), data: Value::Null, when, arrived: Instant::now() })
}

fn timestamp(message: &Value) -> Nanos {
    let part = |key| message.get("timestamp").and_then(|t| t.get(key)).and_then(Value::as_u64).unwrap_or(0);
    Nanos(
        part("seconds")
            .saturating_mul(1_000_000_000)
            .saturating_add(part("microseconds").saturating_mul(1000)),
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::sync::mpsc;

    const PATIENCE: Duration = Duration::from_secs(5);

    /// A QEMU that answers each request with the next of `answers` (`ID` is replaced).
    fn fake(answers: Vec<&'static str>) -> (Qmp, mpsc::Receiver<Option<QmpEvent>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut writer = theirs.try_clone().unwrap();
            writer.write_all(b"garbage\n{\"QMP\": {}}\r\n").unwrap();
            let mut lines = BufReader::new(theirs).lines();
            for answer in [r#"{"return": {}, "id": ID}"#].into_iter().chain(answers) {
                let Some(Ok(request)) = lines.next() else { return };
                let id = serde_json::from_str::<Value>(&request).unwrap()["id"].to_string();
                writer.write_all(format!("{}\n", answer.replace("ID", &id)).as_bytes()).unwrap();
            }
        });
        let (sender, events) = channel();
        let handler = Box::new(move |event| drop(sender.send(event)));
        (Qmp::connect(ours, handler).unwrap(), events)
    }

    /// A connection, QEMU's end of it, and its events.
    pub(crate) fn connected() -> (Qmp, UnixStream, mpsc::Receiver<Option<QmpEvent>>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (sender, events) = channel();
        let handler = Box::new(move |event| drop(sender.send(event)));
        let connecting = std::thread::spawn(move || Qmp::connect(ours, handler).unwrap());
        theirs.write_all(b"{\"QMP\": {}}\n").unwrap();
        BufReader::new(&theirs).read_line(&mut String::new()).unwrap();
        theirs.write_all(b"{\"return\": {}, \"id\": 1}\n").unwrap();
        (connecting.join().unwrap(), theirs, events)
    }

    #[test]
    fn answers_go_to_who_asked_and_events_to_the_handler() {
        let event = r#"{"event": "STOP", "timestamp": {"seconds": 2, "microseconds": 5}}"#;
        let first = format!("{event}\n{{\"return\": 7, \"id\": 99}}\n{{\"return\": [1], \"id\": ID}}");
        let refusal = r#"{"error": {"desc": "no such device"}, "id": ID}"#;
        let (qmp, events) = fake(vec![Box::leak(first.into_boxed_str()), refusal]);
        assert_eq!(qmp.execute("query-x", Value::Null, PATIENCE).unwrap(), json!([1]));
        let error = qmp.execute("device_del", Value::Null, PATIENCE).unwrap_err().to_string();
        assert_eq!(error, "QMP device_del: no such device");
        let stop = events.recv_timeout(PATIENCE).unwrap().unwrap();
        assert_eq!((stop.name.as_str(), stop.when), ("STOP", Nanos(2_000_005_000)));
        assert_eq!(events.recv_timeout(PATIENCE).unwrap(), None, "the end is told once");
        let error = qmp.execute("query-x", Value::Null, PATIENCE).unwrap_err().to_string();
        assert!(error.contains("closed"), "{error}");
    }

    #[test]
    fn requests_are_numbered_and_garbage_is_skipped() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let qemu = std::thread::spawn(move || {
            let mut writer = theirs.try_clone().unwrap();
            writer.write_all("\u{0}garbage\n[1,2]\n\n{\"QMP\": {\"version\": {}}}\n".as_bytes()).unwrap();
            let mut lines = BufReader::new(theirs).lines().map_while(|line| line.ok());
            let first = lines.next();
            writer.write_all(b"{\"return\": {}, \"id\": 1}\n").unwrap();
            let second = lines.next();
            writer.write_all(b"not json\n{\"return\": 8}\n{\"return\": 9, \"id\": 2}\n").unwrap();
            [first.unwrap(), second.unwrap()]
        });
        let qmp = Qmp::connect(ours, Box::new(|_| {})).unwrap();
        assert_eq!(qmp.execute("query-x", json!({"k": "v"}), PATIENCE).unwrap(), json!(9));
        let requests = qemu.join().unwrap();
        assert_eq!(requests[0], r#"{"execute":"qmp_capabilities","id":1}"#);
        assert_eq!(requests[1], r#"{"arguments":{"k":"v"},"execute":"query-x","id":2}"#);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let writer = std::thread::spawn(move || while theirs.write_all(&[b'x'; 65536]).is_ok() {});
        let error = Qmp::connect(ours, Box::new(|_| {})).unwrap_err().to_string();
        assert_eq!(error, "QMP greeting: an answer of more than 4 MiB");
        writer.join().unwrap();
    }

    #[test]
    fn a_patient_listener_is_answered_at_once() {
        let (qmp, events) = fake(vec![r#"{"return": 1, "id": ID}"#; 20]);
        qmp.set_patient(true);
        let times = (0..20).map(|_| {
            let asked = Instant::now();
            assert_eq!(qmp.execute("x", Value::Null, PATIENCE).unwrap(), json!(1));
            asked.elapsed()
        });
        // Each would take a nap if the reader went on with its own; a busy machine may delay some, not all.
        let fastest = times.min().unwrap();
        assert!(fastest < NAP / 2, "{fastest:?}");
        // Its end comes through as well.
        assert!(qmp.execute("x", Value::Null, PATIENCE).is_err());
        assert_eq!(events.recv_timeout(PATIENCE).unwrap(), None);
    }

    #[test]
    fn events_that_wait_are_heard_when_asked_for() {
        let (qmp, mut theirs, events) = connected();
        let mut report = || {
            let event = r#"{"event": "STOP", "timestamp": {"seconds": 2, "microseconds": 5}}"#;
            theirs.write_all(format!("{event}\n").as_bytes()).unwrap();
        };
        qmp.set_patient(true);
        // The thread waited for this one.
        report();
        assert!(events.recv_timeout(PATIENCE).unwrap().is_some());
        let times = (0..10).map(|_| {
            let reported = Instant::now();
            report();
            while events.try_recv().is_err() {
                assert!(reported.elapsed() < PATIENCE, "it is never heard");
                qmp.hear();
                std::thread::sleep(Duration::from_millis(1));
            }
            reported.elapsed()
        });
        // Each would come with the thread's next look otherwise; a busy machine may delay some, not all.
        let fastest = times.min().unwrap();
        assert!(fastest < NAP / 2, "{fastest:?}");
        drop(theirs);
        qmp.hear();
        assert_eq!(events.recv_timeout(PATIENCE).unwrap(), None, "the end is the thread's to tell");
    }

    #[derive(Debug)]
    struct Told(mpsc::SyncSender<&'static str>);

    impl Holder for Told {
        fn runs(&self) {
            self.0.send("runs").unwrap();
        }

        fn stands_still(&self) {
            self.0.send("stands still").unwrap();
        }
    }

    #[test]
    fn a_guest_that_is_held_is_stopped_whenever_it_starts_to_run() {
        let (qmp, theirs, events) = connected();
        let mut lines = BufReader::new(theirs.try_clone().unwrap()).lines().map(Result::unwrap);
        let say = |line: &str| (&theirs).write_all(format!("{line}\n").as_bytes()).unwrap();
        let resumed = [
            r#"{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "RESUME"}"#,
            r#"{"event": "RESUME", "timestamp": {"seconds": 1, "microseconds": 2}}"#,
        ];
        let told = |line: &str| {
            say(line);
            assert!(events.recv_timeout(PATIENCE).unwrap().is_some());
        };
        let (sender, holder) = mpsc::sync_channel(9);
        let order = r#"{"execute": "stop", "id": 18446744073709551615}"#;
        let answer = r#"{"return": {}, "id": 18446744073709551615}"#;
        told(resumed[0]);
        qmp.set_holder(Some(Arc::new(Told(sender))));
        told(r#"{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "STOP"}"#);
        for line in resumed {
            told(line);
            assert_eq!(lines.next().unwrap(), order);
            say(answer);
            assert_eq!(holder.recv_timeout(PATIENCE), Ok("runs"));
            assert_eq!(holder.recv_timeout(PATIENCE), Ok("stands still"));
        }
        // One that runs again before it is stopped stands still with the last answer only.
        told(resumed[0]);
        told(resumed[0]);
        say(answer);
        told(r#"{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "STOP"}"#);
        assert_eq!([holder.try_recv(), holder.try_recv()], [Ok("runs"), Ok("runs")]);
        assert!(holder.try_recv().is_err());
        say(answer);
        assert_eq!(holder.recv_timeout(PATIENCE), Ok("stands still"));
        assert_eq!([lines.next().unwrap(), lines.next().unwrap()], [order; 2]);
        qmp.set_holder(None);
        told(resumed[0]);
        // The next things that are said to QEMU are these.
        qmp.orders().give("cont", &json!({}));
        let asking = std::thread::spawn(move || qmp.execute("query-status", Value::Null, PATIENCE));
        assert_eq!(lines.next().unwrap(), r#"{"arguments":{},"execute":"cont"}"#);
        assert_eq!(lines.next().unwrap(), r#"{"execute":"query-status","id":2}"#);
        say(r#"{"return": {}, "id": 2}"#);
        asking.join().unwrap().unwrap();
        assert!(holder.try_recv().is_err());
    }

    #[test]
    fn bare_events_are_what_json_says_or_nothing() {
        let line = br#"{"timestamp": {"seconds": 1, "microseconds": 250000}, "event": "RESUME"}"#;
        let event = bare_event(line).unwrap();
        assert_eq!((event.name.as_str(), event.when), ("RESUME", Nanos(1_250_000_000)));
        let others: [&[u8]; 5] = [
            br#"{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "X", "data": {"a": "B"}}"#,
            br#"{"timestamp": {"seconds": 99999999999999999999, "microseconds": 2}, "event": "X"}"#,
            br#"{"timestamp": {"seconds": 18446744073709551615, "microseconds": 2}, "event": "X"}"#,
            br#"{"return": {}, "id": 1}"#,
            b"\xff",
        ];
        for line in others {
            assert_eq!(bare_event(line), None, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn silence_is_an_error_within_its_time() {
        let (qmp, _events) = fake(vec!["", ""]);
        let started = Instant::now();
        let error = qmp.execute("x", Value::Null, Duration::from_millis(50)).unwrap_err().to_string();
        assert!(error.contains("no answer within 0.05 s") || error.contains("closed"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_descriptor_travels_beside_its_command() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (one, _other) = UnixStream::pair().unwrap();
        send_with(&ours, b"line\n", &one.into()).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 16];
        let mut into = [std::io::IoSliceMut::new(&mut bytes)];
        rustix::net::recvmsg(&theirs, &mut into, &mut control, rustix::net::RecvFlags::empty()).unwrap();
        let count = control.drain().count();
        assert_eq!((&bytes[..5], count), (&b"line\n"[..], 1));
    }
}
