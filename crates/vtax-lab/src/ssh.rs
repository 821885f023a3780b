//! Agents on remote hosts, reached by ssh.
//!
//! The agent's stream is ssh's; the agent opens no port. Where vtax isn't there, this program is copied to a
//! fresh directory, which the remote shell removes when the agent has ended, however that comes about.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use vtax_agent::ssh::{OPTIONS, directory_told, receive};
use vtax_sys::spawn::Spawn;
use vtax_sys::{NetNs, chain};

use crate::agent_program::DIRECTORY;
use crate::attachment::Attachment;
use crate::budget::Enforced;
use crate::error::{OnPath, Result, While};
use crate::node::{Host, Node};
use crate::process_io::{output_file, stream};
use crate::program::Program;
use crate::spec::NodeSpec;

pub(crate) const SSH: Program = Program { name: "ssh", package: "openssh-client" };
/// Copying tens of megabytes over a slow line.
const COPY_WITHIN: Duration = Duration::from_secs(300);
/// What of the environment ssh needs beside the usual: keys held by an agent, and whose they are.
const PASSED_ON: [&str; 4] = ["HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK"];

/// ssh to one host.
pub(crate) struct Ssh<'a> {
    /// The start of its command line, its name included.
    pub(crate) words: &'a [String],
    pub(crate) host: &'a str,
    /// The network it is started in.
    pub(crate) network: &'a NetNs,
}

impl Ssh<'_> {
    /// ssh with a script for the host, which has no single quotes.
    fn spawn(&self, command: &str) -> Result<Spawn> {
        debug_assert!(!command.contains('\''), "{command}");
        let own = self.words.iter().skip(1).map(String::as_str);
        // Whatever shell the user has there, it starts a plain one.
        let command = format!("exec sh -c '{command}'");
        let words = own.chain(OPTIONS).chain(["--", self.host, &command]);
        let spawn = SSH.command(words)?;
        let spawn = PASSED_ON.iter().fold(spawn, |spawn, name| match std::env::var_os(name) {
            Some(value) => spawn.env(name, value),
            None => spawn,
        });
        let network = self.network.try_clone().during(|| "hold the host's network".to_owned())?;
        Ok(spawn.join_net(network.into()))
    }

    /// Copies this program there; returns the directory it is in.
    pub(crate) fn copy(&self, program: &Path) -> Result<String, String> {
        let run = || -> Result<String> {
            let input = File::open(program).on("open", program)?;
            let length = input.metadata().on("look at", program)?.len();
            let told = SSH.run_with(self.spawn(&receive(length))?, input.into(), COPY_WITHIN)?;
            Ok(told.trim().to_owned())
        };
        let told = run().map_err(|e| format!("vtax can't be copied to {}: {}", self.host, chain(&e)))?;
        let wrong = || format!("{} said `{}` instead of a directory", self.host, told.escape_debug());
        directory_told(&told).ok_or_else(wrong)
    }

    /// Starts the agent there. What goes wrong shows when its first answer is waited for.
    pub(crate) fn agent(&self, spec: &NodeSpec, command: &str) -> Result<Node> {
        let (channel, theirs) = stream()?;
        let output = output_file(&spec.name)?;
        let place = Path::new("ssh's descriptors");
        let copy = theirs.try_clone().on("duplicate", place)?;
        let errors: OwnedFd = output.try_clone().on("duplicate", place)?.into();
        let spawn = self.spawn(command)?.fd(theirs, 0).fd(copy, 1).fd(errors, 2);
        let process = spawn.start(|_| Ok(())).during(|| format!("start ssh {}", self.host))?;
        Ok(Node {
            attachment: Attachment { name: spec.name.clone(), netns: None, interfaces: None },
            enforced: Enforced::default(),
            host: Some(Host::Remote(process)),
            channel: Some(channel),
            group: None,
            output: Some(output),
            directory: DIRECTORY.into(),
            facts: BTreeMap::new(),
            on_host: None,
            disk: None,
        })
    }
}
