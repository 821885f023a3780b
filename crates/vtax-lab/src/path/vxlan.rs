//! Two hosts' bridges joined by a VXLAN tunnel (RFC 7348), as overlay networks of containers are.
//!
//! The hosts are two network namespaces with a cable between them, which carries the tunnel. Each end of the tunnel is made in
//! its host, where its UDP socket stays, and is moved to the bridge that it is plugged into.

use std::net::{IpAddr, Ipv4Addr};

use vtax_plan::model::{NetPath, PathKind};
use vtax_sys::NetNs;
use vtax_sys::netlink::{Netlink, create_vxlan, move_to};
use vtax_sys::netlink::{Vxlan as End, set_up};

use super::hosts::{self, CABLE, Carrier};
use super::passage::{Passage, Passed};
use super::path_builder::{PathBuilder, no_routers};
use super::site::{Built, Site};
use super::switched::{self, Switches};
use crate::error::{LabError, Result, While};
use crate::fabric::{Fabric, Switch};
use crate::lab::Lab;
use crate::link::LinkProperties;
use crate::naming::port_name;
use crate::spec::TestbedSpec;

/// Number of the virtual network. Each testbed's tunnel has hosts of its own.
const NETWORK: u32 = 42;

/// Bridges joined by a tunnel.
pub(super) struct Vxlan;

/// Why there can be no tunnel on this host; `None` where there can. Tried in a namespace of its own.
pub(super) fn obstacle() -> Option<String> {
    let tried = hosts::create().and_then(|inside| {
        let what = || "make an end of a VXLAN tunnel".to_owned();
        let mut netlink = Netlink::open_in(&inside).during(what)?;
        let by = netlink.link("lo").during(what)?.index;
        let (local, remote) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2));
        let end = End { name: "vxlan0", network: NETWORK, local, remote, by };
        netlink.send_all([create_vxlan(&end), set_up("vxlan0")]).during(what)
    });
    tried.err().map(|e| vtax_sys::chain(&e))
}

impl PathBuilder for Vxlan {
    fn suits(&self, spec: &TestbedSpec) -> Result<(), String> {
        no_routers(spec, "its client is on a host's bridge")
    }

    fn obstacle(&self, _lab: &Lab) -> Option<String> {
        obstacle()
    }

    fn build(&self, site: &mut Site<'_>) -> Result<Built> {
        let outer = site.path();
        let inner = NetPath { mtu: outer.inner_mtu(), ..outer.clone() };
        let mut tunnel = None;
        let fabric = site.fabric()?;
        let mut built = switched::build_on(site, &inner, fabric, |site, fabric, path| {
            let mut near = fabric.add_switch(path.mtu)?;
            let mut far = fabric.add_switch(path.mtu)?;
            let (slot, carrying) = (site.slot.number(), LinkProperties::of(outer));
            let carrier = Carrier::create(fabric, slot, carrying)?;
            tunnel = Some(Tunnel::join(fabric, carrier, [&mut near, &mut far], LinkProperties::of(path))?);
            fabric.start(&far)?;
            Ok(Switches { far: Some(far), ..Switches::one(near) })
        })?;
        built.parts.passage = tunnel.map(|tunnel| Box::new(tunnel) as Box<dyn Passage>);
        Ok(built)
    }

    fn facts(&self, path: &NetPath) -> Vec<(String, String)> {
        vec![
            ("path.kind".to_owned(), PathKind::Vxlan.word().to_owned()),
            ("path.mtu".to_owned(), path.mtu.to_string()),
            ("path.mtu.inside".to_owned(), path.inner_mtu().to_string()),
        ]
    }
}

/// A tunnel that joins two switches.
#[derive(Debug)]
struct Tunnel {
    carrier: Carrier,
    /// Its ends' interfaces in the lab's network namespace: the client's and the systems'.
    ends: [String; 2],
}

impl Tunnel {
    /// Makes it between two hosts and plugs it into these switches.
    fn join(
        fabric: &mut Fabric,
        carrier: Carrier,
        switches: [&mut Switch; 2],
        properties: LinkProperties,
    ) -> Result<Self> {
        let what = || "build a VXLAN tunnel".to_owned();
        let here = NetNs::current().during(what)?;
        let ends = [fabric.take_host(), fabric.take_host()].map(port_name);
        for (number, switch) in switches.into_iter().enumerate() {
            let address = |of: usize| match carrier.addresses[of] {
                IpAddr::V4(address) => Ok(address),
                IpAddr::V6(address) => {
                    let what = format!("a VXLAN tunnel, which is built over IPv4, has an end at {address}");
                    Err(LabError::Defect { what })
                }
            };
            let mut netlink = Netlink::open_in(&carrier.hosts[number]).during(what)?;
            let by = netlink.link(CABLE).during(what)?.index;
            let (local, remote) = (address(number)?, address(1 - number)?);
            let end = End { name: &ends[number], network: NETWORK, local, remote, by };
            netlink.send_all([create_vxlan(&end), move_to(&ends[number], &here)]).during(what)?;
            fabric.plug_made(&ends[number], switch, properties)?;
        }
        Ok(Self { carrier, ends })
    }
}

impl Passage for Tunnel {
    /// What came out of the tunnel at each end, no more than what its cable carried.
    fn passed(&self) -> Result<Passed> {
        let what = || "read the counters of a VXLAN tunnel".to_owned();
        let links = Netlink::open().and_then(|mut n| n.links()).during(what)?;
        let came_out = |name: &str| {
            let found = links.iter().find(|link| link.name == name && link.kind == "vxlan");
            found.map_or(0, |link| link.stats.received_packets)
        };
        let [up, down] = self.carrier.carried()?;
        Ok(Passed { up: up.min(came_out(&self.ends[1])), down: down.min(came_out(&self.ends[0])) })
    }

    fn facts(&self) -> Vec<(String, String)> {
        let carried = self.carrier.carried().ok().into_iter().flatten();
        let keys = ["path.vxlan.carried_up", "path.vxlan.carried_down"].into_iter();
        keys.zip(carried).map(|(key, packets)| (key.to_owned(), packets.to_string())).collect()
    }
}
