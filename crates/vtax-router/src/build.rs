//! Namespaces, cables, addresses, tables, tunnels.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use vtax_sys::netlink::{
    BridgeOptions, Mac, Netem, Netlink, Request, Tbf, Veth, VethEnd, add_address, add_netem, add_tbf,
    add_tbf_below, create_bridge, create_gre, create_veth, create_vrf, move_to, rename, set_down, set_mtu,
    set_switch, set_up, set_vrf,
};
use vtax_sys::{Context as _, NetNs, ethtool, sysctl};
use vtax_topology::Prefix;
use vtax_topology::blueprint::{Blueprint, Cable, Interface, Node, NodeKind, Tunnel};
use vtax_topology::event::ALL;
use vtax_topology::options::Wire;

use crate::error::{Result, RouterError, While};
use crate::lab::DoorPlace;

/// The bridge in a node that is one.
const BRIDGE: &str = "bridge";
/// MTU of a tunnel: a full packet fits, as its own links take larger ones.
const TUNNEL_MTU: u32 = 1500;
/// Labels that a router may use: as many as there are (RFC 3032's 20 bits).
const LABELS: &str = "1048575";

/// The namespaces of a blueprint's nodes, by name.
#[derive(Debug, Default)]
pub(crate) struct Spaces(BTreeMap<String, NetNs>);

impl Spaces {
    /// The namespace of a node.
    pub(crate) fn of(&self, node: &str) -> Result<&NetNs> {
        self.0.get(node).ok_or_else(|| RouterError::Unknown(format!("there is no node `{node}`")))
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &NetNs)> {
        self.0.iter().map(|(name, space)| (name.as_str(), space))
    }
}

/// Builds everything of a blueprint that the kernel has.
pub(crate) fn build(blueprint: &Blueprint, doors: &[DoorPlace]) -> Result<Spaces> {
    let mut spaces = Spaces::default();
    for node in &blueprint.nodes {
        let space = NetNs::create().during(|| format!("build node {}", node.name))?;
        if spaces.0.insert(node.name.clone(), space).is_some() {
            return Err(RouterError::Unknown(format!("two nodes are called `{}`", node.name)));
        }
    }
    lay_cables(&blueprint.cables, &spaces)?;
    open_doors(blueprint, doors, &spaces)?;
    for node in &blueprint.nodes {
        let interfaces = interfaces_of(blueprint, &node.name);
        let space = spaces.of(&node.name)?;
        let one_by_one = blueprint.one_by_one;
        let what = || format!("build node {}", node.name);
        space.run(|| furnish(node, &interfaces, one_by_one)).during(what)?;
    }
    Ok(spaces)
}

/// An interface of a node with what its cable or door says of it.
struct Placed<'a> {
    interface: &'a Interface,
    /// Its cable; `None` for a door.
    cable: Option<&'a Cable>,
}

fn interfaces_of<'a>(blueprint: &'a Blueprint, node: &str) -> Vec<Placed<'a>> {
    let mut found = Vec::new();
    for cable in &blueprint.cables {
        for end in cable.ends.iter().filter(|end| end.node == node) {
            found.push(Placed { interface: &end.interface, cable: Some(cable) });
        }
    }
    for door in blueprint.doors.iter().filter(|door| door.node == node) {
        found.push(Placed { interface: &door.interface, cable: None });
    }
    found
}

/// MAC address of one end of a cable, locally administered and unlike those that testbeds give.
const fn mac(cable: usize, end: u8) -> Mac {
    Mac([0x02, 0x76, 0x72, end, (cable >> 8) as u8, cable as u8])
}

fn lay_cables(cables: &[Cable], spaces: &Spaces) -> Result<()> {
    let what = || format!("lay {} cables", cables.len());
    let mut requests = Vec::with_capacity(cables.len());
    for (number, cable) in cables.iter().enumerate() {
        let [one, other] = &cable.ends;
        let veth = Veth {
            ends: [
                VethEnd {
                    name: &one.interface.name,
                    mac: mac(number, 0),
                    namespace: Some(spaces.of(&one.node)?),
                    group: 0,
                    switch: None,
                },
                VethEnd {
                    name: &other.interface.name,
                    mac: mac(number, 1),
                    namespace: Some(spaces.of(&other.node)?),
                    group: 0,
                    switch: None,
                },
            ],
            near_up: false,
            mtu: cable.mtu,
        };
        requests.push(create_veth(&veth));
    }
    Netlink::open().and_then(|mut netlink| netlink.send_all(requests)).during(what)
}

/// Moves interfaces from outside into the nodes that they lead to. Where packets are to come one by one, none of them puts
/// segments together.
fn open_doors(blueprint: &Blueprint, places: &[DoorPlace], spaces: &Spaces) -> Result<()> {
    for door in &blueprint.doors {
        let place = places.iter().find(|place| place.door == door.name).ok_or_else(|| {
            RouterError::Unknown(format!("the topology's door `{}` leads to nowhere", door.name))
        })?;
        let what = || format!("open the door to {}", door.node);
        let space = spaces.of(&door.node)?;
        Netlink::open().and_then(|mut n| n.send(move_to(&place.interface, space))).during(what)?;
        let mut inside = Netlink::open_in(space).during(what)?;
        let index = inside.link(&place.interface).during(what)?.index;
        let mut requests = Vec::new();
        if place.interface != door.interface.name {
            requests.push(rename(index, &door.interface.name));
        }
        requests.push(set_mtu(&door.interface.name, door.mtu));
        inside.send_all(requests).during(what)?;
        if blueprint.one_by_one {
            space.run(|| ethtool::set_all(&door.interface.name, false)).during(what)?;
        }
    }
    Ok(())
}

/// What makes an interface an end of its cable; nothing for one that does nothing to packets.
pub(crate) fn shape(index: u32, cable: &Cable) -> Vec<Request> {
    if cable.wire.is_emulated() {
        return losing(index, cable, cable.wire.loss.unwrap_or_default());
    }
    cable.wire.rate.map(|rate| add_tbf(index, &Tbf::of_wire(rate, cable.mtu, None))).into_iter().collect()
}

/// What makes an interface an end of its cable that loses so many of a million packets. What is held back comes to the rate's queue
/// when its time is over: that is counted in bytes, as netem's own, which counts small packets as full ones, isn't.
pub(crate) fn losing(index: u32, cable: &Cable, of_a_million: u32) -> Vec<Request> {
    let Wire { rate, delay, .. } = cable.wire;
    let limit = rate.map(|rate| Tbf::of_wire(rate, cable.mtu, None));
    let netem = Netem {
        delay: delay.unwrap_or_default().into(),
        loss: f64::from(of_a_million) / f64::from(ALL),
        rate_bytes: limit.map(|limit| limit.rate_bytes),
    };
    let below = limit.map(|limit| add_tbf_below(index, &limit));
    std::iter::once(add_netem(index, &netem)).chain(below).collect()
}

/// Everything inside a node; called in its namespace. Where packets are to come one by one, ends of cables neither put segments
/// together nor take large ones.
fn furnish(node: &Node, interfaces: &[Placed<'_>], one_by_one: bool) -> vtax_sys::Result<()> {
    let mut netlink = Netlink::open()?;
    netlink.send(set_up("lo"))?;
    let lo = netlink.link("lo")?.index;
    netlink.send_all(node.loopback.iter().map(|prefix| address(lo, *prefix)))?;
    if let NodeKind::Router(_) = node.kind {
        forward(node.labels)?;
    }
    for table in &node.vrfs {
        netlink.send_all([create_vrf(&table.name, table.table), set_up(&table.name)])?;
        let index = netlink.link(&table.name)?.index;
        netlink.send_all(table.addresses.iter().map(|prefix| address(index, *prefix)))?;
    }
    if node.kind == NodeKind::Bridge {
        let options = BridgeOptions { mac: mac(0xffff, 2), mtu: 1500, ageing_seconds: 300 };
        netlink.send_all([create_bridge(BRIDGE, options), set_up(BRIDGE)])?;
    }
    let links = netlink.links()?;
    let index_of = |name: &str| {
        let found = links.iter().find(|link| link.name == name).map(|link| link.index);
        found.ok_or(rustix::io::Errno::NODEV).context("find interface", name)
    };
    for Placed { interface, cable } in interfaces {
        let index = index_of(&interface.name)?;
        let mut requests: Vec<Request> = Vec::new();
        if let Some(vrf) = &interface.vrf {
            requests.push(set_vrf(&interface.name, index_of(vrf)?));
        }
        if node.kind == NodeKind::Bridge {
            requests.push(set_switch(&interface.name, index_of(BRIDGE)?));
        }
        if let NodeKind::Router(_) = node.kind {
            // It was made with the host's settings, of which the stricter counts.
            sysctl::set_if_there(&format!("ipv4/conf/{}/rp_filter", interface.name), "0")?;
        }
        if !interface.addresses.is_empty() {
            sysctl::disable_ipv6(&interface.name)?;
        }
        if interface.labels {
            let path = sysctl::path(&format!("mpls/conf/{}/input", interface.name));
            std::fs::write(&path, "1").context("let packets with labels in", path)?;
        }
        if one_by_one && cable.is_some() {
            ethtool::set_all(&interface.name, false)?;
        }
        requests.extend(interface.addresses.iter().map(|prefix| address(index, *prefix)));
        requests.push(set_up(&interface.name));
        requests.extend(cable.map(|cable| shape(index, cable)).unwrap_or_default());
        netlink.send_all(requests)?;
    }
    node.tunnels.iter().try_for_each(|tunnel| dig(&mut netlink, tunnel))
}

fn address(index: u32, prefix: Prefix) -> Request {
    add_address(index, IpAddr::V4(prefix.address), prefix.length)
}

/// What makes a namespace a router.
fn forward(labels: bool) -> vtax_sys::Result<()> {
    sysctl::set("ipv4/ip_forward", "1")?;
    // A packet may come by another way than its answer leaves.
    sysctl::set("ipv4/conf/all/rp_filter", "0")?;
    sysctl::set("ipv4/conf/default/rp_filter", "0")?;
    // Of several equal ways a conversation takes one by its ports too, not by its addresses alone.
    sysctl::set_if_there("ipv4/fib_multipath_hash_policy", "1")?;
    if labels {
        sysctl::set("mpls/platform_labels", LABELS)?;
    }
    Ok(())
}

fn dig(netlink: &mut Netlink, tunnel: &Tunnel) -> vtax_sys::Result<()> {
    let vrf = netlink.link(&tunnel.vrf)?.index;
    netlink.send_all([
        create_gre(&tunnel.name, tunnel.local, tunnel.remote, vrf),
        set_vrf(&tunnel.name, vrf),
        set_mtu(&tunnel.name, TUNNEL_MTU),
    ])?;
    let index = netlink.link(&tunnel.name)?.index;
    netlink.send_all([address(index, tunnel.address), set_up(&tunnel.name)])
}

/// Switches a node's interfaces off, all but loopback; the names of those that were on.
pub(crate) fn switch_off(space: &NetNs) -> vtax_sys::Result<Vec<String>> {
    let mut netlink = Netlink::open_in(space)?;
    let on = netlink.links()?.into_iter().filter(|link| link.up && link.name != "lo");
    let names: Vec<String> = on.map(|link| link.name).collect();
    netlink.send_all(names.iter().map(|name| set_down(name)).collect::<Vec<_>>())?;
    Ok(names)
}

/// Switches these interfaces of a node on. Some of a node's can't be, such as the kernel's own ends of tunnels.
pub(crate) fn switch_on(space: &NetNs, names: &[String]) -> vtax_sys::Result<()> {
    Netlink::open_in(space)?.send_all(names.iter().map(|name| set_up(name)).collect::<Vec<_>>())
}

/// A directory of a router's below another, made.
pub(crate) fn directory(parent: &Path, name: &str) -> vtax_sys::Result<PathBuf> {
    let path = parent.join(name);
    std::fs::create_dir_all(&path).context("make", path.display().to_string())?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use vtax_topology::blueprint::CableEnd;
    use vtax_units::{BitRate, Nanos};

    use super::*;

    #[test]
    fn a_cable_with_delay_and_rate_has_two_disciplines() {
        let end = |node: &str| CableEnd {
            node: node.to_owned(),
            interface: Interface { name: "x".to_owned(), addresses: Vec::new(), vrf: None, labels: false },
        };
        let cable = |wire| Cable { name: "a-b".to_owned(), ends: [end("a"), end("b")], mtu: 1500, wire };
        let (rate, delay) = (Some(BitRate(10_000_000)), Some(Nanos::from_millis(50)));
        let count = |wire| shape(2, &cable(wire)).len();
        assert_eq!(count(Wire::default()), 0);
        assert_eq!(count(Wire { rate, ..Wire::default() }), 1);
        assert_eq!(count(Wire { delay, ..Wire::default() }), 1);
        assert_eq!(count(Wire { rate, delay, loss: None }), 2);
        // A link that is made lossy keeps its rate.
        assert_eq!(losing(2, &cable(Wire { rate, ..Wire::default() }), 50_000).len(), 2);
    }
}
