//! Agents on other hosts.
//!
//! Their streams are opened by whoever has the way there, outside of the controller's namespaces ([`Streams`]); an agent opens no port. Where
//! vtax isn't there, this program is copied to a fresh directory, which the remote shell removes when the agent has ended, however that comes
//! about.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use vtax_agent::ssh::{directory_told, receive};
use vtax_agent::streams::{Carrier, Streams};
use vtax_sys::chain;

use crate::agent_program::DIRECTORY;
use crate::attachment::Attachment;
use crate::budget::Enforced;
use crate::error::{LabError, OnPath, Result};
use crate::node::{Host, Node};
use crate::process_io::{output_file, stream, tail};
use crate::spec::NodeSpec;

/// Copying tens of megabytes over a slow line.
const COPY_WITHIN: Duration = Duration::from_secs(300);
/// The most that is read of what a host says of its directory.
const MOST_TOLD: u64 = 4_096;

/// One host, and the way there.
pub(crate) struct RemoteHost<'a> {
    pub(crate) streams: &'a dyn Streams,
    pub(crate) host: &'a str,
}

impl RemoteHost<'_> {
    /// Copies this program there; returns the directory it is in.
    pub(crate) fn copy(&self, program: &Path) -> Result<String, String> {
        let cannot = |why: &str| format!("vtax can't be copied to {}: {why}", self.host);
        let run = || -> Result<String, String> {
            let told = |e: LabError| chain(&e);
            let mut input = File::open(program).on("open", program).map_err(told)?;
            let length = input.metadata().on("look at", program).map_err(told)?.len();
            let errors = output_file("copy").map_err(told)?;
            let (ours, carrier) = self.open(&receive(length), &errors)?;
            let ours = UnixStream::from(ours);
            let sent = send(&ours, &mut input);
            let mut told = String::new();
            let heard = (&ours).take(MOST_TOLD).read_to_string(&mut told);
            // Why it ended early is the better reason.
            match carrier.ended_within(COPY_WITHIN) {
                Some(Ok(())) => sent.and(heard).map(|_| told).map_err(|e| e.to_string()),
                Some(Err(how)) => Err(format!("{how}: {}", tail(&errors))),
                None => Err(format!("no end after {} s", COPY_WITHIN.as_secs())),
            }
        };
        let told = run().map_err(|why| cannot(why.trim_end_matches([':', ' '])))?;
        let wrong = || format!("{} said `{}` instead of a directory", self.host, told.escape_debug());
        directory_told(&told).ok_or_else(wrong)
    }

    /// Starts the agent there. What goes wrong shows when its first answer is waited for.
    pub(crate) fn agent(&self, spec: &NodeSpec, command: &str) -> Result<Node> {
        let output = output_file(&spec.name)?;
        let (channel, carrier) = self
            .open(command, &output)
            .map_err(|reason| LabError::Path { path: self.host.to_owned(), reason })?;
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
    fn open(&self, script: &str, errors: &File) -> Result<(std::os::fd::OwnedFd, Carrier), String> {
        debug_assert!(!script.contains('\''), "{script}");
        let (ours, theirs) = stream().map_err(|e| chain(&e))?;
        let errors = errors.try_clone().map_err(|e| e.to_string())?;
        Ok((ours, self.streams.open(self.host, script, theirs, errors.into())?))
    }
}

/// Sends a file, and says that there is no more.
fn send(stream: &UnixStream, input: &mut File) -> io::Result<()> {
    // One that takes nothing any more, and one that never answers.
    stream.set_write_timeout(Some(COPY_WITHIN))?;
    stream.set_read_timeout(Some(COPY_WITHIN))?;
    io::copy(input, &mut &*stream)?;
    stream.shutdown(Shutdown::Write)
}
