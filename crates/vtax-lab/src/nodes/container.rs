//! Container nodes: the agent in a container of an OCI runtime.

use vtax_sys::cgroup::RunGroups;
use vtax_sys::{NetNs, sysctl};
use vtax_units::{CpuSet, fact};

use crate::agent_program::{AgentProgram, DIRECTORY};
use crate::attachment::Attachment;
use crate::budget::Enforced;
use crate::container::{ContainerSpec, Containers};
use crate::disk::Disk;
use crate::error::{Result, While};
use crate::node::{Host, Node};
use crate::process_io::{output_file, stream};
use crate::spec::NodeSpec;

/// Builds one container node.
pub(crate) fn start(
    containers: &Containers,
    agent: &AgentProgram,
    groups: Option<&RunGroups>,
    spec: &NodeSpec,
) -> Result<Node> {
    let args = Containers::agent_args(&agent.args_for(&spec.name, DIRECTORY.as_ref()));
    let what = || format!("build node {}", spec.name);
    let netns = NetNs::create().during(what)?;
    let quiet = netns.run(|| {
        sysctl::disable_ipv6_everywhere();
        Ok(())
    });
    quiet.during(what)?;
    let (channel, theirs) = stream()?;
    let output = output_file(&spec.name)?;
    // A runtime refuses limits that it has no control group for.
    let no_cpus = CpuSet::default();
    let holds_cpus = groups.is_some_and(RunGroups::holds_cpus);
    let holds_memory = groups.is_some_and(RunGroups::holds_memory);
    let disk = spec.disk.as_ref().map(Disk::directory).transpose()?;
    let container = ContainerSpec {
        name: &spec.name,
        args,
        cpus: if holds_cpus { &spec.cpus } else { &no_cpus },
        memory: spec.memory.filter(|_| holds_memory),
        limits_swap: groups.is_some_and(RunGroups::limits_swap),
        group: groups.and_then(|g| g.oci_path(&spec.name)),
        writable: disk.as_ref().map(Disk::path),
    };
    let running = containers.start(&container, &netns, Some(theirs), &output)?;
    let runtime = containers.runtime();
    let facts = [
        (fact::CONTAINER_RUNTIME, format!("{} {}", runtime.name, runtime.version)),
        ("container.seccomp", if runtime.seccomp { "on" } else { "refused here" }.to_owned()),
        ("container.cgroups", if runtime.cgroups { "read-only" } else { "not visible" }.to_owned()),
    ];
    // From here on the node is a guard: what fails below takes it down.
    let mut node = Node {
        attachment: Attachment { name: spec.name.clone(), netns: Some(netns), interfaces: Some(Vec::new()) },
        group: groups.map(|g| g.made_by_runtime(&spec.name)),
        enforced: Enforced::default(),
        host: Some(Host::Container(Box::new(running))),
        channel: Some(channel),
        output: Some(output),
        directory: DIRECTORY.into(),
        facts: facts.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
        on_host: None,
        disk,
    };
    if !spec.cpus.is_empty() {
        // Also where the runtime could use no control group.
        vtax_sys::sched::bind_process(node.pid(), &spec.cpus).during(what)?;
    }
    node.read_back_limits()?;
    Ok(node)
}
