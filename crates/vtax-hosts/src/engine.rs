//! What gives hosts: ssh, which reaches those that are there, Slurm and Kubernetes, which allocate them.
//!
//! Everything goes through the user's own programs, with their keys, proxies and settings.

mod kubernetes;
mod slurm;
mod ssh;

use std::process::Command;

pub use kubernetes::{Kubernetes, KubernetesOptions};
pub use slurm::{Slurm, SlurmOptions};
pub use ssh::Ssh;

use crate::error::HostsError;
use crate::list::HostSpec;

/// A host that an engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// What it is called: letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// How ssh reaches it; of others only its name counts.
    pub spec: HostSpec,
}

/// Three verbs: get hosts (the engine's own constructor), open a stream to each, end all. And one for hosts that would go by themselves.
pub trait Engine: Sync {
    /// The hosts that there are.
    fn hosts(&self) -> &[Machine];

    /// A program whose standard input and output are those of this script there, run by `sh`. The script has no single
    /// quotes. When the program ends, however that comes about, the script's input ends as well.
    fn command(&self, host: &Machine, script: &str) -> Command;

    /// This host needs not be kept any more: vtax runs there, or it is lost. Until then, or until [`Engine::end`] or this process's end,
    /// a host is kept that would go where nothing of vtax runs on it.
    fn release(&self, _host: &Machine) {}

    /// Ends all that was allocated; called again it does nothing.
    ///
    /// # Errors
    ///
    /// [`HostsError::Program`] where something may be left.
    fn end(&mut self) -> Result<(), HostsError>;
}
