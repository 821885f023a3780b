//! The agent: reads requests, answers each exactly once, and ends with its stream.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use vtax_probe::Snapshot;

use crate::frame::{Decoder, Frame, Kind, MAX_PAYLOAD};
use crate::message::{Event, Reply, Request, samples_to_bytes};
use crate::node::{Node, lock};
use crate::reaper;

/// What the agent is to its node.
#[derive(Debug, Clone)]
pub struct Role {
    /// True where the agent is the first process of a PID namespace or a guest: it reaps orphans,
    /// and the kernel ends everything with it.
    pub init: bool,
    /// An empty directory for the services' private files.
    pub directory: PathBuf,
}

/// Serves requests until the stream ends or `shutdown` is asked for; by then everything that was
/// started has been stopped.
///
/// `read` and `write` may be duplicates of one descriptor. Bytes that are no frame are skipped.
pub fn serve(read: OwnedFd, write: OwnedFd, role: Role) -> io::Result<()> {
    let writer = Writer::new(File::from(write));
    if role.init {
        reaper::start()?;
    }
    let node = Arc::new(Node::new(role, writer.clone()));
    let operator = start_operator(Arc::clone(&node), writer.clone())?;
    let ended = read_requests(File::from(read), &node, &writer, &operator);
    node.stop_everything();
    ended
}

/// One service operation after the other, on a thread that lives as long as the agent: a child
/// that is to die with its parent is bound to the *thread* that started it.
fn start_operator(node: Arc<Node>, writer: Writer) -> io::Result<Sender<(u32, Request)>> {
    let (sender, receiver) = channel::<(u32, Request)>();
    std::thread::Builder::new().name("operator".into()).spawn(move || {
        for (id, request) in receiver {
            writer.reply(id, &node.operate(&request));
        }
    })?;
    Ok(sender)
}

fn read_requests(
    mut stream: File,
    node: &Arc<Node>,
    writer: &Writer,
    operator: &Sender<(u32, Request)>,
) -> io::Result<()> {
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => decoder.push(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        }
        while let Some(frame) = decoder.next_frame() {
            if frame.kind != Kind::Request || writer.is_repeated(frame.id) {
                continue;
            }
            let request = match serde_json::from_slice(&frame.payload) {
                Ok(request) => request,
                Err(e) => {
                    writer.reply(frame.id, &Reply::Failed { error: format!("unreadable request: {e}") });
                    continue;
                }
            };
            if matches!(request, Request::Shutdown) {
                node.stop_everything();
                writer.reply(frame.id, &Reply::Done);
                return Ok(());
            }
            dispatch(frame.id, request, node, writer, operator)?;
        }
    }
}

/// Only a load takes long, so only a load gets a thread of its own; the rest is answered in turn.
fn dispatch(
    id: u32,
    request: Request,
    node: &Arc<Node>,
    writer: &Writer,
    operator: &Sender<(u32, Request)>,
) -> io::Result<()> {
    match request {
        Request::StartService { .. } | Request::StopService => {
            operator.send((id, request)).map_err(|_| io::Error::other("the operator thread is gone"))
        }
        Request::RunLoad { spec } => {
            let (node, writer) = (Arc::clone(node), writer.clone());
            std::thread::Builder::new().name("load".into()).spawn(move || match node.run_load(&spec) {
                Ok((result, answered)) => {
                    for chunk in samples_to_bytes(&result.samples).chunks(MAX_PAYLOAD) {
                        writer.send(Kind::Data, id, chunk.to_vec());
                    }
                    writer.reply(id, &Reply::Load { result: Box::new(result), answered });
                }
                Err(error) => writer.reply(id, &Reply::Failed { error }),
            })?;
            Ok(())
        }
        Request::RunSip { profile } => {
            let (node, writer) = (Arc::clone(node), writer.clone());
            let run = move || writer.large(id, node.run_sip(&profile), &Reply::SipRan);
            std::thread::Builder::new().name("sip".into()).spawn(run).map(drop)
        }
        Request::RunNet { spec } => {
            let (node, writer) = (Arc::clone(node), writer.clone());
            let run = move || writer.large(id, node.run_net(&spec), &Reply::NetRan);
            std::thread::Builder::new().name("net".into()).spawn(run).map(drop)
        }
        request => {
            writer.reply(id, &node.answer(&request));
            Ok(())
        }
    }
}

/// The sending half of the stream, shared by all threads of the agent.
#[derive(Clone)]
pub(crate) struct Writer {
    stream: Arc<Mutex<File>>,
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
    fn new(stream: File) -> Self {
        Self { stream: Arc::new(Mutex::new(stream)), answers: Arc::default() }
    }

    /// A stream that can't be written to is about to end for reading too; nobody is left to tell.
    fn send(&self, kind: Kind, id: u32, payload: Vec<u8>) {
        self.write(&Frame { kind, id, payload }.encode());
    }

    /// Answers with a result that may not fit a reply: it goes before it as data.
    fn large(&self, id: u32, result: Result<Vec<u8>, String>, reply: &Reply) {
        match result {
            Ok(bytes) => {
                for chunk in bytes.chunks(MAX_PAYLOAD) {
                    self.send(Kind::Data, id, chunk.to_vec());
                }
                self.reply(id, reply);
            }
            Err(error) => self.reply(id, &Reply::Failed { error }),
        }
    }

    fn write(&self, bytes: &[u8]) {
        let _ = lock(&self.stream).write_all(bytes);
    }

    /// Whether this request came before; its answer, where there is one, is given again.
    fn is_repeated(&self, id: u32) -> bool {
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

    fn reply(&self, id: u32, reply: &Reply) {
        let payload = serde_json::to_vec(reply).unwrap_or_default();
        if payload.len() <= MAX_PAYLOAD {
            return self.send_answer(id, payload);
        }
        let error = format!("the answer has {} bytes, more than a frame can carry", payload.len());
        self.send_answer(id, serde_json::to_vec(&Reply::Failed { error }).unwrap_or_default());
    }

    pub(crate) fn event(&self, event: &Event) {
        self.send(Kind::Event, 0, serde_json::to_vec(event).unwrap_or_default());
    }
}

/// Snapshots are answered as one reply; a long series is thinned rather than lost.
pub(crate) fn fit(mut snapshots: Vec<Snapshot>) -> Vec<Snapshot> {
    while snapshots.len() > 1
        && serde_json::to_vec(&snapshots).map_or(0, |bytes| bytes.len()) > MAX_PAYLOAD - (64 << 10)
    {
        let mut odd = false;
        snapshots.retain(|_| {
            odd = !odd;
            odd
        });
    }
    snapshots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{NodeFacts, PROTOCOL_VERSION};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_repeated_request_gets_the_same_answer_and_is_not_done_again() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let agent = std::thread::spawn(move || {
            let directory = std::env::temp_dir();
            serve(theirs.try_clone().unwrap().into(), theirs.into(), Role { init: false, directory })
        });
        let (mut writer, mut reader) = (File::from(OwnedFd::from(ours.try_clone().unwrap())), ours);
        let payload = serde_json::to_vec(&Request::Hello { version: PROTOCOL_VERSION }).unwrap();
        let hello = Frame { kind: Kind::Request, id: 7, payload }.encode();
        let mut decoder = Decoder::default();
        let mut next = || loop {
            if let Some(frame) = decoder.next_frame() {
                return frame;
            }
            let mut bytes = [0; 4096];
            let length = reader.read(&mut bytes).unwrap();
            decoder.push(&bytes[..length]);
        };
        // Torn in the middle, as at a failover; the filler ends it.
        writer.write_all(&hello[..hello.len() / 2]).unwrap();
        writer.write_all(&[0; 16 << 10]).unwrap();
        writer.write_all(&hello).unwrap();
        let first = next();
        writer.write_all(&hello).unwrap();
        assert_eq!(next(), first);
        let reply: Reply = serde_json::from_slice(&first.payload).unwrap();
        assert!(matches!(reply, Reply::Hello(NodeFacts { version: PROTOCOL_VERSION, .. })));
        writer
            .write_all(
                &Frame { kind: Kind::Request, id: 8, payload: br#"{"request":"shutdown"}"#.into() }.encode(),
            )
            .unwrap();
        agent.join().unwrap().unwrap();
    }

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
}
