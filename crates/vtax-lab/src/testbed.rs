//! The testbed of one trial: a client, the systems under test, and what is between them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use vtax_plan::model::{EnvironmentKind, NetPath, VirtualDisk};
use vtax_sys::cgroup::{NodeGroup, Usage};
use vtax_sys::netlink::LinkStats;
use vtax_sys::sched;
use vtax_units::{Bytes, CpuSet};
use vtax_vm::Vm;

use crate::budget::{Allocation, Division, QEMU_OVERHEAD, allocate, divide};
use crate::error::{LabError, Result, While};
use crate::fabric::Fabric;
use crate::lab::Lab;
use crate::node::Node;
use crate::nodes;
use crate::path::{self, Built, Cable, Capture, End, PathParts, PathSwitch, Placed, RoutedSetup, Site};
use crate::spec::{DiskSpec, NodeSpec, SharedMemorySpec, Slot, SutCpus, TestbedSpec};

/// How long it may take to take memory away from guests, which is written to a disk.
const SHRINK_WITHIN: Duration = Duration::from_secs(60);

/// Time between two looks at a balloon.
const BALLOON_PAUSE: Duration = Duration::from_millis(10);

/// The testbed of one trial; taken down when dropped.
#[derive(Debug)]
pub struct Testbed {
    /// Where the load generator runs.
    pub client: Node,
    /// Others that the load comes from, where it comes from hosts of their own, of which the client is the first.
    pub generators: Vec<Node>,
    /// The hosts that the load comes from, the client's first; none where it comes from this one.
    pub generator_hosts: Vec<String>,
    /// The systems under test, at least one, in the specification's order.
    pub suts: Vec<Sut>,
    /// The routers on the way, the client's first.
    pub routers: Vec<Node>,
    /// Which side got which CPUs.
    pub allocation: Allocation,
    /// What has to be said in a report about this testbed.
    pub notes: Vec<String>,
    /// The path's name in the plan.
    path: String,
    client_end: Option<End>,
    cable: Option<Cable>,
    parts: PathParts,
    fabric: Option<Fabric>,
    shared_memory: Option<SharedMemory>,
}

/// Memory that the virtual machines under test have together, and the group that holds them to it.
#[derive(Debug)]
struct SharedMemory {
    group: NodeGroup,
    /// The guests' memory, without their QEMUs'.
    memory: Bytes,
}

/// One system under test.
#[derive(Debug)]
pub struct Sut {
    /// What the service runs in.
    pub node: Node,
    /// Where the service must listen.
    pub service_address: IpAddr,
    /// Its CPUs, whole virtual machine included.
    pub cpus: CpuSet,
    /// True where another system under test runs on some of these CPUs at the same time.
    pub shared: bool,
    /// One for each of its cards; none where they can't be seen from here.
    ends: Vec<End>,
}

impl Sut {
    /// What the kernel counted at each of its cards, as it sees it; empty where they can't be seen from here.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn cards(&self) -> Result<Vec<LinkStats>> {
        self.ends.iter().map(End::read).collect()
    }
}

impl Testbed {
    /// The first system under test, for what measures only one.
    #[must_use]
    pub fn the_sut(&self) -> &Sut {
        // There is one in every specification that was built.
        &self.suts[0]
    }

    /// As [`the_sut`](Self::the_sut), to be changed.
    pub fn the_sut_mut(&mut self) -> &mut Sut {
        &mut self.suts[0]
    }

    /// All its nodes: the client and the other generators, the routers, the systems under test.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        let load = std::iter::once(&self.client).chain(&self.generators);
        load.chain(&self.routers).chain(self.suts.iter().map(|sut| &sut.node))
    }

    /// Takes it down. Goes on after an error and returns all of them.
    pub fn destroy(mut self) -> Vec<LabError> {
        let mut errors = self.client.destroy();
        errors.extend(self.generators.iter_mut().flat_map(Node::destroy));
        errors.extend(self.suts.iter_mut().flat_map(|sut| sut.node.destroy()));
        errors.extend(self.routers.iter_mut().flat_map(Node::destroy));
        // Link emulators, controllers and others' switches before the interfaces they hold.
        self.parts = PathParts::default();
        errors.extend(self.fabric.take().and_then(|f| f.destroy().err()));
        let what = || "remove the group that limited the systems together".to_owned();
        errors.extend(self.shared_memory.take().and_then(|memory| memory.group.remove().during(what).err()));
        errors
    }

    /// What the virtual machines under test use of the memory that they have together; `None` where each has its own.
    #[must_use]
    pub fn shared_memory_usage(&self) -> Option<Usage> {
        self.shared_memory.as_ref().map(|memory| memory.group.usage())
    }

    /// Holds the virtual machines under test to the memory that they share, from now on: until then they may take
    /// what booting takes. What their QEMUs have of their own is beside it, and returned.
    ///
    /// # Errors
    ///
    /// Where the kernel can't take away what they have beyond that.
    pub fn apply_shared_memory_limit(&self) -> Result<Option<Bytes>> {
        let Some(SharedMemory { group, memory }) = &self.shared_memory else { return Ok(None) };
        let own = group.anonymous().unwrap_or(Bytes(0));
        let what = || format!("hold the virtual machines to {memory} together");
        group.limit_memory(Bytes(memory.0.saturating_add(own.0)), SHRINK_WITHIN).during(what)?;
        Ok(Some(own))
    }

    /// Has the balloons of the systems under test leave them so much memory each, in their order, and waits until they have;
    /// `None` for one without. How long each took.
    ///
    /// # Errors
    ///
    /// Where one has no balloon, or its guest doesn't give as much in time, with the numbers.
    pub fn resize_balloons(&self, left: &[Option<Bytes>]) -> Result<Vec<Option<Duration>>> {
        let each = || self.suts.iter().zip(left).map(|(sut, left)| (&sut.node, sut.node.vm().zip(*left)));
        let failed = |node: &Node, source| LabError::vm(node.name(), source);
        let started = Instant::now();
        for (node, wanted) in each() {
            let asked = wanted.map_or(Ok(()), |(vm, left)| vm.resize_balloon(left));
            asked.map_err(|source| failed(node, source))?;
        }
        let wait = |(node, wanted): (&Node, Option<(&Vm, Bytes)>)| {
            let Some((vm, left)) = wanted else { return Ok(None) };
            loop {
                let now = vm.memory_left().map_err(|source| failed(node, source))?;
                if now <= left {
                    return Ok(Some(started.elapsed()));
                }
                if started.elapsed() > SHRINK_WITHIN {
                    let seconds = SHRINK_WITHIN.as_secs();
                    let reason =
                        format!("its balloon left it {now} within {seconds} s, and was to leave it {left}");
                    return Err(failed(node, vm.failure(reason)));
                }
                std::thread::sleep(BALLOON_PAUSE);
            }
        };
        each().map(wait).collect()
    }

    /// What there is to say about the path now: what it is made of, what its proof measured, what was lost on
    /// it. All keys begin with `path.`.
    #[must_use]
    pub fn path_facts(&self) -> BTreeMap<String, String> {
        self.parts.facts()
    }

    /// Processes of the path that carry the packets of the first system on its CPUs, as pasta does: their time is part of what it costs.
    #[must_use]
    pub fn path_processes(&self) -> Vec<u32> {
        self.parts.processes()
    }

    /// Whether threads of the kernel work for the path on any CPU of the host: then nobody can say whose a CPU's time is.
    #[must_use]
    pub fn path_is_on_any_cpu(&self) -> bool {
        self.parts.on_any_cpu
    }

    /// Where the client reaches what the system with this number, counted from 0, has at an address of its own.
    #[must_use]
    pub fn reached_at(&self, number: usize, own: SocketAddr) -> SocketAddr {
        self.parts.reached_at(number, own)
    }

    /// Has the path prove that it is between the client and these places, where it is of a kind that has to: a connection is
    /// tried to each system, and what stands in the middle must have counted it in both directions. The nodes must have their
    /// addresses by then.
    ///
    /// # Errors
    ///
    /// Where it isn't.
    pub fn prove_path(&mut self, targets: &[SocketAddr]) -> Result<()> {
        let refused = |reason| LabError::Path { path: self.path.clone(), reason };
        // Clients without a namespace here are on no such path.
        let Some(client) = self.client.netns() else { return Ok(()) };
        self.parts.prove(client, targets).map_err(refused)
    }

    /// What the routers of its path are to be, and the node that holds them, where it has any.
    pub fn routed(&mut self) -> Option<(&RoutedSetup, &mut Node)> {
        self.parts.routed.as_ref().zip(self.routers.first_mut())
    }

    /// Takes the CPUs back that the routers' node was lent to start them. What it was told to turn off is off by then.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn settle_routers(&mut self) -> Result<()> {
        let Some((setup, node)) = self.routed() else { return Ok(()) };
        setup.left_with.clone().map_or(Ok(()), |cpus| node.hold_to(&cpus))
    }

    /// What cuts and restores the path. While it exists, an Open vSwitch of the path goes on, so it should go
    /// before the testbed does.
    pub fn path_switch(&mut self) -> PathSwitch {
        let (path, cable, ovs) = (&self.path, self.cable.clone(), self.parts.ovs.clone());
        PathSwitch::new(path, cable, ovs)
    }

    /// What the kernel counted at the client's and at the first system under test's end, as each node sees it;
    /// `None` where an end can't be seen from here. Those of several cards are added up.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn counters(&self) -> Result<Option<[LinkStats; 2]>> {
        let Some(client) = &self.client_end else { return Ok(None) };
        let Some(sut) = self.the_sut().cards()?.into_iter().reduce(|all, card| all + card) else {
            return Ok(None);
        };
        Ok(Some([client.read()?, sut]))
    }

    /// Starts capturing packets at the client's end: their headers, in memory. It takes time of the client's
    /// CPUs.
    ///
    /// # Errors
    ///
    /// Where the client's end can't be seen from here, or may not be.
    pub fn start_capture(&self) -> Result<Capture> {
        let Some(client) = &self.client_end else {
            let reason =
                "the client's end can't be captured: it shares the host's loopback, or is on another host"
                    .to_owned();
            return Err(LabError::Path { path: self.path.clone(), reason });
        };
        Capture::start(client, client.card()?, &self.allocation.client)
    }
}

impl Lab {
    /// Why a path can't be built on this host, with the way out; `None` where it can.
    #[must_use]
    pub fn path_obstacle(&self, path: &NetPath) -> Option<String> {
        path::obstacle(self, path)
    }

    /// Builds the testbed of a trial. The nodes' agents are started (a virtual machine still
    /// boots); they have not been spoken to.
    ///
    /// # Errors
    ///
    /// Where something is refused; what was built until then is taken down.
    pub fn build(&mut self, spec: &TestbedSpec) -> Result<Testbed> {
        self.build_at(spec, Slot::Alone)
    }

    /// As [`build`](Self::build), beside another testbed.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build); on a shared loopback there is room for one only.
    pub fn build_at(&mut self, spec: &TestbedSpec, slot: Slot) -> Result<Testbed> {
        if slot != Slot::Alone && !self.has_namespaces() {
            return Err(LabError::NoNamespaces { what: "two testbeds at the same time" });
        }
        if spec.suts.is_empty() {
            let reason = "a testbed has at least one system under test".to_owned();
            return Err(LabError::Path { path: spec.path.name.clone(), reason });
        }
        let allowed = sched::allowed_cpus().during(|| "find this host's CPUs".to_owned())?;
        let mut allocation = allocate(&allowed, &spec.budget, sched::core_siblings);
        if let Slot::Paired { half, .. } = slot {
            allocation = allocation.half(half);
        }
        let wanted: Vec<SutCpus> = spec.suts.iter().map(|sut| sut.cpus).collect();
        let Division { sets, notes: division } = divide(&allocation.sut, &wanted, sched::core_siblings);
        let mut notes = self.notes().to_vec();
        notes.extend(allocation.notes.iter().cloned());
        notes.extend(division);
        let on_client = |role, number| NodeSpec {
            name: slot.node_name(role, number),
            cpus: allocation.client.clone(),
            memory: None,
            disk: None,
            memory_in: None,
            balloon: false,
        };
        let suts = spec.suts.iter().zip(&sets).enumerate().map(|(number, (sut, cpus))| NodeSpec {
            name: slot.node_name("sut", number),
            cpus: cpus.clone(),
            memory: Some(sut.memory_of(&spec.budget)),
            disk: spec.disk.as_ref().map(|directory| DiskSpec {
                directory: directory.clone(),
                shape: match &sut.environment.kind {
                    EnvironmentKind::Vm(vm) => vm.disk.unwrap_or_default(),
                    EnvironmentKind::Native | EnvironmentKind::Container | EnvironmentKind::Uml => {
                        VirtualDisk::default()
                    }
                },
            }),
            memory_in: match (&spec.shared_memory, &sut.environment.kind) {
                (Some(shared_memory), EnvironmentKind::Vm(_)) => Some(shared_memory.directory.clone()),
                _ => None,
            },
            balloon: spec.balloons && matches!(&sut.environment.kind, EnvironmentKind::Vm(_)),
        });
        let shared_memory = self.make_shared_memory(spec, slot)?;
        let mut site = Site {
            client: on_client("client", 0),
            routers: (0..spec.routers).map(|number| on_client("router", number)).collect(),
            suts: suts.collect(),
            lab: self,
            spec,
            slot,
            allocation: &allocation,
            notes,
        };
        let by_path = site.lab.has_namespaces() || path::is_elsewhere(&spec.path.kind);
        let mut built = if by_path { path::build(&mut site)? } else { on_loopback(&mut site)? };
        let mut notes = site.notes;
        notes.extend(limits_notes(&built.suts).into_iter().chain(stray_threads(&mut built)));
        Ok(Testbed { shared_memory, ..testbed(spec, built, sets, (allocation, notes)) })
    }

    /// Makes the group of virtual machines that share their memory, with room for booting; `None` where each has its own.
    fn make_shared_memory(&mut self, spec: &TestbedSpec, slot: Slot) -> Result<Option<SharedMemory>> {
        let Some(SharedMemorySpec { memory, .. }) = spec.shared_memory else { return Ok(None) };
        let most = QEMU_OVERHEAD.0.saturating_mul(spec.suts.len() as u64);
        let most = Bytes(memory.0.saturating_add(most));
        let group = self.make_shared_memory_group(&slot.node_name("systems", 0), most)?;
        Ok(Some(SharedMemory { group, memory }))
    }
}

fn testbed(
    spec: &TestbedSpec,
    built: Built,
    sets: Vec<CpuSet>,
    (allocation, notes): (Allocation, Vec<String>),
) -> Testbed {
    let shares = |number: usize| {
        let others = sets.iter().enumerate().filter(|(other, _)| *other != number);
        others.into_iter().any(|(_, set)| set.overlaps(&sets[number]))
    };
    let shared: Vec<bool> = (0..sets.len()).map(shares).collect();
    let suts = built.suts.into_iter().zip(sets).zip(shared).map(|((placed, cpus), shared)| Sut {
        node: placed.node,
        service_address: placed.address,
        cpus,
        shared,
        ends: placed.ends,
    });
    Testbed {
        client: built.client,
        generators: built.generators,
        generator_hosts: spec.path.kind.generators().to_vec(),
        suts: suts.collect(),
        routers: built.routers,
        allocation,
        notes,
        path: spec.path.name.clone(),
        client_end: built.client_end,
        cable: built.cable,
        parts: built.parts,
        fabric: built.fabric,
        shared_memory: None,
    }
}

/// All nodes as plain processes on the host's loopback, for hosts that refuse namespaces.
fn on_loopback(site: &mut Site<'_>) -> Result<Built> {
    for sut in &site.spec.suts {
        match sut.environment.kind {
            EnvironmentKind::Native => {}
            EnvironmentKind::Container => return Err(LabError::NoNamespaces { what: "container nodes" }),
            EnvironmentKind::Vm(_) => return Err(LabError::NoNamespaces { what: "vm nodes" }),
            EnvironmentKind::Uml => return Err(LabError::NoNamespaces { what: "uml nodes" }),
        }
    }
    if !site.routers.is_empty() {
        return Err(LabError::NoNamespaces { what: "router nodes" });
    }
    let path = site.path();
    if path.is_emulated() {
        site.notes.push(format!("path {}: loopback has no rate, delay or loss of its own", path.name));
    }
    let client = site.lab.add_native_node(&site.client)?;
    let mut suts = Vec::with_capacity(site.suts.len());
    // Each has an address of its own: 127.0.0.1, 127.0.0.2, ...
    for (last, spec) in (1..=254).zip(&site.suts) {
        let node = site.lab.add_native_node(spec)?;
        suts.push(Placed { node, address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), ends: Vec::new() });
    }
    let parts = PathParts::default();
    Ok(Built {
        client,
        client_end: None,
        generators: Vec::new(),
        routers: Vec::new(),
        suts,
        cable: None,
        parts,
        fabric: None,
    })
}

/// Sees whether threads of the kernel work for guests on any CPU; what has to be said of it.
fn stray_threads(built: &mut Built) -> Vec<String> {
    let suts = built.suts.iter().map(|placed| &placed.node);
    let all = std::iter::once(&built.client).chain(&built.generators).chain(&built.routers).chain(suts);
    let notes: Vec<String> = all.filter_map(nodes::vm::vhost_strays).collect();
    built.parts.on_any_cpu |= !notes.is_empty();
    notes
}

/// What isn't held by a control group although it should be.
fn limits_notes(suts: &[Placed]) -> Vec<String> {
    let mut notes = Vec::new();
    // Those on other hosts aren't held to anything, which their path says.
    for Placed { node, .. } in suts.iter().filter(|placed| placed.node.is_here()) {
        let who = match suts.len() {
            1 => format!("{} node", node.kind()),
            _ => format!("{} node {}", node.kind(), node.name()),
        };
        let enforced = node.enforced();
        if !enforced.cpus_by_group {
            notes.push(format!("{who}: CPUs {} by affinity, not by a control group", enforced.cpus));
        }
        if enforced.memory.is_none() {
            notes.push(format!("{who}: its memory limit is not enforced by a control group"));
        }
    }
    notes
}
