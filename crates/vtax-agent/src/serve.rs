//! The agent: reads requests, answers each exactly once, and ends with its stream.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use vtax_probe::Snapshot;

use crate::frame::{Decoder, Frame, Kind, MAX_PAYLOAD};
use crate::message::{Event, Reply, Request, samples_to_bytes};
use crate::node::Node;
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
    let writer = Writer(Arc::new(Mutex::new(File::from(write))));
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
            if frame.kind != Kind::Request {
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
            std::thread::Builder::new().name("sip".into()).spawn(move || match node.run_sip(&profile) {
                Ok(result) => {
                    for chunk in result.chunks(MAX_PAYLOAD) {
                        writer.send(Kind::Data, id, chunk.to_vec());
                    }
                    writer.reply(id, &Reply::SipRan);
                }
                Err(error) => writer.reply(id, &Reply::Failed { error }),
            })?;
            Ok(())
        }
        request => {
            writer.reply(id, &node.answer(&request));
            Ok(())
        }
    }
}

/// The sending half of the stream, shared by all threads of the agent.
#[derive(Clone)]
pub(crate) struct Writer(Arc<Mutex<File>>);

impl Writer {
    /// A stream that can't be written to is about to end for reading too; nobody is left to tell.
    fn send(&self, kind: Kind, id: u32, payload: Vec<u8>) {
        let bytes = Frame { kind, id, payload }.encode();
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&bytes);
    }

    fn reply(&self, id: u32, reply: &Reply) {
        let payload = serde_json::to_vec(reply).unwrap_or_default();
        if payload.len() <= MAX_PAYLOAD {
            return self.send(Kind::Reply, id, payload);
        }
        let error = format!("the answer has {} bytes, more than a frame can carry", payload.len());
        self.send(Kind::Reply, id, serde_json::to_vec(&Reply::Failed { error }).unwrap_or_default());
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
