//! Requests about addresses and routes.

use std::net::IpAddr;

use super::message::{NLM_F_CREATE, NLM_F_EXCL, Request};

const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_MULTIPATH: u16 = 9;
/// No duplicate address detection: the address is usable at once and no probe is sent.
const IFA_F_NODAD: u32 = 2;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RTN_UNICAST: u8 = 1;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RT_SCOPE_LINK: u8 = 253;

fn bytes(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(a) => (libc::AF_INET as u8, a.octets().to_vec()),
        IpAddr::V6(a) => (libc::AF_INET6 as u8, a.octets().to_vec()),
    }
}

/// Gives the interface with this index an address with a prefix length.
#[must_use]
pub fn add_address(index: u32, address: IpAddr, prefix: u8) -> Request {
    let (family, octets) = bytes(address);
    // struct ifaddrmsg: family, prefix length, flags, scope, index.
    let mut fixed = vec![family, prefix, 0, 0];
    fixed.extend_from_slice(&index.to_ne_bytes());
    let object = format!("{address}/{prefix}");
    let request = Request::new("add address", object, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &fixed)
        .attribute(IFA_LOCAL, &octets)
        .attribute(IFA_ADDRESS, &octets);
    if address.is_ipv6() { request.u32(IFA_FLAGS, IFA_F_NODAD) } else { request }
}

/// Adds a route to `destination`/`prefix` (unspecified address and 0: everything) by way of
/// `gateway`, an interface's index, or both.
#[must_use]
pub fn add_route(destination: IpAddr, prefix: u8, gateway: Option<IpAddr>, index: Option<u32>) -> Request {
    // A destination on the link itself has link scope, rtnetlink(7).
    let scope = if gateway.is_none() && destination.is_ipv4() { RT_SCOPE_LINK } else { RT_SCOPE_UNIVERSE };
    let mut request = new_route(destination, prefix, scope);
    if let Some(gateway) = gateway {
        request = request.attribute(RTA_GATEWAY, &bytes(gateway).1);
    }
    match index {
        Some(index) => request.u32(RTA_OIF, index),
        None => request,
    }
}

/// Adds a route to `destination`/`prefix` by way of several interfaces, each with or without a gateway: every connection takes
/// one of them (the kernel's `Documentation/networking/ip-sysctl.rst`, `fib_multipath_hash_policy`).
#[must_use]
pub fn add_route_by_several(
    destination: IpAddr,
    prefix: u8,
    hops: impl IntoIterator<Item = (Option<IpAddr>, u32)>,
) -> Request {
    let mut all = Vec::new();
    for (gateway, index) in hops {
        let gateway = gateway.map(|gateway| bytes(gateway).1).unwrap_or_default();
        // struct rtnexthop: length, flags, weight less one, interface; then attributes, each after its length and its type.
        let attribute = if gateway.is_empty() { 0 } else { 4 + gateway.len() };
        all.extend_from_slice(&((8 + attribute) as u16).to_ne_bytes());
        all.extend_from_slice(&[0, 0]);
        all.extend_from_slice(&index.to_ne_bytes());
        if attribute > 0 {
            all.extend_from_slice(&(attribute as u16).to_ne_bytes());
            all.extend_from_slice(&RTA_GATEWAY.to_ne_bytes());
            all.extend_from_slice(&gateway);
        }
    }
    new_route(destination, prefix, RT_SCOPE_UNIVERSE).attribute(RTA_MULTIPATH, &all)
}

/// A route of the main table that has no way yet.
fn new_route(destination: IpAddr, prefix: u8, scope: u8) -> Request {
    let (family, octets) = bytes(destination);
    // struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags.
    let mut fixed = vec![family, prefix, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, scope, RTN_UNICAST];
    fixed.extend_from_slice(&[0; 4]);
    let object = format!("{destination}/{prefix}");
    let request = Request::new("add route", object, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &fixed);
    if prefix > 0 { request.attribute(RTA_DST, &octets) } else { request }
}
