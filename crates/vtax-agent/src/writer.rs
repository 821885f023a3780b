//! The sending half of the agent's stream, and which requests were answered lately.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex};

use vtax_sys::sync::lock;

use crate::frame::{Frame, Kind, MAX_PAYLOAD};
use crate::message::{Event, Reply};

/// Bytes of a frame of data. Others wait until it is written, and a slow line takes a while for it: the thread that hears the
/// controller is among them.
const CHUNK: usize = 256 << 10;

/// The sending half of the stream, shared by all threads of the agent.
#[derive(Clone)]
pub(crate) struct Writer {
    stream: Arc<Mutex<File>>,
    /// Who has this has the stream next.
    next: Arc<Mutex<()>>,
    answers: Arc<Mutex<Answers>>,
}

/// Requests that came lately and their answers. After the failover of a protected guest, its controller
/// repeats what it has no answer to, not knowing whether the request or the answer was lost.
#[derive(Debug, Default)]
struct Answers {
    /// Ids of requests, oldest first.
    begun: VecDeque<u32>,
    /// Frames that were the answers, oldest first.
    given: VecDeque<(u32, Vec<u8>)>,
}

impl Answers {
    /// Requests remembered; a controller has a handful open at a time.
    const MOST_BEGUN: usize = 64;
    /// Bytes of answers kept; the last is kept whatever its size.
    const MOST_BYTES: usize = 1 << 20;

    /// Whether the request is new; it is known from now on.
    fn begin(&mut self, id: u32) -> bool {
        if self.begun.contains(&id) {
            return false;
        }
        if self.begun.len() == Self::MOST_BEGUN {
            self.begun.pop_front();
        }
        self.begun.push_back(id);
        true
    }

    fn keep(&mut self, id: u32, frame: Vec<u8>) {
        self.given.push_back((id, frame));
        while self.given.len() > 1
            && self.given.iter().map(|(_, f)| f.len()).sum::<usize>() > Self::MOST_BYTES
        {
            self.given.pop_front();
        }
    }

    fn given_to(&self, id: u32) -> Option<&[u8]> {
        self.given.iter().find(|(of, _)| *of == id).map(|(_, frame)| frame.as_slice())
    }
}

impl Writer {
    pub(crate) fn new(stream: File) -> Self {
        Self { stream: Arc::new(Mutex::new(stream)), next: Arc::default(), answers: Arc::default() }
    }

    /// A stream that can't be written to is about to end for reading too, so the failure is not reported.
    fn send(&self, kind: Kind, id: u32, payload: Vec<u8>) {
        self.write(&Frame { kind, id, payload }.encode());
    }

    /// Answers with the result of a step, which may not fit a reply: it goes before it as data.
    pub(crate) fn ran(&self, id: u32, result: Result<Vec<u8>, String>) {
        match result {
            Ok(bytes) => {
                for chunk in bytes.chunks(CHUNK) {
                    self.send(Kind::Data, id, chunk.to_vec());
                }
                self.reply(id, &Reply::Ran);
            }
            Err(error) => self.reply(id, &Reply::Failed { error }),
        }
    }

    /// Writes a frame. A thread that writes many in a row lets one that waits have its turn between two of them.
    fn write(&self, bytes: &[u8]) {
        let next = lock(&self.next);
        let mut stream = lock(&self.stream);
        drop(next);
        let _ = stream.write_all(bytes);
    }

    /// Whether this request came before; its answer, where there is one, is given again.
    pub(crate) fn is_repeated(&self, id: u32) -> bool {
        let mut answers = lock(&self.answers);
        if answers.begin(id) {
            return false;
        }
        let again = answers.given_to(id).map(<[u8]>::to_vec);
        drop(answers);
        if let Some(frame) = again {
            self.write(&frame);
        }
        true
    }

    fn send_answer(&self, id: u32, payload: Vec<u8>) {
        let frame = Frame { kind: Kind::Reply, id, payload }.encode();
        self.write(&frame);
        lock(&self.answers).keep(id, frame);
    }

    pub(crate) fn reply(&self, id: u32, reply: &Reply) {
        let payload = serde_json::to_vec(reply).unwrap_or_default();
        if payload.len() <= MAX_PAYLOAD {
            return self.send_answer(id, payload);
        }
        let error = format!("the answer has {} bytes, more than a frame can carry", payload.len());
        self.send_answer(id, serde_json::to_vec(&Reply::Failed { error }).unwrap_or_default());
    }

    /// Sends an event about the node as a whole.
    pub(crate) fn event(&self, event: &Event) {
        self.event_of(0, event);
    }

    /// Sends an event about the request with this id.
    pub(crate) fn event_of(&self, id: u32, event: &Event) {
        self.send(Kind::Event, id, serde_json::to_vec(event).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;
    use crate::frame::Decoder;

    #[test]
    fn only_late_answers_are_kept() {
        let mut answers = Answers::default();
        assert!((0..100).all(|id| answers.begin(id)));
        assert!(!answers.begin(99) && answers.begin(0), "the oldest are forgotten");
        answers.keep(1, vec![1; 600 << 10]);
        answers.keep(2, vec![2; 600 << 10]);
        assert!(answers.given_to(1).is_none() && answers.given_to(2).is_some());
        answers.keep(3, vec![3; 8 << 20]);
        assert!(answers.given_to(3).is_some());
    }

    #[test]
    fn data_comes_in_frames_that_are_soon_written() {
        let file = tempfile::tempfile().unwrap();
        let writer = Writer::new(file.try_clone().unwrap());
        let sent: Vec<u8> = (0..=255).cycle().take(2 * CHUNK + 1).collect();
        writer.ran(7, Ok(sent.clone()));
        let mut bytes = Vec::new();
        (&file).rewind().unwrap();
        (&file).read_to_end(&mut bytes).unwrap();
        let mut decoder = Decoder::default();
        decoder.push(&bytes);
        let frames: Vec<Frame> = std::iter::from_fn(|| decoder.next_frame()).collect();
        let (reply, data) = frames.split_last().unwrap();
        assert_eq!((data.len(), reply.kind), (3, Kind::Reply));
        assert!(data.iter().all(|frame| frame.kind == Kind::Data && frame.id == 7));
        assert!(data.iter().flat_map(|frame| &frame.payload).eq(&sent));
    }
}
