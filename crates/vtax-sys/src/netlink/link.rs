//! Requests about interfaces.

use std::fmt;
use std::os::fd::AsRawFd;

use super::message::{NLM_F_CREATE, NLM_F_EXCL, Request};
use crate::netns::NetNs;
use std::os::fd::AsFd;

pub(super) const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
pub(super) const RTM_GETLINK: u16 = 18;

pub(super) const IFLA_ADDRESS: u16 = 1;
pub(super) const IFLA_IFNAME: u16 = 3;
pub(super) const IFLA_MTU: u16 = 4;
pub(super) const IFLA_MASTER: u16 = 10;
pub(super) const IFLA_LINKINFO: u16 = 18;
const IFLA_GROUP: u16 = 27;
pub(super) const IFLA_NET_NS_FD: u16 = 28;
pub(super) const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_BR_FORWARD_DELAY: u16 = 1;
const IFLA_BR_AGEING_TIME: u16 = 4;
const IFLA_BR_STP_STATE: u16 = 5;
const IFLA_BR_MCAST_SNOOPING: u16 = 23;

const IFF_UP: u32 = 1;

/// A MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// `struct ifinfomsg`: family, type, index, flags, mask of the flags that change.
pub(super) fn ifinfo(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..16].copy_from_slice(&change.to_ne_bytes());
    bytes
}

fn change(operation: &'static str, name: &str) -> Request {
    Request::new(operation, name, RTM_NEWLINK, 0, &ifinfo(0, 0, 0)).name(IFLA_IFNAME, name)
}

fn create(operation: &'static str, name: &str) -> Request {
    Request::new(operation, name, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &ifinfo(0, 0, 0))
        .name(IFLA_IFNAME, name)
}

/// One end of a virtual cable.
#[derive(Debug, Clone, Copy)]
pub struct VethEnd<'a> {
    /// Name of the interface.
    pub name: &'a str,
    /// Its MAC address.
    pub mac: Mac,
    /// Where it goes; `None`: the namespace of the socket.
    pub namespace: Option<&'a NetNs>,
    /// Group, to delete many at once; 0 is the default group.
    pub group: u32,
    /// Index of the bridge it is plugged into; `None`: none.
    pub switch: Option<u32>,
}

/// A virtual cable.
#[derive(Debug, Clone, Copy)]
pub struct Veth<'a> {
    /// The near and the far end.
    pub ends: [VethEnd<'a>; 2],
    /// Brings the near end up at once. The far end must be brought up afterwards: the kernel
    /// configures it before it joins the two (ENOTCONN).
    pub near_up: bool,
    /// MTU of both ends, in bytes.
    pub mtu: u32,
}

fn end_attributes(mut request: Request, end: &VethEnd<'_>, mtu: u32) -> Request {
    request = request.attribute(IFLA_ADDRESS, &end.mac.0).u32(IFLA_MTU, mtu);
    if let Some(namespace) = end.namespace {
        request = request.u32(IFLA_NET_NS_FD, namespace.as_fd().as_raw_fd().cast_unsigned());
    }
    if let Some(switch) = end.switch {
        request = request.u32(IFLA_MASTER, switch);
    }
    if end.group != 0 {
        request = request.u32(IFLA_GROUP, end.group);
    }
    request
}

/// Creates a virtual cable. The descriptors of its namespaces must stay open until it is sent.
#[must_use]
pub fn create_veth(veth: &Veth<'_>) -> Request {
    let [near, far] = &veth.ends;
    let object = format!("{}-{}", near.name, far.name);
    let flags = if veth.near_up { IFF_UP } else { 0 };
    let fixed = ifinfo(0, flags, flags);
    let request = Request::new("create veth", object, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &fixed)
        .needs("veth (module veth)");
    end_attributes(request.name(IFLA_IFNAME, near.name), near, veth.mtu).nest(IFLA_LINKINFO, &[], |info| {
        info.attribute(IFLA_INFO_KIND, b"veth").nest(IFLA_INFO_DATA, &[], |data| {
            data.nest(VETH_INFO_PEER, &ifinfo(0, 0, 0), |peer| {
                end_attributes(peer.name(IFLA_IFNAME, far.name), far, veth.mtu)
            })
        })
    })
}

/// How a bridge works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeOptions {
    /// Its own MAC address; without one it takes its lowest port's and changes with them.
    pub mac: Mac,
    /// MTU in bytes.
    pub mtu: u32,
    /// Seconds until an address that was learned is forgotten.
    pub ageing_seconds: u32,
}

/// Creates a bridge that forwards at once: no spanning tree, no forward delay, no multicast
/// snooping, so that it sends no packets of its own.
#[must_use]
pub fn create_bridge(name: &str, options: BridgeOptions) -> Request {
    // The kernel counts in USER_HZ, which is 100 on every architecture.
    let ageing = options.ageing_seconds.saturating_mul(100);
    create("create bridge", name)
        .needs("bridge (module bridge)")
        .attribute(IFLA_ADDRESS, &options.mac.0)
        .u32(IFLA_MTU, options.mtu)
        .nest(IFLA_LINKINFO, &[], |info| {
            info.attribute(IFLA_INFO_KIND, b"bridge").nest(IFLA_INFO_DATA, &[], |data| {
                data.u32(IFLA_BR_FORWARD_DELAY, 0)
                    .u32(IFLA_BR_STP_STATE, 0)
                    .u32(IFLA_BR_AGEING_TIME, ageing)
                    .u8(IFLA_BR_MCAST_SNOOPING, 0)
            })
        })
}

/// Creates an interface that swallows what it is given.
#[must_use]
pub fn create_dummy(name: &str) -> Request {
    create("create dummy interface", name).needs("dummy interface (module dummy)").nest(
        IFLA_LINKINFO,
        &[],
        |info| info.attribute(IFLA_INFO_KIND, b"dummy"),
    )
}

/// Brings an interface up.
#[must_use]
pub fn set_up(name: &str) -> Request {
    Request::new("bring up", name, RTM_NEWLINK, 0, &ifinfo(0, IFF_UP, IFF_UP)).name(IFLA_IFNAME, name)
}

/// Takes an interface down.
#[must_use]
pub fn set_down(name: &str) -> Request {
    Request::new("take down", name, RTM_NEWLINK, 0, &ifinfo(0, 0, IFF_UP)).name(IFLA_IFNAME, name)
}

/// Renames an interface, which must be down on kernels before 6.3.
#[must_use]
pub fn rename(index: u32, name: &str) -> Request {
    Request::new("rename to", name, RTM_NEWLINK, 0, &ifinfo(index, 0, 0)).name(IFLA_IFNAME, name)
}

/// Sets the MAC address.
#[must_use]
pub fn set_mac(name: &str, mac: Mac) -> Request {
    change("set MAC of", name).attribute(IFLA_ADDRESS, &mac.0)
}

/// Sets the MTU in bytes.
#[must_use]
pub fn set_mtu(name: &str, mtu: u32) -> Request {
    change("set MTU of", name).u32(IFLA_MTU, mtu)
}

/// Puts an interface into a group.
#[must_use]
pub fn set_group(name: &str, group: u32) -> Request {
    change("set group of", name).u32(IFLA_GROUP, group)
}

/// Plugs an interface into the bridge with this index.
#[must_use]
pub fn set_switch(name: &str, bridge: u32) -> Request {
    change("plug into a bridge", name).u32(IFLA_MASTER, bridge)
}

/// Unplugs an interface from its bridge.
#[must_use]
pub fn leave_switch(name: &str) -> Request {
    change("unplug from its bridge", name).u32(IFLA_MASTER, 0)
}

/// Moves an interface into another namespace, whose descriptor must stay open until it is sent.
#[must_use]
pub fn move_to(name: &str, namespace: &NetNs) -> Request {
    change("move to another network namespace", name)
        .u32(IFLA_NET_NS_FD, namespace.as_fd().as_raw_fd().cast_unsigned())
}

/// Deletes an interface; a cable goes with either of its ends.
#[must_use]
pub fn delete_link(name: &str) -> Request {
    Request::new("delete", name, RTM_DELLINK, 0, &ifinfo(0, 0, 0)).name(IFLA_IFNAME, name)
}

/// Deletes every interface of a group at once, which costs hardly more than deleting one.
#[must_use]
pub fn delete_group(group: u32) -> Request {
    Request::new("delete group of interfaces", group.to_string(), RTM_DELLINK, 0, &ifinfo(0, 0, 0))
        .u32(IFLA_GROUP, group)
}
