//! A fabric of leaves and spines: external BGP on every link (RFC 7938), with equal-cost paths over all spines.

use std::net::Ipv4Addr;

use super::{EDGES, ETHERNET, plain_end, small_network};
use crate::address::Prefix;
use crate::model::{Bgp, Edge, Link, Neighbour, Role, Router, Topology};
use crate::options::{LeafSpine, Wire};

/// The autonomous system of all spines; that of leaf `n` is `n` above it.
const SPINES: u32 = 65_000;

pub(super) fn topology(options: &LeafSpine) -> Topology {
    let network = |leaf: u32, spine: u32| small_network([10, 0, 0, 0], leaf * options.spines + spine);
    let spine = |spine: u32| {
        let neighbours = (0..options.leaves).map(|leaf| Neighbour {
            address: network(leaf, spine)[0].address,
            system: SPINES + 1 + leaf,
            vpn: false,
        });
        let id = Ipv4Addr::new(10, 255, 1, spine as u8 + 1);
        router(&spine_name(spine), Role::Spine, id, SPINES, neighbours.collect())
    };
    let leaf = |leaf: u32| {
        let neighbours = (0..options.spines).map(|spine| Neighbour {
            address: network(leaf, spine)[1].address,
            system: SPINES,
            vpn: false,
        });
        let id = Ipv4Addr::new(10, 255, 0, leaf as u8 + 1);
        router(&leaf_name(leaf), Role::Leaf, id, SPINES + 1 + leaf, neighbours.collect())
    };
    let wire = Wire { rate: options.link_rate, delay: options.link_delay, loss: options.link_loss };
    let mut links = Vec::new();
    for leaf in 0..options.leaves {
        for spine in 0..options.spines {
            let [one, other] = network(leaf, spine);
            let (leaf, spine) = (leaf_name(leaf), spine_name(spine));
            let ends = [plain_end(&leaf, &spine, one), plain_end(&spine, &leaf, other)];
            links.push(Link { ends, mtu: ETHERNET, wire });
        }
    }
    let [client, sut] = EDGES;
    Topology {
        name: "leaf-spine".to_owned(),
        routers: (0..options.spines).map(spine).chain((0..options.leaves).map(leaf)).collect(),
        links,
        client: edge(0, "client", client),
        sut: edge(options.leaves.saturating_sub(1), "sut", sut),
        timers: options.timers,
        bfd: options.bfd,
    }
}

fn leaf_name(number: u32) -> String {
    format!("leaf{}", number + 1)
}

fn spine_name(number: u32) -> String {
    format!("spine{}", number + 1)
}

fn router(name: &str, role: Role, id: Ipv4Addr, system: u32, neighbours: Vec<Neighbour>) -> Router {
    Router {
        name: name.to_owned(),
        role,
        id,
        vrfs: Vec::new(),
        ospf: false,
        ldp: false,
        bgp: Some(Bgp { system, neighbours, tells_connected: true }),
        made_up: None,
    }
}

fn edge(leaf: u32, interface: &str, address: Prefix) -> Edge {
    Edge { router: leaf_name(leaf), interface: interface.to_owned(), address, vrf: None, ospf: false }
}
