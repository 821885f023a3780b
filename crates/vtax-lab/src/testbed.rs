//! The testbed of one trial: a client, a system under test, and the path between them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use vtax_plan::model::{Budget, Environment, EnvironmentKind, MininetSwitch, NetPath, PathKind, VmOptions};
use vtax_sys::netlink::LinkStats;
use vtax_sys::sched;

use crate::budget::{Allocation, allocate};
use crate::error::{LabError, Result, While};
use crate::fabric::{Fabric, VmPort};
use crate::lab::{Lab, NodeSpec};
use crate::mininet::Network;
use crate::node::Node;
use crate::path::{Between, Cable, Capture, End, Inner, PathSwitch};
use crate::shape::Shape;

/// What a trial needs.
#[derive(Debug, Clone, PartialEq)]
pub struct TestbedSpec {
    /// How the system under test is hosted.
    pub environment: Environment,
    /// The network between client and system under test.
    pub path: NetPath,
    /// What each side gets.
    pub budget: Budget,
}

/// Which of the testbeds that stand at the same time one is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Seat {
    /// It is the only one and has all CPUs of the budget.
    #[default]
    Alone,
    /// One of two; each side has half of its CPUs, or shares the only one.
    Paired {
        /// True for the second, whose nodes and switch have names of their own.
        second: bool,
        /// True where it gets the upper half of the CPUs. Whoever compares the two changes halves from
        /// pair to pair, as no two CPUs are quite the same.
        upper: bool,
    },
}

impl Seat {
    const fn number(self) -> u16 {
        match self {
            Self::Alone | Self::Paired { second: false, .. } => 0,
            Self::Paired { second: true, .. } => 1,
        }
    }

    /// What node names end with, so that two testbeds don't share one.
    const fn suffix(self) -> &'static str {
        if self.number() == 0 { "" } else { "-b" }
    }
}

/// The testbed of one trial; taken down when dropped.
#[derive(Debug)]
pub struct Testbed {
    /// Where the load generator runs.
    pub client: Node,
    /// The system under test.
    pub sut: Node,
    /// Where the service must listen.
    pub service_address: IpAddr,
    /// Who got which CPUs.
    pub allocation: Allocation,
    /// What has to be said in a report about this testbed.
    pub notes: Vec<String>,
    /// The path's name in the plan.
    path: String,
    ends: [Option<End>; 2],
    cable: Option<Cable>,
    inner: Inner,
    fabric: Option<Fabric>,
}

impl Testbed {
    /// Takes it down. Goes on after an error and returns all of them.
    pub fn destroy(mut self) -> Vec<LabError> {
        let mut errors = self.client.destroy();
        errors.extend(self.sut.destroy());
        // Wires, controllers and switches of others' before the interfaces they hold.
        self.inner = Inner::default();
        errors.extend(self.fabric.take().and_then(|f| f.destroy().err()));
        errors
    }

    /// What there is to say about the path now: what it is made of, what its proof measured, what was lost on
    /// it. All keys begin with `path.`.
    #[must_use]
    pub fn path_facts(&self) -> BTreeMap<String, String> {
        self.inner.facts()
    }

    /// What cuts and restores the path. While it exists, an Open vSwitch of the path goes on, so it should go
    /// before the testbed does.
    pub fn path_switch(&mut self) -> PathSwitch {
        let (path, cable, ovs) = (&self.path, self.cable.clone(), self.inner.ovs.clone());
        PathSwitch::new(path, cable, ovs)
    }

    /// What the kernel counted at the client's and at the system under test's end, as each node sees it;
    /// `None` where an end can't be seen from here.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn counters(&self) -> Result<Option<[LinkStats; 2]>> {
        let [Some(client), Some(sut)] = &self.ends else { return Ok(None) };
        Ok(Some([client.read()?, sut.read()?]))
    }

    /// Starts capturing packets at the client's end: their headers, in memory. It takes time of the client's
    /// CPUs.
    ///
    /// # Errors
    ///
    /// Where the client's end can't be seen from here, or may not be.
    pub fn start_capture(&self) -> Result<Capture> {
        let [Some(client), _] = &self.ends else {
            let reason = "the client's end can't be captured: it shares the host's loopback".to_owned();
            return Err(LabError::Path { path: self.path.clone(), reason });
        };
        Capture::start(client, client.card()?, &self.allocation.client)
    }
}

impl Lab {
    /// Builds the testbed of a trial. The nodes' agents are started (a virtual machine still
    /// boots); they have not been spoken to.
    ///
    /// # Errors
    ///
    /// Where something is refused; what was built until then is taken down.
    pub fn build(&mut self, spec: &TestbedSpec) -> Result<Testbed> {
        self.build_at(spec, Seat::Alone)
    }

    /// As [`build`](Self::build), beside another testbed.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build); on a shared loopback there is room for one only.
    pub fn build_at(&mut self, spec: &TestbedSpec, seat: Seat) -> Result<Testbed> {
        if seat != Seat::Alone && !self.has_namespaces() {
            return Err(LabError::OnlyNative { kind: "paired" });
        }
        let allowed = sched::allowed_cpus().during(|| "find this host's CPUs".to_owned())?;
        let mut allocation = allocate(&allowed, &spec.budget, sched::core_siblings);
        if let Seat::Paired { upper, .. } = seat {
            allocation = allocation.half(upper);
        }
        let name = |role: &str| format!("{role}{}", seat.suffix());
        let client = NodeSpec { name: name("client"), cpus: allocation.client.clone(), memory: None };
        let sut = NodeSpec {
            name: name("sut"),
            cpus: allocation.sut.clone(),
            memory: Some(match &spec.environment.kind {
                EnvironmentKind::Vm(vm) => vm.memory,
                _ => spec.budget.sut_memory,
            }),
        };
        let mut notes = self.notes().to_vec();
        notes.extend(allocation.notes.iter().cloned());
        if !self.has_namespaces() {
            return self.build_on_loopback(spec, [client, sut], allocation, notes);
        }
        let mut parts = self.build_parts(spec, seat, [&client, &sut], &allocation, &mut notes)?;
        notes.extend(limits_note(&parts.sut));
        parts.inner.add_facts(plain_facts(&spec.path));
        Ok(Testbed {
            client: parts.client,
            sut: parts.sut,
            service_address: parts.service_address,
            allocation,
            notes,
            path: spec.path.name.clone(),
            ends: parts.ends,
            cable: parts.cable,
            inner: parts.inner,
            fabric: parts.fabric,
        })
    }

    fn build_on_loopback(
        &self,
        spec: &TestbedSpec,
        [client, sut]: [NodeSpec; 2],
        allocation: Allocation,
        mut notes: Vec<String>,
    ) -> Result<Testbed> {
        match spec.environment.kind {
            EnvironmentKind::Native => {}
            EnvironmentKind::Container => return Err(LabError::OnlyNative { kind: "container" }),
            EnvironmentKind::Vm(_) => return Err(LabError::OnlyNative { kind: "vm" }),
        }
        if spec.path.is_emulated() {
            notes.push(format!("path {}: loopback has no rate, delay or loss of its own", spec.path.name));
        }
        let client = self.add_native_node(&client)?;
        let sut = self.add_native_node(&sut)?;
        notes.extend(limits_note(&sut));
        let service_address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Ok(Testbed {
            client,
            sut,
            service_address,
            allocation,
            notes,
            path: spec.path.name.clone(),
            ends: [None, None],
            cable: None,
            inner: Inner::default(),
            fabric: None,
        })
    }

    fn build_parts(
        &mut self,
        spec: &TestbedSpec,
        seat: Seat,
        [client, sut]: [&NodeSpec; 2],
        allocation: &Allocation,
        notes: &mut Vec<String>,
    ) -> Result<Parts> {
        let path = &spec.path;
        if !path.kind.suits(&spec.environment.kind) {
            let reason = format!("`{}` doesn't suit environment {}", path.kind.word(), spec.environment.name);
            return Err(LabError::Path { path: path.name.clone(), reason });
        }
        if let PathKind::Nic(nic) = &path.kind {
            notes.push(format!("path {}: the remote host's CPUs and memory are not limited", path.name));
            let pair = self.build_remote(path, nic, [client, sut])?;
            let mut inner = Inner::default();
            inner.add_facts(pair.facts);
            let (client, sut, service_address) = (pair.client, pair.sut, pair.address);
            let ends = [Some(pair.end), None];
            return Ok(Parts { client, sut, service_address, ends, cable: None, inner, fabric: None });
        }
        if let PathKind::Mininet(switch) = path.kind {
            return self.build_mininet(spec, switch, seat, [client, sut], allocation);
        }
        let mut fabric = self.fabric()?.for_seat(seat.number());
        if path.kind == PathKind::Direct && !path.has_wire() {
            if matches!(spec.environment.kind, EnvironmentKind::Vm(_)) {
                notes.push(
                    "path direct: the virtual machine's tap is bridged to the client's cable".to_owned(),
                );
            } else {
                return self.build_direct(spec, fabric, [client, sut], allocation);
            }
        }
        if path.kind == PathKind::Direct && path.has_wire() {
            notes.push(
                "path direct: delay and loss need a wire of vtax's own, with a bridge at each end".to_owned(),
            );
        }
        let cpus = [&allocation.client, &allocation.sut];
        let mut between = self.build_between(path, &mut fabric, seat.number(), cpus)?;
        let client = self.plug_client(spec, client, &mut fabric, &mut between)?;
        let shape = between.shapes[1];
        let sut = match &spec.environment.kind {
            EnvironmentKind::Vm(vm @ VmOptions { fault_tolerance: Some(ft), .. }) => {
                let network = (&mut fabric, &*between.far());
                let node = self.add_pair_node(sut, (vm, ft), allocation, network, (shape, notes))?;
                let address = node.pair().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |pair| pair.address());
                // Its cards come and go with its hosts.
                Plugged { node, address, end: None, port: String::new() }
            }
            EnvironmentKind::Vm(vm) => {
                let (port, address) = fabric.vm_port(between.far(), shape)?;
                self.plugged_vm(sut, vm.vcpus, port, address)?
            }
            EnvironmentKind::Container => plugged(self.add_container_node(sut)?, &mut fabric, &mut between)?,
            EnvironmentKind::Native => plugged(self.add_native_node(sut)?, &mut fabric, &mut between)?,
        };
        between.start(&mut fabric)?;
        Ok(Parts {
            cable: Some(Cable { inside: None, interface: client.port }),
            client: client.node,
            sut: sut.node,
            service_address: sut.address,
            ends: [client.end, sut.end],
            inner: between.inner,
            fabric: Some(fabric),
        })
    }

    /// One cable from client to system under test.
    fn build_direct(
        &mut self,
        spec: &TestbedSpec,
        mut fabric: Fabric,
        [client, sut]: [&NodeSpec; 2],
        allocation: &Allocation,
    ) -> Result<Parts> {
        let mut inner = Inner::default();
        inner.add_facts(self.prove(&spec.path, [&allocation.client, &allocation.sut])?.facts());
        let mut client = self.add_native_node(client)?;
        let mut sut = match spec.environment.kind {
            EnvironmentKind::Container => self.add_container_node(sut)?,
            _ => self.add_native_node(sut)?,
        };
        let addresses = fabric.join(&mut client, &mut sut, Shape::of(&spec.path))?;
        if let (Some(mtu), Some(setup)) = (spec.path.sut_mtu, sut.interfaces.iter_mut().flatten().last()) {
            setup.mtu = mtu;
        }
        let [near, far] = [inside(&client)?, inside(&sut)?];
        let cable = Some(Cable::of(&far)?);
        let service_address = addresses[1];
        Ok(Parts {
            client,
            sut,
            service_address,
            ends: [Some(near), Some(far)],
            cable,
            inner,
            fabric: Some(fabric),
        })
    }

    /// Both agents in hosts of one Mininet.
    fn build_mininet(
        &mut self,
        spec: &TestbedSpec,
        switch: MininetSwitch,
        seat: Seat,
        [client, sut]: [&NodeSpec; 2],
        allocation: &Allocation,
    ) -> Result<Parts> {
        let path = &spec.path;
        use crate::netns_node::Network::Made;
        let network = Network::start(switch, path, &allocation.client)?;
        let hold = |which: usize| {
            network.hosts[which].try_clone().during(|| "hold the network of Mininet's hosts".to_owned())
        };
        let [mut client, mut sut] =
            [self.add_node_on(Made(hold(0)?), client)?, self.add_node_on(Made(hold(1)?), sut)?];
        let numbers = [1, 2].map(|n| n + seat.number() * 256);
        client.interfaces = Some(vec![network.setup(0, numbers[0], path.mtu)]);
        sut.interfaces = Some(vec![network.setup(1, numbers[1], path.mtu)]);
        let ends = [Some(inside(&client)?), Some(inside(&sut)?)];
        let (root, port) = network.switch.clone();
        let inner = Inner::of(network);
        let cable = Some(Cable { inside: Some(root), interface: port });
        let service_address = crate::naming::address(numbers[1]);
        Ok(Parts { client, sut, service_address, ends, cable, inner, fabric: None })
    }

    fn plug_client(
        &mut self,
        spec: &TestbedSpec,
        client: &NodeSpec,
        fabric: &mut Fabric,
        between: &mut Between,
    ) -> Result<Plugged> {
        let shape = between.shapes[0];
        match &spec.environment.kind {
            EnvironmentKind::Vm(vm) if spec.path.kind.has_client_vm() => {
                let (port, address) = fabric.vm_port(&mut between.near, shape)?;
                let spec = NodeSpec { memory: Some(vm.memory), ..client.clone() };
                self.plugged_vm(&spec, None, port, address)
            }
            _ => {
                let mut node = self.add_native_node(client)?;
                let (address, port) = fabric.plug_named(&mut node, &mut between.near, shape)?;
                Ok(Plugged { end: Some(inside(&node)?), node, address, port })
            }
        }
    }

    fn plugged_vm(
        &self,
        spec: &NodeSpec,
        vcpus: Option<u32>,
        port: VmPort,
        address: IpAddr,
    ) -> Result<Plugged> {
        let vcpus = vcpus.unwrap_or_else(|| u32::try_from(spec.cpus.len()).unwrap_or(1)).max(1);
        let name = port.name.clone();
        let end = Some(End::Tap { interface: name.clone(), card: port.mac });
        let node = self.add_vm_node(spec, vcpus, vec![port])?;
        Ok(Plugged { node, address, end, port: name })
    }
}

/// What a testbed is made of, but for what is said about it.
struct Parts {
    client: Node,
    sut: Node,
    service_address: IpAddr,
    ends: [Option<End>; 2],
    cable: Option<Cable>,
    inner: Inner,
    fabric: Option<Fabric>,
}

/// A node at its switch.
struct Plugged {
    node: Node,
    address: IpAddr,
    /// `None` where it can't be seen from here.
    end: Option<End>,
    /// The switch's port.
    port: String,
}

fn plugged(mut node: Node, fabric: &mut Fabric, between: &mut Between) -> Result<Plugged> {
    let shape = between.shapes[1];
    let (address, port) = fabric.plug_named(&mut node, between.far(), shape)?;
    Ok(Plugged { end: Some(inside(&node)?), node, address, port })
}

/// The newest interface of a node of namespaces.
fn inside(node: &Node) -> Result<End> {
    let refused = || LabError::OnlyNative { kind: "networked" };
    let netns = node.netns().ok_or_else(refused)?;
    let interface = node.interfaces().and_then(|all| all.last()).ok_or_else(refused)?.name.clone();
    let netns = netns.try_clone().during(|| format!("look into node {}", node.name()))?;
    Ok(End::Inside { netns, interface })
}

/// What a plan says about a path that a report needs beside what was measured.
fn plain_facts(path: &NetPath) -> [(String, String); 2] {
    [("path.kind".to_owned(), path.kind.word().to_owned()), ("path.mtu".to_owned(), path.mtu.to_string())]
}

/// What isn't held by a control group although it should be.
fn limits_note(sut: &Node) -> Vec<String> {
    let enforced = sut.enforced();
    let mut notes = Vec::new();
    if !enforced.cpus_by_group {
        notes.push(format!(
            "{} node: CPUs {} by affinity, not by a control group",
            sut.kind(),
            enforced.cpus
        ));
    }
    if enforced.memory.is_none() {
        notes.push(format!("{} node: its memory limit is not enforced by a control group", sut.kind()));
    }
    notes
}
