//! The agent's program, and the limits it is started under.

use std::path::{Path, PathBuf};

use vtax_sys::cgroup::{Limits, NodeGroup, RunGroups};

use crate::error::{Result, While};
use crate::spec::NodeSpec;

/// Where the agent finds its stream.
pub(crate) const CHANNEL: i32 = 3;
/// The agent's directory inside a node that has a `/run` of its own.
pub(crate) const DIRECTORY: &str = "/run/vtax";

/// The program of the agent and the start of its command line.
#[derive(Debug, Clone)]
pub(crate) struct AgentProgram {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
}

impl AgentProgram {
    /// The command line for a node: `vtax agent --node NAME --fd 3 --dir DIRECTORY`.
    pub(crate) fn args_for(&self, node: &str, directory: &Path) -> Vec<String> {
        let own = ["--node", node, "--fd", &CHANNEL.to_string(), "--dir", &directory.to_string_lossy()]
            .map(str::to_owned);
        self.args.iter().cloned().chain(own).collect()
    }
}

/// Makes the group of a node where it is to be held to something and groups can be used.
pub(crate) fn group_for(groups: Option<&RunGroups>, spec: &NodeSpec) -> Result<Option<NodeGroup>> {
    if spec.cpus.is_empty() && spec.memory.is_none() {
        return Ok(None);
    }
    let Some(groups) = groups else { return Ok(None) };
    let cpus = (!spec.cpus.is_empty()).then(|| spec.cpus.clone());
    let limits = Limits { cpus, memory: spec.memory };
    groups.node(&spec.name, &limits).map(Some).during(|| format!("limit node {}", spec.name))
}
