//! Hosts of a testbed's own that stand in the middle of a path: network namespaces without a process.

use std::net::IpAddr;
use std::sync::Arc;

use vtax_plan::model::ETHERNET_MTU;
use vtax_sys::netlink::{Mac, Netlink, Request, Veth, VethEnd, create_veth, set_up};
use vtax_sys::{NetNs, ethtool, sysctl};

use crate::attachment::Attachment;
use crate::error::{Result, While};
use crate::fabric::{Fabric, configure_from_outside};
use crate::link::LinkProperties;
use crate::naming::{HOP_PREFIX, hop_address};

/// A network namespace with its loopback up, without IPv6, whose discovery would be packets that no workload sent.
pub(super) fn create() -> Result<NetNs> {
    let what = || "make a host in the middle of the path".to_owned();
    let inside = NetNs::create().during(what)?;
    let prepare = || {
        sysctl::disable_ipv6_everywhere();
        // Rules are for what is routed: frames that a bridge passes on are none of theirs. Where the kernel's bridges know no
        // rules, there is no such file.
        let _ = sysctl::set("bridge/bridge-nf-call-iptables", "0");
        // A host may have both ends of an emulated link in it: each answers for its own addresses alone.
        sysctl::set("ipv4/conf/all/arp_ignore", "1")?;
        Netlink::open()?.send(set_up("lo"))
    };
    inside.run(prepare).during(what)?;
    Ok(inside)
}

/// The near end of a cable for trying what can be had on top of one.
pub(super) const TRIED: &str = "tried0";

/// A cable for trying what can be had on top of one.
pub(super) fn cable() -> Request {
    let end = |name, last| VethEnd {
        name,
        mac: Mac([2, 0, 0, 0, 0, last]),
        namespace: None,
        group: 0,
        switch: None,
    };
    create_veth(&Veth { ends: [end(TRIED, 1), end("tried1", 2)], near_up: true, mtu: ETHERNET_MTU })
}

/// Has a host pass on what isn't for itself.
pub(super) fn forward(inside: &NetNs) -> Result<()> {
    let set = || sysctl::set("ipv4/ip_forward", "1");
    inside.run(set).during(|| "have a host in the middle of the path forward".to_owned())
}

/// Two hosts and the cable between them, which carries a tunnel.
#[derive(Debug)]
pub(super) struct Carrier {
    /// The client's and the systems' host.
    pub(super) hosts: [Arc<NetNs>; 2],
    /// Their addresses on the cable.
    pub(super) addresses: [IpAddr; 2],
}

/// The interface that a carrier's cable is at each of its hosts.
pub(super) const CABLE: &str = "eth0";

impl Carrier {
    /// Makes both, joined.
    pub(super) fn create(fabric: &mut Fabric, slot: u16, properties: LinkProperties) -> Result<Self> {
        let addresses = [1, 2].map(|end| hop_address(slot, 0, end));
        let host = |name: &str| -> Result<Attachment> {
            Ok(Attachment { name: name.to_owned(), netns: Some(create()?), interfaces: None })
        };
        let mut ends = [host("the client's host")?, host("the systems' host")?];
        let [one, other] = &mut ends;
        // Rates are those of the ends' own cables.
        fabric.join_by([one, other], (addresses, HOP_PREFIX), properties.unlimited())?;
        configure_from_outside(&[&ends[0], &ends[1]])?;
        let inside = |end: &Attachment| -> Result<Arc<NetNs>> {
            let what = || format!("hold {}", end.name);
            let netns = end.own_netns()?.try_clone().during(what)?;
            if !properties.offloads {
                netns.run(|| ethtool::set_all(CABLE, false)).during(what)?;
            }
            Ok(Arc::new(netns))
        };
        Ok(Self { hosts: [inside(&ends[0])?, inside(&ends[1])?], addresses })
    }

    /// Packets that the systems' host got and sent by the cable.
    pub(super) fn carried(&self) -> Result<[u64; 2]> {
        let look = Netlink::open_in(&self.hosts[1]).and_then(|mut n| n.link(CABLE));
        let stats = look.during(|| "read the counters of a tunnel's cable".to_owned())?.stats;
        Ok([stats.received_packets, stats.sent_packets])
    }
}
