//! Bringing up a node's interfaces.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use vtax_sys::ethtool::Offload;
use vtax_sys::netlink::{
    Link, Mac, Netlink, Request, add_address, add_route, add_route_by_several, rename, set_mtu, set_up,
};
use vtax_sys::{SysError, ethtool, sysctl};
use vtax_units::Nanos;

use crate::dhcp::{self, DhcpError};
use crate::guest;
use crate::message::{CardFacts, FindInterface, InterfaceSetup, Lease, Route};

/// A guest's driver may still be probing when the agent is asked.
const APPEAR_WITHIN: Duration = Duration::from_secs(5);

/// An emulated card of hardware negotiates its link, which takes half a second to some seconds.
const LINK_WITHIN: Duration = Duration::from_secs(15);

/// What a node with several cards on one link needs, as files below `/proc/sys/net/ipv4` (the kernel's
/// `Documentation/networking/ip-sysctl.rst`): each card answers ARP for its own address alone, and asks as itself.
pub const SEVERAL_CARDS: [(&str, &str); 2] = [("conf/all/arp_ignore", "1"), ("conf/all/arp_announce", "2")];

/// What tells connections of one route by their ports, as a file below `/proc/sys/net/ipv4`.
pub const BY_PORTS: (&str, &str) = ("fib_multipath_hash_policy", "1");

/// How often the kernel polls a card that had nothing before it lets it interrupt again.
const POLLS: u64 = 2;

/// Why a node has no network.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkError {
    #[error(transparent)]
    Sys(#[from] SysError),
    #[error("interface {name}: the node has none that fits, it has {present}")]
    NoInterface { name: String, present: String },
    #[error("interface {name}: {source}")]
    Dhcp { name: String, source: DhcpError },
    #[error("interface {name}: the DHCP server {} leases {}/{}, which is not the address it is to have", lease.server, lease.address, lease.prefix)]
    OtherAddress { name: String, lease: Lease },
    #[error("interface {name}: its card has no link after {} s", LINK_WITHIN.as_secs())]
    NoLink { name: String },
    #[error("interface {name}: {setting} can't be set")]
    Setting {
        name: String,
        setting: &'static str,
        #[source]
        source: std::io::Error,
    },
}

/// How long [`configure`] may wait for such interfaces, one after the other, beside what the kernel takes.
pub(crate) fn longest(interfaces: &[InterfaceSetup]) -> Duration {
    let one = |interface: &InterfaceSetup| {
        let lease = if interface.dhcp { LINK_WITHIN + dhcp::WITHIN } else { Duration::ZERO };
        let link = if has_to_link(interface) { LINK_WITHIN } else { Duration::ZERO };
        APPEAR_WITHIN + lease + link
    };
    interfaces.iter().map(one).sum()
}

/// Whether it is a guest's card, which negotiates its link.
const fn has_to_link(interface: &InterfaceSetup) -> bool {
    matches!(interface.find, FindInterface::Mac(_))
}

/// Brings loopback and these interfaces up, with their addresses, and then adds their routes. What the kernel
/// says of each is returned.
///
/// IPv6 is switched off on interfaces without an IPv6 address: its neighbour and router discovery
/// would put packets into the measurement that no workload sent.
///
/// # Errors
///
/// Where an interface is missing, or the kernel refuses.
pub(crate) fn configure(interfaces: &[InterfaceSetup]) -> Result<Vec<CardFacts>, NetworkError> {
    let mut netlink = Netlink::open()?;
    netlink.send(set_up("lo"))?;
    let mut indices = Vec::with_capacity(interfaces.len());
    let mut moderations = Vec::with_capacity(interfaces.len());
    for interface in interfaces {
        let link = find(&mut netlink, interface)?;
        if link.name != interface.name {
            netlink.send(rename(link.index, &interface.name))?;
        }
        switch_ipv6(interface)?;
        netlink.send(set_mtu(&interface.name, interface.mtu))?;
        if !interface.offloads {
            ethtool::set_all(&interface.name, false)?;
        }
        if interface.own_arp {
            // The kernel's Documentation/networking/ip-sysctl.rst: otherwise each card answers for all of them.
            for (setting, value) in SEVERAL_CARDS {
                ensure(&interface.name, setting, value)?;
            }
        }
        let moderation = interface.moderation.map(|apart| moderate(&interface.name, apart)).transpose()?;
        moderations.push(moderation);
        // Those that a server gives come once there is a link.
        let addresses = interface.addresses.iter().filter(|_| !interface.dhcp);
        netlink.send_all(addresses.map(|(address, prefix)| add_address(link.index, *address, *prefix)))?;
        netlink.send(set_up(&interface.name))?;
        indices.push(link.index);
    }
    let mut leases = Vec::with_capacity(interfaces.len());
    for (interface, index) in interfaces.iter().zip(&indices) {
        leases.push(if interface.dhcp { Some(lease(&mut netlink, interface, *index)?) } else { None });
    }
    // A gateway must be reachable when its route is added.
    for (interface, index) in interfaces.iter().zip(indices) {
        for route in &interface.routes {
            let request = request_for(&mut netlink, route, index)?;
            netlink.send(request)?;
        }
        if interface.forwarding {
            forward(interface)?;
        }
    }
    // What a guest sends before its cards have their links is lost. A cable between namespaces has its link as soon as both
    // ends are up, which is not for one of them to wait for.
    for interface in interfaces.iter().filter(|interface| has_to_link(interface)) {
        wait_for_link(&mut netlink, &interface.name)?;
    }
    let facts = |((interface, lease), moderation): ((&InterfaceSetup, _), _)| CardFacts {
        lease,
        moderation,
        ..facts(&interface.name)
    };
    Ok(interfaces.iter().zip(leases).zip(moderations).map(facts).collect())
}

/// The request for a route by way of this interface. Where it has several ways, connections are told apart by their ports, so
/// that those between the same two hosts take all of them.
fn request_for(netlink: &mut Netlink, route: &Route, index: u32) -> Result<Request, NetworkError> {
    let Route { destination, prefix, gateway, ref others } = *route;
    if others.is_empty() {
        return Ok(add_route(destination, prefix, gateway, Some(index)));
    }
    let mut hops = vec![(gateway, index)];
    for hop in others {
        hops.push((hop.gateway, netlink.link(&hop.interface)?.index));
    }
    ensure(&others[0].interface, BY_PORTS.0, BY_PORTS.1)?;
    Ok(add_route_by_several(destination, prefix, hops))
}

/// Waits until an interface has its link.
fn wait_for_link(netlink: &mut Netlink, name: &str) -> Result<(), NetworkError> {
    let deadline = Instant::now() + LINK_WITHIN;
    while !netlink.link(name)?.running {
        if Instant::now() >= deadline {
            return Err(NetworkError::NoLink { name: name.to_owned() });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Gets an interface's address from a DHCP server.
fn lease(netlink: &mut Netlink, interface: &InterfaceSetup, index: u32) -> Result<Lease, NetworkError> {
    let name = || interface.name.clone();
    wait_for_link(netlink, &interface.name)?;
    let mac = netlink.link(&interface.name)?.mac;
    let started = Instant::now();
    let lease =
        dhcp::lease(&interface.name, mac.0).map_err(|source| NetworkError::Dhcp { name: name(), source })?;
    let given = (IpAddr::V4(lease.address), lease.prefix);
    if interface.addresses.first() != Some(&given) {
        return Err(NetworkError::OtherAddress { name: name(), lease });
    }
    netlink.send(add_address(index, given.0, given.1))?;
    Ok(Lease { took: started.elapsed().into(), ..lease })
}

/// Keeps two interrupts of an interface's card apart: by the card, or where it can't, by the kernel, which then polls it instead
/// (the kernel's `Documentation/networking/napi.rst`). Who does, and by how much.
fn moderate(name: &str, apart: Nanos) -> Result<String, NetworkError> {
    let microseconds = u32::try_from(apart.0 / 1000).unwrap_or(u32::MAX);
    if ethtool::set_receive_interval(name, microseconds).is_ok()
        && ethtool::receive_interval(name)? == microseconds
    {
        return Ok(format!("{apart} apart by its card"));
    }
    let polls = if microseconds == 0 { 0 } else { POLLS };
    for (setting, value) in [("napi_defer_hard_irqs", polls), ("gro_flush_timeout", apart.0)] {
        std::fs::write(format!("/sys/class/net/{name}/{setting}"), value.to_string())
            .map_err(|source| NetworkError::Setting { name: name.to_owned(), setting, source })?;
    }
    Ok(format!("{apart} apart by the kernel"))
}

/// Queues by which an interface receives.
fn queues(name: &str) -> u32 {
    let entries = std::fs::read_dir(format!("/sys/class/net/{name}/queues")).into_iter().flatten().flatten();
    let receives = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("rx-");
    u32::try_from(entries.filter(receives).count()).unwrap_or(u32::MAX)
}

/// Driver and offloads of an interface. One that doesn't say is no error: nothing hangs on it.
fn facts(name: &str) -> CardFacts {
    let on = Offload::ALL.into_iter().filter(|offload| ethtool::is_on(name, *offload).unwrap_or(false));
    CardFacts {
        interface: name.to_owned(),
        driver: ethtool::driver(name).unwrap_or_default(),
        offloads: on.map(|offload| offload.word().to_owned()).collect(),
        // Only a guest's card can have several. A node on the host sees the host's `/sys`, where another card may have this name.
        queues: if guest::is_first() { queues(name) } else { 1 },
        moderation: None,
        lease: None,
    }
}

fn has_ipv6(interface: &InterfaceSetup) -> bool {
    interface.addresses.iter().any(|(address, _)| matches!(address, IpAddr::V6(_)))
}

/// Switches IPv6 on where the interface has such an address, without router discovery and detection of
/// duplicate addresses: addresses and routes are as asked for, and can be used at once.
fn switch_ipv6(interface: &InterfaceSetup) -> Result<(), NetworkError> {
    if !has_ipv6(interface) {
        // A container may read its settings only, and has them from its maker.
        let _ = sysctl::disable_ipv6(&interface.name);
        return Ok(());
    }
    // Its own addresses are reached by way of loopback, where older kernels need IPv6 too.
    let _ = set(6, "lo", "disable_ipv6", "0");
    set(6, &interface.name, "accept_ra", "0")?;
    set(6, &interface.name, "accept_dad", "0")?;
    set(6, &interface.name, "disable_ipv6", "0")
}

/// Has packets forwarded that come in by this interface.
fn forward(interface: &InterfaceSetup) -> Result<(), NetworkError> {
    set(4, &interface.name, "forwarding", "1")?;
    if has_ipv6(interface) {
        // IPv6 is forwarded by the whole node or not at all; that of one interface only says how it
        // behaves towards its neighbours (the kernel's Documentation/networking/ip-sysctl.rst).
        set(6, "all", "forwarding", "1")?;
    }
    Ok(())
}

fn set(version: u8, name: &str, setting: &'static str, value: &str) -> Result<(), NetworkError> {
    std::fs::write(sysctl::path(&format!("ipv{version}/conf/{name}/{setting}")), value)
        .map_err(|source| NetworkError::Setting { name: name.to_owned(), setting, source })
}

/// Sets something of the whole node's IPv4, where it isn't set yet: a container may read its settings only, and has them from its
/// maker.
fn ensure(name: &str, setting: &'static str, value: &str) -> Result<(), NetworkError> {
    let place = sysctl::path(&format!("ipv4/{setting}"));
    if std::fs::read_to_string(&place).is_ok_and(|now| now.trim() == value) {
        return Ok(());
    }
    std::fs::write(place, value).map_err(|source| NetworkError::Setting {
        name: name.to_owned(),
        setting,
        source,
    })
}

/// The present name of an interface that is found so.
pub(crate) fn present_name(find: &FindInterface) -> Result<String, NetworkError> {
    let mut netlink = Netlink::open()?;
    let setup = InterfaceSetup::new(find.clone(), "of a door".to_owned());
    Ok(self::find(&mut netlink, &setup)?.name)
}

fn find(netlink: &mut Netlink, interface: &InterfaceSetup) -> Result<Link, NetworkError> {
    let deadline = Instant::now() + APPEAR_WITHIN;
    loop {
        let links = netlink.links()?;
        if let Some(link) = links.iter().find(|link| fits(link, &interface.find)) {
            return Ok(link.clone());
        }
        if Instant::now() >= deadline {
            let present: Vec<String> = links.iter().map(|l| format!("{} ({})", l.name, l.mac)).collect();
            return Err(NetworkError::NoInterface {
                name: interface.name.clone(),
                present: present.join(", "),
            });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn fits(link: &Link, find: &FindInterface) -> bool {
    match find {
        FindInterface::Name(name) => link.name == *name,
        FindInterface::Mac(mac) => link.mac == Mac(*mac),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process is no guest: what it finds in `/sys` by a name is a card of the host's, whose queues aren't the node's.
    #[test]
    fn a_node_on_the_host_has_no_queues_of_the_hosts_cards() {
        let names = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
        let names: Vec<String> = names.map(|card| card.file_name().to_string_lossy().into_owned()).collect();
        for name in names.iter().map(String::as_str).chain(["vtax-none"]) {
            assert_eq!(facts(name).queues, 1, "{name}");
        }
    }

    /// Whoever asks for them gives up after this, and would say that the agent is silent instead of what it found.
    #[test]
    fn each_interface_has_its_own_time() {
        let named = InterfaceSetup::new(FindInterface::Name("eth0".to_owned()), "eth0".to_owned());
        let card = InterfaceSetup::new(FindInterface::Mac([2, 0, 0, 0, 0, 1]), "eth1".to_owned());
        let leased = InterfaceSetup { dhcp: true, ..card.clone() };
        let of = |interfaces: &[&InterfaceSetup]| {
            longest(&interfaces.iter().map(|interface| (*interface).clone()).collect::<Vec<_>>())
        };
        assert_eq!(of(&[]), Duration::ZERO);
        assert_eq!(of(&[&named]), APPEAR_WITHIN);
        assert_eq!(of(&[&card]), APPEAR_WITHIN + LINK_WITHIN);
        assert_eq!(of(&[&leased]), APPEAR_WITHIN + LINK_WITHIN + dhcp::WITHIN + LINK_WITHIN);
        assert_eq!(of(&[&named, &card, &leased]), of(&[&named]) + of(&[&card]) + of(&[&leased]));
    }
}
