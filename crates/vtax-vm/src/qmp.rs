//! A client of the QEMU Machine Protocol (QEMU, `docs/interop/qmp-spec`).
//!
//! One JSON object per line: a greeting, answers with the command's id, and events at any time.
//! Reads are bounded in time and size; what isn't a JSON object is skipped.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::error::{Result, VmError};

/// A line longer than this is an error: QEMU's longest answers are some 100 KiB.
const LONGEST_LINE: usize = 4 << 20;
/// Events kept until they are asked for; the oldest are dropped first.
const MOST_EVENTS: usize = 1024;
/// Time for the greeting and for a command to be sent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Something QEMU said unasked.
#[derive(Debug, Clone, PartialEq)]
pub struct QmpEvent {
    /// Its name, such as `SHUTDOWN`.
    pub name: String,
    /// Its data; `Null` where it has none.
    pub data: Value,
}

/// A connection to one QEMU.
#[derive(Debug)]
pub struct Qmp {
    stream: UnixStream,
    received: Vec<u8>,
    events: VecDeque<QmpEvent>,
    next_id: u64,
}

impl Qmp {
    /// Waits for QEMU's greeting on `stream` and enters command mode.
    ///
    /// # Errors
    ///
    /// [`VmError::Qmp`] where there is no greeting in time or QEMU refuses.
    pub fn connect(stream: UnixStream) -> Result<Self> {
        let mut qmp = Self { stream, received: Vec::new(), events: VecDeque::new(), next_id: 1 };
        qmp.stream
            .set_write_timeout(Some(PATIENCE))
            .map_err(|e| broken("greeting", format!("can't limit the time of writes: {e}")))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match qmp.message("greeting", deadline)? {
                Some(message) if message.get("QMP").is_some() => break,
                Some(_) => {}
                None => return Err(broken("greeting", "none within 10 s")),
            }
        }
        qmp.execute("qmp_capabilities", Value::Null, PATIENCE)?;
        Ok(qmp)
    }

    /// Runs one command and returns what it returns; events that come first are kept.
    ///
    /// # Errors
    ///
    /// [`VmError::Qmp`] with QEMU's own words, or that it didn't answer within `patience`.
    pub fn execute(&mut self, command: &str, arguments: Value, patience: Duration) -> Result<Value> {
        let id = self.next_id;
        self.next_id += 1;
        let mut request = json!({ "execute": command, "id": id });
        if !arguments.is_null() {
            request["arguments"] = arguments;
        }
        let line = format!("{request}\n");
        self.stream.write_all(line.as_bytes()).map_err(|e| broken(command, format!("not sent: {e}")))?;
        let deadline = Instant::now() + patience;
        loop {
            let Some(mut message) = self.message(command, deadline)? else {
                return Err(broken(command, format!("no answer within {} s", patience.as_secs_f64())));
            };
            // An answer to an earlier command that was given up is of no use any more.
            if message.get("id").and_then(Value::as_u64) != Some(id) {
                continue;
            }
            if let Some(error) = message.get("error") {
                let text = error.get("desc").and_then(Value::as_str);
                return Err(broken(command, text.unwrap_or("refused without a description")));
            }
            return Ok(message.get_mut("return").map(Value::take).unwrap_or_default());
        }
    }

    /// The next event, if one comes within `patience`.
    ///
    /// # Errors
    ///
    /// [`VmError::Qmp`] where the connection is gone.
    pub fn next_event(&mut self, patience: Duration) -> Result<Option<QmpEvent>> {
        let deadline = Instant::now() + patience;
        while self.events.is_empty() {
            if self.message("event", deadline)?.is_none() {
                return Ok(None);
            }
        }
        Ok(self.events.pop_front())
    }

    /// The next message. An event is also put aside, whatever the caller waits for.
    /// `None` once the deadline has passed.
    fn message(&mut self, command: &str, deadline: Instant) -> Result<Option<Value>> {
        loop {
            let Some(line) = self.line(command, deadline)? else { return Ok(None) };
            let Ok(message @ Value::Object(_)) = serde_json::from_slice::<Value>(&line) else { continue };
            if let Some(name) = message.get("event").and_then(Value::as_str) {
                if self.events.len() == MOST_EVENTS {
                    self.events.pop_front();
                }
                let data = message.get("data").cloned().unwrap_or_default();
                self.events.push_back(QmpEvent { name: name.to_owned(), data });
            }
            return Ok(Some(message));
        }
    }

    fn line(&mut self, command: &str, deadline: Instant) -> Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.received[searched..].iter().position(|&b| b == b'\n') {
                return Ok(Some(self.received.drain(..=searched + end).collect()));
            }
            searched = self.received.len();
            if searched > LONGEST_LINE {
                self.received.clear();
                return Err(broken(command, format!("an answer of more than {LONGEST_LINE} bytes")));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let mut chunk = [0; 4096];
            let read = self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut chunk));
            match read {
                Ok(0) => return Err(broken(command, "QEMU closed the connection")),
                Ok(n) => self.received.extend_from_slice(&chunk[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(e) => return Err(broken(command, e.to_string())),
            }
        }
    }
}

fn broken(command: &str, reason: impl Into<String>) -> VmError {
    VmError::Qmp { command: command.to_owned(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::thread::{self, JoinHandle};

    const GREETING: &str = r#"{"QMP": {"version": {}, "capabilities": []}}"#;

    /// A QEMU that answers each request with the next of `answers` (`ID` is replaced).
    fn fake(greeting: &'static [u8], answers: Vec<&'static str>) -> (Result<Qmp>, JoinHandle<Vec<String>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let qemu = thread::spawn(move || {
            let mut writer = theirs.try_clone().unwrap();
            writer.write_all(greeting).unwrap();
            let mut requests = Vec::new();
            let mut lines = BufReader::new(theirs).lines();
            for answer in [r#"{"return": {}, "id": ID}"#].into_iter().chain(answers) {
                let Some(Ok(request)) = lines.next() else { break };
                let id = serde_json::from_str::<Value>(&request).unwrap()["id"].to_string();
                requests.push(request);
                writer.write_all(format!("{}\n", answer.replace("ID", &id)).as_bytes()).unwrap();
            }
            requests
        });
        (Qmp::connect(ours), qemu)
    }

    fn greeted() -> &'static [u8] {
        Box::leak(format!("{GREETING}\r\n").into_bytes().into_boxed_slice())
    }

    #[test]
    fn a_command_gets_its_answer_and_events_wait() {
        let answer = "{\"event\": \"STOP\"}\n{\"return\": [1], \"id\": ID}\n{\"event\": \"RESUME\", \"data\": {\"a\": 1}}";
        let (qmp, qemu) = fake(greeted(), vec![answer]);
        let mut qmp = qmp.unwrap();
        let result = qmp.execute("query-x", json!({"k": "v"}), PATIENCE).unwrap();
        assert_eq!(result, json!([1]));
        let names: Vec<_> =
            (0..2).map(|_| qmp.next_event(PATIENCE).unwrap().map(|e| (e.name, e.data)).unwrap()).collect();
        assert_eq!(names, [("STOP".into(), Value::Null), ("RESUME".into(), json!({"a": 1}))]);
        let requests = qemu.join().unwrap();
        assert_eq!(requests[0], r#"{"execute":"qmp_capabilities","id":1}"#);
        assert_eq!(requests[1], r#"{"arguments":{"k":"v"},"execute":"query-x","id":2}"#);
    }

    #[test]
    fn garbage_and_answers_to_others_are_skipped() {
        let greeting = "\u{0}garbage\n[1,2]\n\n";
        let greeting: &'static [u8] =
            Box::leak(format!("{greeting}{GREETING}\n").into_bytes().into_boxed_slice());
        let answer = "not json\n{\"return\": 7, \"id\": 999}\n{\"return\": 8}\n{\"return\": 9, \"id\": ID}";
        let (qmp, _qemu) = fake(greeting, vec![answer]);
        assert_eq!(qmp.unwrap().execute("x", Value::Null, PATIENCE).unwrap(), json!(9));
    }

    #[test]
    fn a_refusal_comes_in_qemus_words() {
        let answer = r#"{"error": {"class": "GenericError", "desc": "no such device"}, "id": ID}"#;
        let (qmp, _qemu) = fake(greeted(), vec![answer]);
        let error = qmp.unwrap().execute("device_del", Value::Null, PATIENCE).unwrap_err();
        assert_eq!(error.to_string(), "QMP device_del: no such device");
    }

    #[test]
    fn silence_and_the_end_are_errors_within_their_time() {
        let (qmp, qemu) = fake(greeted(), vec![""]);
        let mut qmp = qmp.unwrap();
        let started = Instant::now();
        let error = qmp.execute("x", Value::Null, Duration::from_millis(50)).unwrap_err().to_string();
        assert!(error.contains("no answer within 0.05 s") || error.contains("closed"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(5));
        qemu.join().unwrap();
        let error = qmp.next_event(PATIENCE).unwrap_err().to_string();
        assert_eq!(error, "QMP event: QEMU closed the connection");
    }

    #[test]
    fn an_endless_line_is_refused() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let writer = thread::spawn(move || while theirs.write_all(&[b'x'; 65536]).is_ok() {});
        let error = Qmp::connect(ours).unwrap_err().to_string();
        assert!(error.contains("more than 4194304 bytes"), "{error}");
        writer.join().unwrap();
    }
}
