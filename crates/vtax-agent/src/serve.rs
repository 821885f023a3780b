//! The agent: reads requests, answers each exactly once, and ends with its stream.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use crate::frame::{Decoder, Kind};
use crate::lease::Lease;
use crate::message::{Reply, Request};
use crate::node::Node;
use crate::reaper;
use crate::services::Role;
use crate::topologies::Topologies;
use crate::writer::Writer;

/// Serves requests until the stream ends or `shutdown` is asked for; by then everything that was
/// started has been stopped.
///
/// `read` and `write` may be duplicates of one descriptor. Bytes that are no frame are skipped.
///
/// # Errors
/// The stream can't be read from, or the kernel refuses a thread.
pub fn serve(read: OwnedFd, write: OwnedFd, role: Role) -> io::Result<()> {
    serve_while(read, write, role, None)
}

/// As [`serve`], on another host: where nothing is heard for [`LEASE`](crate::LEASE), everything is stopped and the process ended.
///
/// # Errors
/// As [`serve`].
pub fn serve_with_lease(read: OwnedFd, write: OwnedFd, role: Role) -> io::Result<()> {
    serve_while(read, write, role, Some(Lease::new()))
}

fn serve_while(read: OwnedFd, write: OwnedFd, role: Role, lease: Option<Lease>) -> io::Result<()> {
    let writer = Writer::new(File::from(write));
    if role.init {
        reaper::start()?;
    }
    let node = Arc::new(Node::new(role, writer.clone()));
    let operator = start_operator(Arc::clone(&node), writer.clone())?;
    if let Some(lease) = &lease {
        lease.watch(Arc::clone(&node))?;
    }
    let ended = read_requests((File::from(read), lease.as_ref()), &node, &writer, &operator);
    node.stop_everything();
    ended
}

/// One operation on services and topologies after the other, on a thread that lives as long as the agent: a child
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
    (mut stream, lease): (File, Option<&Lease>),
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
            if let Some(lease) = lease {
                lease.renew();
            }
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

/// A load is opened for as long as it takes to fill what it needs, and a step of it, a capture and a command take long, too: they
/// get threads of their own, so that the controller is heard meanwhile. The rest is answered in turn.
fn dispatch(
    id: u32,
    request: Request,
    node: &Arc<Node>,
    writer: &Writer,
    operator: &Sender<(u32, Request)>,
) -> io::Result<()> {
    match request {
        Request::StartService { .. } | Request::StopService { .. } => {
            operator.send((id, request)).map_err(|_| io::Error::other("the operator thread is gone"))
        }
        Request::OpenLoad { .. } => {
            let (node, writer) = (Arc::clone(node), writer.clone());
            let open = move || writer.reply(id, &node.answer(&request));
            std::thread::Builder::new().name("opening".into()).spawn(open).map(drop)
        }
        Request::RunStep { step, at } => {
            let (node, writer) = (Arc::clone(node), writer.clone());
            let run = move || writer.ran(id, node.run_step(id, &step, at));
            std::thread::Builder::new().name("load".into()).spawn(run).map(drop)
        }
        Request::Capture { node: place, interface, duration } => {
            let (node, writer) = (Arc::clone(node), writer.clone());
            let run = move || writer.ran(id, node.capture(&place, &interface, duration.into()));
            std::thread::Builder::new().name("capture".into()).spawn(run).map(drop)
        }
        Request::Execute { node: place, command } => {
            let (node, writer) = (Arc::clone(node), writer.clone());
            let run = move || writer.reply(id, &node.execute(&place, &command));
            std::thread::Builder::new().name("command".into()).spawn(run).map(drop)
        }
        request if Topologies::is_meant(&request) => {
            operator.send((id, request)).map_err(|_| io::Error::other("the operator thread is gone"))
        }
        request => {
            writer.reply(id, &node.answer(&request));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::frame::Frame;
    use crate::message::{NodeFacts, PROTOCOL_VERSION};

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
}
