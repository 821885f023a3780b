//! A WireGuard tunnel between two hosts: its ends are the only interfaces of the client and the system.
//!
//! The hosts are two network namespaces with a cable between them. Each end is made in its host, where its UDP socket stays, and
//! is moved to its node. Its keys are made anew for each testbed.

use std::net::IpAddr;
use std::time::Duration;

use vtax_plan::model::{NetPath, PathKind};
use vtax_sys::NetNs;
use vtax_sys::netlink::{Netlink, create_wireguard, move_to, rename};

use super::cut::Cable;
use super::hosts::{self, CABLE, Carrier};
use super::passage::{Passage, Passed};
use super::path_builder::{PathBuilder, no_routers, one_system};
use super::site::{Built, Site};
use super::switched::{self, Switches};
use crate::error::{Result, While};
use crate::fabric::Fabric;
use crate::lab::Lab;
use crate::link::LinkProperties;
use crate::naming::{PREFIX, network};
use crate::program::Program;
use crate::spec::TestbedSpec;

/// The program that tells the kernel keys and peers.
pub(super) const WG: Program = Program { name: "wg", package: "wireguard-tools" };
/// How long it may take.
const WITHIN: Duration = Duration::from_secs(10);
/// The UDP port of both ends.
const PORT: u16 = 51_820;
/// An end's name in its host.
const END: &str = "wg0";

/// Nodes at the ends of a tunnel.
pub(super) struct Wireguard;

/// Whether there can be a tunnel on this host. Tried in a namespace of its own.
pub(super) fn tried() -> Result<()> {
    let inside = hosts::create()?;
    let what = || "make an end of a WireGuard tunnel".to_owned();
    Netlink::open_in(&inside).and_then(|mut n| n.send(create_wireguard(END))).during(what)?;
    WG.find().map(drop)
}

impl PathBuilder for Wireguard {
    fn suits(&self, spec: &TestbedSpec) -> Result<(), String> {
        one_system(spec, "a tunnel has two ends")?;
        no_routers(spec, "a tunnel's end is its client's only interface")
    }

    fn obstacle(&self, _lab: &Lab) -> Option<String> {
        tried().err().map(|e| vtax_sys::chain(&e))
    }

    fn build(&self, site: &mut Site<'_>) -> Result<Built> {
        let path = site.path();
        let inner = NetPath { mtu: path.inner_mtu(), ..path.clone() };
        let fabric = site.fabric()?;
        let mut built = switched::build_on(site, &inner, fabric, |_, _, _| {
            Ok(Switches { far: Some(Fabric::add_program()), ..Switches::one(Fabric::add_program()) })
        })?;
        let carrier = Carrier::create(built.network()?, site.slot.number(), LinkProperties::of(path))?;
        let nodes = [&built.client, &built.suts[0].node];
        let hold = |number: usize| -> Result<NetNs> {
            let inside = nodes[number].attachment.own_netns()?;
            inside.try_clone().during(|| format!("hold the network of {}", nodes[number].name()))
        };
        let tunnel = Tunnel::join(carrier, [hold(0)?, hold(1)?])?;
        built.cable =
            Some(Cable { inside: Some(tunnel.carrier.hosts[0].clone()), interface: CABLE.to_owned() });
        built.parts.passage = Some(Box::new(tunnel));
        Ok(built)
    }

    /// The kernel has a packet encrypted by the next CPU's worker, whichever that is.
    fn is_on_any_cpu(&self) -> bool {
        true
    }

    fn facts(&self, path: &NetPath) -> Vec<(String, String)> {
        vec![
            ("path.kind".to_owned(), PathKind::Wireguard.word().to_owned()),
            ("path.mtu".to_owned(), path.mtu.to_string()),
            ("path.mtu.inside".to_owned(), path.inner_mtu().to_string()),
        ]
    }
}

/// A key pair as text in base 64.
struct Keys {
    private: String,
    public: String,
}

impl Keys {
    fn create() -> Result<Self> {
        let private = WG.run(WG.command(["genkey"])?, WITHIN)?.trim().to_owned();
        let public = WG.run_on(WG.command(["pubkey"])?, &private, WITHIN)?.trim().to_owned();
        Ok(Self { private, public })
    }
}

/// What wg(8) is told of an end: its key, and the other as its only peer.
fn configuration(own: &Keys, peer: &Keys, endpoint: IpAddr) -> String {
    format!(
        "[Interface]\nPrivateKey = {}\nListenPort = {PORT}\n[Peer]\nPublicKey = {}\nAllowedIPs = {}/{PREFIX}\nEndpoint = {endpoint}:{PORT}\n",
        own.private,
        peer.public,
        network(),
    )
}

/// A tunnel that joins two nodes.
#[derive(Debug)]
struct Tunnel {
    carrier: Carrier,
    /// The network namespaces of the client and of the system.
    nodes: [NetNs; 2],
}

impl Tunnel {
    /// Makes it between two hosts and gives its ends to these nodes, as `eth0`.
    fn join(carrier: Carrier, nodes: [NetNs; 2]) -> Result<Self> {
        let what = || "build a WireGuard tunnel".to_owned();
        let keys = [Keys::create()?, Keys::create()?];
        for (number, (host, node)) in carrier.hosts.iter().zip(&nodes).enumerate() {
            let mut netlink = Netlink::open_in(host).during(what)?;
            netlink.send(create_wireguard(END)).during(what)?;
            let told = configuration(&keys[number], &keys[1 - number], carrier.addresses[1 - number]);
            let inside = host.try_clone().during(what)?;
            let set = WG.command(["setconf", END, "/proc/self/fd/0"])?.join_net(inside.into());
            WG.run_on(set, &told, WITHIN)?;
            netlink.send(move_to(END, node)).during(what)?;
            let mut within = Netlink::open_in(node).during(what)?;
            let index = within.link(END).during(what)?.index;
            within.send(rename(index, CABLE)).during(what)?;
        }
        Ok(Self { carrier, nodes })
    }
}

impl Passage for Tunnel {
    /// What came out of the tunnel at each end, no more than what its cable carried.
    fn passed(&self) -> Result<Passed> {
        let came_out = |node: &NetNs| -> Result<u64> {
            let links = Netlink::open_in(node).and_then(|mut n| n.links());
            let links = links.during(|| "read the counters of a WireGuard tunnel".to_owned())?;
            let ends = links.iter().filter(|link| link.kind == PathKind::Wireguard.word());
            Ok(ends.map(|link| link.stats.received_packets).sum())
        };
        let [up, down] = self.carrier.carried()?;
        Ok(Passed { up: up.min(came_out(&self.nodes[1])?), down: down.min(came_out(&self.nodes[0])?) })
    }

    fn facts(&self) -> Vec<(String, String)> {
        let carried = self.carrier.carried().ok().into_iter().flatten();
        let keys = ["path.wireguard.carried_up", "path.wireguard.carried_down"].into_iter();
        keys.zip(carried).map(|(key, packets)| (key.to_owned(), packets.to_string())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::bridge::Bridge;

    #[test]
    fn any_cpu_may_encrypt() {
        assert!(Wireguard.is_on_any_cpu() && !Bridge.is_on_any_cpu());
    }

    #[test]
    fn an_end_knows_its_own_key_and_the_others_public_one() {
        let keys = |name: &str| Keys { private: format!("{name}-private"), public: format!("{name}-public") };
        let told = configuration(&keys("a"), &keys("b"), crate::naming::hop_address(0, 0, 2));
        assert!(told.contains("PrivateKey = a-private") && told.contains("PublicKey = b-public"), "{told}");
        assert!(!told.contains("b-private"), "{told}");
        assert!(told.contains("AllowedIPs = 10.97.0.0/16\nEndpoint = 10.99.0.2:51820"), "{told}");
    }
}
