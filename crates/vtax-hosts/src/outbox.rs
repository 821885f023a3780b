//! The host's sending end: frames one at a time, and no more records under way than may be lost.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, TryLockError};
use std::time::{Duration, Instant};

use serde::Serialize;
use vtax_agent::{Frame, Kind};
use vtax_sys::sync::{lock, wait};

use crate::error::HostsError;
use crate::message::{FromHost, Record, WINDOW};

/// What is known of the other end.
#[derive(Debug)]
pub(crate) struct Heard {
    /// When it was heard last.
    pub(crate) last: Instant,
    /// The last record that is stored there.
    pub(crate) stored: u32,
    /// It asked for an end.
    pub(crate) stop: bool,
    /// Its stream has ended.
    pub(crate) closed: bool,
}

/// Sends frames, and knows which records are stored.
#[derive(Debug)]
pub(crate) struct Outbox<W> {
    stream: Mutex<W>,
    /// The last record that was sent, or is being sent.
    sent: AtomicU32,
    heard: Mutex<Heard>,
    changed: Condvar,
}

/// A message as a frame's bytes.
pub(crate) fn frame(kind: Kind, id: u32, message: &impl Serialize) -> Vec<u8> {
    // Strings and numbers: this can't fail.
    Frame { kind, id, payload: serde_json::to_vec(message).unwrap_or_default() }.encode()
}

impl<W: Write> Outbox<W> {
    pub(crate) fn new(stream: W) -> Self {
        let heard = Heard { last: Instant::now(), stored: 0, stop: false, closed: false };
        let sent = AtomicU32::new(0);
        Self { stream: Mutex::new(stream), sent, heard: Mutex::new(heard), changed: Condvar::new() }
    }

    /// Changes what is known of the other end, and wakes who waits for it.
    pub(crate) fn hear(&self, change: impl FnOnce(&mut Heard)) {
        let mut heard = lock(&self.heard);
        heard.last = Instant::now();
        change(&mut heard);
        self.changed.notify_all();
    }

    /// The stream has ended; this is no sign of life.
    pub(crate) fn close(&self) {
        lock(&self.heard).closed = true;
        self.changed.notify_all();
    }

    /// How long nothing was heard, and whether the stream has ended.
    pub(crate) fn silence(&self) -> (Duration, bool) {
        let heard = lock(&self.heard);
        (heard.last.elapsed(), heard.closed)
    }

    pub(crate) fn stop_asked(&self) -> bool {
        lock(&self.heard).stop
    }

    pub(crate) fn tell(&self, event: &FromHost) -> Result<(), HostsError> {
        self.write(&frame(Kind::Event, 0, event))
    }

    /// Tells it unless records are under way: they say as well that this end is there, and who waited until a slow line has taken all
    /// of them couldn't listen meanwhile. What can't be told shows as silence.
    pub(crate) fn tell_if_idle(&self, event: &FromHost) {
        if lock(&self.heard).stored < self.sent.load(Ordering::SeqCst) {
            return;
        }
        let mut stream = match self.stream.try_lock() {
            Ok(stream) => stream,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let _ = put(&mut *stream, &frame(Kind::Event, 0, event));
    }

    /// Sends a record once no more than [`WINDOW`] before it are under way.
    pub(crate) fn send(&self, number: u32, bytes: Vec<u8>, record: &Record) -> Result<(), HostsError> {
        self.wait_stored(number.saturating_sub(WINDOW))?;
        self.sent.store(number, Ordering::SeqCst);
        let mut both = Frame { kind: Kind::Data, id: number, payload: bytes }.encode();
        both.extend(frame(Kind::Reply, number, record));
        self.write(&both)
    }

    /// Waits until this record and all before it are stored. A dead lease ends the process, and with it the wait.
    pub(crate) fn wait_stored(&self, number: u32) -> Result<(), HostsError> {
        let mut heard = lock(&self.heard);
        while heard.stored < number {
            if heard.closed {
                return Err(HostsError::Stream("its other end is gone".to_owned()));
            }
            heard = wait(&self.changed, heard);
        }
        Ok(())
    }

    /// What was written to.
    #[cfg(test)]
    pub(crate) fn into_stream(self) -> W {
        vtax_sys::sync::into_inner(self.stream)
    }

    fn write(&self, bytes: &[u8]) -> Result<(), HostsError> {
        let written = put(&mut *lock(&self.stream), bytes);
        written.map_err(|e| HostsError::Stream(format!("it can't be written to: {e}")))
    }
}

fn put(stream: &mut impl Write, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}

/// A stream that takes nothing before it is told to, as a slow line does.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct SlowLine {
    pub(crate) begun: std::sync::mpsc::Sender<()>,
    pub(crate) go_on: std::sync::mpsc::Receiver<()>,
}

#[cfg(test)]
impl Write for SlowLine {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Whoever waits for either may be gone, and then has failed already.
        let _ = self.begun.send(());
        let _ = self.go_on.recv_timeout(Duration::from_secs(60));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vtax_agent::Decoder;

    use super::*;

    #[test]
    fn records_under_way_speak_for_this_end() {
        let outbox = Outbox::new(Vec::new());
        let (piece, beat) = (Record::Ended { code: None, error: None }, FromHost::Begun { at_unix_ns: 1 });
        outbox.send(1, Vec::new(), &piece).unwrap();
        outbox.tell_if_idle(&beat);
        outbox.hear(|heard| heard.stored = 1);
        outbox.tell_if_idle(&beat);
        let mut decoder = Decoder::default();
        decoder.push(&outbox.into_stream());
        let kinds: Vec<Kind> = std::iter::from_fn(|| decoder.next_frame()).map(|frame| frame.kind).collect();
        assert_eq!(kinds, [Kind::Data, Kind::Reply, Kind::Event]);
    }

    #[test]
    fn a_record_waits_for_room() {
        let outbox = Arc::new(Outbox::new(Vec::new()));
        let piece = Record::Ended { code: Some(0), error: None };
        for number in 1..=WINDOW {
            outbox.send(number, Vec::new(), &piece).unwrap();
        }
        let other = outbox.clone();
        let waiting = std::thread::spawn(move || {
            let piece = Record::Ended { code: Some(0), error: None };
            other.send(WINDOW + 1, Vec::new(), &piece)
        });
        outbox.hear(|heard| heard.stored = 1);
        waiting.join().unwrap().unwrap();
        // Who waits for an end that is gone doesn't wait for ever.
        outbox.close();
        assert!(outbox.wait_stored(WINDOW).is_err());
        assert!(outbox.silence().1);
    }
}
