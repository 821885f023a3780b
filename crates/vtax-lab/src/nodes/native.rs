//! Native nodes: the agent as PID 1 of namespaces of its own, on the host's files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use vtax_sys::cgroup::{NodeGroup, RunGroups};
use vtax_sys::spawn::Spawn;
use vtax_sys::{Namespaces, NetNs, PidFd};

use crate::agent_program::{AgentProgram, CHANNEL, DIRECTORY, group_for};
use crate::attachment::Attachment;
use crate::budget::Enforced;
use crate::disk::Disk;
use crate::error::{OnPath, Result, While};
use crate::node::{Host, Node};
use crate::process_io::{ENVIRONMENT, output_file, stream};
use crate::spec::NodeSpec;

/// The network of a native node.
#[derive(Debug)]
pub(crate) enum Network {
    /// A new one.
    Own,
    /// One that was made for it.
    Made(NetNs),
    /// The host's, in which nothing is changed.
    Host(NetNs),
}

/// Builds one native node.
pub(crate) fn start(
    agent: &AgentProgram,
    groups: Option<&RunGroups>,
    spec: &NodeSpec,
    network: Network,
) -> Result<Node> {
    let directory = PathBuf::from(DIRECTORY);
    let spawn = Spawn::new(&agent.program, agent.args_for(&spec.name, &directory));
    let kinds = Namespaces::PID | Namespaces::MOUNT | Namespaces::IPC | Namespaces::UTS;
    let interfaces = if matches!(network, Network::Host(_)) { None } else { Some(Vec::new()) };
    let mut spawn = match network {
        Network::Own => spawn.namespaces(Namespaces::NODE),
        Network::Made(network) | Network::Host(network) => spawn.namespaces(kinds).join_net(network.into()),
    };
    spawn = spawn
        .host_name(&spec.name)
        .mount_proc()
        .mount_tmpfs("/tmp", "mode=1777", false)
        .mount_tmpfs("/run", "mode=755", false)
        .mount_tmpfs("/dev/shm", "mode=1777", true);
    if interfaces.is_some() {
        spawn = spawn.without_ipv6();
    }
    let disk = spec.disk.as_ref().map(Disk::directory).transpose()?;
    let (process, channel, output, group) = launch(spawn, groups, spec)?;
    // From here on the node is a guard: what fails below takes it down.
    let mut node = Node {
        attachment: Attachment { name: spec.name.clone(), netns: None, interfaces },
        enforced: Enforced::default(),
        host: Some(Host::Process(process)),
        channel: Some(channel),
        group,
        output: Some(output),
        directory,
        facts: BTreeMap::new(),
        on_host: None,
        disk,
    };
    node.attachment.netns =
        Some(NetNs::of_process(node.pid()).during(|| format!("build node {}", spec.name))?);
    node.read_back_limits()?;
    Ok(node)
}

/// Builds a node without namespaces: the agent as a plain child that shares the host's network.
pub(crate) fn start_plain(
    agent: &AgentProgram,
    groups: Option<&RunGroups>,
    spec: &NodeSpec,
    parent: &Path,
) -> Result<Node> {
    let directory = parent.join(&spec.name);
    fs::create_dir_all(&directory).on("create", &directory)?;
    let spawn = Spawn::new(&agent.program, agent.args_for(&spec.name, &directory));
    let disk = spec.disk.as_ref().map(Disk::directory).transpose()?;
    let (process, channel, output, group) = launch(spawn, groups, spec)?;
    let mut node = Node {
        attachment: Attachment { name: spec.name.clone(), netns: None, interfaces: None },
        enforced: Enforced::default(),
        host: Some(Host::Process(process)),
        channel: Some(channel),
        group,
        output: Some(output),
        directory: directory.clone(),
        facts: BTreeMap::new(),
        on_host: Some(directory),
        disk,
    };
    node.read_back_limits()?;
    Ok(node)
}

type Launched = (PidFd, OwnedFd, File, Option<NodeGroup>);

fn launch(mut spawn: Spawn, groups: Option<&RunGroups>, spec: &NodeSpec) -> Result<Launched> {
    let (channel, theirs) = stream()?;
    let output = output_file(&spec.name)?;
    let copy = || output.try_clone().map(OwnedFd::from).on("duplicate", Path::new("output"));
    let null = Path::new("/dev/null");
    let input: OwnedFd = File::open(null).on("open", null)?.into();
    for (name, value) in ENVIRONMENT {
        spawn = spawn.env(name, value);
    }
    spawn = spawn.fd(input, 0).fd(copy()?, 1).fd(copy()?, 2).fd(theirs, CHANNEL);
    if !spec.cpus.is_empty() {
        spawn = spawn.cpus(&spec.cpus);
    }
    let group = group_for(groups, spec)?;
    let started = spawn.start(|pid| group.as_ref().map_or(Ok(()), |g| g.attach(pid)));
    match started.during(|| format!("build node {}", spec.name)) {
        Ok(process) => Ok((process, channel, output, group)),
        Err(e) => {
            // The first error tells more than a group that can't be removed.
            let _ = group.map(|g| g.remove());
            Err(e)
        }
    }
}
