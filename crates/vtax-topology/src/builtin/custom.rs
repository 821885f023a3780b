//! A topology that is written out in a plan.

use std::net::Ipv4Addr;

use super::{EDGES, USUAL_COST, plain_end, small_network};
use crate::address::Prefix;
use crate::model::{Bgp, Edge, Link, LinkEnd, Neighbour, Role, Router, Topology};
use crate::options::{Custom, CustomLink, CustomRouter, Speaks, Wire};

pub(super) fn topology(options: &Custom) -> Topology {
    let mut names = Names::default();
    let links: Vec<Link> = (0..)
        .zip(&options.links)
        .map(|(number, link)| {
            let [one, other] = link.addresses.unwrap_or_else(|| small_network([10, 254, 0, 0], number));
            let [a, b] = &link.between;
            let interfaces = [names.interface(a, b), names.interface(b, a)];
            let both = [(a, &interfaces[0], one), (b, &interfaces[1], other)];
            let ends =
                both.map(|(router, interface, address)| end(options, link, router, interface, address));
            let wire = Wire { rate: link.rate, delay: link.delay, loss: link.loss };
            Link { ends, mtu: link.mtu, wire }
        })
        .collect();
    let routers = (0..).zip(&options.routers).map(|(number, r)| router(options, &links, number, r)).collect();
    let [client, sut] = EDGES;
    Topology {
        name: "custom".to_owned(),
        routers,
        links,
        client: edge(options, &options.client, "client", client),
        sut: edge(options, &options.sut, "sut", sut),
        timers: options.timers,
        bfd: options.bfd,
    }
}

/// Names of interfaces: the neighbour's, with a number from the second link to the same one on.
#[derive(Default)]
struct Names(std::collections::BTreeMap<(String, String), u32>);

impl Names {
    fn interface(&mut self, at: &str, towards: &str) -> String {
        let count = self.0.entry((at.to_owned(), towards.to_owned())).or_default();
        *count += 1;
        if *count == 1 { towards.to_owned() } else { format!("{towards}-{count}") }
    }
}

fn find<'a>(options: &'a Custom, name: &str) -> Option<&'a CustomRouter> {
    options.routers.iter().find(|router| router.name == name)
}

fn speaks_ospf(options: &Custom, name: &str) -> bool {
    find(options, name).is_some_and(|router| router.speaks == Speaks::Ospf)
}

fn end(options: &Custom, link: &CustomLink, router: &str, interface: &str, address: Prefix) -> LinkEnd {
    let ospf = speaks_ospf(options, router);
    let labels = link.between.iter().all(|name| find(options, name).is_some_and(|r| r.mpls));
    LinkEnd {
        ospf_cost: ospf.then_some(link.cost.unwrap_or(USUAL_COST)),
        labels,
        ..plain_end(router, interface, address)
    }
}

fn router(options: &Custom, links: &[Link], number: u16, router: &CustomRouter) -> Router {
    let [high, low] = (number + 1).to_be_bytes();
    let bgp = match router.speaks {
        Speaks::Ospf => None,
        Speaks::Bgp(system) => {
            Some(Bgp { system, neighbours: neighbours(options, links, &router.name), tells_connected: true })
        }
    };
    Router {
        name: router.name.clone(),
        role: Role::Router,
        id: router.loopback.unwrap_or_else(|| Ipv4Addr::new(10, 255, high, low)),
        vrfs: Vec::new(),
        ospf: router.speaks == Speaks::Ospf,
        ldp: router.mpls,
        bgp,
        made_up: None,
    }
}

/// The routers at the other ends of its links that speak BGP too.
fn neighbours(options: &Custom, links: &[Link], name: &str) -> Vec<Neighbour> {
    let pairs =
        links.iter().flat_map(|link| [(&link.ends[0], &link.ends[1]), (&link.ends[1], &link.ends[0])]);
    let there = pairs.filter(|(here, _)| here.router == name).filter_map(|(_, there)| {
        let Speaks::Bgp(system) = find(options, &there.router)?.speaks else { return None };
        Some(Neighbour { address: there.address.address, system, vpn: false })
    });
    there.collect()
}

fn edge(options: &Custom, router: &str, interface: &str, address: Prefix) -> Edge {
    Edge {
        router: router.to_owned(),
        interface: interface.to_owned(),
        address,
        vrf: None,
        ospf: speaks_ospf(options, router),
    }
}
