//! Native nodes: the agent as PID 1 of namespaces of its own, on the host's files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use vtax_sys::cgroup::{Limits, NodeGroup, RunGroups};
use vtax_sys::spawn::Spawn;
use vtax_sys::{Namespaces, NetNs, PidFd};

use crate::budget::Enforced;
use crate::error::{OnPath, Result, While};
use crate::lab::NodeSpec;
use crate::node::{Host, Node};

/// All that the agent, and so a service, inherits of the environment.
pub(crate) const ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/"),
    ("LANG", "C.UTF-8"),
];

/// Where the agent finds its stream.
pub(crate) const CHANNEL: i32 = 3;
/// The agent's directory inside a node that has a `/run` of its own.
pub(crate) const DIRECTORY: &str = "/run/vtax";

/// A file in memory for what a node's first process writes to stderr.
pub(crate) fn output_file(node: &str) -> Result<File> {
    use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};
    let make = || -> io::Result<File> {
        let memory = memfd_create(format!("vtax-{node}-output"), MemfdFlags::CLOEXEC)?;
        // Several processes write to it.
        fcntl_setfl(&memory, OFlags::APPEND)?;
        Ok(File::from(memory))
    };
    make().on("create", Path::new("a file in memory"))
}

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
        // No neighbour or router discovery: packets that no workload sent.
        for which in ["all", "default"] {
            spawn = spawn.write(&format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
        }
    }
    let (process, channel, output, group) = launch(spawn, groups, spec)?;
    // From here on the node is a guard: what fails below takes it down.
    let mut node = Node {
        name: spec.name.clone(),
        enforced: Enforced::default(),
        host: Some(Host::Process(process)),
        channel: Some(channel),
        netns: None,
        group,
        output: Some(output),
        interfaces,
        directory,
        facts: BTreeMap::new(),
        on_host: None,
    };
    node.netns = Some(NetNs::of_process(node.pid()).during(|| format!("build node {}", spec.name))?);
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
    let (process, channel, output, group) = launch(spawn, groups, spec)?;
    let mut node = Node {
        name: spec.name.clone(),
        enforced: Enforced::default(),
        host: Some(Host::Process(process)),
        channel: Some(channel),
        netns: None,
        group,
        output: Some(output),
        interfaces: None,
        directory: directory.clone(),
        facts: BTreeMap::new(),
        on_host: Some(directory),
    };
    node.read_back_limits()?;
    Ok(node)
}

/// Both ends of a stream.
pub(crate) fn stream() -> Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair().on("create", Path::new("a socket pair"))?;
    Ok((ours.into(), theirs.into()))
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
