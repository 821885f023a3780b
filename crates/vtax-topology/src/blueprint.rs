//! What is built: nodes with their interfaces, files and daemons, and the cables between them.
//!
//! The same for the routers of a plan and for what a containerlab file names. It goes to the agent that builds it, on
//! the host or in a guest, so it is plain data.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::address::Prefix;
use crate::expect::Expectation;
use crate::frr::{self, Daemon};
use crate::model::{Edge, Link, MadeUp, Router, Topology};
use crate::options::Wire;

/// Everything that is built inside one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blueprint {
    /// Routers, hosts and bridges.
    pub nodes: Vec<Node>,
    /// Cables between two of their interfaces.
    pub cables: Vec<Cable>,
    /// Interfaces from outside that are moved into a node.
    pub doors: Vec<Door>,
    /// What must hold before it is used.
    pub expectations: Vec<Expectation>,
    /// Whether packets are to come one by one: a wire that holds them back or loses some would take a segment of up to 64 KiB for
    /// one packet.
    #[serde(default)]
    pub one_by_one: bool,
}

/// A network namespace with what runs in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Addresses of its loopback interface.
    pub loopback: Vec<Prefix>,
    /// Routing tables beside the main one.
    pub vrfs: Vec<Table>,
    /// Tunnels.
    pub tunnels: Vec<Tunnel>,
    /// Whether its kernel switches packets with labels.
    pub labels: bool,
    /// Files of its own, each at this place in the node: configuration and what else it is given.
    pub files: Vec<File>,
    /// Commands that are run in it once it stands, each a program with arguments.
    pub commands: Vec<Vec<String>>,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// A router with these daemons of FRR's, in the order in which they are started.
    Router(Vec<Daemon>),
    /// A namespace.
    Host,
    /// A bridge, into which all its interfaces are plugged.
    Bridge,
}

/// A VRF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Its name, also that of its interface.
    pub name: String,
    /// The kernel's table.
    pub table: u32,
    /// Addresses of its interface.
    pub addresses: Vec<Prefix>,
}

/// A GRE tunnel in a VRF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    /// Its interface.
    pub name: String,
    /// Its end here.
    pub local: Ipv4Addr,
    /// Its other end.
    pub remote: Ipv4Addr,
    /// The VRF that it is in, and by whose table its packets go.
    pub vrf: String,
    /// Its address inside.
    pub address: Prefix,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Where it is in the node: `/etc/frr/frr.conf`.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// A cable between two nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cable {
    /// What faults and pictures call it.
    pub name: String,
    /// Its ends.
    pub ends: [CableEnd; 2],
    /// MTU in bytes.
    pub mtu: u32,
    /// What it does to packets.
    pub wire: Wire,
}

/// One end of a cable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CableEnd {
    /// The node.
    pub node: String,
    /// Its interface.
    pub interface: Interface,
}

/// An interface as it is to be in its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its addresses; none where the node gives them itself.
    pub addresses: Vec<Prefix>,
    /// The VRF that it is in.
    pub vrf: Option<String>,
    /// Whether packets with labels come in by it.
    pub labels: bool,
}

/// An interface from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Door {
    /// What it is called outside: `client` or `sut`.
    pub name: String,
    /// The node that it is moved into.
    pub node: String,
    /// What it is there.
    pub interface: Interface,
    /// MTU in bytes.
    pub mtu: u32,
}

impl Blueprint {
    /// What is built of a topology whose edges have this MTU.
    #[must_use]
    pub fn of(topology: &Topology, mtu: u32) -> Self {
        Self {
            nodes: topology.routers.iter().map(|router| node(topology, router)).collect(),
            cables: topology.links.iter().map(cable).collect(),
            doors: topology.edges().into_iter().map(|edge| door(edge, mtu)).collect(),
            expectations: crate::expect::of(topology),
            one_by_one: topology.links.iter().any(|link| link.wire.is_emulated()),
        }
    }

    /// The blueprint without files and expectations: who is there and what joins them. A topology of ten thousand routes is
    /// as quickly looked at as any.
    #[must_use]
    pub fn outline(topology: &Topology) -> Self {
        let bare = |router: &Router| {
            let made_up = router.made_up.clone().map(|made_up| MadeUp { count: 0, ..made_up });
            Node { files: Vec::new(), ..node(topology, &Router { made_up, ..router.clone() }) }
        };
        Self {
            nodes: topology.routers.iter().map(bare).collect(),
            cables: topology.links.iter().map(cable).collect(),
            doors: topology.edges().into_iter().map(|edge| door(edge, 1500)).collect(),
            expectations: Vec::new(),
            one_by_one: topology.links.iter().any(|link| link.wire.is_emulated()),
        }
    }

    /// The node of this name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// The cable of this name.
    #[must_use]
    pub fn cable(&self, name: &str) -> Option<&Cable> {
        self.cables.iter().find(|cable| cable.name == name)
    }

    /// What the machine must have on which it is built.
    #[must_use]
    pub fn needs(&self) -> Needs {
        Needs {
            labels: self.nodes.iter().any(|node| node.labels),
            vrfs: self.nodes.iter().any(|node| !node.vrfs.is_empty()),
            tunnels: self.nodes.iter().any(|node| !node.tunnels.is_empty()),
            routers: self.nodes.iter().any(|node| matches!(node.kind, NodeKind::Router(_))),
            wires: self.cables.iter().any(|cable| cable.wire.is_emulated()),
            rates: self.cables.iter().any(|cable| cable.wire.rate.is_some()),
        }
    }
}

/// What a blueprint needs of the machine on which it is built.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needs {
    /// MPLS: modules `mpls_router` and `mpls_iptunnel`.
    pub labels: bool,
    /// VRF: module `vrf`.
    pub vrfs: bool,
    /// GRE: module `ip_gre`.
    pub tunnels: bool,
    /// FRR.
    pub routers: bool,
    /// Wires that hold packets back or lose some: module `sch_netem`.
    pub wires: bool,
    /// Wires with a rate: module `sch_tbf`.
    pub rates: bool,
}

impl Needs {
    /// Modules of a guest's kernel.
    #[must_use]
    pub fn modules(self) -> Vec<&'static str> {
        let mut modules = vec!["veth", "bridge", "sch_tbf", "sch_netem"];
        if self.labels {
            modules.extend(["mpls_router", "mpls_iptunnel", "mpls_gso"]);
        }
        if self.vrfs {
            modules.push("vrf");
        }
        if self.tunnels {
            modules.push("ip_gre");
        }
        modules
    }
}

fn node(topology: &Topology, router: &Router) -> Node {
    let vrfs = router.vrfs.iter().map(|vrf| Table {
        name: vrf.name.clone(),
        table: vrf.table,
        // The tunnel's end is an address of the VRF itself, so that it is reached whatever interface is down.
        addresses: vrf.sham.iter().map(|sham| Prefix::host(sham.local)).collect(),
    });
    let tunnels = router.vrfs.iter().filter_map(|vrf| {
        let sham = vrf.sham.as_ref()?;
        Some(Tunnel {
            name: sham.interface.clone(),
            local: sham.local,
            remote: sham.remote,
            vrf: vrf.name.clone(),
            address: sham.address,
        })
    });
    let file = File { path: FRR_CONF.to_owned(), text: frr::configuration(topology, router) };
    Node {
        name: router.name.clone(),
        kind: NodeKind::Router(frr::daemons(topology, router)),
        loopback: vec![Prefix::host(router.id)],
        vrfs: vrfs.collect(),
        tunnels: tunnels.collect(),
        labels: topology.ends_of(&router.name).any(|(end, ..)| end.labels),
        files: vec![file],
        commands: Vec::new(),
    }
}

/// Where FRR's daemons find what they are told.
pub const FRR_CONF: &str = "/etc/frr/frr.conf";

fn cable(link: &Link) -> Cable {
    let ends = link.ends.each_ref().map(|end| CableEnd {
        node: end.router.clone(),
        interface: Interface {
            name: end.interface.clone(),
            addresses: vec![end.address],
            vrf: end.vrf.clone(),
            labels: end.labels,
        },
    });
    Cable { name: link.name(), ends, mtu: link.mtu, wire: link.wire }
}

fn door(edge: &Edge, mtu: u32) -> Door {
    Door {
        name: edge.interface.clone(),
        node: edge.router.clone(),
        interface: Interface {
            name: edge.interface.clone(),
            addresses: vec![edge.address],
            vrf: edge.vrf.clone(),
            labels: false,
        },
        mtu,
    }
}

#[cfg(test)]
mod tests {
    use vtax_units::{BitRate, Nanos};

    use super::*;
    use crate::builtin::topology;
    use crate::options::{Choice, LeafSpine, MplsVpn};

    #[test]
    fn a_kernel_needs_what_the_wires_are_made_of() {
        let needs = |choice| Blueprint::outline(&topology(&choice)).needs();
        let plain = needs(Choice::LeafSpine(LeafSpine::default()));
        assert!(!plain.wires && !plain.rates);
        let rate = Some(BitRate(10_000_000));
        let slow = needs(Choice::LeafSpine(LeafSpine { link_rate: rate, ..LeafSpine::default() }));
        assert!(!slow.wires && slow.rates);
        let delay = Some(Nanos::from_millis(5));
        let vpn = MplsVpn { core_rate: rate, core_delay: delay, ..MplsVpn::default() };
        let both = needs(Choice::MplsVpn(vpn));
        assert!(both.wires && both.rates);
    }

    #[test]
    fn packets_come_one_by_one_where_they_are_held_back() {
        let of = |link_delay| {
            let choice = Choice::LeafSpine(LeafSpine { link_delay, ..LeafSpine::default() });
            Blueprint::of(&topology(&choice), 1500).one_by_one
        };
        assert!(!of(None) && of(Some(Nanos::from_millis(5))));
    }
}
