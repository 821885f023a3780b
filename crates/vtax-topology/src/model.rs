//! A topology as it is meant: routers with what they speak, and links.

use std::net::Ipv4Addr;

use crate::address::Prefix;
use crate::bfd::Bfd;
use crate::options::{Timers, Wire};

/// Routers, links, and where the ends of the path are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Its word in plans, or the name of a file's.
    pub name: String,
    /// In the order in which they are drawn and told.
    pub routers: Vec<Router>,
    /// Links between routers.
    pub links: Vec<Link>,
    /// Where the client is.
    pub client: Edge,
    /// Where the systems under test are.
    pub sut: Edge,
    /// Timers of every protocol.
    pub timers: Timers,
    /// Whether neighbours watch each other by BFD.
    pub bfd: Bfd,
}

/// A router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Router {
    /// Its name: also its host name.
    pub name: String,
    /// What it is in the topology.
    pub role: Role,
    /// Its address on `lo`, and its id in every protocol.
    pub id: Ipv4Addr,
    /// Routing tables beside the main one.
    pub vrfs: Vec<Vrf>,
    /// OSPF in the main table.
    pub ospf: bool,
    /// Label distribution on its links that have it.
    pub ldp: bool,
    /// BGP in the main table.
    pub bgp: Option<Bgp>,
    /// Networks that it makes up, for tables of a given size, with the VRF that has them.
    pub made_up: Option<MadeUp>,
}

/// What a router is in its topology; routers of one role are drawn in one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// At a customer's site.
    CustomerEdge,
    /// A provider's edge.
    ProviderEdge,
    /// In a provider's core.
    Provider,
    /// Has hosts.
    Leaf,
    /// Joins leaves.
    Spine,
    /// Nothing of these.
    Router,
}

/// A routing table of its own, whose routes are exchanged by a VPN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vrf {
    /// Its name, also that of its interface.
    pub name: String,
    /// The kernel's table.
    pub table: u32,
    /// Route distinguisher.
    pub distinguisher: String,
    /// Route target, imported and exported.
    pub target: String,
    /// Router id in the VRF.
    pub id: Ipv4Addr,
    /// The interface to the site, from whose OSPF routes are exported.
    pub site: String,
    /// A tunnel between the VRFs of two edges that stands in for a sham link.
    pub sham: Option<Sham>,
}

/// A stand-in for OSPF's sham link, which FRR doesn't have: a GRE tunnel inside the VRF over which OSPF runs. Data
/// never takes it: BGP's routes are preferred to OSPF's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sham {
    /// The tunnel's interface.
    pub interface: String,
    /// Its end here, an address of the VRF's own that only BGP tells of.
    pub local: Ipv4Addr,
    /// Its other end.
    pub remote: Ipv4Addr,
    /// Its address inside.
    pub address: Prefix,
    /// OSPF's cost, lower than the backdoor's.
    pub cost: u16,
}

/// BGP of a router's main table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bgp {
    /// Number of the autonomous system.
    pub system: u32,
    /// Whom it speaks to.
    pub neighbours: Vec<Neighbour>,
    /// Whether the networks on its own interfaces are told.
    pub tells_connected: bool,
}

/// A neighbour in BGP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub address: Ipv4Addr,
    /// Its autonomous system.
    pub system: u32,
    /// What is exchanged: VPN routes, from loopback to loopback; otherwise IPv4 routes on a link.
    pub vpn: bool,
}

/// Networks of 24 bits from 10.128.0.0 on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeUp {
    /// How many.
    pub count: u32,
    /// The table they are in.
    pub vrf: String,
}

/// A link between two routers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its ends.
    pub ends: [LinkEnd; 2],
    /// MTU in bytes.
    pub mtu: u32,
    /// What it does to packets.
    pub wire: Wire,
}

impl Link {
    /// What faults and pictures call it: `pe1-p1`, with a number where several join the same two.
    #[must_use]
    pub fn name(&self) -> String {
        let [one, other] = &self.ends;
        let number = one.interface.strip_prefix(&other.router).unwrap_or_default();
        format!("{}-{}{number}", one.router, other.router)
    }
}

/// One end of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkEnd {
    /// The router.
    pub router: String,
    /// Its interface.
    pub interface: String,
    /// Its address.
    pub address: Prefix,
    /// The VRF that it is in.
    pub vrf: Option<String>,
    /// OSPF's cost, where OSPF runs on it.
    pub ospf_cost: Option<u16>,
    /// Whether packets with labels come and go.
    pub labels: bool,
}

/// Where an end of the path is attached: a router's interface to the client or to the systems under test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The router.
    pub router: String,
    /// Its interface: `client` or `sut`.
    pub interface: String,
    /// The router's address; the others on the network come after it.
    pub address: Prefix,
    /// The VRF that it is in.
    pub vrf: Option<String>,
    /// Whether OSPF tells of the network.
    pub ospf: bool,
}

impl Topology {
    /// The router of this name.
    #[must_use]
    pub fn router(&self, name: &str) -> Option<&Router> {
        self.routers.iter().find(|router| router.name == name)
    }

    /// Both edges, the client's first.
    #[must_use]
    pub const fn edges(&self) -> [&Edge; 2] {
        [&self.client, &self.sut]
    }

    /// The ends of links at a router, with the router at the other end.
    pub fn ends_of<'a>(
        &'a self,
        router: &'a str,
    ) -> impl Iterator<Item = (&'a LinkEnd, &'a LinkEnd, &'a Link)> {
        self.links.iter().flat_map(move |link| {
            let [one, other] = &link.ends;
            [(one, other, link), (other, one, link)].into_iter().filter(move |(end, ..)| end.router == router)
        })
    }
}
