//! What the kernel says of itself when interfaces, routes and labels change: rtnetlink(7)'s multicast groups.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use super::message::{attributes, messages, u32_at};
use crate::error::{Context, Result};

/// RTMGRP_LINK, RTMGRP_IPV4_ROUTE and the bits of RTNLGRP_MPLS_ROUTE (27) and RTNLGRP_NEXTHOP (32).
const GROUPS: u32 = 1 | 0x40 | (1 << 26) | (1 << 31);
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;
const IFLA_IFNAME: u16 = 3;
const IFINFO: usize = 16;
const RTMSG: usize = 12;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_NEWDST: u16 = 19;
const RTA_NH_ID: u16 = 30;
const NHMSG: usize = 8;
const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
/// AF_MPLS of the kernel's `include/linux/socket.h`.
const MPLS: u8 = 28;
const UP: u32 = 1;
const RUNNING: u32 = 0x40;

/// Hears what changes in the network namespace in which it was opened.
#[derive(Debug)]
pub struct News {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl News {
    /// Begins to listen in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses a socket.
    pub fn open() -> Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)
            .context("open", "netlink socket")?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUPS))
            .context("listen on", "netlink socket")?;
        Ok(Self { socket, buffer: vec![0; 64 << 10] })
    }

    /// Takes everything that waits, each as one line of words. What found no room in the socket's buffer is told as
    /// such.
    ///
    /// # Errors
    ///
    /// Where the socket fails.
    pub fn take(&mut self, mut each: impl FnMut(String)) -> Result<()> {
        loop {
            match rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    for message in messages(&self.buffer[..length]) {
                        if let Some(words) = words(message.kind, message.payload) {
                            each(words);
                        }
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => each("more changes than could be heard".to_owned()),
                Err(e) => return Err(e).context("hear from", "netlink socket"),
            }
        }
    }
}

impl AsFd for News {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn words(kind: u16, payload: &[u8]) -> Option<String> {
    match kind {
        RTM_NEWLINK | RTM_DELLINK => link(kind, payload),
        RTM_NEWROUTE | RTM_DELROUTE => route(kind, payload),
        RTM_NEWNEXTHOP | RTM_DELNEXTHOP => next_hop(kind, payload),
        _ => None,
    }
}

fn link(kind: u16, payload: &[u8]) -> Option<String> {
    let name = attributes(payload.get(IFINFO..)?).find(|(attribute, _)| *attribute == IFLA_IFNAME)?.1;
    let name = String::from_utf8_lossy(name.split(|b| *b == 0).next().unwrap_or_default()).into_owned();
    let flags = u32_at(payload, 8);
    let state = match (kind, flags & UP != 0, flags & RUNNING != 0) {
        (RTM_DELLINK, ..) => "gone",
        (_, false, _) => "down",
        (_, true, false) => "without carrier",
        (_, true, true) => "up",
    };
    Some(format!("interface {name}: {state}"))
}

/// The labels of a stack, 20 bits of each 4 bytes (RFC 3032).
fn labels(value: &[u8]) -> String {
    let each = value.as_chunks::<4>().0.iter().map(|entry| (u32::from_be_bytes(*entry) >> 12).to_string());
    each.collect::<Vec<_>>().join("/")
}

fn address(value: &[u8]) -> String {
    if let Ok(octets) = <[u8; 4]>::try_from(value) {
        Ipv4Addr::from(octets).to_string()
    } else if let Ok(octets) = <[u8; 16]>::try_from(value) {
        Ipv6Addr::from(octets).to_string()
    } else {
        "?".to_owned()
    }
}

fn route(kind: u16, payload: &[u8]) -> Option<String> {
    let (family, prefix) = (*payload.first()?, *payload.get(1)?);
    let mut table = u32::from(*payload.get(4)?);
    let (mut destination, mut rest) = (None, String::new());
    for (attribute, value) in attributes(payload.get(RTMSG..)?) {
        // Writing to a text doesn't fail.
        let _ = match attribute {
            RTA_DST if family == MPLS => {
                destination = Some(format!("label {}", labels(value)));
                Ok(())
            }
            RTA_DST => {
                destination = Some(format!("{}/{prefix}", address(value)));
                Ok(())
            }
            RTA_GATEWAY => write!(rest, " via {}", address(value)),
            // struct rtvia: family of two bytes, then the address.
            RTA_VIA => write!(rest, " via {}", address(value.get(2..).unwrap_or_default())),
            RTA_NEWDST => write!(rest, " as {}", labels(value)),
            RTA_OIF => write!(rest, " by interface {}", u32_at(value, 0)),
            RTA_NH_ID => write!(rest, " (next hop {})", u32_at(value, 0)),
            RTA_TABLE => {
                table = u32_at(value, 0);
                Ok(())
            }
            _ => Ok(()),
        };
    }
    let destination = destination.unwrap_or_else(|| "default".to_owned());
    let what = if kind == RTM_DELROUTE { "removed" } else { "set" };
    // 254 is the main table, 255 the local one, which says nothing of routing.
    match table {
        255 => None,
        0 | 254 => Some(format!("route {destination}{rest}: {what}")),
        table => Some(format!("route {destination}{rest} in table {table}: {what}")),
    }
}

/// A next hop that routes share: when it is changed, so are they, and nothing is said of them (`linux/nexthop.h`).
fn next_hop(kind: u16, payload: &[u8]) -> Option<String> {
    let (mut id, mut rest) = (None, String::new());
    for (attribute, value) in attributes(payload.get(NHMSG..)?) {
        let _ = match attribute {
            NHA_ID => {
                id = Some(u32_at(value, 0));
                Ok(())
            }
            // struct nexthop_grp: an id of 4 bytes, a weight and what is reserved.
            NHA_GROUP => {
                let members = value.as_chunks::<8>().0.iter().map(|entry| u32_at(entry, 0).to_string());
                write!(rest, " of {}", members.collect::<Vec<_>>().join(", "))
            }
            NHA_BLACKHOLE => write!(rest, " to nowhere"),
            NHA_OIF => write!(rest, " by interface {}", u32_at(value, 0)),
            NHA_GATEWAY => write!(rest, " via {}", address(value)),
            _ => Ok(()),
        };
    }
    let what = if kind == RTM_DELNEXTHOP { "removed" } else { "set" };
    Some(format!("next hop {}{rest}: {what}", id?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().div_ceil(4) * 4, 0);
        bytes
    }

    #[test]
    fn routes_and_labels_are_told_in_words() {
        let mut ip = vec![2, 24, 0, 0, 100, 186, 0, 1, 0, 0, 0, 0];
        ip.extend(attribute(RTA_DST, &[10, 96, 2, 0]));
        ip.extend(attribute(RTA_GATEWAY, &[10, 0, 0, 2]));
        assert_eq!(words(RTM_NEWROUTE, &ip).unwrap(), "route 10.96.2.0/24 via 10.0.0.2 in table 100: set");
        let mut label = vec![MPLS, 20, 0, 0, 254, 193, 0, 1, 0, 0, 0, 0];
        label.extend(attribute(RTA_DST, &((17_u32 << 12) | (1 << 8)).to_be_bytes()));
        label.extend(attribute(RTA_VIA, &[2, 0, 10, 0, 0, 6]));
        assert_eq!(words(RTM_DELROUTE, &label).unwrap(), "route label 17 via 10.0.0.6: removed");
    }

    #[test]
    fn next_hops_that_routes_share_are_told() {
        let mut one = vec![2, 0, 11, 0, 0, 0, 0, 0];
        one.extend(attribute(NHA_ID, &12_u32.to_ne_bytes()));
        one.extend(attribute(NHA_OIF, &5_u32.to_ne_bytes()));
        one.extend(attribute(NHA_GATEWAY, &[10, 0, 0, 2]));
        assert_eq!(words(RTM_NEWNEXTHOP, &one).unwrap(), "next hop 12 by interface 5 via 10.0.0.2: set");
        let mut group = vec![0; NHMSG];
        group.extend(attribute(NHA_ID, &20_u32.to_ne_bytes()));
        let member = |id: u32| [id.to_ne_bytes(), [0; 4]].concat();
        group.extend(attribute(NHA_GROUP, &[member(12), member(13)].concat()));
        assert_eq!(words(RTM_DELNEXTHOP, &group).unwrap(), "next hop 20 of 12, 13: removed");
        let mut route = vec![2, 24, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0];
        route.extend(attribute(RTA_DST, &[10, 96, 2, 0]));
        route.extend(attribute(RTA_NH_ID, &12_u32.to_ne_bytes()));
        assert_eq!(words(RTM_NEWROUTE, &route).unwrap(), "route 10.96.2.0/24 (next hop 12): set");
    }

    #[test]
    fn damaged_news_are_left_out() {
        for length in 0..40 {
            let bytes = vec![0xff; length];
            let _ = (words(RTM_NEWROUTE, &bytes), words(RTM_NEWLINK, &bytes));
            let _ = words(RTM_NEWNEXTHOP, &bytes);
        }
        assert_eq!(words(RTM_NEWROUTE, &[]), None);
    }
}
