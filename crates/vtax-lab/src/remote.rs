//! Agents on other hosts.
//!
//! Their streams are opened by whoever has the way there, outside of the controller's namespaces ([`Streams`]); an agent opens no port. It
//! has a fresh directory, which the remote shell removes when the agent has ended, however that comes about; where vtax isn't there, this
//! program is sent there first.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use vtax_agent::ssh::{self, hand_over};
use vtax_agent::streams::{Carrier, Streams};
use vtax_agent::{BEAT, Frame, Kind};
use vtax_sys::chain;
use vtax_units::printable;

use crate::agent_program::DIRECTORY;
use crate::attachment::Attachment;
use crate::budget::Enforced;
use crate::error::{LabError, OnPath, Result};
use crate::node::{Host, Node};
use crate::process_io::{output_file, stream, tail};
use crate::spec::NodeSpec;

/// Sending tens of megabytes over a slow line, and how long a host may be silent meanwhile.
const SENT_WITHIN: Duration = Duration::from_secs(300);

/// One host, and the way there.
pub(crate) struct RemoteHost<'a> {
    pub(crate) streams: &'a dyn Streams,
    pub(crate) host: &'a str,
}

/// The vtax of a remote agent.
pub(crate) enum RemoteProgram<'a> {
    /// One that is there.
    There(&'a str),
    /// This file is sent there.
    Sent(&'a Path),
}

impl RemoteHost<'_> {
    /// Starts the agent there, `$d` in its arguments being a directory of its own. What goes wrong afterwards shows when its first answer is
    /// waited for.
    pub(crate) fn agent(
        &self,
        spec: &NodeSpec,
        program: &RemoteProgram<'_>,
        arguments: &str,
    ) -> Result<Node> {
        let output = output_file(&spec.name)?;
        let (program, mut file) = match program {
            RemoteProgram::There(path) => (ssh::Program::There(path), None),
            RemoteProgram::Sent(path) => {
                let file = File::open(path).on("open", path)?;
                (ssh::Program::Sent(file.metadata().on("look at", path)?.len()), Some(file))
            }
        };
        let wrong = |reason| LabError::Host { host: self.host.to_owned(), reason };
        let (channel, carrier) = self.open(&ssh::script(program, arguments), &output).map_err(wrong)?;
        if let Err(why) = handed_over(&channel, file.as_mut()) {
            // Why it ended early is the better reason.
            let why = match carrier.ended_within(Duration::from_secs(5)) {
                // The other host's words, which end up in texts for terminals.
                Some(Err(how)) => format!("{how}: {}", printable(&tail(&output))),
                _ => why.to_string(),
            };
            return Err(wrong(why.trim_end_matches([':', ' ']).to_owned()));
        }
        let beating = Beating::start(&channel).map_err(|e| wrong(chain(&e)))?;
        Ok(Node {
            attachment: Attachment { name: spec.name.clone(), netns: None, interfaces: None },
            enforced: Enforced::default(),
            host: Some(Host::Remote(carrier, Some(beating))),
            channel: Some(channel),
            group: None,
            output: Some(output),
            directory: DIRECTORY.into(),
            facts: BTreeMap::new(),
            on_host: None,
            disk: None,
        })
    }

    /// This end of a stream whose other end is a script's.
    fn open(&self, script: &str, errors: &File) -> Result<(OwnedFd, Carrier), String> {
        debug_assert!(!script.contains('\''), "{script}");
        let (ours, theirs) = stream().map_err(|e| chain(&e))?;
        let errors = errors.try_clone().map_err(|e| e.to_string())?;
        Ok((ours, self.streams.open(self.host, script, theirs, errors.into())?))
    }
}

/// Says to an agent that this end is there, from its start until somebody speaks to it. Meanwhile other hosts are reached, which may
/// take longer than its lease.
#[derive(Debug)]
pub(crate) struct Beating {
    over: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Beating {
    fn start(stream: &OwnedFd) -> io::Result<Self> {
        let mut stream = UnixStream::from(stream.try_clone()?);
        // An agent is told no events, so it hears this and does nothing.
        let beat = Frame { kind: Kind::Event, id: 0, payload: Vec::new() }.encode();
        let (over, is_over) = channel();
        let work = move || {
            while is_over.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                if stream.write_all(&beat).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("beat".into()).spawn(work)?;
        Ok(Self { over, thread: Some(thread) })
    }
}

impl Drop for Beating {
    /// Afterwards no frame is half written, and nobody has the stream open.
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.over.send(());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Sends the program, if it isn't there, and waits for it. A host that takes nothing any more, or never answers, is given up.
fn handed_over(channel: &OwnedFd, program: Option<&mut File>) -> io::Result<()> {
    let stream = UnixStream::from(channel.try_clone()?);
    let within = |time| stream.set_write_timeout(time).and_then(|()| stream.set_read_timeout(time));
    within(Some(SENT_WITHIN))?;
    hand_over(program, &stream, &stream)?;
    // The timeouts are the socket's, which the agent's stream is from now on.
    within(None)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::IpAddr;
    use std::process::{Command, Stdio};

    use vtax_agent::{Decoder, streams};

    use super::*;

    /// Hosts whose shell is this machine's.
    #[derive(Debug)]
    struct Here;

    impl Streams for Here {
        fn hosts(&self) -> &[streams::Host] {
            &[]
        }

        fn address(&self, name: &str) -> Result<IpAddr, String> {
            Err(format!("`{name}` isn't looked up here"))
        }

        fn open(&self, _: &str, script: &str, stream: OwnedFd, errors: OwnedFd) -> Result<Carrier, String> {
            let copy = stream.try_clone().map_err(|e| e.to_string())?;
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::from(stream)).stdout(Stdio::from(copy));
            let mut child = command.stderr(Stdio::from(errors)).spawn().map_err(|e| e.to_string())?;
            let (ours, theirs) = UnixStream::pair().map_err(|e| e.to_string())?;
            std::thread::spawn(move || (child.wait(), theirs));
            Ok(Carrier::new(ours))
        }
    }

    /// The other hosts of a path may take longer than an agent's lease.
    #[test]
    fn an_agent_hears_of_this_end_until_somebody_speaks_to_it() {
        let host = RemoteHost { streams: &Here, host: "any" };
        // What it is told it says again.
        let mut node = host.agent(&NodeSpec::new("test"), &RemoteProgram::There("cat"), "").unwrap();
        let mut read = UnixStream::from(node.channel.as_ref().unwrap().try_clone().unwrap());
        let (mut decoder, mut bytes) = (Decoder::default(), [0; 256]);
        let frame = loop {
            let length = read.read(&mut bytes).unwrap();
            assert!(length > 0, "{}", node.output());
            decoder.push(&bytes[..length]);
            if let Some(frame) = decoder.next_frame() {
                break frame;
            }
        };
        assert_eq!((frame.kind, frame.payload.len()), (Kind::Event, 0));
        assert!(matches!(&node.host, Some(Host::Remote(_, Some(_)))));
        assert!(node.take_channel().is_some());
        assert!(matches!(&node.host, Some(Host::Remote(_, None))), "who speaks to it is heard");
    }
}
