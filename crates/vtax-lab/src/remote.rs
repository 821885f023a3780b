//! Agents on other hosts.
//!
//! Their streams are opened by whoever has the way there, outside of the controller's namespaces ([`Streams`]); an agent opens no port. It
//! has a fresh directory, which the remote shell removes when the agent has ended, however that comes about; where vtax isn't there, this
//! program is sent there first.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use vtax_agent::ssh::{self, hand_over};
use vtax_agent::streams::{Carrier, Streams};
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
        Ok(Node {
            attachment: Attachment { name: spec.name.clone(), netns: None, interfaces: None },
            enforced: Enforced::default(),
            host: Some(Host::Remote(carrier)),
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

/// Sends the program, if it isn't there, and waits for it. A host that takes nothing any more, or never answers, is given up.
fn handed_over(channel: &OwnedFd, program: Option<&mut File>) -> io::Result<()> {
    let stream = UnixStream::from(channel.try_clone()?);
    let within = |time| stream.set_write_timeout(time).and_then(|()| stream.set_read_timeout(time));
    within(Some(SENT_WITHIN))?;
    hand_over(program, &stream, &stream)?;
    // The timeouts are the socket's, which the agent's stream is from now on.
    within(None)
}
