//! Addresses of the client node, for loads that come from more than one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use vtax_agent::message::InterfaceSetup;
use vtax_plan::model::{Cell, PathKind};

/// Addresses that a cell's load comes from, where its workload asks for more than its node's own.
pub(crate) fn sources_of(
    cell: &Cell,
    service: IpAddr,
    interfaces: Option<&mut [InterfaceSetup]>,
) -> Vec<IpAddr> {
    match (cell.workload.model().client_addresses(), &cell.path.kind) {
        (None, _) => Vec::new(),
        // A real network's addresses are its hosts' own.
        (Some(count), PathKind::Nic(_)) => own_sources(service, count),
        (Some(count), _) => sources(interfaces, count),
    }
}

/// Adds so many source addresses in all to the client's interface, and gives them. `interfaces` is
/// `None` where nodes share the host's loopback, all of whose addresses are there without asking.
fn sources(interfaces: Option<&mut [InterfaceSetup]>, count: u32) -> Vec<IpAddr> {
    let count = u8::try_from(count.clamp(1, 200)).unwrap_or(1);
    let Some(interfaces) = interfaces else {
        let own = |i: u8| IpAddr::V4(Ipv4Addr::new(127, 0, 0, i));
        return (1..=count).map(own).collect();
    };
    let Some(interface) = interfaces.first_mut() else { return Vec::new() };
    let Some(&(IpAddr::V4(first), prefix)) = interface.addresses.first() else { return Vec::new() };
    // The upper half of the lab's network holds no nodes.
    let [a, b, c, _] = first.octets();
    let more = (1..count).map(|i| IpAddr::V4(Ipv4Addr::new(a, b, c | 128, i)));
    interface.addresses.extend(more.map(|address| (address, prefix)));
    interface.addresses.iter().map(|(address, _)| *address).collect()
}

/// So many times the address that each generator's own host has on the way to this one, whatever it is there.
fn own_sources(target: IpAddr, count: u32) -> Vec<IpAddr> {
    let own = if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    vec![own; count.clamp(1, 200) as usize]
}

#[cfg(test)]
mod tests {
    use vtax_agent::message::FindInterface;

    use super::*;

    #[test]
    fn sources_are_many_and_the_first_is_the_nodes_own() {
        let own = |text: &str| text.parse::<IpAddr>().expect("an address");
        let mut setup = [InterfaceSetup {
            addresses: vec![(own("10.97.1.1"), 16)],
            ..InterfaceSetup::new(FindInterface::Name("x".into()), "eth0".into())
        }];
        let all = sources(Some(&mut setup), 3);
        assert_eq!(all, [own("10.97.1.1"), own("10.97.129.1"), own("10.97.129.2")]);
        assert_eq!(setup[0].addresses.len(), 3);
        assert_eq!(sources(None, 2), [own("127.0.0.1"), own("127.0.0.2")]);
        // Whoever sends knows which these are.
        assert_eq!(own_sources(own("192.0.2.1"), 2), [own("0.0.0.0"); 2]);
        assert_eq!(own_sources(own("2001:db8::1"), 1), [own("::")]);
    }
}
