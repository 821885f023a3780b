//! The agent: reads requests, answers each exactly once, and ends with its stream.

use std::any::Any;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
    let heard = || {
        if let Some(lease) = &lease {
            lease.renew();
        }
    };
    let ended = read_requests(File::from(read), heard, &node, &writer, &operator);
    node.stop_everything();
    ended
}

/// One operation on services and topologies after the other, on a thread that lives as long as the agent: a child
/// that is to die with its parent is bound to the *thread* that started it.
fn start_operator(node: Arc<Node>, writer: Writer) -> io::Result<Sender<(u32, Request)>> {
    let (sender, receiver) = channel::<(u32, Request)>();
    std::thread::Builder::new().name("operator".into()).spawn(move || {
        for (id, request) in receiver {
            answering(id, &writer, || writer.reply(id, &node.operate(&request)));
        }
    })?;
    Ok(sender)
}

/// Reads to the stream's end, or until `shutdown` is asked for. Says whenever the controller was `heard`.
///
/// Any bytes are heard, as a slow line takes a while for a whole frame. That isn't so before the first frame, until which nothing shows
/// that they are the controller's.
fn read_requests(
    mut stream: impl Read,
    heard: impl Fn(),
    node: &Arc<Node>,
    writer: &Writer,
    operator: &Sender<(u32, Request)>,
) -> io::Result<()> {
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 64 << 10];
    let mut has_spoken = false;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => decoder.push(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        }
        if has_spoken {
            heard();
        }
        while let Some(frame) = decoder.next_frame() {
            has_spoken = true;
            heard();
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

/// A load is opened for as long as it takes to fill what it needs, files are made durable before they are dropped, and a step of a
/// load, a capture and a command take long, too: they get threads of their own, so that the controller is heard meanwhile. The rest is
/// answered in turn.
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
        Request::OpenLoad { .. } | Request::DropFiles { .. } => {
            apart("long", id, node, writer, move |node, writer| writer.reply(id, &node.answer(&request)))
        }
        Request::RunStep { step, at } => apart("load", id, node, writer, move |node, writer| {
            writer.ran(id, node.run_step(id, &step, at));
        }),
        Request::Capture { node: place, interface, duration } => {
            apart("capture", id, node, writer, move |node, writer| {
                writer.ran(id, node.capture(&place, &interface, duration.into()));
            })
        }
        Request::Execute { node: place, command } => {
            apart("command", id, node, writer, move |node, writer| {
                writer.reply(id, &node.execute(&place, &command));
            })
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

/// Has a request answered on a thread of its own.
fn apart(
    name: &str,
    id: u32,
    node: &Arc<Node>,
    writer: &Writer,
    answer: impl FnOnce(&Node, &Writer) + Send + 'static,
) -> io::Result<()> {
    let (node, writer) = (Arc::clone(node), writer.clone());
    let run = move || answering(id, &writer, || answer(&node, &writer));
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

/// Answers a request, also where that panics: its caller would wait until its time is over.
fn answering(id: u32, writer: &Writer, answer: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(answer)) {
        let error = format!("the thread that was to answer panicked: {}", text_of(&*panic));
        writer.reply(id, &Reply::Failed { error });
    }
}

/// What a thread said that panicked.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
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

    /// Gives a stream's bytes a hundred at a time.
    struct SlowStream<'a>(&'a [u8]);

    impl Read for SlowStream<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut buffer[..100])
        }
    }

    #[test]
    fn a_controller_on_a_slow_line_is_heard_while_a_frame_comes() {
        let nobody = File::options().write(true).open("/dev/null").unwrap();
        let (writer, directory) = (Writer::new(nobody), std::env::temp_dir());
        let node = Arc::new(Node::new(Role { init: false, directory }, writer.clone()));
        let operator = start_operator(Arc::clone(&node), writer.clone()).unwrap();
        let heard = Cell::new(0);
        let count = || heard.set(heard.get() + 1);
        // These are no controller's.
        read_requests(SlowStream(&[b' '; 1000]), count, &node, &writer, &operator).unwrap();
        assert_eq!(heard.get(), 0);
        let frame = |id, payload| Frame { kind: Kind::Request, id, payload }.encode();
        let mut bytes = frame(1, serde_json::to_vec(&Request::Clock).unwrap());
        bytes.extend_from_slice(&frame(2, vec![b'x'; 100_000])[..50_000]);
        read_requests(SlowStream(&bytes), count, &node, &writer, &operator).unwrap();
        assert!(heard.get() > 400, "{} times, and the second frame isn't whole", heard.get());
    }

    #[test]
    fn a_request_whose_thread_panics_is_answered() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let (writer, directory) = (Writer::new(File::from(OwnedFd::from(theirs))), std::env::temp_dir());
        let node = Arc::new(Node::new(Role { init: false, directory }, writer.clone()));
        let whose = "its own".to_owned();
        apart("test", 7, &node, &writer, move |_, _| panic!("a bug of {whose}")).unwrap();
        let mut decoder = Decoder::default();
        let frame = loop {
            if let Some(frame) = decoder.next_frame() {
                break frame;
            }
            let mut bytes = [0; 4096];
            let length = ours.read(&mut bytes).unwrap();
            decoder.push(&bytes[..length]);
        };
        let Ok(Reply::Failed { error }) = serde_json::from_slice(&frame.payload) else { panic!("{frame:?}") };
        assert_eq!((frame.kind, frame.id), (Kind::Reply, 7));
        assert!(error.ends_with("panicked: a bug of its own"), "{error}");
    }
}
