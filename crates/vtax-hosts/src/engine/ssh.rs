//! Hosts by ssh. Nothing is allocated: who uses them besides is for their users to settle.

use std::path::PathBuf;
use std::process::Command;

use vtax_agent::ssh::OPTIONS;

use super::{Engine, Machine};
use crate::error::HostsError;
use crate::list::HostSpec;

/// ssh, as it is installed and configured.
#[derive(Debug)]
pub struct Ssh {
    hosts: Vec<Machine>,
    configuration: Option<PathBuf>,
}

impl Ssh {
    /// These hosts; `configuration` is a file in place of the user's own.
    #[must_use]
    pub fn new(hosts: Vec<HostSpec>, configuration: Option<PathBuf>) -> Self {
        let hosts = hosts.into_iter().map(|spec| Machine { name: spec.name.clone(), spec }).collect();
        Self { hosts, configuration }
    }
}

impl Engine for Ssh {
    fn hosts(&self) -> &[Machine] {
        &self.hosts
    }

    fn command(&self, host: &Machine, script: &str) -> Command {
        debug_assert!(!script.contains('\''), "{script}");
        let mut command = Command::new("ssh");
        if let Some(file) = &self.configuration {
            command.arg("-F").arg(file);
        }
        command.args(OPTIONS);
        let spec = &host.spec;
        let port = spec.port.map(|p| p.to_string());
        for (option, value) in [("-p", &port), ("-l", &spec.user), ("-i", &spec.key)] {
            if let Some(value) = value {
                command.arg(option).arg(value);
            }
        }
        // Whatever shell the user has there, it starts a plain one.
        command.arg("--").arg(&spec.address).arg(format!("exec sh -c '{script}'"));
        command
    }

    fn end(&mut self) -> Result<(), HostsError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::{On, parse_on};

    #[test]
    fn the_command_line() {
        let On::Ssh(hosts) = parse_on("ssh:root@b:2222").unwrap() else { panic!("ssh") };
        let ssh = Ssh::new(hosts, Some("/c".into()));
        let command = ssh.command(&ssh.hosts()[0], "echo \"$d\"");
        let words: Vec<&str> = command.get_args().map(|a| a.to_str().unwrap()).collect();
        assert_eq!(words[..2], ["-F", "/c"]);
        assert_eq!(words[11..], ["-p", "2222", "-l", "root", "--", "b", "exec sh -c 'echo \"$d\"'"]);
    }
}
