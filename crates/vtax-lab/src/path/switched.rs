//! What paths over switches have in common.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vtax_plan::model::{Addressing, EnvironmentKind, NetPath, StartOrder, VmOptions, Wiring};
use vtax_units::fact;

use super::cards;
use super::parts::PathParts;
use super::routers::Row;
use super::site::newest_end;
use super::{Built, Cable, End, Placed, Site};
use crate::dhcp::{self, DhcpServer};
use crate::error::{LabError, Result};
use crate::fabric::{Fabric, Switch, VmPort};
use crate::link::{Emulation, LinkEmulator, LinkProperties};
use crate::node::Node;
use crate::nodes::protected::{self, ProtectedVm};
use crate::ovs::Ovs;
use crate::spec::NodeSpec;
use crate::stop::StopFlag;

/// What has to be said of every user-mode Linux.
const UML: &str = "user-mode Linux is no virtual machine: it has one CPU, takes each system call by ptrace, at some \
                   microseconds each, and computes at the host's speed; what it costs says nothing of virtual machines";
/// How long a virtual machine may take to boot before the next one starts.
const BOOT_WITHIN: Duration = Duration::from_secs(90);

/// The switches of a path, without ports yet.
pub(super) struct Switches {
    /// Where the client, or the last router, is plugged in.
    pub(super) near: Switch,
    /// Where the systems under test are; `None`: on the same switch.
    pub(super) far: Option<Switch>,
    pub(super) ovs: Option<Arc<Ovs>>,
    /// Whether the far switch's ports have no limit.
    pub(super) unlimited_far: bool,
    /// Whether the client is a virtual machine.
    pub(super) guest_client: bool,
}

impl Switches {
    /// One for all.
    pub(super) const fn one(near: Switch) -> Self {
        Self { near, far: None, ovs: None, unlimited_far: false, guest_client: false }
    }

    pub(super) fn far(&mut self) -> &mut Switch {
        self.far.as_mut().unwrap_or(&mut self.near)
    }

    /// Has all of them forward from now on.
    pub(super) fn start(&self, fabric: &mut Fabric) -> Result<()> {
        fabric.start(&self.near)?;
        self.far.iter().try_for_each(|far| fabric.start(far))
    }

    /// Puts a link emulator in front of the switches, with a switch of its own for the client.
    pub(super) fn emulate(
        &mut self,
        fabric: &mut Fabric,
        emulation: Emulation,
        site: &Site<'_>,
        properties: LinkProperties,
    ) -> Result<LinkEmulator> {
        let mut outer = fabric.add_switch(properties.mtu)?;
        let taps = fabric.taps([&mut outer, &mut self.near], properties, emulation.loss == 0.0)?;
        let taps = taps.map(|(tap, _)| tap);
        let emulator = LinkEmulator::start(taps, emulation, &site.allocation.client)?;
        fabric.start(&self.near)?;
        let middle = std::mem::replace(&mut self.near, outer);
        self.far.get_or_insert(middle);
        Ok(emulator)
    }
}

/// Builds a path over the switches that `make` makes, and plugs all nodes in. `path` is the plan's with the
/// offloads that are possible on it.
pub(super) fn build(
    site: &mut Site<'_>,
    path: &NetPath,
    make: impl FnOnce(&mut Site<'_>, &mut Fabric, &NetPath) -> Result<Switches>,
) -> Result<Built> {
    let fabric = site.fabric()?;
    build_on(site, path, fabric, make)
}

/// As [`build`], with switches of this fabric.
pub(super) fn build_on(
    site: &mut Site<'_>,
    path: &NetPath,
    mut fabric: Fabric,
    make: impl FnOnce(&mut Site<'_>, &mut Fabric, &NetPath) -> Result<Switches>,
) -> Result<Built> {
    let wire = LinkProperties::of(path);
    let near = shared(path);
    let mut parts = PathParts::default();
    parts.add_facts(site.prove(path)?.facts());
    parts.add_facts([(fact::PATH_OFFLOADS.to_owned(), path.offloads.to_string())]);
    let mut switches = make(site, &mut fabric, path)?;
    parts.ovs = switches.ovs.clone();
    if let Some(emulation) = Emulation::of(path) {
        parts.emulator = Some(switches.emulate(&mut fabric, emulation, site, near)?);
    }
    let mut client = plug_client(site, &mut fabric, &mut switches, near)?;
    let far = if switches.unlimited_far && path.wires == Wiring::Shared { wire.unlimited() } else { wire };
    let far = LinkProperties { mtu: path.sut_mtu.unwrap_or(path.mtu), ..far };
    let mut suts: Vec<Placed> = Vec::with_capacity(site.suts.len());
    for number in 0..site.suts.len() {
        if let Some(before) = suts.last() {
            await_turn(site.spec.start, before, site.lab.stop())?;
        }
        suts.push(plug_sut(site, number, (&mut fabric, switches.far()), far)?);
    }
    cards::join(&mut client.node.attachment, &mut suts);
    switches.start(&mut fabric)?;
    if path.addresses == Addressing::Dhcp {
        let addresses: Vec<IpAddr> = suts.iter_mut().filter_map(|sut| dhcp::ask(&mut sut.node)).collect();
        let cpus = &site.allocation.client;
        parts.dhcp = Some(DhcpServer::start(&mut fabric, switches.far(), far, &addresses, cpus)?);
    }
    Ok(Built {
        client: client.node,
        client_end: Some(client.end),
        generators: Vec::new(),
        routers: client.routers,
        suts,
        cable: Some(Cable { inside: fabric.inside().cloned(), interface: client.port }),
        parts,
        fabric: Some(fabric),
    })
}

/// The links of a path that all systems share: without a limit where each has a wire of its own.
pub(super) fn shared(path: &NetPath) -> LinkProperties {
    let wire = LinkProperties::of(path);
    match path.wires {
        Wiring::Shared => wire,
        Wiring::Own => wire.unlimited(),
    }
}

/// Waits until the next system may start: after the one before, in a row.
fn await_turn(order: StartOrder, before: &Placed, stop: &StopFlag) -> Result<()> {
    match order {
        StartOrder::Together => {}
        StartOrder::Gap(gap) => stop.pause(gap.into()),
        StartOrder::OneByOne => {
            // What isn't a virtual machine is up at once.
            let booted = before.node.ask_vm(|vm| {
                stop.pause_while(BOOT_WITHIN, || vm.is_booting());
                if stop.is_raised() { Ok(()) } else { vm.wait_ready(Instant::now()) }
            });
            let booted = booted.unwrap_or(Ok(()));
            booted.map_err(|source| LabError::vm(before.node.name(), source))?;
        }
    }
    if stop.is_raised() { Err(LabError::Stopped) } else { Ok(()) }
}

/// The client's side of the path.
pub(super) struct Client {
    pub(super) node: Node,
    routers: Vec<Node>,
    pub(super) end: End,
    /// The port of the near switch that leads to it.
    pub(super) port: String,
}

pub(super) fn plug_client(
    site: &mut Site<'_>,
    fabric: &mut Fabric,
    switches: &mut Switches,
    properties: LinkProperties,
) -> Result<Client> {
    let as_guest = match &site.spec.suts[0].environment.kind {
        EnvironmentKind::Vm(vm) if switches.guest_client => Some(vm.memory),
        _ => None,
    };
    match site.spec.guest_client.or(as_guest) {
        Some(memory) => {
            let (port, _) = fabric.vm_port(&mut switches.near, properties)?;
            let spec = NodeSpec { memory: Some(memory), ..site.client.clone() };
            let (end, name) = (port.end(), port.name.clone());
            let node = start_guest(site, &spec, None, vec![port])?;
            Ok(Client { node, routers: Vec::new(), end, port: name })
        }
        None => {
            let mut row = Row::start(site, fabric)?;
            let (_, port) = fabric.plug_named(row.last(), &mut switches.near, properties)?;
            let (node, routers) = row.into_nodes();
            Ok(Client { end: newest_end(&node)?, node, routers, port })
        }
    }
}

/// Plugs in something whose card is a tap. What a tap's owner sends comes in by it, where the kernel limits nothing, so where its wire
/// has a rate of its own there is a switch before the wire.
fn at_wire<T>(
    path: &NetPath,
    (fabric, switch): (&mut Fabric, &mut Switch),
    properties: LinkProperties,
    plug: impl FnOnce(&mut Fabric, &mut Switch, LinkProperties) -> Result<T>,
) -> Result<T> {
    if path.wires == Wiring::Shared || path.rate.is_none() {
        return plug(fabric, switch, properties);
    }
    let mut card = fabric.add_switch(properties.mtu)?;
    fabric.uplink(&mut card, switch, properties)?;
    fabric.start(&card)?;
    plug(fabric, &mut card, properties.unlimited())
}

pub(super) fn plug_sut(
    site: &mut Site<'_>,
    number: usize,
    (fabric, switch): (&mut Fabric, &mut Switch),
    properties: LinkProperties,
) -> Result<Placed> {
    let spec = site.suts[number].clone();
    let mut node = match &site.spec.suts[number].environment.kind {
        EnvironmentKind::Vm(vm @ VmOptions { fault_tolerance: Some(ft), .. }) => {
            let base = site.lab.pair_base(&spec.name)?;
            let (node, allocation) = (&spec, site.allocation);
            let asked = ProtectedVm { base, node, vm, ft, allocation, link: properties };
            let node = protected::start(asked, fabric, switch, &mut site.notes)?;
            let address = node.pair().map_or(IpAddr::from([0; 4]), |pair| pair.address());
            // Its cards come and go with its hosts.
            return Ok(Placed { node, address, ends: Vec::new() });
        }
        EnvironmentKind::Vm(vm) => {
            let (path, card) = (site.path(), (vm.nic, vm.tuning));
            let mut port = || {
                at_wire(path, (fabric, switch), properties, |fabric, switch, properties| {
                    fabric.vm_port_for(switch, properties, card)
                })
            };
            let (mut ports, mut addresses) = (Vec::new(), Vec::new());
            for _ in 0..site.path().cards.get() {
                let (port, address) = port()?;
                ports.push(port);
                addresses.push(address);
            }
            let ends = ports.iter().map(VmPort::end).collect();
            let mut node = start_guest(site, &spec, vm.vcpus, ports)?;
            let address = cards::tell_apart(&mut node.attachment, fabric).unwrap_or(addresses[0]);
            return Ok(Placed { node, address, ends });
        }
        EnvironmentKind::Uml => {
            let (port, address) = at_wire(site.path(), (fabric, switch), properties, Fabric::uml_port)?;
            let node = site.lab.add_uml_node(&spec, port)?;
            site.notes.push(UML.to_owned());
            // It receives by a packet socket beside its tap, which counts what it got as dropped.
            return Ok(Placed { node, address, ends: Vec::new() });
        }
        EnvironmentKind::Container => site.lab.add_container_node(&spec)?,
        EnvironmentKind::Native => site.lab.add_native_node(&spec)?,
    };
    let address = fabric.plug(&mut node, switch, properties)?;
    let mut ends = vec![newest_end(&node)?];
    for _ in 1..site.path().cards.get() {
        fabric.plug(&mut node, switch, properties)?;
        ends.push(newest_end(&node)?);
    }
    let address = cards::tell_apart(&mut node.attachment, fabric).unwrap_or(address);
    Ok(Placed { ends, node, address })
}

/// Starts a virtual machine with a card at each of these ports.
fn start_guest(site: &Site<'_>, spec: &NodeSpec, vcpus: Option<u32>, ports: Vec<VmPort>) -> Result<Node> {
    let vcpus = vcpus.unwrap_or_else(|| u32::try_from(spec.cpus.len()).unwrap_or(1)).max(1);
    site.lab.add_vm_node(spec, vcpus, ports)
}
