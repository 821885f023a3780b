//! What must hold before a topology is used.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::address::Prefix;
use crate::model::{LinkEnd, Topology};

/// Something that must hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "holds", rename_all = "kebab-case")]
pub enum Expectation {
    /// Two routers are fully adjacent in OSPF.
    Adjacency {
        /// The router that is asked.
        router: String,
        /// In which VRF.
        vrf: Option<String>,
        /// The neighbour's router id.
        neighbour: Ipv4Addr,
    },
    /// Two routers exchange labels.
    LabelSession {
        /// The router that is asked.
        router: String,
        /// The neighbour's router id.
        neighbour: Ipv4Addr,
    },
    /// Two routers exchange routes by BGP.
    Peering {
        /// The router that is asked.
        router: String,
        /// The neighbour's address.
        neighbour: Ipv4Addr,
    },
    /// A router's kernel has a route.
    Route {
        /// The router that is asked.
        router: String,
        /// In which VRF.
        vrf: Option<String>,
        /// Where to.
        destination: Prefix,
        /// At least so many labels are put onto packets.
        labels: u32,
    },
    /// The two ends of the path reach each other; the answer of the far one has a time to live within these bounds.
    /// Not every router of a VPN counts: where one takes the outer label off, Linux leaves the inner one's as it was.
    Reach {
        /// The router at which the near end is.
        router: String,
        /// In which VRF.
        vrf: Option<String>,
        /// The address that asks: the near router's on the near end's network, which the far one has a route to.
        source: Ipv4Addr,
        /// The address that is asked: the far router's on the far end's network.
        address: Ipv4Addr,
        /// The lowest time to live of its answer as the router sees it: each router on the way has taken one.
        least: u8,
        /// The highest.
        most: u8,
    },
    /// Packets between the two ends carry labels on a cable, at least so many, as a capture sees them.
    Stack {
        /// The router at which they are captured.
        router: String,
        /// Its interface.
        interface: String,
        /// At least so many.
        labels: u32,
    },
}

/// Stages of a bring-up, in the order in which they are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Namespaces, cables, addresses.
    Interfaces,
    /// Daemons run and took their configuration.
    Daemons,
    /// OSPF.
    Adjacencies,
    /// LDP.
    LabelSessions,
    /// BGP.
    Peerings,
    /// Routes in the kernels.
    Routes,
    /// The ends reach each other, with the time to live and the labels that are expected.
    Reach,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Interfaces,
        Self::Daemons,
        Self::Adjacencies,
        Self::LabelSessions,
        Self::Peerings,
        Self::Routes,
        Self::Reach,
    ];

    /// Its word in facts.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Interfaces => "interfaces",
            Self::Daemons => "daemons",
            Self::Adjacencies => "adjacencies",
            Self::LabelSessions => "label-sessions",
            Self::Peerings => "peerings",
            Self::Routes => "routes",
            Self::Reach => "reach",
        }
    }
}

impl Expectation {
    /// The stage that it belongs to.
    #[must_use]
    pub const fn stage(&self) -> Stage {
        match self {
            Self::Adjacency { .. } => Stage::Adjacencies,
            Self::LabelSession { .. } => Stage::LabelSessions,
            Self::Peering { .. } => Stage::Peerings,
            Self::Route { .. } => Stage::Routes,
            Self::Reach { .. } | Self::Stack { .. } => Stage::Reach,
        }
    }

    /// The router that is asked.
    #[must_use]
    pub fn router(&self) -> &str {
        match self {
            Self::Adjacency { router, .. }
            | Self::LabelSession { router, .. }
            | Self::Peering { router, .. }
            | Self::Route { router, .. }
            | Self::Reach { router, .. }
            | Self::Stack { router, .. } => router,
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inside = |vrf: &Option<String>| vrf.as_ref().map_or(String::new(), |vrf| format!(" (VRF {vrf})"));
        match self {
            Self::Adjacency { router, vrf, neighbour } => {
                write!(f, "{router}{}: OSPF adjacency with {neighbour}", inside(vrf))
            }
            Self::LabelSession { router, neighbour } => write!(f, "{router}: LDP session with {neighbour}"),
            Self::Peering { router, neighbour } => write!(f, "{router}: BGP session with {neighbour}"),
            Self::Route { router, vrf, destination, labels: 0 } => {
                write!(f, "{router}{}: route to {destination}", inside(vrf))
            }
            Self::Route { router, vrf, destination, labels } => {
                write!(f, "{router}{}: route to {destination} with {labels} labels", inside(vrf))
            }
            Self::Reach { router, vrf, address, least, most, .. } => {
                write!(
                    f,
                    "{router}{}: answer of {address} with a time to live of {least} to {most}",
                    inside(vrf)
                )
            }
            Self::Stack { router, interface, labels } => {
                write!(f, "{router}: packets with {labels} labels on {interface}")
            }
        }
    }
}

/// Time to live of what a Linux host sends.
const FIRST_TTL: u8 = 64;

/// Everything that must hold in a topology.
#[must_use]
pub fn of(topology: &Topology) -> Vec<Expectation> {
    let mut all = BTreeSet::new();
    for link in &topology.links {
        let [one, other] = &link.ends;
        all.extend(neighbours(topology, one, other));
        all.extend(neighbours(topology, other, one));
    }
    all.extend(shams(topology));
    for router in &topology.routers {
        let peers = router.bgp.iter().flat_map(|bgp| &bgp.neighbours);
        all.extend(
            peers.map(|peer| Expectation::Peering { router: router.name.clone(), neighbour: peer.address }),
        );
    }
    all.extend(edges(topology));
    all.into_iter().collect()
}

/// The id by which a neighbour is known at the end of a link: that of its VRF, where the end is in one.
fn id_at(topology: &Topology, end: &LinkEnd) -> Option<Ipv4Addr> {
    let router = topology.router(&end.router)?;
    match &end.vrf {
        None => Some(router.id),
        Some(name) => router.vrfs.iter().find(|vrf| vrf.name == *name).map(|vrf| vrf.id),
    }
}

fn neighbours(topology: &Topology, here: &LinkEnd, there: &LinkEnd) -> Vec<Expectation> {
    let Some(neighbour) = id_at(topology, there) else { return Vec::new() };
    let router = here.router.clone();
    let mut found = Vec::new();
    if here.ospf_cost.is_some() && there.ospf_cost.is_some() {
        found.push(Expectation::Adjacency { router: router.clone(), vrf: here.vrf.clone(), neighbour });
    }
    if here.labels && there.labels {
        found.push(Expectation::LabelSession { router, neighbour });
    }
    found
}

/// Adjacencies over tunnels that stand in for sham links.
fn shams(topology: &Topology) -> Vec<Expectation> {
    let mut found = Vec::new();
    for router in &topology.routers {
        for vrf in &router.vrfs {
            let Some(sham) = &vrf.sham else { continue };
            // The other edge's id in its VRF is its tunnel's end.
            found.push(Expectation::Adjacency {
                router: router.name.clone(),
                vrf: Some(vrf.name.clone()),
                neighbour: sham.remote,
            });
        }
    }
    found
}

/// Routes between the two ends, that they reach each other, and the labels on the way.
fn edges(topology: &Topology) -> Vec<Expectation> {
    let mut found = Vec::new();
    let [client, sut] = topology.edges();
    if client.router == sut.router {
        return found;
    }
    for (here, there) in [(client, sut), (sut, client)] {
        found.push(Expectation::Route {
            router: here.router.clone(),
            vrf: here.vrf.clone(),
            destination: there.address.network(),
            labels: 0,
        });
    }
    let around = is_around(topology);
    let Some(way) = way(topology, around) else { return found };
    let between = u8::try_from(way.len().saturating_sub(2)).unwrap_or(FIRST_TTL);
    // Of a topology that was written out there may be ways that are as good and longer.
    let longest = u8::try_from(topology.routers.len()).unwrap_or(FIRST_TTL);
    let taken = if topology.name == CUSTOM { longest } else { between };
    found.push(Expectation::Reach {
        router: client.router.clone(),
        vrf: client.vrf.clone(),
        source: client.address.address,
        address: sut.address.address,
        least: FIRST_TTL.saturating_sub(taken),
        // Each router between the two takes one.
        most: FIRST_TTL - u8::from(between > 0),
    });
    if !around {
        found.extend(stack(topology, &way));
    }
    found
}

/// Name of a topology that was written out.
const CUSTOM: &str = "custom";
/// OSPF's cost beyond which a link is a way round.
const DEAR: u16 = 500;
/// What a link without a cost of OSPF's counts.
const USUAL: u16 = 10;

/// Whether data goes around a VPN: where a link joins its sites and nothing stands in for a sham link, as OSPF prefers
/// its own area's routes to what comes from outside, whatever they cost.
fn is_around(topology: &Topology) -> bool {
    let ends = || topology.links.iter().flat_map(|link| &link.ends);
    let vrfs = || topology.routers.iter().flat_map(|router| &router.vrfs);
    let has_backdoor = ends().any(|end| end.ospf_cost.is_some_and(|cost| cost > DEAR));
    vrfs().next().is_some() && has_backdoor && vrfs().all(|vrf| vrf.sham.is_none())
}

/// Routers on the cheapest way from the client's to the system under test's; `around` its core where that holds.
fn way(topology: &Topology, around: bool) -> Option<Vec<&str>> {
    let (from, to) = (topology.client.router.as_str(), topology.sut.router.as_str());
    // How dear the way to each router is, and the one before it.
    let mut known = BTreeMap::from([(from, (0_u32, from))]);
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        let so_far = known.get(at)?.0;
        for (end, there, _) in topology.ends_of(at) {
            if around && end.labels {
                continue;
            }
            let cost = so_far + u32::from(end.ospf_cost.unwrap_or(USUAL)).max(1);
            let name = there.router.as_str();
            if known.get(name).is_none_or(|(other, _)| cost < *other) {
                known.insert(name, (cost, at));
                open.push(name);
            }
        }
    }
    let mut way = vec![to];
    while let Some(at) = way.last().copied().filter(|at| *at != from) {
        way.push(known.get(at)?.1);
    }
    way.reverse();
    Some(way)
}

/// The labels that a capture on the first cable of a VPN's core must see, and the route that puts them on.
fn stack(topology: &Topology, way: &[&str]) -> Vec<Expectation> {
    let edge = |name: &&&str| topology.router(name).is_some_and(|router| !router.vrfs.is_empty());
    let edges: Vec<&str> = way.iter().filter(edge).copied().collect();
    let [near, far] = edges.as_slice() else { return Vec::new() };
    let position = way.iter().position(|name| name == near).unwrap_or_default();
    let Some(next) = way.get(position + 1) else { return Vec::new() };
    let Some(vrf) = topology.router(near).and_then(|router| router.vrfs.first()) else { return Vec::new() };
    // Where the far edge is the next router, its outer label is taken off before it is put on.
    let labels = if next == far { 1 } else { 2 };
    vec![
        Expectation::Route {
            router: (*near).to_owned(),
            vrf: Some(vrf.name.clone()),
            destination: topology.sut.address.network(),
            labels,
        },
        Expectation::Stack { router: (*near).to_owned(), interface: (*next).to_owned(), labels },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::topology;
    use crate::options::{Backdoor, Choice, LeafSpine, MplsVpn, VpnPlace};

    fn words(choice: &Choice) -> Vec<String> {
        of(&topology(choice)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_vpn_is_expected_to_label_and_to_be_reached_as_in_the_study() {
        let words = words(&Choice::MplsVpn(MplsVpn::default()));
        for expected in [
            "ce1: OSPF adjacency with 10.253.0.1",
            "pe1 (VRF customer): OSPF adjacency with 10.255.100.1",
            "pe1 (VRF customer): OSPF adjacency with 10.253.0.2",
            "pe1: OSPF adjacency with 10.255.0.11",
            "p1: LDP session with 10.255.0.2",
            "pe1: BGP session with 10.255.0.2",
            "pe1 (VRF customer): route to 10.95.0.0/16 with 2 labels",
            "ce1: answer of 10.95.0.1 with a time to live of 62 to 63",
            "pe1: packets with 2 labels on p1",
        ] {
            assert!(words.iter().any(|word| word == expected), "{expected}: {words:#?}");
        }
    }

    #[test]
    fn without_a_sham_link_the_backdoor_is_no_expected_way() {
        let plain = MplsVpn { backdoor: Backdoor::None, sut: VpnPlace::Ce2, core: 3, ..MplsVpn::default() };
        let words = words(&Choice::MplsVpn(plain));
        assert!(
            words.contains(&"ce1: answer of 10.95.0.1 with a time to live of 59 to 63".to_owned()),
            "{words:#?}"
        );
        assert!(
            !words.iter().any(|word| word.contains("10.253.0.2") && word.starts_with("pe1 (")),
            "{words:#?}"
        );
    }

    #[test]
    fn a_backdoor_alone_is_the_way_and_no_label_is_expected() {
        let plain = MplsVpn { backdoor: Backdoor::Plain, ..MplsVpn::default() };
        let words = words(&Choice::MplsVpn(plain));
        assert!(
            words.contains(&"ce1: answer of 10.95.0.1 with a time to live of 63 to 63".to_owned()),
            "{words:#?}"
        );
        assert!(!words.iter().any(|word| word.contains("labels")), "{words:#?}");
    }

    #[test]
    fn a_fabric_is_three_routers_long() {
        let words = words(&Choice::LeafSpine(LeafSpine::default()));
        assert!(
            words.contains(&"leaf1: answer of 10.95.0.1 with a time to live of 63 to 63".to_owned()),
            "{words:#?}"
        );
        assert_eq!(words.iter().filter(|word| word.contains("BGP session")).count(), 8);
    }
}
