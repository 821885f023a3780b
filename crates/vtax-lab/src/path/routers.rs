//! Routers in a row between the client and the path, and the routes that lead through them.
//!
//! Each cable of the row is a network of its own; the path is the last one. With `n` routers there are
//! networks 0 to `n`: the client is on network 0, router `i` (from 0) on networks `i` and `i + 1`, and the
//! systems under test on network `n`.

use std::net::IpAddr;

use vtax_agent::message::Route;

use super::{Built, Site};
use crate::error::Result;
use crate::fabric::Fabric;
use crate::link::LinkProperties;
use crate::naming::{self, HOP_PREFIX, PREFIX};
use crate::node::Node;
use crate::nodes::Network;
use crate::spec::Slot;

/// The client and the routers behind it, joined.
pub(super) struct Row(Vec<Node>);

impl Row {
    /// Starts the client and the routers, and joins each to the one before.
    pub(super) fn start(site: &Site<'_>, fabric: &mut Fabric) -> Result<Self> {
        let properties = LinkProperties::of(site.path());
        let mut nodes = vec![site.lab.add_native_node(&site.client)?];
        for (hop, spec) in site.routers.iter().enumerate() {
            let mut router = site.lab.add_node(Network::Own, spec)?;
            let addresses = [1, 2].map(|end| naming::hop_address(site.slot.number(), hop, end));
            let last = nodes.len() - 1;
            let ends = [&mut nodes[last].attachment, &mut router.attachment];
            fabric.join_by(ends, (addresses, HOP_PREFIX), properties)?;
            nodes.push(router);
        }
        Ok(Self(nodes))
    }

    /// The one that the path begins at.
    pub(super) fn last(&mut self) -> &mut Node {
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    /// The client and the routers.
    pub(super) fn into_nodes(mut self) -> (Node, Vec<Node>) {
        let client = self.0.remove(0);
        (client, self.0)
    }
}

/// Adds to each node the routes to the networks that it isn't on, and has the routers forward.
pub(super) fn add_routes(built: &mut Built, slot: Slot) {
    let routers = built.routers.len();
    if routers == 0 {
        return;
    }
    // The last router's address on the path, where its number is what the fabric gave it.
    let on_path = built.routers[routers - 1].attachment.interfaces.iter().flatten().last();
    let Some((on_path, _)) = on_path.and_then(|setup| setup.addresses.first().copied()) else { return };
    let row = Rows { slot: slot.number(), routers, on_path };
    for route in row.of_client() {
        built.client.attachment.add_route(0, route);
    }
    for (number, router) in built.routers.iter_mut().enumerate() {
        for (interface, route) in row.of_router(number) {
            router.attachment.add_route(interface, route);
        }
        for setup in router.attachment.interfaces.iter_mut().flatten() {
            setup.forwarding = true;
        }
    }
    for sut in &mut built.suts {
        for route in row.of_sut() {
            sut.node.attachment.add_route(0, route);
        }
    }
}

/// Who is where, as far as routes need it.
#[derive(Clone, Copy)]
struct Rows {
    slot: u16,
    routers: usize,
    /// The last router's address on the path.
    on_path: IpAddr,
}

impl Rows {
    /// To network `number` by way of `gateway`.
    const fn route(self, number: usize, gateway: IpAddr) -> Route {
        let (destination, prefix) = if number == self.routers {
            (naming::network(), PREFIX)
        } else {
            (naming::hop_address(self.slot, number, 0), HOP_PREFIX)
        };
        Route::new(destination, prefix, Some(gateway))
    }

    fn of_client(self) -> Vec<Route> {
        let first = naming::hop_address(self.slot, 0, 2);
        (1..=self.routers).map(|number| self.route(number, first)).collect()
    }

    /// With the interface that each leads over.
    fn of_router(self, router: usize) -> Vec<(usize, Route)> {
        let before = naming::hop_address(self.slot, router, 1);
        let after = naming::hop_address(self.slot, router + 1, 2);
        let back = (0..router).map(|number| (0, self.route(number, before)));
        let on = (router + 2..=self.routers).map(|number| (1, self.route(number, after)));
        back.chain(on).collect()
    }

    fn of_sut(self) -> Vec<Route> {
        (0..self.routers).map(|number| self.route(number, self.on_path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    fn contains(route: &Route, address: Ipv4Addr) -> bool {
        let IpAddr::V4(network) = route.destination else { return false };
        let mask = u32::MAX << (32 - u32::from(route.prefix));
        u32::from(network) & mask == u32::from(address) & mask
    }

    /// Passes a packet from node to node as its routes say; how many routers it meets on the way.
    fn hops(row: Rows, from: usize, to: usize) -> Option<usize> {
        // Node 0 is the client, 1 to n the routers, n + 1 a system under test.
        let v4 = |address: IpAddr| match address {
            IpAddr::V4(address) => address,
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        };
        let hop = |network, end| v4(naming::hop_address(row.slot, network, end));
        let sut = v4(naming::address(200));
        let addresses = |node: usize| -> Vec<Ipv4Addr> {
            let near = (node > 0).then(|| if node > row.routers { sut } else { hop(node - 1, 2) });
            let far = (node < row.routers).then(|| hop(node, 1));
            let on_path = (node == row.routers).then(|| v4(row.on_path));
            near.into_iter().chain(far).chain(on_path).collect()
        };
        let target = addresses(to)[0];
        let routes = |node: usize| -> Vec<Route> {
            match node {
                0 => row.of_client(),
                n if n > row.routers => row.of_sut(),
                n => row.of_router(n - 1).into_iter().map(|(_, route)| route).collect(),
            }
        };
        let shares = |node: usize| {
            let prefix = |a: Ipv4Addr| if a.octets()[1] == 97 { PREFIX } else { HOP_PREFIX };
            addresses(node).into_iter().any(|own| {
                let connected = Route::new(own.into(), prefix(own), None);
                contains(&connected, target)
            })
        };
        let mut at = from;
        let mut met = 0;
        while !shares(at) {
            let route = routes(at).into_iter().find(|route| contains(route, target))?;
            let gateway = v4(route.gateway?);
            at = (0..=row.routers + 1).find(|node| addresses(*node).contains(&gateway))?;
            met += 1;
            if met > row.routers {
                return None;
            }
        }
        Some(met)
    }

    proptest! {
        #[test]
        fn every_node_reaches_every_other_by_the_shortest_way(routers in 1_usize..9, slot in 0_u16..2) {
            let row = Rows { slot, routers, on_path: naming::address(slot * 256 + 9) };
            for from in 0..=routers + 1 {
                for to in (0..=routers + 1).filter(|to| *to != from) {
                    // The first address of a node is on the network before it.
                    let network = if to == 0 { 0 } else { to - 1 };
                    let own = if from > network { from - 1 - network } else { network - from };
                    prop_assert_eq!(hops(row, from, to), Some(own), "{} to {}", from, to);
                }
            }
        }
    }
}
