//! The lab: what all testbeds of a controller share.

use std::path::PathBuf;
use std::sync::Arc;

use vtax_agent::streams::Streams;
use vtax_sys::cgroup::{NodeGroup, RunGroups};
use vtax_sys::netlink::{Netlink, set_up};
use vtax_sys::{NetNs, sysctl};
use vtax_units::Bytes;
use vtax_vm::{GuestTemplate, Uml};

use crate::agent_program::AgentProgram;
use crate::budget::quota_note;
use crate::container::Containers;
use crate::error::{LabError, Result, While};
use crate::fabric::{Fabric, Switch, UmlPort, VmPort};
use crate::ft::{FtPair, PairBase, PairSpec};
use crate::link::Proofs;
use crate::node::Node;
use crate::nodes::{self, Network};
use crate::scratch::Scratch;
use crate::spec::NodeSpec;
use crate::stop::StopFlag;

/// How nodes are kept apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Isolation {
    /// Each in namespaces of its own. The lab must be made inside a controller.
    Namespaces,
    /// Not at all: plain processes on this host's loopback, for hosts that refuse namespaces.
    Loopback {
        /// Where the nodes' directories are made; it must exist, and the caller removes it.
        directory: PathBuf,
    },
}

/// What a lab is made from.
#[derive(Debug, Clone)]
pub struct LabOptions {
    /// How nodes are kept apart.
    pub isolation: Isolation,
    /// Control groups of the run; `None`: nodes are held by affinity only.
    pub groups: Option<RunGroups>,
    /// The program that is the agent.
    pub agent_program: PathBuf,
    /// The start of the agent's command line, its name included.
    pub agent_args: Vec<String>,
    /// What virtual machines boot; `None`: none can be built.
    pub guest_template: Option<Arc<GuestTemplate>>,
    /// The host's own network, for paths over real interfaces; `None`: there are none.
    pub host_network: Option<Arc<NetNs>>,
    /// What opens streams to other hosts; `None`: there are none.
    pub streams: Option<Arc<dyn Streams>>,
    /// Raised where testbeds that are being built are to be given up.
    pub stop: StopFlag,
}

impl LabOptions {
    /// This program is the agent, `vtax agent ...`.
    #[must_use]
    pub fn new(isolation: Isolation) -> Self {
        Self {
            isolation,
            groups: None,
            agent_program: "/proc/self/exe".into(),
            agent_args: vec!["vtax".into(), "agent".into()],
            guest_template: None,
            host_network: None,
            streams: None,
            stop: StopFlag::default(),
        }
    }
}

/// What all testbeds of a controller share.
#[derive(Debug)]
pub struct Lab {
    options: LabOptions,
    agent: AgentProgram,
    containers: Option<Containers>,
    scratch: Option<Scratch>,
    /// What emulated links were measured to be.
    pub(crate) proofs: Proofs,
    next_group: u32,
    /// What user-mode Linuxes are started from, once one was needed.
    uml: Option<Arc<Uml>>,
    /// Where groups of virtual machines with shared memory are.
    shared_memory_groups: Option<RunGroups>,
    notes: Vec<String>,
}

impl Lab {
    /// Makes a lab. With [`Isolation::Namespaces`] this process must be a controller: interfaces
    /// and mounts of its namespaces are changed.
    ///
    /// # Errors
    ///
    /// Where the namespaces aren't this process's own.
    pub fn new(options: LabOptions) -> Result<Self> {
        let mut notes = Vec::new();
        match &options.groups {
            Some(groups) => notes.extend(groups.notes().iter().cloned()),
            None => {
                notes.push("control groups are not used: CPUs by affinity, memory not limited".to_owned())
            }
        }
        notes.extend(quota_note());
        if options.isolation == Isolation::Namespaces {
            let what = || "prepare the lab's network".to_owned();
            // No packets of the host's own on the lab's bridge.
            sysctl::disable_ipv6_everywhere();
            Netlink::open().and_then(|mut n| n.send(set_up("lo"))).during(what)?;
            vtax_sys::signals::become_subreaper().during(what)?;
        } else {
            notes.push("no namespaces: client and system under test share this host's loopback".to_owned());
        }
        let agent = AgentProgram { program: options.agent_program.clone(), args: options.agent_args.clone() };
        Ok(Self {
            options,
            agent,
            containers: None,
            scratch: None,
            proofs: Proofs::default(),
            next_group: 1,
            uml: None,
            shared_memory_groups: None,
            notes,
        })
    }

    /// What has to be said about every testbed of this lab.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Raised where what is being built is to be given up.
    pub(crate) const fn stop(&self) -> &StopFlag {
        &self.options.stop
    }

    /// Control groups of the run.
    pub(crate) const fn groups(&self) -> Option<&RunGroups> {
        self.options.groups.as_ref()
    }

    /// Whether several virtual machines can be held to memory together.
    #[must_use]
    pub fn limits_memory(&self) -> bool {
        self.groups().is_some_and(RunGroups::holds_memory)
    }

    /// Makes a group of this name, which holds virtual machines built from now on to so much memory together.
    pub(crate) fn make_shared_memory_group(&mut self, name: &str, memory: Bytes) -> Result<NodeGroup> {
        let what = || format!("limit virtual machines to {memory} together");
        let groups = self.options.groups.as_ref().ok_or(LabError::NoGroups { what: "memory" })?;
        self.shared_memory_groups = Some(groups.with_shared_memory(name, memory).during(what)?);
        Ok(groups.made_by_runtime(name))
    }

    pub(crate) const fn agent_program(&self) -> &AgentProgram {
        &self.agent
    }

    /// Whether nodes have namespaces of their own.
    #[must_use]
    pub fn has_namespaces(&self) -> bool {
        self.options.isolation == Isolation::Namespaces
    }

    /// What virtual machines boot.
    #[must_use]
    pub fn guest_template(&self) -> Option<&Arc<GuestTemplate>> {
        self.options.guest_template.as_ref()
    }

    /// A network to plug nodes into. One at a time, or one for each [`Slot`](crate::Slot).
    ///
    /// # Errors
    ///
    /// Where the kernel refuses a socket.
    pub fn fabric(&mut self) -> Result<Fabric> {
        self.fabric_in(None)
    }

    /// As [`fabric`](Self::fabric), with its switches and ports in this network namespace.
    pub(crate) fn fabric_in(&mut self, inside: Option<Arc<NetNs>>) -> Result<Fabric> {
        if !self.has_namespaces() {
            return Err(LabError::NoNamespaces { what: "networks of a testbed's own" });
        }
        let group = self.next_group;
        self.next_group += 1;
        Fabric::new(group, inside)
    }

    /// Builds a native node.
    ///
    /// # Errors
    ///
    /// Where a namespace, a limit or the agent's program is refused.
    pub fn add_native_node(&self, spec: &NodeSpec) -> Result<Node> {
        let groups = self.options.groups.as_ref();
        match &self.options.isolation {
            Isolation::Namespaces => nodes::native::start(&self.agent, groups, spec, Network::Own),
            Isolation::Loopback { directory } => {
                nodes::native::start_plain(&self.agent, groups, spec, directory)
            }
        }
    }

    /// Builds a native node with this network.
    pub(crate) fn add_node(&self, network: Network, spec: &NodeSpec) -> Result<Node> {
        if !self.has_namespaces() {
            return Err(LabError::NoNamespaces { what: "nodes with a network of their own" });
        }
        nodes::native::start(&self.agent, self.options.groups.as_ref(), spec, network)
    }

    /// The host's own network, where it is known.
    pub(crate) fn host_network(&self) -> Option<&NetNs> {
        self.options.host_network.as_deref()
    }

    /// What opens streams to other hosts, where there is something.
    #[must_use]
    pub fn streams(&self) -> Option<&dyn Streams> {
        self.options.streams.as_deref()
    }

    /// A directory for files of this lab's; it ends with the controller.
    pub(crate) fn scratch(&mut self) -> Result<&std::path::Path> {
        let scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => Scratch::mount()?,
        };
        Ok(self.scratch.insert(scratch).path())
    }

    fn containers(&mut self) -> Result<&Containers> {
        if !self.has_namespaces() {
            return Err(LabError::NoNamespaces { what: "container nodes" });
        }
        let containers = match self.containers.take() {
            Some(containers) => containers,
            None => {
                let group = self.options.groups.as_ref().and_then(|g| g.oci_path("probe"));
                let program = self.agent.program.clone();
                Containers::prepare(self.scratch()?, &program, group.as_deref())?
            }
        };
        Ok(self.containers.insert(containers))
    }

    /// Name and version of the OCI runtime that works here, such as `runc 1.1.5`; found out by
    /// running a container.
    ///
    /// # Errors
    ///
    /// [`LabError::NoContainers`] with what each runtime said.
    pub fn container_runtime(&mut self) -> Result<String> {
        let runtime = self.containers()?.runtime();
        Ok(format!("{} {}", runtime.name, runtime.version))
    }

    /// Builds a container node.
    ///
    /// # Errors
    ///
    /// [`LabError::NoContainers`] where none can be run, [`LabError::Runtime`] where this one is
    /// refused.
    pub(crate) fn add_container_node(&mut self, spec: &NodeSpec) -> Result<Node> {
        let (agent, groups) = (self.agent.clone(), self.options.groups.clone());
        nodes::container::start(self.containers()?, &agent, groups.as_ref(), spec)
    }

    /// The kernel's release of user-mode Linux here, such as `6.1.176`.
    ///
    /// # Errors
    ///
    /// [`LabError::NoUml`] with what is missing, [`LabError::UmlUnusable`] where it runs no program on this host.
    pub fn uml_release(&mut self) -> Result<String> {
        Ok(self.uml()?.release().to_owned())
    }

    fn uml(&mut self) -> Result<Arc<Uml>> {
        if !self.has_namespaces() {
            return Err(LabError::NoNamespaces { what: "uml nodes" });
        }
        let uml = match self.uml.take() {
            Some(uml) => uml,
            None => {
                let uml = Uml::prepare(&self.agent.program).map_err(LabError::NoUml)?;
                nodes::uml::prove(&uml)?;
                Arc::new(uml)
            }
        };
        Ok(Arc::clone(self.uml.insert(uml)))
    }

    /// Boots a user-mode Linux node at this port.
    pub(crate) fn add_uml_node(&mut self, spec: &NodeSpec, port: UmlPort) -> Result<Node> {
        let uml = self.uml()?;
        nodes::uml::start(&uml, self.groups(), spec, port)
    }

    /// Starts a virtual machine node with these ports. It goes on booting; its agent answers when
    /// it is up.
    ///
    /// # Errors
    ///
    /// Where there is no guest to boot or QEMU doesn't start.
    pub(crate) fn add_vm_node(&self, spec: &NodeSpec, vcpus: u32, ports: Vec<VmPort>) -> Result<Node> {
        let groups = match spec.memory_in {
            Some(_) => self.shared_memory_groups.as_ref(),
            None => self.groups(),
        };
        nodes::vm::start(self.guest_template_for(&spec.name)?, groups, spec, vcpus, ports)
    }

    /// Builds the hosts of a pair and starts its guest on the first, plugged into `switch`. It goes on
    /// booting; it isn't protected until [`FtPair::arm`].
    ///
    /// # Errors
    ///
    /// Where there is no guest to boot, a host can't be built or has too little memory, or QEMU doesn't start.
    pub fn add_pair(&self, fabric: &mut Fabric, switch: &mut Switch, spec: PairSpec) -> Result<FtPair> {
        FtPair::start(self.pair_base(&spec.name)?, fabric, switch, spec)
    }

    /// What a pair of this name takes from the lab.
    pub(crate) fn pair_base(&self, name: &str) -> Result<PairBase<'_>> {
        let template = Arc::clone(self.guest_template_for(name)?);
        Ok(PairBase { template, groups: self.groups(), program: &self.agent })
    }

    fn guest_template_for(&self, node: &str) -> Result<&Arc<GuestTemplate>> {
        if !self.has_namespaces() {
            return Err(LabError::NoNamespaces { what: "vm nodes" });
        }
        self.guest_template().ok_or_else(|| LabError::NoGuest { node: node.to_owned() })
    }
}
