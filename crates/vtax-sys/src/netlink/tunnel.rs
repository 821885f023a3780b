//! Requests about routing tables of their own (VRF), tunnels, and interfaces that share another's cable.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};

use super::link::{
    IFLA_ADDRESS, IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_MASTER, IFLA_MTU, IFLA_NET_NS_FD, Mac,
    RTM_NEWLINK, ifinfo,
};
use super::message::{NLM_F_CREATE, NLM_F_EXCL, Request};
use crate::netns::NetNs;

const IFLA_INFO_DATA: u16 = 2;
const IFLA_VRF_TABLE: u16 = 1;
const IFLA_GRE_LINK: u16 = 1;
const IFLA_GRE_LOCAL: u16 = 6;
const IFLA_GRE_REMOTE: u16 = 7;
const IFLA_GRE_TTL: u16 = 8;
const IFLA_GRE_PMTUDISC: u16 = 10;
const IFLA_LINK: u16 = 5;
const IFLA_VXLAN_ID: u16 = 1;
const IFLA_VXLAN_GROUP: u16 = 2;
const IFLA_VXLAN_LINK: u16 = 3;
const IFLA_VXLAN_LOCAL: u16 = 4;
const IFLA_VXLAN_TTL: u16 = 5;
const IFLA_VXLAN_LEARNING: u16 = 7;
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_MACVLAN_MODE: u16 = 1;
const MACVLAN_MODE_BRIDGE: u32 = 4;
const IFLA_IPVLAN_MODE: u16 = 1;
const IPVLAN_MODE_L2: u16 = 0;
/// The port of VXLAN (RFC 7348, section 5).
const VXLAN_PORT: u16 = 4789;
/// Time to live of a tunnel's own packets.
const TTL: u8 = 64;

fn create(operation: &'static str, name: &str) -> Request {
    Request::new(operation, name, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &ifinfo(0, 0, 0))
        .name(IFLA_IFNAME, name)
}

/// Creates a VRF: packets of the interfaces that are put into it are routed by this table.
#[must_use]
pub fn create_vrf(name: &str, table: u32) -> Request {
    create("create VRF", name).needs("VRF (module vrf)").nest(IFLA_LINKINFO, &[], |info| {
        info.attribute(IFLA_INFO_KIND, b"vrf")
            .nest(IFLA_INFO_DATA, &[], |data| data.u32(IFLA_VRF_TABLE, table))
    })
}

/// Puts an interface into the VRF with this index.
#[must_use]
pub fn set_vrf(name: &str, vrf: u32) -> Request {
    Request::new("put into a VRF", name, RTM_NEWLINK, 0, &ifinfo(0, 0, 0))
        .name(IFLA_IFNAME, name)
        .u32(IFLA_MASTER, vrf)
}

/// Creates a GRE tunnel (RFC 2784) between two addresses, whose packets leave by way of the interface with this index:
/// where that is a VRF, by its table.
#[must_use]
pub fn create_gre(name: &str, local: Ipv4Addr, remote: Ipv4Addr, by: u32) -> Request {
    create("create GRE tunnel", name).needs("GRE (module ip_gre)").nest(IFLA_LINKINFO, &[], |info| {
        info.attribute(IFLA_INFO_KIND, b"gre").nest(IFLA_INFO_DATA, &[], |data| {
            data.u32(IFLA_GRE_LINK, by)
                .attribute(IFLA_GRE_LOCAL, &local.octets())
                .attribute(IFLA_GRE_REMOTE, &remote.octets())
                .u8(IFLA_GRE_TTL, TTL)
                .u8(IFLA_GRE_PMTUDISC, 1)
        })
    })
}

/// One end of a VXLAN tunnel (RFC 7348) between two hosts.
#[derive(Debug, Clone, Copy)]
pub struct Vxlan<'a> {
    /// Name of the interface.
    pub name: &'a str,
    /// Number of the virtual network.
    pub network: u32,
    /// Address of this host on the network that carries the tunnel.
    pub local: Ipv4Addr,
    /// Address of the other host.
    pub remote: Ipv4Addr,
    /// Index of the interface that leads there.
    pub by: u32,
}

/// Creates an end of a VXLAN tunnel. Its UDP socket is in the network namespace in which it is made, also when the interface
/// is moved to another.
#[must_use]
pub fn create_vxlan(vxlan: &Vxlan<'_>) -> Request {
    create("create VXLAN", vxlan.name).needs("VXLAN (module vxlan)").nest(IFLA_LINKINFO, &[], |info| {
        info.attribute(IFLA_INFO_KIND, b"vxlan").nest(IFLA_INFO_DATA, &[], |data| {
            data.u32(IFLA_VXLAN_ID, vxlan.network)
                .attribute(IFLA_VXLAN_GROUP, &vxlan.remote.octets())
                .u32(IFLA_VXLAN_LINK, vxlan.by)
                .attribute(IFLA_VXLAN_LOCAL, &vxlan.local.octets())
                .u8(IFLA_VXLAN_TTL, TTL)
                .u8(IFLA_VXLAN_LEARNING, 1)
                .attribute(IFLA_VXLAN_PORT, &VXLAN_PORT.to_be_bytes())
        })
    })
}

/// Creates an end of a WireGuard tunnel, without keys or peers yet. Its UDP socket is in the network namespace in which it is
/// made, also when the interface is moved to another.
#[must_use]
pub fn create_wireguard(name: &str) -> Request {
    create("create WireGuard interface", name).needs("WireGuard (module wireguard)").nest(
        IFLA_LINKINFO,
        &[],
        |info| info.attribute(IFLA_INFO_KIND, b"wireguard"),
    )
}

/// How interfaces share the cable of another, their parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Each has a MAC address of its own, and they reach each other (`macvlan` in mode `bridge`).
    Macvlan,
    /// All have the parent's MAC address, and are told apart by their IP addresses (`ipvlan` in mode `l2`).
    Ipvlan,
}

impl Sharing {
    /// The kernel's word for such an interface.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Macvlan => "macvlan",
            Self::Ipvlan => "ipvlan",
        }
    }
}

/// An interface that shares its parent's cable.
#[derive(Debug, Clone, Copy)]
pub struct Child<'a> {
    /// Name of the interface.
    pub name: &'a str,
    /// Its MAC address, where it has one of its own.
    pub mac: Mac,
    /// Where it goes; `None`: the namespace of the socket.
    pub namespace: Option<&'a NetNs>,
    /// Index of the parent.
    pub parent: u32,
    /// MTU in bytes, at most the parent's.
    pub mtu: u32,
}

/// Creates an interface that shares its parent's cable. The descriptor of its namespace must stay open until it is sent.
#[must_use]
pub fn create_child(sharing: Sharing, child: &Child<'_>) -> Request {
    let (operation, feature) = match sharing {
        Sharing::Macvlan => ("create macvlan", "macvlan (module macvlan)"),
        Sharing::Ipvlan => ("create ipvlan", "ipvlan (module ipvlan)"),
    };
    let mut request =
        create(operation, child.name).needs(feature).u32(IFLA_LINK, child.parent).u32(IFLA_MTU, child.mtu);
    if sharing == Sharing::Macvlan {
        request = request.attribute(IFLA_ADDRESS, &child.mac.0);
    }
    if let Some(namespace) = child.namespace {
        request = request.u32(IFLA_NET_NS_FD, namespace.as_fd().as_raw_fd().cast_unsigned());
    }
    request.nest(IFLA_LINKINFO, &[], |info| {
        info.attribute(IFLA_INFO_KIND, sharing.word().as_bytes()).nest(IFLA_INFO_DATA, &[], |data| {
            match sharing {
                Sharing::Macvlan => data.u32(IFLA_MACVLAN_MODE, MACVLAN_MODE_BRIDGE),
                Sharing::Ipvlan => data.attribute(IFLA_IPVLAN_MODE, &IPVLAN_MODE_L2.to_ne_bytes()),
            }
        })
    })
}
