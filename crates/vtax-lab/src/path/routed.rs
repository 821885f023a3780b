//! Routers between client and systems under test, all inside one lab node: a process on the host, or a guest.

use std::net::{IpAddr, Ipv4Addr};

use vtax_agent::message::{DoorSetup, Route};
use vtax_plan::model::NetPath;
use vtax_topology::blueprint::Needs;
use vtax_topology::builtin::topology;
use vtax_topology::options::{Choice, RoutedOptions, RouterHost};
use vtax_topology::{Blueprint, Prefix, Topology};
use vtax_units::{Bytes, CpuSet, Nanos, fact};

use super::parts::PathParts;
use super::path_builder::{PathBuilder, no_routers};
use super::switched::{self, Switches};
use super::{Built, Cable, Site};
use crate::attachment::Attachment;
use crate::budget::Allocation;
use crate::error::{LabError, Result};
use crate::fabric::{Fabric, Switch};
use crate::lab::Lab;
use crate::link::{Emulation, LinkProperties};
use crate::node::Node;
use crate::spec::{NodeSpec, TestbedSpec};

/// How long routers have to agree, their daemons running: the study's VPN takes half a minute under emulation.
const PATIENCE: Nanos = Nanos::from_secs(120);
/// What each line of their configuration adds: ten thousand routes take two minutes under emulation, and others may want its CPUs.
const LINE_PATIENCE: Nanos = Nanos::from_millis(30);
/// Memory of a guest that holds routers, without any.
const GUEST_MEMORY: u64 = 384;
/// Memory that each router takes besides, in mebibytes: five daemons.
const ROUTER_MEMORY: u64 = 48;

/// How long these routers have to agree.
fn patience(blueprint: &Blueprint) -> Nanos {
    let files = blueprint.nodes.iter().flat_map(|node| &node.files);
    let lines: usize = files.map(|file| file.text.lines().count()).sum();
    Nanos(PATIENCE.0.saturating_add(LINE_PATIENCE.0.saturating_mul(lines as u64)))
}

/// What a testbed's routers are to be, for whoever talks to the agent of the node that holds them.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutedSetup {
    /// What is built inside it.
    pub blueprint: Blueprint,
    /// The interfaces that lead to it.
    pub doors: Vec<DoorSetup>,
    /// How long its routers have to agree.
    pub patience: Nanos,
    /// The CPUs that a guest is left with when they do: while they start it has those of both sides, as nothing is
    /// measured yet.
    pub left_with: Option<CpuSet>,
}

impl RoutedSetup {
    /// How many CPUs the node itself is to keep when its routers agree; `None` where it was lent none.
    #[must_use]
    pub fn cpus_kept(&self) -> Option<u32> {
        self.left_with.as_ref().map(|cpus| u32::try_from(cpus.len()).unwrap_or(u32::MAX))
    }
}

/// Routers of a topology.
pub(super) struct Routed<'a>(pub(super) &'a RoutedOptions);

/// Where the routers of these options have to run: on the host (`None`), or in a guest, and why. `lossy_links` as
/// [`TestbedSpec`]'s.
///
/// # Errors
///
/// Why they can run nowhere.
fn place(options: &RoutedOptions, lossy_links: bool) -> Result<Option<String>, String> {
    let needs = needs(options, lossy_links);
    let on_host = || vtax_router::obstacle(needs);
    if needs.routers && !vtax_router::installed() {
        // A guest has the host's files.
        return Err(on_host().unwrap_or_else(|| "FRR is not installed".to_owned()));
    }
    match options.place {
        RouterHost::Host => on_host().map_or(Ok(None), Err),
        RouterHost::Guest => Ok(Some("as the plan says".to_owned())),
        RouterHost::Auto => Ok(on_host()),
    }
}

fn needs(options: &RoutedOptions, lossy_links: bool) -> Needs {
    let needs = Blueprint::outline(&topology(&options.topology)).needs();
    Needs { wires: needs.wires || lossy_links, ..needs }
}

/// What is built of a topology whose edges have this MTU.
fn blueprint(topology: &Topology, mtu: u32, lossy_links: bool) -> Blueprint {
    let mut blueprint = Blueprint::of(topology, mtu);
    blueprint.one_by_one |= lossy_links;
    blueprint
}

/// Whether a guest has to hold the routers of these options on this host, with `lossy_links` as [`TestbedSpec`]'s. Features of the
/// kernel are tried, so call it where namespaces can be made.
#[must_use]
pub fn needs_guest(options: &RoutedOptions, lossy_links: bool) -> bool {
    matches!(place(options, lossy_links), Ok(Some(_)))
}

/// Why routers of these options can't be had on this host, with the way out; `None` where they can. `lossy_links` as
/// [`TestbedSpec`]'s, and whether there are guests.
#[must_use]
pub fn routers_obstacle(options: &RoutedOptions, lossy_links: bool, has_guests: bool) -> Option<String> {
    match place(options, lossy_links) {
        Err(reason) => Some(reason),
        Ok(Some(why)) if !has_guests => Some(format!(
            "its routers need a guest ({why}), and none can be made here; `vtax setup` fetches what it takes"
        )),
        Ok(_) => None,
    }
}

impl PathBuilder for Routed<'_> {
    fn suits(&self, spec: &TestbedSpec) -> Result<(), String> {
        no_routers(spec, "it has routers of its own")
    }

    fn obstacle(&self, lab: &Lab) -> Option<String> {
        routers_obstacle(self.0, false, lab.guest_template().is_some())
    }

    fn build(&self, site: &mut Site<'_>) -> Result<Built> {
        let lossy_links = site.spec.lossy_links;
        let guest = place(self.0, lossy_links).map_err(|reason| site.refuse(reason))?;
        let path = site.path();
        let topology = topology(&self.0.topology);
        let blueprint = blueprint(&topology, path.mtu, lossy_links);
        let mut properties = LinkProperties::of(path);
        properties.offloads &= !blueprint.one_by_one;
        let mut fabric = site.fabric()?;
        let mut parts = PathParts::default();
        parts.add_facts(site.prove(path)?.facts());
        parts.add_facts(facts(guest.as_deref()));
        parts.add_facts([(fact::PATH_OFFLOADS.to_owned(), properties.offloads.to_string())]);
        let mut near = Switches::one(fabric.add_switch(path.mtu)?);
        if let Some(emulation) = Emulation::of(path) {
            parts.emulator = Some(near.emulate(&mut fabric, emulation, site, properties)?);
        }
        let mut far = fabric.add_switch(path.mtu)?;
        let mut client = switched::plug_client(site, &mut fabric, &mut near, properties)?;
        attach(&mut client.node.attachment, topology.client.address, 1);
        let (routers, doors) =
            holder(site, guest.is_some(), &topology, (&mut fabric, near.far(), &mut far), properties)?;
        let own = &site.allocation.client;
        let left_with = (guest.is_some() && lent(site.allocation) != *own).then(|| own.clone());
        let far_side = LinkProperties { mtu: path.sut_mtu.unwrap_or(path.mtu), ..properties.unlimited() };
        let mut suts = Vec::with_capacity(site.suts.len());
        for number in 0..site.suts.len() {
            let mut placed = switched::plug_sut(site, number, (&mut fabric, &mut far), far_side)?;
            // The router has the network's first address.
            let address = u32::try_from(number).unwrap_or(0) + 1;
            placed.address = attach(&mut placed.node.attachment, topology.sut.address, address);
            suts.push(placed);
        }
        near.start(&mut fabric)?;
        fabric.start(&far)?;
        let patience = patience(&blueprint);
        parts.routed = Some(RoutedSetup { blueprint, doors, patience, left_with });
        Ok(Built {
            client: client.node,
            client_end: Some(client.end),
            generators: Vec::new(),
            routers: vec![routers],
            suts,
            cable: Some(Cable { inside: None, interface: client.port }),
            parts,
            fabric: Some(fabric),
        })
    }

    fn facts(&self, path: &NetPath) -> Vec<(String, String)> {
        let word = match &self.0.topology {
            Choice::Custom(written) => format!("custom, {} routers", written.routers.len()),
            choice => choice.word().to_owned(),
        };
        vec![
            ("path.kind".to_owned(), path.kind.word().to_owned()),
            ("path.mtu".to_owned(), path.mtu.to_string()),
            ("path.topology".to_owned(), word),
        ]
    }
}

fn facts(guest: Option<&str>) -> [(String, String); 2] {
    let (place, why) = match guest {
        None => ("host", "its kernel has what the topology needs"),
        Some(why) => ("guest", why),
    };
    [(fact::PATH_PLACE.to_owned(), place.to_owned()), ("path.place.why".to_owned(), why.to_owned())]
}

/// Gives a node its address on an edge's network, so many above the router's, and the router as its way to everywhere
/// else; returns the address.
fn attach(node: &mut Attachment, router: Prefix, above: u32) -> IpAddr {
    let lowest = u32::from(router.address).wrapping_add(above);
    let address = IpAddr::V4(Ipv4Addr::from(lowest));
    if let Some(setup) = node.interfaces.iter_mut().flatten().next_back() {
        setup.addresses = vec![(address, router.length)];
        let everywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let gateway = Some(IpAddr::V4(router.address));
        setup.routes = vec![Route::new(everywhere, 0, gateway)];
    }
    address
}

/// The CPUs of a guest while its routers start.
fn lent(allocation: &Allocation) -> CpuSet {
    CpuSet::of(allocation.client.iter().chain(allocation.sut.iter()))
}

/// The node that holds all routers, plugged into the switches on both sides, and how its doors are found.
fn holder(
    site: &Site<'_>,
    in_guest: bool,
    topology: &Topology,
    (fabric, near, far): (&mut Fabric, &mut Switch, &mut Switch),
    properties: LinkProperties,
) -> Result<(Node, Vec<DoorSetup>)> {
    let name = site.slot.node_name("routers", 0);
    let mut node = if in_guest {
        let cpus = lent(site.allocation);
        let count = topology.routers.len() as u64;
        let memory = Bytes::from_mib(GUEST_MEMORY + ROUTER_MEMORY * count);
        let vcpus = u32::try_from(cpus.len()).unwrap_or(1).max(1);
        let spec = NodeSpec { cpus, memory: Some(memory), ..NodeSpec::new(name) };
        let ports = vec![fabric.vm_port(near, properties)?.0, fabric.vm_port(far, properties.unlimited())?.0];
        site.lab.add_vm_node(&spec, vcpus, ports)?
    } else {
        let spec = NodeSpec { cpus: site.allocation.client.clone(), ..NodeSpec::new(name) };
        let mut node = site.lab.add_native_node(&spec)?;
        fabric.plug(&mut node, near, properties)?;
        fabric.plug(&mut node, far, properties.unlimited())?;
        node
    };
    // Addresses are the routers': the agent only finds these interfaces and moves them.
    let interfaces = node.attachment.interfaces.replace(Vec::new()).unwrap_or_default();
    let doors = ["client", "sut"].into_iter().zip(interfaces);
    let doors: Vec<DoorSetup> =
        doors.map(|(door, setup)| DoorSetup { door: door.to_owned(), find: setup.find }).collect();
    if doors.len() == 2 {
        Ok((node, doors))
    } else {
        let what = format!("the routers' node of path {} has not two interfaces", site.path().name);
        Err(LabError::Defect { what })
    }
}

#[cfg(test)]
mod tests {
    use vtax_topology::options::LeafSpine;

    use super::*;

    #[test]
    fn a_link_that_will_lose_packets_needs_what_one_does_that_always_loses_some() {
        let topology = Choice::LeafSpine(LeafSpine::default());
        let options = RoutedOptions { topology, place: RouterHost::Auto, hops: false };
        let plain = needs(&options, false);
        assert!(!plain.wires);
        assert_eq!(needs(&options, true), Needs { wires: true, ..plain });
        let topology = super::topology(&options.topology);
        let one_by_one = |lossy_links| blueprint(&topology, 1500, lossy_links).one_by_one;
        assert_eq!([false, true].map(one_by_one), [false, true]);
    }
}
