//! An MPLS layer-3 VPN (RFC 4364): CE1, PE1, P routers in a row, PE2, CE2.
//!
//! The core runs OSPF and LDP; the providers' edges tell each other VPN routes by internal BGP; each customer has a
//! VRF at both edges, in which OSPF is spoken with its sites.

use std::net::Ipv4Addr;

use super::{EDGES, ETHERNET, LABELLED, USUAL_COST, plain_end, small_network};
use crate::address::Prefix;
use crate::model::{Bgp, Edge, Link, LinkEnd, MadeUp, Neighbour, Role, Router, Sham, Topology, Vrf};
use crate::options::{Backdoor, MplsVpn, VpnPlace, Wire};

/// The provider's autonomous system, one for private use (RFC 6996).
const SYSTEM: u32 = 65_000;
/// The first VRF's table.
const FIRST_TABLE: u32 = 100;
/// OSPF's cost of the backdoor: more than any way through the VPN.
const BACKDOOR_COST: u16 = 1000;
/// OSPF's cost of the stand-in for a sham link.
const SHAM_COST: u16 = 5;

pub(super) fn topology(options: &MplsVpn) -> Topology {
    let core: Vec<String> = (1..=options.core).map(|number| format!("p{number}")).collect();
    let mut links = core_links(options, &core);
    let mut routers = vec![edge_router(options, 1)];
    routers.extend(core.iter().zip(1..).map(|(name, number)| core_router(name, number)));
    routers.push(edge_router(options, 2));
    for customer in 0..options.customers {
        links.extend([1, 2].map(|site| site_link(customer, site)));
    }
    if options.backdoor != Backdoor::None {
        links.push(backdoor());
    }
    // In the order of the way: the first site, the edges and the core, the second site, then other customers'.
    routers.insert(0, site_router(0, 1));
    routers.push(site_router(0, 2));
    for customer in 1..options.customers {
        routers.extend([1, 2].map(|site| site_router(customer, site)));
    }
    let [client, sut] = EDGES;
    Topology {
        name: "mpls-vpn".to_owned(),
        routers,
        links,
        client: edge(options.client, "client", client),
        sut: edge(options.sut, "sut", sut),
        timers: options.timers,
        bfd: options.bfd,
    }
}

const fn edge_id(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 255, 0, number)
}

/// Site 1 or 2 of a customer, counted from 0.
fn site_name(customer: u32, site: u8) -> String {
    if customer == 0 { format!("ce{site}") } else { format!("ce{site}-{}", customer + 1) }
}

fn vrf_name(customer: u32) -> String {
    if customer == 0 { "customer".to_owned() } else { format!("customer-{}", customer + 1) }
}

fn bare_router(name: &str, role: Role, id: Ipv4Addr) -> Router {
    Router {
        name: name.to_owned(),
        role,
        id,
        vrfs: Vec::new(),
        ospf: true,
        ldp: false,
        bgp: None,
        made_up: None,
    }
}

fn core_router(name: &str, number: u8) -> Router {
    Router { ldp: true, ..bare_router(name, Role::Provider, edge_id(10 + number)) }
}

fn site_router(customer: u32, site: u8) -> Router {
    // At most eight customers.
    let id = Ipv4Addr::new(10, 255, 100 + customer as u8, site);
    bare_router(&site_name(customer, site), Role::CustomerEdge, id)
}

/// The provider's edge 1 or 2.
fn edge_router(options: &MplsVpn, number: u8) -> Router {
    let other = 3 - number;
    let vrfs = (0..options.customers).map(|customer| vrf(options, customer, number)).collect();
    let neighbour = Neighbour { address: edge_id(other), system: SYSTEM, vpn: true };
    let made_up =
        (number == 2 && options.routes > 0).then(|| MadeUp { count: options.routes, vrf: vrf_name(0) });
    Router {
        vrfs,
        ldp: true,
        bgp: Some(Bgp { system: SYSTEM, neighbours: vec![neighbour], tells_connected: false }),
        made_up,
        ..bare_router(&format!("pe{number}"), Role::ProviderEdge, edge_id(number))
    }
}

fn vrf(options: &MplsVpn, customer: u32, number: u8) -> Vrf {
    let other = 3 - number;
    let end = |number: u8| Ipv4Addr::new(10, 253, customer as u8, number);
    let has_sham = customer == 0 && options.backdoor == Backdoor::ShamLink;
    let sham = has_sham.then(|| Sham {
        interface: "sham".to_owned(),
        local: end(number),
        remote: end(other),
        address: Prefix::new([10, 252, 0, number], 30),
        cost: SHAM_COST,
    });
    Vrf {
        name: vrf_name(customer),
        table: FIRST_TABLE + customer,
        distinguisher: format!("{SYSTEM}:{}", u32::from(number) + 10 * customer),
        target: format!("{SYSTEM}:{}", 100 + customer),
        id: end(number),
        site: site_name(customer, number),
        sham,
    }
}

fn core_links(options: &MplsVpn, core: &[String]) -> Vec<Link> {
    let row: Vec<&str> =
        std::iter::once("pe1").chain(core.iter().map(String::as_str)).chain(std::iter::once("pe2")).collect();
    let joined = row.windows(2).zip(0..).map(|(pair, number)| {
        let [one, other] = small_network([10, 0, 0, 0], number);
        let end = |router: &str, interface: &str, address| LinkEnd {
            ospf_cost: Some(USUAL_COST),
            labels: true,
            ..plain_end(router, interface, address)
        };
        Link {
            ends: [end(pair[0], pair[1], one), end(pair[1], pair[0], other)],
            mtu: LABELLED,
            wire: Wire { rate: options.core_rate, delay: options.core_delay, loss: options.core_loss },
        }
    });
    joined.collect()
}

fn site_link(customer: u32, site: u8) -> Link {
    let [provider, own] = small_network([192, 168, 10 + customer as u8, 0], u32::from(site));
    let (name, edge) = (site_name(customer, site), format!("pe{site}"));
    let end = |router: &str, interface: &str, address| LinkEnd {
        ospf_cost: Some(USUAL_COST),
        ..plain_end(router, interface, address)
    };
    let inside = LinkEnd { vrf: Some(vrf_name(customer)), ..end(&edge, &name, provider) };
    Link { ends: [end(&name, &edge, own), inside], mtu: ETHERNET, wire: Wire::default() }
}

fn backdoor() -> Link {
    let [one, other] = small_network([192, 168, 9, 0], 0);
    let end = |router: &str, interface: &str, address| LinkEnd {
        ospf_cost: Some(BACKDOOR_COST),
        ..plain_end(router, interface, address)
    };
    Link { ends: [end("ce1", "ce2", one), end("ce2", "ce1", other)], mtu: ETHERNET, wire: Wire::default() }
}

fn edge(place: VpnPlace, interface: &str, address: Prefix) -> Edge {
    let vrf = matches!(place, VpnPlace::Pe1 | VpnPlace::Pe2).then(|| vrf_name(0));
    Edge { router: place.router().to_owned(), interface: interface.to_owned(), address, vrf, ospf: true }
}
