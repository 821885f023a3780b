//! Requests about routing tables of their own (VRF) and tunnels.

use std::net::Ipv4Addr;

use super::link::{IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_MASTER, RTM_NEWLINK, ifinfo};
use super::message::{NLM_F_CREATE, NLM_F_EXCL, Request};

const IFLA_INFO_DATA: u16 = 2;
const IFLA_VRF_TABLE: u16 = 1;
const IFLA_GRE_LINK: u16 = 1;
const IFLA_GRE_LOCAL: u16 = 6;
const IFLA_GRE_REMOTE: u16 = 7;
const IFLA_GRE_TTL: u16 = 8;
const IFLA_GRE_PMTUDISC: u16 = 10;
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
