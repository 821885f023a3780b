//! Names and addresses, the same in every build of the same testbed.

use std::net::{IpAddr, Ipv4Addr};

use vtax_sys::netlink::Mac;

/// Network of the lab: 10.97.0.0/16. It exists only inside the lab's namespaces.
pub(crate) const PREFIX: u8 = 16;

/// Address of the host with this number, from 1 to 65,534.
pub(crate) const fn address(number: u16) -> IpAddr {
    let [high, low] = number.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, 97, high, low))
}

/// The network itself.
pub(crate) const fn network() -> IpAddr {
    address(0)
}

/// Prefix length of the networks between a client and its routers: parts of 10.99.0.0/16.
pub(crate) const HOP_PREFIX: u8 = 24;

/// Address in network `hop`, counted from the client, of a testbed in this slot: `end` is 1 on the client's
/// side and 2 on the other; 0 is the network itself.
pub(crate) const fn hop_address(slot: u16, hop: usize, end: u8) -> IpAddr {
    let third = (slot as u8) * 128 + (hop % 128) as u8;
    IpAddr::V4(Ipv4Addr::new(10, 99, third, end))
}

/// MAC address of the host with this number, locally administered (`02:`).
pub(crate) const fn mac(number: u16) -> Mac {
    let [high, low] = number.to_be_bytes();
    Mac([0x02, 0x76, 0x74, 0x00, high, low])
}

/// MAC address of the host with this address; `None` where it is no host's of the lab.
pub(crate) fn mac_of(of: IpAddr) -> Option<Mac> {
    let IpAddr::V4(of) = of else { return None };
    let [10, 97, high, low] = of.octets() else { return None };
    Some(mac(u16::from_be_bytes([high, low])))
}

/// MAC address of the lab's end of the cable to the host with this number.
pub(crate) const fn port_mac(number: u16) -> Mac {
    let [high, low] = number.to_be_bytes();
    Mac([0x02, 0x76, 0x74, 0x01, high, low])
}

/// MAC address of the switch with this number.
pub(crate) const fn switch_mac(number: u16) -> Mac {
    let [high, low] = number.to_be_bytes();
    Mac([0x02, 0x76, 0x74, 0x02, high, low])
}

/// Name of the lab's end of the cable to the host with this number.
pub(crate) fn port_name(number: u16) -> String {
    format!("p{number}")
}
